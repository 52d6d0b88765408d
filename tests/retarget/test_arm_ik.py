"""An arm reaches what it says it reaches, whatever it carries."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.geometry.rotations import quat_from_matrix, rotation_angle
from dexprior.retarget.arm_ik import missed, solve_arm
from dexprior.retarget.gripper import ToolTrajectory
from dexprior.robots import catalog
from dexprior.robots.arm7 import ARM_JOINTS, GRIPPER_JOINTS, HOME, JOINT_LIMITS, MAX_OPENING, ArmKinematics
from dexprior.robots.rigs import home_pose, rig_model

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


def _solved(t, tool, opening, *, arm="arm7", end="parallel", force=0.0):
    return solve_arm(
        arm, end, ToolTrajectory(t=t, tool=tool, opening=opening, force=np.broadcast_to(force, t.shape), clip=t)
    )


@pytest.fixture(scope="module")
def reach():
    """A sweep over the work area with half a right angle of yaw: (wanted, opening, solution)."""
    wanted = _sweep([0.42, -0.12, 0.02], [0.48, 0.10, 0.15], yaw=np.pi / 4)
    opening = np.linspace(0.08, 0.03, N)
    return wanted, opening, _solved(np.arange(N) / 24, wanted, opening)


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
    again = _solved(np.arange(2) / 24, reach[0][:2], reach[1][:2])
    assert again.model_hash == solved.model_hash


def test_each_pad_carries_half_the_opening_as_far_as_it_goes(reach):
    _, opening, solved = reach
    np.testing.assert_allclose(solved.q[:, 7:], np.repeat(opening[:, None] / 2, 2, axis=1))
    squeezing = _solved(np.array([0.0, 0.1]), reach[0][:2], np.array([-0.02, 0.2]))
    np.testing.assert_allclose(squeezing.q[:, 7], [0.0, MAX_OPENING / 2])


@pytest.mark.parametrize(
    ("place", "why"), [([1.5, 0, 0.2], "too far"), ([0.0, 0.0, 0.05], "in its own base"), ([0.4, 0, 2.0], "too high")]
)
def test_what_it_cannot_reach_is_flagged(place, why):
    t = np.arange(4) / 24
    solved = _solved(t, np.tile([*place, *DOWN], (4, 1)), np.full(4, 0.05))
    assert not solved.feasible.any(), why
    assert (solved.q[:, :7] >= JOINT_LIMITS[:, 0] - 1e-6).all()
    assert (solved.q[:, :7] <= JOINT_LIMITS[:, 1] + 1e-6).all()


def test_it_comes_back_from_where_it_could_not_go():
    wanted = _sweep([0.45, 0.0, 0.1], [0.45, 0.0, 0.1])
    wanted[10:15, 0] = 1.5
    solved = _solved(np.arange(N) / 24, wanted, np.full(N, 0.05))
    np.testing.assert_array_equal(np.flatnonzero(~solved.feasible)[:5], np.arange(10, 15))
    assert solved.feasible[:10].all()
    assert solved.feasible[-5:].all()


def test_turning_on_the_spot_turns_the_tool():
    """The position is already right: the iterations must not stop there."""
    position, _, _ = ArmKinematics().forward(HOME[None])
    wanted = _sweep(position[0], position[0], yaw=np.pi / 3)
    solved = _solved(np.arange(N) / 24, wanted, np.full(N, 0.05))
    assert rotation_angle(solved.ee_pose[:, 3:], wanted[:, 3:]).max() < np.deg2rad(5)


def test_its_forward_kinematics_are_mujocos(reach):
    rig, model = rig_model("arm7", "parallel")
    data = mujoco.MjData(model)
    for name, value in zip(reach[2].names, reach[2].q[-1]):
        data.joint(rig.name(name)).qpos[:] = value
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(data.site(rig.name("tcp")).xpos, reach[2].ee_pose[-1, :3], atol=1e-6)


@pytest.mark.parametrize("arm", ["arm7", "gantry"])
@pytest.mark.parametrize("end", ["parallel", "three_finger", "tendon_hand"])
def test_any_arm_with_what_closes_by_one_number_reaches_around_its_home(arm, end):
    start = home_pose(arm, end)
    tool = np.tile(start, (N, 1))
    tool[:, :3] += np.linspace(0.0, 1.0, N)[:, None] * [0.03, 0.08, -0.05]
    force = np.where(np.arange(N) < 20, 0.0, 1.5)
    solved = _solved(np.arange(N) / 24, tool, np.linspace(0.07, 0.03, N), arm=arm, end=end, force=force)
    assert solved.feasible.all()
    assert missed(solved) == []
    effector = catalog.end_effector(end)
    assert solved.robot == f"{arm}+{end}"
    assert solved.names == (*catalog.arm(arm).joints, *effector.joints)
    assert solved.fingers == effector.touch
    np.testing.assert_array_equal(solved.force, np.repeat(force[:, None], len(effector.touch), axis=1))
    np.testing.assert_array_equal(solved.contact, solved.force > 0.0)
    fingers = solved.q[:, len(catalog.arm(arm).joints) :]
    assert (np.abs(np.diff(fingers, axis=0)).max(axis=1) > 0.0).all(), "fingers close with the opening"


def test_what_is_missed_is_told_by_time_and_joint():
    tool = np.tile(home_pose("gantry", "parallel"), (N, 1))
    tool[10:15, 1] = 1.2  # its slide ends at 1 m
    (miss,) = missed(_solved(np.arange(N) / 10, tool, np.full(N, 0.05), arm="gantry"))
    assert (miss.start, miss.stop, miss.joints) == (1.0, 1.4, ("y",))


def test_rigs_that_cannot_are_refused():
    t, tool, opening = np.arange(2) / 10, np.tile([0.4, 0.0, 0.2, *DOWN], (2, 1)), np.full(2, 0.05)
    with pytest.raises(BadInput, match="'stand' has no joints and cannot move its tool; arms that move: arm7, gantry"):
        _solved(t, tool, opening, arm="stand")
    with pytest.raises(BadInput, match="'claw4': no map from an opening and a force"):
        _solved(t, tool, opening, end="claw4")
    with pytest.raises(UnknownName, match="unknown arm 'arm8'; did you mean 'arm7'"):
        _solved(t, tool, opening, arm="arm8")
