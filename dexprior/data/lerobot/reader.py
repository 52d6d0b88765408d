"""A LeRobotDataset on disk, v3.0 or v2.1, by pyarrow alone: rows, tasks, and where an episode's pictures are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.data.lerobot import layout
from dexprior.errors import BadInput

__all__ = ["LeRobotFolder", "Span"]


@dataclass(frozen=True, kw_only=True)
class Span:
    """Where an episode's pictures of one camera are."""

    path: Path
    start: int
    stop: int | None
    """Frame after the last; None for the end of the file."""


class LeRobotFolder:
    """One data set; nothing but its description is read until rows are asked for."""

    def __init__(self, root: Path) -> None:
        """Read `meta/info.json`.

        Raises:
            BadInput: no such file, not LeRobot's, or of a version before 2.0.
        """
        self.root = root
        path = root / layout.INFO_PATH
        if not path.is_file():
            raise BadInput(f"{path}: no such file; is {root} a LeRobotDataset?")
        try:
            self.info: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            self.version = tuple(int(n) for n in self.info["codebase_version"].removeprefix("v").split("."))
            self.fps = float(self.info["fps"])
            self.features: dict[str, dict[str, Any]] = dict(self.info["features"])
            self.data_path: str = self.info["data_path"]
            self.video_path: str | None = self.info.get("video_path")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"{path} is not LeRobot's, or it is truncated: {error!r}") from None
        if not (2, 0) <= self.version < (4, 0):
            raise BadInput(f"{path}: codebase_version {self.info['codebase_version']}; v2.0 to v3 can be read")
        if not self.fps > 0:
            raise BadInput(f"{path}: fps = {self.fps}")

    @property
    def video_keys(self) -> list[str]:
        """Features that are videos (depth maps left out)."""
        return [
            name
            for name, f in self.features.items()
            if f.get("dtype") == "video"
            and not any(
                (f.get(k) or {}).get(d) for k in ("info", "video_info") for d in ("is_depth_map", "video.is_depth_map")
            )
        ]

    @cached_property
    def episodes(self) -> list[dict[str, Any]]:
        """One row an episode, by `episode_index`, without the statistics."""
        if self.version < (3, 0):
            rows = _json_lines(self.root / "meta" / "episodes.jsonl")
        else:
            rows = []
            for path in sorted((self.root / "meta" / "episodes").glob("*/*.parquet")):
                table = _parquet(path)
                rows += table.select([c for c in table.column_names if not c.startswith("stats/")]).to_pylist()
        if not rows:
            raise BadInput(f"{self.root / 'meta'} lists no episodes")
        if any("episode_index" not in row for row in rows):
            raise BadInput(f"{self.root / 'meta'}: an episode without episode_index; it has: {', '.join(rows[0])}")
        return sorted(rows, key=lambda row: row["episode_index"])

    @cached_property
    def tasks(self) -> dict[int, str]:
        """Sentences by `task_index`."""
        if self.version < (3, 0):
            return {row["task_index"]: row["task"] for row in _json_lines(self.root / "meta" / "tasks.jsonl")}
        table = _parquet(self.root / layout.TASKS_PATH)
        words = next((c for c in ("task", "__index_level_0__") if c in table.column_names), None)
        if words is None or "task_index" not in table.column_names:
            raise BadInput(f"{self.root / layout.TASKS_PATH} has the columns {table.column_names}")
        return dict(zip(table["task_index"].to_pylist(), table[words].to_pylist()))

    def rows(self, episode: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Numeric features of one episode, (frame,) or (frame, n).

        Raises:
            BadInput: a missing or damaged file, or another number of rows than the episode's length.
        """
        index = int(episode["episode_index"])
        if self.version < (3, 0):
            chunk = index // int(self.info.get("chunks_size", layout.CHUNK_SIZE))
            table = _parquet(self.root / self.data_path.format(episode_chunk=chunk, episode_index=index))
        else:
            if lacking := [k for k in ("data/chunk_index", "data/file_index") if k not in episode]:
                raise BadInput(f"{self.root / 'meta'}: episode {index} has no {', '.join(lacking)}")
            place = {"chunk_index": episode["data/chunk_index"], "file_index": episode["data/file_index"]}
            table = _parquet(self.root / self.data_path.format(**place), filters=[("episode_index", "=", index)])
        length = int(episode.get("length", table.num_rows))
        if table.num_rows != length:
            raise BadInput(f"episode {index} has {table.num_rows} rows, its description says {length}")
        found = {}
        for name in table.column_names:
            if self.features.get(name, {}).get("dtype") in (None, "string", "image", "video"):
                continue
            try:
                found[name] = np.array(table[name].to_pylist(), dtype=np.float64)
            except (TypeError, ValueError):
                raise BadInput(f"episode {index}: {name} holds rows of different length, or no numbers") from None
        return found

    def video(self, episode: Mapping[str, Any], key: str) -> Span:
        """Where the pictures of one camera are.

        Raises:
            BadInput: the episode's description does not say.
        """
        if self.video_path is None:
            raise BadInput("info.json has no video_path")
        index = int(episode["episode_index"])
        if self.version < (3, 0):
            chunk = index // int(self.info.get("chunks_size", layout.CHUNK_SIZE))
            path = self.video_path.format(episode_chunk=chunk, episode_index=index, video_key=key)
            return Span(path=self.root / path, start=0, stop=None)
        names = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")
        values = [episode.get(f"videos/{key}/{name}") for name in names]
        if None in values:
            raise BadInput(f"episode {index} does not say where its pictures of {key} are")
        place = {"chunk_index": values[0], "file_index": values[1]}
        start, stop = (round(float(value) * self.fps) for value in values[2:])  # type: ignore[arg-type]
        return Span(path=self.root / self.video_path.format(video_key=key, **place), start=start, stop=stop)

    def task_of(self, episode: Mapping[str, Any]) -> tuple[str, ...]:
        """Sentences of an episode."""
        return tuple(dict.fromkeys(str(task) for task in episode.get("tasks") or ()))


def _json_lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except ValueError as error:
        raise BadInput(f"{path} is damaged: {error}") from None


def _parquet(path: Path, filters: list[tuple[str, str, Any]] | None = None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    try:
        table = pq.read_table(path, filters=filters)
        _ = table.column_names  # text that pyarrow decodes when it is asked for
        return table
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is not a parquet file, or it is truncated: {error}") from None
