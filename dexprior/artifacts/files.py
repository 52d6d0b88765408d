"""Bytes, JSON and tensors on disk. Writing is atomic: a killed run leaves the old file or the new one."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from dexprior import reading
from dexprior.config import to_plain
from dexprior.errors import ArtifactError, BadInput
from dexprior.reading import as_described, entries, parse_json_object, shown, text

__all__ = [
    "file_hash",
    "pack_tensors",
    "read_json",
    "read_meta",
    "read_object",
    "read_tensors",
    "tensor_header",
    "unpack_tensors",
    "write_atomic",
    "write_json",
    "write_tensors",
]

_META = "dexprior"
_LONGEST_HEADER = 100_000_000  # [bytes]
_DEPTH = 200  # of metadata that we wrote: values within values, each some levels deep


_MADE_BY = {
    "actor.safetensors": "train-policy",
    "base.safetensors": "collision distill",
    "behavior.safetensors": "build-behavior",
    "collision.safetensors": "collision finetune",
    "conditions.safetensors": "sample",
    "dexprior.json": "train-prior",
    "estimator.safetensors": "demo",
    "hand.safetensors": "estimate-pose",
    "index.jsonl": "data import",
    "metadata.json": "data import videos=FOLDER",
    "policy.safetensors": "train-policy task=push",
    "samples.safetensors": "sample",
    "shapes.safetensors": "collision distill pairs=FOLDER",
}
"""Which verb writes a file of this name."""


def made_by(path: str | Path) -> str:
    """What a message about an absent file adds: which verb makes one, where its name tells."""
    verb = _MADE_BY.get(Path(path).name)
    return f"; `dexprior {verb}` makes it" if verb else ""


def write_atomic(path: str | Path, data: bytes) -> Path:
    """Write bytes so that a reader, or a kill, never sees half a file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError as error:  # a full disk does not say for which file
        raise type(error)(error.errno, error.strerror, str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)
    return path


def write_json(path: str | Path, value: Any) -> Path:
    """Write plain data or configuration as indented JSON, atomically; a file that says it already is left alone."""
    path, data = Path(path), (json.dumps(to_plain(value), indent=2) + "\n").encode()
    if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
        return path
    return write_atomic(path, data)


def write_tensors(path: str | Path, tensors: Mapping[str, np.ndarray], meta: dict[str, Any]) -> Path:
    """Write arrays and JSON metadata as one safetensors file, atomically."""
    return write_atomic(path, pack_tensors(tensors, meta))


def pack_tensors(tensors: Mapping[str, np.ndarray], meta: dict[str, Any]) -> bytes:
    """The bytes of that file."""
    from safetensors.numpy import save as dump

    contiguous = {k: np.asarray(v, order="C") for k, v in tensors.items()}  # keeps arrays without axes as they are
    return dump(contiguous, metadata={_META: json.dumps(meta)})


def read_tensors(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `write_tensors` wrote.

    Raises:
        ArtifactError: missing, truncated or foreign file.
    """
    path = Path(path)
    meta, _ = read_meta(path)
    return unpack_tensors(path.read_bytes(), path), meta


def unpack_tensors(data: bytes, where: object) -> dict[str, np.ndarray]:
    """The arrays in a file's bytes.

    Raises:
        ArtifactError: truncated or damaged; `where` names the file.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load as parse

    try:
        return parse(data)
    except (SafetensorError, ValueError, TypeError) as error:
        raise ArtifactError(f"{where} is truncated or damaged: {' '.join(str(error).split())}") from None
    except KeyError as error:  # a type of numbers that NumPy has not
        raise ArtifactError(f"{where} holds numbers of the type {error}: it is another program's file") from None


def read_meta(
    path: Path, *, offset: int = 0, where: object | None = None
) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Metadata of a file (or of one that begins at `offset` of it), and the shapes of its arrays, without reading them.

    Raises:
        ArtifactError: missing, truncated or foreign file; `where` names it if the path does not.
    """
    where = path if where is None else where
    if not path.is_file():
        raise ArtifactError(f"{where}: no such file{made_by(path)}")
    with path.open("rb") as stream, as_described("a dexprior file, or it is truncated", where, ArtifactError):
        stream.seek(offset)
        try:
            header, _ = tensor_header(stream)
            about = entries(header.pop("__metadata__", None), (_META,), where)[0]
            meta = parse_json_object(text(about, where), f"{where}: metadata", max_depth=_DEPTH, nan=True)
            return meta, {name: list(entries(entry, ("shape",), where)[0]) for name, entry in header.items()}
        except BadInput as error:
            raise ArtifactError(f"{where} is not a dexprior file, or it is truncated: {error}") from None


def tensor_header(stream: IO[bytes]) -> tuple[dict[str, Any], int]:
    """The JSON header of a safetensors file from the stream's position on, and its length [bytes].

    Raises:
        BadInput: there is none.
    """
    start = stream.read(8)
    (length,) = struct.unpack("<Q", start) if len(start) == 8 else (0,)
    if not 2 <= length <= _LONGEST_HEADER:
        raise BadInput(f"no header of safetensors: it begins with {start!r}")
    return parse_json_object(stream.read(length), "its header", max_bytes=_LONGEST_HEADER), 8 + length


def file_hash(path: str | Path) -> str:
    """Sixteen hex digits of a file's SHA-256.

    Raises:
        ArtifactError: no such file.
    """
    if not Path(path).is_file():
        raise ArtifactError(f"{path}: no such file{made_by(path)}")
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


def read_json(path: str | Path) -> Any:
    """Read what `write_json` wrote; NaN and infinity are allowed, since it writes them.

    Raises:
        BadInput: it is none.
    """
    return reading.read_json(path, nan=True)


def read_object(
    path: str | Path, what: str = "a file of dexprior", *, schema: str | None = None, absent: str = ""
) -> dict[str, Any]:
    """The object in a JSON file that an earlier run of dexprior wrote.

    Args:
        path: the file.
        what: it is, in messages.
        schema: what its `schema`, or that of its `header`, must be.
        absent: what makes the file, said where it does not exist or is of another schema.

    Raises:
        ArtifactError: missing, damaged, no object, or of another schema.
    """
    try:
        data = reading.read_json_object(path, nan=True, absent=absent)
    except BadInput as error:
        raise ArtifactError(f"{error}: it is not {what}" if Path(path).is_file() else str(error)) from None
    if schema is not None:
        header = data.get("header")
        found = header.get("schema") if isinstance(header, dict) else data.get("schema")
        if found != schema:
            again = f". {absent}" if absent else ""
            raise ArtifactError(f"{path} is not {what}: it holds {shown(found)}, this version reads {schema!r}{again}")
    return data
