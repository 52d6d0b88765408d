"""The detector: geometry of its crops, and agreement with MediaPipe on the real clip."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dexprior import extras
from dexprior.data import catalog
from dexprior.data.clips import read_clip
from dexprior.errors import BadInput
from dexprior.pose import detection
from dexprior.pose.detection import DetectedLandmarks, detect_landmarks, find_landmark_models
from dexprior.pose.landmark_streams import read_landmarks
from dexprior.pose.landmarks import hand_from_landmarks
from dexprior.pose.real_video import FACING_CAMERA, estimate_from_clip, locate_wrist

ROOT = os.environ.get("DEXPRIOR_DATA")
needs_clip = pytest.mark.skipif(not ROOT, reason="needs $DEXPRIOR_DATA (hand_clip)")
needs_models = pytest.mark.skipif(
    catalog.find("hand-landmarks") is None or not extras.available("ai_edge_litert"),
    reason="needs the data set hand-landmarks and ai_edge_litert (the extra pose)",
)


def _clip(name):
    return Path(ROOT) / "hand_clip" / name


@pytest.mark.parametrize("angle", [0.0, 0.6, -2.0])
def test_a_crop_turns_the_hand_upright(angle):
    """A wrist-to-knuckle direction at any angle points up in the crop."""
    frame = np.zeros((200, 200, 3), dtype=np.uint8)
    start = np.array([100.0, 100.0])
    end = start + 30 * np.array([np.sin(angle), -np.cos(angle)])
    row, column = np.rint(end).astype(int)[::-1]
    frame[row - 1 : row + 2, column - 1 : column + 2] = 255
    crop = detection._Crop(start, 100.0, detection._upright(start, end))
    marked = np.argwhere(crop.cut(frame, 100)[..., 0] > 0.5).mean(axis=0)
    assert np.abs(marked - [20, 50]).max() < 1.5
    np.testing.assert_allclose(crop.to_image(np.array([0.5, 0.2])), end, atol=1e-9)


def test_crop_and_image_are_inverse():
    crop = detection._Crop(np.array([40.0, 60.0]), 50.0, 0.7)
    corners = crop.to_image(np.array([[0, 0], [1, 0], [1, 1], [0, 1.0]]))
    np.testing.assert_allclose(corners.mean(axis=0), crop.centre)
    np.testing.assert_allclose(np.linalg.norm(np.diff(corners, axis=0), axis=1), 50.0)
    around = detection._around(corners, 0.7, 1.0, 0.0)
    np.testing.assert_allclose(around.centre, crop.centre)
    assert around.side == pytest.approx(50.0)


def test_anchors_cover_the_image():
    anchors = detection._palm_anchors()
    assert anchors.shape == (2016, 2)
    assert 0 < anchors.min() < 0.05
    assert 0.95 < anchors.max() < 1


def test_overlap_of_a_box_with_itself_and_with_a_far_one():
    centre, size = np.array([[0.5, 0.5], [0.5, 0.6], [0.9, 0.9]]), np.full((3, 2), 0.2)
    np.testing.assert_allclose(detection._overlaps(centre, size, 0), [1.0, 1 / 3, 0.0], atol=1e-9)


def test_absent_models_say_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("DEXPRIOR_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(BadInput, match=r"pip download --no-deps mediapipe==0\.10\.21"):
        find_landmark_models()
    with pytest.raises(BadInput, match="dexprior data get hand-landmarks"):
        find_landmark_models(tmp_path)


def test_wrong_frames():
    with pytest.raises(BadInput, match="expected uint8"):
        detect_landmarks(np.zeros((2, 10, 10, 3)))


def test_the_wrist_is_found_where_a_camera_saw_it():
    rng = np.random.default_rng(0)
    joints = 0.05 * rng.normal(size=(6, 21, 3))
    joints -= joints[:, :1]
    wrist = np.array([0.1, -0.05, 0.6]) + 0.1 * rng.normal(size=(6, 3))
    focal, aspect = 0.9, 16 / 9
    seen = joints + wrist[:, None]
    image = 0.5 + focal * seen[..., :2] / seen[..., 2:] * [1.0, aspect]
    found = DetectedLandmarks(joints, image, np.ones(6), np.ones(6))
    np.testing.assert_allclose(locate_wrist(found, focal, aspect), wrist, atol=1e-9)
    with pytest.raises(BadInput, match="focal"):
        locate_wrist(found, 0.0, aspect)


def test_camera_axes_in_the_base():
    from dexprior.geometry.rotations import matrix_from_quat

    R = matrix_from_quat(FACING_CAMERA[3:])
    np.testing.assert_allclose(R @ [0, 1, 0], [0, 0, -1], atol=1e-12)  # image down is down
    np.testing.assert_allclose(R @ [0, 0, 1], [-1, 0, 0], atol=1e-12)  # away from the viewer


@needs_clip
def test_a_clip_with_its_landmark_file():
    estimate = estimate_from_clip(_clip("human_hand_video.mp4"), _clip("human_joint_right.npz"), start=30, stop=60)
    assert len(estimate.hand) == 30
    assert estimate.hand.t[0] == pytest.approx(1.0)
    assert estimate.hand.side == "right"
    assert not estimate.hand.scale_known


@needs_clip
def test_landmarks_of_another_clip_are_refused(tmp_path):
    other = tmp_path / "short.npz"
    np.savez(other, joints=np.zeros((5, 21, 3)), fps=30.0, hand="right")
    with pytest.raises(BadInput, match="621 frames"):
        estimate_from_clip(_clip("human_hand_video.mp4"), other)


@needs_clip
@needs_models
def test_the_real_clips_landmarks_are_mediapipes():
    """Shape after the best rotation; the file is MediaPipe's own output, in the wrist's axes."""
    span = slice(60, 90)
    frames, _ = read_clip(_clip("human_hand_video.mp4"), size=(360, 640), start=span.start, stop=span.stop)
    found = detect_landmarks(frames)
    assert (found.confidence > 0.9).all()
    assert (found.right > 0.5).all()
    expected = read_landmarks(_clip("human_joint_right.npz")).joints[span]
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (found.joints, expected))
    U, _, Vt = np.linalg.svd(np.einsum("tki,tkj->tij", a, b))
    assert (np.linalg.det(U @ Vt) > 0).all(), "not mirrored"
    assert np.linalg.norm(a @ (U @ Vt) - b, axis=-1).mean() < 0.002


@needs_models
def test_no_hand_in_an_empty_picture():
    found = detect_landmarks(np.full((2, 96, 128, 3), 90, np.uint8))
    assert (found.confidence == 0).all()
    assert np.isnan(found.joints).all()
    with pytest.raises(BadInput, match="no hand was found"):
        hand_from_landmarks(found.joints, np.arange(2), "right", valid=found.confidence > 0)


@needs_clip
@needs_models
def test_a_hand_that_leaves_and_comes_back_is_found_again():
    frames, _ = read_clip(_clip("human_hand_video.mp4"), size=(360, 640), stop=6)
    frames = frames.copy()
    frames[2:4] = 90
    assert (detect_landmarks(frames).confidence > 0).tolist() == [True, True, False, False, True, True]
