"""The pose estimator learns to see the hand, and its answer moves with the camera."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from pictured import pictured_episode, two_handed_episode

from dexprior.artifacts import read_tensors, save_module
from dexprior.data.stacks import stack_episodes
from dexprior.errors import ArtifactError, BadInput
from dexprior.geometry.rotations import matrix_from_axis_angle, matrix_from_quat, rotation_angle
from dexprior.geometry.transforms import into_camera, matrix_from_pose, pose_from_matrix
from dexprior.hands.skeleton import forward
from dexprior.pose.estimator import (
    EstimatorConfig,
    PoseEstimator,
    _targets,
    estimate,
    joint_error,
    load_estimator,
    save_estimator,
    train_estimator,
)
from dexprior.worlds.tasks.scene import camera as camera_of

TINY = {"size": 32, "channels": 8, "width": 64, "clips": 2, "noise": 0.0, "blur": 0.0}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def untrained():
    """Weights of chance, with an output that varies: geometry must hold for any network."""
    torch.manual_seed(0)
    model = PoseEstimator(EstimatorConfig(**TINY)).eval()
    camera = camera_of("front", 32)
    model.intrinsics.copy_(torch.tensor([*(camera.K[[0, 1], [0, 1]] / 32), *(camera.K[:2, 2] / 32)]))
    model.wrist_mean.copy_(torch.tensor([0.05, 0.02, 0.6]))
    return model


@pytest.fixture
def frames():
    return np.random.default_rng(0).integers(0, 255, (9, 32, 32, 3), dtype=np.uint8)


def _error_mm(model, stack) -> float:
    hands = [estimate(model, f, c.camera, stack.fps) for f, c in zip(stack.frames, stack.conditions)]
    return 1000 * float(np.mean([np.linalg.norm(h.joints - j, axis=-1) for h, j in zip(hands, stack.joints[:, :, 0])]))


def test_it_learns_two_clips_better_than_their_mean(tiny_stack, tmp_path):
    """A network that ignored the pixels could at best answer with the mean hand."""
    two = tiny_stack[:2]
    config = EstimatorConfig(**TINY, steps=200, learning_rate=4e-3)
    model = train_estimator(two, config, tmp_path, seed=0)
    blind = 1000 * np.linalg.norm(two.joints[:, :, 0] - two.joints.mean((0, 1, 2)), axis=-1).mean()
    assert _error_mm(model, two) < 0.6 * blind


@pytest.mark.slow
def test_it_overfits_two_clips_to_a_centimetre(tiny_stack, tmp_path):
    config = EstimatorConfig(**(TINY | {"channels": 16, "width": 96}), steps=1000, learning_rate=2e-3)
    model = train_estimator(tiny_stack[:2], config, tmp_path, seed=0)
    assert _error_mm(model, tiny_stack[:2]) < 15.0
    hand = estimate(model, tiny_stack.frames[0], tiny_stack.conditions[0].camera, tiny_stack.fps)
    agrees = (hand.contact > 0.5) == (tiny_stack.contact[0, :, 0] > 0.5)
    assert agrees.mean() > 0.95


def test_moving_the_camera_moves_the_estimate_with_it(untrained, frames):
    """The camera moved by a rigid T sees the same pixels of a scene moved by T."""
    camera = camera_of("front", 32)
    T = np.eye(4)
    T[:3, :3] = matrix_from_axis_angle(np.array([0.3, -1.2, 0.7]))
    T[:3, 3] = [0.4, -2.0, 0.3]
    here = estimate(untrained, frames, camera, 24.0)
    there = estimate(untrained, frames, replace(camera, T_base_cam=T @ camera.T_base_cam), 24.0)
    np.testing.assert_allclose(there.joints, here.joints @ T[:3, :3].T + T[:3, 3], atol=1e-6)
    moved = pose_from_matrix(T @ matrix_from_pose(here.wrist_pose))
    assert rotation_angle(there.wrist_pose[:, 3:], moved[:, 3:]).max() < 1e-6
    np.testing.assert_array_equal(there.finger_pose, here.finger_pose)
    np.testing.assert_array_equal(there.contact, here.contact)


def test_each_frame_is_put_into_the_base_by_the_cameras_pose_in_it(untrained, frames):
    camera = camera_of("front", 32)
    path = np.tile(camera.T_base_cam, (9, 1, 1))
    for k in range(9):
        path[k, :3, :3] = matrix_from_axis_angle(np.array([0.1 * k, 0.0, -0.05 * k])) @ path[k, :3, :3]
        path[k, 1, 3] += 0.03 * k
    walks = estimate(untrained, frames, replace(camera, T_base_cam=path), 24.0)
    for k in (0, 4, 8):
        still = estimate(untrained, frames, replace(camera, T_base_cam=path[k]), 24.0)
        np.testing.assert_allclose(walks.joints[k], still.joints[k], atol=1e-9)
        np.testing.assert_allclose(walks.wrist_pose[k], still.wrist_pose[k], atol=1e-9)
    with pytest.raises(BadInput, match="the clip: 9 frames, but its camera moves through 8 poses"):
        estimate(untrained, frames, replace(camera, T_base_cam=path[:8]), 24.0)


def test_what_it_learns_is_the_hand_in_the_camera_of_each_frame():
    stack = stack_episodes([pictured_episode(0, walks=True), pictured_episode(1)], 32)
    target = _targets(stack)
    for clip, condition in enumerate(stack.conditions):
        poses = condition.camera.poses(stack.valid.shape[1])
        seen = into_camera(poses, stack.joints[clip, :, 0])
        np.testing.assert_allclose(target["joints"][clip], seen, atol=1e-6)
        np.testing.assert_allclose(target["wrist"][clip], seen[:, 0], atol=1e-6)
        R = np.swapaxes(poses[:, :3, :3], 1, 2) @ matrix_from_quat(stack.wrist_pose[clip, :, 0, 3:])
        np.testing.assert_allclose(target["rotation"][clip], R, atol=1e-6)


def test_it_reads_the_hand_of_its_side(untrained, frames, tmp_path):
    stack = stack_episodes([pictured_episode(0), two_handed_episode(1)], 32)
    config = EstimatorConfig(**TINY, steps=2, side="left")
    model = train_estimator(stack, config, tmp_path / "left", seed=0)
    again = train_estimator(stack.of_sides(["left"]), config, tmp_path / "again", seed=0)
    for a, b in zip(model.state_dict().values(), again.state_dict().values()):
        assert torch.equal(a, b)
    hand = estimate(model, stack.frames[1], stack.conditions[1].camera, 24.0)
    assert hand.side == "left"
    np.testing.assert_allclose(hand.joints, forward(hand.wrist_pose, hand.finger_pose, side="left"))
    with pytest.raises(BadInput, match="no clip shows a left hand; they show: right"):
        train_estimator(stack.of_sides(["right"]), config, tmp_path / "none", seed=0)


def test_another_focal_length_is_refused_instead_of_read_as_another_depth(untrained, frames):
    camera = camera_of("front", 32)
    longer = camera.K * np.array([[1.3], [1.3], [1.0]])
    with pytest.raises(BadInput, match="learned depth for"):
        estimate(untrained, frames, replace(camera, K=longer), 24.0)


def test_the_answer_is_metric_and_says_how_sure_it_is(untrained, frames):
    hand = estimate(untrained, frames, camera_of("front", 32), 12.0)
    np.testing.assert_allclose(hand.t, np.arange(9) / 12.0)
    assert hand.scale_known
    assert (hand.sigma > 0).all()
    assert (joint_error(hand, hand) == 0).all()


@pytest.mark.parametrize("shape", [(9, 48, 48, 3), (9, 32, 24, 3), (32, 32, 3), (0, 32, 32, 3)])
def test_frames_of_another_size_are_refused(untrained, shape):
    with pytest.raises(BadInput, match=r"reads \(time, 32, 32, 3\)"):
        estimate(untrained, np.zeros(shape, dtype=np.uint8), camera_of("front", 32), 24.0)


def test_a_checkpoint_gives_the_same_estimate(untrained, frames, tmp_path, same):
    path = save_estimator(untrained, tmp_path / "estimator.safetensors", seed=0)
    loaded = load_estimator(path)
    assert loaded.config == untrained.config
    same(
        estimate(loaded, frames, camera_of("front", 32), 24.0),
        estimate(untrained, frames, camera_of("front", 32), 24.0),
    )


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
    config = EstimatorConfig(**(TINY | {"noise": 0.06, "blur": 0.7}), steps=8, checkpoint_every=3)
    whole = train_estimator(tiny_stack, config, tmp_path / "whole", seed=2)
    kill_at_checkpoint(train_estimator, tiny_stack, config, tmp_path / "killed", seed=2)
    assert read_tensors(tmp_path / "killed" / "state.safetensors")[1]["progress"]["step"] == 3
    resumed = train_estimator(tiny_stack, config, tmp_path / "killed", seed=2)
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values()):
        assert torch.equal(a, b)
    metas = [read_tensors(tmp_path / name / "state.safetensors")[1] for name in ("whole", "killed")]
    assert metas[0]["progress"] == metas[1]["progress"]
    assert metas[0]["optimizers"] == metas[1]["optimizers"]
