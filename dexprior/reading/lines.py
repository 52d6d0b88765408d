"""JSON lines that others wrote: an object a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dexprior.reading.files import read_text
from dexprior.reading.json_text import parse_json_object

__all__ = ["read_lines"]


def read_lines(path: str | Path, *, absent: str = "") -> list[dict[str, Any]]:
    """The objects of a file, one a line; empty lines are left out.

    Raises:
        BadInput: no such file, not text, or a line that is no JSON object; names the line.
    """
    lines = read_text(path, absent=absent).split("\n")
    return [parse_json_object(line, f"{path}, line {k}") for k, line in enumerate(lines, start=1) if line.strip()]
