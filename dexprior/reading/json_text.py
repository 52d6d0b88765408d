"""JSON that others wrote: bounded in size and depth, integers within 64 bits, no key twice, no text that is none."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.errors import BadInput
from dexprior.reading.files import MAX_BYTES, read_bytes, text_of

__all__ = ["MAX_DEPTH", "parse_json", "parse_json_object", "read_json", "read_json_object"]

MAX_DEPTH = 64
"""Nested lists and objects; what walks the data afterwards recurses, and Python's stack ends near 1,000."""

# what may overflow 64 bits or a float; only then does every number pass through a function of ours
_LARGE = re.compile(rb"\d{19}|[eE]\+?\d{3}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(
    data: bytes | str, where: object, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH, nan: bool = False
) -> Any:
    """The plain data of a JSON text.

    Args:
        data: UTF-8, with or without a byte-order mark.
        where: names the source in messages.
        max_bytes: largest text.
        max_depth: most lists and objects within each other.
        nan: accept `NaN`, `Infinity` and `-Infinity`, which Python and JavaScript programs write and JSON does not
            know. They compare false with any limit: check `math.isfinite` first.

    Raises:
        BadInput: not UTF-8, not JSON, too large or too deep, a key that stands twice in an object, an integer beyond
            64 bits, a number beyond a float's range, a number that is not finite (unless `nan`), or half a surrogate
            pair, which no file could keep.
    """
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    if len(raw) > max_bytes:
        raise BadInput(f"{where} has {len(raw):,} bytes of JSON, at most {max_bytes:,} are read")
    text = text_of(raw, where)
    if not text.strip():
        raise BadInput(f"{where} is empty, expected JSON")
    if (depth := _depth(raw)) > max_depth:
        raise BadInput(f"{where} nests {depth} lists and objects within each other, at most {max_depth} are read")
    hooks: dict[str, Any] = {"parse_int": _int64, "parse_float": _float64} if _LARGE.search(raw) else {}
    if not nan:
        hooks["parse_constant"] = _refuse
    try:
        value = json.loads(text, object_pairs_hook=_unique, **hooks)
        if _SURROGATE.search(raw):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{where} holds half a surrogate pair, {error.object[error.start]!a}: not text") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{where} is not valid JSON, or it is truncated: {error}") from None
    except _Refused as error:
        raise BadInput(f"{where}: {error}") from None
    return value


def parse_json_object(data: bytes | str, where: object, **limits: Any) -> dict[str, Any]:
    """A JSON object; arguments and errors as `parse_json`, and BadInput for anything but an object."""
    return _object(parse_json(data, where, **limits), where)


def read_json(
    path: str | Path, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH, nan: bool = False, absent: str = ""
) -> Any:
    """The plain data of a JSON file; arguments as `parse_json`, `absent` as `dexprior.reading.files.existing`.

    Raises:
        BadInput: as `parse_json`, no such file, or it cannot be read.
    """
    data = read_bytes(path, max_bytes=max_bytes, absent=absent)
    return parse_json(data, path, max_bytes=max_bytes, max_depth=max_depth, nan=nan)


def read_json_object(path: str | Path, **limits: Any) -> dict[str, Any]:
    """The object in a JSON file; arguments and errors as `read_json`, and BadInput for anything but an object."""
    return _object(read_json(path, **limits), path)


class _Refused(Exception):
    """A value that the JSON grammar allows and this reader does not."""


def _object(value: Any, where: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"{where} holds {str(value)[:60]!r}, expected a JSON object")
    return value


def _depth(raw: bytes) -> int:
    """Most brackets that are open at once, outside of strings. Counted on the bytes: a parser would recurse first."""
    if raw.count(b"[") + raw.count(b"{") <= 1:
        return 1
    a = np.frombuffer(raw.replace(rb"\\", b"").replace(rb"\"", b""), np.uint8)
    outside = ~np.logical_xor.accumulate(a == ord('"'))
    step = ((a == ord("[")) | (a == ord("{"))).astype(np.int8) - ((a == ord("]")) | (a == ord("}"))).astype(np.int8)
    opened = step[outside & (step != 0)].cumsum(dtype=np.int64)
    return int(opened.max(initial=0))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Refused(f"the key {twice[:80]!r} stands twice in one object")
    return found


def _int64(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**63:
        raise _Refused(f"the integer {digits[:30]}{'...' if len(digits) > 30 else ''} does not fit into 64 bits")
    return int(digits)


def _float64(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _Refused(f"the number {digits[:30]}{'...' if len(digits) > 30 else ''} is beyond a float's range")
    return value


def _refuse(name: str) -> None:
    raise _Refused(f"{name} where only finite numbers may stand")
