"""A cube turned in the hand, and the claw that turns it."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.errors import BadInput, ConfigError
from dexprior.geometry.rotations import quat_from_axis_angle, quat_multiply
from dexprior.robots.claw import build_claw, claw_action, claw_joints
from dexprior.robots.rigs import add_rig
from dexprior.worlds.tasks import TaskWorlds, expert_of, make_task


def _start(n: int, **settings) -> TaskWorlds:
    task = make_task("cube_in_hand", **settings)
    worlds = TaskWorlds(task, n, threads=1)
    rows = task.family.sample(np.random.default_rng([5, 1]), n)
    scenes = task.sample(np.random.default_rng([5, 0]), n)
    worlds.reset(np.arange(n), scenes, [task.family.as_dict(row) for row in rows])
    return worlds


def test_fingertips_go_where_they_are_sent():
    model = build_claw().compile()
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    for _ in range(10):
        around = np.arange(4) * np.pi / 2 + rng.uniform(-0.7, 0.7)
        radius = rng.uniform(0.028, 0.050, 4)
        tips = np.column_stack([radius * np.cos(around), radius * np.sin(around), rng.uniform(0.04, 0.06, 4)])
        data.qpos[:] = claw_joints(tips[None])[0]
        mujoco.mj_kinematics(model, data)
        for k in range(4):
            body = data.body(f"distal{k}")
            np.testing.assert_allclose(body.xpos + body.xmat.reshape(3, 3) @ [0, 0, 0.046], tips[k], atol=1e-12)


def test_an_action_of_the_claw_commands_its_joints():
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    rig = add_rig(spec, "stand", "claw4")
    q = claw_joints(np.random.default_rng(0).uniform(-0.03, 0.05, (3, 4, 3)))
    np.testing.assert_allclose(rig.end_control(claw_action(q)), q, atol=1e-12)
    assert np.abs(claw_action(q)).max() <= 1.0 + 1e-12


def test_a_stand_has_no_action_of_its_own():
    for kind in ("cartesian", "joint"):
        assert TaskWorlds(make_task("cube_in_hand"), 1, arm_action=kind, threads=1).action_size == 12


def test_the_angle_counts_against_the_palm():
    """Turning the palm under a cube that goes along changes neither the angle nor what remains."""
    worlds = _start(2)
    before = worlds.truth()
    rig = worlds.view.rigs[0]
    turn = quat_from_axis_angle(np.array([0.0, 0.0, 0.9]))
    moved = type(rig)(**(vars(rig) | {"tcp": np.column_stack([rig.tcp[:, :3], quat_multiply(turn, rig.tcp[:, 3:])])}))
    worlds.view.rigs = (moved,)
    worlds.view.pose("cube")[:, 3:] = quat_multiply(turn, worlds.view.pose("cube")[:, 3:])
    after = worlds.task.measure(worlds.view)
    for name in ("angle", "error", "tilt"):
        np.testing.assert_allclose(after[name], before[name], atol=1e-6, err_msg=name)


def test_fingers_turn_it_both_ways_with_changes_of_grip():
    """Instances ask for more than one stroke of the fingers, so that the grip changes on the way."""
    worlds = _start(6, least_turn=100.0)
    memory, phases, done = np.zeros((6, 4)), set(), np.zeros(6, dtype=bool)
    assert len(set(np.sign(worlds.truth()["error"]))) == 2
    for k in range(150):
        truth = worlds.truth()
        assert not worlds.task.failure(truth).any()
        done |= worlds.task.success(truth)
        worlds.step(expert_of("cube_in_hand")(truth, worlds.view.rigs, 0.04 * k, memory))
        phases |= set(memory[:, 0])
    assert done.sum() >= 5
    assert phases == {0, 1, 2, 3}


def test_a_cube_beside_the_palm_is_dropped():
    worlds = _start(2)
    worlds.view.pose("cube")[1, 0] += 0.12
    for _ in range(10):
        worlds.step(np.zeros((2, 12)))
    truth = worlds.truth()
    assert worlds.task.failure(truth).tolist() == [False, True]
    assert worlds.task.reward(truth)["centred"][1] < 0.1


def test_bad_settings_are_refused():
    with pytest.raises(ConfigError, match="least_turn <= most_turn"):
        make_task("cube_in_hand", least_turn=130.0)
    with pytest.raises(BadInput, match="palm up"):
        make_task("cube_in_hand", arm="gantry").layout()
