"""Video clips: one reader (decord, or PyAV where decord has no wheel) and one writer (H.264 by PyAV)."""

from __future__ import annotations

import importlib.util
import io
import os
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dexprior.data.readers import ClipInfo, ClipReader, ClipSource, Frames, check_size, probe_clip
from dexprior.errors import BadInput

__all__ = ["ClipInfo", "Reader", "encode_clip", "probe_clip", "read_clip", "write_clip"]

Reader = Literal["decord", "pyav"]

_DECORD_WIDTH = 32
"""decord 0.6.0 fails on widths that are no multiple of this, as FFmpeg pads the rows and decord does not."""


def read_clip(
    path: ClipSource | str | Path,
    *,
    size: tuple[int, int] | None = None,
    start: int = 0,
    stop: int | None = None,
    reader: Reader | None = None,
) -> tuple[Frames, float]:
    """Frames [start, stop) of a clip in RGB, and its frame rate [1/s].

    Args:
        path: any video that FFmpeg knows, or a part of a file that is one.
        size: (height, width) to scale to; the clip's own when omitted.
        start: first frame.
        stop: frame after the last one; the end when omitted.
        reader: decord where it is installed, can scale to the width, and numbers frames rightly, else PyAV.

    Raises:
        BadInput: no such file, not a video, truncated, of a variable rate, no frame in the range, or an impossible
            range.
    """
    if start < 0 or (stop is not None and stop <= start):
        raise BadInput(f"frames [{start}, {stop}) of {path}: expected 0 <= start < stop")
    check_size(size)
    with ClipReader(path, size=size) as clip:
        wanted = range(start, len(clip) if stop is None else min(stop, len(clip)))
        if not wanted:
            raise BadInput(f"{path}: no frame in [{start}, {'end' if stop is None else stop}); it has {len(clip)}")
        fps, width = clip.rate(wanted.start, wanted.stop), (size or clip.shown)[1]
        usable = clip.seekable and not clip.rotation and width % _DECORD_WIDTH == 0
        if reader == "decord" and not usable:
            raise BadInput(
                f"{path}: decord reads unrotated clips, of containers with an index, at widths that are multiples of "
                f"{_DECORD_WIDTH}, not {width} wide and turned by {clip.rotation} degrees: use pyav"
            )
        if reader == "pyav" or not usable or importlib.util.find_spec("decord") is None:
            return clip.read(wanted), fps
        frames = _read_decord(clip.source, size or clip.shown, wanted, len(clip))
        if frames is None and reader == "decord":
            raise BadInput(f"{path}: decord counts other frames than are shown: use pyav")
        return (clip.read(wanted) if frames is None else frames), fps


def _read_decord(source: ClipSource, size: tuple[int, int], wanted: range, count: int) -> Frames | None:
    """Frames by decord; None where it does not find as many as are shown."""
    import decord

    file = str(source.path) if source.length is None else io.BytesIO(source.read_bytes())
    try:
        video = decord.VideoReader(file, width=size[1], height=size[0], num_threads=1)
        return video.get_batch(list(wanted)).asnumpy() if len(video) == count else None
    except (RuntimeError, decord.DECORDError) as error:  # 0.6.0 raises either, by the place where it fails
        reason = str(error).strip().splitlines()[-1][:120]
        raise BadInput(f"{source}: the frames cannot be decoded, it is truncated or damaged ({reason})") from None


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
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        _encode(str(temporary), frames, fps, crf, {"movflags": "faststart"})
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def encode_clip(frames: Frames, fps: float, *, crf: int = 20) -> bytes:
    """The bytes of an mp4 as `write_clip` writes it, except that its index stands at the end.

    Raises:
        BadInput: as `write_clip`.
    """
    buffer = io.BytesIO()
    _encode(buffer, frames, fps, crf, {})
    return buffer.getvalue()


def _encode(target: Any, frames: Frames, fps: float, crf: int, options: dict[str, str]) -> None:
    import av

    frames = np.asarray(frames)
    if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8 or frames.size == 0:
        raise BadInput(f"frames are {frames.dtype} {frames.shape}; expected uint8 (time, height, width, 3)")
    if not 0 < fps < 1000:
        raise BadInput(f"fps = {fps}: expected frames per second between 0 and 1000")
    _, height, width, _ = frames.shape
    frames = np.pad(frames, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    with av.open(target, mode="w", format="mp4", options=options) as container:
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1001))
        stream.height, stream.width, stream.pix_fmt = frames.shape[1], frames.shape[2], "yuv420p"
        # x264's macroblock tree gives other bytes from run to run: the same frames must give the same file
        stream.options = {"crf": str(crf), "preset": "veryfast", "threads": "1", "x264-params": "mbtree=0"}
        for frame in frames:
            picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
