"""Grasp, twist, release, return."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import wrap_angle
from dexprior.robots.claw import PALM_TOP, TIP_RADIUS, claw_action, claw_joints
from dexprior.worlds.tasks.base import Truth
from dexprior.worlds.tasks.view import RigState

__all__ = ["cube_in_hand"]


def cube_in_hand(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Grasp, twist, release, return: the four fingertips turn together about the palm's axis, the wrist stays.

    `memory` holds: the phase (0 going open to where they close, 1 closing, 2 twisting, 3 opening), when it began, and
    the commanded angle of the fingertips about the palm's axis [rad].
    """
    error = truth["error"]
    phase, since, angle = memory[:, :3].T.copy()
    if t == 0.0:
        angle = _grip_angle(truth)
    twisting = phase == 2
    angle = np.where(twisting, np.clip(angle + 0.04 * np.clip(4.0 * error, -1.8, 1.8), -_REACH, _REACH), angle)
    stuck = (np.abs(error) > 0.05) & (angle * np.sign(error) >= _REACH)  # at the end of the fingers' range
    over = np.where(twisting, stuck, t - since > np.select([phase == 0, phase == 1], [0.28, 0.20], 0.16))
    back = over & (phase == 3)
    radius = np.select(
        [phase == 0, phase == 3],
        [_OPEN, _OPEN],
        0.025 / np.cos(wrap_angle(truth["angle"] - angle, np.pi / 2)) + TIP_RADIUS - _SQUEEZE,
    )
    around = angle[:, None] + np.arange(4) * np.pi / 2
    high = np.full_like(around, PALM_TOP + 0.024)
    tips = np.stack([radius[:, None] * np.cos(around), radius[:, None] * np.sin(around), high], axis=-1)
    memory[:, 0] = np.where(over, (phase + 1) % 4, phase)
    memory[:, 1] = np.where(over, t, since)
    memory[:, 2] = np.where(back, _grip_angle(truth), angle)
    return claw_action(claw_joints(tips))


def _grip_angle(truth: Truth) -> Float[np.ndarray, " n"]:
    """Angle at which fingertips close on the cube's sides [rad], with the longest stroke ahead of them."""
    way = np.sign(truth["error"])
    sides = (wrap_angle(truth["angle"], np.pi / 2) * way)[:, None] + np.array([-np.pi / 2, 0.0, np.pi / 2])
    grip = np.clip(sides - _OFF_CENTRE, -_REACH, None)
    off = np.abs(grip - sides) > _OFF_CENTRE + 1e-9
    return way * np.where(off | (grip > _REACH), np.inf, grip).min(axis=1)


_REACH = 0.60  # [rad] how far the claw's fingertips turn about the palm's axis
_OFF_CENTRE = 0.26  # [rad] how far from the middle of a side they may close: well inside the cone of friction
_OPEN = 0.050  # [m] radius at which they pass a corner of the cube
_SQUEEZE = 0.010  # [m] by which a fingertip's goal lies inside the cube
