"""Landmarks to hand: the inverse of forward kinematics, and equivariant."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat, quat_from_axis_angle, rotation_angle
from dexprior.geometry.transforms import pose_multiply, transform_points
from dexprior.hands import skeleton
from dexprior.pose.landmarks import CLIP_TO_WRIST, hand_from_landmarks, read_landmarks, wrist_pose_of

ROOT = os.environ.get("DEXPRIOR_DATA")
T = 12


def _pose(rng, n):
    return np.concatenate([rng.normal(size=(n, 3)), quat_from_axis_angle(rng.normal(size=(n, 3)))], axis=1)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def bent(rng):
    """A hand that flexes (positive about z), with some abduction and noise of every kind."""
    finger_pose = rng.normal(scale=0.15, size=(T, 15, 3))
    finger_pose[..., 2] += rng.uniform(0.0, 1.2, size=(T, 15))
    return _pose(rng, T), finger_pose.reshape(T, 45)


@pytest.mark.parametrize("betas", [np.zeros(10), np.array([1.5, -2.0] + [0.0] * 8)])
def test_forward_of_the_fit_is_the_landmarks(bent, betas):
    wrist, fingers = bent
    joints = skeleton.forward(wrist, fingers, betas)
    hand = hand_from_landmarks(joints, np.arange(T) / 30, "right")
    again = skeleton.forward(hand.wrist_pose, hand.finger_pose, hand.betas)
    assert np.linalg.norm(again - joints, axis=-1).max() < 1e-3
    np.testing.assert_allclose(hand.betas, betas, atol=1e-6)
    np.testing.assert_allclose(rotation_angle(hand.wrist_pose[:, 3:], wrist[:, 3:]), 0, atol=1e-6)


def test_pure_flexion_is_recovered(rng):
    flexion = np.zeros((T, 15, 3))
    flexion[..., :12, 2] = rng.uniform(0, 1.5, size=(T, 12))
    wrist = _pose(rng, T)
    hand = hand_from_landmarks(skeleton.forward(wrist, flexion.reshape(T, 45)), np.arange(T), "right")
    np.testing.assert_allclose(hand.finger_pose, flexion.reshape(T, 45), atol=1e-6)


def test_moving_the_landmarks_moves_the_wrist_and_nothing_else(bent, rng):
    joints = skeleton.forward(*bent)
    move = _pose(rng, 1)[0]
    a = hand_from_landmarks(joints, np.arange(T), "right")
    b = hand_from_landmarks(joints, np.arange(T), "right", base_pose=move)
    c = hand_from_landmarks(transform_points(move, joints), np.arange(T), "right")
    for moved in (b, c):
        np.testing.assert_allclose(moved.finger_pose, a.finger_pose, atol=1e-9)
        expected = pose_multiply(move, a.wrist_pose)
        np.testing.assert_allclose(moved.wrist_pose[:, :3], expected[:, :3], atol=1e-12)
        np.testing.assert_allclose(rotation_angle(moved.wrist_pose[:, 3:], expected[:, 3:]), 0, atol=1e-6)


def test_a_left_hand_is_the_mirror_image(bent):
    joints = skeleton.forward(*bent)
    mirror = np.array([-1.0, 1.0, 1.0])
    right = hand_from_landmarks(joints, np.arange(T), "right")
    left = hand_from_landmarks(joints * mirror, np.arange(T), "left")
    np.testing.assert_allclose(left.finger_pose.reshape(-1, 3), right.finger_pose.reshape(-1, 3) * [1, -1, -1])
    R = matrix_from_quat(right.wrist_pose[:, 3:])
    M = np.diag(mirror)
    np.testing.assert_allclose(matrix_from_quat(left.wrist_pose[:, 3:]), M @ R @ M, atol=1e-9)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_frame_alone_has_the_clips_wrist(bent, side):
    joints = skeleton.forward(*bent) * ([-1, 1, 1] if side == "left" else 1)
    hand = hand_from_landmarks(joints, np.arange(T) / 30, side)
    alone = np.array([wrist_pose_of(frame, side) for frame in joints])
    np.testing.assert_allclose(alone, hand.wrist_pose, atol=1e-9)
    joints[3] = np.nan
    assert np.isfinite(wrist_pose_of(joints, side)).all(axis=1).tolist() == [k != 3 for k in range(T)]


def test_the_wrong_side_is_noticed(bent):
    joints = skeleton.forward(*bent)
    with pytest.raises(BadInput, match=r"bend \d+ mm to the back of the hand.*give side='left'"):
        hand_from_landmarks(joints * [-1, 1, 1], np.arange(T), "right")
    with pytest.raises(BadInput, match="give side='right'"):
        hand_from_landmarks(joints, np.arange(T), "left")


def test_frames_without_a_hand_repeat_the_last_one(bent):
    joints = skeleton.forward(*bent)
    joints[[0, 5]] = np.nan
    valid = np.isfinite(joints).all(axis=(1, 2))
    hand = hand_from_landmarks(joints, np.arange(T), "right", valid=valid)
    np.testing.assert_array_equal(hand.joints[5], hand.joints[4])
    np.testing.assert_array_equal(hand.joints[0], hand.joints[1])
    assert hand.valid.tolist() == valid.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda j: j[:, :20], r"shape \(12, 20, 3\)"),
        (lambda j: j[0], r"shape \(21, 3\)"),
        (lambda j: np.where(np.arange(T)[:, None, None] == 3, np.nan, j), "1 of 12 frames.*frame 3"),
    ],
)
def test_wrong_landmarks_are_refused(bent, change, message):
    with pytest.raises(BadInput, match=message):
        hand_from_landmarks(change(skeleton.forward(*bent)), np.arange(T), "right")


def test_no_hand_at_all(bent):
    with pytest.raises(BadInput, match="no hand was found"):
        hand_from_landmarks(skeleton.forward(*bent), np.arange(T), "right", valid=np.zeros(T, bool))


def test_unknown_side(bent):
    with pytest.raises(BadInput, match="left, right"):
        hand_from_landmarks(skeleton.forward(*bent), np.arange(T), "Right")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"joints": np.zeros((2, 21, 3))}, "holds no 'fps'"),
        ({"joints": np.zeros((2, 21, 3)), "fps": 30.0, "hand": "both"}, "left, right"),
        ({"joints": np.zeros((2, 20, 3)), "fps": 30.0, "hand": "left"}, "expected"),
    ],
)
def test_landmark_files_are_checked(tmp_path, fields, message):
    path = tmp_path / "landmarks.npz"
    np.savez(path, **fields)
    with pytest.raises(BadInput, match=message):
        read_landmarks(path)


@pytest.mark.parametrize("content", [b"", b"1,2,3\n"])
def test_text_is_not_a_landmark_file(tmp_path, content):
    path = tmp_path / "landmarks.npz"
    path.write_bytes(content)
    with pytest.raises(BadInput, match="not an archive of plain arrays"):
        read_landmarks(path)


@pytest.mark.skipif(not ROOT, reason="needs $DEXPRIOR_DATA (hand_clip)")
def test_the_real_clips_axes_are_found():
    """The file says where fingers, thumb and palm point; the fit must find the same without being told."""
    file = read_landmarks(Path(ROOT) / "hand_clip" / "human_joint_right.npz")
    hand = hand_from_landmarks(file.joints, np.arange(len(file.joints)) / file.fps, file.side)
    R_file_wrist = matrix_from_quat(hand.wrist_pose[:, 3:])
    angle = np.arccos(np.clip((np.trace(CLIP_TO_WRIST @ R_file_wrist, axis1=1, axis2=2) - 1) / 2, -1, 1))
    assert np.median(angle) < np.deg2rad(20)
    flexion = hand.finger_pose.reshape(-1, 15, 3)[:, :12, 2]
    assert (flexion.reshape(-1, 4, 3).sum(-1) > -0.3).mean() > 0.97, "fingers bend to the palm"
    again = skeleton.forward(hand.wrist_pose, hand.finger_pose, hand.betas)
    assert np.sqrt(((again - file.joints) ** 2).sum(-1).mean()) < 0.012
