"""Motion vectors lose nothing, and their hand is the skeleton's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dexprior.data.stacks import Stack
from dexprior.geometry.rotations import rotation_angle
from dexprior.hands.skeleton import forward
from dexprior.prior.motion import (
    CONTACT,
    FINGERS,
    FORCE,
    MOTION_SIZE,
    OBJECT,
    OBJECT_ROT,
    WRIST,
    WRIST_ROT,
    decode_motion,
    encode_motion,
    joints_of,
    object_pose_of,
    standardise,
)


def _poses(rng, *shape):
    pose = rng.normal(size=(*shape, 7))
    pose[..., 3:] /= np.linalg.norm(pose[..., 3:], axis=-1, keepdims=True)
    return pose


@pytest.fixture(scope="module")
def wild() -> Stack:
    """Random motion that no hand would make."""
    rng = np.random.default_rng(0)
    wrist, fingers = _poses(rng, 3, 6), rng.normal(size=(3, 6, 45))
    return Stack(
        frames=np.zeros((3, 6, 8, 8, 3), dtype=np.uint8),
        wrist_pose=wrist,
        finger_pose=fingers,
        joints=forward(wrist, fingers),
        object_pose=_poses(rng, 3, 6),
        contact=rng.random((3, 6, 5)),
        force=rng.exponential(5.0, (3, 6, 5)),
        conditions=[],
        bolt=np.zeros((3, 3)),
        fps=24.0,
    )


def test_decoding_undoes_encoding(wild):
    parts = decode_motion(encode_motion(wild))
    for name in ("wrist_pose", "object_pose"):
        np.testing.assert_allclose(parts[name][..., :3], getattr(wild, name)[..., :3])
        assert rotation_angle(parts[name][..., 3:], getattr(wild, name)[..., 3:]).max() < 1e-6  # q and -q are one
    np.testing.assert_array_equal(parts["finger_pose"], wild.finger_pose)
    np.testing.assert_array_equal(parts["contact"], wild.contact)
    np.testing.assert_allclose(parts["force"], wild.force)


def test_every_number_has_one_meaning():
    groups = (WRIST, WRIST_ROT, FINGERS, OBJECT, OBJECT_ROT, CONTACT, FORCE)
    covered = np.concatenate([np.arange(MOTION_SIZE)[g] for g in groups])
    np.testing.assert_array_equal(covered, np.arange(MOTION_SIZE))


def test_a_networks_output_decodes_to_valid_values():
    parts = decode_motion(np.random.default_rng(1).normal(0, 30, (50, MOTION_SIZE)))
    np.testing.assert_allclose(np.linalg.norm(parts["wrist_pose"][..., 3:], axis=-1), 1.0)
    assert 0 <= parts["contact"].min() <= parts["contact"].max() <= 1
    assert parts["force"].min() >= 0
    assert np.isfinite(parts["force"]).all()


def test_the_joints_are_the_skeletons(wild):
    motion = torch.from_numpy(encode_motion(wild))
    np.testing.assert_allclose(joints_of(motion).numpy(), wild.joints, atol=1e-9)


def test_the_object_pose_is_the_recorded_one(wild):
    position, rotation = object_pose_of(torch.from_numpy(encode_motion(wild)))
    np.testing.assert_array_equal(position.numpy(), wild.object_pose[..., :3])
    np.testing.assert_allclose(torch.linalg.det(rotation).numpy(), 1.0)


def test_joints_follow_every_number_of_the_hand():
    """A numerical derivative agrees with autograd: nothing on the way is detached."""
    motion = torch.from_numpy(np.random.default_rng(2).normal(size=MOTION_SIZE)).requires_grad_()
    assert torch.autograd.gradcheck(lambda m: joints_of(m)[4::4], motion)


def test_standardised_groups_have_unit_variance_and_keep_their_proportions(wild):
    motion = encode_motion(wild)
    mean, spread = standardise(motion)
    standard = ((motion - mean) / spread).reshape(-1, MOTION_SIZE)
    for group in (WRIST, FINGERS, OBJECT, FORCE):
        assert standard[:, group].var(axis=0).mean() == pytest.approx(1.0)
        assert len(np.unique(spread[group])) == 1
    still = np.zeros((2, 5, MOTION_SIZE))
    assert (standardise(still)[1] > 0).all()  # what never moves does not divide by zero
