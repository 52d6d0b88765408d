"""Commands in the words of the tests, and a scripted insertion for whatever needs a command source that succeeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dexprior.envs.base import ActionSpec, Reading, RobotCommand, tracked
from dexprior.envs.panel import Panel
from dexprior.worlds.tasks.suite import expert_of

__all__ = ["ScriptedInsertion", "moved", "told"]


def told(twist, opening: float = 0.08) -> tuple[RobotCommand, ...]:
    """A twist [m/s, rad/s] and an opening [m] of one arm with a gripper in one world."""
    return (RobotCommand(np.array(twist, dtype=np.float64).reshape(-1, 6), np.full((1, 2), opening / 2)),)


def moved(panel: Panel, **places) -> Panel:
    """A panel of one instance with things elsewhere."""
    return replace(panel, scenes=dict(panel.scenes) | {name: np.array([place]) for name, place in places.items()})


class ScriptedInsertion:
    """Puts the nut on the bolt by looking at the truth: the task's expert, behind any backend."""

    def __init__(self, actions: ActionSpec) -> None:
        self._actions, self._memory = actions, np.zeros((1, 4))

    def __call__(self, reading: Reading) -> tuple[RobotCommand, ...]:
        """Commands."""
        action = expert_of("insertion")(tracked(reading), (), float(reading.t[0]), self._memory)
        return self._actions.commands(action)
