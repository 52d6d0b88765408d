"""Demonstrations as written: complete, consistent with their own cameras, and resumable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from dexprior.config import validate
from dexprior.data.demonstrating import TaskDemonstrationConfig, generate, generate_demonstrations
from dexprior.data.demonstrating.surfaces import local_cloud, scene_cloud, sheet_cloud
from dexprior.data.shards import ShardSet
from dexprior.errors import ArtifactError, BadInput, ConfigError, UnknownName
from dexprior.hands.skeleton import forward
from dexprior.worlds.render import check_graphics
from dexprior.worlds.tasks import SUITE, demonstrated_tasks, make_task, strategies_of, strategy_of
from dexprior.worlds.tasks.strategies import RefineConfig

_CONFIG = TaskDemonstrationConfig(n=3, workers=1)
needs_graphics = pytest.mark.skipif(check_graphics() is not None, reason="no off-screen rendering here")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demonstrations")
    counts = generate_demonstrations("pick_place", _CONFIG, folder, seed=3)
    return folder, counts


@needs_graphics
def test_counts_agree_with_what_was_written(made):
    folder, counts = made
    rows = list(ShardSet(folder).rows())
    assert [row["id"] for row in rows] == [f"pick_place-s3-{k:06d}" for k in range(3)]
    assert counts["episodes"] == counts["made"] == 3
    assert counts["successes"] == sum(row["success"] for row in rows)


@needs_graphics
def test_an_episode_holds_everything_and_agrees_with_itself(made):
    episodes = ShardSet(made[0])
    for k in range(len(episodes)):
        episode = episodes.read(k)
        sample, condition = episode.sample, episode.condition
        seconds = len(sample.frames) / sample.fps
        assert 2.0 <= seconds <= 4.05
        assert sample.frames.shape[1:] == (64, 64, 3)
        assert [view.name for view in episode.views] == ["side", "front_depth"]
        np.testing.assert_allclose(forward(sample.hand.wrist_pose, sample.hand.finger_pose), sample.hand.joints)
        assert strategy_of("pick_place", condition.text).name == episode.info["strategy"]
        assert episode.info["success"] == episodes.row(k)["success"]
        # what moves of the cloud lies around the object in the first frame, normals outwards; the rest on the mark
        centre = sample.object.pose[0, :3]
        moving, mark = condition.cloud[condition.moves], condition.cloud[~condition.moves]
        out = moving[:, :3] - centre
        half = episode.info["object"]["half_size"]
        assert np.abs(out).max() < half * 3**0.5 + 1e-6
        assert (np.einsum("ij,ij->i", out, moving[:, 3:]) > 0.9 * half).all()
        np.testing.assert_allclose(condition.goal[:3], episode.info["scene"]["goal"], atol=1e-9)
        assert np.linalg.norm(mark[:, :3] - condition.goal[:3], axis=1).max() < 0.0151
        if episode.info["success"]:
            assert condition.target[0].touching.sum() >= 2
            assert not condition.start[0].touching.any()
            assert "thumb" in sample.contact.finger


@needs_graphics
def test_depth_and_colour_agree_with_calibration_and_object_pose(made):
    for k in range(3):
        episode = ShardSet(made[0]).read(k)
        centre = np.append(episode.sample.object.pose[0, :3], 1.0)
        cameras = {"main": (episode.sample.camera, episode.sample.frames), "side": None, "front_depth": None}
        for view in episode.views:
            cameras[view.name] = (view.camera, view.depth if view.frames is None else view.frames)
        for name, (camera, pixels) in cameras.items():
            x, y, z = (np.linalg.inv(camera.T_base_cam) @ centre)[:3]
            u, v = camera.K[0, 0] * x / z + camera.K[0, 2], camera.K[1, 1] * y / z + camera.K[1, 2]
            there = pixels[0, int(v), int(u)]
            if name == "front_depth":
                half = episode.info["object"]["half_size"]
                # the surface that is seen is in front of the centre, unless the hand covers it
                assert z - 0.25 < there < z - 0.5 * half
            elif not _covered(episode, camera, centre):
                assert int(there[0]) - int(there[2]) > 60  # the block is orange


def _covered(episode, camera, centre) -> bool:
    """Whether the hand comes near the line of sight to the object in the first frame."""
    eye = camera.T_base_cam[:3, 3]
    line = centre[:3] - eye
    joints = episode.sample.hand.joints[0] - eye
    along = np.clip(joints @ line / (line @ line), 0, 1)
    return bool(np.linalg.norm(joints - along[:, None] * line, axis=1).min() < 0.04)


@pytest.mark.parametrize("task", demonstrated_tasks())
def test_held_out_sentences_are_drawn_for_no_demonstration(task):
    told, rng = {generate._sentence(task, 0, batch) for batch in range(400)}, np.random.default_rng(0)
    told |= {generate._wording(task, text, rng) for text in sorted(told) for _ in range(60)}
    assert told == {text for way in strategies_of(task) for text in way.sentences}
    assert not told & {text for way in strategies_of(task) for text in way.held_out}


def test_clouds_are_even_and_always_the_same():
    task = make_task("pick_place")
    cloud = local_cloud(task, "block", 64)
    apart = np.linalg.norm(cloud[:, None, :3] - cloud[None, :, :3], axis=-1) + np.eye(64)
    assert apart.min() > 0.005  # random points would come within a millimetre
    local_cloud.cache_clear()
    np.testing.assert_array_equal(local_cloud(task, "block", 64), cloud)


def test_the_cloud_of_peg_and_block_lies_on_their_surfaces():
    task = make_task("peg", start="standing")
    c = task.config
    pose, block = np.array([0.3, 0.1, 0.2, 1.0, 0, 0, 0]), np.array([[0.5, 0.0, 0.0, 1.0, 0, 0, 0]])
    cloud, moves = scene_cloud(task, pose, block, np.zeros((0, 3)), 64)
    np.testing.assert_array_equal(moves, np.arange(64) < 40)
    peg, rest = cloud[:40] - [0.3, 0.1, 0.2, 0, 0, 0], cloud[40:] - [0.5, 0, 0, 0, 0, 0]
    size = np.array([c.half_width, c.half_width, c.half_length])
    np.testing.assert_allclose(np.abs(peg[:, :3] / size).max(axis=1), 1.0, atol=1e-9)
    assert np.abs(rest[:, :2]).max(axis=1).min() >= c.half_width + c.clearance - 1e-9  # nothing in the hole
    inside = np.abs(rest[:, :2]).max(axis=1) < c.half_width + c.clearance + 1e-9
    towards = np.einsum("ij,ij->i", rest[:, :2], rest[:, 3:5])
    assert inside.any()
    assert (towards[inside] < 0).all()  # the hole's walls look at its axis


def test_the_cloud_of_nut_and_bolt_lies_around_its_axis():
    task = make_task("nut_bolt")
    t = task.config.thread
    pose, bolt = np.array([0.5, 0.0, 0.06, 1.0, 0, 0, 0]), np.array([[0.5, 0.0, 0.0, 1.0, 0, 0, 0]])
    cloud, _ = scene_cloud(task, pose, bolt, np.zeros((0, 3)), 64)
    radius = np.hypot(cloud[:, 0] - 0.5, cloud[:, 1])
    nut, rest = radius[:40], radius[40:]
    assert t.radius - t.depth < nut.min()
    assert nut.max() < t.across_flats / np.sqrt(3) + 1e-6
    assert rest.max() < t.radius + t.depth
    assert np.abs(cloud[:40, 2] - 0.06).max() <= t.nut_height / 2 + 1e-9


def test_the_cloud_of_a_cloth_is_as_it_lies_with_normals_upwards():
    x, y = np.meshgrid(np.linspace(0, 0.2, 9), np.linspace(0, 0.2, 9))
    sheet = np.stack([x, y, -0.5 * np.maximum(x - 0.15, 0)], axis=-1).reshape(-1, 3)
    cloud = sheet_cloud(sheet, 32)
    flat = cloud[:, 0] < 0.12
    np.testing.assert_allclose(cloud[flat, 3:], [[0, 0, 1]] * int(flat.sum()), atol=1e-6)
    assert (cloud[:, 5] > 0.5).all()
    assert cloud[:, 3].max() > 0.1  # of the hem that hangs
    with pytest.raises(BadInput, match="82 points of a cloth of which 81"):
        sheet_cloud(sheet, 82)


@pytest.mark.parametrize("task", demonstrated_tasks())
def test_the_sentence_says_nothing_of_the_object_nor_the_object_of_the_sentence(task):
    """Counts of strategy and object over 1,200 batches are those of independent draws (chi-squared)."""
    names = [strategy.name for strategy in strategies_of(task)]
    counts = np.zeros((len(names), len(SUITE[task].variants)))
    for batch in range(1200):
        strategy = strategy_of(task, generate._sentence(task, 7, batch)).name
        counts[names.index(strategy), generate._object(task, 7, batch)[1]] += 1
    assert counts.min() > 0
    assert chi2_contingency(counts).pvalue > 1e-3
    share = counts.sum(axis=1) / 1200
    np.testing.assert_allclose(share, 1 / len(names), atol=0.02)


@needs_graphics
def test_made_again_nothing_is_made_and_others_of_the_same_name_are_refused(made, tmp_path):
    folder, counts = made
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.*")}
    assert generate_demonstrations("pick_place", _CONFIG, folder, seed=3) == counts | {"made": 0}
    with pytest.raises(ArtifactError, match=r"belongs to another run: refine\.\w+ is .* there, .* here; give another"):
        generate_demonstrations("pick_place", replace(_CONFIG, refine=RefineConfig(rounds=7)), folder, seed=3)
    with pytest.raises(ArtifactError, match="size is 64 there, 32 here"):
        generate_demonstrations("pick_place", replace(_CONFIG, n=5, size=32), folder, seed=3)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.*")} == before


def test_bad_settings_are_named(tmp_path):
    with pytest.raises(UnknownName, match=demonstrated_tasks()[0]):
        generate_demonstrations("juggling", _CONFIG, tmp_path, seed=0)
    with pytest.raises((ConfigError, UnknownName), match="top"):
        validate(TaskDemonstrationConfig, {"cameras": ("top",)})
    with pytest.raises((ConfigError, UnknownName), match="side"):
        validate(TaskDemonstrationConfig, {"cameras": ("front",), "depth": ("side",)})


@needs_graphics
@pytest.mark.slow
def test_a_cut_shard_is_completed_to_the_same_episodes(made, tmp_path):
    whole = {row["id"]: row["sha256"] for row in ShardSet(made[0]).rows()}
    (shard,) = made[0].glob("*.tar")
    data = shard.read_bytes()
    (tmp_path / shard.name).write_bytes(data[: len(data) // 2])
    counts = generate_demonstrations("pick_place", _CONFIG, tmp_path, seed=3)
    assert 0 < counts["made"] < 3
    again = ShardSet(tmp_path)
    assert sorted(row["id"] for row in again.rows()) == sorted(whole)
    for k in range(3):
        a = again.read(k)
        b = next(e for row, e in ShardSet(made[0]).usable() if row["id"] == again.name(k))
        np.testing.assert_array_equal(a.sample.frames, b.sample.frames)
        np.testing.assert_array_equal(a.sample.hand.joints, b.sample.hand.joints)
        assert a.info == b.info
