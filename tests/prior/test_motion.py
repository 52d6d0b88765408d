"""Motion vectors lose nothing, and their hand is the skeleton's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dexprior.data.stacks import Stack
from dexprior.errors import BadInput
from dexprior.geometry.rotations import rotation_angle
from dexprior.hands.skeleton import forward
from dexprior.prior.motion import (
    CONTACT,
    FINGERS,
    FORCE,
    MOTION_SIZE,
    POINTS,
    WRIST,
    WRIST_ROT,
    decode_motion,
    encode_motion,
    joints_of,
    known_motion,
    points_of,
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
        points=rng.normal(size=(3, 6, 16, 3)),
        contact=rng.random((3, 6, 5)),
        force=rng.exponential(5.0, (3, 6, 5)),
        valid=np.arange(6) < np.array([[6], [4], [6]]),
        hand_known=np.arange(6) < np.array([[6], [4], [0]]),
        object_known=np.arange(6) < np.array([[6], [2], [6]]),
        touch_known=np.array([True, True, False]),
        conditions=[],
        ids=("a", "b", "c"),
        place=np.array([0.1, 0.5, 0.9]),
        info=({}, {}, {}),
        fps=24.0,
    )


def test_decoding_undoes_encoding(wild):
    parts = decode_motion(encode_motion(wild))
    np.testing.assert_allclose(parts["wrist_pose"][..., :3], wild.wrist_pose[..., :3])
    assert rotation_angle(parts["wrist_pose"][..., 3:], wild.wrist_pose[..., 3:]).max() < 1e-6  # q and -q are one
    np.testing.assert_array_equal(parts["points"], wild.points)
    np.testing.assert_array_equal(parts["finger_pose"], wild.finger_pose)
    np.testing.assert_array_equal(parts["contact"], wild.contact)
    np.testing.assert_allclose(parts["force"], wild.force)


def test_every_number_has_one_meaning():
    groups = (WRIST, WRIST_ROT, FINGERS, POINTS, CONTACT, FORCE)
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


def test_the_points_are_the_recorded_ones(wild):
    np.testing.assert_array_equal(points_of(torch.from_numpy(encode_motion(wild))).numpy(), wild.points)


def test_objects_followed_by_other_points_are_named(wild):
    with pytest.raises(BadInput, match="followed by 9 points: the prior's motion has 16"):
        encode_motion(replace(wild, points=wild.points[:, :, :9]))


def test_what_was_not_measured_is_not_known(wild):
    known = known_motion(wild)
    assert known[0].all()
    np.testing.assert_array_equal(known[1, :, FORCE.stop - 1], np.arange(6) < 4)
    np.testing.assert_array_equal(known[1, :, POINTS.start], np.arange(6) < 2)
    assert not known[2, :, WRIST.start : FINGERS.stop].any()
    assert not known[2, :, CONTACT.start :].any()
    assert known[2, :, POINTS].all()


def test_joints_follow_every_number_of_the_hand():
    """A numerical derivative agrees with autograd: nothing on the way is detached."""
    motion = torch.from_numpy(np.random.default_rng(2).normal(size=MOTION_SIZE)).requires_grad_()
    assert torch.autograd.gradcheck(lambda m: joints_of(m)[4::4], motion)


def test_standardised_groups_have_unit_variance_and_keep_their_proportions(wild):
    motion, known = encode_motion(wild), known_motion(wild)
    mean, spread = standardise(motion, known)
    standard, flat = ((motion - mean) / spread).reshape(-1, MOTION_SIZE), known.reshape(-1, MOTION_SIZE)
    for group in (WRIST, FINGERS, POINTS, FORCE):
        seen = flat[:, group.start]
        assert standard[seen][:, group].var(axis=0).mean() == pytest.approx(1.0)
        assert len(np.unique(spread[group])) == 1
    still = np.zeros((2, 5, MOTION_SIZE))
    assert (standardise(still, np.ones_like(still, dtype=bool))[1] > 0).all()  # what never moves divides not by zero


def test_what_is_unknown_has_no_say_in_the_statistics(wild):
    motion, known = encode_motion(wild), known_motion(wild)
    other = np.where(known, motion, 1e6)
    for a, b in zip(standardise(motion, known), standardise(other, known)):
        np.testing.assert_allclose(a, b)
    nothing = standardise(motion, np.zeros_like(known))
    assert not nothing[0].any()
    np.testing.assert_array_equal(nothing[1], 1.0)
