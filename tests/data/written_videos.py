"""Videos as other programs write them: any codec and container, stamps of a clock, an edit list."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

av = pytest.importorskip("av")

TRIMMED = 11  # frames that an edit list leaves out


def moving(n: int, height: int = 64, width: int = 96) -> np.ndarray:
    """Noise that drifts under a square that moves: every frame differs from every other."""
    rng = np.random.default_rng(0)
    base = rng.integers(0, 255, (height, width, 3), dtype=np.uint8)
    video = np.stack([np.roll(base, k, axis=1) // 2 for k in range(n)])
    for k, frame in enumerate(video):
        frame[10:20, k % width : k % width + 8] = 255
    return video


def write(path, frames, *, codec="libx264", options=None, rate=30, rotation=0, stamps=None, pix_fmt="yuv420p") -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate)
        stream.height, stream.width, stream.pix_fmt = frames.shape[1], frames.shape[2], pix_fmt
        stream.options = {"threads": "1", **(options or {})}
        if rotation:
            stream.set_display_rotation(rotation)
        if stamps is not None:
            stream.codec_context.time_base = stream.time_base = Fraction(1, 1000)
        for k, frame in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
            if stamps is not None:
                picture.pts, picture.time_base = int(stamps[k]), Fraction(1, 1000)
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
    return Path(path)


def trim(path: Path) -> Path:
    """The same packets with an edit list that hides the first frames, which the header still counts."""
    whole = path.rename(path.with_name(f"whole-{path.name}"))
    options = {"avoid_negative_ts": "disabled", "use_editlist": "1"}
    with av.open(str(whole)) as source, av.open(str(path), "w", options=options) as out:
        stream = source.streams.video[0]
        made = out.add_stream_from_template(stream)
        before = round(TRIMMED / (stream.average_rate * stream.time_base))
        for packet in source.demux(stream):
            if packet.dts is not None:
                packet.pts, packet.dts, packet.stream = packet.pts - before, packet.dts - before, made
                out.mux(packet)
    return path
