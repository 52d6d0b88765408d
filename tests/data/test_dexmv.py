"""DexMV's example: two cameras brought together, so that the hand holds what it carries."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dexprior.data.dexmv import BOTTLE_HALF_SIZE, T_OBJECTCAM_HANDCAM, read_dexmv
from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat
from dexprior.geometry.transforms import invert_pose, transform_points
from dexprior.hands import skeleton
from dexprior.pose.landmarks import fit_betas, fit_finger_pose, fit_wrist_rotation

ROOT = os.environ.get("DEXPRIOR_DATA")
needs_data = pytest.mark.skipif(not ROOT, reason="needs $DEXPRIOR_DATA (hand_object)")


@pytest.fixture(scope="module")
def record():
    return read_dexmv(Path(ROOT) / "hand_object" / "dexmv_mustard.npz")


def _carried(bottle):
    """Frames in which the bottle is off the table."""
    return np.flatnonzero(bottle.pose[:, 2] > 0.03)


def test_the_cameras_transform_is_rigid():
    R = T_OBJECTCAM_HANDCAM[:3, :3]
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=2e-4)
    assert np.linalg.det(R) == pytest.approx(1, abs=2e-4)


@needs_data
def test_tracks_are_aligned(record):
    hand, bottle = record
    assert len(hand) == len(bottle) == 122
    np.testing.assert_array_equal(hand.t, bottle.t)
    assert np.diff(hand.t) == pytest.approx(0.04)


@needs_data
def test_the_base_frame_stands_on_the_table(record):
    hand, bottle = record
    assert np.linalg.norm(bottle.pose[10:60, :3], axis=1).max() < 0.02
    assert matrix_from_quat(bottle.pose[10:60, 3:])[:, 2, 2].min() > 0.98
    assert hand.wrist_pose[0, 0] < -0.3, "the hand comes along +x"
    assert abs(hand.wrist_pose[0, 1]) < 1e-9
    assert 0.08 < bottle.pose[:, 2].max() < 0.2, "it is lifted"
    assert abs(bottle.pose[-1, 2]) < 0.03, "and put down"


@needs_data
def test_the_fingers_hold_the_bottle_while_it_is_carried(record):
    """Thumb and fingertips lie around its axis, within the errors of the estimates; without the transform
    between the cameras they would be 60-130 mm away, and drift as it moves."""
    hand, bottle = record
    carried = _carried(bottle)
    assert len(carried) > 15
    local = transform_points(invert_pose(bottle.pose), hand.joints[:, 4::4])[carried]
    radius = np.linalg.norm(local[:, :3, :2], axis=-1)
    assert radius.mean() < BOTTLE_HALF_SIZE[0] + 0.005
    thumb, index = local[:, 0, :2], local[:, 1, :2]
    assert ((thumb * index).sum(-1) < 0).mean() > 0.9, "on opposite sides"
    assert local.std(axis=0).max() < 0.03
    assert hand.contact[carried, :2].mean() > 0.8


@needs_data
def test_mano_pose_is_that_of_the_joints(record):
    """Wrist and flexion from MANO's parameters agree with a fit to the joints: same frame, order and sign."""
    hand, _ = record
    betas = fit_betas(hand.joints)
    R = fit_wrist_rotation(hand.joints, betas)
    angle = np.arccos(np.clip((np.einsum("tij,tij->t", R, matrix_from_quat(hand.wrist_pose[:, 3:])) - 1) / 2, -1, 1))
    assert np.rad2deg(angle).mean() < 6
    fitted = fit_finger_pose(hand.joints, R, betas)[:, :12, 2].sum(axis=1)
    given = hand.finger_pose.reshape(-1, 15, 3)[:, :12, 2].sum(axis=1)
    assert np.corrcoef(fitted, given)[0, 1] > 0.9
    again = skeleton.forward(hand.wrist_pose, hand.finger_pose, betas)
    assert np.linalg.norm(again - hand.joints, axis=-1).mean() < 0.015


def _fields(n=4):
    T = np.tile(np.eye(4), (n, 16, 1, 1))
    return {
        "joints": np.zeros((n, 21, 3)),
        "mano": np.zeros((n, 61)),
        "hand_transforms": T,
        "object_T_cam": np.tile(np.eye(4)[:3], (n, 1, 1)),
        "hand_frame": np.arange(n),
        "object_frame": np.arange(n) + 100,
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mano": None}, "holds no 'mano'"),
        ({"joints": np.zeros((3, 21, 3))}, r"joints has shape \(3, 21, 3\)"),
        ({"joints": np.full((4, 21, 3), np.nan)}, "not finite"),
        ({}, "share 0 frames"),
    ],
)
def test_wrong_files(tmp_path, change, message):
    fields = {k: v for k, v in (_fields() | change).items() if v is not None}
    path = tmp_path / "x.npz"
    np.savez(path, **fields)
    with pytest.raises(BadInput, match=message):
        read_dexmv(path)


def test_absent_file_names_the_data_set(tmp_path):
    with pytest.raises(BadInput, match="dexmv-mustard"):
        read_dexmv(tmp_path / "x.npz")
