"""CSV tables that others wrote: one header, rows of its width, numbers that are some."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.reading.fields import shown
from dexprior.reading.files import read_text

__all__ = ["TIMES", "Table", "parse_csv", "read_csv", "time_column", "to_number"]

TIMES = {
    **dict.fromkeys(("t", "time", "timestamp", "seconds", "time_s", "timestamp_s"), 1.0),
    **dict.fromkeys(("t_ms", "time_ms", "timestamp_ms", "ms"), 1e-3),
    **dict.fromkeys(("t_us", "time_us", "timestamp_us"), 1e-6),
    **dict.fromkeys(("t_ns", "time_ns", "timestamp_ns"), 1e-9),
}
"""Names of columns that hold times, and their units [s]."""


@dataclass(frozen=True)
class Table:
    """Cells as they stand in the file, without spaces around them."""

    where: str
    """Names the file in messages."""
    columns: list[str]
    rows: list[list[str]]
    lines: list[int]
    """Line numbers in the file, one a row; the first line is 1."""

    def needs(self, names: Sequence[str]) -> None:
        """Check that columns are there.

        Raises:
            BadInput: one is missing; the message lists those that there are.
        """
        if missing := [name for name in names if name not in self.columns]:
            raise BadInput(f"{self.where}: no column {', '.join(missing)}; it has: {_listed(self.columns)}")

    def column(self, name: str) -> list[str]:
        """The cells of a column; errors as `needs`."""
        self.needs([name])
        at = self.columns.index(name)
        return [row[at] for row in self.rows]

    def numbers(self, name: str, *, empty: float | None = None) -> Float[np.ndarray, " row"]:
        """A column as numbers, which need not be finite.

        Args:
            name: of the column.
            empty: what an empty cell means; it is refused when omitted.

        Raises:
            BadInput: no such column, or a cell that is no number; names the line.
        """
        values = np.empty(len(self.rows))
        for k, cell in enumerate(self.column(name)):
            try:
                values[k] = empty if empty is not None and not cell else to_number(cell)
            except ValueError:
                raise BadInput(f"{self.where}, line {self.lines[k]}: {name} is {shown(cell)}, not a number") from None
        return values

    def records(self) -> list[dict[str, str]]:
        """Rows by column."""
        return [dict(zip(self.columns, row)) for row in self.rows]


def read_csv(path: str | Path, *, absent: str = "") -> Table:
    """Read a table in UTF-8, with or without a byte-order mark; arguments and errors as `parse_csv` and `read_text`."""
    return parse_csv(read_text(path, absent=absent), path)


def parse_csv(text: str, where: object, *, ragged: bool = False) -> Table:
    """A table from its text; empty lines are left out.

    Args:
        text: of the file.
        where: names the file.
        ragged: keep rows of another width than the header, and a last cell whose quote is open, for a caller that says
            what is wrong with them.

    Raises:
        BadInput: no header, a column twice, another separator than a comma, a row of another width, or a quote that is
            not closed.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=not ragged)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                rows.append(cells)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise BadInput(f"{where} is not a CSV, line {reader.line_num}: {error}") from None
    if not rows:
        raise BadInput(f"{where} is empty, expected a CSV with a header")
    columns = rows[0]
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(columns) == 1 and separator in columns[0]:
            raise BadInput(f"{where}: its columns are separated by {name}, expected commas: {shown(columns[0])}")
    named = [name for name in columns if name]
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise BadInput(f"{where} has the column {shown(twice)} twice; its columns: {_listed(columns)}")
    for row, line in zip(rows[1:], lines[1:]) if not ragged else ():
        if len(row) != len(columns):
            raise BadInput(f"{where}, line {line}: {len(row)} cells for {len(columns)} columns: {shown(','.join(row))}")
    return Table(str(where), columns, rows[1:], lines[1:])


def to_number(cell: str) -> float:
    """A cell as a number; Python's `1_000` is none.

    Raises:
        ValueError: it is none.
    """
    if "_" in cell:
        raise ValueError(f"{cell!r} is no number")
    return float(cell)


def time_column(columns: Sequence[str]) -> tuple[str, float] | None:
    """The column that holds times and its unit [s], the first of `TIMES` that is there; None where none is."""
    return next(((name, unit) for name, unit in TIMES.items() if name in columns), None)


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(name[:40] for name in columns[:20]) + (" and others" if len(columns) > 20 else "")
