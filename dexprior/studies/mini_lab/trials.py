"""Episodes of the cube in the hand, many at once: what a gait did in worlds of a family, and its training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior.families import ParameterFamily
from dexprior.stats.minimize import minimize_cma
from dexprior.studies.mini_lab.gait import GAIT, gait
from dexprior.studies.mini_lab.settings import TrainingConfig
from dexprior.worlds.measures import slip_rate
from dexprior.worlds.tasks import Player, Scenes, Task, TaskWorlds, episode

__all__ = ["Outcomes", "cost_of", "episodes", "gait_policy", "repeated", "train_gait"]


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """Outcomes of n episodes."""

    success: Bool[np.ndarray, " n"]
    """Whether the cube stood at its mark before the time was over, and was never lost."""
    seconds: Float[np.ndarray, " n"]
    """Until then; infinite where it never did."""
    left: Float[np.ndarray, " n"]
    """Angle that remains at the end [rad]."""
    remains: Float[np.ndarray, "step n"]
    """Angle that remains when each action is chosen [rad]."""
    lost: Bool[np.ndarray, " n"]
    """Dropped or toppled."""
    slip: Float[np.ndarray, "step n"]
    """[m/s]"""
    held: Bool[np.ndarray, "step n"]
    actions: Float[np.ndarray, "step n action"]

    @property
    def slip_rate(self) -> Float[np.ndarray, " n"]:
        """Share of the held steps with slip; zero where nothing was ever held."""
        return np.nan_to_num(slip_rate(self.slip, self.held))


def gait_policy(shares: Float[np.ndarray, "... 7"], dt: float) -> Player:
    """A gait as a policy: one row of shares for all worlds, or one a world."""

    def act(truth: Any, robots: Any, t: float, memory: np.ndarray) -> np.ndarray:
        return gait(np.broadcast_to(shares, (len(memory), len(GAIT))), truth, t, dt, memory)

    return act


def repeated(scenes: Scenes, times: int) -> Scenes:
    """All of the scenes, so many times over."""
    return {name: np.concatenate([np.asarray(value)] * times) for name, value in scenes.items()}


def episodes(
    worlds: TaskWorlds, policy: Player, scenes: Scenes, values: Float[np.ndarray, "n parameter"], seconds: float
) -> Outcomes:
    """Let a policy act in every world.

    Args:
        worlds: as many as there are rows of values.
        policy: what acts.
        scenes: an instance a world.
        values: of the worlds' family.
        seconds: how long.
    """
    task, n = worlds.task, worlds.n
    worlds.reset(np.arange(n), scenes, [worlds.family.as_dict(row) for row in values])
    lost, first = np.zeros(n, dtype=bool), np.full(n, np.inf)
    rows: dict[str, list[np.ndarray]] = {"remains": [], "slip": [], "held": [], "actions": []}
    for step in episode(worlds, policy, seconds=seconds):
        truth = step.truth
        lost |= task.failure(truth)
        first = np.where(task.success(truth) & ~lost & np.isinf(first), (step.number + 1) * task.control_dt, first)
        rows["remains"].append(np.abs(step.before["error"]))
        for name, value in (("slip", truth["slip"]), ("held", truth["held"]), ("actions", step.action)):
            rows[name].append(np.array(value))
    return Outcomes(
        success=np.isfinite(first) & ~lost, seconds=first, left=np.abs(truth["error"]), lost=lost,
        **{name: np.stack(row) for name, row in rows.items()},
    )  # fmt: skip


def cost_of(outcomes: Outcomes, seconds: float) -> Float[np.ndarray, " n"]:
    """Share of the time that success took; failure costs one and the share of half a turn that remains."""
    taken = np.where(outcomes.success, outcomes.seconds / seconds, 0.0)
    return np.where(outcomes.success, taken, 1.0 + outcomes.left / np.pi)


def train_gait(
    task: Task,
    family: ParameterFamily,
    levels: Float[np.ndarray, "level parameter"],
    *,
    start: Float[np.ndarray, " 7"],
    settings: TrainingConfig,
    seconds: float,
    seed: int,
    within: Callable[[Player], Player] = lambda policy: policy,
) -> tuple[Float[np.ndarray, " 7"], float]:
    """CMA-ES over the gait's numbers, on instances that no panel shows, each at every level.

    Args:
        task: the cube.
        family: of the levels.
        levels: parameter sets that it is trained in.
        start: where the search begins; kept where nothing better is found.
        settings: of the search.
        seconds: of an episode.
        seed: of instances and search.
        within: what the gait is a part of: the whole acts, and has the cost.

    Returns:
        The shares with the lowest mean cost, and that cost.
    """
    population, instances = settings.population, settings.instances
    each = len(levels) * instances
    scenes = task.sample(np.random.default_rng([seed, 1]), instances)
    values = np.tile(np.repeat(levels, instances, axis=0), (population, 1))
    worlds = TaskWorlds(task, population * each, family=family, threads=1)
    scenes = repeated(scenes, population * len(levels))

    def cost(shares: np.ndarray) -> np.ndarray:
        policy = within(gait_policy(np.repeat(shares, each, axis=0), task.control_dt))
        return (
            cost_of(episodes(worlds, policy, scenes, values, seconds), seconds).reshape(population, each).mean(axis=1)
        )

    before = float(cost(np.tile(start, (population, 1)))[0])
    best, lowest = minimize_cma(
        cost, start, spread=settings.spread, bounds=(0.0, 1.0), population=population,
        evaluations=population * settings.generations, seed=seed,
    )  # fmt: skip
    return (best, lowest) if lowest < before else (start, before)
