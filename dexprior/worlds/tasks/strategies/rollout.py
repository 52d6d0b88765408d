"""Demonstrations simulated: plans rolled out in the worlds of a task, and refined by sampling where they fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, Le, config
from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat
from dexprior.robots.human_hand import end_action
from dexprior.worlds.human_rig import wrist_from_gantry
from dexprior.worlds.tasks.actions import MAX_JOINT_SPEED
from dexprior.worlds.tasks.base import Scenes, Truth
from dexprior.worlds.tasks.drives import Wrist
from dexprior.worlds.tasks.episodes import episode
from dexprior.worlds.tasks.strategies.plan import Strategy
from dexprior.worlds.tasks.view import RigState
from dexprior.worlds.tasks.worlds import TaskWorlds

__all__ = ["RefineConfig", "Rollout", "demonstrate", "roll_out"]


@config
class RefineConfig:
    """The cross-entropy method over a strategy's parameters, for instances at which the first try failed.

    Rubinstein 1999: draw, keep the best, fit a Gaussian to them, draw again.
    """

    rounds: Annotated[int, Ge(0)] = 3
    """Populations after the first try."""
    elite: Annotated[float, Gt(0), Le(1)] = 0.25
    """Share of a population that the next one is fitted to."""
    spread: Annotated[float, Gt(0)] = 0.15
    """Smallest standard deviation, in units of a parameter's range."""
    leave: Annotated[float, Ge(0), Le(1)] = 0.15
    """Share of the failed first tries that stay as they are, so that failures are in the data as well."""


@dataclass(frozen=True)
class Rollout:
    """What happened in each world, at the recording's rate."""

    t: Float[np.ndarray, " time"]
    qpos: Float[np.ndarray, "time n nq"]
    mocap: Float[np.ndarray, "time n body 7"]
    arm: Float[np.ndarray, "time n 6"]
    """Gantry positions [m, rad]."""
    hinges: Float[np.ndarray, "time n hinge"]
    touch: Float[np.ndarray, "time n 5"]
    """Normal force on each fingertip [N]."""
    wrench: Float[np.ndarray, "time n 6"]
    """Wrench of the environment on the hand, wrist frame, with the hand's own weight taken off [N, N m]."""
    object: Float[np.ndarray, "time n 7"]
    cloud: Float[np.ndarray, "time n point 3"]
    """The task's object cloud."""
    fixed: Float[np.ndarray, "n part 7"]
    """Poses of the parts that do not move."""
    held_until: Float[np.ndarray, " n"]
    """Seconds at which the plan opens the fingers for good, or the end of the clip."""
    score: Float[np.ndarray, " n"]
    """Mean dense reward of the last second, plus one where it succeeded."""
    success: Bool[np.ndarray, " n"]
    """The verdict at the end."""


def roll_out(
    worlds: TaskWorlds,
    strategy: Strategy,
    scenes: Scenes,
    parameters: Sequence[Mapping[str, float]],
    unit: Float[np.ndarray, "n knob"],
    *,
    every: int = 2,
) -> Rollout:
    """One demonstration in every world.

    Args:
        worlds: of a task with the human hand on the gantry, in `joint` actions.
        strategy: how.
        scenes, parameters: one instance and one set of the family's values for each world.
        unit: the strategy's parameters in [0, 1].
        every: control periods between two frames.

    Raises:
        BadInput: worlds without the human hand on the gantry, or not in joint actions.
    """
    task, n, dt = worlds.task, worlds.n, worlds.task.control_dt
    rig = worlds.rigs[0]
    if (rig.arm.name, rig.end.name, worlds.actions.arm_action) != ("gantry", "human_hand", "joint"):
        raise BadInput(
            f"demonstrations need the human_hand on the gantry in joint actions, these worlds have {rig.end.name!r} "
            f"on {rig.arm.name!r} in {worlds.actions.arm_action} actions"
        )
    values = strategy.values(unit)
    plan = strategy.plan(task, scenes, values)
    worlds.reset(np.arange(n), scenes, parameters)
    target, fingers = plan.at(0.0)
    worlds.put(target, fingers)
    weight = _Weight(worlds)
    truth = worlds.truth()
    fixed = [worlds.view.body_pose(str(part.body)) for part in task.parts if not part.moves]
    shift, looked = np.zeros((n, 6)), np.zeros((n, len(strategy.looks)), dtype=bool)

    def person(
        truth: Truth, robots: tuple[RigState, ...], t: float, memory: np.ndarray
    ) -> Float[np.ndarray, "n action"]:
        nonlocal shift, target
        for k, (knot, replan) in enumerate(strategy.looks):
            now = ~looked[:, k] & (plan.times[:, knot] <= t)
            if now.any():
                fresh = replan(task, plan, truth, robots[0].q, values)
                for name in ("times", "arm", "hinges"):
                    getattr(plan, name)[now] = getattr(fresh, name)[now]
                looked[now, k] = True
        if strategy.servo is not None:
            shift = shift + dt * strategy.servo(task, plan, truth, t)
        wanted, fingers = plan.at(t + dt)
        speed = np.clip((wanted + shift - target) / (dt * MAX_JOINT_SPEED), -1.0, 1.0)
        target = target + dt * MAX_JOINT_SPEED * speed
        return np.concatenate([speed, end_action(fingers)], axis=1)

    rows, score, steps = [_row(worlds, truth, weight)], np.zeros(n), round(strategy.seconds / dt)
    for step in episode(worlds, person, seconds=strategy.seconds):
        truth, k = step.truth, step.number + 1
        if k % every == 0 and k < steps:
            rows.append(_row(worlds, truth, weight))
        if k > steps - round(1.0 / dt):
            score += task.reward(truth)["total"] * dt
    success = np.asarray(task.success(truth)) & ~np.asarray(task.failure(truth))
    columns: dict[str, Any] = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return Rollout(
        t=np.arange(len(rows)) * every * dt,
        fixed=np.stack(fixed, axis=1) if fixed else np.zeros((n, 0, 7)),
        held_until=plan.held_until((len(rows) - 1) * every * dt),
        score=score + success,
        success=success,
        **columns,
    )


def demonstrate(
    worlds: TaskWorlds,
    strategy: Strategy,
    scenes: Scenes,
    parameters: Sequence[Mapping[str, float]],
    *,
    rng: np.random.Generator,
    settings: RefineConfig,
    every: int = 2,
) -> tuple[Rollout, Float[np.ndarray, "n knob"], Bool[np.ndarray, " n"]]:
    """A demonstration of each instance: a first try with drawn habits; where it fails, the best that sampling finds.

    All candidates of all failed instances share the worlds, so that a round costs as much as the first try.

    Returns:
        The demonstrations, their parameters in [0, 1], and whether the first try succeeded.
    """
    n, knobs = worlds.n, len(strategy.knobs)
    unit = rng.random((n, knobs))
    best = roll_out(worlds, strategy, scenes, parameters, unit, every=every)
    first = best.success.copy()
    mean, spread = {}, {}
    for i in np.flatnonzero(~first):
        mean[int(i)], spread[int(i)] = np.full(knobs, 0.5), np.full(knobs, 0.35)
    left = rng.random(n) < settings.leave
    for _ in range(settings.rounds):
        failed = np.flatnonzero(~best.success & ~left)
        if not len(failed):
            break
        owner = failed[np.arange(n) % len(failed)]
        tried = np.stack([rng.normal(mean[int(i)], spread[int(i)]) for i in owner]).clip(0.0, 1.0)
        found = roll_out(
            worlds,
            strategy,
            {k: v[owner] for k, v in scenes.items()},
            [parameters[i] for i in owner],
            tried,
            every=every,
        )
        for i in failed:
            own = np.flatnonzero(owner == i)
            ranked = own[np.argsort(-found.score[own], kind="stable")]
            elite = tried[ranked[: max(2, round(settings.elite * len(own)))]]
            mean[int(i)] = elite.mean(axis=0)
            spread[int(i)] = np.maximum(elite.std(axis=0), settings.spread)
            if found.score[ranked[0]] > best.score[i]:
                _replace(best, int(i), found, int(ranked[0]))
                unit[i] = tried[ranked[0]]
    return best, unit, first


def _replace(best: Rollout, i: int, found: Rollout, j: int) -> None:
    for name in ("qpos", "mocap", "arm", "hinges", "touch", "wrench", "object", "cloud"):
        getattr(best, name)[:, i] = getattr(found, name)[:, j]
    for name in ("fixed", "held_until", "score", "success"):
        getattr(best, name)[i] = getattr(found, name)[j]


class _Weight:
    """What the force and torque sensors at the wrist read of the hand itself when nothing moves or touches.

    The hand counts as one rigid body with the fingers half bent.
    """

    def __init__(self, worlds: TaskWorlds) -> None:
        import mujoco

        model = worlds.model
        rig = worlds.rigs[0]
        data = mujoco.MjData(model)
        for name, angle in zip(rig.end_joints, rig.end.rest):
            data.qpos[model.joint(name).qposadr[0]] = angle
        mujoco.mj_forward(model, data)
        wrist = model.body(rig.name("wrist")).id
        site = data.site(rig.name("wrist"))
        self.mass = float(model.body_subtreemass[wrist])
        self.centre = site.xmat.reshape(3, 3).T @ (data.subtree_com[wrist] - site.xpos)
        self.gravity = np.array(model.opt.gravity)
        self.wrist = Wrist(model, rig)

    def relieve(self, worlds: TaskWorlds, arm: Float[np.ndarray, "n 6"]) -> Float[np.ndarray, "n 6"]:
        R = matrix_from_quat(wrist_from_gantry(arm)[:, 3:])
        own = self.mass * (R.transpose(0, 2, 1) @ self.gravity)
        return -self.wrist.felt(worlds.view) - np.concatenate([own, np.cross(self.centre, own)], axis=1)


def _row(worlds: TaskWorlds, truth: Truth, weight: _Weight) -> dict[str, np.ndarray]:
    view, rig = worlds.view, worlds.view.rigs[0]
    mocap = np.concatenate([view.field("mocap_pos"), view.field("mocap_quat")], axis=-1)
    return {
        "qpos": view.qpos.copy(), "mocap": mocap, "arm": rig.q, "hinges": rig.end, "touch": rig.touch,
        "wrench": weight.relieve(worlds, rig.q), "object": np.array(truth["object"]),
        "cloud": np.array(worlds.task.cloud(view, truth)),
    }  # fmt: skip
