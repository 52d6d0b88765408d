"""The gripper's version of a hand's clip: contact as the hand had it, free motion that an arm can follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.geometry.rotations import matrix_from_quat, quat_from_yaw, quat_multiply, quat_rotate
from dexprior.geometry.transforms import interpolate_poses
from dexprior.hands.skeleton import FINGER_RADIUS
from dexprior.retarget.gripper import GripperConfig, ToolTrajectory, contact_phases, grip_map, retarget_to_gripper
from dexprior.types import HandTrajectory
from dexprior.worlds.tasks import TaskWorlds, make_task

HOME = np.array([0.5, 0.0, 0.25, 0.0, 1.0, 0.0, 0.0])
HALF = 0.02  # [m] half the width of what is held
DT = 0.08
UP = quat_from_yaw(np.zeros(1))[0]


def clip(*, push: bool = False, yaw: float = 0.0, shift: tuple[float, float] = (0.0, 0.0)):
    """A pinch from x: reach, close at 1.2 s, lift, carry along y, let go at 2.8 s; pushed along y before, on demand."""
    t = DT * np.arange(50)
    y = np.interp(t, [0.4, 0.9], [0.0, 0.05]) if push else np.zeros(50)
    held = (t >= 1.2) & (t < 2.8)
    y = y + np.interp(t, [1.7, 2.4], [0.0, 0.15])
    z = HALF + np.interp(t, [1.3, 1.6, 2.4, 2.7], [0.0, 0.08, 0.08, 0.0])
    position = np.column_stack([np.full(50, 0.45), y - 0.1, z])
    joints = np.zeros((50, 21, 3))
    gap = np.where(held, HALF + FINGER_RADIUS, HALF + 0.03)
    pushing = (t >= 0.4) & (t <= 0.9) & push
    for finger, side in enumerate((-1.0, 1.0, 1.0, 0.0, 0.0)):
        out = np.column_stack([side * gap, np.where(pushing, -HALF - FINGER_RADIUS, 0.0), np.zeros(50)])
        joints[:, 3 + 4 * finger] = position + out + [0.0, 0.0, 0.02]
        joints[:, 4 + 4 * finger] = position + out
    contact = np.zeros((50, 5))
    contact[held, :3] = 1.0
    contact[pushing, 1:3] = 1.0
    turn = quat_from_yaw(np.array([yaw]))
    place = lambda p: quat_rotate(np.broadcast_to(turn, (*p.shape[:-1], 4)), p) + np.array([*shift, 0.0])  # noqa: E731
    pose = np.concatenate([place(position), np.broadcast_to(turn, (50, 4))], axis=1)
    hand = HandTrajectory(
        t=t, side="right", wrist_pose=np.tile([0, 0, 0.2, *UP], (50, 1)), finger_pose=np.zeros((50, 45)),
        betas=np.zeros(10), joints=place(joints), contact=contact, force=4.0 * contact, valid=np.ones(50, dtype=bool),
        sigma=np.zeros((50, 21)), scale_known=True,
    )  # fmt: skip
    return hand, pose


def speeds(made: ToolTrajectory) -> np.ndarray:
    return np.linalg.norm(np.diff(made.tool[:, :3], axis=0), axis=1) / np.diff(made.t)


def holding(made: ToolTrajectory) -> np.ndarray:
    return np.flatnonzero(made.force > 0)


def test_the_hold_lasts_as_long_as_the_hand_s_and_carries_the_object_rigidly():
    hand, pose = clip()
    made = retarget_to_gripper(hand, pose, HOME, GripperConfig())
    rows = holding(made)
    phase = contact_phases(hand.t, hand.contact > 0.5, pose[:, :3], moves=0.012)[-1]
    assert made.t[rows[-1]] - made.t[rows[0]] == pytest.approx(hand.t[phase.stop - 1] - hand.t[phase.start])
    late = made.t[rows[0]] - hand.t[phase.start]
    carried = interpolate_poses(made.t[rows[1:]] - late, hand.t, pose)
    back = made.tool[rows[1:], 3:] * [1.0, -1.0, -1.0, -1.0]
    inside = quat_rotate(back, carried[:, :3] - made.tool[rows[1:], :3])
    assert np.ptp(inside, axis=0).max() < 1e-9


def test_it_starts_where_the_arm_is_and_comes_down_from_above():
    hand, pose = clip()
    made = retarget_to_gripper(hand, pose, HOME, GripperConfig())
    assert made.t[0] == 0.0
    assert np.array_equal(made.tool[0], HOME)
    assert (np.diff(made.t) > 0).all()
    first = holding(made)[0]
    grasp = made.tool[first, :3]
    low = np.flatnonzero(made.tool[: first - 1, 2] < grasp[2] + 0.04)
    assert np.linalg.norm(made.tool[low, :2] - grasp[:2], axis=1).max() < 1e-6
    assert (made.opening[low] >= 2 * HALF + 0.02).all()
    assert made.opening[-1] == GripperConfig().max_opening
    assert made.tool[-1, 2] == pytest.approx(made.tool[holding(made)[-1], 2] + GripperConfig().clearance)


@pytest.mark.parametrize("push", [False, True])
def test_free_motion_is_no_faster_than_the_arm(push):
    hand, pose = clip(push=push)
    config = GripperConfig(max_speed=0.3)
    made = retarget_to_gripper(hand, pose, HOME, config)
    free = made.force[1:] == 0
    # a minimum-jerk motion is at most 1.875 times as fast as its mean
    assert speeds(made)[free].max() < 1.9 * config.max_speed
    slow = retarget_to_gripper(hand, pose, HOME, replace(config, max_speed=0.1))
    assert slow.t[holding(slow)[0]] > made.t[holding(made)[0]] + 0.5


def test_the_answer_moves_with_the_scene():
    start = HOME.copy()
    one = retarget_to_gripper(*clip(), start, GripperConfig())
    yaw, shift = 0.3, (0.04, -0.02)
    turn = quat_from_yaw(np.array([yaw]))[0]
    aside = np.array([*shift, 0.0])
    moved = np.concatenate([quat_rotate(turn, start[:3]) + aside, quat_multiply(turn, start[3:])])
    other = retarget_to_gripper(*clip(yaw=yaw, shift=shift), moved, GripperConfig())
    assert np.allclose(one.t, other.t)
    wanted = quat_rotate(np.broadcast_to(turn, (len(one.t), 4)), one.tool[:, :3]) + aside
    assert np.allclose(other.tool[:, :3], wanted, atol=1e-9)
    assert np.allclose(one.opening, other.opening)
    assert np.allclose(one.force, other.force)


def test_a_push_is_done_closed_from_behind_along_the_object_s_way():
    hand, pose = clip(push=True)
    kinds = [p.kind for p in contact_phases(hand.t, hand.contact > 0.5, pose[:, :3], moves=0.012)]
    assert kinds == ["push", "hold"]
    config = GripperConfig()
    made = retarget_to_gripper(hand, pose, HOME, config)
    before = made.t < made.t[holding(made)[0]] - config.descent
    closed = np.flatnonzero(before & (made.opening == 0.0) & (made.tool[:, 2] < HALF + 0.01))
    path = made.tool[closed, :3]
    assert path[0, 1] < pose[0, 1] - HALF - config.behind + 0.005
    assert path[-1, 1] - path[0, 1] == pytest.approx(0.05 + config.behind, abs=0.008)
    assert np.ptp(path[:, 0]) < 1e-6
    still = replace(hand, contact=np.where(np.arange(5) < 3, hand.contact, 0.0) * (hand.t >= 1.2)[:, None])
    alone = contact_phases(still.t, still.contact > 0.5, pose[:, :3], moves=0.012)
    assert [p.kind for p in alone] == ["hold"]  # what moves untouched is not pushed


def _surface(pose: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """One point on each face of the cube."""
    return np.concatenate([pose[0, :3] + HALF * normals, normals], axis=1)


def test_pads_close_flat_on_a_face_that_is_near_and_as_the_hand_did_elsewhere():
    hand, pose = clip()
    faces = np.concatenate([np.eye(3), -np.eye(3)])
    turned = quat_rotate(np.broadcast_to(quat_from_yaw(np.array([0.2])), (6, 4)), faces)
    flat = retarget_to_gripper(hand, pose, HOME, GripperConfig(), surface=_surface(pose, turned))
    axis = matrix_from_quat(flat.tool[holding(flat)[0], 3:])[:, 1]
    assert np.abs(axis @ turned.T).max() == pytest.approx(1.0, abs=1e-6)
    assert np.allclose(flat.opening[holding(flat)], 2 * HALF)
    corner = quat_rotate(np.broadcast_to(quat_from_yaw(np.array([np.pi / 4])), (6, 4)), faces)
    free = retarget_to_gripper(hand, pose, HOME, GripperConfig(), surface=_surface(pose, corner))
    plain = retarget_to_gripper(hand, pose, HOME, GripperConfig())
    assert np.allclose(free.tool, plain.tool)


def test_the_force_follows_the_thumb():
    hand, pose = clip()
    config = GripperConfig(force_gain=2.0, least_force=1.0)
    made = retarget_to_gripper(hand, pose, HOME, config)
    assert np.allclose(made.force[holding(made)], 8.0)
    weak = replace(hand, force=0.1 * hand.force)
    assert np.allclose(retarget_to_gripper(weak, pose, HOME, config).force[holding(made)], 1.0)


def test_nothing_held_is_nothing_done():
    hand, pose = clip()
    made = retarget_to_gripper(replace(hand, contact=np.zeros((50, 5))), pose, HOME, GripperConfig())
    assert np.array_equal(made.tool, np.tile(HOME, (50, 1)))
    assert not made.force.any()


def test_sampling_interpolates_and_holds_the_ends():
    hand, pose = clip()
    made = retarget_to_gripper(hand, pose, HOME, GripperConfig())
    again = made.at(made.t)
    assert np.allclose(again.tool[:, :3], made.tool[:, :3])
    beyond = made.at(np.array([made.t[-1] + 1.0]))
    assert np.allclose(beyond.tool[0], made.tool[-1])


@pytest.mark.parametrize("force", [3.0, 8.0])
def test_a_gripper_told_a_width_and_a_force_presses_with_it(force):
    grip = grip_map("parallel")
    task = make_task("peg")  # starts between the pads
    worlds = TaskWorlds(task, 1, threads=1)
    rng = np.random.default_rng(0)
    worlds.reset(np.arange(1), task.sample(rng, 1), [task.family.as_dict(task.family.medians())])
    number = grip.numbers(np.array([2 * task.config.half_width])) - grip.give * force
    for _ in range(25):
        worlds.step(np.concatenate([np.zeros((1, 6)), number[None]], axis=1))
    assert worlds.state()[0].touch.mean() == pytest.approx(force, rel=0.1)
    assert grip.numbers(np.array([0.0, grip.widest])).tolist() == [-1.0, 1.0]


def test_other_end_effectors_have_no_such_map():
    with pytest.raises(BadInput, match="human_hand"):
        grip_map("human_hand")
    with pytest.raises(UnknownName, match="parallel"):
        grip_map("parallax")
