"""Align, lower, turn, regrip."""

from __future__ import annotations

import numpy as np

from dexprior.worlds.tasks.base import Truth
from dexprior.worlds.tasks.experts.base import gripper_action, level
from dexprior.worlds.tasks.view import RigState

__all__ = ["nut_bolt"]


def nut_bolt(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Centre and level the nut, lower it onto the bolt, and turn; at the end of the wrist's range, regrip 240 deg back.

    Where the threads have not met by then, the nut rests on the two chamfers while the gripper is open.

    `memory` holds: whether it came down, whether it touched, the phase of the grip (0 turning, 1 opening, 2 turning
    back, 3 closing) and when that phase began.
    """
    error = truth["bolt"][:, :2] - truth["object"][:, :2]
    ready = (np.linalg.norm(error, axis=1) < 0.0005) & (truth["tilt"] < 0.02)
    memory[:, 0] = np.where(ready, 1.0, memory[:, 0])
    memory[:, 1] = np.where((truth["depth"] > -0.0005) & (memory[:, 0] > 0), 1.0, memory[:, 1])
    wrist = rigs[0].q[:, -1]
    phase, since = memory[:, 2].copy(), t - memory[:, 3]
    over = np.select(
        [phase == 0, phase == 1, phase == 2, phase == 3],
        [(wrist > 2.7) & (truth["depth"] > 0.001), since > 0.2, wrist < 2.7 - 4 * np.pi / 3, since > 0.3],
    )
    memory[:, 3] = np.where(over, t, memory[:, 3])
    memory[:, 2] = phase = np.where(over, (phase + 1) % 4, phase)
    turning, back = (phase == 0) & (memory[:, 1] > 0), phase == 2
    spin = np.where(turning, -2.0, np.where(back, 2.0, 0.0))
    gripped = (phase == 0) | (phase == 3)
    upright = np.where(gripped[:, None], 2.0 * level(truth["object"][:, 3:]), 0.0)
    turn = np.concatenate([upright, spin[:, None]], axis=1)
    sink = np.where(turning, -0.0018, np.where((memory[:, 0] > 0) & (phase == 0), -0.03, 0.0))
    arm = truth["object"][:, :3] - truth["tool"]
    # a nut on the bolt is followed, one in the air is moved
    free = gripped & (truth["depth"] < 0.001)
    sideways = np.where(free[:, None], 4.0 * error, 4.0 * arm[:, :2])
    sink = np.where(gripped, sink, 4.0 * arm[:, 2])
    move = np.column_stack([sideways, sink]) - np.where(free[:, None], np.cross(turn, arm), 0.0)
    return gripper_action(move, turn, np.where(gripped, -1.0, 0.2))
