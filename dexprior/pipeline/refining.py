"""Trajectories of a bank tried in the training world, and refined there by the cross-entropy method.

A refinement is six numbers in [-1, 1] that change a tool's trajectory a little: where its object is held, how hard, how
wide the end effector comes in, and when it closes. The training world is the one that policies learn in: no other world
has a say in what the bank becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from dexprior.behavior import BehaviorPrior
from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_from_matrix, quat_rotate
from dexprior.policy.planning import CemSearch
from dexprior.policy.rollout import prior_policy, run_episodes
from dexprior.retarget.gripper import ToolTrajectory
from dexprior.robots.rigs import rig_chain
from dexprior.worlds.controller import CartesianVelocityController
from dexprior.worlds.tasks import Task

__all__ = ["NUMBERS", "Bank", "Refined", "astray", "changed", "refine"]

NUMBERS = ("offset_x", "offset_y", "offset_z", "force", "opening", "delay")
_OFFSET = 0.004  # [m] in the tool's frame, which is what it holds, but for where it was grasped
_FORCE = 1.6  # at most so many times the force, or a part of it
_OPENING = 0.006  # [m] while nothing is pressed
_DELAY = 0.12  # [s] by which the end effector closes later
_TOGETHER = 4  # candidates of one round
_STEADY = 0.5  # what a success is worth more that never slips

Bank = Callable[[Sequence[ToolTrajectory]], BehaviorPrior]
"""Function of one trajectory a scene that gives the prior by which they are followed."""


@dataclass(frozen=True, kw_only=True)
class Refined:
    """What refining gave."""

    trajectories: list[ToolTrajectory]
    numbers: Float[np.ndarray, "scene 6"]
    """Values of `NUMBERS`, each in [-1, 1]; 0 leaves a trajectory as it was."""
    before: Bool[np.ndarray, " scene"]
    """Whether the robot succeeded in the training world with the trajectories as they were..."""
    after: Bool[np.ndarray, " scene"]
    """...and as they are now."""


def changed(trajectory: ToolTrajectory, numbers: Float[np.ndarray, " 6"]) -> ToolTrajectory:
    """A trajectory changed by `NUMBERS`; itself where it holds nothing or all are 0.

    Where it begins, and when it lets go, stays as it was.
    """
    if trajectory.held is None or not np.any(numbers):
        return trajectory
    start, stop = trajectory.held
    offset, (force, opening, delay) = _OFFSET * numbers[:3], numbers[3:]
    width = trajectory.opening[trajectory.force > 0.0].max()
    free = (trajectory.force == 0.0) & (trajectory.opening > width)
    wide = np.where(free, np.maximum(trajectory.opening + _OPENING * opening, width), trajectory.opening)
    closes = trajectory.t + _DELAY * delay * (1.0 - np.clip((trajectory.t - start) / max(stop - start, _INSTANT), 0, 1))
    t = np.unique(np.concatenate([trajectory.t, np.clip(closes, 0.0, trajectory.t[-1])]))
    tool = trajectory.at(t).tool
    along = np.clip(t / max(start, _INSTANT), 0.0, 1.0)[:, None]
    tool[:, :3] += along * quat_rotate(tool[:, 3:], np.broadcast_to(offset, (len(t), 3)))
    return ToolTrajectory(
        t=t, tool=tool, opening=np.interp(t, closes, wide),
        force=np.interp(t, closes, trajectory.force * _FORCE**force), clip=np.interp(t, closes, trajectory.clip),
    )  # fmt: skip


def refine(
    task: Task,
    panel: Panel,
    trajectories: Sequence[ToolTrajectory],
    bank: Bank,
    *,
    rollouts: int,
    alike: bool,
    seed: int,
) -> Refined:
    """The trajectories with the numbers that score best in the training world.

    Each rollout is one episode of each scene, all scenes side by side; it scores 1 for a success, and half as much more
    for one in which nothing slipped. The first of them shows the trajectories as they are: nothing that scores no more
    takes their place.

    Args:
        task: of one robot.
        panel: the scenes, with the parameters of the training world.
        trajectories: one for each of them.
        bank: how they are followed.
        rollouts: of each scene, the first one included.
        alike: whether all scenes are refined by the same numbers, which score what all scenes score. Otherwise each has
            its own search, and only those in which the robot fails are refined.
        seed: of the searches.

    Raises:
        BadInput: no rollout, or not one trajectory for each scene.
    """
    if rollouts < 1:
        raise BadInput(f"rollouts = {rollouts}: at least one shows the trajectories as they are")
    if len(trajectories) != len(panel):
        raise BadInput(f"{len(trajectories)} trajectories for the {len(panel)} scenes of panel {panel.name!r}")
    best = np.zeros((len(panel), len(NUMBERS)))
    before, scores = _rolled_out(task, panel, trajectories, bank, best[None])
    after, best_score = before[0].copy(), scores[0].copy()
    tried = np.arange(len(panel)) if alike else np.flatnonzero(~before[0])
    groups = [tried] if alike else [np.array([k]) for k in tried]
    searches = [
        CemSearch(
            len(NUMBERS), population=_TOGETHER, elite=_TOGETHER // 2, wraps=(False,) * len(NUMBERS),
            rng=np.random.default_rng([seed, int(ids[0])]),
        )
        for ids in groups
    ]  # fmt: skip
    shown, own = panel.take(tried) if len(tried) else panel, [trajectories[int(k)] for k in tried]
    for first in range(1, rollouts, _TOGETHER) if groups else ():
        asked = [search.ask() for search in searches]
        numbers = np.zeros((_TOGETHER, *best.shape))
        for ids, rows in zip(groups, asked):
            numbers[:, ids] = rows[:, None]
        numbers = numbers[: rollouts - first]
        won, scored = _rolled_out(task, shown, own, bank, numbers[:, tried])
        for search, ids, rows in zip(searches, groups, asked):
            found = scored[:, np.searchsorted(tried, ids)]
            k = int(found.mean(axis=1).argmax())
            if found[k].mean() > best_score[ids].mean():
                best[ids], best_score[ids] = numbers[k, ids], found[k]
                after[ids] = won[k, np.searchsorted(tried, ids)]
            search.tell(rows[: len(found)], -found.mean(axis=1))
    return Refined(
        trajectories=[changed(one, row) for one, row in zip(trajectories, best)], numbers=best, before=before[0],
        after=after,
    )  # fmt: skip


def _rolled_out(
    task: Task,
    panel: Panel,
    trajectories: Sequence[ToolTrajectory],
    bank: Bank,
    numbers: Float[np.ndarray, "candidate scene 6"],
) -> tuple[Bool[np.ndarray, "candidate scene"], Float[np.ndarray, "candidate scene"]]:
    """Whether the robot succeeds with each candidate in each scene, and how that scores."""
    n = len(panel)
    backend = SimBackend(task, n, family=panel.family)
    won, scores = [], []
    for rows in numbers:
        prior = bank([changed(one, row) for one, row in zip(trajectories, rows)])
        episodes = run_episodes(prior_policy(prior, np.arange(n)), backend, panel)
        won.append(episodes.success)
        scores.append(episodes.success * (1.0 + _STEADY * (1.0 - episodes.slip_rate)))
    backend.close()
    return np.array(won), np.array(scores)


def astray(task: Task, bank: BehaviorPrior) -> Float[np.ndarray, " scene"]:
    """How far the tool of an arm that nothing hinders is off each scene's first trajectory while it presses, at most
    [m].

    More than what it lags behind by is a path that leaves the arm's reach, or is faster than it.

    Args:
        task: of one robot, at home when the trajectories begin.
        bank: of its trajectories, which tell forces.

    Raises:
        BadInput: they tell none.
    """
    if bank.force is None:
        raise BadInput("a behavioral prior that tells no forces: when it presses is not known")
    rig = task.layout().rigs[0]
    _, chain = rig_chain(rig.arm.name, rig.end.name)
    n = len(bank.tool)
    arm = CartesianVelocityController(n, chain, home=rig.home, limits=rig.arm.limits)
    away = np.zeros(n)
    for step in range(bank.tool.shape[2]):
        place, turn, _ = chain.forward(arm.target)
        tools = np.concatenate([place, quat_from_matrix(turn)], axis=1)[:, None]
        off = np.linalg.norm(place - bank.tool[:, 0, step, 0, :3], axis=1)
        away = np.maximum(away, np.where(bank.force[:, 0, step, 0] > 0.0, off, 0.0))
        mean, _ = bank.components(tools, np.full(n, step * bank.dt), np.arange(n))
        arm.step(arm.target, mean[:, 0, :6] * bank.scale, bank.dt)
    return away


_INSTANT = 1e-6  # [s]
