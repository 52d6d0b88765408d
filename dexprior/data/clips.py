"""Video clips: one reader (decord, or PyAV where decord has no wheel) and one writer (H.264 by PyAV)."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import UInt8

from dexprior.errors import BadInput

__all__ = ["ClipInfo", "Reader", "probe_clip", "read_clip", "write_clip"]

Reader = Literal["decord", "pyav"]

_DECORD_WIDTH = 32
"""decord 0.6.0 fails on widths that are no multiple of this, as FFmpeg pads the rows and decord does not."""

Frames = UInt8[np.ndarray, "time height width 3"]


@dataclass(frozen=True)
class ClipInfo:
    """What a video file says about itself."""

    frames: int
    """Number of frames; 0 where the container does not say."""
    fps: float
    height: int
    width: int


def probe_clip(path: str | Path) -> ClipInfo:
    """Read a clip's header.

    Raises:
        BadInput: no such file, or a file that is not a video or lost its index.
    """
    import av

    path = Path(path)
    if not path.is_file():
        raise BadInput(f"no clip at {path}")
    if path.stat().st_size == 0:
        raise BadInput(f"{path} is empty")
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise BadInput(f"{path} holds no video stream")
            stream = container.streams.video[0]
            rate = stream.average_rate or stream.guessed_rate
            if not rate:
                raise BadInput(f"{path} does not say how many frames it shows a second")
            return ClipInfo(stream.frames, float(rate), stream.height, stream.width)
    except av.FFmpegError as error:
        raise BadInput(
            f"{path} is not a video, or it is truncated ({error.strerror}); an mp4 keeps its index at the "
            "end, so a copy that was cut off cannot be opened: copy it again"
        ) from None


def read_clip(
    path: str | Path,
    *,
    size: tuple[int, int] | None = None,
    start: int = 0,
    stop: int | None = None,
    reader: Reader | None = None,
) -> tuple[Frames, float]:
    """Frames [start, stop) of a clip in RGB, and its frame rate [1/s].

    Args:
        path: any video that FFmpeg knows.
        size: (height, width) to scale to; the clip's own when omitted.
        start: first frame.
        stop: frame after the last one; the end when omitted.
        reader: decord where it is installed and can scale to the width, else PyAV.

    Raises:
        BadInput: no such file, not a video, truncated, no frame in the range, or an impossible range.
    """
    path = Path(path)
    info = probe_clip(path)
    if start < 0 or (stop is not None and stop <= start):
        raise BadInput(f"frames [{start}, {stop}) of {path}: expected 0 <= start < stop")
    if size is not None and min(size) < 1:
        raise BadInput(f"size = {size}: expected (height, width) in pixels")
    size = size or (info.height, info.width)
    if reader is None:
        usable = size[1] % _DECORD_WIDTH == 0 and importlib.util.find_spec("decord") is not None
        reader = "decord" if usable else "pyav"
    read = _read_decord if reader == "decord" else _read_pyav
    frames = read(path, size, start, stop)
    expected = None if not info.frames else max(min(stop or info.frames, info.frames) - start, 0)
    if expected is not None and 0 < len(frames) < expected:
        raise BadInput(
            f"{path} promises {expected} frames from frame {start} on, {len(frames)} can be decoded: it is "
            "truncated; copy it again"
        )
    if len(frames) == 0:
        raise BadInput(f"{path}: no frame in [{start}, {'end' if stop is None else stop}); it has {info.frames}")
    return frames, info.fps


def _read_decord(path: Path, size: tuple[int, int], start: int, stop: int | None) -> Frames:
    import decord

    height, width = size
    if width % _DECORD_WIDTH:
        raise BadInput(f"decord reads widths that are multiples of {_DECORD_WIDTH}, not {width}: use pyav")
    try:
        video = decord.VideoReader(str(path), width=width, height=height, num_threads=1)
        wanted = range(start, min(len(video), len(video) if stop is None else stop))
        return video.get_batch(list(wanted)).asnumpy() if len(wanted) else _no_frames(size)
    except (RuntimeError, decord.DECORDError) as error:  # 0.6.0 raises either, by the place where it fails
        reason = str(error).strip().splitlines()[-1][:120]
        raise BadInput(f"{path}: the frames cannot be decoded, it is truncated or damaged ({reason})") from None


def _read_pyav(path: Path, size: tuple[int, int], start: int, stop: int | None) -> Frames:
    import av

    height, width = size
    frames: list[np.ndarray] = []
    with av.open(str(path)) as container:
        try:
            for index, frame in enumerate(container.decode(video=0)):
                if stop is not None and index >= stop:
                    break
                if index >= start:
                    scaled = frame.reformat(width, height, format="rgb24", interpolation="BILINEAR")
                    frames.append(scaled.to_ndarray())
        except av.FFmpegError as error:
            raise BadInput(
                f"{path}: frame {start + len(frames)} cannot be decoded, the file is truncated or damaged "
                f"({error.strerror})"
            ) from None
    return np.stack(frames) if frames else _no_frames(size)


def _no_frames(size: tuple[int, int]) -> Frames:
    return np.zeros((0, *size, 3), dtype=np.uint8)


def write_clip(path: str | Path, frames: Frames, fps: float, *, crf: int = 20) -> Path:
    """Write frames as an H.264 mp4 (yuv420p, which every player shows); a killed run leaves no half file.

    Odd heights and widths are padded by one repeated row or column, which yuv420p needs.

    Args:
        path: ends in `.mp4`.
        frames: RGB.
        fps: frames per second.
        crf: quality, 0 (lossless) to 51.

    Raises:
        BadInput: no frames, wrong shape or type, or a rate that is not positive.
    """
    import av

    path, frames = Path(path), np.asarray(frames)
    if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8 or frames.size == 0:
        raise BadInput(f"frames are {frames.dtype} {frames.shape}; expected uint8 (time, height, width, 3)")
    if not 0 < fps < 1000:
        raise BadInput(f"fps = {fps}: expected frames per second between 0 and 1000")
    _, height, width, _ = frames.shape
    frames = np.pad(frames, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with av.open(str(temporary), mode="w", format="mp4", options={"movflags": "faststart"}) as container:
            stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1001))
            stream.height, stream.width, stream.pix_fmt = frames.shape[1], frames.shape[2], "yuv420p"
            # x264's macroblock tree gives other bytes from run to run: the same frames must give the same file
            stream.options = {"crf": str(crf), "preset": "veryfast", "threads": "1", "x264-params": "mbtree=0"}
            for frame in frames:
                picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
                container.mux(stream.encode(picture))
            container.mux(stream.encode())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
