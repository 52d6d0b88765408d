"""Pickled plain data of foreign data sets (ARCTIC's `.npy` files of dicts, HO-3D's `.pkl`), by an allow-list.

A pickle can run any program that its writer liked. This reader lets it build dicts, lists, text, numbers and NumPy
arrays, and nothing else; `np.load(allow_pickle=True)` would let it do everything.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.errors import BadInput

__all__ = ["read_pickle", "read_pickled_array"]


def read_pickle(path: Path) -> Any:
    """The plain data of a `.pkl` file.

    Raises:
        BadInput: no such file, not a pickle, truncated, or it asks for anything but plain data.
    """
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    with path.open("rb") as stream:
        return _load(stream, path)


def read_pickled_array(path: Path) -> Any:
    """What `np.save` wrote: a plain array, or the one object of a pickled zero-dimensional one.

    Raises:
        BadInput: as `read_pickle`, or not a `.npy` file.
    """
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    with path.open("rb") as stream:
        try:
            version = np.lib.format.read_magic(stream)
            read_header = (
                np.lib.format.read_array_header_1_0 if version[0] == 1 else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = read_header(stream)
        except ValueError as error:
            raise BadInput(f"{path} is not a .npy file, or it is truncated: {error}") from None
        if not dtype.hasobject:
            stream.seek(0)
            try:
                return np.load(stream, allow_pickle=False)
            except (ValueError, EOFError) as error:
                raise BadInput(f"{path} is truncated: {error}") from None
        array = _load(stream, path)
    if not isinstance(array, np.ndarray) or array.shape != shape:
        raise BadInput(f"{path}: its pickle does not hold the array that its header promises")
    return array.item() if shape == () else array


def _encode(text: str, encoding: str) -> bytes:
    """`_codecs.encode`, which Python 3 writes for bytes in old protocols."""
    if encoding not in ("latin1", "latin-1"):
        raise BadInput(f"the pickle encodes text as {encoding!r}: not plain data")
    return text.encode("latin1")


def _frombuffer(data: bytes, dtype: np.dtype, shape: tuple[int, ...], order: str) -> np.ndarray:
    """`numpy.core.numeric._frombuffer`, which protocol 5 writes for contiguous arrays."""
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if order == "F" else "C")


def _allowed() -> dict[tuple[str, str], Callable[..., Any]]:
    from numpy._core import multiarray

    allowed: dict[tuple[str, str], Callable[..., Any]] = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): _encode,
    }
    for core in ("numpy.core", "numpy._core"):
        allowed[f"{core}.multiarray", "_reconstruct"] = multiarray._reconstruct
        allowed[f"{core}.multiarray", "scalar"] = multiarray.scalar
        allowed[f"{core}.numeric", "_frombuffer"] = _frombuffer
    return allowed


class _PlainUnpickler(pickle.Unpickler):
    def __init__(self, stream: io.BufferedIOBase, path: Path) -> None:
        super().__init__(stream, encoding="latin1")
        self.path, self.allowed = path, _allowed()

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.allowed:
            raise BadInput(
                f"{self.path} asks for the global {module}.{name}, which plain data does not need: it was not opened"
            )
        return self.allowed[module, name]


def _load(stream: io.BufferedIOBase, path: Path) -> Any:
    try:
        return _PlainUnpickler(stream, path).load()
    except BadInput:
        raise
    except (
        pickle.UnpicklingError,
        EOFError,
        UnicodeDecodeError,
        AttributeError,
        IndexError,
        TypeError,
        ValueError,
    ) as e:
        raise BadInput(f"{path} is not a pickle of plain data, or it is truncated: {e}") from None
