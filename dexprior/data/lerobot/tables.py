"""Parquet files of a LeRobotDataset: rows, episodes and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.data.lerobot import layout

__all__ = ["Tables", "table_of", "write_tasks"]


def table_of(columns: dict[str, np.ndarray]) -> Any:
    """A column of numbers, or of fixed-size lists of them; `shape == [1]` is a plain number, as LeRobot has it."""
    import pyarrow as pa

    arrays = {}
    for name, column in columns.items():
        flat = pa.array(np.ascontiguousarray(column).reshape(-1))
        wide = column.ndim == 2 and column.shape[1] > 1
        arrays[name] = pa.FixedSizeListArray.from_arrays(flat, column.shape[1]) if wide else flat
    return pa.table(arrays)


class Tables:
    """Parquet files, one row group a write, closed before they grow beyond a size."""

    def __init__(self, root: Path, template: str, limit_mb: float) -> None:
        self.root, self.template, self.limit = root, template, limit_mb * 2**20
        self.place, self.rows = (0, 0), 0
        self.writer: Any = None
        self.stream: Any = None

    def write(self, table: Any, rows: int) -> tuple[int, int]:
        """Append; returns (chunk index, file index)."""
        import pyarrow.parquet as pq

        if self.writer is not None and self.stream.tell() * (1 + rows / self.rows) >= self.limit:
            self.close()
            self.place = layout.next_file(*self.place)
        if self.writer is None:
            path = self.root / self.template.format(chunk_index=self.place[0], file_index=self.place[1])
            path.parent.mkdir(parents=True, exist_ok=True)
            self.stream, self.rows = path.open("wb"), 0
            self.writer = pq.ParquetWriter(self.stream, table.schema, compression="snappy", use_dictionary=True)
        self.writer.write_table(table)
        self.rows += rows
        return self.place

    def write_row(self, row: dict[str, Any]) -> None:
        """Append one row that also says where it stands."""
        import pyarrow as pa

        def table() -> Any:
            here = {"meta/episodes/chunk_index": self.place[0], "meta/episodes/file_index": self.place[1]}
            return pa.Table.from_pylist([row | here])

        if self.writer is not None and self.stream.tell() * (1 + 1 / self.rows) >= self.limit:
            self.close()
            self.place = layout.next_file(*self.place)
        self.write(table(), 1)

    def close(self) -> None:
        """Write the footer."""
        if self.writer is not None:
            self.writer.close()
            self.stream.close()
            self.writer = None


def write_tasks(root: Path, tasks: Mapping[str, int]) -> None:
    """Write the sentences with their indices."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = root / layout.TASKS_PATH
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"task_index": pa.array(tasks.values(), pa.int64()), "task": pa.array(tasks)})
    pq.write_table(table.replace_schema_metadata(layout.pandas_index("task_index", "task")), path)
