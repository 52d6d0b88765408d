"""Pickles of plain data, by an allow-list and by arrays that are built here.

A pickle can run any program that its writer liked, and an allow-list of NumPy's own functions is not enough: a dtype
whose state the pickle forges makes NumPy read beyond its buffers, or follow an address from the file. So no object of
NumPy is ever given to the pickle. Its dtypes are texts that are looked up (`<f8`), its arrays are shape and bytes, kept
until the pickle has ended and then built, if they are as long as they say. Python's own unpickler is used: the one in C
makes room for as many entries of its memo as a pickle of ten bytes asks for.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.errors import BadInput
from dexprior.reading.arrays import array_of, npy_header
from dexprior.reading.fields import shown
from dexprior.reading.files import read_bytes
from dexprior.reading.json_text import MAX_DEPTH

__all__ = ["Stub", "read_pickle", "read_pickled_npy"]

MAX_NODES = 10_000_000
"""Values, each counted as often as the data show it."""
_DTYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|c8|c16|S[1-9]\d{0,5}|U[1-9]\d{0,5}|O8?|\?)")
_DAMAGE = (
    pickle.UnpicklingError, EOFError, AttributeError, AssertionError, LookupError, TypeError, ValueError, OverflowError,
    MemoryError, struct.error,
)  # fmt: skip


class Stub:
    """Holds the state of an object whose class is not available; runs no code of it."""

    def __init__(self, *_: object) -> None:
        self.state: dict[str, Any] = {}

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise BadInput(f"the state of a {type(self).__name__} is {shown(state)}, expected named entries")
        self.state = state


def read_pickle(path: str | Path, *, stubs: Mapping[tuple[str, str], type[Stub]] | None = None) -> Any:
    """The plain data of a `.pkl` file: dicts, lists, tuples, text, bytes, numbers and arrays.

    Args:
        path: the file.
        stubs: what stands for classes by module and name; their objects come back with their state.

    Raises:
        BadInput: no such file, not a pickle, truncated, it asks for anything but plain data, a dtype or an array that
            is not as it says, data within themselves, nested too deeply, or beyond 64 bits.
    """
    return _load(read_bytes(path, max_bytes=1 << 31), path, stubs or {})


def read_pickled_npy(path: str | Path) -> Any:
    """What `np.save` wrote: a plain array, or the one object of a pickled zero-dimensional one.

    Raises:
        BadInput: as `read_pickle`, or not a `.npy` file.
    """
    data = read_bytes(path, max_bytes=1 << 31)
    stream = io.BytesIO(data)
    shape, fortran, dtype = npy_header(stream, path)
    rest = data[stream.tell() :]
    if not dtype.hasobject:
        return _built(path, str(dtype.str), shape, fortran, rest)
    array = _load(rest, path, {})
    if not isinstance(array, np.ndarray) or array.shape != shape:
        raise BadInput(f"{path}: its pickle does not hold the array that its header promises")
    return array.item() if shape == () else array


class _Global:
    """A function that a pickle may call, and may not change."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise BadInput("it changes a function, which plain data does not need")


class _Dtype:
    """A plain dtype, by its text."""

    __slots__ = ("code",)

    def __init__(self, code: Any, *_: Any) -> None:
        if not isinstance(code, str) or _DTYPE.fullmatch(code) is None:
            raise BadInput(f"it holds the dtype {shown(code)}: not a plain one")
        self.code = code

    def __setstate__(self, state: Any) -> None:
        """Take the byte order; what else a dtype's state may hold is refused."""
        plain = isinstance(state, tuple) and len(state) in (8, 9) and state[1] in ("<", ">", "|", "=")
        if not plain or any(part is not None for part in state[2:5]) or (len(state) == 9 and state[8]):
            raise BadInput(f"it holds a dtype {self.code!r} with fields or a shape: not a plain one")
        size = np.dtype(self.code).itemsize
        if state[5] not in (-1, size) or not isinstance(state[6], int) or not -1 <= state[6] <= 16:
            raise BadInput(f"it holds a dtype {self.code!r} of {shown(state[5])} bytes: not a plain one")
        self.code = state[1] + self.code.lstrip("<>|=")


class _Array:
    """An array before it is built."""

    __slots__ = ("data", "dtype", "fortran", "scalar", "shape")

    def __init__(self) -> None:
        self.shape: Any = None
        self.dtype: Any = None
        self.fortran: Any = False
        self.data: Any = b""
        self.scalar = False

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise BadInput(f"it holds an array with the state {shown(state)}")
        _, self.shape, self.dtype, self.fortran, self.data = state


def _reconstruct(kind: Any, shape: Any, code: Any) -> _Array:
    """`numpy.core.multiarray._reconstruct`, which makes an array whose state follows."""
    if kind is not _NDARRAY:
        raise BadInput("it reconstructs something else than an array")
    return _Array()


def _scalar(dtype: Any, data: Any = b"") -> _Array:
    """`numpy.core.multiarray.scalar`."""
    made = _Array()
    made.shape, made.dtype, made.data, made.scalar = (), dtype, data, True
    return made


def _frombuffer(data: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    """`numpy.core.numeric._frombuffer`, which protocol 5 writes for contiguous arrays."""
    made = _Array()
    made.shape, made.dtype, made.data, made.fortran = shape, dtype, data, order == "F"
    return made


def _encode(text: Any, encoding: Any) -> bytes:
    """`_codecs.encode`, which Python 3 writes for bytes in old protocols."""
    if encoding not in ("latin1", "latin-1") or not isinstance(text, str):
        raise BadInput(f"it encodes text as {shown(encoding)}: not plain data")
    return text.encode("latin1")


def _object_of(kind: Any, base: Any, state: Any) -> Any:
    """`copyreg._reconstructor`, for stubs only."""
    if not (isinstance(kind, type) and issubclass(kind, Stub)) or base is not _OBJECT:
        raise BadInput(f"it reconstructs {shown(kind)}: not plain data")
    return kind()


_NDARRAY = _Global(lambda *_: _refuse_call("numpy.ndarray"))
_OBJECT = _Global(lambda *_: _refuse_call("object"))


def _refuse_call(name: str) -> None:
    raise BadInput(f"it calls {name}, which plain data does not need")


_PLAIN: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _Global(_Dtype),
    ("_codecs", "encode"): _Global(_encode),
    ("__builtin__", "bytes"): _Global(lambda: b""),  # how old protocols write empty bytes
    ("builtins", "bytes"): _Global(lambda: b""),
}
for _core in ("numpy.core", "numpy._core"):
    _PLAIN[f"{_core}.multiarray", "_reconstruct"] = _Global(_reconstruct)
    _PLAIN[f"{_core}.multiarray", "scalar"] = _Global(_scalar)
    _PLAIN[f"{_core}.numeric", "_frombuffer"] = _Global(_frombuffer)
_OBJECTS: dict[tuple[str, str], Any] = {
    ("copy_reg", "_reconstructor"): _Global(_object_of),
    ("copyreg", "_reconstructor"): _Global(_object_of),
    ("__builtin__", "object"): _OBJECT,
    ("builtins", "object"): _OBJECT,
}


_Python: Any = pickle._Unpickler  # type: ignore[attr-defined]  # type checkers know the one in C only


class _Unpickler(_Python):
    dispatch = dict(_Python.dispatch)  # noqa: RUF012  # Python's own attribute

    def __init__(self, data: bytes, allowed: Mapping[tuple[str, str], Any]) -> None:
        super().__init__(io.BytesIO(data), encoding="latin1")
        self.allowed, self.size = allowed, len(data)

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.allowed:
            raise BadInput(f"it asks for the global {module}.{name}, which plain data does not need: it was not opened")
        return self.allowed[module, name]

    def load_bytearray8(self) -> None:
        (length,) = struct.unpack("<Q", self.read(8))
        if length > self.size:  # Python's own makes room first
            raise BadInput(f"it holds {length:,} bytes in a file of {self.size:,}: it is truncated or damaged")
        self.append(bytearray(self.read(length)))

    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8


def _load(data: bytes, path: str | Path, stubs: Mapping[tuple[str, str], type[Stub]]) -> Any:
    allowed = {**_PLAIN, **(_OBJECTS if stubs else {}), **stubs}
    try:
        return _finished(_Unpickler(data, allowed).load(), path)
    except BadInput as error:
        said = str(error)
        raise BadInput(said if str(path) in said else f"{path}: {said}") from None
    except _DAMAGE as error:
        said = " ".join(str(error).split())[:200]
        raise BadInput(f"{path} is not a pickle of plain data, or it is truncated: {said}") from None


def _built(where: object, code: str, shape: Any, fortran: Any, data: Any) -> np.ndarray:
    """An array from its bytes, if there are as many as it needs."""
    if not isinstance(shape, tuple) or len(shape) > 16 or any(type(n) is not int or n < 0 for n in shape):
        raise BadInput(f"{where} holds an array of shape {shown(shape)}")
    dtype, count = np.dtype(code), math.prod(shape)
    raw = data.encode("latin1") if isinstance(data, str) else data
    if not isinstance(raw, (bytes, bytearray)) or len(raw) != count * dtype.itemsize:
        found = f"{len(raw)} bytes" if isinstance(raw, (bytes, bytearray)) else shown(raw)
        raise BadInput(
            f"{where} is truncated or damaged: {shape} of {dtype} need {count * dtype.itemsize} bytes, {found}"
        )
    return array_of(bytearray(raw), dtype, shape, fortran, where)


def _finished(root: Any, path: str | Path) -> Any:
    """The data with every array built; what is shared stays shared, and counts as often as it is shown."""
    done: dict[int, tuple[Any, int]] = {}
    begun: set[int] = set()

    def finish(value: Any, depth: int) -> tuple[Any, int]:
        if isinstance(value, (bool, float, complex, bytes, bytearray, type(None))):
            return value, 1
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                raise BadInput("it holds an integer that does not fit into 64 bits")
            return value, 1
        if isinstance(value, str):
            value.encode()  # half a surrogate pair is a ValueError
            return value, 1
        if id(value) in done:
            return done[id(value)]
        if id(value) in begun:
            raise BadInput("it holds data within themselves")
        if depth > MAX_DEPTH:
            raise BadInput(f"it nests more than {MAX_DEPTH} values within each other")
        begun.add(id(value))
        weight = 1

        def part(item: Any) -> Any:
            nonlocal weight
            made, more = finish(item, depth + 1)
            weight += more
            if weight > MAX_NODES:
                raise BadInput(f"it stands for more than {MAX_NODES:,} values")
            return made

        made: Any
        if isinstance(value, dict):
            made = {part(key): part(item) for key, item in value.items()}
        elif isinstance(value, (list, tuple)):
            made = type(value)([part(item) for item in value])
        elif isinstance(value, _Array):
            made = _array(value, path, part)
        elif isinstance(value, Stub):
            value.state = part(value.state)
            made = value
        else:
            raise BadInput(f"it holds a {type(value).__name__.strip('_')}: not plain data")
        done[id(value)] = made, weight
        begun.discard(id(value))
        return done[id(value)]

    return finish(root, 0)[0]


def _array(value: _Array, path: str | Path, part: Callable[[Any], Any]) -> Any:
    if not isinstance(value.dtype, _Dtype):
        raise BadInput(f"it holds an array of the dtype {shown(value.dtype)}: not a plain one")
    if not value.dtype.code.lstrip("<>|=").startswith("O"):
        array = _built(path, value.dtype.code, value.shape, value.fortran, value.data)
        return array[()] if value.scalar else array
    if not isinstance(value.data, list) or value.scalar:  # what would be addresses
        raise BadInput("it holds an array of objects that is no list of them")
    shape = value.shape
    if (
        not isinstance(shape, tuple)
        or any(type(n) is not int or n < 0 for n in shape)
        or math.prod(shape) != len(value.data)
    ):
        raise BadInput(f"it holds {len(value.data)} objects for an array of shape {shown(shape)}")
    made = np.empty(len(value.data), dtype=object)
    for k, item in enumerate(value.data):
        made[k] = part(item)
    return made.reshape(shape, order="F" if value.fortran else "C")
