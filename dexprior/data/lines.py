"""JSON lines that are only ever appended to, and survive a kill."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dexprior.errors import ArtifactError, BadInput
from dexprior.reading import parse_json_object, read_bytes

__all__ = ["append_lines", "read_index_lines"]


def append_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Append one line a row, all of them in one write, and wait until they are on the disk.

    Half a last line, which a kill left, is cut off first.
    """
    if path.is_file() and path.stat().st_size:
        with path.open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            whole = stream.read(1) == b"\n"  # of a long index, only half a line is worth reading all
        if not whole:
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
    with path.open("a") as stream:
        stream.write("".join(json.dumps(row) + "\n" for row in rows))
        stream.flush()
        os.fsync(stream.fileno())


def read_index_lines(path: Path) -> list[dict[str, Any]]:
    """All rows; half a last line, which a kill left, is not one. The file stays as it is.

    Raises:
        ArtifactError: no such file, or a line that is no JSON object; half a line alone must begin as one.
    """
    try:
        lines = read_bytes(path).split(b"\n")
    except BadInput as error:
        raise ArtifactError(str(error)) from None
    half = lines.pop().strip()
    if half and not lines and not half.startswith(b"{"):
        raise ArtifactError(f"{path} begins with {half[:20]!r}, which is not the beginning of a JSON object")
    rows = []
    for k, line in enumerate(lines, start=1):
        try:
            rows.append(parse_json_object(line, "it", nan=True))
        except BadInput as error:
            raise ArtifactError(f"{path}, line {k}: {error}") from None
    return rows
