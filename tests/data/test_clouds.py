"""Clouds keep their shape where they are placed."""

from __future__ import annotations

import numpy as np

from dexprior.data.clouds import place
from dexprior.geometry.transforms import IDENTITY_POSE, transform_points
from dexprior.types import ObjectTrajectory, PriorCondition


def test_a_placed_cloud_moves_rigidly(examples):
    cloud, pose = examples[PriorCondition].cloud, examples[ObjectTrajectory].pose
    placed = place(cloud, pose)
    assert placed.shape == (len(pose), len(cloud), 6)
    points = np.broadcast_to(cloud[:, :3], (len(pose), len(cloud), 3))
    np.testing.assert_allclose(placed[..., :3], transform_points(pose, points))
    np.testing.assert_allclose(np.linalg.norm(placed[..., 3:], axis=-1), 1.0)
    np.testing.assert_array_equal(place(cloud, IDENTITY_POSE), cloud)
