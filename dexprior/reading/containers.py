"""HDF5 and parquet files that others wrote: nothing outside of the file is read, and no more than it can hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.errors import BadInput
from dexprior.reading.files import existing, most_unpacked

__all__ = ["hdf5_array", "hdf5_dataset", "hdf5_group", "hdf5_text", "opened_hdf5", "read_parquet"]


@contextmanager
def opened_hdf5(path: str | Path, *, kind: str = "a file of this format") -> Iterator[Any]:
    """An HDF5 file, open for reading; what is wrong with what is read inside becomes one error.

    Raises:
        BadInput: no such file, not HDF5, truncated, or something in it that is missing or damaged.
    """
    import h5py

    path = existing(path)
    try:
        with h5py.File(path, "r") as file:
            yield file
    except BadInput:
        raise
    except OSError as error:
        raise BadInput(f"{path} is not an HDF5 file, or it is truncated or damaged: {_line(error)}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is not {kind}, or it is damaged: {_line(error)}") from None


def hdf5_group(parent: Any, name: str, where: object) -> Any:
    """A group within a file or group.

    Raises:
        BadInput: there is none, it is something else, or a link to another file.
    """
    import h5py

    found = _member(parent, name, where)
    if not isinstance(found, h5py.Group):
        raise BadInput(f"{where}: {name!r} is a data set, expected a group")
    return found


def hdf5_dataset(parent: Any, name: str, where: object) -> Any:
    """A data set of numbers within a group, not yet read.

    Raises:
        BadInput: there is none, or it is something else, or it keeps its numbers in other files, or is far larger than
            the file that holds it.
    """
    import h5py

    found = _member(parent, name, where)
    if not isinstance(found, h5py.Dataset) or found.shape is None or found.dtype.kind not in "biuf":
        what = f"of {found.dtype}" if isinstance(found, h5py.Dataset) else "a group"
        raise BadInput(f"{where}: {name!r} is {what}, expected a data set of numbers")
    if found.is_virtual or found.external:
        raise BadInput(f"{where}: {name!r} keeps its numbers in another file: it is not read")
    size, most = math.prod(found.shape) * found.dtype.itemsize, most_unpacked(Path(found.file.filename).stat().st_size)
    if size > most:
        raise BadInput(f"{where}: {name!r} of shape {found.shape} has {size:,} bytes, at most {most:,} are read")
    return found


def hdf5_array(parent: Any, name: str, where: object) -> np.ndarray:
    """The numbers of a data set; errors as `hdf5_dataset`."""
    return np.asarray(hdf5_dataset(parent, name, where)[()])


def hdf5_text(owner: Any, name: str, where: object, default: str | None = None) -> str:
    """An attribute that is a text.

    Raises:
        BadInput: there is none (and no default), or it is something else.
    """
    value = owner.attrs.get(name, default)
    if isinstance(value, bytes):
        value = value.decode()
    if not isinstance(value, str):
        raise BadInput(f"{where}: the attribute {name!r} is {str(value)[:60]!r}, expected a text")
    return value


def read_parquet(
    path: str | Path, filters: list[tuple[str, str, Any]] | None = None, columns: Sequence[str] | None = None
) -> Any:
    """A parquet file as a pyarrow table; of its columns those that are named, where they are.

    Raises:
        BadInput: no such file, not parquet, truncated, or far larger than its file once it is unpacked.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = existing(path)
    try:
        with pq.ParquetFile(path) as file:
            about = file.metadata
            size = sum(about.row_group(k).total_byte_size for k in range(about.num_row_groups))
        if size > (most := most_unpacked(path.stat().st_size)):
            raise BadInput(f"{path} unpacks to {size:,} bytes, at most {most:,} are read")
        table = pq.read_table(path, filters=filters, columns=columns, partitioning=None)
        _ = table.column_names  # text that pyarrow decodes when it is asked for
        return table
    except BadInput:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path} is not a parquet file, or it is truncated: {_line(error)}") from None


def _member(parent: Any, name: str, where: object) -> Any:
    import h5py

    step = parent
    for part in name.split("/"):
        link = step.get(part, getlink=True) if isinstance(step, h5py.Group) else None
        if link is None:
            held = ", ".join(list(step)[:20]) if isinstance(step, h5py.Group) else ""
            raise BadInput(f"{where} holds no {name!r}; it has: {held or 'nothing'}")
        if isinstance(link, h5py.ExternalLink):
            raise BadInput(f"{where}: {name!r} is a link to the file {link.filename!r}: it is not followed")
        try:
            step = step[part]
        except (KeyError, OSError) as error:
            raise BadInput(f"{where}: {name!r} leads nowhere: {_line(error)}") from None
        if step.file.filename != parent.file.filename:  # a soft link through an external one
            raise BadInput(f"{where}: {name!r} leads to another file: it is not followed")
    return step


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
