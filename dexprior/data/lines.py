"""JSON lines that are only ever appended to, and survive a kill."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dexprior.errors import ArtifactError
from dexprior.reading import parse_json_object

__all__ = ["append_lines", "read_lines"]


def append_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Append one line a row, all of them in one write, and wait until they are on the disk."""
    with path.open("a") as stream:
        stream.write("".join(json.dumps(row) + "\n" for row in rows))
        stream.flush()
        os.fsync(stream.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All rows; a last line that a kill cut short is dropped (and cut off, so that appending goes on).

    Raises:
        ArtifactError: a damaged line before the last one.
    """
    lines = path.read_bytes().splitlines(keepends=True)
    rows = []
    for k, line in enumerate(lines):
        try:
            if not line.endswith(b"\n"):
                raise ValueError("no end of line")
            rows.append(parse_json_object(line, f"line {k + 1}", nan=True))
        except ValueError as error:
            if k < len(lines) - 1:
                raise ArtifactError(f"{path}, line {k + 1}: {error}") from None
            os.truncate(path, sum(len(whole) for whole in lines[:-1]))
    return rows
