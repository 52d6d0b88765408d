"""What every task must hold to, as Gymnasium's `check_env` is for environments: run it on a task of your own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dexprior.errors import BadInput
from dexprior.worlds.tasks.base import Task, Truth
from dexprior.worlds.tasks.worlds import TaskWorlds

__all__ = ["check_task"]

_QUIET = 0.2  # [rad/s, m/s] of a robot's joints after a reset
_NEAR = 0.05  # [m] within which the cloud has a point of the object
_ACTIONS = 10  # random ones


def check_task(task: Task, *, seed: int = 0) -> None:
    """Build two worlds of a task and look whether they keep the task's promises.

    A world is quiet and unsolved after a reset; rewards lie in [0, 1] and their weights sum to one; the cloud has its
    points, some of them near the object; all that is true is finite and has one row a world; an instance does the same
    alone and beside another; the other world lies outside the training family.

    Raises:
        BadInput: lists every promise that was broken.
    """
    broken = [*_families(task), *_worlds(task, seed)]
    if broken:
        raise BadInput(f"task {task.name!r}: " + "; ".join(broken))


def _families(task: Task) -> Iterator[str]:
    outside = {p.name: p for p in task.reality.parameters}
    for p in task.family.parameters:
        if p.name not in outside:
            yield f"its other world has no {p.name!r}"
        elif outside[p.name].low <= p.high and outside[p.name].high >= p.low:
            yield f"{p.name!r} of its other world lies inside the training family"
    total = sum(task.weights.values())
    if abs(total - 1.0) > 1e-9:
        yield f"its weights sum to {total:g}, not to 1"


def _worlds(task: Task, seed: int) -> Iterator[str]:
    rng = np.random.default_rng(seed)
    scenes = task.sample(rng, 2)
    parameters = [task.family.as_dict(row) for row in task.family.sample(rng, 2)]
    worlds = TaskWorlds(task, 2, threads=1)
    worlds.reset(np.arange(2), scenes, parameters)
    truth = worlds.truth()
    if np.asarray(task.success(truth)).any():
        yield "it is solved before anybody acted"
    if np.asarray(task.failure(truth)).any():
        yield "it is lost before anybody acted"
    for k, rig in enumerate(worlds.view.rigs):
        if np.abs(rig.qd).max(initial=0.0) > _QUIET:
            yield f"robot {k} moves at {np.abs(rig.qd).max():.2g} rad/s after the reset"
    yield from _told(task, worlds, truth)
    actions = rng.uniform(-1.0, 1.0, (_ACTIONS, 2, worlds.action_size))
    for action in actions:
        worlds.step(action)
    truth = worlds.truth()
    yield from _told(task, worlds, truth)
    alone = TaskWorlds(task, 1, threads=1)
    alone.reset(np.arange(1), {name: value[1:] for name, value in scenes.items()}, parameters[1:])
    for action in actions:
        alone.step(action[1:])
    different = [name for name, value in alone.truth().items() if not np.array_equal(value[0], truth[name][1])]
    if different:
        yield f"a world does something else beside another than alone: {', '.join(different)}"


def _told(task: Task, worlds: TaskWorlds, truth: Truth) -> Iterator[str]:
    """What is wrong with what the task says of this moment."""
    missing = {"object", "held", "slip"} - set(truth)
    if missing:
        yield f"its truth lacks {', '.join(sorted(missing))}"
        return
    for name, value in truth.items():
        value = np.asarray(value)
        if value.shape[:1] != (worlds.n,):
            yield f"its truth {name!r} has the shape {value.shape}, not a row a world"
        elif not np.isfinite(value).all():
            yield f"its truth {name!r} is not finite"
    terms = task.terms(truth)
    if set(terms) != set(task.weights):
        yield f"its terms are {', '.join(sorted(terms))}, its weights are of {', '.join(sorted(task.weights))}"
        return
    for name, value in task.reward(truth).items():
        if np.shape(value) != (worlds.n,) or not ((value >= 0) & (value <= 1)).all():
            yield f"its reward {name!r} is not one number in [0, 1] a world: {value}"
    cloud = task.cloud(worlds.view, truth)
    if cloud.shape != (worlds.n, task.points, 3):
        yield f"its cloud has the shape {cloud.shape}, not {(worlds.n, task.points, 3)}"
        return
    if isinstance(plain := getattr(task, "plain", None), Task):  # an injector may hide all of the object
        cloud = plain.cloud(worlds.view, truth)
    if np.linalg.norm(cloud - truth["object"][:, None, :3], axis=2).min(axis=1).max() > _NEAR:
        yield f"its cloud has no point within {_NEAR} m of the object"
