"""Take the peg where it stands; align, level, push gently."""

from __future__ import annotations

import numpy as np

from dexprior.geometry.rotations import wrap_angle, yaw_of
from dexprior.worlds.tasks.base import Truth
from dexprior.worlds.tasks.experts.base import gripper_action, level
from dexprior.worlds.tasks.view import RigState

__all__ = ["peg"]

_SQUARE = np.pi / 2  # [rad] after which a peg looks the same
_HIGH = 0.010  # [m] of the peg's end above the rim while it is carried


def peg(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Pick it up unless the gripper holds it at the start, bring its end over the hole, level it, and push gently."""
    if t == 0.0:
        memory[:, 1] = ~truth["held"]
    inserting = _insert(truth, memory, carried=t >= 2.0)
    if t >= 2.0 or not memory[:, 1].any():
        return inserting
    return np.where(memory[:, 1:2] > 0, _pick_up(truth, rigs, t), inserting)


def _insert(truth: Truth, memory: np.ndarray, *, carried: bool) -> np.ndarray:
    """Actions that insert the peg, with a small search when it does not go in."""
    n = len(memory)
    error = truth["hole"][:, :2] - truth["end"][:, :2]
    yaw = wrap_angle(yaw_of(truth["hole"][:, 3:]) - yaw_of(truth["object"][:, 3:]), _SQUARE)
    turn = np.concatenate([2.0 * level(truth["object"][:, 3:]), 3.0 * yaw[:, None]], axis=1)
    ready = (np.linalg.norm(error, axis=1) < 0.0008) & (np.abs(yaw) < 0.01) & (truth["tilt"] < 0.015)
    if carried:
        ready &= truth["held"]
    memory[:, 0] = np.where(ready | (truth["depth"] > 0.001), 1.0, memory[:, 0])
    down = np.where(memory[:, 0] > 0, np.where(np.abs(truth["wrench"][:, 2]) > 12.0, 0.004, -0.025), 0.0)
    # the end moves with the tool and turns about it
    arm = truth["end"] - truth["tool"]
    move = np.column_stack([5.0 * error, down]) - np.cross(turn, arm)
    return gripper_action(move, turn, np.full(n, -1.0))


def _pick_up(truth: Truth, rigs: tuple[RigState, ...], t: float) -> np.ndarray:
    """A grasp from above: over it, down, close, up."""
    peg, n = truth["object"], len(truth["object"])
    half = np.linalg.norm(peg[:, :3] - truth["end"], axis=1)
    grip = peg[:, :3] + np.column_stack([np.zeros((n, 2)), half - 0.014])
    turn = np.zeros((n, 3))
    if t < 1.2:
        high = np.array([0.0, 0.0, 0.05 if t < 0.7 else 0.0])
        turn[:, 2] = 3.0 * wrap_angle(yaw_of(peg[:, 3:]) - yaw_of(rigs[0].tcp[:, 3:]), _SQUARE)
        return gripper_action(5.0 * (grip + high - truth["tool"]), turn, np.ones(n))
    if t < 1.6:
        return gripper_action(np.zeros((n, 3)), turn, np.full(n, -1.0))
    above = truth["rim"] + _HIGH - truth["end"][:, 2]
    return gripper_action(np.column_stack([np.zeros((n, 2)), 6.0 * above]), turn, np.full(n, -1.0))
