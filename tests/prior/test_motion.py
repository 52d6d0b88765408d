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
    HANDS,
    POINTS,
    decode_motion,
    encode_motion,
    joints_of,
    known_motion,
    motion_size,
    points_of,
    standardise,
)

SIZE = motion_size(2)


def _poses(rng, *shape):
    pose = rng.normal(size=(*shape, 7))
    pose[..., 3:] /= np.linalg.norm(pose[..., 3:], axis=-1, keepdims=True)
    return pose


@pytest.fixture(scope="module")
def wild() -> Stack:
    """Random motion that no two hands would make; the second clip shows no left one."""
    rng = np.random.default_rng(0)
    wrist, fingers = _poses(rng, 3, 6, 2), rng.normal(size=(3, 6, 2, 45))
    joints = [forward(wrist[:, :, k], fingers[:, :, k], side=side) for k, side in enumerate(("right", "left"))]
    known = np.arange(6) < np.array([[6], [4], [0]])
    return Stack(
        frames=np.zeros((3, 6, 8, 8, 3), dtype=np.uint8),
        wrist_pose=wrist,
        finger_pose=fingers,
        joints=np.stack(joints, axis=2),
        points=rng.normal(size=(3, 6, 16, 3)),
        contact=rng.random((3, 6, 2, 5)),
        force=rng.exponential(5.0, (3, 6, 2, 5)),
        valid=np.arange(6) < np.array([[6], [4], [6]]),
        shows=np.array([[True, True], [True, False], [True, True]]),
        hand_known=np.stack([known, known & [[True], [False], [True]]], axis=2),
        sides=("right", "left"),
        object_known=np.arange(6) < np.array([[6], [2], [6]]),
        touch_known=np.array([True, True, False]),
        conditions=[],
        ids=("a", "b", "c"),
        place=np.array([0.1, 0.5, 0.9]),
        info=({}, {}, {}),
        fps=24.0,
    )


def test_decoding_undoes_encoding(wild):
    for k in range(2):
        parts, wrist = decode_motion(encode_motion(wild), k), wild.wrist_pose[:, :, k]
        np.testing.assert_allclose(parts["wrist_pose"][..., :3], wrist[..., :3])
        assert rotation_angle(parts["wrist_pose"][..., 3:], wrist[..., 3:]).max() < 1e-6  # q and -q are one
        np.testing.assert_array_equal(parts["points"], wild.points)
        np.testing.assert_array_equal(parts["finger_pose"], wild.finger_pose[:, :, k])
        np.testing.assert_array_equal(parts["contact"], wild.contact[:, :, k])
        np.testing.assert_allclose(parts["force"], wild.force[:, :, k])


def test_the_motion_of_one_hand_is_the_beginning_of_that_of_two(wild):
    names = ("wrist_pose", "finger_pose", "joints", "contact", "force", "hand_known")
    right = {name: getattr(wild, name)[:, :, :1] for name in names}
    one, both = replace(wild, **right, shows=wild.shows[:, :1], sides=("right",)), encode_motion(wild)
    np.testing.assert_array_equal(encode_motion(one), both[..., : motion_size(1)])
    np.testing.assert_array_equal(known_motion(one), known_motion(wild)[..., : motion_size(1)])


def test_every_number_has_one_meaning():
    for hands in (1, 2):
        groups = [POINTS, *(group for places in HANDS[:hands] for group in places)]
        covered = np.concatenate([np.arange(motion_size(hands))[g] for g in groups])
        np.testing.assert_array_equal(np.sort(covered), np.arange(motion_size(hands)))


def test_a_networks_output_decodes_to_valid_values():
    parts = decode_motion(np.random.default_rng(1).normal(0, 30, (50, SIZE)))
    np.testing.assert_allclose(np.linalg.norm(parts["wrist_pose"][..., 3:], axis=-1), 1.0)
    assert 0 <= parts["contact"].min() <= parts["contact"].max() <= 1
    assert parts["force"].min() >= 0
    assert np.isfinite(parts["force"]).all()


def test_the_joints_are_the_skeletons(wild):
    motion = torch.from_numpy(encode_motion(wild))
    for k, side in enumerate(wild.sides):
        np.testing.assert_allclose(joints_of(motion, side, k).numpy(), wild.joints[:, :, k], atol=1e-9)


def test_the_points_are_the_recorded_ones(wild):
    np.testing.assert_array_equal(points_of(torch.from_numpy(encode_motion(wild))).numpy(), wild.points)


def test_objects_followed_by_other_points_are_named(wild):
    with pytest.raises(BadInput, match="followed by 9 points: the prior's motion has 16"):
        encode_motion(replace(wild, points=wild.points[:, :, :9]))


def test_what_was_not_measured_is_not_known(wild):
    known = known_motion(wild)
    assert known[0].all()
    np.testing.assert_array_equal(known[1, :, HANDS[0].force.stop - 1], np.arange(6) < 4)
    assert not known[1, :, HANDS[1].wrist.start :].any()  # nobody saw a left hand
    np.testing.assert_array_equal(known[1, :, POINTS.start], np.arange(6) < 2)
    for places in HANDS:
        assert not known[2, :, places.pose].any()
        assert not known[2, :, places.contact.start : places.force.stop].any()
    assert known[2, :, POINTS].all()


def test_joints_follow_every_number_of_the_hand():
    """A numerical derivative agrees with autograd: nothing on the way is detached."""
    motion = torch.from_numpy(np.random.default_rng(2).normal(size=SIZE)).requires_grad_()
    for k, side in enumerate(("right", "left")):
        assert torch.autograd.gradcheck(lambda m, k=k, side=side: joints_of(m, side, k)[4::4], motion)


def test_standardised_groups_have_unit_variance_and_keep_their_proportions(wild):
    motion, known = encode_motion(wild), known_motion(wild)
    mean, spread = standardise(motion, known)
    standard, flat = ((motion - mean) / spread).reshape(-1, SIZE), known.reshape(-1, SIZE)
    for group in (HANDS[0].wrist, HANDS[1].fingers, POINTS, HANDS[1].force):
        seen = flat[:, group.start]
        assert standard[seen][:, group].var(axis=0).mean() == pytest.approx(1.0)
        assert len(np.unique(spread[group])) == 1
    still = np.zeros((2, 5, SIZE))
    assert (standardise(still, np.ones_like(still, dtype=bool))[1] > 0).all()  # what never moves divides not by zero


def test_what_is_unknown_has_no_say_in_the_statistics(wild):
    motion, known = encode_motion(wild), known_motion(wild)
    other = np.where(known, motion, 1e6)
    for a, b in zip(standardise(motion, known), standardise(other, known)):
        np.testing.assert_allclose(a, b)
    nothing = standardise(motion, np.zeros_like(known))
    assert not nothing[0].any()
    np.testing.assert_array_equal(nothing[1], 1.0)
