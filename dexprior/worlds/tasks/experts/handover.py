"""Wait for the person, take, let them let go."""

from __future__ import annotations

import numpy as np

from dexprior.geometry.rotations import wrap_angle, yaw_of
from dexprior.worlds.tasks.base import Truth
from dexprior.worlds.tasks.experts.base import gripper_action
from dexprior.worlds.tasks.view import RigState

__all__ = ["handover"]


def handover(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Over the free end, down when it is still, close, hold until the person has let go, lift a little.

    `memory` holds the phase (0 over, 1 down, 2 closing), when it began, and when the bar was last held.
    """
    grip, tool = truth["grip"], truth["tool"]
    bar = truth["object"][:, 3:]
    yaw = wrap_angle(yaw_of(bar) - yaw_of(rigs[0].tcp[:, 3:]), np.pi)
    phase, since = memory[:, 0].copy(), t - memory[:, 1]
    above = grip + np.array([0.0, 0.0, 0.06])
    error = np.where((phase == 0)[:, None], above, grip) - tool
    calm = np.linalg.norm(truth["velocity"], axis=1) < 0.03
    close = np.linalg.norm(error, axis=1) < np.where(phase == 0, 0.012, 0.006)
    over = np.select([phase == 0, phase == 1], [close & calm & (np.abs(yaw) < 0.08) & (since > 0.2), close])
    memory[:, 2] = np.where(truth["held"] | (phase < 2), t, memory[:, 2])
    lost = (phase == 2) & (t - memory[:, 2] > 0.6)
    memory[:, 1] = np.where((over > 0) | lost, t, memory[:, 1])
    memory[:, 0] = phase = np.where(lost, 0.0, phase + over)
    move = 5.0 * error + np.where((phase < 2)[:, None], truth["velocity"], 0.0)
    up = np.array([0.0, 0.0, 0.06]) * ((truth["released"] > 0.3) & (truth["released"] < 0.9))[:, None]
    move = np.where((phase == 2)[:, None], np.where(truth["held"][:, None], up, move), move)
    turn = np.zeros_like(move)
    turn[:, 2] = np.where(phase == 2, 0.0, 3.0 * yaw)
    return gripper_action(move, turn, np.where(phase == 2, -1.0, 0.4))
