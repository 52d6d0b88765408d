"""`.npz` archives of plain arrays, as the measured records come in."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from dexprior.errors import BadInput

__all__ = ["read_npz"]


def read_npz(path: Path, *, absent: str) -> dict[str, np.ndarray]:
    """All arrays of an archive; nothing is unpickled.

    Args:
        path: the file.
        absent: what to say where it does not exist.

    Raises:
        BadInput: missing, truncated or damaged, or not an archive of plain arrays.
    """
    if not path.is_file():
        raise BadInput(f"{path}: no such file. {absent}")
    try:
        archive, found = np.load(path, allow_pickle=False), None
        if isinstance(archive, np.lib.npyio.NpzFile):
            with archive:
                found = dict(archive.items())
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise BadInput(f"{path} is truncated or damaged: {error}") from None
    except ValueError as error:
        raise BadInput(f"{path} is not an .npz archive of plain arrays: {error}") from None
    if found is None:
        raise BadInput(f"{path} is a single array, expected an .npz archive")
    return found
