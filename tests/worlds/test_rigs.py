"""Robots put together by name."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import dexprior.worlds.tendon_hands  # noqa: F401  # registers the hands
from dexprior.errors import BadInput, UnknownName
from dexprior.worlds.kinematics import ChainKinematics
from dexprior.worlds.rigs import add_rig, arms, end_effectors, posture, register_arm, register_end_effector


def _spec() -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    return spec


@pytest.mark.parametrize("arm", ["arm7", "gantry"])
@pytest.mark.parametrize("end", ["parallel", "three_finger", "tendon_hand"])
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
    assert "arm7" in arms()
    assert "three_finger" in end_effectors()


def test_a_name_is_registered_once():
    from dataclasses import replace

    from dexprior.worlds.rigs import _ARMS, _ENDS

    with pytest.raises(BadInput, match="registered already"):
        register_arm(replace(_ARMS["arm7"], licence="mine"))
    with pytest.raises(BadInput, match="registered already"):
        register_end_effector(replace(_ENDS["parallel"], licence="mine"))


def test_out_of_reach_is_said():
    with pytest.raises(BadInput, match="does not reach"):
        posture("arm7", "parallel", (3.0, 0.0, 0.2))
