"""Over the fruit, pull, lift."""

from __future__ import annotations

import numpy as np

from dexprior.robots.tendon_hands import HAND_FINGERS, MAX_TENSION, preshape
from dexprior.worlds.tasks.actions import MAX_TWIST
from dexprior.worlds.tasks.base import Truth
from dexprior.worlds.tasks.view import RigState

__all__ = ["soft_grasp"]

_LOWEST = 0.0175  # [m] of the tool: the tips of three fingers swing 16.6 mm below it


def soft_grasp(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Over the fruit, down, pull, lift, hold.

    It pulls until the flesh bears three quarters of its yield, or a fingertip four times the fruit's weight. Fingertips
    that close swing down: three fingers stay high enough over the table, a hand with a thumb comes down shaped to the
    fruit.
    """
    fruit, tool, n = truth["object"][:, :3], truth["tool"], len(memory)
    thumb = rigs[0].touch.shape[1] == len(HAND_FINGERS)
    goal = fruit + np.array([0.0, 0.0, 0.05 if t < 0.5 else 0.004])
    goal[:, 2] = np.maximum(goal[:, 2], 0.0 if thumb else _LOWEST)
    move = 5.0 * (goal - tool) if t < 1.1 else np.zeros((n, 3))
    if t >= 1.9:
        move[:, 2] = np.where(tool[:, 2] < 0.15, 0.14, 0.0)
    if thumb:
        memory[:, 0] = np.maximum(memory[:, 0], preshape(truth["width"]) * 2.0 / MAX_TENSION)
    if t >= 1.1:  # integrate: fast while fewer than two fingertips feel the fruit, or none bears more than its weight
        firm = truth["force"].max(axis=1) / truth["weight"]
        loose = ((truth["force"] > 0.02).sum(axis=1) < 2) | ((truth["load"] < 0.4) & (firm < 1.5))
        missing = np.minimum(0.75 - truth["load"], 1.0 - firm / 4.0)
        memory[:, 0] = np.clip(memory[:, 0] + np.where(loose, 0.08, 0.02) * missing, 0.0, 2.0)
    end = np.tile((1.0 - memory[:, 0])[:, None], (1, rigs[0].touch.shape[1]))
    twist = np.concatenate([move, np.zeros((n, 3))], axis=1) / MAX_TWIST
    return np.concatenate([np.clip(twist, -1.0, 1.0), np.clip(end, -1.0, 1.0)], axis=1)
