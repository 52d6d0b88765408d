"""Plain clips in the form that VideoX-Fun trains on: a `metadata.json` beside the videos.

Layout from https://github.com/aigc-apps/VideoX-Fun (`videox_fun/data/dataset_image_video.py`): a list of entries

    {"file_path": "train/00000001.mp4", "text": "a hand folds a shirt.", "type": "video", "width": 1024, "height": 1024,
     "control_file_path": "control/00000001.mp4"}

where `type` defaults to `image`, `control_file_path` (a second video that steers generation, e.g. of hand poses) is
optional, and paths are relative to the folder. The videos have no hands, no objects and no calibration.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from dexprior.data.importers.base import ImportContext, Imported, Importer
from dexprior.data.importers.videos import video_view
from dexprior.errors import BadInput
from dexprior.reading import entries, inside, read_json, shown

__all__ = ["VIDEOX_FUN"]


def _metadata(folder: Path) -> Path:
    for path in (folder / "metadata.json", *sorted(folder.glob("metadata*.json"))):
        if path.is_file():
            return path
    raise BadInput(f"{folder} holds no metadata.json")


@cache
def _rows(path: Path, modified: float) -> list[Any]:
    rows = read_json(path)
    if not isinstance(rows, list):
        raise BadInput(f"{path}: expected a list of entries, found {type(rows).__name__}")
    return rows


def _load(folder: Path) -> list[Any]:
    path = _metadata(folder)
    return _rows(path, path.stat().st_mtime)


def _episodes(folder: Path) -> list[str]:
    return [f"{k}:{row.get('file_path')}" if isinstance(row, dict) else str(k) for k, row in enumerate(_load(folder))]


def _read(folder: Path, name: str, context: ImportContext) -> Imported:
    row = _load(folder)[int(name.partition(":")[0])]
    file, text = entries(row, ("file_path", "text"), f"{_metadata(folder)}, entry {name}")
    if not isinstance(text, str):
        raise BadInput(f"text = {shown(text)}: expected a sentence")
    kind = row.get("type", "image")
    if kind != "video":
        raise BadInput(f"type = {kind!r}: only videos are imported")
    views = [video_view("video", inside(folder, file, f"{_metadata(folder)}, entry {name}"))]
    problems = []
    given, found = (row.get("height"), row.get("width")), (views[0].height, views[0].width)
    if None not in given and given != found:
        problems.append(f"metadata says {given[1]} x {given[0]} pixels, the video has {found[1]} x {found[0]}")
    if "control_file_path" in row:
        control = video_view("control", inside(folder, row["control_file_path"], f"{_metadata(folder)}, entry {name}"))
        if control.frames != views[0].frames:
            raise BadInput(f"the control video has {control.frames} frames, the video {views[0].frames}")
        views.append(control)
    return Imported(
        kind="videox-fun",
        episode=name,
        licence=context.settings.licence or "not stated",
        source=str(_metadata(folder)),
        views=tuple(views),
        text=(text,) if text else (),
        problems=tuple(problems),
    )


VIDEOX_FUN = Importer(
    title="VideoX-Fun: captioned clips with optional control videos",
    licence="as stated by the user",
    episodes=_episodes,
    read=_read,
)
