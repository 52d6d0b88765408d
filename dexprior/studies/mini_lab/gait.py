"""A gait of the fingers that turns a cube on the palm: grasp, twist, open, return, in seven numbers that are learned.

It is the motion of the scripted expert with everything that one would tune by hand left open. What friction it needs
follows from them: a fingertip that closes off the middle of a side holds only within the cone of friction.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import wrap_angle
from dexprior.robots.claw import PALM_TOP, TIP_RADIUS, claw_action, claw_joints
from dexprior.worlds.tasks import Truth

__all__ = ["GAIT", "gait"]

GAIT: dict[str, tuple[float, float]] = {
    "squeeze": (0.001, 0.020),
    "off_centre": (0.02, 0.50),
    "reach": (0.25, 0.70),
    "speed": (0.5, 4.0),
    "gain": (1.0, 8.0),
    "close": (0.08, 0.40),
    "open": (0.08, 0.40),
}
"""Name -> ends of its range: how far a fingertip's goal lies inside the cube [m], how far off the middle of a side it
may close [rad], how far fingertips turn about the palm's axis [rad], how fast at most [rad/s], speed over the remaining
angle [1/s], and how long closing and opening take [s]."""
_OPEN = 0.050  # [m] radius at which fingertips pass a corner of the cube
_HEIGHT = 0.024  # [m] over the palm
_HALF = 0.025  # [m] half an edge of the cube
_DONE = 0.05  # [rad] remaining angle at which the fingers hold on


def gait(
    shares: Float[np.ndarray, "n 7"], truth: Truth, t: float, dt: float, memory: Float[np.ndarray, "n 4"]
) -> Float[np.ndarray, "n 12"]:
    """Actions of a gait in every world.

    Args:
        shares: where each number lies in its range of `GAIT`, from 0 to 1.
        truth: of the task `cube_in_hand`.
        t: since reset [s].
        dt: control period [s].
        memory: of the gait; zero at reset. The phase (0 going open to where they close, 1 closing, 2 twisting, 3
            opening), when it began [s], the commanded angle of the fingertips [rad], and whether it began at all.
    """
    low, high = np.array(list(GAIT.values())).T
    squeeze, off_centre, reach, speed, gain, close, open_ = (low + np.clip(shares, 0.0, 1.0) * (high - low)).T
    error = truth["error"]
    phase, since, angle, begun = memory.T.copy()
    fresh = begun == 0
    angle = np.where(fresh, _grip_angle(truth, off_centre, reach), angle)
    since = np.where(fresh, t, since)
    twisting = phase == 2
    turn = dt * np.clip(gain * error, -speed, speed)
    angle = np.where(twisting, np.clip(angle + turn, -reach, reach), angle)
    stuck = (np.abs(error) > _DONE) & (angle * np.sign(error) >= reach)
    limits = np.select([phase == 1, phase == 3], [close, open_], open_ + close)
    over = np.where(twisting, stuck, t - since > limits)
    away = (phase == 0) | (phase == 3)
    held = _HALF / np.cos(wrap_angle(truth["angle"] - angle, np.pi / 2)) + TIP_RADIUS - squeeze
    radius = np.where(away, _OPEN, held)
    around = angle[:, None] + np.arange(4) * np.pi / 2
    height = np.full_like(around, PALM_TOP + _HEIGHT)
    tips = np.stack([radius[:, None] * np.cos(around), radius[:, None] * np.sin(around), height], axis=-1)
    back = over & (phase == 3)
    memory[:, 0] = np.where(over, (phase + 1) % 4, phase)
    memory[:, 1] = np.where(over, t, since)
    memory[:, 2] = np.where(back, _grip_angle(truth, off_centre, reach), angle)
    memory[:, 3] = 1.0
    return claw_action(claw_joints(tips))


def _grip_angle(
    truth: Truth, off_centre: Float[np.ndarray, " n"], reach: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Angle at which fingertips close on the cube's sides [rad], with the longest stroke ahead of them."""
    way = np.where(truth["error"] < 0, -1.0, 1.0)
    sides = (wrap_angle(truth["angle"], np.pi / 2) * way)[:, None] + np.array([-np.pi / 2, 0.0, np.pi / 2])
    grip = np.maximum(sides - off_centre[:, None], -reach[:, None])
    off = np.abs(grip - sides) > off_centre[:, None] + 1e-9
    found = np.where(off | (grip > reach[:, None]), np.inf, grip).min(axis=1)
    nearest = np.take_along_axis(sides, np.abs(sides).argmin(axis=1)[:, None], axis=1)[:, 0]
    return way * np.where(np.isfinite(found), found, np.clip(nearest, -reach, reach))
