"""Actions and commands in SI units: inverse to each other, saturated and counted, for every kind of robot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dexprior.errors import BadInput
from dexprior.robots.arm7 import MAX_OPENING
from dexprior.worlds.tasks import ActionSpec, TaskWorlds, make_task
from dexprior.worlds.tasks.actions import MAX_JOINT_SPEED, MAX_TWIST


def _spec(task: str = "insertion", kind: str = "cartesian", **settings) -> ActionSpec:
    built = make_task(task, **settings)
    return ActionSpec(built.layout().rigs, kind, built.control_dt)


SPECS = {
    "gripper": _spec(),
    "joints": _spec(kind="joint"),
    "hand on a stand": _spec("cube_in_hand"),
    "tendons": _spec("soft_grasp"),
    "two robots": _spec("folding", engine="particles"),
}


@pytest.mark.parametrize("name", SPECS)
def test_commands_and_actions_are_inverse(name):
    spec = SPECS[name]
    action = np.random.default_rng(0).uniform(-1, 1, (5, spec.size))
    commands = spec.commands(action)
    assert len(commands) == len(spec.rigs)
    np.testing.assert_allclose(spec.action(commands), action, atol=1e-12)


@pytest.mark.parametrize("name", SPECS)
def test_every_column_belongs_to_one_robot_s_arm_or_end(name):
    spec = SPECS[name]
    columns = [k for parts in spec.columns for part in parts for k in range(part.start, part.stop)]
    assert columns == list(range(spec.size))


def test_actions_of_one_are_the_fastest_and_the_widest():
    (command,) = SPECS["gripper"].commands(np.ones((1, 7)))
    np.testing.assert_array_equal(command.arm[0], MAX_TWIST)
    assert command.end.sum() == MAX_OPENING
    (command,) = SPECS["gripper"].commands(-np.ones((1, 7)))
    np.testing.assert_array_equal(command.arm[0], -MAX_TWIST)
    assert command.end.sum() == 0
    (command,) = SPECS["joints"].commands(np.ones((1, 8)))
    np.testing.assert_array_equal(command.arm[0], np.full(7, MAX_JOINT_SPEED))


@given(arrays(np.float64, (2, 7), elements=st.floats(-50, 50)))
def test_commands_stay_within_what_the_robot_may_do_and_what_was_cut_is_counted(action):
    spec = SPECS["gripper"]
    (command,) = spec.commands(action)
    assert (np.abs(command.arm) <= MAX_TWIST).all()
    assert ((command.end >= 0) & (command.end <= MAX_OPENING / 2)).all()
    beyond = (action < -1) | (action > 1)
    assert spec.saturated(action) == int(beyond.sum())
    np.testing.assert_array_equal(command.saturated, beyond[:, :6].sum(axis=1))  # of the arm's numbers


def test_nan_is_passed_on_for_a_safety_gate_to_see():
    action = np.zeros((2, 7))
    action[1, 3] = np.nan
    (command,) = SPECS["gripper"].commands(action)
    assert np.isnan(command.arm[1, 3])
    assert np.isfinite(command.arm[0]).all()
    assert np.isfinite(command.end).all()


@pytest.mark.parametrize("shape", [(7,), (2, 6), (1, 2, 7)])
def test_an_action_of_another_shape_is_refused(shape):
    with pytest.raises(BadInput, match=r"actions of shape .*, expected \(n, 7\)"):
        SPECS["gripper"].commands(np.zeros(shape))


def test_worlds_step_alike_under_actions_and_under_their_commands():
    task = make_task("pick_place")
    worlds = [TaskWorlds(task, 2, threads=1) for _ in range(2)]
    for each in worlds:
        rng = np.random.default_rng(0)
        scenes, rows = task.sample(rng, 2), task.family.sample(rng, 2)
        each.reset(np.arange(2), scenes, [task.family.as_dict(row) for row in rows])
    for action in np.random.default_rng(1).uniform(-1.5, 1.5, (5, 2, 7)):
        worlds[0].step(action)
        worlds[1].drive(worlds[1].actions.commands(action))
    np.testing.assert_array_equal(worlds[0].view.qpos, worlds[1].view.qpos)
    commands = worlds[0].actions.commands(np.zeros((3, 7)))
    with pytest.raises(BadInput, match=r"commands of shapes \[\(\(3, 6\), \(3, 2\)\)\], expected"):
        worlds[0].drive(commands)
    commands = worlds[0].actions.commands(np.full((2, 7), np.nan))
    with pytest.raises(BadInput, match="16 value"):
        worlds[0].drive(commands)
