"""Where the line is tuned and where it is judged: seeds of scenes and worlds, named once.

Scenes of `TUNING` may be looked at while something is chosen; those of `SCORING` only to report it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.families import ParameterFamily, Phenomena, SensorModels, drawn_outside
from dexprior.families.phenomena import Anisotropy, Dissipation, Stribeck
from dexprior.worlds.tasks import Scenes, Task

__all__ = ["ABOUT_OTHER", "SCORING", "TUNING", "JudgingWorld", "judging_worlds"]

TUNING = 1000
"""Seed of the scenes that choices are made on."""
SCORING = 2000
"""Seed of the scenes that results are reported on."""
ABOUT_OTHER = (
    "The other world is simulated in the same engine: one vector of parameters outside of the training family, in "
    "which the demonstrations were recorded."
)
"""What must stand beside every number of it: it is no other law of contact, and no robot."""
_PARAMETERS = 7


@dataclass(frozen=True, kw_only=True)
class JudgingWorld:
    """One world, or one family of them, in which policies are judged."""

    name: str
    task: Task
    family: ParameterFamily
    phenomena: Phenomena | None = None
    """Laws of contact that the training world lacks."""

    def panel(self, scenes: Scenes, *, seed: int) -> Panel:
        """Instances with these scenes; parameters and noise depend on seed and world alone."""
        n = len(next(iter(scenes.values())))
        lane = [seed, _PARAMETERS]
        return Panel(
            self.name, self.task.name, self.family, scenes,
            self.family.sample(np.random.default_rng([*lane, 1]), n),
            np.random.default_rng([*lane, 2]).integers(2**31, size=n),
        )  # fmt: skip

    def backend(self, n: int, *, sensors: SensorModels | None = None) -> SimBackend:
        """Simulated worlds of it, seen through models of sensors."""
        return SimBackend(self.task, n, family=self.family, phenomena=self.phenomena, sensors=sensors)


def judging_worlds(task: Task) -> Mapping[str, JudgingWorld]:
    """The worlds of a task by name.

    `training`: what policies are trained in. `other`: the one in which demonstrations were recorded, one vector of
    parameters outside the training family. `others`: drawn from beyond that family's ends. `laws`: `other`, with
    friction that depends on speed and direction and damping that grows with depth, which no training world has; where
    something deforms, MuJoCo's friction would lose its damper to the latter, and the damping stays as it is.
    """
    other = task.other()
    drawn = drawn_outside(f"{task.name}-others", task.family, other.reality)
    soft = any(part.soft for part in task.parts)
    laws = Phenomena(stribeck=Stribeck(), anisotropy=Anisotropy(), dissipation=None if soft else Dissipation())
    worlds = (
        JudgingWorld(name="training", task=task, family=task.family),
        JudgingWorld(name="other", task=other, family=other.reality),
        JudgingWorld(name="others", task=other, family=drawn),
        JudgingWorld(name="laws", task=other, family=other.reality, phenomena=laws),
    )
    return {world.name: world for world in worlds}
