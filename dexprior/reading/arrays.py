"""NumPy's files: one array (`.npy`) or an archive of them (`.npz`), of plain numbers and text, as long as they say."""

from __future__ import annotations

import lzma
import math
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from dexprior.errors import BadInput
from dexprior.reading.files import existing, most_unpacked

__all__ = ["array_of", "npy_header", "read_npy", "read_npz"]

_PLAIN = "biufcSU"


def read_npy(path: str | Path, *axes: int | None, absent: str = "") -> np.ndarray:
    """A `.npy` file of plain numbers; nothing is unpickled.

    Args:
        path: the file.
        axes: expected shape, None for any length; any shape when omitted.
        absent: as `dexprior.reading.files.existing`.

    Raises:
        BadInput: no such file, damaged, of objects, shorter or longer than its header says, or of another shape.
    """
    path = existing(path, absent=absent)
    try:
        with path.open("rb") as stream:
            array = _array(stream, path.stat().st_size, path)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None
    if axes and (array.ndim != len(axes) or any(n not in (None, m) for n, m in zip(axes, array.shape))):
        said = ", ".join("any" if n is None else str(n) for n in axes)
        raise BadInput(f"{path} has shape {array.shape}, expected ({said})")
    return array


def read_npz(path: str | Path, names: Sequence[str] | None = None, *, absent: str = "") -> dict[str, np.ndarray]:
    """Arrays of an archive; nothing is unpickled.

    Args:
        path: the file.
        names: those that are needed, and read; all when omitted.
        absent: as `dexprior.reading.files.existing`.

    Raises:
        BadInput: missing, truncated or damaged, not an archive of plain arrays, an array that it lacks or has twice,
            or one that unpacks to far more than its size.
    """
    path = existing(path, absent=absent)
    try:
        with path.open("rb") as stream:
            if stream.read(6) == b"\x93NUMPY":
                raise BadInput(f"{path} is a single array, expected an .npz archive")
        with zipfile.ZipFile(path) as archive:
            return _members(archive, path, names)
    except BadInput:
        raise
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError) as error:
        raise BadInput(f"{path} is not an archive of plain arrays, or it is truncated or damaged: {error}") from None


def npy_header(stream: IO[bytes], where: object) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and dtype at the beginning of a `.npy` file.

    Raises:
        BadInput: not one, or a shape that no array has.
    """
    try:
        version = np.lib.format.read_magic(stream)
        known = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in known:
            raise ValueError(f"format version {version}")
        shape, fortran, dtype = known[version](stream)
    except (ValueError, TypeError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError) as error:
        raise BadInput(f"{where} is not a .npy file, or it is truncated: {' '.join(str(error).split())}") from None
    if len(shape) > 16 or any(isinstance(n, bool) or n < 0 for n in shape):
        raise BadInput(f"{where} has the shape {str(shape)[:60]}, which no array has")
    return shape, fortran, dtype


def array_of(data: bytearray, dtype: np.dtype[Any], shape: tuple[int, ...], fortran: Any, where: object) -> np.ndarray:
    """An array that owns these bytes, which are as many as its dtype and shape need.

    Raises:
        BadInput: a dtype of no bytes, or a shape that NumPy cannot hold, such as none of 10**18 rows.
    """
    try:
        return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{where} holds {str(shape)[:60]} of {dtype}, which no array can be: {error}") from None


def _members(archive: zipfile.ZipFile, path: Path, names: Sequence[str] | None) -> dict[str, np.ndarray]:
    infos = archive.infolist()
    held = [info.filename.removesuffix(".npy") for info in infos]
    if twice := {name for name in held if held.count(name) > 1} if len(set(held)) < len(held) else set():
        raise BadInput(f"{path} holds {min(twice)!r} twice")
    for name in names or ():
        if name not in held:
            raise BadInput(f"{path} holds no {name!r}; it has: {', '.join(held) or 'nothing'}")
    chosen = [info for info, name in zip(infos, held) if names is None or name in names]
    unpacked = sum(info.file_size for info in chosen)
    if unpacked > (most := most_unpacked(path.stat().st_size)):
        raise BadInput(f"{path} unpacks to {unpacked:,} bytes, at most {most:,} are read")
    found = {}
    for info in chosen:
        if not info.filename.endswith(".npy"):
            raise BadInput(f"{path} holds {info.filename!r}: not an archive of plain arrays")
        with archive.open(info) as stream:
            found[info.filename.removesuffix(".npy")] = _array(
                stream, info.file_size, f"{path}: {info.filename}", "an archive of plain arrays"
            )
    return {name: found[name] for name in names} if names is not None else found


def _array(stream: IO[bytes], size: int, where: object, kind: str = "an array of plain numbers or text") -> np.ndarray:
    """The array in the next `size` bytes, once they are known to be as many as it needs."""
    start = stream.tell()
    shape, fortran, dtype = npy_header(stream, where)
    if dtype.kind not in _PLAIN or dtype.hasobject or dtype.names is not None or dtype.subdtype is not None:
        raise BadInput(f"{where} holds {dtype}: not {kind}")
    needed, left = math.prod(shape) * dtype.itemsize, size - (stream.tell() - start)
    if needed != left:
        raise BadInput(f"{where} is truncated or damaged: {shape} of {dtype} are {needed} bytes, there are {left}")
    data = bytearray(needed)
    view = memoryview(data)
    while view and (got := stream.readinto(view)):  # type: ignore[attr-defined]
        view = view[got:]
    if view:
        raise BadInput(f"{where} is truncated: {len(view)} of {needed} bytes are missing")
    return array_of(data, dtype, shape, fortran, where)
