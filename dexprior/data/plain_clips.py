"""Clips of which nothing but the pixels is known: no hand, no object, no calibration. They train video alone.

A folder of them is what `dexprior.data.wild.cut_videos` writes, or any other with a `metadata.json` in VideoX-Fun's
form (see `dexprior.data.importers.videox_fun`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

from dexprior.data.cache import FrameCache, content_hash
from dexprior.data.readers import ClipInfo, probe_clip
from dexprior.errors import BadInput
from dexprior.reading import inside, read_json

__all__ = ["PlainClips"]


class PlainClips:
    """Windows of plain clips: the square in the middle, at one size and one frame rate.

    Decoded once, into `folder/frames`.

    Args:
        folder: with `metadata.json`.
        size: width and height of the windows [px].
        fps: frames per second of the windows; a clip's nearest frames are taken.
        window: frames.

    Raises:
        BadInput: no such folder, a metadata.json of another form, or no clip that is long enough; a clip that cannot
            be read is named.
    """

    def __init__(self, folder: str | Path, *, size: int, fps: float, window: int) -> None:
        self.folder, self.size, self.fps, self.window = Path(folder), size, fps, window
        where = self.folder / "metadata.json"
        paths = [inside(self.folder, row["file_path"], where) for row in _videos(where)]
        known = [(path, probe_clip(path)) for path in paths]
        self._clips = [(path, info) for path, info in known if self._windows(info) > 0]
        if not self._clips:
            raise BadInput(
                f"{self.folder}: none of {len(paths)} clips has {window} frames at {fps:g} frames per second"
            )

    def __len__(self) -> int:
        """Clips that are long enough."""
        return len(self._clips)

    @property
    def fingerprint(self) -> str:
        """Hash of the clips' bytes and of how windows are cut from them."""
        parts = [content_hash(path) for path, _ in self._clips] + [repr((self.size, self.fps, self.window))]
        return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]

    def draw(self, rng: np.random.Generator, n: int) -> UInt8[np.ndarray, "n window size size 3"]:
        """Windows of clips drawn with replacement, each from a random start."""
        clips = rng.integers(len(self), size=n)
        starts = [int(rng.integers(self._windows(self._clips[k][1]))) for k in clips]
        return np.stack([self._read(int(k), self._frames(start, int(k))) for k, start in zip(clips, starts)])

    def _windows(self, info: ClipInfo) -> int:
        """Number of starts."""
        return info.frames - int(np.floor((self.window - 1) * info.fps / self.fps + 0.5))

    def _frames(self, start: int, clip: int) -> Int[np.ndarray, " window"]:
        step = self._clips[clip][1].fps / self.fps
        return start + np.floor(np.arange(self.window) * step + 0.5).astype(np.int64)

    def _read(self, clip: int, frames: Int[np.ndarray, " window"]) -> UInt8[np.ndarray, "window size size 3"]:
        path, info = self._clips[clip]
        scale = self.size / min(info.height, info.width)
        height, width = (max(round(side * scale), self.size) for side in (info.height, info.width))
        top, left = (height - self.size) // 2, (width - self.size) // 2
        whole = FrameCache(self.folder / "frames", size=(height, width)).clip(path)
        return np.array(whole[frames, top : top + self.size, left : left + self.size])


def _videos(path: Path) -> list[dict[str, Any]]:
    rows = read_json(path, absent="`dexprior data import videos=FOLDER out=FOLDER` writes one beside its clips.")
    entries = rows if isinstance(rows, list) else []
    videos = [row for row in entries if isinstance(row, dict) and row.get("type", "image") == "video"]
    if not videos or not all(isinstance(row.get("file_path"), str) for row in videos):
        raise BadInput(f"{path} lists no video with a file_path")
    return videos
