"""The two worlds of the mini-lab, and a replay of one command in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from dexprior.families import ParameterFamily
from dexprior.studies.mini_lab.settings import LabConfig
from dexprior.studies.mini_lab.trials import episodes
from dexprior.transfer.diagnosis import identified
from dexprior.transfer.replay import Probe
from dexprior.worlds.tasks import Player, Scenes, Task, TaskWorlds

__all__ = ["FRICTION", "TRAINED", "assumed_family", "levels", "other_family", "probe_of"]

FRICTION = "pad_friction"
"""Name of the parameter in which the worlds differ."""
TRAINED = (0.1, 0.5, 0.9)
"""Quantiles of a family, or of what is added to it, at which a gait is trained."""
_EVERY = 5  # simulation steps between two samples: half a control period


def assumed_family(task: Task, config: LabConfig) -> ParameterFamily:
    """The simulator of round 1: everything is identified to 5 %, friction lies between the trained values."""
    return _with_friction("lab-simulator", task, min(config.frictions), max(config.frictions))


def other_family(task: Task, config: LabConfig) -> ParameterFamily:
    """The other world: the same with the held-out friction."""
    return _with_friction("lab-other", task, config.held_out, config.held_out)


def levels(family: ParameterFamily, frictions: tuple[float, ...] | None) -> Float[np.ndarray, "level parameter"]:
    """Parameter sets that a gait is trained in: at these frictions, or at quantiles of the family's."""
    k = family.names.index(FRICTION)
    chosen = family.parameters[k].ppf(np.array(TRAINED)) if frictions is None else np.array(frictions)
    rows = np.tile(family.medians(), (len(chosen), 1))
    rows[:, k] = chosen
    return rows


def probe_of(task: Task, policy: Player, family: ParameterFamily, scene: Scenes, seconds: float) -> Probe:
    """What a policy commands in the middle of a family, to be replayed elsewhere.

    Args:
        task: the cube.
        policy: what acts.
        family: whose medians the world has.
        scene: one instance.
        seconds: how long.
    """
    worlds = TaskWorlds(task, 1, family=family, threads=1)
    done = episodes(worlds, policy, scene, family.medians()[None], seconds)
    return Probe(task=task, scene=scene, actions=done.actions[:, 0], every=_EVERY)


def _with_friction(name: str, task: Task, low: float, high: float) -> ParameterFamily:
    known = identified(task).parameters
    return ParameterFamily(name, tuple(replace(p, low=low, high=high) if p.name == FRICTION else p for p in known))
