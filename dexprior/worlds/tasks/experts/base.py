"""What experts have in common: letting one act, and the actions of an arm with a gripper."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import quat_rotate
from dexprior.worlds.tasks.actions import MAX_TWIST
from dexprior.worlds.tasks.base import Truth
from dexprior.worlds.tasks.episodes import Player, episode
from dexprior.worlds.tasks.worlds import TaskWorlds

__all__ = ["gripper_action", "level", "run_expert"]


def run_expert(worlds: TaskWorlds, expert: Player) -> tuple[np.ndarray, Truth]:
    """Let an expert act for an episode from where the worlds are.

    Returns:
        Whether each world is successful at the end, and the truth there.
    """
    for step in episode(worlds, expert):
        truth = step.truth
    return worlds.task.success(truth), truth


def gripper_action(linear: np.ndarray, angular: np.ndarray, end: np.ndarray) -> Float[np.ndarray, "n 7"]:
    """Action of an arm with a gripper: speeds of the tool (n, 3) [m/s] and [rad/s], and the gripper's number (n,)."""
    twist = np.concatenate([linear, angular], axis=1) / MAX_TWIST
    return np.concatenate([np.clip(twist, -1.0, 1.0), end[:, None]], axis=1)


def level(quat: np.ndarray) -> Float[np.ndarray, "n 2"]:
    """Turn about x and y that brings a body's z axis upright [rad]."""
    axis = quat_rotate(quat, np.broadcast_to([0.0, 0.0, 1.0], (len(quat), 3)))
    axis = axis * np.where(axis[:, 2:] < 0, -1.0, 1.0)
    return np.cross(axis, [0.0, 0.0, 1.0])[:, :2]
