"""Views of video files, checked before they are used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dexprior.data.importers.base import View
from dexprior.data.readers import ClipReader, Frames
from dexprior.errors import BadInput
from dexprior.types import Camera

__all__ = ["read_span", "video_view"]


def video_view(
    name: str,
    path: Path,
    *,
    start: int = 0,
    stop: int | None = None,
    camera: Callable[[int, int], Camera] | None = None,
    lens: str = "unknown",
) -> View:
    """Frames [start, stop) of a video as a view.

    Args:
        name: the camera.
        path: the video.
        start: first frame.
        stop: frame after the last; the end when omitted.
        camera: calibration for pictures of (height, width).
        lens: lens model, where it is known.

    Raises:
        BadInput: not a video, truncated, of variable frame rate, or without these frames.
    """
    with ClipReader(path) as clip:
        info = clip.info
    end = info.frames if stop is None else stop
    if not 0 <= start < end <= info.frames:
        raise BadInput(f"frames [{start}, {end}) of {path}: it has {info.frames}")

    def read(size: tuple[int, int] | None, first: int, last: int) -> Frames:
        return read_span(path, start + first, start + last, size)

    return View(
        name=name,
        fps=info.fps,
        frames=end - start,
        height=info.height,
        width=info.width,
        read=read,
        camera=None if camera is None else camera(info.height, info.width),
        lens=lens,
    )


def read_span(path: Path, start: int, stop: int, size: tuple[int, int] | None = None) -> Frames:
    """Frames [start, stop) in RGB; errors as `ClipReader`'s."""
    with ClipReader(path, size=size) as clip:
        return clip.read(range(start, stop))
