"""Episodes on disk: an append-only `index.jsonl`, and for each episode one safetensors file and one mp4.

FOLDER/index.jsonl            one line an attempt, written after its files: a killed writer loses no line before
FOLDER/000012.safetensors     everything but the pixels
FOLDER/000012.mp4             the pixels
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dexprior.artifacts import from_tensors, make_header, read_tensors, to_tensors, write_tensors
from dexprior.config import to_plain
from dexprior.data.clips import read_clip, write_clip
from dexprior.errors import ArtifactError
from dexprior.types import Episode

__all__ = ["append_index", "read_episode", "read_episodes", "read_index", "write_episode"]

_FRAMES = "0.sample.frames"


def write_episode(folder: Path, number: int, episode: Episode, *, producer: str, seed: int | None = None) -> None:
    """Write one episode's two files; the index is appended separately, once both are there."""
    tensors, tree = to_tensors(episode)
    write_clip(folder / f"{number:06d}.mp4", tensors.pop(_FRAMES), episode.sample.fps)
    header = make_header(Episode.schema, producer=producer, seed=seed)
    write_tensors(folder / f"{number:06d}.safetensors", tensors, {"header": to_plain(header), "tree": [tree]})


def read_episode(folder: str | Path, number: int) -> Episode:
    """Read one episode with its pixels.

    Raises:
        ArtifactError, BadInput: a file is missing, damaged, or of another schema, or the two do not belong together.
    """
    path = Path(folder) / f"{number:06d}.safetensors"
    tensors, meta = read_tensors(path)
    found = meta.get("header", {}).get("schema")
    if found != Episode.schema:
        raise ArtifactError(f"{path} holds {found!r}, expected {Episode.schema!r}")
    frames, _ = read_clip(path.with_suffix(".mp4"))
    tensors[_FRAMES] = frames
    return from_tensors(meta["tree"][0], tensors)


def read_episodes(folder: str | Path) -> Iterator[Episode]:
    """All kept episodes in order.

    Raises:
        ArtifactError: no index, or no kept episode in it.
    """
    kept = [row["number"] for row in read_index(folder) if row["kept"]]
    if not kept:
        raise ArtifactError(f"{folder} holds no kept episode; make some with `dexprior data`")
    for number in kept:
        yield read_episode(folder, number)


def append_index(folder: Path, row: dict[str, Any]) -> None:
    """Append one line: `number`, `kept`, and whatever else describes the attempt."""
    with (folder / "index.jsonl").open("a") as stream:
        stream.write(json.dumps(row) + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def read_index(folder: str | Path) -> list[dict[str, Any]]:
    """Lines of the index; a last line that a kill cut short is dropped (and cut off, so that appending goes on).

    Raises:
        ArtifactError: no index, or a damaged line before the last one.
    """
    path = Path(folder) / "index.jsonl"
    if not path.is_file():
        raise ArtifactError(f"{path}: no such file; is {folder} a folder of episodes?")
    lines = path.read_bytes().splitlines(keepends=True)
    rows = []
    for k, line in enumerate(lines):
        try:
            if not line.endswith(b"\n"):
                raise ValueError("no end of line")
            rows.append(json.loads(line))
        except ValueError as error:
            if k < len(lines) - 1:
                raise ArtifactError(f"{path}, line {k + 1}: {error}") from None
            os.truncate(path, sum(len(whole) for whole in lines[:-1]))
    return rows
