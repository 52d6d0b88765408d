"""The controller of arms keeps what it promises."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.robots.arm7 import HOME, JOINT_LIMITS
from dexprior.worlds.controller import CartesianVelocityController

DT = 0.04


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
