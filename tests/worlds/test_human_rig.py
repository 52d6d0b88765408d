"""The human hand as an end effector: MANO's numbers without loss, and grasps that reach."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_axis_angle, matrix_from_quat
from dexprior.hands.skeleton import FINGER_RADIUS, PARENTS, forward
from dexprior.robots.human_hand import HINGE_LIMITS, end_action, finger_pose_from_hinges
from dexprior.robots.rigs import add_rig
from dexprior.types.hand import FINGERS, MANO_JOINTS
from dexprior.worlds.human_rig import Contact, gantry_from_wrist, solve_grasp, wrist_from_gantry


@pytest.fixture(scope="module")
def rig_and_model():
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    rig = add_rig(spec, "gantry", "human_hand")
    return rig, spec.compile()


def _postures(rig, model, *, seed):
    """Five draws: gantry, hinges, and the simulated hand that stands so."""
    data, rng = mujoco.MjData(model), np.random.default_rng(seed)
    for _ in range(5):
        arm, hinges = rng.uniform(-0.8, 0.8, 6), rng.uniform(*HINGE_LIMITS.T)
        data.qpos[[model.joint(name).qposadr[0] for name in rig.arm_joints]] = arm
        data.qpos[[model.joint(name).qposadr[0] for name in rig.end_joints]] = hinges
        mujoco.mj_kinematics(model, data)
        yield arm, hinges, data


def test_gantry_and_wrist_are_inverse():
    q = np.random.default_rng(0).uniform(-1.2, 1.2, (50, 6))
    np.testing.assert_allclose(gantry_from_wrist(wrist_from_gantry(q)), q, atol=1e-12)


def test_mano_parameters_give_the_simulated_fingertips(rig_and_model):
    rig, model = rig_and_model
    for arm, hinges, data in _postures(rig, model, seed=1):
        joints = forward(wrist_from_gantry(arm), finger_pose_from_hinges(hinges))
        tips = np.array([data.site(rig.name(f"tip_{finger}")).xpos for finger in FINGERS])
        np.testing.assert_allclose(joints[4::4], tips, atol=1e-9)
        np.testing.assert_allclose(joints[0], data.site(rig.name("wrist")).xpos, atol=1e-12)


def test_finger_pose_from_hinges_is_how_the_bodies_are_turned(rig_and_model):
    """MANO's numbers reproduce every body's orientation in the simulator."""
    rig, model = rig_and_model
    for arm, hinges, data in _postures(rig, model, seed=0):
        local = matrix_from_axis_angle(finger_pose_from_hinges(hinges).reshape(15, 3))
        rotations = [matrix_from_quat(wrist_from_gantry(arm)[3:])]
        for k in range(1, 16):
            rotations.append(rotations[PARENTS[k]] @ local[k - 1])
            turned = data.body(rig.name(MANO_JOINTS[k])).xmat.reshape(3, 3)
            np.testing.assert_allclose(turned, rotations[k], atol=1e-6)


def test_many_hinge_angles_are_converted_as_each_one_is():
    hinges = np.random.default_rng(0).uniform(*HINGE_LIMITS.T, (3, 2, len(HINGE_LIMITS)))
    together = finger_pose_from_hinges(hinges)
    assert together.shape == (3, 2, 45)
    np.testing.assert_allclose(together[2, 1], finger_pose_from_hinges(hinges[2, 1]))
    np.testing.assert_allclose(finger_pose_from_hinges(np.zeros(len(HINGE_LIMITS))), np.zeros(45))


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
