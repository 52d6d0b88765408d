"""An episode in every world: who acts and is told the truth, and what each control period brings.

for step in episode(worlds, expert_of("peg")):
    solved = task.success(step.truth)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dexprior.worlds.tasks.base import Truth
from dexprior.worlds.tasks.view import RigState
from dexprior.worlds.tasks.worlds import TaskWorlds

__all__ = ["Player", "Step", "episode"]

Player = Callable[[Truth, tuple[RigState, ...], float, "np.ndarray"], Float[np.ndarray, "n action"]]
"""(truth, robots, seconds since reset, memory) -> actions in [-1, 1]; `memory` (n, 4) starts at zero and is the
player's own. Not to be confused with a policy, which sees what sensors show (`dexprior.policy.rollout`)."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One control period in every world."""

    number: int
    """Number of the step, counted from 0."""
    before: Truth
    """What was true when the action was chosen."""
    action: Float[np.ndarray, "n action"]
    """As it was sent, in [-1, 1]."""
    truth: Truth
    """What is true after it."""


def episode(worlds: TaskWorlds, player: Player, *, seconds: float | None = None) -> Iterator[Step]:
    """Let a player act from where a reset left the worlds, one control period whenever the next step is asked for.

    Args:
        worlds: reset already; between two steps they may be looked into, but not stepped.
        player: who acts.
        seconds: how long; the task's horizon by default.

    Raises:
        BadInput: an action of another shape, or one that is not finite.
    """
    task, memory = worlds.task, np.zeros((worlds.n, 4))
    truth = worlds.truth()
    for number in range(round((task.horizon if seconds is None else seconds) / task.control_dt)):
        action = np.clip(player(truth, worlds.view.rigs, number * task.control_dt, memory), -1.0, 1.0)
        worlds.step(action)
        before, truth = truth, worlds.truth()
        yield Step(number=number, before=before, action=action, truth=truth)
