"""What may be wrong with a file: by its kind, each a function of its bytes."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import yaml

__all__ = ["damages_of"]

Damage = Callable[[bytes], bytes | None]
"""Bytes -> other bytes; None makes a folder of the file."""

DEEP = b"[" * 3000 + b"]" * 3000
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256))
ANY: dict[str, Damage] = {
    "a folder": lambda data: None,
    "nothing": lambda data: b"",
    "a picture": lambda data: PNG,
    "zeros": lambda data: b"\0" * 700,
    "noise": lambda data: np.random.default_rng(0).bytes(900),
    "a web page": lambda data: b"<!DOCTYPE html><html><body>404; not, here</body></html>\n" * 5,
}
TEXT: dict[str, Damage] = {
    "UTF-16": lambda data: data.decode("utf-8-sig").encode("utf-16"),
    "latin1": lambda data: b"\xe9\xe8\xfc\n" + data,
    "a NUL": lambda data: data[: len(data) // 2] + b"\0" + data[len(data) // 2 :],
    "gzipped": gzip.compress,
}


def _json(change: Callable[[dict], object]) -> Damage:
    def damage(data: bytes) -> bytes:
        plain = json.loads(data)
        found = change(plain)
        return json.dumps(plain if found is None else found).encode()

    return damage


JSON: dict[str, Damage] = {
    "cut": lambda data: data[: len(data) // 2],
    "deep": lambda data: DEEP,
    "a deep entry": lambda data: data.rstrip()[:-1] + b', "x": ' + DEEP + b"}",
    "a huge integer": lambda data: data.rstrip()[:-1] + b', "x": 1' + b"0" * 400 + b"}",
    "beyond a float": lambda data: data.rstrip()[:-1] + b', "x": 1e999}',
    "a key twice": lambda data: data.rstrip()[:-1] + b', "zz": 1, "zz": 2}',
    "half a surrogate pair": lambda data: data.rstrip()[:-1] + b', "x": "\\ud800"}',
    "a list": lambda data: b"[" + data + b"]",
    "a number": lambda data: b"3",
    "null": lambda data: b"null",
    "two values": lambda data: data + data,
    "an empty object": lambda data: b"{}",
}
YAML: dict[str, Damage] = {
    "aliases of aliases": lambda data: b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n".encode() for a, b in zip("abcdefghi", "bcdefghij")
    ),
    "an alias of itself": lambda data: b"a: &a {b: *a}\n",
    "deep": lambda data: DEEP,
    "a list": lambda data: b"- 1\n- 2\n",
    "a word": lambda data: b"hello\n",
    "a key twice": lambda data: data + b"\nzz: 1\nzz: 2\n",
    "a program": lambda data: b"a: !!python/object/apply:os.system [true]\n",
    "not YAML": lambda data: data + b"\n: [",
    "two documents": lambda data: b"a: 1\n---\n" + data,
    "an unknown key": lambda data: data + b"\nqqq: {a: 1}\n",
    "a huge integer": lambda data: b"rate: 1" + b"0" * 5000,
}  # fmt: skip


def _cells(change: Callable[[list[str]], None], row: int) -> Damage:
    def damage(data: bytes) -> bytes:
        lines = data.decode().splitlines()
        at = min(row, len(lines) - 1)
        cells = lines[at].split(",")
        change(cells)
        lines[at] = ",".join(cells)
        return ("\n".join(lines) + "\n").encode()

    return damage


def _set(cell: str, at: int = -1) -> Callable[[list[str]], None]:
    def change(cells: list[str]) -> None:
        cells[at] = cell

    return change


CSV: dict[str, Damage] = {
    "semicolons": lambda data: data.replace(b",", b";"),
    "tabs": lambda data: data.replace(b",", b"\t"),
    "only a header": lambda data: data.splitlines()[0] + b"\n",
    "no header": lambda data: data.split(b"\n", 1)[1],
    "a column twice": lambda data: b",".join([data.split(b",")[0]] * 2) + b"\n1,2\n3,4\n",
    "a word": _cells(_set("north"), 3),
    "1_0": _cells(_set("1_0"), 3),
    "a cell too many": _cells(lambda cells: cells.append("7"), 3),
    "a cell too few": _cells(lambda cells: cells.pop(), 3),
    "not a number": _cells(_set("nan"), 3),
    "infinite": _cells(_set("inf"), 3),
    "1e300": _cells(_set("1e300"), 3),
    "1e999": _cells(_set("1e999"), 3),
    "an open quote": _cells(_set('"1'), 3),
    "a cell of a megabyte": _cells(_set("x" * 200_000), 3),
}


def _npy(shape: tuple, dtype: object, data: bytes) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue() + data


def _first(change: Callable[[np.ndarray], object]) -> Damage:
    """Every array of an archive of more than one number is changed."""

    def damage(data: bytes) -> bytes:
        with np.load(io.BytesIO(data)) as archive:
            arrays = dict(archive.items())
        made = {k: change(v) if v.size > 1 and v.dtype.kind in "if" else v for k, v in arrays.items()}
        stream = io.BytesIO()
        np.savez(stream, **made)
        return stream.getvalue()

    return damage


def _members(change: Callable[[dict[str, bytes]], object]) -> Damage:
    def damage(data: bytes) -> bytes:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        change(members)
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return stream.getvalue()

    return damage


def _replace_first(content: bytes) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        members[next(name for name in members if len(members[name]) > 200)] = content

    return change


NPZ: dict[str, Damage] = {
    "cut": lambda data: data[: len(data) // 2],
    "a single array": lambda data: _npy((2,), "<f8", b"\0" * 16),
    "a table": lambda data: b"a,b\n1,2\n",
    "objects": _first(lambda a: a.astype(object)),
    "text": _first(lambda a: a.astype(str)),
    "not a number": _first(lambda a: np.full(a.shape, np.nan)),
    "infinite": _first(lambda a: np.full(a.shape, np.inf)),
    "1e300": _first(lambda a: np.full(a.shape, 1e300)),
    "no rows": _first(lambda a: a[:0]),
    "a dimension more": _first(lambda a: a[None]),
    "a shape beyond the file": _members(_replace_first(_npy((10**13,), "<f8", b"\0" * 800))),
    "a bomb": _members(_replace_first(_npy((1 << 29,), "|u1", bytes(1 << 29)))),
    "an array that is missing": _members(lambda members: members.pop(next(iter(members)))),
    "no archive of arrays": _members(lambda members: members.update({"x.txt": b"hello"}) or members.pop(min(members))),
}
NPY: dict[str, Damage] = {
    "cut": lambda data: data[: len(data) // 2],
    "a shape beyond the file": lambda data: _npy((2, 10**13), "<f8", b"\0" * 800),
    "text": lambda data: _npy((2,), "<U4", b"\0" * 32),
    "another shape": lambda data: _npy((2,), "<f8", b"\0" * 16),
    "objects": lambda data: _npy((1,), "|O", pickle.dumps([1])),
    "a header that runs": lambda data: b"\x93NUMPY\x01\x00\x10\x00{'descr': print}",
}


class _Calls:
    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> tuple:
        return self.call


RECONSTRUCT = np.zeros(1).__reduce__()[0]
FORGED: dict[str, object] = {
    "a dtype with fields": _Calls(
        np.dtype, ("V8", False, True), (3, "|", None, ("a",), {"a": (np.dtype("f8"), 1 << 20)}, 8, 1, 0)
    ),
    "objects from bytes": _Calls(RECONSTRUCT, (np.ndarray, (0,), b"b"), (1, (4,), np.dtype("O"), False, b"\x10" * 32)),
    "more elements than bytes": _Calls(
        RECONSTRUCT, (np.ndarray, (0,), b"b"), (1, (1 << 30,), np.dtype("f8"), False, b"\0" * 8)
    ),
    "a program": _Calls(print, ("opened",)),
}
PICKLE: dict[str, Damage] = {
    "cut": lambda data: data[: len(data) // 2],
    "a list": lambda data: pickle.dumps([1, 2]),
    "a number": lambda data: pickle.dumps(3),
    **{
        name: (lambda data, value=value: pickle.dumps({"camMat": value}, protocol=2))  # type: ignore[misc]
        for name, value in FORGED.items()
    },
}
PICKLED: dict[str, Damage] = {
    name: (lambda data, value=value: _npy((), "|O", pickle.dumps(np.array(None, object)) + b"") if value is None else
           _npy((), "|O", pickle.dumps(value, protocol=2)))
    for name, value in FORGED.items()
}  # fmt: skip


def _tensors(change: Callable[[dict], object]) -> Damage:
    def damage(data: bytes) -> bytes:
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        found = change(header)
        text = found if isinstance(found, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + length :]

    return damage


def _entry(**values: object) -> Callable[[dict], None]:
    def change(header: dict) -> None:
        name = next(n for n in header if n != "__metadata__")
        header[name] |= values

    return change


def _meta(change: Callable[[dict], object]) -> Callable[[dict], None]:
    def changed(header: dict) -> None:
        meta = json.loads(header["__metadata__"]["dexprior"])
        change(meta)
        header["__metadata__"]["dexprior"] = json.dumps(meta)

    return changed


TENSORS: dict[str, Damage] = {
    "cut": lambda data: data[: len(data) // 2],
    "a length beyond the file": lambda data: struct.pack("<Q", 1 << 62) + data[8:],
    "a length of nothing": lambda data: struct.pack("<Q", 0) + data[8:],
    "a deep header": _tensors(lambda header: DEEP),
    "a list as a header": _tensors(lambda header: b"[1, 2]"),
    "no metadata": _tensors(lambda header: header.pop("__metadata__") and None),
    "another program's metadata": _tensors(lambda header: header.update(__metadata__={"format": "pt"})),
    "metadata that are no JSON": _tensors(lambda header: header.update(__metadata__={"dexprior": "{"})),
    "another schema": _tensors(_meta(lambda meta: meta["header"].update(schema="dexprior.other/1"))),
    "a schema that is a number": _tensors(_meta(lambda meta: meta["header"].update(schema=3))),
    "no tree": _tensors(_meta(lambda meta: meta.pop("tree") and None)),
    "a tree of a number": _tensors(_meta(lambda meta: meta.update(tree=7))),
    "a tree of an unknown type": _tensors(_meta(lambda meta: meta["tree"][0].update({"$type": "os.system"}))),
    "a field that is missing": _tensors(_meta(lambda meta: meta["tree"][0]["fields"].popitem() and None)),
    "a field that there is not": _tensors(_meta(lambda meta: meta["tree"][0]["fields"].update(zz=1))),
    "an array that is missing": _tensors(_meta(lambda m: m["tree"][0]["fields"].update(t={"$array": "zz"}))),
    "offsets beyond the file": _tensors(_entry(data_offsets=[0, 1 << 40])),
    "a shape of another size": _tensors(_entry(shape=[7, 7, 7])),
    "a type that there is not": _tensors(_entry(dtype="Q99")),
    "a shape that is text": _tensors(_entry(shape="big")),
}


def _flipped(share: float) -> Damage:
    return lambda data: data[: int(len(data) * share)] + b"\xff" * 40 + data[int(len(data) * share) + 40 :]


BINARY: dict[str, Damage] = {
    "its first bytes only": lambda data: data[:20],
    "other bytes at its beginning": _flipped(0.02),
    "its beginning, then zeros": lambda data: data[:16] + bytes(len(data)),
    "the end of it only": lambda data: data[len(data) // 2 :],
}


def _by_type(value: object) -> object:
    """A value of a type that cannot stand in place of this one."""
    return {"wrong": []} if not isinstance(value, dict) else [1]


def _fields(data: bytes, load: Callable[[bytes], object], dump: Callable[[object], str]) -> dict[str, Damage]:
    """One damage for every entry of the first two levels: another type in its place."""
    plain = load(data)
    paths: list[tuple[object, ...]] = []
    if isinstance(plain, dict):
        for key, value in plain.items():
            paths.append((key,))
            if isinstance(value, dict):
                paths += [(key, inner) for inner in list(value)[:6]]
            if isinstance(value, list) and value and isinstance(value[0], dict):
                paths += [(key, 0, inner) for inner in list(value[0])[:8]]

    def damage(path: tuple[object, ...]) -> Damage:
        def change(data: bytes) -> bytes:
            root = place = load(data)
            for part in path[:-1]:
                place = place[part]  # type: ignore[index]
            place[path[-1]] = _by_type(place[path[-1]])  # type: ignore[index]
            return dump(root).encode()

        return change

    return {f"another type in {'.'.join(map(str, path))}": damage(path) for path in paths}


def damages_of(name: str, data: bytes) -> dict[str, Damage]:
    """All that may be wrong with a file of this name and content."""
    kind = name.rpartition(".")[2]
    if name.endswith(".mano.npy"):
        return ANY | PICKLED
    if kind == "json":
        return ANY | TEXT | JSON | _fields(data, json.loads, json.dumps)
    if kind == "jsonl":
        return ANY | TEXT | {k: JSON[k] for k in ("deep", "a number", "null")}
    if kind in ("yaml", "yml"):
        return ANY | TEXT | YAML | _fields(data, yaml.safe_load, yaml.safe_dump)
    table = {
        "csv": ANY | TEXT | CSV,
        "npz": ANY | NPZ,
        "npy": ANY | NPY,
        "pkl": ANY | PICKLE,
        "safetensors": ANY | TENSORS,
    }
    return table.get(kind, ANY | BINARY)


def apply(damage: Damage, path: Path) -> None:
    """Put the damaged file in place of the whole one."""
    found = damage(path.read_bytes())
    path.unlink()
    if found is None:
        path.mkdir()
    else:
        path.write_bytes(found)
