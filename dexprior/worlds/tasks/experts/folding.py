"""Pinch the hem, carry it over, let go."""

from __future__ import annotations

import numpy as np

from dexprior.geometry.rotations import axis_angle_from_matrix, matrix_from_quat, quat_from_yaw, quat_rotate
from dexprior.worlds.tasks.base import Truth
from dexprior.worlds.tasks.experts.base import gripper_action
from dexprior.worlds.tasks.view import RigState

__all__ = ["folding"]


def folding(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Turn the tools towards the hem, pinch it, carry it over the fold line in half a circle, let go and draw back.

    The tools turn with the fabric: they point inwards at first and come out on the other side. One gripper alone swings
    low and fast: carried high, the hem's free corners hang down and are folded under.
    """
    n = len(memory)
    duration, slack = (1.0, 0.7) if len(rigs) == 1 else (2.0, 0.9)
    swing = float(np.clip((t - 1.9) / duration, 0.0, 1.0))
    swing = np.pi * swing * swing * (3.0 - 2.0 * swing)
    outwards = quat_rotate(quat_from_yaw(truth["yaw"]), np.broadcast_to([1.0, 0.0, 0.0], (n, 3)))
    along = np.cross([0.0, 0.0, 1.0], outwards)
    lean = np.pi / 2 - swing  # of the tools from pointing down, about `along`
    actions = []
    for k, rig in enumerate(rigs):
        tool, grip, hinge, goal = rig.tcp[:, :3], truth["grip"][:, k], truth["hinge"][:, k], truth["goal"][:, k]
        reach = np.linalg.norm(goal - hinge, axis=1, keepdims=True)
        if t < 1.9:  # in front of the hem, then around it; while the pads close, where the hem was found
            wanted = grip + (0.04 if t < 0.9 else 0.0) * outwards if t < 1.4 else tool
        else:
            # the pad under the hem comes to lie between the layers; when it opens, it must not press on the lower one
            landed = _PAD * (swing / np.pi) + 0.004 * np.clip((t - 4.0) / 0.2, 0.0, 1.0)
            height = slack * reach * np.sin(swing) + landed  # the cloth bends in a curve, not in an edge
            wanted = hinge + reach * np.cos(swing) * outwards + height * [0.0, 0.0, 1.0]
        if t > 4.4:  # fast, so that friction has little time to take the hem along
            wanted = wanted - 0.15 * outwards
        x = quat_rotate(rig.tcp[:, 3:], np.broadcast_to([1.0, 0.0, 0.0], (n, 3)))
        side = np.where((x * along).sum(axis=1, keepdims=True) < 0, -1.0, 1.0) * along
        points = -np.sin(lean) * outwards - np.cos(lean) * np.array([0.0, 0.0, 1.0])
        R = np.stack([side, np.cross(points, side), points], axis=2)
        turn = axis_angle_from_matrix(R @ matrix_from_quat(rig.tcp[:, 3:]).transpose(0, 2, 1))
        opening = float(np.interp(t, [1.4, 1.8, 4.0, 4.2], [-0.4, -1.0, -1.0, -0.65]))
        actions.append(gripper_action(6.0 * (wanted - tool), 6.0 * turn, np.full(n, opening)))
    return np.concatenate(actions, axis=1)


_PAD = 0.017  # [m] thickness of a gripper's pad and of two layers of cloth, with some room
