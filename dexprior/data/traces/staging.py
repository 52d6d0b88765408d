"""Files and folders that appear whole or not at all, and never in place of others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dexprior.errors import BadInput

__all__ = ["check_free", "staged"]


def check_free(out: Path) -> None:
    """Nothing lies at `out`, and something can be put there; folders above it are made.

    Raises:
        BadInput: it exists, or what should be its folder is a file.
    """
    if out.exists():
        raise BadInput(f"{out} exists: a recording is never overwritten; give another name, or remove it")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise BadInput(f"{out}: what should be its folder is a file") from None


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """Path of the same name in a hidden folder beside `out`: moved there at the end, removed after an error.

    Raises:
        BadInput: as `check_free`.
    """
    check_free(out)
    folder = out.with_name(f".{out.name}.{os.getpid()}.partial")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder / out.name
        os.rename(folder / out.name, out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
