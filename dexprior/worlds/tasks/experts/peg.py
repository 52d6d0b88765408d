"""Align, level, push gently."""

from __future__ import annotations

import numpy as np

from dexprior.geometry.rotations import wrap_angle, yaw_of
from dexprior.worlds.tasks.base import Truth
from dexprior.worlds.tasks.experts.base import gripper_action, level
from dexprior.worlds.tasks.view import RigState

__all__ = ["peg"]


def peg(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Bring the peg's end over the hole, level it, and push gently, with a small search when it does not go in."""
    n = len(memory)
    error = truth["hole"][:, :2] - truth["end"][:, :2]
    yaw = wrap_angle(yaw_of(truth["hole"][:, 3:]) - yaw_of(truth["object"][:, 3:]), np.pi / 2)
    turn = np.concatenate([2.0 * level(truth["object"][:, 3:]), 3.0 * yaw[:, None]], axis=1)
    ready = (np.linalg.norm(error, axis=1) < 0.0008) & (np.abs(yaw) < 0.01) & (truth["tilt"] < 0.015)
    memory[:, 0] = np.where(ready | (truth["depth"] > 0.001), 1.0, memory[:, 0])
    down = np.where(memory[:, 0] > 0, np.where(np.abs(truth["wrench"][:, 2]) > 12.0, 0.004, -0.025), 0.0)
    # the end moves with the tool and turns about it
    arm = truth["end"] - truth["tool"]
    move = np.column_stack([5.0 * error, down]) - np.cross(turn, arm)
    return gripper_action(move, turn, np.full(n, -1.0))
