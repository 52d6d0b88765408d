"""What to ask the prior for in a scene of any task that has strategies."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.data.demonstrating.surfaces import local_cloud, scene_cloud
from dexprior.data.objects import chosen_points
from dexprior.geometry.transforms import transform_points
from dexprior.hands.skeleton import forward
from dexprior.robots.human_hand import finger_pose_from_hinges
from dexprior.types import FINGERS, ContactConfiguration, PriorCondition
from dexprior.worlds.human_rig import wrist_from_gantry
from dexprior.worlds.tasks import Task, TaskWorlds, strategies_of, strategy_of
from dexprior.worlds.tasks.scene import camera

__all__ = ["condition_of", "configuration", "frame_before"]


def frame_before(t: float, fps: float) -> int:
    """The last frame at or before a time [s]."""
    return int(np.floor(t * fps + 1e-6))


def condition_of(
    task: Task,
    scene: Mapping[str, Any],
    *,
    seed: int,
    size: int,
    sentence: str | None = None,
    habits: Mapping[str, float] | None = None,
    points: int = 64,
    every: int = 2,
    view: str = "front",
) -> PriorCondition:
    """The condition that a demonstration of this scene would have, by its strategy's plan and without simulating it.

    The start is the plan's first knot; the target is the last frame before the fingers open for good, or the last of
    all, with the fingertips on the surface; a demonstration's own condition holds what was measured then.

    Args:
        task: with strategies; any robot may be in it.
        scene: one instance, as `Task.sample` gives them, without the leading axis.
        seed: of the habits, and of the sentence where none is given.
        size: of the frames to be sampled [px].
        sentence: decides the strategy.
        habits: the strategy's parameters by name; drawn where none are given.
        points: of the cloud.
        every: control periods between two frames.
        view: the camera.

    Raises:
        UnknownName: a task without strategies, or a sentence that none of them has.
    """
    rng = np.random.default_rng(seed)
    sentences = [text for strategy in strategies_of(task.name) for text in strategy.sentences]
    text = sentences[int(rng.integers(len(sentences)))] if sentence is None else sentence
    strategy = strategy_of(task.name, text)
    drawn = strategy.values(rng.random((1, len(strategy.knobs))))
    values = drawn if habits is None else {name: np.array([habits[name]]) for name in drawn}
    scenes = {name: np.asarray(value)[None] for name, value in scene.items()}
    plan = strategy.plan(task, scenes, values)
    worlds = _worlds(task)
    worlds.reset(np.arange(1), scenes, [task.reality.as_dict(task.reality.medians())])
    truth = worlds.truth()
    matter = np.array(task.cloud(worlds.view, truth))[0]
    fixed = [np.array(worlds.view.body_pose(str(part.body))[0]) for part in task.parts if not part.moves]
    part, pose = task.manipulated, np.array(truth["object"][0])
    cloud, moves = scene_cloud(task, pose, np.array(fixed).reshape(-1, 7), matter, points)
    if part.soft:
        followed = chosen_points(matter)
    else:
        followed = transform_points(pose, chosen_points(local_cloud(task, part.name, points)[:, :3]))
    dt = every * task.control_dt
    frames = -(-round(strategy.seconds / task.control_dt) // every)
    target = frame_before(float(plan.held_until((frames - 1) * dt)[0]), 1.0 / dt)
    return PriorCondition(
        cloud=cloud,
        moves=moves,
        points=followed,
        start=(configuration(*plan.at(0.0), ()),),
        target=(configuration(plan.at(target * dt)[0], plan.grasp.touch[None], plan.grasp.fingers),),
        target_at=target * dt,
        seconds=frames * dt,
        camera=camera(view, size),
        text=text,
        pose=None if part.soft else pose,
        goal=fixed[0] if fixed else None,
    )


@functools.lru_cache(maxsize=4)
def _worlds(task: Task) -> TaskWorlds:
    return TaskWorlds(task, 1, family=task.reality, threads=1)


def configuration(
    arm: Float[np.ndarray, "1 6"], hinges: Float[np.ndarray, "1 hinge"], fingers: tuple[str, ...]
) -> ContactConfiguration:
    """The right hand where a plan has it: gantry [m, rad], hinges [rad], and the fingers that touch."""
    wrist, angles = wrist_from_gantry(arm)[0], finger_pose_from_hinges(hinges)[0]
    touching = np.array([name in fingers for name in FINGERS])
    return ContactConfiguration(
        side="right",
        wrist_pose=wrist,
        finger_pose=angles,
        betas=np.zeros(10),
        touching=touching,
        points=np.where(touching[:, None], forward(wrist, angles)[4::4], 0.0),
    )
