"""What an estimator is told is what a condition says, and nothing where it says nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from pictured import pictured_episode

from dexprior.data.stacks import stack_episodes
from dexprior.geometry.rotations import quat_from_yaw
from dexprior.geometry.transforms import pose_multiply, transform_points
from dexprior.pose.told import Rest, untold, what_is_told

SEAT = np.array([0.01, -0.02, 0.03, 1.0, 0.0, 0.0, 0.0])  # of the nut's frame in the part's


def _brought(seed: int, yaw: float):
    """A nut that ends at one place of a part that stands where its last frame has it."""
    episode = pictured_episode(seed, n=8, size=16)
    end, turn = episode.sample.object.pose[-1], quat_from_yaw(np.array(yaw))
    goal = np.concatenate([end[:3] - transform_points(np.array([0, 0, 0, *turn]), SEAT[None, :3])[0], turn])
    return replace(episode, condition=replace(episode.condition, goal=goal))


@pytest.fixture
def stack():
    return stack_episodes([_brought(seed, yaw) for seed, yaw in ((0, 0.0), (1, 0.4), (2, -0.3))], 16)


def test_where_clips_came_to_rest_is_where_the_object_of_another_does(stack):
    rest = Rest()
    told = what_is_told(stack.conditions, "right")
    assert not rest.knows(told).any()
    rest.fit(stack)
    assert rest.knows(told).all()
    points, _ = rest(told)
    np.testing.assert_allclose(points, stack.points[:, -1], atol=1e-6)
    other = _brought(4, 1.0)
    points, _ = rest(what_is_told([other.condition], "right"))
    np.testing.assert_allclose(points[0].mean(0), other.sample.object.points[-1].mean(0), atol=1e-6)


def test_a_higher_object_stands_on_the_same_height(stack):
    rest = Rest()
    rest.fit(stack)
    (condition, *_) = stack.conditions
    tall = replace(condition, points=condition.pose[:3] + (condition.points - condition.pose[:3]) * [1.0, 1.0, 2.0])
    low, high = rest(what_is_told([condition, tall], "right"))[0][..., 2].numpy()
    assert high.min() == pytest.approx(low.min(), abs=1e-6)
    assert np.ptp(high) == pytest.approx(2 * np.ptp(low), abs=1e-6)


def test_the_hand_of_a_side_is_told_as_the_condition_has_it(stack):
    (condition, *_) = stack.conditions
    pose = pose_multiply(np.array([0.3, 0.1, 0.2, *quat_from_yaw(np.array(0.5))]), condition.start[0].wrist_pose)
    target = replace(condition.target[0], wrist_pose=pose)
    told = what_is_told([replace(condition, target=(target,), pose=None)], "right")
    np.testing.assert_allclose(told["wrist"][0, 1], pose[:3], atol=1e-6)
    np.testing.assert_allclose(told["fingers"][0, 1], target.finger_pose, atol=1e-6)
    assert told["shown"].all()
    assert not told["brought"].any()  # what deforms has no pose to bring anywhere
    assert not what_is_told([condition], "left")["shown"].any()


def test_a_share_of_clips_is_told_less():
    told = {"brought": torch.ones(4000, dtype=torch.bool), "shown": torch.ones(4000, 2, dtype=torch.bool)}
    less = untold(told, 0.2, torch.Generator().manual_seed(0))
    kept = torch.cat([less["brought"][:, None], less["shown"]], dim=1).float()
    np.testing.assert_allclose(kept.mean(0), 0.8, atol=0.03)
    assert len(torch.unique(kept, dim=0)) == 8  # each by itself
    none = untold(told, 0.0, torch.Generator().manual_seed(0))
    assert none["brought"].all()
    assert none["shown"].all()
