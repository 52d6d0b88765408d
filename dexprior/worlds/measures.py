"""What counts as touching, holding and slipping, and how a distance becomes a reward: the same in every world."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput

__all__ = ["SLIP_SPEED", "TOUCH_ON", "slip_rate", "slip_speed", "tolerance"]

SLIP_SPEED = 0.01
"""[m/s] a held object that moves faster than this relative to what holds it slips."""
TOUCH_ON = 0.3
"""[N] a fingertip counts as touching above this."""


def tolerance(x: Float[np.ndarray, " *n"], *, bounds: tuple[float, float], margin: float) -> Float[np.ndarray, " *n"]:
    """1 inside `bounds`, falling as a Gaussian to 0.1 at a distance of `margin` outside.

    The contract of dm_control's shaping function of this name.

    Raises:
        BadInput: empty bounds, or a margin that is not positive.
    """
    low, high = bounds
    if low > high or margin <= 0:
        raise BadInput(f"tolerance needs low <= high and margin > 0, got bounds {bounds} and margin {margin}")
    x = np.asarray(x, dtype=np.float64)
    outside = np.where(x < low, low - x, np.where(x > high, x - high, 0.0)) / margin
    return np.exp(np.log(0.1) * outside**2)


def slip_speed(
    *,
    point: Float[np.ndarray, "n 3"],
    velocity: Float[np.ndarray, "n 3"],
    tool: Float[np.ndarray, "n 3"],
    twist: Float[np.ndarray, "n 6"],
    held: Bool[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Speed of a point of the object relative to the rigid motion of the tool that holds it; 0 where nothing does.

    Args:
        point, velocity: of the object [m, m/s].
        tool: origin of the tool [m].
        twist: of the tool, [v w] at its origin in world axes.
        held: whether it is held.
    """
    carried = twist[:, :3] + np.cross(twist[:, 3:], point - tool)
    return np.where(held, np.linalg.norm(velocity - carried, axis=1), 0.0)


def slip_rate(slip: Float[np.ndarray, "time n"], held: Bool[np.ndarray, "time n"]) -> Float[np.ndarray, " n"]:
    """Share of the time in which a held object slips; NaN where it was never held."""
    held = np.asarray(held, dtype=bool)
    time = held.sum(axis=0)
    slipping = (held & (np.asarray(slip) > SLIP_SPEED)).sum(axis=0)
    return np.divide(slipping, time, out=np.full(len(time), np.nan), where=time > 0)
