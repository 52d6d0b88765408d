"""The line on a task of the suite: worlds that judge it, clips that a gripper follows, and the ladder's arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.behavior import BehaviorConfig
from dexprior.errors import BadInput, ConfigError, UnknownName
from dexprior.geometry.rotations import matrix_from_quat
from dexprior.geometry.timing import hysteresis
from dexprior.hands.skeleton import forward
from dexprior.pipeline.ladder import RUNGS, paired_ratio, table
from dexprior.pipeline.line import Clip, Line, LineConfig, follow
from dexprior.pipeline.worlds import SCORING, TUNING, judging_worlds
from dexprior.pose.estimator import EstimatorConfig
from dexprior.retarget.gripper import GripperConfig
from dexprior.types import HandTrajectory
from dexprior.worlds.human import finger_pose_from_hinges
from dexprior.worlds.human_rig import wrist_from_gantry
from dexprior.worlds.tasks import SUITE, TaskWorlds, make_task, strategies_of
from dexprior.worlds.tasks.strategies import roll_out
from dexprior.worlds.tasks.suite import human_task

TASKS = ("pick_place", "peg")


@pytest.mark.parametrize("name", TASKS)
def test_judging_worlds_lie_outside_of_what_policies_are_trained_in(name):
    task = make_task(name, **SUITE[name].robot)
    worlds = judging_worlds(task)
    assert list(worlds) == ["training", "other", "others", "laws"]
    scenes = task.sample(np.random.default_rng(0), 200)
    inside = {p.name: (p.low, p.high) for p in task.family.parameters}
    for world in ("other", "others", "laws"):
        panel = worlds[world].panel(scenes, seed=0)
        for k, parameter in enumerate(panel.family.names):
            low, high = inside[parameter]
            values = panel.parameters[:, k]
            assert ((values <= low) | (values >= high)).all(), (world, parameter)
    assert len(np.unique(worlds["others"].panel(scenes, seed=0).parameters[:, 0])) > 100
    assert worlds["laws"].phenomena is not None
    assert worlds["training"].phenomena is None


def test_a_world_s_parameters_depend_on_its_seed_and_not_on_the_scenes():
    task = make_task("pick_place")
    world = judging_worlds(task)["others"]
    few, more = (task.sample(np.random.default_rng(k), 8) for k in range(2))
    one, other = world.panel(few, seed=3), world.panel(more, seed=3)
    assert np.array_equal(one.parameters, other.parameters)
    assert np.array_equal(one.seeds, other.seeds)
    assert not np.array_equal(one.parameters, world.panel(few, seed=4).parameters)


def test_tuning_and_scoring_never_show_the_same_scenes():
    task = make_task("pick_place")
    tuned, scored = (task.sample(np.random.default_rng([seed, 0]), 64)["cube"] for seed in (TUNING, SCORING))
    assert not (tuned[:, None] == scored[None]).all(axis=2).any()


def recorded(name: str, n: int) -> list[Clip]:
    """Demonstrations of the first strategy, as a person does them."""
    task = human_task(name, 3)
    worlds = TaskWorlds(task, n, arm_action="joint", family=task.reality, threads=1)
    rng = np.random.default_rng(0)
    scenes, strategy = task.sample(rng, n), strategies_of(name)[0]
    parameters = [task.reality.as_dict(row) for row in task.reality.sample(rng, n)]
    done = roll_out(worlds, strategy, scenes, parameters, np.full((n, len(strategy.knobs)), 0.5))
    clips = []
    for i in np.flatnonzero(done.success):
        wrist, fingers = wrist_from_gantry(done.arm[:, i]), finger_pose_from_hinges(done.hinges[:, i])
        length = len(done.t)
        touching = hysteresis(done.touch[:, i], on=0.3, off=0.15)
        hand = HandTrajectory(
            t=done.t, side="right", wrist_pose=wrist, finger_pose=fingers, betas=np.zeros(10),
            joints=forward(wrist, fingers), contact=touching.astype(float), force=done.touch[:, i],
            valid=np.ones(length, dtype=bool), sigma=np.zeros((length, 21)), scale_known=True,
        )  # fmt: skip
        pose = done.object[:, i]
        faces = np.concatenate([np.eye(3), -np.eye(3)]) @ matrix_from_quat(pose[0, 3:]).T
        half = task.config.half_size if name == "pick_place" else task.config.half_width
        surface = np.concatenate([pose[0, :3] + half * faces, faces], axis=1)
        clips.append(
            Clip(
                settings=dict(SUITE[name].variants[3]), scene={k: v[i] for k, v in scenes.items()}, hand=hand,
                object_pose=pose, surface=surface,
            )
        )  # fmt: skip
    return clips


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_a_gripper_that_follows_demonstrations_does_what_they_do(name):
    clips = recorded(name, 12)
    assert len(clips) >= 9
    settings = {"gripper": GripperConfig(), "behavior": BehaviorConfig(), "seed": 0}
    won = follow(name, clips, "training", **settings)
    assert won.mean() >= 0.8
    blind = GripperConfig(least_force=0.0, force_gain=1e-6)
    assert follow(name, clips, "training", **settings | {"gripper": blind}).mean() < 0.5  # no grip, no success
    late = [Clip(**{**vars(c), "object_pose": np.roll(c.object_pose, 25, axis=0)}) for c in clips]
    assert follow(name, late, "training", **settings).mean() < won.mean()


def test_ratios_of_pairs():
    first = np.array([True] * 30 + [False] * 10)
    same = paired_ratio(first, first)
    assert same == {"ratio": 1.0, "low": 1.0, "high": 1.0}
    half = paired_ratio(first, first & (np.arange(40) % 2 == 0))
    assert half is not None
    assert half["ratio"] == 0.5
    assert 0.25 < half["low"] < 0.5 < half["high"] < 0.75
    more = paired_ratio(first & (np.arange(40) % 2 == 0), first)
    assert more is not None
    assert more["low"] > 1.0
    assert paired_ratio(np.arange(40) < 3, first) is None


def test_the_table_names_every_rung_and_world():
    rate = {"k": 3, "n": 4}
    text = table({"rungs": {rung: dict.fromkeys(("training", "laws"), rate) for rung in RUNGS}})
    assert all(rung in text for rung in RUNGS)
    assert text.splitlines()[0].split() == ["rung", "training", "laws"]
    assert len(text.splitlines()) == len(RUNGS) + 1


def test_tasks_that_the_line_cannot_do_are_refused_by_name(tmp_path):
    with pytest.raises(UnknownName, match="wipe"):
        Line(LineConfig(task="wipe", out=str(tmp_path)))
    with pytest.raises(BadInput, match="no map from an opening"):
        Line(LineConfig(task="soft_grasp", out=str(tmp_path)))
    with pytest.raises(ConfigError, match=r"size = 32.*prior.size = 48"):
        LineConfig(estimator=EstimatorConfig(size=32))
