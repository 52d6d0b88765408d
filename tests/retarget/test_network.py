"""The retargeting network keeps the symmetries of its task and closes when the human does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dexprior.artifacts import read_tensors
from dexprior.data.objects import rigid_object
from dexprior.errors import ArtifactError
from dexprior.geometry.rotations import matrix_from_quat, rotation_angle
from dexprior.hands.skeleton import forward
from dexprior.retarget.losses import follow_gripper
from dexprior.retarget.network import (
    RetargetConfig,
    Retargeter,
    hand_features,
    human_contact,
    load_retargeter,
    save_retargeter,
    tool_trajectory,
    train_retargeter,
)
from dexprior.types import HandTrajectory, ObjectTrajectory

N, FPS = 24, 24.0
pytestmark = pytest.mark.usefixtures("one_thread")


def _hand(joints, contact=None, force=None) -> HandTrajectory:
    n = len(joints)
    return HandTrajectory(
        t=np.arange(n) / FPS, side="right", wrist_pose=np.tile([0.4, 0, 0.1, 1, 0, 0, 0], (n, 1)),
        finger_pose=np.zeros((n, 45)), betas=np.zeros(10), joints=joints,
        contact=np.zeros((n, 5)) if contact is None else contact,
        force=np.zeros((n, 5)) if force is None else force, valid=np.ones(n, dtype=bool),
        sigma=np.zeros((n, 21)), scale_known=True,
    )  # fmt: skip


def _object(position) -> ObjectTrajectory:
    n = len(position)
    pose = np.concatenate([position, np.tile([1.0, 0, 0, 0], (n, 1))], axis=1)
    return rigid_object("nut", np.arange(n) / FPS, pose)


@pytest.fixture
def wild():
    """A network of chance: what it obeys, it obeys by construction."""
    torch.manual_seed(0)
    model = Retargeter(RetargetConfig(width=16)).eval()
    with torch.no_grad():
        model.head.weight.normal_(0, 0.3)
    return model


@pytest.fixture
def scene():
    """A hand on its way to an object."""
    rng = np.random.default_rng(0)
    wrist = np.tile([0.45, -0.1, 0.2, 1.0, 0, 0, 0], (N, 1))
    wrist[:, :3] += np.linspace(0, 1, N)[:, None] * [0.02, 0.1, -0.05]
    joints = forward(wrist, np.tile(rng.normal(0, 0.1, 45), (N, 1)))
    contact = (np.arange(N) > 12)[:, None] * np.ones(5)
    position = np.tile([0.45, -0.1, 0.012], (N, 1))
    return _hand(joints, contact, 3.0 * contact), _object(position)


def test_moving_hand_and_object_moves_the_tool(wild, scene):
    hand, held = scene
    shift = np.array([0.07, -0.13, 0.0])
    tool, opening = tool_trajectory(wild, hand, held)
    pose = held.pose.copy()
    pose[:, :3] += shift
    moved, same_opening = tool_trajectory(
        wild, replace(hand, joints=hand.joints + shift), replace(held, pose=pose, points=held.points + shift)
    )
    np.testing.assert_allclose(moved[:, :3], tool[:, :3] + shift, atol=1e-6)
    np.testing.assert_allclose(moved[:, 3:], tool[:, 3:], atol=1e-9)
    np.testing.assert_allclose(same_opening, opening, atol=1e-6)


def test_the_gripper_points_down_with_its_pads_along_the_pinch(wild, scene):
    hand, held = scene
    tool, _ = tool_trajectory(wild, hand, held)
    R = matrix_from_quat(tool[:, 3:])
    np.testing.assert_allclose(R[:, :, 2], np.tile([0, 0, -1.0], (N, 1)), atol=1e-9)
    _, _, direction = hand_features(hand.joints, hand.contact, hand.force, held.pose[:, :3], 1 / FPS)
    along = np.abs((R[:, :2, 1] * direction).sum(-1))
    assert along.min() > 0.99


def _pinching(angle) -> HandTrajectory:
    """A hand whose thumb and fingers close along a horizontal angle [rad] a frame."""
    angle = np.broadcast_to(angle, (N,))
    axis = np.stack([np.cos(angle), np.sin(angle), 0 * angle], -1)
    joints = np.tile([0.45, -0.1, 0.05], (N, 21, 1))
    joints[:, 4] -= 0.03 * axis
    joints[:, 8:13:4] += 0.03 * axis[:, None]
    return _hand(joints)


@pytest.mark.parametrize("angle", np.linspace(-np.pi, np.pi, 9)[:-1] + 0.3)
def test_half_a_turn_of_the_hand_is_no_turn_of_the_gripper(wild, scene, angle):
    here, _ = tool_trajectory(wild, _pinching(angle), scene[1])
    there, _ = tool_trajectory(wild, _pinching(angle + np.pi), scene[1])
    assert rotation_angle(here[:, 3:], there[:, 3:]).max() < 1e-6


@pytest.mark.parametrize("flips", [0, 1])
def test_the_tool_does_not_turn_over_when_the_pinch_passes_the_x_axis(wild, scene, flips):
    """A trembling pinch along x flips between the two halves; the gripper must follow the line, not the sign."""
    angle = 0.1 * np.sin(np.arange(N)) + np.pi * flips * (np.arange(N) % 5 == 0)
    tool, _ = tool_trajectory(wild, _pinching(angle), scene[1])
    y = matrix_from_quat(tool[:, 3:])[:, :, 1]
    assert np.abs(y[:, 0]).min() > 0.99
    assert rotation_angle(tool[1:, 3:], tool[:-1, 3:]).max() < 0.1


def test_features_know_no_place(scene):
    hand, held = scene
    args = (hand.contact, hand.force)
    features, pinch, _ = hand_features(hand.joints, *args, held.pose[:, :3], 1 / FPS)
    shift = np.array([1.0, 2.0, 3.0])
    moved, moved_pinch, _ = hand_features(hand.joints + shift, *args, held.pose[:, :3] + shift, 1 / FPS)
    np.testing.assert_allclose(moved, features, atol=1e-9)
    np.testing.assert_allclose(moved_pinch, pinch + shift)


def test_openings_stay_within_the_gripper_and_a_squeeze(wild, scene):
    _, opening = tool_trajectory(wild, *scene)
    config = wild.config
    assert opening.max() <= config.max_opening
    assert opening.min() >= config.object_width - 0.020 - config.max_opening


def test_a_human_holds_with_thumb_and_an_opposing_finger():
    contact = np.zeros((1, 6, 5))
    contact[0, 1:, 0] = 1.0  # thumb alone holds nothing
    contact[0, 3:, 2] = 1.0
    contact[0, 4, 2] = 0.5  # hesitation within the hysteresis
    holds, force = human_contact(contact, 2.0 * contact)
    np.testing.assert_array_equal(holds[0], [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(force[0], 2.0 * contact[0, :, 0])


@pytest.fixture(scope="module")
def trained(tiny_stack, tmp_path_factory):
    config = RetargetConfig(steps=150, batch=8)
    return train_retargeter(tiny_stack[:6], config, tmp_path_factory.mktemp("retarget"), seed=0)


def test_after_150_steps_it_closes_when_the_human_does_on_clips_that_it_never_saw(trained, tiny_stack):
    """Within 60 ms, for a gripper that is no faster than the real one."""
    unseen = tiny_stack[6:]
    holds, _ = human_contact(unseen.contact, unseen.force)
    for k in range(len(unseen)):
        hand = _hand(unseen.joints[k], unseen.contact[k], unseen.force[k])
        _, opening = tool_trajectory(trained, hand, _object(unseen.points[k].mean(axis=1)))
        reached = follow_gripper(torch.from_numpy(opening)[None], 1 / FPS)[0].numpy()
        human = np.argmax(holds[k] > 0.5)
        assert human > 0
        gap = reached - trained.config.object_width
        after = np.argmax(gap < 0)
        robot = after - gap[after] / (gap[after] - gap[after - 1])  # between two frames
        assert abs(robot - human) / FPS < 0.060, f"clip {k}: human at frame {human}, robot at {robot:.1f}"


def test_a_checkpoint_gives_the_same_tool(wild, scene, tmp_path):
    loaded = load_retargeter(save_retargeter(wild, tmp_path / "retargeter.safetensors", seed=0))
    assert loaded.config == wild.config
    for a, b in zip(tool_trajectory(wild, *scene), tool_trajectory(loaded, *scene)):
        np.testing.assert_array_equal(a, b)
    (tmp_path / "damaged.safetensors").write_bytes(b"not a network")
    with pytest.raises(ArtifactError, match="not a dexprior file"):
        load_retargeter(tmp_path / "damaged.safetensors")


def test_a_killed_run_equals_an_uninterrupted_one(tiny_stack, tmp_path, kill_at_checkpoint):
    config = RetargetConfig(width=16, steps=8, batch=4, checkpoint_every=3)
    whole = train_retargeter(tiny_stack, config, tmp_path / "whole", seed=1)
    kill_at_checkpoint(train_retargeter, tiny_stack, config, tmp_path / "killed", seed=1)
    assert read_tensors(tmp_path / "killed" / "state.safetensors")[1]["progress"]["step"] == 3
    resumed = train_retargeter(tiny_stack, config, tmp_path / "killed", seed=1)
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values()):
        assert torch.equal(a, b)
