"""Over the nut, down, grasp, up, across, down."""

from __future__ import annotations

import numpy as np

from dexprior.worlds.tasks.base import Truth
from dexprior.worlds.tasks.experts.base import gripper_action
from dexprior.worlds.tasks.view import RigState

__all__ = ["insertion"]

_GRASP = 0.004  # [m] of the pads' middle over the nut's centre
_PRESSED = -0.4  # 18 N of each pad; at 30 N soft pads sink through the nut's wall and meet the bolt
_CLOSING = 8  # control periods until the pads press
_ARRIVED = np.array([0.02, 0.004, 0.0, 0.01, 0.002, 0.0])  # [m] within which each place counts as reached
_FASTEST = np.array([0.5, 0.5, 0.5, 0.5, 0.5, 0.2])  # [m/s] on the way to each


def insertion(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Go from place to place, each when the one before is reached.

    `memory` holds: the place (0 over the nut, 1 at it, 2 closing, 3 up, 4 over the bolt, 5 down), control periods spent
    closing, and the height of the nut's centre on the table [m].
    """
    nut, tool, n = truth["object"][:, :3], truth["tool"], len(memory)
    memory[:, 2] = nut[:, 2] if t == 0.0 else memory[:, 2]
    phase, up = memory[:, 0].astype(int), np.array([0.0, 0.0, 1.0])
    over = truth["goal"] + 0.015 * up
    high = np.column_stack([tool[:, :2], over[:, 2] + _GRASP])
    seat = truth["bolt"] + (memory[:, 2:3] + _GRASP) * up
    at, carried = nut + _GRASP * up, tool - nut
    places = np.stack([nut + 0.06 * up, at, at, high, over + carried, seat + carried])
    goal = places[phase, np.arange(n)]
    memory[:, 1] += phase == 2
    there = np.where(phase == 2, memory[:, 1] >= _CLOSING, np.linalg.norm(goal - tool, axis=1) < _ARRIVED[phase])
    memory[:, 0] = np.minimum(phase + there, len(places) - 1)
    most = _FASTEST[phase, None]
    move = np.clip(6.0 * (goal - tool), -most, most)
    return gripper_action(move, np.zeros((n, 3)), np.where(phase < 2, 1.0, _PRESSED))
