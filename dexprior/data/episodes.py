"""Episodes on disk: an append-only `index.jsonl`, and for each episode one safetensors file and its videos.

FOLDER/index.jsonl              one line an attempt, written after its files: a killed writer loses no line before
FOLDER/000012.safetensors       everything but the pixels; of a camera that moves, its pose in every frame
FOLDER/000012.mp4               the pixels
FOLDER/000012.NAME.mp4          the pixels of a further view, and
FOLDER/000012.NAME.depth.mkv    its depth

`dexprior.data.shards` keeps the same parts, many episodes a file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dexprior.artifacts import (
    from_tensors,
    make_header,
    pack_tensors,
    read_meta,
    to_tensors,
    unpack_tensors,
    write_atomic,
    write_tensors,
)
from dexprior.config import to_plain
from dexprior.data.clips import encode_clip, read_clip, write_clip
from dexprior.data.depth import decode_depth, encode_depth
from dexprior.data.lines import append_lines, read_index_lines
from dexprior.data.readers import ClipSource, Frames
from dexprior.errors import ArtifactError
from dexprior.reading import as_described, entries, flag, integer, mapping, text
from dexprior.types import Camera, Episode
from dexprior.types.episode import View

__all__ = [
    "EpisodeFolder",
    "EpisodeSet",
    "append_index",
    "check_schema",
    "describe_episode",
    "pack_episode",
    "read_episode",
    "read_episodes",
    "read_index",
    "unpack_episode",
    "write_episode",
]

_FRAMES = "0.sample.frames"
_CAMERA = ("K", "T_base_cam")
MAIN = "mp4"
"""The part that holds the pixels of the sample."""


class EpisodeSet(Protocol):
    """Episodes of one folder, whatever its layout."""

    folder: Path

    def __len__(self) -> int: ...

    def name(self, number: int) -> str:
        """The episode's id."""

    def row(self, number: int) -> dict[str, Any]:
        """What `describe_episode` says, with `id`."""

    def read(self, number: int, *, views: bool = True) -> Episode:
        """One episode, if wanted without its views; ArtifactError or BadInput, naming it, where it is damaged."""

    def clip(self, number: int, view: str | None = None) -> ClipSource:
        """The pixels of the sample, or of a further view."""


def describe_episode(episode: Episode) -> dict[str, Any]:
    """What an index says of an episode: enough to filter, split and bucket without opening it."""
    frames = episode.sample.frames
    return {
        "task": episode.info.get("task"),
        "object": episode.sample.object.object,
        "text": episode.condition.text,
        "hands": [hand.side for hand in episode.sample.hands],
        "success": bool(episode.info.get("success", True)),
        "frames": len(frames),
        "fps": episode.sample.fps,
        "height": frames.shape[1],
        "width": frames.shape[2],
        "views": [view.name for view in episode.views],
    }


def write_episode(folder: Path, number: int, episode: Episode, *, producer: str, seed: int | None = None) -> None:
    """Write one episode's files; the index is appended separately, once all are there."""
    stem = f"{number:06d}"
    tensors, meta, videos, others = _split(episode, producer, seed)
    for part, frames in videos.items():
        write_clip(folder / f"{stem}.{part}", frames, episode.sample.fps)
    for part, data in others.items():
        write_atomic(folder / f"{stem}.{part}", data)
    write_tensors(folder / f"{stem}.safetensors", tensors, meta)


def pack_episode(episode: Episode, *, producer: str, seed: int | None = None) -> dict[str, bytes]:
    """The same parts as bytes."""
    tensors, meta, videos, others = _split(episode, producer, seed)
    parts = {part: encode_clip(frames, episode.sample.fps) for part, frames in videos.items()}
    return {**parts, **others, "safetensors": pack_tensors(tensors, meta)}


def unpack_episode(part: Callable[[str], ClipSource], *, views: bool = True) -> Episode:
    """Put an episode together again.

    Args:
        part: where a part lies.
        views: whether further views are read, too.

    Raises:
        ArtifactError, BadInput: a part is missing, damaged, or of another schema, or they do not belong together.
    """
    source = part("safetensors")
    meta, _ = read_meta(source.path, offset=source.offset, where=source)
    tensors = unpack_tensors(source.read_bytes(), source)
    with as_described("an episode", source):
        header = mapping(meta.get("header"), f"{source}: header")
        check_schema(header.get("schema"), source)
        tensors[_FRAMES] = read_clip(part(MAIN))[0]
        episode = from_tensors(meta["tree"][0], tensors)
        if not isinstance(episode, Episode):
            raise ArtifactError(f"{source} holds a {type(episode).__name__}, expected an episode")
        found = tuple(_view(view, part, tensors) for view in meta.get("views", [])) if views else ()
        return dataclasses.replace(episode, views=found) if found else episode


def check_schema(found: Any, where: object) -> None:
    """Refuse an episode of another schema.

    Raises:
        ArtifactError: it is of another one; for an older version, with the command that makes it again.
    """
    if found == Episode.schema:
        return
    again = ""
    if isinstance(found, str) and found.rpartition("/")[0] == Episode.schema.rpartition("/")[0]:
        again = f": make it again with `{Episode.command}`, or `dexprior data import` where it was imported"
    raise ArtifactError(f"{where} holds {found!r}, this version reads {Episode.schema!r}{again}")


def read_episode(folder: str | Path, number: int, *, views: bool = True) -> Episode:
    """Read one episode with its pixels, and with those of its further views.

    Raises:
        ArtifactError, BadInput: a file is missing, damaged, or of another schema, or they do not belong together.
    """
    return unpack_episode(lambda part: ClipSource(Path(folder) / f"{number:06d}.{part}"), views=views)


def read_episodes(folder: str | Path) -> Iterator[Episode]:
    """All kept episodes in order, of a folder of either layout.

    Raises:
        ArtifactError: no index, or no kept episode in it.
    """
    from dexprior.data.shards import open_episodes

    episodes = open_episodes(folder)
    if not len(episodes):
        raise ArtifactError(f"{folder} holds no kept episode; make some with `dexprior data`")
    for number in range(len(episodes)):
        yield episodes.read(number)


def append_index(folder: Path, row: dict[str, Any]) -> None:
    """Append one line: `number`, `kept`, and whatever else describes the attempt."""
    append_lines(folder / "index.jsonl", [row])


def read_index(folder: str | Path) -> list[dict[str, Any]]:
    """Lines of the index; half a last line, which a kill left, is not one.

    Raises:
        ArtifactError: no index, or a damaged line before the last one.
    """
    path = Path(folder) / "index.jsonl"
    if not path.is_file():
        raise ArtifactError(f"{path}: no such file; is {folder} a folder of episodes?")
    return read_index_lines(path)


class EpisodeFolder:
    """The kept episodes of a folder that `write_episode` filled."""

    def __init__(self, folder: str | Path) -> None:
        """Read the index; errors as in `read_index`."""
        self.folder = Path(folder)
        where = self.folder / "index.jsonl"
        self._kept = [row for row in read_index(folder) if flag(entries(row, ("kept",), where)[0], f"{where}: kept")]
        for row in self._kept:
            integer(entries(row, ("number",), where)[0], f"{where}: number", high=10**9)

    def __len__(self) -> int:
        return len(self._kept)

    def name(self, number: int) -> str:
        """See `EpisodeSet`."""
        return f"{self._kept[number]['number']:06d}"

    def row(self, number: int) -> dict[str, Any]:
        """See `EpisodeSet`; what the index does not hold comes from the episode's header."""
        row = self._kept[number]
        source = self._part(number, "safetensors")
        header, shapes = read_meta(source.path, offset=source.offset, where=source)
        with as_described("an episode", source, ArtifactError):
            return self._described(number, row, header, shapes)

    def _described(
        self, number: int, row: Mapping[str, Any], header: Mapping[str, Any], shapes: Mapping[str, list[int]]
    ) -> dict[str, Any]:
        check_schema(header["header"]["schema"], self._part(number, "safetensors"))
        tree, views = header["tree"][0]["fields"], header.get("views", [])
        sample, info = tree["sample"]["fields"], tree["info"]
        return {
            "id": self.name(number),
            "seed": row.get("seed"),
            "task": info.get("task"),
            "object": sample["object"]["fields"]["object"],
            "text": tree["condition"]["fields"]["text"],
            "hands": [hand["fields"]["side"] for hand in sample["hands"]],
            "success": bool(info.get("success", True)),
            "frames": shapes["0.sample.hands.0.t"][0],
            "fps": sample["fps"],
            "height": sample["camera"]["fields"]["height"],
            "width": sample["camera"]["fields"]["width"],
            "views": [view["name"] for view in views],
        }

    def read(self, number: int, *, views: bool = True) -> Episode:
        """See `read_episode`."""
        return read_episode(self.folder, self._kept[number]["number"], views=views)

    def clip(self, number: int, view: str | None = None) -> ClipSource:
        """See `EpisodeSet`."""
        return self._part(number, MAIN if view is None else f"{view}.{MAIN}")

    def _part(self, number: int, part: str) -> ClipSource:
        return ClipSource(self.folder / f"{self.name(number)}.{part}")


# --- parts ---


def _split(
    episode: Episode, producer: str, seed: int | None
) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, Frames], dict[str, bytes]]:
    """Arrays, their description, videos, and other parts."""
    tensors, tree = to_tensors(dataclasses.replace(episode, views=()))
    videos = {MAIN: tensors.pop(_FRAMES)}
    others: dict[str, bytes] = {}
    views = []
    for view in episode.views:
        camera = view.camera
        tensors |= {f"view/{view.name}/{name}": getattr(camera, name) for name in _CAMERA}
        row: dict[str, Any] = {
            "name": view.name,
            "size": [camera.height, camera.width],
            "frames": view.frames is not None,
            "depth_step": None,
        }
        if view.frames is not None:
            videos[f"{view.name}.{MAIN}"] = view.frames
        if view.depth is not None:
            others[f"{view.name}.depth.mkv"], row["depth_step"] = encode_depth(view.depth)
        views.append(row)
    header = make_header(Episode.schema, producer=producer, seed=seed)
    meta: dict[str, Any] = {"header": to_plain(header), "tree": [tree]}
    return tensors, meta | ({"views": views} if views else {}), videos, others


def _view(row: Mapping[str, Any], part: Callable[[str], ClipSource], tensors: Mapping[str, np.ndarray]) -> View:
    name, (height, width) = text(row["name"], "view"), row["size"]
    if "/" in name or name in (".", ".."):
        raise ArtifactError(f"a view is called {name!r}: no name of a file")
    return View(
        name=name,
        camera=Camera(**{key: tensors[f"view/{name}/{key}"] for key in _CAMERA}, width=width, height=height),
        frames=read_clip(part(f"{name}.{MAIN}"))[0] if row["frames"] else None,
        depth=None if row["depth_step"] is None else decode_depth(part(f"{name}.depth.mkv"), row["depth_step"]),
    )
