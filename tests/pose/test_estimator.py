"""The pose estimator learns to see hand and object, and its answer moves with the scene."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from pictured import camera_at, pictured_episode, two_handed_episode, walking_camera

from dexprior.artifacts import read_tensors, save_module
from dexprior.data.stacks import recorded_clip, stack_episodes
from dexprior.errors import ArtifactError, BadInput
from dexprior.geometry.rotations import quat_from_yaw, rotation_angle
from dexprior.geometry.torch_camera import camera_rows, project, rays
from dexprior.geometry.transforms import fit_rigid, matrix_from_pose, pose_from_matrix, pose_multiply
from dexprior.hands.skeleton import forward
from dexprior.pose.estimator import (
    _HEADS,
    EstimatorConfig,
    PoseEstimator,
    _gate,
    _meet,
    _meet_each,
    estimate,
    load_estimator,
    save_estimator,
)
from dexprior.pose.evaluation import claim_of, consistency, motion_sigma, read_stack, reading_errors
from dexprior.pose.fusion import read_sample
from dexprior.pose.training import _cut, _harder, _missed, train_estimator
from dexprior.types.episode import View

TINY = {
    "size": 32, "channels": 8, "width": 64, "clips": 2, "window": 12, "noise": 0.0, "blur": 0.0, "crop": 0.0,
    "hidden": 0.0, "dropped": 0.0,
}  # fmt: skip
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def untrained():
    """Weights of chance, with an output that varies: geometry must hold for any network."""
    torch.manual_seed(0)
    return PoseEstimator(EstimatorConfig(**TINY)).eval()


@pytest.fixture
def episode():
    return pictured_episode(0, n=9, size=32)


@pytest.fixture
def ended(episode, untrained):
    """The episode with a part that its nut is brought to, and a target of its hand; the estimator knows where an object
    ends."""
    condition = episode.condition
    (start,) = condition.start
    wrist = start.wrist_pose + np.array([0.02, 0.1, 0.01, 0, 0, 0, 0])
    target = replace(start, wrist_pose=wrist, finger_pose=start.finger_pose / 2)
    goal = np.array([0.45, 0.12, 0.02, *quat_from_yaw(np.array(0.3))])
    untrained.rest.learned.fill_(True)
    return replace(episode, condition=replace(condition, goal=goal, target=(target,)))


def _read(model, episode, *views: View):
    s = episode.sample
    return estimate(model, s.frames, s.camera, s.fps, episode.condition, views)


def _turned(episode, T):
    """The scene with its cameras and all that its condition tells, moved together."""

    def pose(value):
        return pose_from_matrix(T @ matrix_from_pose(value))

    def hands(ends):
        return tuple(replace(hand, wrist_pose=pose(hand.wrist_pose)) for hand in ends)

    def camera(value):
        return replace(value, T_base_cam=T @ value.T_base_cam)

    told, turn = episode.condition, T[:3, :3]
    condition = replace(
        told, points=told.points @ turn.T + T[:3, 3], pose=pose(told.pose), goal=pose(told.goal),
        start=hands(told.start), target=hands(told.target),
    )  # fmt: skip
    return replace(
        episode, condition=condition, sample=replace(episode.sample, camera=camera(episode.sample.camera)),
        views=tuple(replace(view, camera=camera(view.camera)) for view in episode.views),
    )  # fmt: skip


def _errors(model, stack):
    return reading_errors(read_stack(model, stack), [recorded_clip(stack, k) for k in range(len(stack))])


def test_it_learns_two_clips_better_than_their_mean(tiny_stack, tmp_path):
    """A network that ignored the pixels could at best answer with the mean hand."""
    two = tiny_stack[:2]
    config = EstimatorConfig(**TINY, steps=250, learning_rate=2e-3)
    model = train_estimator(two, config, tmp_path, seed=0)
    blind = 1000 * np.linalg.norm(two.joints[:, :, 0] - two.joints.mean((0, 1, 2)), axis=-1).mean()
    assert _errors(model, two)["joint_error_mm"]["mean"] < 0.6 * blind


@pytest.mark.slow
def test_it_overfits_two_clips_to_a_centimetre(tiny_stack, tmp_path):
    config = EstimatorConfig(**(TINY | {"channels": 16, "width": 96}), steps=1000, learning_rate=2e-3)
    model = train_estimator(tiny_stack[:2], config, tmp_path, seed=0)
    found = _errors(model, tiny_stack[:2])
    assert found["joint_error_mm"]["mean"] < 12.0
    assert found["object_error_mm"]["mean"] < 8.0
    assert found["contact_f1"] > 0.95


def test_each_point_is_where_its_own_rays_meet():
    place = torch.tensor([[0.1, 0.2, 0.05], [-0.1, 0.1, 0.02]])
    eye = torch.tensor([[1.0, 0.0, 0.5], [0.0, -1.0, 0.5]]).view(1, 2, 1, 3)
    found = _meet_each(eye, place - eye[..., None, :])
    np.testing.assert_allclose(found[0, 0], place, atol=4e-3)


def test_where_rays_meet_is_where_the_point_is():
    """Two cameras leave nothing open; one leaves the depth, which the height settles."""
    place, offset = torch.tensor([0.1, 0.2, 0.05]), torch.tensor([[0.0, 0.0, 0.0], [0.03, 0.0, 0.01]])
    eye = torch.tensor([[1.0, 0.0, 0.5], [0.0, -1.0, 0.5]]).view(1, 2, 1, 3)
    toward = (place + offset).view(1, 1, 1, 2, 3) - eye[..., None, :]
    offset = offset.view(1, 1, 2, 3)
    both = _meet(eye, toward, offset, torch.full((1, 1, 1), 0.05))
    np.testing.assert_allclose(both[0, 0], place, atol=2e-3)
    wrong = _meet(eye, toward, offset, torch.full((1, 1, 1), 0.10))
    assert (wrong - both).norm() < 0.003
    one = _meet(eye[:, :1], toward[:, :1], offset, torch.full((1, 1, 1), 0.05))
    np.testing.assert_allclose(one[0, 0], place, atol=0.015)
    aside = torch.linalg.cross(one[0, 0] - eye[0, 0, 0], toward[0, 0, 0, 0]).norm() / toward[0, 0, 0, 0].norm()
    assert aside < 0.003  # it lies on the ray all the same


def test_turning_and_moving_the_scene_turns_and_moves_the_estimate(untrained, ended):
    """Cameras and object moved together, about the vertical, see the same pixels."""
    T = matrix_from_pose(np.concatenate([[0.4, -2.0, 0.3], quat_from_yaw(np.array(1.1))]))
    here, its = _read(untrained, ended, *ended.views)
    elsewhere, turn = _turned(ended, T), T[:3, :3]
    there, thing = _read(untrained, elsewhere, *elsewhere.views)
    np.testing.assert_allclose(there.joints, here.joints @ turn.T + T[:3, 3], atol=2e-5)
    np.testing.assert_allclose(thing.points, its.points @ turn.T + T[:3, 3], atol=2e-5)
    np.testing.assert_allclose(there.finger_pose, here.finger_pose, atol=1e-4)
    np.testing.assert_allclose(there.contact, here.contact, atol=1e-4)


def _opened(model, **gates: float):
    """The same network with some outputs pushed far up or down."""
    at = 0
    with torch.no_grad():
        for name, size in _HEADS.items():
            model.head.bias[at : at + size] += gates.get(name, 0.0)
            at += size
    return model


def test_hand_and_object_are_drawn_to_the_ends_that_are_told(untrained, ended):
    """As far as gates are open: altogether, the target's hand is read, and the object where clips came to rest."""
    condition = ended.condition
    (target,) = condition.target
    opened = _opened(untrained, resting=50.0, moved=50.0, holding=50.0, carried=-50.0)
    hand, thing = _read(opened, ended, *ended.views)
    np.testing.assert_allclose(hand.wrist_pose, np.tile(target.wrist_pose, (9, 1)), atol=1e-5)
    np.testing.assert_allclose(hand.finger_pose, np.tile(target.finger_pose, (9, 1)), atol=1e-5)
    np.testing.assert_allclose(thing.pose[:, :2], np.tile(condition.goal[:2], (9, 1)), atol=1e-5)
    np.testing.assert_allclose(thing.points[:, :, 2].min(axis=1), condition.goal[2], atol=1e-5)


def test_a_hand_that_holds_is_carried_by_the_object_that_is_read(untrained, ended):
    """It is to the object as the target's hand is to the object at rest."""
    (target,) = ended.condition.target
    resting = {"moved": 50.0, "resting": 50.0, "holding": -50.0, "starting": -50.0, "carried": 50.0}
    hand, rest = _read(_opened(untrained, **resting), ended, *ended.views)
    np.testing.assert_allclose(hand.wrist_pose, np.tile(target.wrist_pose, (9, 1)), atol=1e-5)
    hand, thing = _read(_opened(untrained, resting=-100.0), ended, *ended.views)
    expected = pose_multiply(fit_rigid(rest.points, thing.points), np.tile(target.wrist_pose, (9, 1)))
    assert np.abs(expected[:, :3] - target.wrist_pose[:3]).max() > 0.01
    np.testing.assert_allclose(hand.wrist_pose[:, :3], expected[:, :3], atol=1e-4)
    assert rotation_angle(hand.wrist_pose[:, 3:], expected[:, 3:]).max() < 1e-3
    hand, thing = _read(_opened(untrained, moved=-100.0), ended, *ended.views)
    np.testing.assert_allclose(thing.points, np.tile(ended.condition.points, (9, 1, 1)), atol=1e-4)
    expected = pose_multiply(fit_rigid(rest.points, thing.points), np.tile(target.wrist_pose, (9, 1)))
    np.testing.assert_allclose(hand.wrist_pose[:, :3], expected[:, :3], atol=1e-4)


def test_gates_have_ends_where_they_are_read_and_slopes_where_they_learn():
    value = torch.linspace(-6.0, 12.0, 50, requires_grad=True)
    read, learned = (_gate(value, learns=learns) for learns in (False, True))
    assert read.min() == 0.0
    assert read.max() == 1.0
    assert (read.diff() >= 0).all()
    (slope,) = torch.autograd.grad(learned.sum(), value)
    assert (slope > 0).all()
    assert (read - learned).abs().max() <= 0.1 + 1e-6


def test_what_nobody_knows_leaves_what_rays_say(untrained, ended):
    """However open the gates are."""
    left = PoseEstimator(replace(untrained.config, side="left")).eval()
    left.load_state_dict(untrained.state_dict())
    stranger = replace(ended, condition=replace(ended.condition, goal=None))
    reads = [
        _read(_opened(left, resting=push, starting=push, holding=push, carried=push), stranger, *ended.views)
        for push in (0.0, 50.0, -100.0)
    ]
    for hand, thing in reads:
        np.testing.assert_array_equal(hand.joints, reads[0][0].joints)
        np.testing.assert_array_equal(thing.points, reads[0][1].points)
    moved = replace(stranger, condition=replace(stranger.condition, target=stranger.condition.start))
    np.testing.assert_array_equal(_read(left, moved, *ended.views)[0].joints, reads[0][0].joints)


def test_a_second_camera_changes_the_answer_and_its_order_among_others_does_not(untrained, episode):
    (view,) = [one for one in episode.views if one.frames is not None]
    third = replace(view, name="third", camera=camera_at((0.2, 0.5, 0.6), 32))
    alone = _read(untrained, episode)[0]
    some = _read(untrained, episode, view, third)[0]
    assert np.abs(some.joints - alone.joints).max() > 1e-4
    np.testing.assert_allclose(_read(untrained, episode, third, view)[0].joints, some.joints, atol=2e-5)


def test_a_camera_that_moves_is_looked_through_where_it_is_in_each_frame(untrained, episode):
    path = walking_camera(9, 32)
    hand, _ = _read(untrained, replace(episode, sample=replace(episode.sample, camera=path)))
    assert np.isfinite(hand.joints).all()
    short = replace(path, T_base_cam=path.T_base_cam[:8])
    s = episode.sample
    with pytest.raises(BadInput, match="the clip: 9 frames, but its camera moves through 8 poses"):
        estimate(untrained, s.frames, short, s.fps, episode.condition)


def test_a_part_of_a_picture_has_a_camera_that_sees_it():
    """What the whole picture shows at a place, the part shows where its camera says."""
    camera = camera_at((1.0, 0.0, 0.5), 64)
    rows = torch.from_numpy(camera_rows(camera, 1).astype(np.float32))[None]
    grid = (torch.arange(64) + 0.5) / 64
    frames = torch.stack(torch.meshgrid(grid, grid, indexing="ij")[::-1])[None, None]  # each pixel's own place
    frames = torch.cat([frames, frames[:, :, :1]], dim=2)
    cut, seen = _cut(frames, rows, torch.tensor([0.8]), torch.tensor([[0.25, 0.6]]))
    point = torch.tensor([[[0.46, 0.01, 0.06]]])
    whole, part = project(rows[:, 0], point)[0, 0], project(seen[:, 0], point)[0, 0]
    pixel = (part * 64).long()
    np.testing.assert_allclose(cut[0, 0, :2, pixel[1], pixel[0]], whole, atol=0.02)


def test_rays_are_those_of_the_camera():
    camera = camera_at((1.0, 0.0, 0.5), 32)
    found = rays(torch.from_numpy(camera_rows(camera, 1).astype(np.float32)), 32)[0]
    pixel = np.linalg.solve(camera.K, [20.5, 7.5, 1.0])
    np.testing.assert_allclose(found[:, 7, 20], pixel, atol=1e-5)


def test_pictures_made_harder_are_those_of_a_seed():
    config = EstimatorConfig(size=32, dropped=0.5)
    frames = torch.rand(2, 2, 4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    rows = torch.from_numpy(camera_rows(camera_at((1.0, 0.0, 0.5), 32), 4).astype(np.float32)).expand(2, 2, -1, -1)
    one, two = (_harder(frames, rows, config, np.random.default_rng(3)) for _ in range(2))
    for a, b in zip(one, two):
        assert torch.equal(a, b)
    assert one[0].shape == frames.shape
    assert not torch.equal(one[0], frames)
    plain = EstimatorConfig(size=32, crop=0.0, noise=0.0, blur=0.0, hidden=0.0, dropped=0.9)
    still = _harder(frames, rows, plain, np.random.default_rng(0))[0]
    repeats = (still[:, :, 1:] == still[:, :, :-1]).flatten(3).all(-1).float().mean()
    assert repeats > 0.6


def test_two_thirds_of_the_errors_lie_within_what_is_claimed(untrained, episode):
    hand, thing = _read(untrained, episode)
    own = replace(hand, joints=hand.joints + np.random.default_rng(0).normal(0.0, 0.02, hand.joints.shape))
    untrained.claim.mul_(torch.from_numpy(claim_of([(hand, thing)], [(own, thing)])))
    found = reading_errors([_read(untrained, episode)], [(own, thing)])
    assert 0.6 < np.mean(found["within_sigma"]) < 0.76
    assert found["object_error_mm"]["mean"] == 0.0


def test_a_claim_learns_to_cover_two_thirds_along_each_axis():
    off = torch.randn(2000, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([0.002, 0.01, 0.03])
    claim = torch.full((3,), -4.6, requires_grad=True)
    learner = torch.optim.Adam([claim], lr=0.02)
    for _ in range(300):
        learner.zero_grad()
        _missed(off, claim.expand_as(off)).mean().backward()
        learner.step()
    within = (off.abs() < claim.detach().exp()).float().mean(0)
    np.testing.assert_allclose(within, 0.68, atol=0.02)


def test_a_claim_is_along_the_axes_of_the_base(untrained, ended):
    """A quarter of a turn of the whole scene changes those of x and y with each other."""
    T = matrix_from_pose(np.concatenate([np.zeros(3), quat_from_yaw(np.array(np.pi / 2))]))
    here, there = (_read(untrained, one)[0].sigma for one in (ended, _turned(ended, T)))
    np.testing.assert_allclose(there, here[..., [1, 0, 2]], rtol=1e-3)


def test_what_a_motion_stream_is_off_by_is_what_samples_are_misread_by_beyond_demonstrations(untrained, episode):
    hand, thing = _read(untrained, episode)

    def off(spread: float, seed: int):
        noise = np.random.default_rng(seed).normal(0.0, spread, (40, *hand.joints.shape))
        return [(replace(hand, joints=hand.joints + one), thing) for one in noise]

    true = [(hand, thing)] * 40
    assert motion_sigma(off(0.005, 0), true, off(0.003, 1), true) == pytest.approx(0.004, rel=0.05)
    assert motion_sigma(off(0.003, 0), true, off(0.005, 1), true) == 0.001


def test_a_fused_sample_leans_on_the_stream_that_is_surer(untrained, episode):
    sample = episode.sample
    motion, pixels = (read_sample(sample, episode.condition, untrained, name)[0] for name in ("motion", "pixels"))
    for sigma, nearer in ((1e-4, motion), (10.0, pixels)):
        untrained.motion_sigma.fill_(sigma)
        hand, thing = read_sample(sample, episode.condition, untrained, "fused")
        np.testing.assert_allclose(hand.joints, nearer.joints, atol=1e-3)
        assert thing.pose is not None
    with pytest.raises(BadInput, match="source 'pixels': a pose estimator reads the pixels"):
        read_sample(sample, episode.condition, None, "pixels")


def test_samples_are_half_of_what_it_learns_from(tmp_path):
    """Bit by bit another estimator; seen by other cameras, they are refused."""
    clips = stack_episodes([pictured_episode(0), pictured_episode(1)], 32)
    own = stack_episodes([pictured_episode(7), pictured_episode(8)], 32)
    config = EstimatorConfig(**TINY, steps=2)
    alone, both = (
        train_estimator(clips, config, tmp_path / name, seed=0, samples=samples).head.weight
        for name, samples in (("alone", None), ("both", own))
    )
    assert not torch.equal(alone, both)
    with pytest.raises(BadInput, match=r"samples seen by \[\], clips by \['other'\]"):
        train_estimator(clips, config, tmp_path / "none", seed=0, samples=replace(own, views={}))


def test_a_clip_agrees_with_what_is_read_rightly_and_with_itself(episode):
    sample = episode.sample
    own = (sample.hand, sample.object)
    found = consistency(sample, own)
    assert found["hand_mm"] == found["object_mm"] == found["reprojection_px"] == 0.0
    assert found["drift"] < 1.0
    aside = replace(sample.hand, joints=sample.hand.joints + np.array([0.0, 0.01, 0.0]))
    moved = consistency(sample, (aside, sample.object))
    assert moved["hand_mm"] == pytest.approx(10.0)
    assert 0.2 < moved["reprojection_px"] < 1.0  # 45 pixels of focal length, .7 m away
    flicker = sample.frames.astype(int) + 20 * (np.arange(len(sample.frames)) % 2)[:, None, None, None]
    assert consistency(replace(sample, frames=flicker.clip(0, 255).astype(np.uint8)), own)["drift"] > 8.0


def test_it_reads_the_hand_of_its_side(tmp_path):
    stack = stack_episodes([pictured_episode(0), two_handed_episode(1)], 32)
    config = EstimatorConfig(**TINY, steps=2, side="left")
    model = train_estimator(stack, config, tmp_path / "left", seed=0)
    again = train_estimator(stack.of_sides(["left"]), config, tmp_path / "again", seed=0)
    for a, b in zip(model.state_dict().values(), again.state_dict().values()):
        assert torch.equal(a, b)
    hand, _ = estimate(model, stack.frames[1], stack.conditions[1].camera, 24.0, stack.conditions[1])
    assert hand.side == "left"
    np.testing.assert_allclose(hand.joints, forward(hand.wrist_pose, hand.finger_pose, side="left"))
    with pytest.raises(BadInput, match="no clip shows a left hand; they show: right"):
        train_estimator(stack.of_sides(["right"]), config, tmp_path / "none", seed=0)


def test_the_answer_is_metric_and_says_how_sure_it_is(untrained, episode):
    hand, thing = _read(untrained, episode)
    np.testing.assert_allclose(hand.t, episode.sample.hand.t)
    assert hand.scale_known
    assert (hand.sigma > 0).all()
    assert thing.pose is not None


def test_frames_of_any_size_are_read(untrained, episode):
    """The same picture, larger, with its camera."""
    s = episode.sample
    large = np.repeat(np.repeat(s.frames, 2, axis=1), 3, axis=2)
    camera = replace(s.camera, K=np.diag([3.0, 2.0, 1.0]) @ s.camera.K, width=96, height=64)
    hand, _ = estimate(untrained, large, camera, s.fps, episode.condition)
    np.testing.assert_allclose(hand.joints, _read(untrained, episode)[0].joints, atol=1e-5)


@pytest.mark.parametrize("shape", [(9, 32, 32), (9, 32, 24, 4), (0, 32, 32, 3)])
def test_what_is_no_clip_is_refused(untrained, episode, shape):
    s = episode.sample
    with pytest.raises(BadInput, match=r"the clip: frames of shape .* reads \(time, height, width, 3\)"):
        estimate(untrained, np.zeros(shape, dtype=np.uint8), s.camera, s.fps, episode.condition)


def test_a_view_of_another_number_of_frames_is_refused(untrained, episode):
    (view,) = [one for one in episode.views if one.frames is not None]
    with pytest.raises(BadInput, match=f"view '{view.name}': frames of shape"):
        _read(untrained, episode, replace(view, frames=view.frames[:5], depth=None))


def test_a_checkpoint_gives_the_same_estimate(untrained, episode, tmp_path, same):
    path = save_estimator(untrained, tmp_path / "estimator.safetensors", seed=0)
    loaded = load_estimator(path)
    assert loaded.config == untrained.config
    for a, b in zip(_read(loaded, episode), _read(untrained, episode)):
        same(a, b)


def test_damaged_and_foreign_checkpoints_are_refused(untrained, tmp_path):
    path = save_estimator(untrained, tmp_path / "estimator.safetensors", seed=0)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ArtifactError, match="truncated"):
        load_estimator(path)
    with pytest.raises(ArtifactError, match="no such file"):
        load_estimator(tmp_path / "none.safetensors")
    other = save_module(torch.nn.Linear(2, 2), tmp_path / "x", schema="dexprior.x/1", producer="x", config={})
    with pytest.raises(ArtifactError, match="another kind of file"):
        load_estimator(other)


def test_a_killed_run_equals_an_uninterrupted_one(tiny_stack, tmp_path, kill_at_checkpoint):
    """The learning-rate schedule included."""
    config = EstimatorConfig(
        **(TINY | {"noise": 0.06, "blur": 0.7, "hidden": 0.5, "dropped": 0.2}), steps=8, checkpoint_every=3
    )
    whole = train_estimator(tiny_stack, config, tmp_path / "whole", seed=2)
    kill_at_checkpoint(train_estimator, tiny_stack, config, tmp_path / "killed", seed=2)
    assert read_tensors(tmp_path / "killed" / "state.safetensors")[1]["progress"]["step"] == 3
    resumed = train_estimator(tiny_stack, config, tmp_path / "killed", seed=2)
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values()):
        assert torch.equal(a, b)
    metas = [read_tensors(tmp_path / name / "state.safetensors")[1] for name in ("whole", "killed")]
    assert metas[0]["progress"] == metas[1]["progress"]
    assert metas[0]["optimizers"] == metas[1]["optimizers"]
