"""The built-in arm reaches what it says it reaches."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.geometry.rotations import quat_from_matrix, rotation_angle
from dexprior.retarget.arm_ik import solve_arm
from dexprior.robots.arm7 import ARM_JOINTS, GRIPPER_JOINTS, HOME, JOINT_LIMITS, MAX_OPENING, ArmKinematics, add_arm

N = 30
DOWN = np.array([0.0, 1.0, 0.0, 0.0])


def _sweep(start, end, yaw=0.0) -> np.ndarray:
    u = np.linspace(0, 1, N)[:, None]
    angle = yaw * u[:, 0]
    c, s, zero = np.cos(angle), np.sin(angle), np.zeros(N)
    # y of the tool turns in the table's plane, z points down
    y = np.stack([s, -c, zero], -1)
    z = np.tile([0, 0, -1.0], (N, 1))
    quat = quat_from_matrix(np.stack([np.cross(y, z), y, z], -1))
    return np.concatenate([(1 - u) * np.asarray(start) + u * np.asarray(end), quat], axis=1)


@pytest.fixture(scope="module")
def reach():
    """A sweep over the work area with half a right angle of yaw: (wanted, opening, solution)."""
    wanted = _sweep([0.42, -0.12, 0.02], [0.48, 0.10, 0.15], yaw=np.pi / 4)
    opening = np.linspace(0.08, 0.03, N)
    return wanted, opening, solve_arm(np.arange(N) / 24, wanted, opening)


def test_it_reaches_the_work_area_within_3_mm(reach):
    wanted, _, solved = reach
    assert solved.feasible.all()
    position, rotation, _ = ArmKinematics().forward(solved.q[:, :7])  # by other code than the solver's
    np.testing.assert_allclose(position, wanted[:, :3], atol=3e-3)
    assert rotation_angle(quat_from_matrix(rotation), wanted[:, 3:]).max() < np.deg2rad(3)
    np.testing.assert_allclose(solved.ee_pose[:, :3], position, atol=1e-6)


def test_joints_keep_their_limits_and_move_smoothly(reach):
    q = reach[2].q[:, :7]
    assert (q >= JOINT_LIMITS[:, 0]).all()
    assert (q <= JOINT_LIMITS[:, 1]).all()
    assert np.abs(np.diff(q, axis=0)).max() < 0.2


def test_names_are_those_of_the_model(reach):
    solved = reach[2]
    assert solved.robot == "arm7+parallel"
    assert solved.names == (*ARM_JOINTS, *GRIPPER_JOINTS)
    assert solved.q.shape == (N, 9)
    again = solve_arm(np.arange(2) / 24, reach[0][:2], reach[1][:2])
    assert again.model_hash == solved.model_hash


def test_each_pad_carries_half_the_opening_as_far_as_it_goes(reach):
    _, opening, solved = reach
    np.testing.assert_allclose(solved.q[:, 7:], np.repeat(opening[:, None] / 2, 2, axis=1))
    squeezing = solve_arm(np.array([0.0, 0.1]), reach[0][:2], np.array([-0.02, 0.2]))
    np.testing.assert_allclose(squeezing.q[:, 7], [0.0, MAX_OPENING / 2])


@pytest.mark.parametrize(
    ("place", "why"), [([1.5, 0, 0.2], "too far"), ([0.0, 0.0, 0.05], "in its own base"), ([0.4, 0, 2.0], "too high")]
)
def test_what_it_cannot_reach_is_flagged(place, why):
    t = np.arange(4) / 24
    solved = solve_arm(t, np.tile([*place, *DOWN], (4, 1)), np.full(4, 0.05))
    assert not solved.feasible.any(), why
    assert (solved.q[:, :7] >= JOINT_LIMITS[:, 0] - 1e-6).all()
    assert (solved.q[:, :7] <= JOINT_LIMITS[:, 1] + 1e-6).all()


def test_it_comes_back_from_where_it_could_not_go():
    wanted = _sweep([0.45, 0.0, 0.1], [0.45, 0.0, 0.1])
    wanted[10:15, 0] = 1.5
    solved = solve_arm(np.arange(N) / 24, wanted, np.full(N, 0.05))
    np.testing.assert_array_equal(np.flatnonzero(~solved.feasible)[:5], np.arange(10, 15))
    assert solved.feasible[:10].all()
    assert solved.feasible[-5:].all()


def test_turning_on_the_spot_turns_the_tool():
    """The position is already right: the iterations must not stop there."""
    position, _, _ = ArmKinematics().forward(HOME[None])
    wanted = _sweep(position[0], position[0], yaw=np.pi / 3)
    solved = solve_arm(np.arange(N) / 24, wanted, np.full(N, 0.05))
    assert rotation_angle(solved.ee_pose[:, 3:], wanted[:, 3:]).max() < np.deg2rad(5)


def test_its_forward_kinematics_are_mujocos(reach):
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    add_arm(spec)
    model = spec.compile()
    data = mujoco.MjData(model)
    for name, value in zip(reach[2].names, reach[2].q[-1]):
        data.qpos[model.joint(name).qposadr[0]] = value
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(data.site("tcp").xpos, reach[2].ee_pose[-1, :3], atol=1e-6)
