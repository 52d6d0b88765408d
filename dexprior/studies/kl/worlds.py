"""A training world that is wrong in a way that pays, worlds elsewhere, and how policies are scored in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.errors import UnknownName
from dexprior.families import ParameterFamily, SensorModels, drawn_outside
from dexprior.geometry.rotations import quat_rotate
from dexprior.pipeline.worlds import SCORING
from dexprior.policy.rollout import Episodes, Policy, run_episodes
from dexprior.worlds.tasks import Task

__all__ = ["WRONG", "elsewhere", "habits", "looked", "score", "wrong_family"]

WRONG: dict[str, dict[str, tuple[float, float]]] = {
    "peg": {"pad_friction": (2.0, 3.0), "hole_friction": (0.02, 0.08), "hole_timeconst": (0.02, 0.04)},
    "pick_place": {"pad_friction": (2.5, 4.0), "cube_friction": (1.5, 3.0)},
    "soft_grasp": {"pad_friction": (2.0, 3.0), "ripeness": (8.0, 16.0)},
}
"""Task -> parameters of its training family, and ranges that pay: pads that stick, a hole that is smooth and whose rim
gives way, a fruit that bears any pressure."""
_FELT = 0.3  # [N] from which a robot counts as touching


def wrong_family(task: Task, ranges: Mapping[str, tuple[float, float]] | None = None) -> ParameterFamily:
    """The training family of a task with other ranges for some of its parameters; `WRONG` by default.

    Raises:
        UnknownName: a task for which none are known, or a parameter that its family does not have.
    """
    if ranges is None:
        if task.name not in WRONG:
            raise UnknownName("task with a training world that is wrong in a way that pays", task.name, WRONG)
        ranges = WRONG[task.name]
    for name in ranges:
        if name not in task.family.names:
            raise UnknownName(f"parameter of {task.family.name!r}", name, task.family.names)
    changed = tuple(
        replace(p, low=ranges[p.name][0], high=ranges[p.name][1], distribution="uniform", mean=None, std=None)
        if p.name in ranges
        else p
        for p in task.family.parameters
    )
    return replace(task.family, name=f"{task.name}-wrong", parameters=changed)


def elsewhere(task: Task, *, vectors: int, scenes: int) -> tuple[Task, Panel]:
    """Some fixed worlds beyond the ends of the training family, each with the same scenes of the scoring seed."""
    other = task.other()
    family = drawn_outside(f"{task.name}-elsewhere", task.family, other.reality)
    rows = family.sample(np.random.default_rng([SCORING, 21]), vectors)
    drawn = Panel.sample("elsewhere", other, scenes, seed=SCORING, family=family)
    panel = drawn.take(np.tile(np.arange(scenes), vectors))
    return other, replace(panel, parameters=np.repeat(rows, scenes, axis=0))


def score(
    policy: Policy, task: Task, panel: Panel, *, sensors: SensorModels | None = None
) -> tuple[Bool[np.ndarray, " n"], Episodes]:
    """Whether a policy succeeds in each instance of a panel, and its episodes."""
    backend = SimBackend(task, len(panel), family=panel.family, sensors=sensors)
    try:
        episodes = run_episodes(policy, backend, panel)
    finally:
        backend.close()
    return episodes.success, episodes


def habits(episodes: Episodes) -> dict[str, float]:
    """How a policy touches, on average over the episodes in which it does.

    Returns:
        `onset`: when it first feels something [s]; `angle`: how far the tool then leans from straight down [degrees];
        `grip`: mean force on a fingertip while it feels something [N]. NaN where it never does.
    """
    touch = episodes.robots[0].touch.mean(axis=2)
    felt = touch > _FELT
    touched = felt.any(axis=0)
    if not touched.any():
        return {"onset": float("nan"), "angle": float("nan"), "grip": float("nan")}
    first = felt.argmax(axis=0)
    down = quat_rotate(episodes.robots[0].tcp[first, np.arange(len(first)), 3:], np.array([0.0, 0.0, 1.0]))
    lean = np.degrees(np.arccos(np.clip(np.abs(down[:, 2]), 0.0, 1.0)))
    grip = _mean_where(touch, felt)
    return {
        "onset": float(episodes.t[first][touched].mean()), "angle": float(lean[touched].mean()),
        "grip": float(grip[touched].mean()),
    }  # fmt: skip


def _mean_where(value: Float[np.ndarray, "step n"], where: Bool[np.ndarray, "step n"]) -> Float[np.ndarray, " n"]:
    return (value * where).sum(axis=0) / np.maximum(where.sum(axis=0), 1)


def looked(policy: Policy, places: Mapping[str, tuple[Task, Panel]], sensors: SensorModels | None) -> dict[str, Any]:
    """Share of episodes that a policy wins in each place, `PLACE`, and how it touches there, `PLACE/onset` and so
    on."""
    found: dict[str, Any] = {}
    for name, (task, panel) in places.items():
        success, episodes = score(policy, task, panel, sensors=sensors)
        found[name] = float(success.mean())
        found |= {f"{name}/{what}": value for what, value in habits(episodes).items()}
    return found
