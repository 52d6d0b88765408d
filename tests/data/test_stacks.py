"""Stacks hold the episodes' arrays, are kept beside them, and notice when the folder grows."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from dexprior.artifacts import save
from dexprior.data.episodes import append_index, read_episodes, write_episode
from dexprior.data.stacks import load_stack, resized_camera, shrink, stack_episodes
from dexprior.errors import BadInput
from dexprior.geometry.transforms import project
from dexprior.types import Camera, Episode, HandTrajectory


@pytest.fixture(scope="module")
def episodes(example_makers):
    return [example_makers(n=5, seed=seed, size=64)[Episode] for seed in range(3)]


@pytest.fixture
def folder(tmp_path, episodes):
    for number, episode in enumerate(episodes):
        write_episode(tmp_path, number, episode, producer="test")
        append_index(tmp_path, {"number": number, "kept": True})
    return tmp_path


def assert_stacks_equal(a, b, same) -> None:
    for field in dataclasses.fields(a):
        same(getattr(a, field.name), getattr(b, field.name))


def test_a_stack_is_its_episodes(episodes, same):
    stack = stack_episodes(episodes, 64)
    assert len(stack) == 3
    for k, episode in enumerate(episodes):
        np.testing.assert_array_equal(stack.frames[k], episode.sample.frames)
        np.testing.assert_array_equal(stack.joints[k], episode.sample.hand.joints)
        np.testing.assert_array_equal(stack.object_pose[k], episode.sample.object.pose)
        np.testing.assert_array_equal(stack.bolt[k], episode.info["bolt"])
        same(stack.conditions[k], episode.condition)
    assert stack.fps == 24.0


@pytest.mark.parametrize("ids", [[2, 0], slice(1, 3), np.array([True, False, True]), [-1]])
def test_parts_of_a_stack(ids, episodes, same):
    stack = stack_episodes(episodes, 32)
    chosen = np.arange(3)[ids]
    assert_stacks_equal(stack[ids], stack_episodes([episodes[i] for i in chosen], 32), same)


def test_clips_of_several_lengths_or_rates_cannot_be_stacked(episodes, example_makers):
    with pytest.raises(BadInput, match=r"clips of \[4, 5\] frames at \[24.0\] fps cannot be stacked"):
        stack_episodes([episodes[0], example_makers(n=4, size=64)[Episode]], 64)
    slow = dataclasses.replace(episodes[0], sample=dataclasses.replace(episodes[0].sample, fps=12.0))
    with pytest.raises(BadInput, match=r"at \[12.0, 24.0\] fps"):
        stack_episodes([episodes[0], slow], 64)


def test_what_is_kept_equals_what_is_decoded(folder, same):
    decoded = load_stack(folder, 32)
    assert (folder / "stack-32.safetensors").exists()
    assert_stacks_equal(load_stack(folder, 32), decoded, same)
    assert_stacks_equal(stack_episodes(list(read_episodes(folder)), 32), decoded, same)


def test_the_kept_stack_is_read_without_the_videos(folder, same):
    before = load_stack(folder, 32)
    for video in folder.glob("*.mp4"):
        video.unlink()
    assert_stacks_equal(load_stack(folder, 32), before, same)


def test_a_folder_that_has_grown_is_stacked_again(folder, episodes):
    assert len(load_stack(folder, 32)) == 3
    write_episode(folder, 3, episodes[0], producer="test")
    append_index(folder, {"number": 3, "kept": True})
    assert len(load_stack(folder, 32)) == 4


def test_each_size_has_its_own(folder):
    assert load_stack(folder, 32).frames.shape[2:] == (32, 32, 3)
    assert load_stack(folder, 16).frames.shape[2:] == (16, 16, 3)


def test_shrinking_averages_blocks():
    frames = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    small = shrink(frames, 4)
    assert small.dtype == np.uint8
    np.testing.assert_array_equal(small[1, 2, 3], frames[1, 4:6, 6:8].mean(axis=(0, 1)).round())
    np.testing.assert_array_equal(shrink(frames, 8), frames)
    np.testing.assert_array_equal(shrink(np.full((1, 8, 8, 3), 7, np.uint8), 2), np.full((1, 2, 2, 3), 7, np.uint8))


@pytest.mark.parametrize(("shape", "size"), [((1, 8, 8, 3), 3), ((1, 8, 4, 3), 4), ((1, 8, 8, 3), 16)])
def test_impossible_sizes(shape, size):
    with pytest.raises(BadInput, match=f"frames of 8x{shape[2]} px cannot be averaged to {size}x{size}"):
        shrink(np.zeros(shape, np.uint8), size)


def test_a_resized_camera_sees_the_same_picture(examples):
    camera = examples[Camera]
    point = camera.T_base_cam[:3, 3] + camera.T_base_cam[:3, :3] @ [0.1, 0.2, 1.0]
    big = resized_camera(camera, 4 * camera.width)
    np.testing.assert_allclose(project(big.K, big.T_base_cam, point), 4 * project(camera.K, camera.T_base_cam, point))
    assert (big.width, big.height) == (4 * camera.width, 4 * camera.width)


def test_a_stack_file_is_no_typed_value(folder, examples):
    """Kept stacks are our own format: nobody mistakes them for an artifact."""
    from dexprior.artifacts import load
    from dexprior.errors import ArtifactError

    load_stack(folder, 32)
    with pytest.raises(ArtifactError, match="no dexprior header"):
        load(folder / "stack-32.safetensors", HandTrajectory)
    save(examples[HandTrajectory], folder / "hand", producer="test")
    assert json.loads((folder / "index.jsonl").read_text().splitlines()[0])["number"] == 0
