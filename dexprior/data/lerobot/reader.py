"""A LeRobotDataset on disk, v3.0 or v2.1, by pyarrow alone: rows, tasks, and where an episode's pictures are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.data.lerobot import layout
from dexprior.errors import BadInput
from dexprior.reading import (
    as_described,
    entries,
    filled,
    inside,
    integer,
    listed,
    mapping,
    number,
    numbers,
    read_json_object,
    read_lines,
    read_parquet,
    text,
)

__all__ = ["LeRobotFolder", "Span", "names_of"]

_MOST = 10**9  # episodes, frames, seconds


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
        path = self.info_path = root / layout.INFO_PATH
        self.info: dict[str, Any] = read_json_object(path, absent=f"Is {root} a LeRobotDataset?")
        version, fps, features, data_path = entries(
            self.info, ("codebase_version", "fps", "features", "data_path"), f"{path} is not LeRobot's: it"
        )
        with as_described("LeRobot's", path):
            self.version = tuple(int(n) for n in text(version, "codebase_version").removeprefix("v").split("."))
        if not (2, 0) <= self.version < (4, 0):
            raise BadInput(f"{path}: codebase_version {version}; v2.0 to v3 can be read")
        self.fps = number(fps, f"{path}: fps", low=1e-3, high=1e5)
        self.features: dict[str, dict[str, Any]] = {
            name: mapping(feature, f"{path}: features: {name}")
            for name, feature in mapping(features, f"{path}: features").items()
        }
        self.data_path: str = text(data_path, f"{path}: data_path")
        self.video_path: str | None = text(self.info.get("video_path"), f"{path}: video_path", optional=True)
        self.chunk = integer(self.info.get("chunks_size", layout.CHUNK_SIZE), f"{path}: chunks_size", low=1)

    @property
    def video_keys(self) -> list[str]:
        """Features that are videos (depth maps left out)."""
        return [name for name, f in self.features.items() if f.get("dtype") == "video" and not self._depth(name, f)]

    @property
    def image_keys(self) -> list[str]:
        """Features that are single pictures within the rows (depth maps left out)."""
        return [name for name, f in self.features.items() if f.get("dtype") == "image" and not self._depth(name, f)]

    @property
    def depth_keys(self) -> list[str]:
        """Features that are depth maps, which are not read."""
        kinds = ("video", "image")
        return [name for name, f in self.features.items() if f.get("dtype") in kinds and self._depth(name, f)]

    def _depth(self, name: str, feature: Mapping[str, Any]) -> bool:
        for key in ("info", "video_info"):
            about = mapping(feature.get(key) or {}, f"{self.info_path}: features: {name}: {key}")
            if about.get("is_depth_map") or about.get("video.is_depth_map"):
                return True
        return False

    @cached_property
    def episodes(self) -> list[dict[str, Any]]:
        """One row an episode, by `episode_index`, without the statistics."""
        if self.version < (3, 0):
            rows = read_lines(self.root / "meta" / "episodes.jsonl")
        else:
            rows = []
            for path in sorted((self.root / "meta" / "episodes").glob("*/*.parquet")):
                table = read_parquet(path)
                rows += table.select([c for c in table.column_names if not c.startswith("stats/")]).to_pylist()
        if not rows:
            raise BadInput(f"{self.root / 'meta'} lists no episodes")
        if any("episode_index" not in row for row in rows):
            raise BadInput(f"{self.root / 'meta'}: an episode without episode_index; it has: {', '.join(rows[0])}")
        for row in rows:
            for name in ("episode_index", "length"):
                if name in row:
                    integer(row[name], f"{self.root / 'meta'}: {name}", high=_MOST)
        indices = [row["episode_index"] for row in rows]
        if len(set(indices)) < len(indices):
            twice = next(k for k in indices if indices.count(k) > 1)
            raise BadInput(f"{self.root / 'meta'} lists episode {twice} twice")
        return sorted(rows, key=lambda row: row["episode_index"])

    @cached_property
    def tasks(self) -> dict[int, str]:
        """Sentences by `task_index`."""
        if self.version < (3, 0):
            path = self.root / "meta" / "tasks.jsonl"
            rows = [entries(row, ("task_index", "task"), path) for row in read_lines(path)]
            return {integer(k, f"{path}: task_index"): text(said, f"{path}: task") for k, said in rows}
        table = read_parquet(self.root / layout.TASKS_PATH)
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
        table = self._table(episode, None)
        found = {}
        for name in table.column_names:
            if self.features.get(name, {}).get("dtype") in (None, "string", "image", "video"):
                continue
            where = f"{self.root}, episode {index}: {name}"
            found[name] = numbers(np.array(_plain(table[name].to_pylist(), where)), where, finite=False)
        return found

    def pictures(self, episode: Mapping[str, Any], key: str) -> list[bytes | Path]:
        """Files of one camera's single pictures, one a row: their bytes, or where they are within the data set.

        Raises:
            BadInput: as `rows`, or a row without a picture.
        """
        rows = self._table(episode, [key, "episode_index"])[key].to_pylist()
        where = f"{self.root}, episode {int(episode['episode_index'])}: {key}"
        found: list[bytes | Path] = []
        for k, row in enumerate(rows):
            data, path = (row.get("bytes"), row.get("path")) if isinstance(row, dict) else (row, None)
            if isinstance(data, bytes):
                found.append(data)
            elif isinstance(path, str):
                found.append(inside(self.root, path, f"{where}, row {k}"))
            else:
                raise BadInput(f"{where}: row {k} holds no picture, but {str(row)[:60]}")
        return found

    def _table(self, episode: Mapping[str, Any], columns: list[str] | None) -> Any:
        index = int(episode["episode_index"])
        if self.version < (3, 0):
            path = self._place("data_path", self.data_path, self._old(index))
            table = read_parquet(path, columns=None if columns is None else columns[:-1])
        else:
            if lacking := [k for k in ("data/chunk_index", "data/file_index") if k not in episode]:
                raise BadInput(f"{self.root / 'meta'}: episode {index} has no {', '.join(lacking)}")
            place = {"chunk_index": episode["data/chunk_index"], "file_index": episode["data/file_index"]}
            path = self._place("data_path", self.data_path, place)
            table = read_parquet(path, [("episode_index", "=", index)], columns)
        length = int(episode.get("length", table.num_rows))
        if table.num_rows != length:
            raise BadInput(f"episode {index} has {table.num_rows} rows, its description says {length}")
        if columns is not None and columns[0] not in table.column_names:
            raise BadInput(f"{path} has no column {columns[0]!r}")
        return table

    def video(self, episode: Mapping[str, Any], key: str) -> Span:
        """Where the pictures of one camera are.

        Raises:
            BadInput: the episode's description does not say.
        """
        if self.video_path is None:
            raise BadInput("info.json has no video_path")
        index = int(episode["episode_index"])
        if self.version < (3, 0):
            path = self._place("video_path", self.video_path, {**self._old(index), "video_key": key})
            return Span(path=path, start=0, stop=None)
        names = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")
        values = [episode.get(f"videos/{key}/{name}") for name in names]
        if None in values:
            raise BadInput(f"episode {index} does not say where its pictures of {key} are")
        place = {"chunk_index": values[0], "file_index": values[1]}
        where = f"{self.root / 'meta'}: episode {index}: videos/{key}"
        start, stop = (round(number(value, where, low=0, high=_MOST) * self.fps) for value in values[2:])
        return Span(
            path=self._place("video_path", self.video_path, {**place, "video_key": key}), start=start, stop=stop
        )

    def task_of(self, episode: Mapping[str, Any]) -> tuple[str, ...]:
        """Sentences of an episode."""
        tasks = listed(episode.get("tasks") or [], f"{self.root / 'meta'}: tasks", empty=True)
        return tuple(dict.fromkeys(text(task, f"{self.root / 'meta'}: tasks") for task in tasks))

    def _old(self, index: int) -> dict[str, int]:
        """What v2's path templates may name."""
        return {"episode_chunk": index // self.chunk, "episode_index": index}

    def _place(self, field: str, template: str, values: Mapping[str, Any]) -> Path:
        """The file that a template of info.json names, inside the data set."""
        where = f"{self.info_path}: {field}"
        return inside(self.root, filled(template, values, where), where)


def names_of(feature: Mapping[str, Any]) -> list[str]:
    """Names of a feature's numbers: a list, or lists by group, as in {"motors": [...]}; none of pictures."""
    names = feature.get("names") if feature.get("dtype") not in ("image", "video") else None
    groups = list(names.values()) if isinstance(names, dict) else [names]
    return [str(part) for group in groups if isinstance(group, list) for part in group]


def _plain(rows: list[Any], where: str) -> list[Any]:
    """Truth values as numbers, which a LeRobotDataset has for flags such as `next.done`."""
    if len({len(row) if isinstance(row, list) else -1 for row in rows}) > 1:
        raise BadInput(f"{where} holds rows of different length")
    return [float(row) if isinstance(row, bool) else row for row in rows]
