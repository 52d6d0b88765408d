"""Stacks hold the episodes' arrays, are kept beside them, and notice when the folder grows."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from dexprior.artifacts import read_tensors, save, write_tensors
from dexprior.data.episodes import append_index, read_episodes, write_episode
from dexprior.data.shards import ShardWriter, SplitConfig, open_episodes, split_of
from dexprior.data.stacks import load_stack, resized, resized_camera, split_stack, stack_episodes
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
        np.testing.assert_array_equal(stack.points[k], episode.sample.object.points)
        np.testing.assert_array_equal(stack.hand_known[k], episode.sample.hand.valid)
        same(stack.conditions[k], episode.condition)
        assert stack.info[k] == episode.info
    assert stack.valid.all()
    assert stack.touch_known.all()
    assert stack.fps == 24.0


def test_clips_keep_their_length(episodes, example_makers):
    short = example_makers(n=3, size=64)[Episode]
    stack = stack_episodes([episodes[0], short], 64)
    np.testing.assert_array_equal(stack.length, [5, 3])
    np.testing.assert_array_equal(stack.seen(1), short.sample.frames)
    np.testing.assert_array_equal(stack.frames[1, 3:], short.sample.frames[[2, 2]])  # the last one again
    np.testing.assert_array_equal(stack.wrist_pose[1, :3], short.sample.hand.wrist_pose)
    assert not stack.hand_known[1, 3:].any()
    assert not stack.object_known[1, 3:].any()


def test_failures_and_left_hands_are_left_out_and_counted(episodes):
    failed = dataclasses.replace(episodes[1], info={"success": False})
    hand = dataclasses.replace(episodes[2].sample.hand, side="left")
    left = dataclasses.replace(episodes[2], sample=dataclasses.replace(episodes[2].sample, hand=hand))
    stack = stack_episodes([failed, episodes[0], left], 32, ids=["a", "b", "c"])
    assert stack.ids == ("b",)
    assert stack.left_out == {"failed": 1, "left hand": 1}
    np.testing.assert_array_equal(stack.joints[0], episodes[0].sample.hand.joints)
    with pytest.raises(BadInput, match="no clip to train on; 1 episodes failed"):
        stack_episodes([failed], 32)
    with pytest.raises(BadInput, match="no clip to train on; all show left hands"):
        stack_episodes([left], 32)


def test_what_was_not_recorded_is_masked(episodes):
    blind = dataclasses.replace(episodes[0], info={"not_recorded": ["touch", "wrench"]})
    assert stack_episodes([episodes[0], blind], 32).touch_known.tolist() == [True, False]


def test_what_is_held_out_is_the_test_split(folder):
    stack = load_stack(folder, 16)
    rows = [open_episodes(folder).row(k) for k in range(3)]
    settings = SplitConfig(validation=0.0, test=float(np.sort(stack.place)[1]))
    held = [row["id"] for row in rows if split_of(row, settings) == "test"]
    assert list(split_stack(stack, settings.test)[1].ids) == held


def test_the_split_is_a_function_of_the_ids(episodes):
    ids = [f"e{k}" for k in range(40)]
    stack = stack_episodes([episodes[k % 3] for k in range(40)], 16, ids=ids)
    train, held_out = split_stack(stack, 0.25)
    assert sorted([*train.ids, *held_out.ids]) == sorted(ids)
    assert 4 <= len(held_out) <= 16
    _, again = split_stack(stack[::-1], 0.25)
    assert set(again.ids) == set(held_out.ids)  # in whatever order
    _, fewer = split_stack(stack[:20], 0.25)
    assert set(fewer.ids) == set(held_out.ids) & set(ids[:20])  # whatever else is there
    for holdout in (0.0, 0.9999):
        assert min(map(len, split_stack(stack[:2], holdout))) == 1
    with pytest.raises(BadInput, match="1 clips cannot be split"):
        split_stack(stack[:1], 0.5)


@pytest.mark.parametrize("ids", [[2, 0], slice(1, 3), np.array([True, False, True]), [-1]])
def test_parts_of_a_stack(ids, episodes, same):
    stack = stack_episodes(episodes, 32)
    chosen = np.arange(3)[ids]
    names = [f"{i:06d}" for i in chosen]
    assert_stacks_equal(stack[ids], stack_episodes([episodes[i] for i in chosen], 32, ids=names), same)


def test_clips_of_several_rates_or_with_other_points_cannot_be_stacked(episodes):
    slow = dataclasses.replace(episodes[0], sample=dataclasses.replace(episodes[0].sample, fps=12.0))
    with pytest.raises(BadInput, match="clips at 12, 24 frames a second: not one rate"):
        stack_episodes([episodes[0], slow], 64)
    thing = episodes[0].sample.object
    few = dataclasses.replace(
        episodes[0],
        sample=dataclasses.replace(episodes[0].sample, object=dataclasses.replace(thing, points=thing.points[:, :7])),
    )
    with pytest.raises(BadInput, match=r"points of episode '000001' has the shape \(5, 7, 3\)"):
        stack_episodes([episodes[0], few], 64)


def test_what_is_kept_equals_what_is_decoded(folder, same):
    decoded = load_stack(folder, 32)
    assert (folder / "stack-32.safetensors").exists()
    assert_stacks_equal(load_stack(folder, 32), decoded, same)
    assert_stacks_equal(stack_episodes(list(read_episodes(folder)), 32), decoded, same)


def test_shards_and_folders_give_the_same_clips(folder, episodes, tmp_path_factory, same):
    shards = tmp_path_factory.mktemp("shards")
    with ShardWriter(shards, producer="test") as writer:
        for number, episode in enumerate(episodes):
            writer.write(f"{number:06d}", episode)
    assert_stacks_equal(load_stack(shards, 32), load_stack(folder, 32), same)


def test_a_stack_of_an_earlier_version_is_made_anew(folder, same):
    whole = load_stack(folder, 32)
    kept = folder / "stack-32.safetensors"
    tensors, meta = read_tensors(kept)
    del meta["version"], tensors["points"]
    write_tensors(kept, tensors, meta)
    assert_stacks_equal(load_stack(folder, 32), whole, same)


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


def test_resizing_averages_what_a_pixel_covers():
    frames = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    small = resized(frames, 4)
    assert small.dtype == np.uint8
    np.testing.assert_array_equal(small[1, 2, 3], frames[1, 4:6, 6:8].mean(axis=(0, 1)).round())
    np.testing.assert_array_equal(resized(frames, 8), frames)


@pytest.mark.parametrize(("height", "width"), [(8, 8), (7, 11), (3, 20)])
@pytest.mark.parametrize("size", [2, 5, 8, 13])
def test_resizing_keeps_plain_colours_and_the_mean(height, width, size):
    np.testing.assert_array_equal(resized(np.full((1, height, width, 3), 7, np.uint8), size), 7)
    frames = np.random.default_rng(0).integers(0, 256, (1, height, width, 3), dtype=np.uint8)
    assert resized(frames, size).mean() == pytest.approx(frames.mean(), abs=0.5)


def test_a_resized_camera_sees_the_same_picture(examples):
    camera = examples[Camera]
    point = camera.T_base_cam[:3, 3] + camera.T_base_cam[:3, :3] @ [0.1, 0.2, 1.0]
    big = resized_camera(camera, 4 * camera.width)
    np.testing.assert_allclose(project(big.K, big.T_base_cam, point), 4 * project(camera.K, camera.T_base_cam, point))
    assert (big.width, big.height) == (4 * camera.width, 4 * camera.width)
    wide = dataclasses.replace(camera, width=2 * camera.width)
    square = resized_camera(wide, 30)  # the whole picture, in another shape
    shares = project(square.K, square.T_base_cam, point) / 30
    np.testing.assert_allclose(shares, project(wide.K, wide.T_base_cam, point) / [wide.width, wide.height])


def test_a_stack_file_is_no_typed_value(folder, examples):
    """Kept stacks are our own format: nobody mistakes them for an artifact."""
    from dexprior.artifacts import load
    from dexprior.errors import ArtifactError

    load_stack(folder, 32)
    with pytest.raises(ArtifactError, match="no dexprior header"):
        load(folder / "stack-32.safetensors", HandTrajectory)
    save(examples[HandTrajectory], folder / "hand", producer="test")
    assert json.loads((folder / "index.jsonl").read_text().splitlines()[0])["number"] == 0
