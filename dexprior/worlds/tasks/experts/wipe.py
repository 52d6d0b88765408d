"""Press, go to one end of the stroke, then to the other."""

from __future__ import annotations

import numpy as np

from dexprior.geometry.rotations import quat_rotate, wrap_angle, yaw_of
from dexprior.worlds.tasks.base import Truth
from dexprior.worlds.tasks.experts.base import gripper_action, level
from dexprior.worlds.tasks.view import RigState

__all__ = ["wipe"]

_PRESS = 7.0  # [N]
_SPEED = 0.07  # [m/s]
_REACH = 0.045  # [m] beyond the middle; strokes are 80 mm


def wipe(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Lower until the plate pushes back, then wipe with an even force."""
    n = len(memory)
    force = truth["force"]
    memory[:, 0] = np.where(force > 1.5, 1.0, memory[:, 0])  # it has touched
    memory[:, 1] = np.where((memory[:, 1] == 0) & (truth["along"] < -_REACH + 0.003), 1.0, memory[:, 1])  # turned
    down = np.where(memory[:, 0] > 0, np.clip(-0.003 * (_PRESS - force), -0.03, 0.03), -0.03)
    goal = np.where(memory[:, 1] > 0, _REACH, -_REACH)
    along = np.clip(4.0 * (goal - truth["along"]), -_SPEED, _SPEED) * memory[:, 0]
    aside = np.clip(-4.0 * truth["aside"], -_SPEED, _SPEED)
    local = np.column_stack([along, aside, np.zeros(n)])
    move = quat_rotate(truth["mark"][:, 3:], local)
    move[:, 2] = down
    turn = np.concatenate([0.5 * level(truth["object"][:, 3:]), -yaw_of(truth["object"][:, 3:])[:, None]], axis=1)
    turn[:, 2] = wrap_angle(turn[:, 2], np.pi / 2)
    return gripper_action(move, turn, np.full(n, -1.0))
