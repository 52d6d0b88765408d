"""Each planted defect is found and named; clean episodes raise no alarm."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
from pictured import camera_at, pictured_episode, two_handed_episode

from dexprior.artifacts import read_tensors, write_tensors
from dexprior.data.clips import write_clip
from dexprior.data.episodes import append_index, read_episode, write_episode
from dexprior.data.shards import ShardWriter
from dexprior.data.validate import Problem, SeenHands, ValidationConfig, check_episode, validate
from dexprior.errors import ArtifactError
from dexprior.geometry.transforms import project
from dexprior.types import Episode

SETTINGS = ValidationConfig()


def check(episode: Episode, **settings) -> list[Problem]:
    return check_episode("e", episode, SETTINGS, **settings)


def kinds(problems: list[Problem]) -> set[str]:
    return {problem.kind for problem in problems}


def changed(episode: Episode, *, hand=None, **sample) -> Episode:
    """Other values in the sample or its hand."""
    if hand:
        sample["hands"] = (dataclasses.replace(episode.sample.hand, **hand),)
    return dataclasses.replace(episode, sample=dataclasses.replace(episode.sample, **sample))


def colourless(frames: np.ndarray) -> np.ndarray:
    """Grey pictures: no pixel has the colour of skin."""
    return np.repeat(frames.mean(axis=-1, keepdims=True).round().astype(np.uint8), 3, axis=-1)


@pytest.fixture(scope="module")
def clean() -> Episode:
    return pictured_episode(0)


@pytest.fixture
def folder(tmp_path) -> Path:
    for number in range(4):
        write_episode(tmp_path, number, pictured_episode(number), producer="test")
        append_index(tmp_path, {"number": number, "kept": True})
    return tmp_path


# --- no false alarms ---


def test_clean_folders_have_no_problem(folder, tmp_path):
    assert validate(folder) == []
    with ShardWriter(tmp_path / "shards", producer="test") as writer:
        for number in range(4):
            writer.write(f"e{number}", pictured_episode(number, side=("right", "left")[number % 2]))
    assert validate(tmp_path / "shards") == []


@pytest.mark.parametrize("size", [48, 64, 96])
def test_clean_episodes_of_any_size(size):
    for seed in range(4):
        assert check(pictured_episode(seed, size=size)) == []


@pytest.mark.slow
def test_generated_demonstrations_have_no_problem(graphics, tmp_path):
    from dexprior.data.demonstrating import TaskDemonstrationConfig, generate_demonstrations

    generate_demonstrations("pick_place", TaskDemonstrationConfig(n=8, size=96, workers=1), tmp_path, seed=1)
    assert validate(tmp_path) == []


def test_a_camera_that_moves_raises_no_alarm_and_one_with_the_path_of_another_does(folder):
    walks = pictured_episode(1, walks=True)
    assert check(walks) == []
    camera = walks.sample.camera
    back = dataclasses.replace(camera, T_base_cam=camera.T_base_cam[::-1])
    (problem,) = check(changed(walks, camera=back))
    assert problem.kind == "reprojection"
    assert check(changed(walks, camera=back, frames=colourless(walks.sample.frames))) == []  # nothing tells the hand


def test_each_of_two_hands_is_checked():
    both = two_handed_episode()
    assert check(both) == []
    right, left = both.sample.hands
    away = dataclasses.replace(left, joints=left.joints + np.array([0.0, -0.04, 0.08]))
    assert kinds(check(changed(both, hands=(right, away)))) == {"reprojection"}
    bent = dataclasses.replace(left, joints=(left.joints - left.joints[:, :1]) * [1, -1, 1] + left.joints[:, :1])
    assert "side" in kinds(check(changed(both, hands=(right, bent))))
    camera = both.sample.camera

    def seen(hand):
        image = project(camera.K, camera.T_base_cam, hand.joints) / [camera.width, camera.height]
        return lambda frames: SeenHands(image, np.full(24, float(hand.side == "right")))

    for hand in both.sample.hands:  # a detector sees one hand, whichever
        alone = dataclasses.replace(both, views=())
        assert check(alone, detect=seen(hand)) == []
    (problem,) = check(dataclasses.replace(both, views=()), detect=seen(away))
    assert problem.kind == "reprojection"


# --- planted defects ---


def test_wrong_fps(clean, folder):
    (problem,) = check(changed(clean, fps=30.0))
    assert (problem.kind, problem.episode) == ("fps", "e")
    assert "the clip says 30 frames per second, the hand's time stamps 24" in problem.reason
    write_clip(folder / "000002.mp4", read_episode(folder, 2).sample.frames, 15.0)
    write_clip(folder / "000003.other.mp4", read_episode(folder, 3).views[0].frames, 25.0)
    assert [str(problem) for problem in validate(folder)] == [
        "000002: fps: the video shows 15 frames per second, the episode says 24",
        "000003: fps: the video of view 'other' shows 25 frames per second, the episode says 24",
    ]


@pytest.mark.parametrize("stream", ["wrench", "object"])
def test_drifting_clocks(clean, stream):
    t = clean.sample.hand.t
    late = t * 1.03
    if stream == "wrench":
        episode = dataclasses.replace(clean, wrench=dataclasses.replace(clean.wrench, t=late))
    else:
        episode = changed(clean, object=dataclasses.replace(clean.sample.object, t=late))
    (problem,) = check(episode)
    assert problem.kind == "clock"
    assert f"the {stream}'s clock is +29 ms from the video's at frame 23" in problem.reason
    assert "+30.0 ms a second" in problem.reason


def test_a_dropped_frame_is_a_clock_that_jumps(clean):
    t = clean.sample.hand.t.copy()
    t[12:] += 1 / 24
    assert kinds(check(changed(clean, hand={"t": t}))) == {"clock"}


def test_jitter_below_half_a_frame_is_none(clean):
    t = clean.sample.hand.t + np.random.default_rng(0).uniform(-0.2, 0.2, 24) / 24
    assert check(changed(clean, hand={"t": t})) == []


def test_millimetres(clean):
    joints, wrist = clean.sample.hand.joints * 1000, clean.sample.hand.wrist_pose.copy()
    wrist[:, :3] *= 1000
    problems = check(changed(clean, hand={"joints": joints, "wrist_pose": wrist}))
    assert "scale" in kinds(problems)
    assert any("the palm is 92 m long (millimetres?)" in problem.reason for problem in problems)


def test_a_cloud_that_is_not_metric(clean):
    cloud = clean.condition.cloud.copy()
    cloud[:, :3] /= 1000
    condition = dataclasses.replace(clean.condition, cloud=cloud)
    assert kinds(check(dataclasses.replace(clean, condition=condition))) == {"scale"}
    cloud[:, :3] = clean.condition.cloud[:, :3] + [5.0, 0, 0]
    condition = dataclasses.replace(clean.condition, cloud=cloud)
    (problem,) = check(dataclasses.replace(clean, condition=condition))
    assert "the hand never comes closer than" in problem.reason


def test_depth_in_millimetres(clean):
    depth = np.full((24, 64, 64), 700.0, np.float32)
    view = dataclasses.replace(clean.views[0], depth=depth)
    (problem,) = check(dataclasses.replace(clean, views=(view,)))
    assert (problem.kind, problem.reason) == ("scale", "view 'other': the median depth is 700 m: is it in metres?")


def test_a_landmark_file_without_scale_is_not_asked_for_one(clean):
    hand = {"joints": clean.sample.hand.joints * 3.0, "scale_known": False}
    assert "scale" not in kinds(check(changed(clean, hand=hand)))


@pytest.mark.parametrize(("is_", "labelled"), [("left", "right"), ("right", "left")])
def test_swapped_hands(is_, labelled):
    episode = pictured_episode(1, side=is_)
    (problem,) = check(changed(episode, hand={"side": labelled}))
    assert problem.kind == "side"
    assert f"fingers of this {labelled} hand bend" in problem.reason
    assert f"it is a {is_} hand, or mirrored" in problem.reason


@pytest.mark.parametrize("defect", ["mirrored picture", "other frame", "late video", "moved camera", "another clip's"])
def test_frames_of_reference_that_disagree_with_the_video(clean, defect):
    frames, hand = clean.sample.frames, clean.sample.hand
    if defect == "mirrored picture":
        episode = changed(clean, frames=frames[:, :, ::-1])
    elif defect == "other frame":
        joints = (hand.joints - [0.45, 0, 0]) @ np.array([[0, -1.0, 0], [1, 0, 0], [0, 0, 1]]) + [0.45, 0, 0]
        episode = changed(clean, hand={"joints": joints})
    elif defect == "late video":
        episode = changed(clean, frames=np.concatenate([np.repeat(frames[:1], 9, axis=0), frames[:-9]]))
    elif defect == "moved camera":
        T = clean.sample.camera.T_base_cam.copy()
        T[:3, 3] += T[:3, 0] * 0.05
        episode = changed(clean, camera=dataclasses.replace(clean.sample.camera, T_base_cam=T))
    else:
        episode = changed(clean, frames=pictured_episode(0, side="left").sample.frames[::-1])
    problems = check(episode)
    assert kinds(problems) == {"reprojection"}
    assert "palm lengths away from where the hand is seen" in problems[0].reason


def test_the_second_camera_is_checked_as_well(clean):
    view = dataclasses.replace(clean.views[0], camera=camera_at((0.4, 0.7, 0.5)))
    (problem,) = check(dataclasses.replace(clean, views=(view,)))
    assert problem.kind == "reprojection"
    assert problem.reason.startswith("view 'other': ")


def test_a_camera_that_looks_away(clean):
    T = clean.sample.camera.T_base_cam.copy()
    T[:3, 1:3] *= -1
    (problem,) = check(changed(clean, camera=dataclasses.replace(clean.sample.camera, T_base_cam=T)))
    assert "no joint of the hand projects into the picture" in problem.reason


def test_intrinsics_for_another_size(clean):
    camera = dataclasses.replace(clean.sample.camera, width=128, height=128)
    (problem,) = check(changed(clean, camera=camera))
    assert (problem.kind, problem.reason) == ("camera", "K is for 128x128 pixels, the pictures have 64x64")


def seen_by(episode: Episode, shift=0.0, right=1.0):
    camera = episode.sample.camera
    image = project(camera.K, camera.T_base_cam, episode.sample.hand.joints) / [camera.width, camera.height]
    image[3] = np.nan  # a frame without a hand
    return lambda frames: SeenHands(image + shift, np.full(len(frames), right))


def test_a_detector_is_compared_joint_by_joint(clean):
    clean = dataclasses.replace(clean, views=())
    assert check(clean, detect=seen_by(clean)) == []
    assert kinds(check(clean, detect=seen_by(clean, shift=0.2))) == {"reprojection"}
    (problem,) = check(clean, detect=seen_by(clean, right=0.1))
    assert (problem.kind, problem.reason) == ("side", "labelled right, seen as a right hand with probability 0.10")


def test_a_still_hand_that_nothing_tells_from_the_table_is_not_judged(clean):
    grey = np.full_like(clean.sample.frames, 120)
    assert check(dataclasses.replace(changed(clean, frames=grey), views=())) == []


def test_a_hand_that_rests_most_of_the_time_is_judged_while_it_moves():
    """In the clip's median picture it lies where it rests, so that only other things move there."""
    resting = pictured_episode(0, n=96, rest=64)
    frames = colourless(resting.sample.frames)
    for k in range(len(frames)):
        frames[k, 60:, (3 * k) % 60 : (3 * k) % 60 + 4] = 255
    grey = changed(resting, frames=frames)
    assert check(dataclasses.replace(grey, views=())) == []
    shifted = changed(grey, frames=np.roll(grey.sample.frames, 12, axis=2))
    assert kinds(check(dataclasses.replace(shifted, views=()))) == {"reprojection"}


# --- damage ---


def test_nan_is_named_with_its_episode(folder):
    path = folder / "000001.safetensors"
    tensors, meta = read_tensors(path)
    tensors["0.sample.hands.0.joints"] = tensors["0.sample.hands.0.joints"].copy()
    tensors["0.sample.hands.0.joints"][7, 3, 1] = np.nan
    write_tensors(path, tensors, meta)
    (problem,) = validate(folder)
    assert (problem.episode, problem.kind) == ("000001", "damaged")
    assert "HandTrajectory.joints holds 1 value(s) that are not finite" in problem.reason
    assert "(7, 3, 1)" in problem.reason


@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_a_truncated_mp4_is_named_and_the_rest_checked(folder, kept):
    path = folder / "000002.mp4"
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    write_clip(folder / "000003.mp4", read_episode(folder, 3).sample.frames, 15.0)
    first, second = validate(folder)
    assert (first.episode, first.kind) == ("000002", "damaged")
    assert "truncated" in first.reason
    assert (second.episode, second.kind) == ("000003", "fps")


@pytest.mark.parametrize("name", ["000001.mp4", "000001.other.mp4", "000001.safetensors"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    (problem,) = validate(folder)
    assert (problem.episode, problem.kind) == ("000001", "damaged")
    assert name in problem.reason


def test_a_camera_that_only_one_episode_lacks(folder):
    write_episode(folder, 4, dataclasses.replace(pictured_episode(4), views=()), producer="test")
    append_index(folder, {"number": 4, "kept": True})
    (problem,) = validate(folder)
    assert str(problem) == "000004: camera: no view other; 4 of 5 episodes of grasp have it"


def test_a_cut_shard_is_named(tmp_path):
    with ShardWriter(tmp_path, producer="test") as writer:
        for number in range(3):
            writer.write(f"e{number}", pictured_episode(number))
    shard = tmp_path / "w0-00000.tar"
    os.truncate(shard, shard.stat().st_size - 5000)
    (problem,) = validate(tmp_path)
    assert (problem.episode, problem.kind) == ("e2", "damaged")


def test_no_episodes(tmp_path):
    with pytest.raises(ArtifactError, match=r"is .* a folder of episodes"):
        validate(tmp_path)
