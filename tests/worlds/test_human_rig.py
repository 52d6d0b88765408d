"""The human hand as an end effector: MANO's numbers without loss, and grasps that reach."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.hands.skeleton import FINGER_RADIUS, forward
from dexprior.types import FINGERS
from dexprior.worlds.human import HINGE_LIMITS, finger_pose_from_hinges
from dexprior.worlds.human_rig import Contact, end_action, gantry_from_wrist, solve_grasp, wrist_from_gantry
from dexprior.worlds.rigs import add_rig


@pytest.fixture(scope="module")
def rig_and_model():
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    rig = add_rig(spec, "gantry", "human_hand")
    return rig, spec.compile()


def test_gantry_and_wrist_are_inverse():
    q = np.random.default_rng(0).uniform(-1.2, 1.2, (50, 6))
    np.testing.assert_allclose(gantry_from_wrist(wrist_from_gantry(q)), q, atol=1e-12)


def test_mano_parameters_give_the_simulated_fingertips(rig_and_model):
    rig, model = rig_and_model
    data, rng = mujoco.MjData(model), np.random.default_rng(1)
    for _ in range(5):
        arm, hinges = rng.uniform(-0.8, 0.8, 6), rng.uniform(*HINGE_LIMITS.T)
        data.qpos[[model.joint(name).qposadr[0] for name in rig.arm_joints]] = arm
        data.qpos[[model.joint(name).qposadr[0] for name in rig.end_joints]] = hinges
        mujoco.mj_kinematics(model, data)
        joints = forward(wrist_from_gantry(arm), finger_pose_from_hinges(hinges))
        tips = np.array([data.site(rig.name(f"tip_{finger}")).xpos for finger in FINGERS])
        np.testing.assert_allclose(joints[4::4], tips, atol=1e-9)
        np.testing.assert_allclose(joints[0], data.site(rig.name("wrist")).xpos, atol=1e-12)


def test_an_action_commands_the_angles_that_it_was_made_from(rig_and_model):
    rig, _ = rig_and_model
    hinges = np.random.default_rng(2).uniform(*HINGE_LIMITS.T, (4, len(HINGE_LIMITS)))
    np.testing.assert_allclose(rig.end_control(end_action(hinges)), hinges, atol=1e-12)


def _pinch(half: float) -> tuple[Contact, ...]:
    return (
        Contact(finger="thumb", point=(-half, 0.0, 0.0), normal=(-1.0, 0.0, 0.0)),
        Contact(finger="index", point=(half, 0.0, 0.0), normal=(1.0, 0.0, 0.0)),
    )


@pytest.mark.parametrize("half", [0.010, 0.025])
def test_a_grasp_puts_the_fingertips_where_they_should_be(half):
    grasp = solve_grasp(_pinch(half), floor=-half)
    for hinges, low, high in ((grasp.touch, -0.001, 0.001), (grasp.open, 0.010, 0.020)):
        joints = forward(grasp.wrist_pose, finger_pose_from_hinges(hinges))
        gaps = np.array([-joints[4, 0], joints[8, 0]]) - half - FINGER_RADIUS
        assert (gaps >= low).all()
        assert (gaps <= high).all()
        assert joints[1:, 2].min() > -half + FINGER_RADIUS - 1e-3  # above the table


def test_impossible_grasps_are_refused():
    with pytest.raises(BadInput, match="choices: thumb"):
        solve_grasp((Contact(finger="toe", point=(0, 0, 0), normal=(1, 0, 0)),))
    with pytest.raises(BadInput, match="mm are left"):
        solve_grasp(_pinch(0.15))
