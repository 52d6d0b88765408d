"""Generated demonstrations: the same whatever the number of workers and interruptions, and true to their schedule."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from dexprior.artifacts import read_tensors
from dexprior.config import validate
from dexprior.data.clouds import NUT_POINTS, condition_cloud, local_clouds, place
from dexprior.data.contacts import contact_schedule
from dexprior.data.demonstrations import (
    DemonstrationConfig,
    generate,
    scene_condition,
)
from dexprior.data.episodes import read_episodes, read_index
from dexprior.errors import ArtifactError, ConfigError
from dexprior.geometry.transforms import IDENTITY_POSE, project, transform_points
from dexprior.hands.mano import contact_configuration
from dexprior.types import FINGERS, HandTrajectory, ObjectTrajectory
from dexprior.worlds.insertion import InsertionConfig, succeeded

WORLD = InsertionConfig()


def config(**changes) -> DemonstrationConfig:
    return DemonstrationConfig(**({"episodes": 2, "frames": 48, "size": 64, "workers": 1} | changes))


def content(folder) -> list:
    """What is in a folder, but for the time of writing."""
    rows = read_index(folder)
    files = []
    for row in rows:
        if row["kept"]:
            stem = folder / f"{row['number']:06d}"
            tensors, meta = read_tensors(stem.with_suffix(".safetensors"))
            meta["header"].pop("created")
            arrays = {name: (value.dtype.str, value.shape, value.tobytes()) for name, value in tensors.items()}
            files.append((arrays, meta, stem.with_suffix(".mp4").read_bytes()))
    return [rows, files]


@pytest.fixture(scope="module")
def folder(graphics, tmp_path_factory):
    path = tmp_path_factory.mktemp("demonstrations")
    assert generate(config(), path, seed=0)["episodes"] == 2
    return path


@pytest.fixture(scope="module")
def episodes(folder):
    return list(read_episodes(folder))


def test_the_number_of_workers_does_not_matter(folder, tmp_path):
    generate(config(workers=2), tmp_path, seed=0)
    assert content(tmp_path) == content(folder)


def test_a_killed_run_goes_on_where_it_stopped(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    rows = read_index(copy)
    lines = (copy / "index.jsonl").read_text().splitlines(keepends=True)
    (copy / "index.jsonl").write_text("".join(lines[:-1]) + lines[-1][:5])
    last = copy / f"{rows[-1]['number']:06d}.safetensors"
    last.write_bytes(last.read_bytes()[:100])
    result = generate(config(), copy, seed=0)
    assert result == {"episodes": 2, "attempts": len(rows), "success": 2 / len(rows)}
    assert content(copy) == content(folder)


def test_a_finished_folder_is_left_alone(folder):
    before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    assert generate(config(), folder, seed=0)["episodes"] == 2
    assert {p.name: p.stat().st_mtime_ns for p in folder.iterdir()} == before


def test_too_few_attempts_are_told(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    with pytest.raises(ArtifactError, match=r"\d attempts gave 2 demonstrations, 5 were wanted"):
        generate(config(episodes=5, max_attempts=len(read_index(copy))), copy, seed=0)


def test_every_episode_shows_a_success(episodes):
    for episode in episodes:
        bolt = np.array(episode.info["bolt"])
        assert succeeded(WORLD, episode.sample.object.pose[-1], bolt)
        assert not succeeded(WORLD, episode.sample.object.pose[0], bolt)
        assert episode.info["success"] is True
        assert episode.sample.provenance["source"] == "demonstration"


def test_start_and_target_are_the_first_and_the_last_frame(episodes):
    for episode in episodes:
        hand, condition = episode.sample.hand, episode.condition
        np.testing.assert_array_equal(condition.start.wrist_pose, hand.wrist_pose[0])
        np.testing.assert_array_equal(condition.target.finger_pose, hand.finger_pose[-1])
        assert not condition.start.touching.any()
        assert condition.target.touching[[0, 1, 2]].sum() >= 2


def test_touches_follow_from_the_forces(episodes):
    for episode in episodes:
        hand, contact = episode.sample.hand, episode.sample.contact
        assert set(contact.finger) <= set(FINGERS)
        for finger, on, off in zip(contact.finger, contact.t_on, contact.t_off):
            f = FINGERS.index(finger)
            during = (hand.t >= on) & (hand.t <= off)
            assert (hand.force[during, f] > 0.1).all()
            assert hand.force[hand.t == on, f] >= 0.3
        lifted = episode.sample.object.pose[:, 2].argmax()
        assert contact.onset() < hand.t[lifted]


def test_the_condition_cloud_lies_on_nut_and_bolt(episodes):
    for episode in episodes:
        cloud = episode.condition.cloud
        nut = episode.sample.object.pose[0, :3]
        bolt = np.array(episode.info["bolt"])
        radius = np.hypot(WORLD.outer_radius, WORLD.height / 2)
        assert (np.linalg.norm(cloud[:NUT_POINTS, :3] - nut, axis=1) <= radius + 1e-6).all()
        np.testing.assert_allclose(
            np.linalg.norm(cloud[NUT_POINTS:, :2] - bolt[:2], axis=1), WORLD.bolt_radius, atol=1e-9
        )


def test_what_matters_is_in_the_picture(episodes):
    """The nut always, and the fingertips that touch but for the far corner; the wrist may leave the frame."""
    for episode in episodes:
        camera, hand = episode.sample.camera, episode.sample.hand

        def seen(points, camera=camera):
            pixels = project(camera.K, camera.T_base_cam, points)
            return ((pixels > 0) & (pixels < camera.width)).all(axis=-1)

        assert seen(episode.sample.object.pose[:, :3]).all()
        assert seen(hand.joints[:, 4::4][hand.contact > 0.5]).mean() > 0.8
        assert episode.sample.frames.std() > 5


def test_the_index_tells_attempts_and_seeds(folder):
    rows = [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]
    assert [row["number"] for row in rows] == list(range(len(rows)))
    assert sum(row["kept"] for row in rows) == 2


def test_what_the_prior_is_asked_for_resembles_what_it_was_shown(episodes):
    """A condition made without a demonstration has the same form, and its target pinches where the bolt stands."""
    info = episodes[0].info
    condition = scene_condition(WORLD, info, seed=1, size=64)
    shown = episodes[0].condition
    assert condition.cloud.shape == shown.cloud.shape
    np.testing.assert_allclose(condition.cloud, shown.cloud, atol=1e-3)
    assert condition.target.touching.tolist() == [True, True, True, False, False]
    pinch = condition.target.points[:3].mean(axis=0)
    assert np.linalg.norm(pinch[:2] - np.array(info["bolt"])[:2]) < 0.02
    assert np.linalg.norm(condition.start.wrist_pose[:3] - condition.target.wrist_pose[:3]) > 0.05


@pytest.mark.parametrize(
    ("name", "value"), [("episodes", 0), ("frames", 7), ("size", 8), ("fps", 0.0), ("workers", -1)]
)
def test_impossible_configurations(name, value):
    with pytest.raises(ConfigError, match=f"config.{name} = {value}: input should be greater than"):
        validate(DemonstrationConfig, {name: value})


# --- clouds and schedules without a simulator ---------------------------------------------------------------


def test_a_placed_cloud_moves_rigidly(examples):
    nut, _ = local_clouds(WORLD)
    pose = examples[ObjectTrajectory].pose
    placed = place(nut, pose)
    assert placed.shape == (len(pose), len(nut), 6)
    np.testing.assert_allclose(
        placed[..., :3], transform_points(pose, np.broadcast_to(nut[:, :3], (len(pose), len(nut), 3)))
    )
    np.testing.assert_allclose(np.linalg.norm(placed[..., 3:], axis=-1), 1.0)
    np.testing.assert_array_equal(place(nut, IDENTITY_POSE), nut)


def test_the_scene_cloud_is_nut_then_bolt():
    cloud = condition_cloud(WORLD, IDENTITY_POSE, np.array([5.0, 0.0, 0.0]))
    assert (cloud[:NUT_POINTS, 0] < 1).all()
    assert (cloud[NUT_POINTS:, 0] > 4).all()


def test_touches_move_with_the_object(examples, example_makers):
    import dataclasses

    hand, nut = examples[HandTrajectory], examples[ObjectTrajectory]
    contact = np.zeros((5, 5))
    contact[1:3, 0] = contact[4, 0] = contact[:, 3] = 1.0
    hand = dataclasses.replace(hand, contact=contact)
    schedule = contact_schedule(hand, nut)
    assert schedule.finger == ("thumb", "thumb", "ring")
    np.testing.assert_allclose(schedule.t_on, hand.t[[1, 4, 0]])
    np.testing.assert_allclose(schedule.t_off, hand.t[[2, 4, 4]])
    assert schedule.normal_force[1] == pytest.approx(hand.force[4, 0])
    moved_nut = dataclasses.replace(nut, pose=np.tile(IDENTITY_POSE, (5, 1)))
    np.testing.assert_allclose(contact_schedule(hand, moved_nut).point[1], hand.joints[4, 4])
    free = contact_schedule(dataclasses.replace(hand, contact=np.zeros((5, 5))), nut)
    assert free.finger == ()


def test_a_configuration_has_points_only_where_it_touches(examples):
    hand = examples[HandTrajectory]
    made = contact_configuration(hand, 2)
    np.testing.assert_array_equal(made.touching, hand.contact[2] > 0.5)
    np.testing.assert_array_equal(made.points[made.touching], hand.joints[2, 4::4][made.touching])
    assert (made.points[~made.touching] == 0).all()
