"""Retargeting to a robot hand: it commutes with moving the world and pinches when the human does."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import numpy as np
import pytest

from dexprior import extras
from dexprior.data.objects import rigid_object
from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_from_axis_angle
from dexprior.geometry.timing import minimum_jerk
from dexprior.geometry.transforms import IDENTITY_POSE, pose_multiply, transform_points
from dexprior.hands import skeleton
from dexprior.pose.landmark_streams import read_landmarks
from dexprior.pose.landmarks import hand_from_landmarks
from dexprior.retarget.hand_kinematic import HandRetargetConfig, HandRetargeter, retarget_hand
from dexprior.robots import catalog
from dexprior.robots.hand_kinematics import HandKinematics
from dexprior.types import FINGERS, HandTrajectory

ROOT = os.environ.get("DEXPRIOR_DATA")
T = 40
HOLD = 25  # frame from which the pinch is closed


def _trajectory(wrist_pose, joints, finger_pose=None, contact=None):
    n = len(joints)
    return HandTrajectory(
        t=np.arange(n) / 30,
        side="right",
        wrist_pose=wrist_pose,
        finger_pose=np.zeros((n, 45)) if finger_pose is None else finger_pose,
        betas=np.zeros(10),
        joints=joints,
        contact=np.zeros((n, 5)) if contact is None else contact,
        force=np.zeros((n, 5)),
        valid=np.ones(n, bool),
        sigma=np.zeros((n, 21)),
        scale_known=True,
    )


def _closing(size):
    """A hand that bends thumb and index from flat to each other, and stays there."""
    closing = size * minimum_jerk(np.arange(T) / HOLD)[:, None]
    pose = np.zeros((T, 15, 3))
    pose[:, 0, 2], pose[:, 1, 2], pose[:, 2, 2] = 0.70 * closing.T, 0.85 * closing.T, 0.45 * closing.T
    pose[:, 12] = closing * [0.75, 0.20, 0.25]
    pose[:, 13] = closing * [0.15, -0.25, 0.15]
    pose[:, 14] = closing * [0.10, -0.35, 0.20]
    wrist = np.tile(IDENTITY_POSE, (T, 1))
    return _trajectory(wrist, skeleton.forward(wrist, pose.reshape(T, 45)), pose.reshape(T, 45))


@pytest.fixture(scope="module")
def pinch():
    """A hand that closes to a precision grip, 28 mm between thumb and index."""
    return _closing(1.0)


@pytest.fixture(scope="module")
def touch():
    """A hand whose thumb and index touch: 18 mm between their landmarks."""
    return _closing(1.2)


@pytest.fixture(params=["builtin-hand", "shadow"], scope="module")
def robot(request):
    if request.param == "shadow" and not extras.available("gymnasium_robotics"):
        pytest.skip("needs gymnasium_robotics (the extra 'robots')")
    return catalog.end_effector(request.param)


def _touching(robot):
    """Distance of the sites of thumb and index when they touch."""
    return HandKinematics.of(robot).tip_radii[:2].sum()


def _gap(points, finger=1):
    return np.linalg.norm(points[:, finger] - points[:, 0], axis=-1)


def test_limits_hold_and_frames_are_feasible(pinch, robot):
    result = retarget_hand(pinch, robot)
    limits = np.array([robot.model.joint(j).range for j in robot.joints])
    assert (result.trajectory.q >= limits[:, 0]).all()
    assert (result.trajectory.q <= limits[:, 1]).all()
    assert result.trajectory.feasible.all()
    assert (result.trajectory.q[:, list(HandKinematics.of(robot).fixed)] == 0.0).all()


def test_a_pinch_closes_with_the_humans(pinch, robot):
    """No smoothing may delay contact: the gap stops closing in the same frame, give or take one."""
    human, result = _gap(pinch.joints[:, 4::4]), retarget_hand(pinch, robot)
    ours = _gap(result.tips)
    assert human[0] > 0.07
    assert ours[-1] < human[-1] + _touching(robot)

    def closed(gap):
        return int(np.argmax(gap < gap[-1] + 0.05 * (gap[0] - gap[-1])))

    assert abs(closed(ours) - closed(human)) <= 1


def test_it_commutes_with_moving_the_world(pinch, robot):
    rng = np.random.default_rng(2)
    move = np.concatenate([rng.normal(size=3), quat_from_axis_angle(rng.normal(size=3))])
    moved = _trajectory(
        pose_multiply(move, pinch.wrist_pose),
        transform_points(move, pinch.joints.reshape(-1, 3)).reshape(pinch.joints.shape),
    )
    a, b = retarget_hand(pinch, robot), retarget_hand(moved, robot)
    np.testing.assert_allclose(b.trajectory.q, a.trajectory.q, atol=1e-4)
    expected = transform_points(move, a.tips.reshape(-1, 3)).reshape(a.tips.shape)
    np.testing.assert_allclose(b.tips, expected, atol=1e-4)


def test_a_bigger_human_makes_the_same_motion(pinch, robot):
    """Hand sizes cancel, but not the distance at which fingers touch: so an open hand, not the pinch."""
    open_part = slice(0, 8)
    small = _trajectory(pinch.wrist_pose[open_part], pinch.joints[open_part])
    large = _trajectory(pinch.wrist_pose[open_part], 1.15 * pinch.joints[open_part])
    a, b = retarget_hand(small, robot), retarget_hand(large, robot)
    assert np.abs(a.trajectory.q - b.trajectory.q).max() < 0.05


def test_an_object_passes_through_and_keeps_its_width(pinch, robot):
    """Fingers that hold an object keep its width, whatever the robot's size; the wrist makes up for it."""
    n = 12
    wrist = np.tile(IDENTITY_POSE, (n, 1))
    joints = np.repeat(pinch.joints[18:19], n, axis=0)
    contact = np.zeros((n, 5))
    contact[:, :2] = 1.0
    hand = _trajectory(wrist, joints, contact=contact)
    thing = rigid_object("box", hand.t, wrist)
    config = HandRetargetConfig()
    result = retarget_hand(hand, robot, config=config, object=thing)
    assert result.object is thing
    width = _gap(joints[:, 4::4])[0] - config.touch_distance - config.press
    assert width > 0.01
    np.testing.assert_allclose(_gap(result.tips) - _touching(robot), width, atol=2e-3)
    touching = result.tips[:, :2].mean(axis=(0, 1)) - joints[:, [4, 8]].mean(axis=(0, 1))
    assert np.linalg.norm(touching) < 1e-6
    other = dataclasses.replace(thing, t=thing.t + 0.1)
    with pytest.raises(BadInput, match="times differ"):
        retarget_hand(hand, robot, object=other)


def _astray(hand, result, fingers):
    """Angles between the directions from wrist to fingertip, human and robot."""
    human = hand.joints[:, 4::4][:, [FINGERS.index(f) for f in fingers]] - hand.joints[:, :1]
    robot = result.tips - result.trajectory.ee_pose[:, None, :3]
    cosine = (human * robot).sum(-1) / (np.linalg.norm(human, axis=-1) * np.linalg.norm(robot, axis=-1))
    return np.arccos(np.clip(cosine, -1, 1))


def test_fingertips_are_where_the_humans_are_seen_from_the_wrist(touch, robot):
    angle = _astray(touch, retarget_hand(touch, robot), robot.fingers.names)
    assert np.degrees(angle.mean()) < 2


@pytest.mark.parametrize("apart", [-0.006, 0.0, 0.004])
def test_tips_touch_wherever_a_source_puts_its_landmarks(touch, robot, apart):
    """One headset's fingertips lie deeper in the fingers than another's: a pinch is a pinch, and nothing sinks in."""
    joints = touch.joints.copy()
    towards = joints[:, 8] - joints[:, 4]
    joints[:, 8] += apart * towards / np.linalg.norm(towards, axis=1, keepdims=True)
    hand = dataclasses.replace(touch, joints=joints)
    assert abs(_gap(joints[:, 4::4])[-1] - 0.0184 - apart) < 1e-4
    overlap = _touching(robot) - _gap(retarget_hand(hand, robot).tips)
    assert np.abs(overlap[HOLD:] - HandRetargetConfig().press).max() < 0.0015
    assert overlap.max() < 0.002


def test_a_near_miss_is_no_touch(touch, robot):
    """A finger that comes near and leaves does not make touching of its distance; then it touches, and only then."""
    near = touch.joints.copy()
    towards = near[:, 8] - near[:, 4]
    near[:, 8] += 0.005 * towards / np.linalg.norm(towards, axis=1, keepdims=True)
    both = np.concatenate([near, near[::-1], touch.joints, touch.joints[::-1]])
    hand = _trajectory(np.tile(IDENTITY_POSE, (4 * T, 1)), both)
    gap = _gap(retarget_hand(hand, robot).tips) - _touching(robot)
    assert gap[HOLD : 2 * T - HOLD].min() > 0.003
    assert np.abs(gap[2 * T + HOLD : 4 * T - HOLD]).max() < 0.0025


def test_more_steps_change_nothing(touch, robot):
    """The solution has converged long before the last step that is allowed."""
    few, many = (retarget_hand(touch, robot, config=HandRetargetConfig(iterations=n)) for n in (10, 200))
    assert np.linalg.norm(few.tips - many.tips, axis=-1).max() < 0.001


def _followed(hand, robot):
    follower = HandRetargeter(robot)
    assert follower.joints == robot.joints
    return np.array([follower.step(*frame) for frame in zip(hand.joints, hand.wrist_pose)])


def _tips(robot, q):
    return HandKinematics.of(robot).forward(q)[0][:, : len(robot.fingers.names)]


def test_frame_by_frame_is_the_clips_solution(touch, robot):
    """Once a pinch has shown where fingertips touch, what comes frame by frame is what the whole clip gives."""
    n = 3 * T
    hand = _trajectory(np.tile(IDENTITY_POSE, (n, 1)), np.concatenate([touch.joints, touch.joints[::-1], touch.joints]))
    q = _followed(hand, robot)
    limits = np.array([robot.model.joint(j).range for j in robot.joints])
    assert ((q >= limits[:, 0]) & (q <= limits[:, 1])).all()
    ours, whole = _tips(robot, q), _tips(robot, retarget_hand(hand, robot).trajectory.q)
    assert np.linalg.norm(ours - whole, axis=-1)[2 * T :].max() < 0.004

    def closed(tips):
        return int(np.argmax(_gap(tips)[2 * T :] < _touching(robot) + 0.003))

    assert abs(closed(ours) - closed(whole)) <= 1, "contact is not delayed"


def test_frame_by_frame_is_the_same_bit_for_bit(touch, robot):
    np.testing.assert_array_equal(_followed(touch, robot), _followed(touch, robot))


def test_frame_by_frame_commutes_with_moving_the_world(touch, robot):
    move = np.array([0.3, -1.0, 2.0, *quat_from_axis_angle(np.array([0.4, -1.1, 0.2]))])
    moved = dataclasses.replace(
        touch,
        wrist_pose=pose_multiply(move, touch.wrist_pose),
        joints=transform_points(move, touch.joints.reshape(-1, 3)).reshape(touch.joints.shape),
    )
    np.testing.assert_allclose(_followed(moved, robot), _followed(touch, robot), atol=1e-4)


def test_a_lost_frame_repeats_the_last(touch, robot):
    follower = HandRetargeter(robot)
    first = follower.step(touch.joints[0], touch.wrist_pose[0])
    np.testing.assert_array_equal(follower.step(np.full((21, 3), np.nan), touch.wrist_pose[0]), first)
    with pytest.raises(BadInput, match=r"joints \(25, 3\), wrist_pose \(7,\), contact \(5,\): expected \(21, 3\)"):
        follower.step(np.zeros((25, 3)), touch.wrist_pose[0])
    with pytest.raises(BadInput, match="is a right hand, the human's is left"):
        HandRetargeter(robot, side="left")


def test_a_frame_takes_little_time(touch, robot):
    follower, spent = HandRetargeter(robot), []
    for frame in zip(touch.joints, touch.wrist_pose):
        start = time.process_time()
        follower.step(*frame)
        spent.append(time.process_time() - start)
    assert np.median(spent) < 0.006


@pytest.mark.parametrize("n", [1, 2, 3])
def test_short_clips(pinch, robot, n):
    short = _trajectory(pinch.wrist_pose[:n], pinch.joints[:n])
    assert retarget_hand(short, robot).trajectory.q.shape == (n, len(robot.joints))


def test_a_left_hand_is_refused(pinch):
    left = dataclasses.replace(pinch, side="left")
    with pytest.raises(BadInput, match="'builtin-hand' is a right hand, the human's is left"):
        retarget_hand(left, catalog.end_effector("builtin-hand"))


@pytest.mark.parametrize("name", ["parallel", "three_finger", "claw4"])
def test_what_has_no_persons_fingers_is_refused(pinch, name):
    with pytest.raises(BadInput, match=f"'{name}' has no fingers that follow .*; choices: tendon_hand, human_hand, "):
        retarget_hand(pinch, catalog.end_effector(name))


@pytest.mark.parametrize("name", ["tendon_hand", "human_hand"])
def test_hands_of_the_suite_close_with_the_humans(pinch, name):
    """Fewer joints than a person's, or as many: limits hold, and the pinch closes when hers does."""
    robot = catalog.end_effector(name)
    result = retarget_hand(pinch, robot)
    low, high = np.array([robot.model.joint(j).range for j in robot.joints]).T
    assert ((result.trajectory.q >= low) & (result.trajectory.q <= high)).all()
    ours = _gap(result.tips)
    assert ours[-1] < 0.5 * ours[0]
    if name == "human_hand":
        assert result.trajectory.feasible.all()
        assert result.tip_error.mean() < 0.006


@pytest.mark.skipif(not ROOT, reason="needs $DEXPRIOR_DATA (hand_clip)")
def test_the_real_clip(robot):
    """621 frames of an opening, closing and pinching hand: fast, feasible, pinching in the human's frame."""
    file = read_landmarks(Path(ROOT) / "hand_clip" / "human_joint_right.npz")
    n = len(file.joints)
    hand = hand_from_landmarks(file.joints, np.arange(n) / file.fps, file.side)
    start = time.process_time()
    result = retarget_hand(hand, robot)
    seconds = time.process_time() - start
    assert seconds / n < 0.010
    assert result.trajectory.feasible.mean() > 0.85
    human, ours = _gap(hand.joints[:, 4::4]), _gap(result.tips)
    touching = _touching(robot)  # landmarks of this clip are 22 mm apart when pads touch
    assert (human < 0.0222).sum() > 2
    assert np.abs(ours[human < 0.0222] - touching).max() < 0.0025, "touching stays touching"
    assert (ours[human > 0.026] > touching + 0.003).all(), "and apart stays apart"
    angle = _astray(hand, result, robot.fingers.names)
    assert np.degrees(angle.mean()) < 3
