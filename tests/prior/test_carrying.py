"""The way to a part that stands still: learned where clips share it, and unknown where there is no such part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dexprior.data.stacks import Stack
from dexprior.geometry.rotations import quat_from_yaw, quat_multiply, wrap_angle
from dexprior.geometry.transforms import IDENTITY_POSE, fit_rigid, pose_multiply, transform_points
from dexprior.prior.carrying import Carrying
from dexprior.prior.conditioning import condition_tensors
from dexprior.prior.denoiser import JointDenoiser
from dexprior.prior.motion import POINTS

FPS, FRAMES, TARGET = 12.0, 36, 30
SEAT = np.array([0.004, -0.003, 0.03])  # [m] of the object's frame in the part's
QUARTER = np.pi / 2


def _carried(conditions, seed: int, n: int, *, square: bool = True) -> Stack:
    """Objects that are lifted by 5 cm, carried above a part, and lowered; they look alike after a quarter of a turn, so
    that the hand turns them as little as it can, or are not turned at all."""
    rng = np.random.default_rng(seed)
    local = rng.uniform([-0.015, -0.02, -0.02], [0.025, 0.02, 0.02], (16, 3))
    u = np.minimum(np.arange(FRAMES) / TARGET, 1.0)
    across, high = np.clip((u - 0.3) / 0.4, 0, 1), 0.05 * np.clip(np.minimum(u, 1 - u) / 0.3, 0, 1)
    known, made = np.ones((n, FRAMES), dtype=bool), []
    points = np.zeros((n, FRAMES, 16, 3))
    for k in range(n):
        yaw, goal_yaw = rng.uniform(-QUARTER / 2, QUARTER / 2), rng.uniform(-3, 3)
        start = np.array([*rng.uniform([0.3, -0.2], [0.4, -0.1]), 0.03, *quat_from_yaw(yaw)])
        goal = np.array([*rng.uniform([0.5, 0.0], [0.6, 0.1]), 0.0, *quat_from_yaw(goal_yaw)])
        turn = wrap_angle(goal_yaw - yaw, QUARTER) if square else 0.0
        end = pose_multiply(goal, np.array([*SEAT, 1.0, 0.0, 0.0, 0.0]))[:3]
        place = start[:3] + across[:, None] * (end - start[:3]) + high[:, None] * [0.0, 0.0, 1.0]
        pose = np.concatenate([place, quat_multiply(quat_from_yaw(across * turn), start[3:])], axis=1)
        points[k] = transform_points(pose, local)
        condition = replace(
            conditions[0], points=points[k, 0], pose=start, goal=goal, target_at=TARGET / FPS, seconds=FRAMES / FPS
        )
        made.append(condition)
    zeros = {"contact": (1, 5), "force": (1, 5), "wrist_pose": (1, 7), "finger_pose": (1, 45), "joints": (1, 21, 3)}
    return Stack(
        frames=np.zeros((n, FRAMES, 8, 8, 3), dtype=np.uint8), valid=known, points=points, hand_known=known[..., None],
        shows=known[:, :1], object_known=known, touch_known=known[:, 0], conditions=made, ids=tuple(map(str, range(n))),
        info=({},) * n, place=np.linspace(0, 0.9, n), fps=FPS,
        **{name: np.zeros((n, FRAMES, *shape)) for name, shape in zeros.items()},
    )  # fmt: skip


def _fitted(stack: Stack) -> Carrying:
    carrying = Carrying()
    carrying.fit(stack)
    return carrying


def _way(carrying: Carrying, stack: Stack) -> tuple[np.ndarray, np.ndarray]:
    points, spread = carrying(condition_tensors(stack.conditions), FRAMES, FPS)
    return points.double().numpy(), spread.numpy()


@pytest.mark.parametrize("square", [True, False])
def test_what_clips_share_is_found_in_scenes_that_none_of_them_shows(conditions, square):
    """The place in the turned part's frame, the turn, the way there; where nothing is left, units are smallest."""
    new = _carried(conditions, 1, 12, square=square)
    points, spread = _way(_fitted(_carried(conditions, 0, 80, square=square)), new)
    apart = 1000 * np.linalg.norm(points - new.points, axis=-1)
    assert apart[:, TARGET:].max() < 0.5
    assert apart.mean() < 1.5  # corners of the way lie between nodes
    assert 1000 * spread[:, TARGET:].max() < 0.5


def test_an_object_that_may_lie_as_it_likes_is_not_turned(conditions):
    new = _carried(conditions, 1, 12, square=False)
    points, _ = _way(_fitted(_carried(conditions, 0, 80, square=False)), new)
    turned = fit_rigid(points[:, 0], points[:, -1])[:, 3:]
    assert np.degrees(2 * np.arccos(np.minimum(np.abs(turned[:, 0]), 1.0))).max() < 3.0


def test_the_units_grow_with_what_differs_from_clip_to_clip(conditions):
    stack = _carried(conditions, 0, 80)
    u = np.minimum(np.arange(FRAMES) / TARGET, 1.0)
    habit = 0.01 * np.random.default_rng(2).normal(size=(80, 1)) * np.sin(np.pi * u)
    stack.points[..., 2] += habit[..., None]
    _, spread = _way(_fitted(stack), stack)
    middle, end = spread[0, TARGET // 2, 0], spread[0, -1, 0]
    assert middle[2] == pytest.approx(0.01, rel=0.3)
    assert middle[2] > 5 * middle[0]
    assert end[2] < 0.001


def test_it_starts_where_the_object_lies_and_keeps_its_shape(conditions):
    new = _carried(conditions, 1, 6)
    points, _ = _way(_fitted(_carried(conditions, 0, 40)), new)
    np.testing.assert_allclose(points[:, 0], new.points[:, 0], atol=1e-6)
    edges = np.linalg.norm(np.diff(points, axis=2), axis=-1)
    np.testing.assert_allclose(edges, edges[:, :1].repeat(FRAMES, axis=1), atol=1e-6)


def test_a_part_that_is_shifted_and_turned_takes_the_end_along(conditions):
    """The end is a place in the part's frame, whichever way the part lies."""
    carrying, new = _fitted(_carried(conditions, 0, 40)), _carried(conditions, 1, 6)
    move = np.array([0.02, -0.01, 0.0, *quat_from_yaw(0.7)])
    moved = replace(
        new, conditions=[replace(c, goal=pose_multiply(move, c.goal)) for c in new.conditions if c.goal is not None]
    )
    ends = [fit_rigid(new.points[:, 0], _way(carrying, stack)[0][:, -1]) for stack in (new, moved)]
    starts = np.stack([c.pose for c in new.conditions if c.pose is not None])
    before, after = (pose_multiply(end, starts)[:, :3] for end in ends)
    np.testing.assert_allclose(transform_points(move, before), after, atol=1e-3)


def test_clips_without_a_goal_teach_nothing_and_are_told_nothing(conditions):
    stack = _carried(conditions, 0, 10)
    without = replace(stack, conditions=[replace(c, goal=None) for c in stack.conditions])
    carrying, fresh = _fitted(without), Carrying()
    for name, value in carrying.state_dict().items():
        assert torch.equal(value, fresh.state_dict()[name]), name
    assert not carrying.knows(condition_tensors(stack.conditions)).any()
    mixed = replace(stack, conditions=[*stack.conditions[:5], *without.conditions[5:]])
    knows = _fitted(mixed).knows(condition_tensors(mixed.conditions))
    assert knows.tolist() == [True] * 5 + [False] * 5


def test_the_denoiser_adds_in_the_units_of_the_way(conditions):
    """A network that says the same everywhere moves the object by millimetres at its end and by centimetres before."""
    stack = _carried(conditions, 0, 40)
    torch.manual_seed(0)
    model = JointDenoiser(frames=FRAMES, size=8, width=16, layers=1, heads=1, channels=10, fps=FPS).eval()
    model.motion_std.fill_(0.1)
    model.carrying.fit(stack)
    model.carrying.spread.copy_(torch.linspace(0.02, 0.001, len(model.carrying.spread))[:, None].expand(-1, 3))
    condition = condition_tensors(stack[:3].conditions)
    noise = torch.zeros(3, FRAMES, model.motion_mean.shape[0])
    low, sigma = torch.zeros(3, FRAMES, 3, 2, 2), torch.ones(3)
    with torch.no_grad():
        model.motion.head.bias.fill_(1.0)
        found = model.physical(model.denoise_motion(noise, sigma, low, sigma, condition))[..., POINTS]
        way, spread = model.carrying(condition, FRAMES, FPS)
    added = found.unflatten(-1, (16, 3)) - way
    torch.testing.assert_close(added[:, 1:], spread.expand_as(added)[:, 1:], atol=1e-6, rtol=1e-3)
    assert (spread[:, 1] / spread[:, -1]).min() > 5
    unknown = {**condition, "brought": torch.zeros(3, dtype=torch.bool)}
    with torch.no_grad():
        other = model.physical(model.denoise_motion(noise, sigma, low, sigma, unknown))[..., POINTS]
    assert (other - found).abs().max() > 0.01


def test_a_goal_needs_a_pose_to_be_reached(conditions):
    soft = replace(conditions[0], pose=None)
    given = condition_tensors([conditions[0], soft])
    assert given["brought"].tolist() == [conditions[0].goal is not None, False]
    np.testing.assert_allclose(given["pose"][1], IDENTITY_POSE)
