"""Policies behind the safety gate: the scenes of a panel on the loopback robot, one after the other.

The robot stands in another cell for every instance, with that instance's parameters and noise, so that an episode
differs from the one that `run_episodes` gives on the same panel in what the gate and its link do, and in nothing else.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from dexprior.envs.hardware import HardwareBackend, HardwareOptions, start_gate
from dexprior.envs.panel import Panel
from dexprior.errors import SafetyStop
from dexprior.families import SensorModels
from dexprior.policy.rollout import Policy, run_episodes
from dexprior.worlds.tasks import Task

__all__ = ["GatedEpisodes", "run_gated"]


@dataclass(frozen=True, kw_only=True)
class GatedEpisodes:
    """One episode of each instance of a panel behind the gate."""

    success: Bool[np.ndarray, " n"]
    """A stopped one is none."""
    stops: dict[str, int]
    """Rule -> episodes that it stopped."""
    refused: dict[str, int]
    """Rule -> commands that became a period of standing still."""
    slowed: Int[np.ndarray, " n"]
    """Commands of each episode whose velocity was shortened before they were sent."""
    saturated: Int[np.ndarray, " n"]
    """Numbers of each episode's actions that were clipped to [-1, 1]; of stopped ones none are counted."""


def run_gated(
    policy: Callable[[Int[np.ndarray, " 1"]], Policy], task: Task, panel: Panel, *, sensors: SensorModels | None = None
) -> GatedEpisodes:
    """One episode of each instance behind the gate of a task.

    A stop ends its episode, and the next one begins with the gate reset, as by a person who has looked.

    Args:
        policy: what acts in the instance of some index, n = 1.
        task: what is done, in the world in which it is done.
        panel: where things are, with the parameters of each world.
        sensors: models of the robot's sensors and links; none by default.
    """
    n = len(panel)
    # how often it fails is what is measured here
    options = HardwareOptions(gate={"max_consecutive_failures": n}, sensors=sensors or SensorModels())
    backend = HardwareBackend(start_gate(options, task=task, cells=panel))
    success, slowed, saturated = np.zeros(n, dtype=bool), np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    stops: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    try:
        for k in range(n):
            began, before = time.monotonic(), backend.slowed
            try:
                episode = run_episodes(policy(np.array([k])), backend, panel.take([k]))
                success[k], saturated[k] = episode.success[0], episode.saturated
            except SafetyStop:
                stops[backend.evidence(1)[0].rule] += 1
                backend.recover(by="the simulation of a person who looks at the robot")
            slowed[k] = backend.slowed - before
            refused.update(e.rule for e in backend.evidence(_MOST) if e.t >= began and e.verdict == "refuse")
    finally:
        backend.close()
    return GatedEpisodes(success=success, stops=dict(stops), refused=dict(refused), slowed=slowed, saturated=saturated)


_MOST = 1000  # decisions of an episode that are looked at
