"""The skeleton hand moves rigidly, keeps its bones, bends towards its palm, and is the same in torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_axis_angle, quat_from_axis_angle
from dexprior.geometry.transforms import IDENTITY_POSE, pose_multiply, transform_points
from dexprior.hands import skeleton
from dexprior.hands.skeleton import BONES, forward, forward_torch, rest_offsets
from dexprior.types import FINGERS, HAND_JOINTS, MANO_JOINTS

finger_poses = arrays(np.float64, 45, elements=st.floats(-1.5, 1.5))
vectors = arrays(np.float64, 3, elements=st.floats(-2, 2))
FLAT = np.zeros(45)


def bone_lengths(joints: np.ndarray) -> np.ndarray:
    a, b = np.array(BONES).T
    return np.linalg.norm(joints[..., a, :] - joints[..., b, :], axis=-1)


@given(vectors, vectors, finger_poses)
@settings(deadline=None)
def test_moving_the_wrist_moves_the_hand(position, turn, fingers):
    pose = np.concatenate([position, quat_from_axis_angle(turn)])
    still = forward(IDENTITY_POSE, fingers)
    np.testing.assert_allclose(forward(pose, fingers), transform_points(pose, still), atol=1e-9)
    again = pose_multiply(pose, pose)
    np.testing.assert_allclose(
        forward(again, fingers), transform_points(pose, transform_points(pose, still)), atol=1e-9
    )


@given(finger_poses)
@settings(deadline=None)
def test_bones_keep_their_lengths(fingers):
    np.testing.assert_allclose(
        bone_lengths(forward(IDENTITY_POSE, fingers)), bone_lengths(forward(IDENTITY_POSE, FLAT)), atol=1e-12
    )


@pytest.mark.parametrize("side", ["right", "left"])
@given(vectors, vectors, finger_poses)
@settings(deadline=None)
def test_torch_agrees(side, position, turn, fingers):
    ours = forward(np.concatenate([position, quat_from_axis_angle(turn)]), fingers, side=side)
    theirs = forward_torch(
        torch.from_numpy(position),
        torch.from_numpy(matrix_from_axis_angle(turn)),
        torch.from_numpy(matrix_from_axis_angle(fingers.reshape(15, 3))),
        side,
    )
    np.testing.assert_allclose(theirs.numpy(), ours, atol=1e-12)


@given(vectors, vectors, finger_poses)
@settings(deadline=None)
def test_a_left_hand_is_the_mirror_image_of_a_right_one(position, turn, fingers):
    """Places change the sign of x, rotation vectors that of y and z."""
    betas = np.array([0.5, -0.3, *np.zeros(8)])
    place, axial = np.array([-1.0, 1, 1]), np.array([1.0, -1, -1])
    right = forward(np.concatenate([position, quat_from_axis_angle(turn)]), fingers, betas)
    mirrored = np.concatenate([position * place, quat_from_axis_angle(turn * axial)])
    left = forward(mirrored, (fingers.reshape(15, 3) * axial).ravel(), betas, "left")
    np.testing.assert_allclose(left, right * place, atol=1e-9)


def test_torch_is_differentiable():
    rotations = torch.from_numpy(matrix_from_axis_angle(np.full((2, 15, 3), 0.1))).requires_grad_()
    joints = forward_torch(
        torch.zeros(2, 3, dtype=torch.float64), torch.eye(3, dtype=torch.float64).expand(2, 3, 3), rotations
    )
    joints[:, 8].sum().backward()
    moves = rotations.grad.abs().sum(dim=(0, 2, 3)) > 0
    assert moves.tolist() == [name.startswith("index") for name in MANO_JOINTS[1:]]


def test_many_hands_at_once():
    rng = np.random.default_rng(0)
    poses = np.concatenate([rng.normal(size=(4, 3)), quat_from_axis_angle(rng.normal(size=(4, 3)))], axis=1)
    fingers = rng.normal(size=(4, 45))
    together = forward(poses, fingers)
    assert together.shape == (4, 21, 3)
    for k in range(4):
        np.testing.assert_allclose(together[k], forward(poses[k], fingers[k]))


@pytest.mark.parametrize("finger", FINGERS[1:])
def test_flexion_brings_fingertips_towards_the_palm(finger):
    """The palm faces -y; a flat finger points along -x."""
    tip = HAND_JOINTS.index(f"{finger}_tip")
    heights, reaches = [], []
    for angle in (0.0, 0.3, 0.6, 0.9):
        pose = FLAT.reshape(15, 3).copy()
        for k in (1, 2, 3):
            pose[MANO_JOINTS.index(f"{finger}{k}") - 1, 2] = angle
        joints = forward(IDENTITY_POSE, pose.ravel())
        heights.append(joints[tip, 1])
        reaches.append(np.linalg.norm(joints[tip]))
    assert (np.diff(heights[:3]) < 0).all()
    assert (np.diff(reaches) < 0).all()


def test_the_flat_hand_is_a_right_hand():
    joints = dict(zip(HAND_JOINTS, forward(IDENTITY_POSE, FLAT)))
    np.testing.assert_array_equal(joints["wrist"], np.zeros(3))
    assert joints["thumb_tip"][2] > joints["index_tip"][2] > joints["little_tip"][2]  # thumb towards +z
    for finger in FINGERS[1:]:
        row = [joints[f"{finger}_{j}"][0] for j in ("mcp", "pip", "dip", "tip")]
        assert (np.diff(row) < 0).all()
    assert joints["thumb_tip"][1] < 0  # on the palm's side


def test_a_finger_moves_only_itself():
    pose = FLAT.reshape(15, 3).copy()
    pose[MANO_JOINTS.index("ring1") - 1] = [0.1, 0.2, 0.5]
    moved = np.linalg.norm(forward(IDENTITY_POSE, pose.ravel()) - forward(IDENTITY_POSE, FLAT), axis=1) > 1e-9
    assert [n for n, m in zip(HAND_JOINTS, moved) if m] == ["ring_pip", "ring_dip", "ring_tip"]


def test_betas_scale_the_hand_and_the_fingers():
    betas = np.zeros(10)
    betas[0] = 2.5
    np.testing.assert_allclose(rest_offsets(betas), 1.1 * rest_offsets(np.zeros(10)))
    betas = np.zeros(10)
    betas[1] = 2.5
    ratio = bone_lengths(forward(IDENTITY_POSE, FLAT, betas)) / bone_lengths(forward(IDENTITY_POSE, FLAT))
    palm = np.array([a == 0 for a, _ in BONES])
    np.testing.assert_allclose(ratio[palm], 1.0)
    np.testing.assert_allclose(ratio[~palm], 1.1)
    betas = np.zeros(10)
    betas[2:] = 5.0
    np.testing.assert_allclose(rest_offsets(betas), rest_offsets(np.zeros(10)))


def test_tables_fit_together():
    assert sorted(skeleton.MANO_FROM_MEDIAPIPE) == list(range(21))
    assert all(parent < k for k, parent in enumerate(skeleton.PARENTS))
    assert {b for _, b in BONES} == set(range(1, 21))


@pytest.mark.parametrize(("wrist", "fingers"), [(np.zeros(6), FLAT), (IDENTITY_POSE, np.zeros(44))])
def test_wrong_shapes(wrist, fingers):
    with pytest.raises(BadInput, match=r"expected \(\.\.\., 7\), \(\.\.\., 45\)"):
        forward(wrist, fingers)
