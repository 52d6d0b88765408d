"""Robots put together by name."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.geometry.rotations import wrap_angle, yaw_of
from dexprior.robots.kinematics import ChainKinematics
from dexprior.robots.rigs import add_rig, home_pose, posture, rig_chain, turn_range


def _spec() -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    return spec


@pytest.mark.parametrize("arm", ["arm7", "gantry"])
@pytest.mark.parametrize("end", ["parallel", "three_finger", "tendon_hand", "builtin-hand"])
def test_every_pair_reaches_a_place_and_points_down(arm, end):
    spec = _spec()
    rig = add_rig(spec, arm, end)
    model = spec.compile()
    for name in (*rig.arm_joints, *rig.end_joints):
        model.joint(name)
    for name in (*rig.arm_joints, *rig.end_actuators):
        model.actuator(name)
    q = posture(arm, end, (0.45, 0.05, 0.2), 0.7)
    p, R, _ = ChainKinematics(model, rig.arm_joints, rig.name("tcp")).forward(q[None])
    np.testing.assert_allclose(p[0], [0.45, 0.05, 0.2], atol=1e-4)
    np.testing.assert_allclose(R[0, :, 2], [0, 0, -1], atol=1e-4)
    low, high = rig.arm.limits.T
    assert ((low <= q) & (q <= high)).all()


def test_two_robots_in_one_scene():
    spec = _spec()
    rigs = [
        add_rig(spec, "gantry", "parallel", prefix=f"{side}/", position=(0, y, 0)) for side, y in (("l", 1), ("r", -1))
    ]
    model = spec.compile()
    assert model.nu == 16
    assert set(rigs[0].arm_joints).isdisjoint(rigs[1].arm_joints)


def test_actions_span_the_control_of_an_end_effector():
    gripper, hand = (add_rig(_spec(), "gantry", end).end_control for end in ("parallel", "three_finger"))
    np.testing.assert_allclose(gripper(np.array([[-1.0], [0.0], [1.0]])), [[0, 0], [0.02, 0.02], [0.04, 0.04]])
    np.testing.assert_allclose(hand(np.array([[-1.0, 0.0, 1.0]])), [[25.0, 12.5, 0.0]])


def test_unknown_names_list_the_choices():
    with pytest.raises(UnknownName, match="arm7"):
        add_rig(_spec(), "arm8", "parallel")
    with pytest.raises(UnknownName, match="parallel"):
        add_rig(_spec(), "arm7", "paralel")
    with pytest.raises(UnknownName, match="end effector"):
        add_rig(_spec(), "arm7", "gantry")


def test_out_of_reach_is_said():
    with pytest.raises(BadInput, match="does not reach"):
        posture("arm7", "parallel", (3.0, 0.0, 0.2))


@pytest.mark.parametrize("arm", ["arm7", "gantry"])
def test_an_arm_turns_its_tool_about_the_vertical_to_the_ends_of_its_range_and_to_nowhere_else(arm):
    low, high = turn_range(arm, "parallel")
    assert low < 0.0 < high
    rig, chain = rig_chain(arm, "parallel")
    home = home_pose(arm, "parallel")
    joint = 6 if arm == "arm7" else 3
    ends = np.repeat(np.asarray(rig.home)[None], 2, axis=0)
    ends[:, joint] = rig.arm.limits[joint]
    position, rotation, _ = chain.forward(ends)
    assert np.allclose(rotation[:, 2, 2], -1.0, atol=1e-6)
    if arm == "arm7":  # what the gantry turns about is not its flange
        assert np.allclose(position, home[:3], atol=1e-9)
    yaw = np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0]) - yaw_of(home[None, 3:])
    assert np.allclose(np.sort(wrap_angle(yaw)), np.sort(wrap_angle(np.array([low, high]))), atol=1e-6)
