"""Objects as points of matter: the same matter throughout, and a frame that moves with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.data.objects import chosen_points, frame_points, object_frame, rigid_object
from dexprior.errors import BadInput
from dexprior.geometry.rotations import rotation_angle
from dexprior.geometry.transforms import invert_pose, pose_multiply, transform_points
from dexprior.types import TRACKS


def _poses(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    pose = rng.normal(size=(n, 7))
    return np.concatenate([pose[:, :3], pose[:, 3:] / np.linalg.norm(pose[:, 3:], axis=1, keepdims=True)], axis=1)


def test_a_rigid_object_takes_its_points_along():
    pose, t = _poses(6), np.arange(6) / 10
    local = np.random.default_rng(1).normal(size=(100, 3))
    thing = rigid_object("box", t, pose, local=local)
    back = transform_points(invert_pose(pose), thing.points)
    np.testing.assert_allclose(back, np.broadcast_to(back[:1], back.shape), atol=1e-12)
    assert all((np.abs(local - p).max(axis=1) < 1e-12).any() for p in back[0])
    np.testing.assert_array_equal(object_frame(thing), pose)


def test_the_frame_of_what_has_no_pose_moves_as_its_points_do():
    pose = _poses(6)
    thing = replace(rigid_object("box", np.arange(6) / 10, pose, local=frame_points() + 0.3), pose=None)
    frame = object_frame(thing)
    np.testing.assert_allclose(frame[0], [*thing.centre[0], 1, 0, 0, 0], atol=1e-12)
    moved, wanted = (pose_multiply(p, invert_pose(p[:1])) for p in (frame, pose))
    np.testing.assert_allclose(moved[:, :3], wanted[:, :3], atol=1e-9)
    assert rotation_angle(moved[:, 3:], wanted[:, 3:]).max() < 1e-6


@pytest.mark.parametrize("n", [1, 5, 16, 200])
def test_as_many_points_are_followed_however_many_are_known(n):
    points = np.random.default_rng(0).normal(size=(n, 3))
    chosen = chosen_points(points)
    assert chosen.shape == (TRACKS, 3)
    assert len(np.unique(chosen, axis=0)) == min(n, TRACKS)


def test_the_points_of_a_frame_are_even_and_around_it():
    np.testing.assert_allclose(np.linalg.norm(frame_points(), axis=1), 0.02)
    assert np.linalg.norm(frame_points().mean(axis=0)) < 0.002


def test_an_object_of_no_points_is_refused():
    with pytest.raises(BadInput, match="follows no point"):
        replace(rigid_object("box", np.arange(3) / 10, _poses(3)), points=np.zeros((3, 0, 3)))
