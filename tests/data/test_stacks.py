"""Stacks hold the episodes' arrays, are kept beside them, and notice when the folder grows."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from pictured import pictured_episode

from dexprior.artifacts import read_tensors, save, write_tensors
from dexprior.data.episodes import append_index, read_episodes, write_episode
from dexprior.data.shards import ShardWriter, SplitConfig, open_episodes, split_of
from dexprior.data.stacks import load_stack, resized, resized_camera, split_stack, stack_episodes
from dexprior.errors import BadInput
from dexprior.geometry.transforms import IDENTITY_POSE, project
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
        np.testing.assert_array_equal(stack.joints[k, :, 0], episode.sample.hand.joints)
        np.testing.assert_array_equal(stack.points[k], episode.sample.object.points)
        np.testing.assert_array_equal(stack.hand_known[k, :, 0], episode.sample.hand.valid)
        same(stack.conditions[k], episode.condition)
        assert stack.info[k] == episode.info
    assert stack.valid.all()
    assert stack.touch_known.all()
    assert stack.fps == 24.0


def test_what_further_cameras_saw_is_beside_the_clips_where_they_saw_all(folder, episodes, same):
    """Kept and cut with them."""
    stack = load_stack(folder, 24)
    names = [view.name for view in episodes[0].views if view.frames is not None]
    assert list(stack.views) == names
    again, plain = load_stack(folder, 24), stack_episodes(episodes, 24)
    for name in names:
        np.testing.assert_array_equal(again.views[name].frames, stack.views[name].frames)
        assert np.abs(plain.views[name].frames.astype(int) - stack.views[name].frames).mean() < 12  # the codec's part
        for one in (again, plain):
            same(one.views[name].cameras[0], stack.views[name].cameras[0])
    part = stack[1:]
    for view, told in zip(episodes[1].views, part.views_of(0)):
        assert told.name == view.name
        same(told.camera, resized_camera(view.camera, 24))
        assert len(told) == len(episodes[1].sample.frames)
    assert not stack_episodes([episodes[0], dataclasses.replace(episodes[1], views=())], 24).views


def test_clips_keep_their_length(episodes, example_makers):
    short = example_makers(n=3, size=64)[Episode]
    stack = stack_episodes([episodes[0], short], 64)
    np.testing.assert_array_equal(stack.length, [5, 3])
    np.testing.assert_array_equal(stack.seen(1), short.sample.frames)
    np.testing.assert_array_equal(stack.frames[1, 3:], short.sample.frames[[2, 2]])  # the last one again
    np.testing.assert_array_equal(stack.wrist_pose[1, :3, 0], short.sample.hand.wrist_pose)
    assert not stack.hand_known[1, 3:].any()
    assert not stack.object_known[1, 3:].any()


def test_a_camera_keeps_its_path(folder, tmp_path_factory, same):
    where = tmp_path_factory.mktemp("walks")
    walks = pictured_episode(walks=True)
    write_episode(where, 0, walks, producer="test")
    append_index(where, {"number": 0, "kept": True})
    for _ in range(2):  # decoded, then kept
        camera = load_stack(where, 32).conditions[0].camera
        np.testing.assert_array_equal(camera.T_base_cam, walks.sample.camera.T_base_cam)
        assert camera.width == 32


def test_failures_are_left_out_and_counted(episodes):
    failed = dataclasses.replace(episodes[1], info={"success": False})
    stack = stack_episodes([failed, episodes[0]], 32, ids=["a", "b"])
    assert stack.ids == ("b",)
    assert stack.left_out == {"failed": 1}
    np.testing.assert_array_equal(stack.joints[0, :, 0], episodes[0].sample.hand.joints)
    with pytest.raises(BadInput, match="no clip to train on; 1 episodes failed"):
        stack_episodes([failed], 32)


@pytest.fixture(scope="module")
def mixed(episodes):
    """A right hand, a left one, and both."""
    return [episodes[0], with_hands(episodes[1], "left"), with_hands(episodes[2], "right", "left")]


def test_every_side_that_a_clip_shows_has_its_place(mixed, episodes):
    stack = stack_episodes(mixed, 32)
    assert stack.sides == ("right", "left")
    np.testing.assert_array_equal(stack.shows, [[True, False], [False, True], [True, True]])
    for k, episode in enumerate(mixed):
        for h, side in enumerate(stack.sides):
            if stack.shows[k, h]:
                hand = episode.sample.of_side(side)
                np.testing.assert_array_equal(stack.joints[k, :, h], hand.joints)
                np.testing.assert_array_equal(stack.hand_known[k, :, h], hand.valid)
                assert stack.hand_of(k, side) == h
            else:
                assert not stack.hand_known[k, :, h].any()
                np.testing.assert_array_equal(stack.wrist_pose[k, :, h], np.tile(IDENTITY_POSE, (5, 1)))
    assert [stack.hand_of(k) for k in range(2)] == [0, 1]
    with pytest.raises(BadInput, match="clip 000002 shows a right hand and a left hand: choose one by its side"):
        stack.hand_of(2)
    with pytest.raises(BadInput, match="clip 000000 shows a right hand: no left one"):
        stack.hand_of(0, "left")
    assert stack_episodes(mixed[:1], 32).wrist_pose.shape[2] == 1  # one place where one side is shown
    assert stack_episodes(mixed[1:2], 32).sides == ("left",)


def test_the_clips_of_one_side(mixed, same):
    stack = stack_episodes(mixed, 32)
    left = stack.of_sides(["left"])
    assert left.ids == ("000001", "000002")
    assert left.sides == ("left",)
    assert left.left_out == {"other hand": 2}  # one clip, and the right hand of another
    for k, episode in enumerate(mixed[1:]):
        np.testing.assert_array_equal(left.joints[k, :, 0], episode.sample.of_side("left").joints)
        assert [hand.side for hand in left.conditions[k].start + left.conditions[k].target] == ["left", "left"]
    assert stack.of_sides(["left", "right"]) is stack
    right = stack_episodes(mixed[:1], 32)
    assert right.of_sides(["right", "left"]) is right
    with pytest.raises(BadInput, match="no clip shows a left hand; they show: right"):
        right.of_sides(["left"])


def test_a_kept_stack_of_two_hands_is_what_was_stacked(mixed, tmp_path, same):
    for number, episode in enumerate(mixed):
        write_episode(tmp_path, number, episode, producer="test")
        append_index(tmp_path, {"number": number, "kept": True})
    decoded = load_stack(tmp_path, 16)
    assert_stacks_equal(load_stack(tmp_path, 16), decoded, same)
    assert_stacks_equal(stack_episodes(list(read_episodes(tmp_path)), 16), decoded, same)


def with_hands(episode: Episode, *sides: str) -> Episode:
    """The same, showing its hand as one of another side, or twice."""
    sample, asked = episode.sample, episode.condition
    hands = [dataclasses.replace(sample.hand, side=s, joints=sample.hand.joints + k) for k, s in enumerate(sides)]
    at = [tuple(dataclasses.replace(c[0], side=s) for s in sides) for c in (asked.start, asked.target)]
    return dataclasses.replace(
        episode,
        sample=dataclasses.replace(sample, hands=hands),
        condition=dataclasses.replace(asked, start=at[0], target=at[1]),
    )


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
