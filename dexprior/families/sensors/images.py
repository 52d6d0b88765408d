"""Two ways in which a camera's picture is no snapshot: rows are exposed one after the other, and lenses reflect.

    rolling shutter: row r of R is taken at start + readout r / R         (Liang et al. 2008)
    flare: I' = (1 - veil) I + veil blur(I) + sum_j g_j I_bright(c + (x - c) / s_j)

Flare: a bright light is reflected between lens surfaces and shows again on the line through the centre c, magnified by
s_j (first-order ghosts, Hullin et al. 2011), and scattered light veils the whole picture.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from jaxtyping import Float

from dexprior.config import Ge, Gt, Le, config
from dexprior.errors import BadInput

__all__ = ["FlareConfig", "RollingShutterConfig", "lens_flare", "rolling_shutter", "row_times", "sheared"]


@config
class RollingShutterConfig:
    """How long a frame takes to read."""

    readout: Annotated[float, Ge(0)] = 0.02
    """Time from the first to just after the last row [s]."""
    downwards: bool = True
    """Whether the first row is the top one."""


@config
class FlareConfig:
    """What a lens adds to a picture with a bright light."""

    bright: Annotated[float, Gt(0), Le(1)] = 0.95
    """Brightness from which a pixel counts as a light, on a scale of 0 to 1."""
    places: tuple[float, ...] = (-0.5, -1.2, 0.4)
    """s_j: where each ghost lies on the line from the centre to the light; negative on the far side."""
    strengths: tuple[float, ...] = (0.15, 0.08, 0.1)
    """g_j: brightness of each ghost over the light's."""
    veil: Annotated[float, Ge(0), Le(1)] = 0.05
    """Share of the light that is scattered over the picture."""
    spread: Annotated[float, Gt(0)] = 0.25
    """Standard deviation of the scattering, as a share of the picture's height."""

    def __post_init__(self) -> None:
        if len(self.places) != len(self.strengths) or 0.0 in self.places or min((0.0, *self.strengths)) < 0:
            raise BadInput(
                f"FlareConfig: places {self.places}, strengths {self.strengths}: one strength >= 0 a place, and no "
                "place at 0"
            )


def row_times(config: RollingShutterConfig, rows: int) -> Float[np.ndarray, " row"]:
    """When each row is taken, after the frame's start [s]."""
    times = config.readout * np.arange(rows) / rows
    return times if config.downwards else times[::-1].copy()


def rolling_shutter(
    config: RollingShutterConfig,
    frames: Float[np.ndarray, "*n frame row column colour"],
    times: Float[np.ndarray, " frame"],
    start: float,
) -> Float[np.ndarray, "*n row column colour"]:
    """A frame put together from snapshots, each row interpolated between the two around its time.

    Args:
        config: of the camera.
        frames: snapshots, in order of time.
        times: of the snapshots [s].
        start: when the frame's first row is taken [s].

    Raises:
        BadInput: times that do not rise, are of another number, or do not span the frame.
    """
    frames, times = np.asarray(frames, dtype=np.float64), np.asarray(times, dtype=np.float64)
    if frames.ndim < 4 or times.shape != (frames.shape[-4],) or (np.diff(times) <= 0).any():
        raise BadInput(
            f"rolling_shutter: frames of shape {frames.shape} at {len(times)} times; (..., frame, row, column, colour) "
            "at rising times are needed"
        )
    rows = frames.shape[-3]
    taken = start + row_times(config, rows)
    slack = 1e-9 * max(1.0, abs(start))
    if taken.min() < times[0] - slack or taken.max() > times[-1] + slack:
        raise BadInput(
            f"rolling_shutter: rows are taken from {taken.min():.4f} to {taken.max():.4f} s, snapshots are known from "
            f"{times[0]:.4f} to {times[-1]:.4f} s"
        )
    after = (
        np.clip(np.searchsorted(times, taken, side="right"), 1, len(times) - 1)
        if len(times) > 1
        else np.zeros(rows, dtype=np.int64)
    )
    before = np.maximum(after - 1, 0)
    span = np.where(after > before, times[after] - times[before], 1.0)
    weight = np.clip((taken - times[before]) / span, 0.0, 1.0)[:, None, None]
    row = np.arange(rows)
    first, second = frames[..., before, row, :, :], frames[..., after, row, :, :]
    return first + weight * (second - first)


def sheared(
    config: RollingShutterConfig,
    frame: Float[np.ndarray, "row column colour"],
    motion: Float[np.ndarray, "*pixel 2"],
) -> Float[np.ndarray, "row column colour"]:
    """A frame warped as if its picture moved while it is read; exact for a motion that is the same everywhere.

    Args:
        config: of the camera.
        frame: snapshot at the frame's start.
        motion: of the picture, to the right and downwards [pixels/s]: two numbers, or two a pixel.

    Raises:
        BadInput: a motion of another shape.
    """
    from scipy.ndimage import map_coordinates

    frame, motion = np.asarray(frame, dtype=np.float64), np.asarray(motion, dtype=np.float64)
    if frame.ndim != 3 or motion.shape not in ((2,), (*frame.shape[:2], 2)):
        raise BadInput(
            f"sheared: frame of shape {frame.shape}, motion of shape {motion.shape}; (row, column, colour) and (2,) or "
            "(row, column, 2) are needed"
        )
    late = row_times(config, frame.shape[0])[:, None]
    row, column = np.meshgrid(*(np.arange(size, dtype=np.float64) for size in frame.shape[:2]), indexing="ij")
    where = np.stack([row - late * motion[..., 1], column - late * motion[..., 0]])
    return np.stack(
        [map_coordinates(colour, where, order=1, mode="nearest") for colour in np.moveaxis(frame, 2, 0)], axis=2
    )


def lens_flare(
    config: FlareConfig, frames: Float[np.ndarray, "n row column colour"]
) -> Float[np.ndarray, "n row column colour"]:
    """Frames with ghosts and veil, on a scale of 0 to 1.

    Raises:
        BadInput: no batch of colour frames, or values beyond 0 to 1 (bytes?).
    """
    from scipy.ndimage import gaussian_filter, map_coordinates

    frames = np.asarray(frames, dtype=np.float64)
    if frames.ndim != 4 or not (np.isfinite(frames).all() and frames.min() >= 0 and frames.max() <= 1):
        raise BadInput(f"lens_flare: frames of shape {frames.shape}; (n, row, column, colour) from 0 to 1 are needed")
    lights = np.where(frames.mean(axis=3, keepdims=True) >= config.bright, frames, 0.0)
    width = config.spread * frames.shape[1]
    out = (1.0 - config.veil) * frames + config.veil * gaussian_filter(frames, (0, width, width, 0), mode="constant")
    centre = (np.array(frames.shape[1:3]) - 1) / 2
    row, column = np.meshgrid(*(np.arange(size, dtype=np.float64) for size in frames.shape[1:3]), indexing="ij")
    offset = np.stack([row - centre[0], column - centre[1]])
    for place, strength in zip(config.places, config.strengths):
        where = centre[:, None, None] + offset / place
        for k, c in np.ndindex(frames.shape[0], frames.shape[3]):
            out[k, :, :, c] += strength * map_coordinates(lights[k, :, :, c], where, order=1, mode="constant")
    return np.clip(out, 0.0, 1.0)
