"""Depth maps as lossless video (FFV1, 16-bit grey, Matroska)."""

from __future__ import annotations

import io

import numpy as np
from jaxtyping import Float32

from dexprior.data.readers import ClipSource
from dexprior.errors import BadInput

__all__ = ["decode_depth", "encode_depth"]

_STEP = 1e-4
"""[m] Depth is stored in steps of a tenth of a millimetre, coarser where the scene is deeper than 6.5 m."""


def encode_depth(depth: Float32[np.ndarray, "time height width"]) -> tuple[bytes, float]:
    """The bytes of a Matroska file, and the metres of one step.

    A stored depth is within half a step of the given one; zero (no depth) stays zero.
    """
    import av

    step = max(_STEP, float(depth.max()) / 65535)
    grey = np.round(depth / step).astype(np.uint16)
    buffer = io.BytesIO()
    with av.open(buffer, mode="w", format="matroska", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("ffv1", rate=30)
        stream.height, stream.width, stream.pix_fmt = *depth.shape[1:], "gray16le"  # type: ignore[misc]
        stream.options = {"level": "3", "slicecrc": "1"}
        stream.codec_context.thread_count = 1
        for frame in grey:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="gray16le")))
        container.mux(stream.encode())
    return buffer.getvalue(), step


def decode_depth(source: ClipSource, step: float) -> Float32[np.ndarray, "time height width"]:
    """Inverse of `encode_depth`.

    Raises:
        BadInput: missing, truncated or damaged.
    """
    import av

    if not source.path.is_file():
        raise BadInput(f"no depth at {source.path}")
    try:
        with av.open(source.url()) as container:
            container.streams.video[0].codec_context.thread_count = 1
            grey = np.stack([frame.to_ndarray() for frame in container.decode(video=0)])
    except (av.FFmpegError, ValueError, IndexError) as error:
        raise BadInput(f"{source}: the depth cannot be decoded, it is truncated or damaged ({error})") from None
    return np.multiply(grey, step, dtype=np.float32)
