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
from dexprior.pose.landmark_streams import read_landmarks
from dexprior.pose.landmarks import CLIP_TO_WRIST, hand_from_landmarks, wrist_pose_of
from dexprior.pose.real_video import estimate_from_clip
from dexprior.types.hand import MANO_JOINTS

av = pytest.importorskip("av")
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
        ({"joints": np.zeros((2, 21, 3)), "hand": "left"}, "holds no 'fps'"),
        ({"joints": np.zeros((2, 21, 3)), "fps": 30.0}, "does not say which hand"),
        ({"joints": np.full((2, 21, 3), np.nan), "fps": 30.0, "hand": "left"}, "no hand in any of 2 frames"),
        ({"joints": np.zeros((2, 21, 3)), "fps": 30.0, "hand": "both"}, "left, right"),
        ({"joints": np.zeros((2, 20, 3)), "fps": 30.0, "hand": "left"}, "expected"),
    ],
)
def test_landmark_files_are_checked(tmp_path, fields, message):
    path = tmp_path / "landmarks.npz"
    np.savez(path, **fields)
    with pytest.raises(BadInput, match=message):
        read_landmarks(path)


def test_a_landmark_file_marks_frames_without_a_hand(bent, tmp_path):
    """By NaN, of one landmark as of all, or by `valid`."""
    joints = skeleton.forward(*bent)
    joints[2], joints[4, 7] = np.nan, np.nan
    np.savez(tmp_path / "l.npz", joints=joints, fps=30.0, hand="right", valid=np.arange(T) != 6)
    file = read_landmarks(tmp_path / "l.npz")
    np.testing.assert_array_equal(np.flatnonzero(~file.valid), [2, 4, 6])
    hand = hand_from_landmarks(file.joints, np.arange(T), file.side, valid=file.valid)
    np.testing.assert_array_equal(hand.valid, file.valid)
    np.testing.assert_array_equal(hand.joints[4], hand.joints[3])


MANO_TO_TIPS = {"tips as its fingers": skeleton.MANO_FROM_MEDIAPIPE, "thumb's tip first": (
    0, 13, 14, 15, 16, 1, 2, 3, 17, 4, 5, 6, 18, 10, 11, 12, 19, 7, 8, 9, 20
)}  # fmt: skip


@pytest.mark.parametrize("order", MANO_TO_TIPS.values(), ids=MANO_TO_TIPS)
@pytest.mark.parametrize("side", ["right", "left"])
def test_joints_in_manos_order_are_noticed_and_names_put_them_right(order, side, tmp_path):
    """From flat hands to fists; the order that the message gives is the one that mends them."""
    fingers = np.zeros((20, 15, 3))
    fingers[:, :12, 2] = np.linspace(0, 1.5, 20)[:, None]
    fingers[:, 12:] = np.random.default_rng(0).normal(0, 0.3, (20, 3, 3))
    right = skeleton.forward(np.tile([0, 0, 0, 1.0, 0, 0, 0], (20, 1)), fingers.reshape(20, 45))
    truth = right * ([-1.0, 1, 1] if side == "left" else 1.0)
    stored = truth[:, np.argsort(order)]
    t = np.arange(20) / 30
    hand_from_landmarks(truth, t, side)
    with pytest.raises(BadInput, match=r"MANO's order .* give joints\[:, \[0, 13") as caught:
        hand_from_landmarks(stored, t, side)
    told = [int(k) for k in str(caught.value).partition("[:, [")[2].partition("]")[0].split(",")]
    np.testing.assert_array_equal(stored[:, told], truth)
    tips = [f"{finger} tip" for finger in ("index", "middle", "pinky", "ring", "thumb")]
    if order is not skeleton.MANO_FROM_MEDIAPIPE:
        tips = [tips[k] for k in (4, 0, 1, 3, 2)]
    names = [name.replace("little", "pinky") for name in MANO_JOINTS] + tips
    np.savez(tmp_path / "l.npz", joints=stored, fps=30.0, hand=side, names=names)
    np.testing.assert_array_equal(read_landmarks(tmp_path / "l.npz").joints, truth)


@pytest.mark.parametrize(
    ("frames", "rate", "message"), [(20, 30.0, ""), (20, 15.0, "15: landmarks"), (24, 30.0, "24$")]
)
def test_landmarks_are_those_of_the_clips_frames_at_its_rate(frames, rate, message, tmp_path):
    fingers = np.zeros((frames, 15, 3))
    fingers[:, :12, 2] = 0.3
    joints = skeleton.forward(np.tile([0, 0, 0, 1.0, 0, 0, 0], (frames, 1)), fingers.reshape(frames, 45))
    joints[3] = np.nan
    np.savez(tmp_path / "l.npz", joints=joints, fps=rate, hand="right")
    clip = tmp_path / "clip.webm"  # whose header counts no frames
    with av.open(str(clip), "w") as container:
        stream = container.add_stream("libvpx-vp9", rate=30)
        stream.height, stream.width, stream.options = 32, 32, {"cpu-used": "8", "deadline": "realtime"}
        for k in range(20):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.full((32, 32, 3), 9 * k, np.uint8), "rgb24")))
        container.mux(stream.encode())
    if message:
        with pytest.raises(BadInput, match=message):
            estimate_from_clip(clip, tmp_path / "l.npz")
        return
    hand = estimate_from_clip(clip, tmp_path / "l.npz", start=2, stop=12).hand
    np.testing.assert_array_equal(np.flatnonzero(~hand.valid), [1])
    np.testing.assert_allclose(hand.t, np.arange(2, 12) / 30)


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
