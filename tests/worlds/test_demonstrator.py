"""One demonstration does what a person would: touch, then lift, then insert; and its poses are the bodies' poses."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.geometry.rotations import matrix_from_axis_angle, matrix_from_quat
from dexprior.hands.skeleton import FINGER_RADIUS, PARENTS, forward
from dexprior.types.hand import FINGERS, MANO_JOINTS
from dexprior.worlds.demonstrator import Demonstrator, plan_insertion, solve_pinch
from dexprior.worlds.human import HINGE_LIMITS, HINGES, finger_pose_from_hinges
from dexprior.worlds.insertion import InsertionConfig, engaged_depth, sample_scenes

CONFIG = InsertionConfig()
SCENE = {name: value[0] for name, value in sample_scenes(np.random.default_rng(0), 1).items()}
PINCHING = [0, 1, 2]


@pytest.fixture(scope="module")
def grasp():
    return solve_pinch(CONFIG.outer_radius)


@pytest.fixture(scope="module")
def demonstrator(grasp):
    return Demonstrator(CONFIG, grasp)


@pytest.fixture(scope="module")
def recording(demonstrator):
    return demonstrator.run(SCENE, seed=0, frames=48, fps=24.0)


def test_the_pinch_meets_the_nut(grasp):
    def distance(hinges):
        tips = forward(grasp.wrist_pose, finger_pose_from_hinges(hinges))[4::4][PINCHING]
        return np.linalg.norm(tips[:, :2], axis=1) - CONFIG.outer_radius - FINGER_RADIUS

    np.testing.assert_allclose(distance(grasp.touch), 0.0, atol=1e-3)
    assert (distance(grasp.open) > 0.01).all()
    assert (distance(grasp.squeeze) < -0.005).all()
    for hinges in (grasp.open, grasp.touch, grasp.squeeze):
        assert ((hinges >= HINGE_LIMITS[:, 0]) & (hinges <= HINGE_LIMITS[:, 1])).all()
    thumb, index, _ = forward(grasp.wrist_pose, finger_pose_from_hinges(grasp.touch))[4::4][PINCHING][:, :2]
    assert thumb @ index < 0  # from opposite sides


def test_it_succeeds(recording):
    assert recording.success
    depth = engaged_depth(CONFIG, recording.nut_pose, np.tile(recording.bolt, (48, 1)))
    assert depth[0] == 0
    assert depth[-1] >= CONFIG.success_depth


def test_contact_comes_before_the_nut_moves(demonstrator, recording):
    touching = demonstrator.touching(recording.force)
    moved = np.linalg.norm(recording.nut_pose[:, :3] - recording.nut_pose[0, :3], axis=1) > 0.003
    lifted = recording.nut_pose[:, 2] > recording.nut_pose[0, 2] + 0.003
    assert not touching[0].any()
    assert touching.any(axis=1).argmax() <= moved.argmax()
    assert touching[lifted][:, PINCHING].sum(axis=1).min() >= 2  # nothing lifts itself


def test_forces_push_and_only_pinching_fingers_lift(recording):
    assert (recording.force >= 0).all()
    assert recording.force[:, PINCHING].max() > 1.0
    assert recording.force.max() < 100.0
    assert np.isfinite(recording.wrench).all()
    assert np.abs(recording.wrench[0]).max() == 0


def test_the_wrist_feels_the_weight_of_a_lifted_nut(demonstrator, recording):
    lifted = (recording.nut_pose[:, 2] > 0.05) & (engaged_depth(CONFIG, recording.nut_pose, recording.bolt) == 0)
    R = matrix_from_quat(recording.wrist_pose[lifted, 3:])
    force = (R @ recording.wrench[lifted, :3, None])[..., 0].mean(axis=0)
    weight = demonstrator.model.body("nut").mass[0] * 9.81
    assert lifted.sum() > 5
    assert force[2] == pytest.approx(-weight, abs=0.3)


def test_recorded_joints_are_the_hand_of_the_recorded_pose(recording):
    np.testing.assert_allclose(recording.joints, forward(recording.wrist_pose, recording.finger_pose), atol=1e-12)
    assert recording.t == pytest.approx(np.arange(48) / 24.0)


def test_finger_pose_from_hinges_is_how_the_bodies_are_turned(demonstrator):
    """MANO's numbers reproduce every body's position and orientation in the simulator."""
    model, data = demonstrator.model, mujoco.MjData(demonstrator.model)
    rng = np.random.default_rng(0)
    wrist = model.joint("wrist").qposadr[0]
    for _ in range(5):
        hinges = rng.uniform(HINGE_LIMITS[:, 0], HINGE_LIMITS[:, 1])
        q = rng.normal(size=4)
        pose = np.concatenate([rng.uniform(-0.2, 0.2, 3), q / np.linalg.norm(q)])
        data.qpos[wrist : wrist + 7] = pose
        for (name, *_), angle in zip(HINGES, hinges):
            data.qpos[model.joint(name).qposadr[0]] = angle
        mujoco.mj_kinematics(model, data)
        fingers = finger_pose_from_hinges(hinges)
        local = matrix_from_axis_angle(fingers.reshape(15, 3))
        rotations = [matrix_from_quat(pose[3:])]
        for k in range(1, 16):
            rotations.append(rotations[PARENTS[k]] @ local[k - 1])
            np.testing.assert_allclose(data.body(MANO_JOINTS[k]).xmat.reshape(3, 3), rotations[k], atol=1e-6)
        joints = forward(pose, fingers)
        for f, finger in enumerate(FINGERS):
            np.testing.assert_allclose(joints[4 + 4 * f], data.site(f"tip_{finger}").xpos, atol=1e-6)
        np.testing.assert_allclose(joints[5], data.body("index1").xpos, atol=1e-6)


def test_hinges_are_batched():
    hinges = np.random.default_rng(0).uniform(HINGE_LIMITS[:, 0], HINGE_LIMITS[:, 1], (3, 2, len(HINGES)))
    together = finger_pose_from_hinges(hinges)
    assert together.shape == (3, 2, 45)
    np.testing.assert_allclose(together[2, 1], finger_pose_from_hinges(hinges[2, 1]))
    np.testing.assert_allclose(finger_pose_from_hinges(np.zeros(len(HINGES))), np.zeros(45))


def test_the_same_habits_give_the_same_recording(demonstrator, recording, grasp):
    """Whatever was demonstrated before, in this process or another."""
    for other in (demonstrator, Demonstrator(CONFIG, grasp)):
        again = other.run(SCENE, seed=0, frames=48, fps=24.0)
        for name, value in vars(recording).items():
            np.testing.assert_array_equal(value, vars(again)[name], err_msg=name)


def test_other_habits_give_another_recording(demonstrator, recording):
    other = demonstrator.run(SCENE, seed=1, frames=48, fps=24.0)
    assert np.abs(other.wrist_pose - recording.wrist_pose).max() > 0.01
    np.testing.assert_allclose(other.nut_pose[0], recording.nut_pose[0], atol=1e-3)


def test_the_plan_is_continuous_and_keeps_to_its_phases(grasp):
    plan = plan_insertion(CONFIG, grasp, SCENE, np.random.default_rng(0), 2.0)
    t = np.linspace(-0.1, 2.2, 2000)
    wrist = np.stack([plan.wrist(x) for x in t])
    assert np.linalg.norm(np.diff(wrist[:, :3], axis=0), axis=1).max() < 0.003
    np.testing.assert_allclose(np.linalg.norm(wrist[:, 3:], axis=1), 1.0)
    np.testing.assert_allclose(plan.wrist(0.0), plan.knots[0], atol=1e-9)
    np.testing.assert_allclose(plan.wrist(5.0), plan.knots[-1], atol=1e-9)
    np.testing.assert_array_equal(plan.hinges(0.0), plan.open)
    np.testing.assert_allclose(plan.hinges(plan.times[2]), plan.squeeze)
    assert plan.times[-1] <= 2.0
