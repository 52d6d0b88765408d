"""The batched kinematics are MuJoCo's, and the controller keeps what it promises."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.worlds.arm import (
    ARM_JOINTS,
    GRIPPER_JOINTS,
    HOME,
    JOINT_LIMITS,
    MAX_OPENING,
    ArmKinematics,
    add_arm,
)
from dexprior.worlds.controller import CartesianVelocityController

DT = 0.04


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    add_arm(spec)
    return spec.compile()


@pytest.fixture(scope="module")
def postures() -> np.ndarray:
    low, high = JOINT_LIMITS.T
    return np.random.default_rng(0).uniform(low, high, (40, 7))


def test_kinematics_and_jacobian_are_mujocos(model, postures):
    position, rotation, jacobian = ArmKinematics().forward(postures)
    data = mujoco.MjData(model)
    site = model.site("tcp").id
    dofs = [model.joint(name).dofadr[0] for name in ARM_JOINTS]
    for k, q in enumerate(postures):
        data.qpos[[model.joint(name).qposadr[0] for name in ARM_JOINTS]] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        linear, angular = np.zeros((2, 3, model.nv))
        mujoco.mj_jacSite(model, data, linear, angular, site)
        np.testing.assert_allclose(position[k], data.site_xpos[site], atol=1e-12)
        np.testing.assert_allclose(rotation[k].ravel(), data.site_xmat[site], atol=1e-12)
        np.testing.assert_allclose(jacobian[k], np.concatenate([linear, angular])[:, dofs], atol=1e-12)


def test_jacobian_is_the_derivative(postures):
    kinematics, h = ArmKinematics(), 1e-6
    _, rotation, jacobian = kinematics.forward(postures)
    for j in range(7):
        step = h * np.eye(7)[j]
        p1, R1, _ = kinematics.forward(postures + step)
        p0, R0, _ = kinematics.forward(postures - step)
        np.testing.assert_allclose((p1 - p0) / (2 * h), jacobian[:, :3, j], atol=1e-8)
        W = (R1 - R0) / (2 * h) @ rotation.transpose(0, 2, 1)  # the skew matrix of the angular velocity
        spin = np.stack([W[:, 2, 1], W[:, 0, 2], W[:, 1, 0]], axis=1)
        np.testing.assert_allclose(spin, jacobian[:, 3:, j], atol=1e-8)


def test_home_points_down_over_the_table():
    position, rotation, _ = ArmKinematics().forward(HOME[None])
    np.testing.assert_allclose(rotation[0, :, 2], [0, 0, -1], atol=1e-12)
    assert 0.4 < position[0, 0] < 0.6
    assert position[0, 1] == pytest.approx(0, abs=1e-12)
    assert ((JOINT_LIMITS[:, 0] < HOME) & (JOINT_LIMITS[:, 1] > HOME)).all()


def test_the_model_has_the_published_limits_and_everything_is_named(model):
    for name, limits in zip(ARM_JOINTS, JOINT_LIMITS):
        np.testing.assert_allclose(model.joint(name).range, limits)
    for name in GRIPPER_JOINTS:
        np.testing.assert_allclose(model.joint(name).range, [0, MAX_OPENING / 2])
    assert [model.actuator(k).name for k in range(model.nu)] == [*ARM_JOINTS, *GRIPPER_JOINTS]
    for kind, count in (("geom", model.ngeom), ("body", model.nbody), ("joint", model.njnt), ("site", model.nsite)):
        assert all(getattr(model, kind)(k).name for k in range(count)), kind


@pytest.mark.parametrize("axis", range(6))
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_tool_moves_as_commanded(axis, sign):
    controller = CartesianVelocityController(1)
    twist = np.zeros((1, 6))
    twist[0, axis] = sign * 0.1
    p0, R0, _ = controller.kinematics.forward(controller.target)
    for _ in range(5):
        controller.step(controller.target.copy(), twist, DT)
    p1, R1, _ = controller.kinematics.forward(controller.target)
    W = R1[0] @ R0[0].T
    moved = np.concatenate([p1[0] - p0[0], 0.5 * np.array([W[2, 1] - W[1, 2], W[0, 2] - W[2, 0], W[1, 0] - W[0, 1]])])
    np.testing.assert_allclose(moved / (5 * DT), twist[0], atol=0.006)


def test_no_command_no_motion():
    controller = CartesianVelocityController(2)
    target = controller.step(np.tile(HOME, (2, 1)), np.zeros((2, 6)), DT)
    np.testing.assert_allclose(target, np.tile(HOME, (2, 1)), atol=1e-12)


def test_targets_keep_the_joint_limits_and_a_short_lead():
    """Whatever is asked for, and however long the arm is blocked."""
    rng = np.random.default_rng(0)
    controller = CartesianVelocityController(8)
    blocked = np.tile(HOME, (8, 1))
    for _ in range(50):
        target = controller.step(blocked, rng.uniform(-2, 2, (8, 6)), DT)
        assert np.abs(target - blocked).max() <= 0.12 + 1e-12
    free = CartesianVelocityController(8)
    twist = rng.uniform(-2, 2, (8, 6))
    for _ in range(200):
        target = free.step(free.target.copy(), twist, DT)
        assert ((target >= JOINT_LIMITS[:, 0]) & (target <= JOINT_LIMITS[:, 1])).all()


@pytest.mark.parametrize("direction", [(1, 0, 0), (0.6, 0, 0.8), (0, 1, 0), (0, -0.6, -0.8)])
def test_a_twist_that_joints_cannot_follow_is_slowed_down_in_its_direction(direction):
    """Joints that lag as a servo's do, 35 ms behind their targets."""
    controller = CartesianVelocityController(1)
    q = controller.target.copy()
    start, _, _ = controller.kinematics.forward(q)
    for _ in range(6):
        target = controller.step(q, np.array([[*(1.8 * np.array(direction)), 0, 0, 0]]), DT)
        q = q + (target - q) * 0.6
    end, _, _ = controller.kinematics.forward(q)
    moved = (end - start)[0]
    along = float(moved @ direction)
    assert 0.05 < along < 6 * DT * 1.8
    assert np.linalg.norm(moved - along * np.array(direction)) < 0.08 * along


def test_arms_do_not_know_each_other():
    twist = np.random.default_rng(0).normal(size=(5, 6))
    together = CartesianVelocityController(5).step(np.tile(HOME, (5, 1)), twist, DT)
    for k in range(5):
        alone = CartesianVelocityController(1).step(HOME[None], twist[k : k + 1], DT)
        np.testing.assert_array_equal(together[k], alone[0])


def test_reset_touches_only_the_arms_that_it_names():
    controller = CartesianVelocityController(3)
    controller.reset(np.array([1]), np.full((1, 7), 0.5))
    np.testing.assert_array_equal(controller.target, [HOME, np.full(7, 0.5), HOME])
