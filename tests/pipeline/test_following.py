"""Clips that a gripper follows: what comes of them in worlds, and what of them goes into the bank."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dexprior.behavior import BehaviorConfig
from dexprior.data.objects import rigid_object
from dexprior.envs.hardware import gate_config
from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat, quat_from_yaw, quat_multiply, quat_rotate, yaw_of
from dexprior.geometry.timing import hysteresis
from dexprior.hands.skeleton import forward
from dexprior.pipeline import following
from dexprior.pipeline.following import (
    Clip,
    first_way,
    follow,
    gripper_settings,
    make_bank,
    tool_trajectories,
)
from dexprior.pipeline.settings import BankConfig
from dexprior.retarget.gripper import GripperConfig, retarget_to_gripper
from dexprior.robots.human_hand import finger_pose_from_hinges
from dexprior.types import HandTrajectory
from dexprior.worlds.human_rig import wrist_from_gantry
from dexprior.worlds.tasks import SUITE, TaskWorlds, make_task, robot_task, strategies_of
from dexprior.worlds.tasks.strategies import roll_out
from dexprior.worlds.tasks.suite import human_task

TASKS = ("pick_place", "peg")


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
                thing=rigid_object("thing", done.t, pose, local=faces), surface=surface,
            )
        )  # fmt: skip
    return clips


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_a_gripper_that_follows_demonstrations_does_what_they_do(name):
    clips = recorded(name, 12)
    assert len(clips) >= 9
    settings = {"gripper": GripperConfig(), "behavior": BehaviorConfig(), "seed": 0}
    worlds = ("training", "other")
    won = follow(name, clips, worlds, **settings)
    assert tuple(won) == worlds
    assert won["training"].mean() >= 0.8
    alone = follow(name, clips, ["other"], **settings)  # a world's verdict does not depend on which others are asked
    assert np.array_equal(alone["other"], won["other"])
    blind = GripperConfig(least_force=0.0, force_gain=1e-6)
    held = follow(name, clips, ["training"], **settings | {"gripper": blind})
    assert held["training"].mean() < 0.5  # no grip, no success
    late = [replace(c, thing=replace(c.thing, pose=np.roll(c.thing.pose, 25, axis=0))) for c in clips]
    assert follow(name, late, ["training"], **settings)["training"].mean() < won["training"].mean()


def test_what_a_policy_learns_from_grasps_at_one_time_and_on_one_side():
    """Grasps on either side of a right angle from home are half a turn apart where each is taken alone."""
    clips = [turned(recorded("peg", 1)[0], yaw) for yaw in (-1.5, 1.7, 0.3)]
    task = robot_task("peg")
    alone, alike = (tool_trajectories(task, clips, GripperConfig(), alike=alike) for alike in (False, True))

    def grasp(made):
        k = int((made.force > 0).argmax())
        return float(made.t[k]), float(yaw_of(made.tool[k, 3:]))

    assert np.ptp([grasp(one)[0] for one in alike]) < 1e-9
    assert np.ptp([grasp(one)[0] for one in alone]) > 0.1
    assert np.ptp([one.held[1] for one in alike]) < 1e-9
    for one, same in zip(alone, alike, strict=True):
        assert np.cos(2 * (grasp(one)[1] - grasp(same)[1])) == pytest.approx(1.0)  # the same grasp, or half a turn on
    (_, first), (_, second), _ = map(grasp, alike)
    assert np.cos(first - second) > 0.9


def test_a_bank_is_as_fast_as_its_gate_where_an_episode_has_the_time():
    """The tool never moves faster than the envelope says at its place, and lets go later for it."""
    task, clips = robot_task("peg"), recorded("peg", 2)
    envelope = gate_config(task).envelope(task.control_dt)
    fast, gated = (tool_trajectories(task, clips, GripperConfig(), alike=True, gated=gated) for gated in (False, True))

    def too_fast(made):
        speed = np.linalg.norm(np.diff(made.tool[:, :3], axis=0), axis=1) / np.diff(made.t)
        way = np.diff(made.tool[:, :3], axis=0) / np.diff(made.t)[:, None]
        allowed = [envelope.fastest(tuple(p), tuple(v), 0.0) for p, v in zip(made.tool[:-1, :3].tolist(), way.tolist())]
        return int((speed > 1.05 * np.array(allowed) + 2e-3).sum())

    assert all(too_fast(one) > 5 for one in fast)
    assert not any(too_fast(one) for one in gated)
    ends = [one.held[1] for one in (*fast, *gated)]
    assert ends == pytest.approx([task.horizon - 0.4] * 4)  # both take the time that there is
    assert following._last_press(gated) == max(ends[2:])
    hurried = robot_task("peg", seconds=4.0)
    late = [tool_trajectories(hurried, clips, GripperConfig(), alike=True, gated=gated) for gated in (False, True)]
    assert following._last_press(late[1]) > following._last_press(late[0]) >= hurried.horizon - 0.4 - 1e-9


def turned(clip: Clip, yaw: float) -> Clip:
    """A clip whose object, hand and all, is turned about the vertical through the object's first place."""
    turn, path = quat_from_yaw(np.array([yaw]))[0], clip.thing.pose
    middle = path[0, :3] * [1.0, 1.0, 0.0]

    def rotated(p):
        return quat_rotate(np.broadcast_to(turn, (*p.shape[:-1], 4)), p)

    turns = np.broadcast_to(turn, (len(path), 4))
    pose = np.concatenate([middle + rotated(path[:, :3] - middle), quat_multiply(turns, path[:, 3:])], axis=1)
    surface = np.concatenate([middle + rotated(clip.surface[:, :3] - middle), rotated(clip.surface[:, 3:])], axis=1)
    hand = replace(clip.hand, joints=middle + rotated(clip.hand.joints - middle))
    return replace(clip, hand=hand, thing=replace(clip.thing, pose=pose), surface=surface)


def test_a_clip_is_retargeted_once_for_all_worlds(monkeypatch):
    clips, asked = recorded("pick_place", 2), []
    monkeypatch.setattr(
        following, "retarget_to_gripper", lambda *a, **k: asked.append(a) or retarget_to_gripper(*a, **k)
    )
    follow("pick_place", clips, ["training", "other"], gripper=GripperConfig(), behavior=BehaviorConfig(), seed=0)
    assert len(asked) == len(clips)


def test_clips_are_followed_by_the_robot_of_the_line_with_their_own_objects(monkeypatch):
    class Asked(Exception):
        pass

    def made(name, **settings):
        raise Asked(name, settings)

    monkeypatch.setattr(following, "robot_task", made)
    clip = SimpleNamespace(settings={"fruit": "grape"})
    with pytest.raises(Asked) as asked:
        follow(
            "soft_grasp", [clip], ["training"], gripper=GripperConfig(), behavior=BehaviorConfig(), seed=0,
            settings={"fruit": "peach", "hand": "tendon_hand"},
        )  # fmt: skip
    assert asked.value.args == ("soft_grasp", {"fruit": "grape", "hand": "tendon_hand"})


def test_a_bank_asks_for_one_sentence_from_one_noise(monkeypatch, tmp_path):
    asked = {}

    class Asked(Exception):
        pass

    def sampled(prior, conditions, settings, **kwargs):
        asked.update(kwargs, sentences={condition.text for condition in conditions}, n=len(conditions))
        raise Asked

    net = SimpleNamespace(frames=50, fps=12.5, size=48)
    monkeypatch.setattr(
        following, "load_prior", lambda folder: (SimpleNamespace(denoiser=SimpleNamespace(config=net)), {})
    )
    monkeypatch.setattr(following, "sample_prior", sampled)
    task = make_task("pick_place", **SUITE["pick_place"].robot)
    with pytest.raises(Asked):
        make_bank(task, BankConfig(scenes=3), GripperConfig(), tmp_path, tmp_path, seed=4)
    assert asked == {"seed": 4, "alike": True, "sentences": {first_way("pick_place", 4.0)}, "n": 3}


def test_the_bank_is_asked_for_in_the_first_way_that_the_prior_s_clips_are_long_enough_for():
    ways = strategies_of("pick_place")
    assert first_way("pick_place", ways[0].seconds) == ways[0].sentences[0]
    quick = min(ways, key=lambda way: way.seconds)
    assert first_way("pick_place", quick.seconds) in quick.sentences
    with pytest.raises(BadInput, match="no strategy of the task 'pick_place' ends within the 1 s"):
        first_way("pick_place", 1.0)


def test_how_a_gripper_follows_is_the_row_s_unless_it_is_said():
    row = SUITE["soft_grasp"].gripper
    assert gripper_settings("soft_grasp") == GripperConfig(**row)
    told = gripper_settings("soft_grasp", {"force_gain": 2.0})
    assert told == replace(GripperConfig(**row), force_gain=2.0)
    assert gripper_settings("nut_bolt") == GripperConfig()
