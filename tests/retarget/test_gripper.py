"""The gripper's version of a hand's clip: contact as the hand had it, free motion that an arm can follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.geometry.rotations import (
    matrix_from_quat,
    quat_from_axis_angle,
    quat_from_yaw,
    quat_multiply,
    quat_rotate,
    yaw_of,
)
from dexprior.geometry.transforms import interpolate_poses
from dexprior.hands.skeleton import FINGER_RADIUS
from dexprior.retarget.gripper import GripperConfig, ToolTrajectory, retarget_to_gripper
from dexprior.retarget.grips import Follower, grip_map
from dexprior.retarget.phases import contact_phases
from dexprior.types import HandTrajectory, ObjectTrajectory

HOME = np.array([0.5, 0.0, 0.25, 0.0, 1.0, 0.0, 0.0])
ROBOT = Follower(start=HOME, grip=grip_map("parallel"), turns=(-np.pi, np.pi))
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


def retargeted(hand, pose, robot, config, *, surface=None, points=None) -> ToolTrajectory:
    """Of a thing with a pose; without one, of what deforms."""
    n = len(hand.t)
    thing = ObjectTrajectory(
        object="thing", t=hand.t, points=np.zeros((n, 1, 3)) if points is None else points,
        valid=np.ones(n, dtype=bool), pose=pose,
    )  # fmt: skip
    return retarget_to_gripper(hand, thing, robot, config, surface=surface)


def speeds(made: ToolTrajectory) -> np.ndarray:
    return np.linalg.norm(np.diff(made.tool[:, :3], axis=0), axis=1) / np.diff(made.t)


def holding(made: ToolTrajectory) -> np.ndarray:
    return np.flatnonzero(made.force > 0)


def test_the_hold_lasts_as_long_as_the_hand_s_and_carries_the_object_rigidly():
    hand, pose = clip()
    made = retargeted(hand, pose, ROBOT, GripperConfig())
    rows = holding(made)
    phase = contact_phases(hand.t, hand.contact > 0.5, pose, moves=0.012, turns=0.3)[-1]
    assert made.t[rows[-1]] - made.t[rows[0]] == pytest.approx(hand.t[phase.stop - 1] - hand.t[phase.start])
    late = made.t[rows[0]] - hand.t[phase.start]
    carried = interpolate_poses(made.t[rows[1:]] - late, hand.t, pose)
    back = made.tool[rows[1:], 3:] * [1.0, -1.0, -1.0, -1.0]
    inside = quat_rotate(back, carried[:, :3] - made.tool[rows[1:], :3])
    assert np.ptp(inside, axis=0).max() < 1e-9


def test_it_starts_where_the_arm_is_and_comes_down_from_above():
    hand, pose = clip()
    made = retargeted(hand, pose, ROBOT, GripperConfig())
    assert made.t[0] == 0.0
    assert np.array_equal(made.tool[0], HOME)
    assert (np.diff(made.t) > 0).all()
    first = holding(made)[0]
    grasp = made.tool[first, :3]
    low = np.flatnonzero(made.tool[: first - 1, 2] < grasp[2] + 0.04)
    assert np.linalg.norm(made.tool[low, :2] - grasp[:2], axis=1).max() < 1e-6
    assert (made.opening[low] >= 2 * HALF + 0.02).all()
    assert made.opening[-1] == ROBOT.grip.widest
    assert made.tool[-1, 2] == pytest.approx(made.tool[holding(made)[-1], 2] + GripperConfig().clearance)


SLOW = 0.05  # [m/s] below 12 cm


def near_the_table(position, velocity) -> float:
    speed = float(np.linalg.norm(velocity))
    return speed if position[2] > 0.12 else min(speed, SLOW)


@pytest.mark.parametrize("push", [False, True])
def test_what_may_not_be_passed_faster_is_passed_later(push):
    hand, pose = clip(push=push)
    free, slowed = (
        retargeted(hand, pose, replace(ROBOT, fastest=fastest), GripperConfig()) for fastest in (None, near_the_table)
    )
    low = slowed.tool[:-1, 2] <= 0.12
    assert speeds(slowed)[low].max() <= SLOW * (1 + 1e-9)
    assert speeds(free)[free.tool[:-1, 2] <= 0.12].max() > 3 * SLOW
    (begin, end), (start, stop) = free.held, slowed.held
    assert stop - start > end - begin
    # held at the same places, one after the other
    ours, theirs = slowed.tool[holding(slowed)], free.tool[holding(free)]
    assert np.array_equal(ours, theirs)


def test_a_limit_that_is_never_met_changes_nothing():
    hand, pose = clip(push=True)
    free = retargeted(hand, pose, ROBOT, GripperConfig())
    limited = retargeted(
        hand, pose, replace(ROBOT, fastest=lambda place, velocity: float(np.linalg.norm(velocity))), GripperConfig()
    )
    assert np.allclose(free.t, limited.t, atol=1e-12)
    assert np.allclose(free.tool, limited.tool, atol=1e-12)


def test_a_hold_can_take_longer_and_what_follows_comes_later():
    hand, pose = clip()
    made = retargeted(hand, pose, ROBOT, GripperConfig())
    start, stop = made.held
    longer = made.holding_for(stop - start + 1.0)
    assert longer.held == pytest.approx((start, stop + 1.0))
    assert np.array_equal(longer.tool, made.tool)
    rows = holding(made)
    assert longer.t[: rows[0] + 1] == pytest.approx(made.t[: rows[0] + 1])
    assert longer.t[rows[-1] :] == pytest.approx(made.t[rows[-1] :] + 1.0)
    share = (made.t[rows] - start) / (stop - start)
    assert longer.t[rows] == pytest.approx(start + share * (stop - start + 1.0))
    idle = replace(made, force=np.zeros_like(made.force))
    assert idle.held is None
    assert idle.holding_for(3.0) == idle


def test_what_is_carried_is_lifted_higher_and_set_down_where_the_hand_did():
    hand, pose = clip()
    made, higher = (retargeted(hand, pose, ROBOT, GripperConfig(lift=by)) for by in (0.0, 0.01))
    rows = holding(made)
    raised = higher.tool[rows, 2] - made.tool[rows, 2]
    assert np.array_equal(higher.t[rows], made.t[rows])
    assert raised[[0, -1]] == pytest.approx([0.0, 0.0])
    assert raised.min() >= 0.0
    assert raised.max() == pytest.approx(0.01)
    assert raised[made.tool[rows, 2].argmax()] == pytest.approx(0.01)
    assert np.allclose(higher.tool[rows][:, [0, 1, 3, 4, 5, 6]], made.tool[rows][:, [0, 1, 3, 4, 5, 6]])
    level = pose.copy()
    level[:, 2] = level[0, 2]
    low, same = (retargeted(hand, level, ROBOT, GripperConfig(lift=by)) for by in (0.0, 0.01))
    assert np.array_equal(low.tool, same.tool)  # what is not lifted at all stays so


@pytest.mark.parametrize("push", [False, True])
def test_free_motion_is_no_faster_than_the_arm(push):
    hand, pose = clip(push=push)
    config = GripperConfig(max_speed=0.3)
    made = retargeted(hand, pose, ROBOT, config)
    free = made.force[1:] == 0
    # a minimum-jerk motion is at most 1.875 times as fast as its mean
    assert speeds(made)[free].max() < 1.9 * config.max_speed
    slow = retargeted(hand, pose, ROBOT, replace(config, max_speed=0.1))
    assert slow.t[holding(slow)[0]] > made.t[holding(made)[0]] + 0.5


def test_the_answer_moves_with_the_scene():
    one = retargeted(*clip(), ROBOT, GripperConfig())
    yaw, shift = 0.3, (0.04, -0.02)
    turn = quat_from_yaw(np.array([yaw]))[0]
    aside = np.array([*shift, 0.0])
    moved = np.concatenate([quat_rotate(turn, HOME[:3]) + aside, quat_multiply(turn, HOME[3:])])
    other = retargeted(*clip(yaw=yaw, shift=shift), replace(ROBOT, start=moved), GripperConfig())
    assert np.allclose(one.t, other.t)
    wanted = quat_rotate(np.broadcast_to(turn, (len(one.t), 4)), one.tool[:, :3]) + aside
    assert np.allclose(other.tool[:, :3], wanted, atol=1e-9)
    assert np.allclose(one.opening, other.opening)
    assert np.allclose(one.force, other.force)


def test_a_grasp_is_the_half_turn_and_the_time_that_were_asked_for():
    hand, pose = clip()
    made, one, other = (
        retargeted(hand, pose, replace(ROBOT, grasp_turn=turn), GripperConfig()) for turn in (0.0, 1.6, -1.6)
    )
    yaws = [float(yaw_of(m.tool[holding(m)[0], 3:])) for m in (made, one, other)]
    assert np.cos(2 * (yaws[1] - yaws[0])) == pytest.approx(1.0)
    assert abs(yaws[1] - yaws[2]) == pytest.approx(np.pi)
    assert np.cos(yaws[1] - 1.6) >= 0.0
    late = retargeted(hand, pose, replace(ROBOT, not_before=2.5), GripperConfig())
    assert made.t[holding(made)[0]] < 2.0
    assert late.t[holding(late)[0]] == pytest.approx(2.5)
    lasts = [one.t[holding(one)[-1]] - one.t[holding(one)[0]] for one in (made, late)]
    assert lasts[0] == pytest.approx(lasts[1])  # contact keeps the hand's time
    assert np.allclose(late.tool[holding(late)[0]], made.tool[holding(made)[0]])


def test_pads_let_go_before_they_open_and_open_before_they_rise():
    hand, pose = clip()
    made = retargeted(hand, pose, ROBOT, GripperConfig())
    after = np.arange(holding(made)[-1] + 1, len(made.t))
    opening, height = made.opening[after], made.tool[after, 2]
    assert opening[0] == made.opening[holding(made)[0]]
    assert opening[1] == min(opening[0] + GripperConfig().release, ROBOT.grip.widest)
    assert made.t[after[1]] - made.t[after[0]] >= 0.15
    assert np.allclose(height[:2], height[0])
    assert height[-1] > height[0] + 0.05


def test_a_push_is_done_closed_from_behind_along_the_object_s_way():
    hand, pose = clip(push=True)
    kinds = [p.kind for p in contact_phases(hand.t, hand.contact > 0.5, pose, moves=0.012, turns=0.3)]
    assert kinds == ["push", "hold"]
    config = GripperConfig()
    made = retargeted(hand, pose, ROBOT, config)
    before = made.t < made.t[holding(made)[0]] - config.descent
    closed = np.flatnonzero(before & (made.opening == 0.0) & (made.tool[:, 2] < HALF + 0.01))
    path = made.tool[closed, :3]
    assert path[0, 1] < pose[0, 1] - HALF - config.behind + 0.005
    assert path[-1, 1] - path[0, 1] == pytest.approx(0.05 + config.behind, abs=0.008)
    assert np.ptp(path[:, 0]) < 1e-6
    still = replace(hand, contact=np.where(np.arange(5) < 3, hand.contact, 0.0) * (hand.t >= 1.2)[:, None])
    alone = contact_phases(still.t, still.contact > 0.5, pose, moves=0.012, turns=0.3)
    assert [p.kind for p in alone] == ["hold"]  # what moves untouched is not pushed


def _surface(pose: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """One point on each face of the cube."""
    return np.concatenate([pose[0, :3] + HALF * normals, normals], axis=1)


def test_pads_close_flat_on_a_face_that_is_near_and_as_the_hand_did_elsewhere():
    hand, pose = clip()
    faces = np.concatenate([np.eye(3), -np.eye(3)])
    turned = quat_rotate(np.broadcast_to(quat_from_yaw(np.array([0.2])), (6, 4)), faces)
    flat = retargeted(hand, pose, ROBOT, GripperConfig(), surface=_surface(pose, turned))
    axis = matrix_from_quat(flat.tool[holding(flat)[0], 3:])[:, 1]
    assert np.abs(axis @ turned.T).max() == pytest.approx(1.0, abs=1e-6)
    assert np.allclose(flat.opening[holding(flat)], 2 * HALF)
    corner = quat_rotate(np.broadcast_to(quat_from_yaw(np.array([np.pi / 4])), (6, 4)), faces)
    free = retargeted(hand, pose, ROBOT, GripperConfig(), surface=_surface(pose, corner))
    plain = retargeted(hand, pose, ROBOT, GripperConfig())
    assert np.allclose(free.tool, plain.tool)


def test_the_force_follows_the_thumb():
    hand, pose = clip()
    config = GripperConfig(force_gain=2.0, least_force=1.0)
    made = retargeted(hand, pose, ROBOT, config)
    assert np.allclose(made.force[holding(made)], 8.0)
    weak = replace(hand, force=0.1 * hand.force)
    assert np.allclose(retargeted(weak, pose, ROBOT, config).force[holding(made)], 1.0)


def test_more_fingertips_share_what_two_pads_press_with():
    hand, pose = clip()
    config = GripperConfig(force_gain=1.5, least_force=0.1)
    three = replace(ROBOT, grip=replace(ROBOT.grip, tips=3))
    total = [
        made.force[holding(made)] * robot.grip.tips
        for robot in (ROBOT, three)
        for made in [retargeted(hand, pose, robot, config)]
    ]
    assert np.allclose(*total)
    assert (grip_map("parallel").tips, grip_map("three_finger").tips, grip_map("tendon_hand").tips) == (2, 3, 5)


def test_a_human_holds_with_thumb_and_an_opposing_finger():
    touching = np.zeros((30, 5), dtype=bool)
    touching[2:, 0] = True  # thumb alone holds nothing
    touching[10:20, 2] = True
    pose = np.tile([0.0, 0.0, 0.0, *UP], (30, 1))
    (hold,) = contact_phases(np.arange(30) / 12.5, touching, pose, moves=0.01, turns=0.3)
    assert (hold.kind, hold.start, hold.stop) == ("hold", 10, 20)
    alone = touching * [True, False, False, False, False]
    assert contact_phases(np.arange(30) / 12.5, alone, pose, moves=0.01, turns=0.3) == ()


def test_nothing_held_is_nothing_done():
    hand, pose = clip()
    made = retargeted(replace(hand, contact=np.zeros((50, 5))), pose, ROBOT, GripperConfig())
    assert np.array_equal(made.tool, np.tile(HOME, (50, 1)))
    assert not made.force.any()


def test_sampling_interpolates_and_holds_the_ends():
    hand, pose = clip()
    made = retargeted(hand, pose, ROBOT, GripperConfig())
    again = made.at(made.t)
    assert np.allclose(again.tool[:, :3], made.tool[:, :3])
    beyond = made.at(np.array([made.t[-1] + 1.0]))
    assert np.allclose(beyond.tool[0], made.tool[-1])


def turning(*, turns: tuple[float, float], between: float = 0.0):
    """Two holds of one thing that is turned about the vertical in each [rad], and shifted in between [m]."""
    t = DT * np.arange(60)
    held = ((t >= 0.8) & (t < 1.6)) | ((t >= 2.4) & (t < 3.8))
    yaw = np.interp(t, [0.9, 1.5], [0.0, turns[0]]) + np.interp(t, [2.5, 3.7], [0.0, turns[1]])
    place = np.column_stack([0.45 + np.interp(t, [1.7, 2.3], [0.0, between]), np.zeros(60), np.full(60, HALF)])
    pose = np.concatenate([place, quat_from_yaw(yaw)], axis=1)
    # the hand goes back for the second one
    angle = np.where(t < 2.0, yaw, yaw - turns[0])
    joints = np.zeros((60, 21, 3))
    gap = np.where(held, HALF + FINGER_RADIUS, HALF + 0.03)[:, None]
    across = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(60)])
    for finger, side in enumerate((-1.0, 1.0, 1.0, 0.0, 0.0)):
        joints[:, 4 + 4 * finger] = place + side * gap * across
    contact = np.zeros((60, 5))
    contact[held, :3] = 1.0
    hand = HandTrajectory(
        t=t, side="right", wrist_pose=np.tile([0, 0, 0.2, *UP], (60, 1)), finger_pose=np.zeros((60, 45)),
        betas=np.zeros(10), joints=joints, contact=contact, force=4.0 * contact, valid=np.ones(60, dtype=bool),
        sigma=np.zeros((60, 21)), scale_known=True,
    )  # fmt: skip
    return hand, pose


def holds_of(hand: HandTrajectory, pose: np.ndarray | None) -> int:
    return len(contact_phases(hand.t, hand.contact > 0.5, pose, moves=0.012, turns=0.3))


def test_a_hold_beside_the_longest_counts_where_it_turns_what_then_rests():
    assert holds_of(*turning(turns=(-1.2, -1.0))) == 2
    assert holds_of(*turning(turns=(-0.2, -1.0))) == 1
    assert holds_of(*turning(turns=(-1.2, -1.0), between=0.1)) == 1  # it was carried on: only the touch was lost
    assert holds_of(turning(turns=(-1.2, -1.0))[0], None) == 1


def test_between_two_turns_the_gripper_opens_draws_back_and_takes_the_thing_anew():
    hand, pose = turning(turns=(-1.2, -1.0))
    made = retargeted(hand, pose, ROBOT, GripperConfig())
    rows = holding(made)
    first, second = np.split(rows, [int(np.diff(rows).argmax()) + 1])
    between = slice(first[-1] + 1, second[0])
    assert made.opening[between].max() == ROBOT.grip.widest
    assert made.tool[between, 2].max() >= HALF + GripperConfig().clearance - 1e-9
    for part, turn in ((first, -1.2), (second, -1.0)):
        axis = matrix_from_quat(made.tool[part, 3:])[:, :2, 1]
        angle = np.unwrap(np.arctan2(axis[:, 1], axis[:, 0]))
        assert angle[-1] - angle[0] == pytest.approx(turn, abs=0.05)


@pytest.mark.parametrize("turn", [-2.0, 2.0])
def test_of_two_half_turns_that_one_is_taken_from_which_the_wrist_can_go_on(turn):
    hand, pose = turning(turns=(0.0, turn))
    robot = replace(ROBOT, turns=(-2.2, 2.2))
    made = retargeted(hand, pose, robot, GripperConfig())
    axis = matrix_from_quat(made.tool[holding(made), 3:])[:, :2, 1]
    home = matrix_from_quat(HOME[3:])[:2, 1]
    angle = np.unwrap(np.arctan2(axis[:, 1], axis[:, 0])) - np.arctan2(home[1], home[0])
    angle -= 2 * np.pi * np.round(angle[0] / (2 * np.pi))
    assert np.abs(angle).max() < 2.2


def test_pads_do_not_meet_the_walls_of_a_hole():
    hand, pose = clip()
    faces = np.concatenate([np.eye(3), -np.eye(3)])
    hole = np.concatenate([pose[0, :3] + 0.4 * HALF * faces, -faces], axis=1)
    made = retargeted(hand, pose, ROBOT, GripperConfig(), surface=np.concatenate([_surface(pose, faces), hole]))
    assert np.allclose(made.opening[holding(made)], 2 * HALF)


def pinching(*, steep: bool, kept: bool = False):
    """A hand that pinches along x, or from above and below, and turns over about the fingers' other axis."""
    n = 40
    t = DT * np.arange(n)
    held = (t >= 0.8) & (t < (99.0 if kept else 2.4))
    turn = np.interp(t, [1.1, 2.3], [0.0, 2.0])
    wrist = quat_from_axis_angle(np.outer(turn, [0.0, -1.0, 0.0] if steep else [0.0, 0.0, 1.0]))
    across = np.array([0.0, 0.0, 1.0] if steep else [1.0, 0.0, 0.0])
    middle = np.array([0.4, 0.0, 0.15])
    gap = np.where(held, 0.003 + FINGER_RADIUS, 0.03)[:, None]
    joints = np.zeros((n, 21, 3))
    for finger, side in enumerate((-1.0, 1.0, 1.0, 0.0, 0.0)):
        joints[:, 4 + 4 * finger] = middle + gap * quat_rotate(wrist, np.tile(side * across, (n, 1)))
    from_wrist = quat_rotate(wrist, np.tile([0.1, 0.0, 0.02] if steep else [0.02, 0.0, 0.1], (n, 1)))
    contact = np.zeros((n, 5))
    contact[held, :3] = 1.0
    return HandTrajectory(
        t=t, side="right", wrist_pose=np.concatenate([middle + from_wrist, wrist], axis=1),
        finger_pose=np.zeros((n, 45)), betas=np.zeros(10), joints=joints, contact=contact, force=4.0 * contact,
        valid=np.ones(n, dtype=bool), sigma=np.zeros((n, 21)), scale_known=True,
    )  # fmt: skip


def test_what_deforms_is_carried_with_the_fingers_that_hold_it():
    hand = pinching(steep=False)
    made = retargeted(hand, None, ROBOT, GripperConfig())
    rows = holding(made)
    assert np.allclose(made.tool[rows, :3], [0.4, 0.0, 0.15])
    tool = matrix_from_quat(made.tool[rows, 3:])
    assert np.allclose(tool[:, :, 2], [0.0, 0.0, -1.0])
    assert tool[-1, 0, 1] * tool[0, 0, 1] + tool[-1, 1, 1] * tool[0, 1, 1] == pytest.approx(np.cos(2.0), abs=0.05)
    assert made.opening[rows[0]] == pytest.approx(0.006)


def sheet(turn: np.ndarray) -> np.ndarray:
    """Points of a sheet at the fingers of `pinching`, most of it far from them; what is near turns over about y."""
    near = np.array([[x, y, 0.0] for x in (0.0, -0.02) for y in (-0.02, 0.0, 0.02)])
    far = near + np.array([-0.3, 0.0, 0.0])
    over = quat_from_axis_angle(np.outer(turn, [0.0, -1.0, 0.0]))
    turned = quat_rotate(np.repeat(over[:, None], len(near), axis=1), np.tile(near, (len(turn), 1, 1)))
    return np.concatenate([turned, np.tile(far, (len(turn), 1, 1))], axis=1) + np.array([0.4, 0.0, 0.15])


def test_a_hem_that_is_pinched_from_above_and_below_is_taken_along_the_hand_and_turned_over_with_the_matter():
    hand, config = pinching(steep=True), GripperConfig(release=0.012)
    over = np.interp(hand.t, [1.1, 2.3], [0.0, np.pi])
    made = retargeted(hand, None, ROBOT, config, points=sheet(over))
    rows = holding(made)
    tool = matrix_from_quat(made.tool[rows, 3:])
    inwards = np.array([-1.0, 0.0, 0.0])
    assert np.allclose(tool[0, :, 2], inwards)
    assert np.allclose(np.abs(tool[0, :, 1]), [0.0, 0.0, 1.0])
    assert np.allclose(tool[-1, :, 2], -inwards, atol=1e-6)
    middle = tool[len(tool) // 2, :, 2]
    assert middle[2] < -0.9  # over the top of the fold it points down
    reach = made.tool[rows, :3] + (ROBOT.grip.depth - FINGER_RADIUS) * tool[:, :, 2]
    assert np.allclose(reach, [0.4, 0.0, 0.15])
    come = made.tool[: rows[0], :3]
    low = come[np.abs(come[:, 2] - 0.15) < 1e-9]
    assert low[:, 0].max() == pytest.approx(made.tool[rows[0], 0] + config.clearance)  # in front of the hem first
    assert made.opening[rows[-1] + 1 :].max() == pytest.approx(0.018)
    away = made.tool[-1, :3] - made.tool[rows[-1], :3]
    assert np.allclose(away, config.clearance * inwards, atol=1e-6)


def test_what_the_hand_holds_to_the_end_is_held_on():
    kept, let_go = (
        retargeted(pinching(steep=False, kept=kept), None, ROBOT, GripperConfig()) for kept in (True, False)
    )
    assert kept.force[-1] > 0.0
    assert let_go.force[-1] == 0.0
    assert let_go.opening[-1] == ROBOT.grip.widest


def test_fingertips_stay_above_the_floor_whichever_way_the_tool_points():
    hand, pose = clip()
    config = GripperConfig(floor=0.02)
    made = retargeted(hand, pose, ROBOT, config)
    assert made.tool[:, 2].min() == pytest.approx(0.02 + ROBOT.grip.depth)
    deep = replace(ROBOT, grip=replace(ROBOT.grip, depth=0.03))
    assert retargeted(hand, pose, deep, config).tool[:, 2].min() == pytest.approx(0.05)
