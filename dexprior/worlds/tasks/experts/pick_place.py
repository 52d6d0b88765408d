"""Reach, grasp, carry, set down."""

from __future__ import annotations

import numpy as np

from dexprior.geometry.rotations import wrap_angle, yaw_of
from dexprior.worlds.tasks.base import Truth
from dexprior.worlds.tasks.experts.base import gripper_action
from dexprior.worlds.tasks.view import RigState

__all__ = ["pick_place"]


def pick_place(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Over the cube, down, close, up, across, down."""
    cube, tool, goal, n = truth["object"][:, :3], truth["tool"], truth["goal"], len(memory)
    turn = np.zeros((n, 3))
    end = np.full(n, 1.0 if t < 1.0 else -1.0)
    if t < 1.0:
        high = np.array([0.0, 0.0, 0.08 if t < 0.5 else 0.0])
        move = 5.0 * (cube + high - tool)
        turn[:, 2] = 3.0 * wrap_angle(yaw_of(truth["object"][:, 3:]) - yaw_of(rigs[0].tcp[:, 3:]), np.pi / 2)
    elif t < 1.4:
        move = np.zeros((n, 3))
    elif t < 2.0:
        move = np.tile([0.0, 0.0, 0.18], (n, 1))
    else:
        low = 5.0 * (0.02 - cube[:, 2]) if t > 3.1 else np.zeros(n)
        move = np.column_stack([4.0 * (goal[:, :2] - cube[:, :2]), low])
    return gripper_action(move, turn, end)
