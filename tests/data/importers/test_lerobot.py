"""LeRobotDataset: written as LeRobot writes it, read by pyarrow and decord alone, and round trips."""

from __future__ import annotations

import dataclasses
import json
import shutil
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from dexprior.artifacts import file_hash
from dexprior.cli.main import main
from dexprior.data.clips import read_clip, write_clip
from dexprior.data.episodes import append_index, read_episode, read_index, write_episode
from dexprior.data.importers import (
    Imported,
    ImportSettings,
    Rejected,
    import_dataset,
    import_episodes,
    read_record,
    to_episode,
)
from dexprior.data.importers.lerobot import GLOVE_TO_MEDIAPIPE
from dexprior.data.lerobot import LeRobotExportConfig, LeRobotFolder, export_lerobot
from dexprior.data.lerobot.writer import STATE_NAMES, VIDEO_KEY
from dexprior.data.shards import ShardWriter
from dexprior.data.traces import import_trace
from dexprior.errors import ArtifactError, BadInput
from dexprior.hands import skeleton
from dexprior.types import Episode
from dexprior.types.episode import View

LENGTHS = (7, 5, 9, 6)
KEPT = (0, 2, 3, 4)  # attempt 1 was not kept
SIZE = 64


def realistic(hand, rng):
    """A skeleton hand that bends its fingers: importers refuse hands that cannot be."""
    fingers = 0.02 * rng.standard_normal((len(hand), 15, 3))
    fingers[:, :12, 2] += 0.4
    fingers = fingers.reshape(-1, 45)
    joints = skeleton.forward(hand.wrist_pose, fingers)
    return dataclasses.replace(hand, finger_pose=fingers, betas=np.zeros(10), joints=joints)


@pytest.fixture(scope="module")
def episodes(example_makers):
    found = []
    for k, n in enumerate(LENGTHS):
        made = example_makers(n=n, seed=k, size=SIZE)[Episode]
        x = np.linspace(0, 90, SIZE)
        picture = np.broadcast_to(x[:, None, None] + 0.5 * x[None, :, None], (SIZE, SIZE, 3))
        frames = np.stack([(picture + 20 * k + 5 * i + [0, 10, 20]).astype(np.uint8) for i in range(n)])
        hand = realistic(made.sample.hand, np.random.default_rng(k))
        sample = dataclasses.replace(made.sample, frames=frames, hands=(hand,))
        other = View(name="side", camera=made.sample.camera, frames=frames[:, :32, :32] // 2)
        text = "put the nut on the bolt" if k % 2 else "fold the shirt"
        condition = dataclasses.replace(made.condition, text=text)
        found.append(dataclasses.replace(made, sample=sample, condition=condition, views=(other,)))
    return found


@pytest.fixture(scope="module")
def folder(episodes, tmp_path_factory):
    root = tmp_path_factory.mktemp("episodes")
    for number, episode in zip(KEPT, episodes):
        write_episode(root, number, episode, producer="test")
    for number in range(5):
        append_index(root, {"number": number, "kept": number in KEPT})
    return root


@pytest.fixture(scope="module")
def exported(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("lerobot") / "set"
    # limits so small that rows take two files and pictures three
    summary = export_lerobot(folder, out, LeRobotExportConfig(data_file_mb=0.015, video_file_mb=0.004))
    assert (summary.episodes, summary.frames, summary.tasks, summary.written) == (4, sum(LENGTHS), 2, True)
    return out


# --- an independent reader: json, pyarrow, decord -----------------------------------------------------------------


def meta_rows(root):
    return [row for path in sorted(root.glob("meta/episodes/*/*.parquet")) for row in pq.read_table(path).to_pylist()]


def test_description(exported):
    info = json.loads((exported / "meta/info.json").read_text())
    assert info["codebase_version"] == "v3.0"
    assert info["fps"] == 24
    assert isinstance(info["fps"], int)
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (4, sum(LENGTHS), 2)
    assert info["splits"] == {"train": "0:4"}
    assert info["data_path"] == "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
    assert info["video_path"] == "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
    assert info["features"][VIDEO_KEY]["dtype"] == "video"
    assert info["features"][VIDEO_KEY]["shape"] == [SIZE, SIZE, 3]
    for name in ("timestamp", "frame_index", "episode_index", "index", "task_index"):
        assert info["features"][name]["shape"] == [1]
    for name, feature in info["features"].items():
        assert "/" not in name
        assert feature["names"] is None or len(feature["names"]) == feature["shape"][0] or feature["dtype"] == "video"
    assert len(list(exported.glob("data/chunk-000/file-*.parquet"))) > 1
    assert len(list(exported.glob(f"videos/{VIDEO_KEY}/chunk-000/file-*.mp4"))) > 1


def test_rows_by_pyarrow_alone(exported, episodes):
    info = json.loads((exported / "meta/info.json").read_text())
    total = 0
    for row, episode in zip(meta_rows(exported), episodes, strict=True):
        place = {"chunk_index": row["data/chunk_index"], "file_index": row["data/file_index"]}
        table = pq.read_table(exported / info["data_path"].format(**place))
        table = table.filter(pa.compute.equal(table["episode_index"], row["episode_index"]))
        n = len(episode.sample.frames)
        assert (row["length"], table.num_rows) == (n, n)
        assert (row["dataset_from_index"], row["dataset_to_index"]) == (total, total + n)
        assert table["index"].to_pylist() == list(range(total, total + n))
        assert table["frame_index"].to_pylist() == list(range(n))
        np.testing.assert_allclose(table["timestamp"], np.arange(n) / 24, atol=1e-7)
        assert table.schema.field("timestamp").type == pa.float32()
        assert table.schema.field("observation.state").type == pa.list_(pa.float32(), len(STATE_NAMES))
        hand, thing = episode.sample.hand, episode.sample.object
        state = np.concatenate([hand.wrist_pose, hand.finger_pose], axis=1)
        columns = {
            "observation.state": state,
            "action": np.concatenate([state[1:], state[-1:]]),
            "observation.hand.joints": hand.joints.reshape(n, 63),
            "observation.hand.contact": hand.contact,
            "observation.hand.force": hand.force,
            "observation.object.pose": thing.pose,
            "observation.wrench": episode.wrench.wrench,
        }
        for name, expected in columns.items():
            np.testing.assert_allclose(np.array(table[name].to_pylist()), expected, atol=2e-7 * np.abs(expected).max())
        assert table["observation.hand.valid"].to_pylist() == hand.valid.tolist()
        total += n


def test_an_episode_of_two_hands_shows_one_in_its_columns_and_keeps_both(episodes, tmp_path, same):
    one = episodes[0]
    right = one.sample.hand
    left = dataclasses.replace(right, side="left", joints=right.joints + 0.1)
    start, target = (
        (*hands, dataclasses.replace(hands[0], side="left")) for hands in (one.condition.start, one.condition.target)
    )
    both = dataclasses.replace(
        one,
        sample=dataclasses.replace(one.sample, hands=(right, left)),
        condition=dataclasses.replace(one.condition, start=start, target=target),
    )
    write_episode(tmp_path / "in", 0, both, producer="test")
    append_index(tmp_path / "in", {"number": 0, "kept": True})
    with pytest.raises(BadInput, match="the clip shows a right hand and a left hand: choose one by its side"):
        export_lerobot(tmp_path / "in", tmp_path / "out")
    export_lerobot(tmp_path / "in", tmp_path / "out", LeRobotExportConfig(side="left"))
    (parquet,) = (tmp_path / "out").glob("data/*/*.parquet")
    joints = np.array(pq.read_table(parquet)["observation.hand.joints"].to_pylist())
    np.testing.assert_allclose(joints, left.joints.reshape(len(left), 63), atol=1e-6)
    (found,) = import_episodes("lerobot", tmp_path / "out")
    same(to_episode(found).sample.hands, both.sample.hands)


def test_one_row_group_an_episode(exported):
    groups = [pq.ParquetFile(p).metadata for p in sorted(exported.glob("data/*/*.parquet"))]
    assert [m.row_group(k).num_rows for m in groups for k in range(m.num_row_groups)] == list(LENGTHS)


def test_pictures_by_decord_alone(exported, folder):
    import decord

    info = json.loads((exported / "meta/info.json").read_text())
    starts = []
    for row, number in zip(meta_rows(exported), KEPT, strict=True):
        place = {n: row[f"videos/{VIDEO_KEY}/{n}"] for n in ("chunk_index", "file_index")}
        video = decord.VideoReader(str(exported / info["video_path"].format(video_key=VIDEO_KEY, **place)))
        begin, end = (row[f"videos/{VIDEO_KEY}/{n}"] for n in ("from_timestamp", "to_timestamp"))
        first = round(begin * 24)
        assert round(end * 24) - first == row["length"]
        assert video.get_avg_fps() == 24
        stamps = video.get_frame_timestamp(range(first, first + row["length"]))[:, 0]
        np.testing.assert_allclose(stamps, begin + np.arange(row["length"]) / 24, atol=1e-4)
        shown = video.get_batch(range(first, first + row["length"])).asnumpy().astype(float)
        given = read_episode(folder, number).sample.frames
        assert np.abs(shown - given).mean() < 2.0
        assert first in video.get_key_indices()
        starts.append(first)
    assert max(starts) > 0, "no file holds two episodes"


def test_tasks_are_pandas_index(exported):
    pandas = pytest.importorskip("pandas")
    tasks = pandas.read_parquet(exported / "meta/tasks.parquet")
    assert tasks.index.name == "task"
    assert tasks.loc["put the nut on the bolt"].task_index == 1
    assert [tasks.iloc[k].name for k in range(2)] == ["fold the shirt", "put the nut on the bolt"]
    assert [row["tasks"] for row in meta_rows(exported)] == [[tasks.iloc[k % 2].name] for k in range(4)]


def test_statistics_are_of_all_frames(exported, folder):
    stats = json.loads((exported / "meta/stats.json").read_text())
    wrenches = np.concatenate([read_episode(folder, k).wrench.wrench for k in KEPT])
    found = {name: np.array(value) for name, value in stats["observation.wrench"].items()}
    for name, expected in {
        "min": wrenches.min(axis=0), "max": wrenches.max(axis=0), "mean": wrenches.mean(axis=0),
        "std": wrenches.std(axis=0),
    }.items():  # fmt: skip
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-7)
    assert found["count"] == [sum(LENGTHS)]
    assert (found["q01"] <= found["q50"]).all()
    assert (found["q50"] <= found["q99"]).all()
    assert np.shape(stats[VIDEO_KEY]["mean"]) == (3, 1, 1)
    assert 0 < np.min(stats[VIDEO_KEY]["mean"]) < np.max(stats[VIDEO_KEY]["mean"]) < 1
    per_episode = meta_rows(exported)[2]
    given = read_episode(folder, KEPT[2]).wrench.wrench
    np.testing.assert_allclose(per_episode["stats/observation.wrench/q90"], np.quantile(given, 0.9, axis=0), rtol=1e-5)
    assert set(stats) == set(json.loads((exported / "meta/info.json").read_text())["features"])


# --- round trips ------------------------------------------------------------------------------------------------


def test_an_export_comes_back_as_it_was(exported, folder, tmp_path, same):
    summary = import_dataset("lerobot", exported, tmp_path)
    assert (summary.episodes, summary.records, summary.rejected) == (4, 0, ())
    numbers = [row["number"] for row in read_index(tmp_path) if row["kept"]]
    for number, given in zip(numbers, KEPT, strict=True):
        back, original = read_episode(tmp_path, number), read_episode(folder, given)
        assert np.abs(back.sample.frames.astype(float) - original.sample.frames).mean() < 3
        assert np.abs(back.views[0].frames.astype(float) - original.views[0].frames).mean() < 3
        sample = dataclasses.replace(back.sample, frames=original.sample.frames)
        views = (dataclasses.replace(back.views[0], frames=original.views[0].frames),)
        same(dataclasses.replace(back, sample=sample, views=views), original)


def test_without_our_folder_the_columns_are_enough_for_the_motion(exported, episodes, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    shutil.rmtree(copy / "meta/dexprior")
    for found, episode in zip(import_episodes("lerobot", copy), episodes, strict=True):
        assert isinstance(found, Imported), found
        (hand,) = found.hands
        for name in ("wrist_pose", "finger_pose", "joints", "contact", "force", "valid"):
            np.testing.assert_allclose(getattr(hand, name), getattr(episode.sample.hand, name), atol=1e-6)
        np.testing.assert_allclose(found.objects[0].pose, episode.sample.object.pose, atol=1e-6)
        np.testing.assert_allclose(found.wrench.wrench, episode.wrench.wrench, atol=1e-6)
        assert found.text == (episode.condition.text,)
        assert "calibration" in found.absent
        assert any("camera and cloud are lost" in p for p in found.problems)


def test_the_same_export_again_does_nothing(exported, folder):
    before = {p: file_hash(p) for p in exported.rglob("*") if p.is_file()}
    settings = LeRobotExportConfig(data_file_mb=0.015, video_file_mb=0.004)
    summary = export_lerobot(folder, exported, settings)
    assert (summary.written, summary.episodes) == (False, 4)
    assert {p: file_hash(p) for p in exported.rglob("*") if p.is_file()} == before
    with pytest.raises(BadInput, match="exists and is another data set"):
        export_lerobot(folder, exported, LeRobotExportConfig(crf=30))


def test_equal_episodes_give_equal_bytes(folder, exported, tmp_path):
    settings = LeRobotExportConfig(data_file_mb=0.015, video_file_mb=0.004)
    again = export_lerobot(folder, tmp_path / "again", settings).folder
    for pattern in ("videos/**/*.mp4", "data/**/*.parquet", "meta/stats.json", "meta/info.json", "meta/tasks.parquet"):
        paths = [p.relative_to(exported) for p in sorted(exported.glob(pattern))]
        assert paths
        assert [file_hash(exported / p) for p in paths] == [file_hash(again / p) for p in paths]


def test_what_a_killed_export_left_is_replaced(folder, tmp_path):
    left = tmp_path / ".set.partial"
    left.mkdir()
    (left / "half").write_text("x")
    export_lerobot(folder, tmp_path / "set")
    assert not left.exists()
    assert not (tmp_path / "set" / "half").exists()


def test_episodes_of_different_rates_do_not_mix(episodes, tmp_path):
    for number, fps in enumerate((24.0, 30.0)):
        sample = dataclasses.replace(episodes[0].sample, fps=fps)
        write_episode(tmp_path, number, dataclasses.replace(episodes[0], sample=sample), producer="test")
        append_index(tmp_path, {"number": number, "kept": True})
    with pytest.raises(
        BadInput,
        match=r"episode 000001 has 30 frames a second of 64 x 64 \(main\), 32 x 32 \(side\), the ones",
    ):
        export_lerobot(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_shards_are_exported_as_folders_are(episodes, exported, tmp_path):
    depth = np.ones(episodes[0].sample.frames.shape[:3], dtype=np.float32)
    blind = View(name="deep", camera=episodes[0].sample.camera, depth=depth)
    with ShardWriter(tmp_path / "shards", producer="test") as shards:
        for k, episode in enumerate(episodes):
            more = (*episode.views, blind) if k == 0 else episode.views
            shards.write(f"e{k}", dataclasses.replace(episode, views=more))
    out = export_lerobot(tmp_path / "shards", tmp_path / "set").folder
    rows = [pq.read_table(sorted(root.glob("data/*/*.parquet"))) for root in (out, exported)]
    assert rows[0].equals(rows[1])
    assert sorted(p.name for p in (out / "videos").iterdir()) == [VIDEO_KEY, "observation.images.side"]
    assert export_lerobot(tmp_path / "shards", out).written is False


def test_nothing_to_export(tmp_path):
    append_index(tmp_path, {"number": 0, "kept": False})
    with pytest.raises(ArtifactError, match="holds no kept episode"):
        export_lerobot(tmp_path, tmp_path / "out")


# --- glove sets, in the layout of v2.1 ----------------------------------------------------------------------------


def make_gloves(root, episodes, *, unit=1.0, swap=False):
    """The layout of OpenGraphLabs-Research/manus-egocentric-sample: v2.1, left hand first here."""
    (root / "meta").mkdir(parents=True)
    features = {
        "episode_index": {"dtype": "int64", "shape": [1]},
        "frame_index": {"dtype": "int64", "shape": [1]},
        "timestamp": {"dtype": "float32", "shape": [1]},
        "task_index": {"dtype": "int64", "shape": [1]},
        "observation.images.egocentric": {
            "dtype": "video",
            "shape": [SIZE, SIZE, 3],
            "video_info": {"video.fps": 30.0},
        },
        "observation.state.hand_joints": {"dtype": "float32", "shape": [150]},
        "observation.state.finger_angles": {"dtype": "float32", "shape": [40]},
        "observation.state.imu": {"dtype": "float32", "shape": [6]},
    }
    info = {
        "codebase_version": "v2.1", "robot_type": "manus_gloves", "fps": 30, "total_episodes": len(episodes),
        "total_frames": sum(len(e.sample.frames) for e in episodes), "total_tasks": 1, "total_videos": 2,
        "total_chunks": 1, "chunks_size": 1000, "features": features,
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "depth": {"path": "depth/episode_{episode_index:06d}.bin", "dtype": "uint16"},
    }  # fmt: skip
    (root / "meta/info.json").write_text(json.dumps(info))
    (root / "meta/tasks.jsonl").write_text('{"task_index": 0, "task": "fold_laundry"}\n')
    (root / "README.md").write_text("---\nlicense: apache-2.0\ntags:\n- LeRobot\n---\n# gloves\n")
    rows, truth = [], []
    for k, episode in enumerate(episodes):
        n = len(episode.sample.frames)
        right = episode.sample.hand.joints
        left = right * [-1.0, 1, 1]
        truth.append({"left": left, "right": right})
        pair = (right, left) if swap else (left, right)
        blocks = np.zeros((n, 2, 25, 3))
        for b, joints in enumerate(pair):
            blocks[:, b, list(GLOVE_TO_MEDIAPIPE)] = joints
            blocks[:, b, [5, 10, 15, 20]] = joints[:, [0]]
        rng = np.random.default_rng(k)
        columns = {
            "episode_index": np.full(n, k), "frame_index": np.arange(n), "task_index": np.zeros(n, int),
            "timestamp": (np.arange(n) / 30).astype(np.float32),
            "observation.state.hand_joints": list((unit * blocks).reshape(n, 150).astype(np.float32)),
            "observation.state.finger_angles": list(rng.random((n, 40), dtype=np.float32)),
            "observation.state.imu": list(rng.random((n, 6), dtype=np.float32)),
        }  # fmt: skip
        path = root / f"data/chunk-000/episode_{k:06d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({name: pa.array(value) for name, value in columns.items()}), path)
        write_clip(
            root / f"videos/chunk-000/observation.images.egocentric/episode_{k:06d}.mp4", episode.sample.frames, 30.0
        )
        rows.append(json.dumps({"episode_index": k, "tasks": ["fold_laundry"], "length": n}))
    (root / "meta/episodes.jsonl").write_text("\n".join(rows) + "\n")
    return truth


def test_gloves(episodes, tmp_path, fit):
    truth = make_gloves(tmp_path, episodes)
    settings = ImportSettings(hand_order=("left", "right"))
    for found, expected in zip(import_episodes("lerobot", tmp_path, settings=settings, fit=fit), truth, strict=True):
        assert found.licence == "apache-2.0"
        assert found.text == ("fold_laundry",)
        assert {hand.side for hand in found.hands} == {"left", "right"}
        for hand in found.hands:
            np.testing.assert_allclose(hand.joints, expected[hand.side], atol=1e-6)
        assert set(found.signals) == {f"observation.state.{n}" for n in ("hand_joints", "finger_angles", "imu")}


def test_gloves_of_unknown_order_stay_signals(episodes, tmp_path, fit):
    make_gloves(tmp_path, episodes[:1])
    (found,) = import_episodes("lerobot", tmp_path, fit=fit)
    assert found.hands == ()
    assert any("give imports.hand_order" in p for p in found.problems)
    assert found.signals["observation.state.hand_joints"].value.shape == (LENGTHS[0], 150)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"swap": True}, "labels|labelled wrongly|hand's, or mirrored"), ({"unit": 1000.0}, "joints are in millimetres")],
)
def test_swapped_gloves_and_millimetres(options, message, episodes, tmp_path, fit):
    make_gloves(tmp_path, episodes[:1], **options)
    settings = ImportSettings(hand_order=("left", "right"))
    (rejected,) = import_episodes("lerobot", tmp_path, settings=settings, fit=fit)
    assert isinstance(rejected, Rejected)
    with pytest.raises(BadInput, match=message):
        raise BadInput(rejected.reason)


def test_gloves_train_the_prior_as_video(episodes, tmp_path, fit):
    make_gloves(tmp_path / "set", episodes[:2])
    summary = import_dataset("lerobot", tmp_path / "set", tmp_path / "out", fit=fit)
    assert (summary.episodes, summary.records) == (0, 2)
    record = read_record(tmp_path / "out", 1)
    assert record["text"] == ["fold_laundry"]
    assert record["video"].is_file()
    assert record["signals"]["observation.state.imu"].value.shape == (LENGTHS[1], 6)
    (row, _) = read_index(tmp_path / "out")
    assert row["lacks"] == ["calibration", "hand", "object"]
    assert row["licence"] == "apache-2.0"


# --- single pictures within the rows ----------------------------------------------------------------------------


def make_pictured(root, frames, *, beside=False, version="v2.1"):
    """A robot's set whose two cameras are single pictures: bytes in the rows, or paths of files beside them."""
    (root / "meta").mkdir(parents=True)
    n, columns = len(frames), {}
    features = {
        "action": {"dtype": "float32", "shape": [2], "names": {"motors": ["a", "b"]}},
        "observation.images.depth": {"dtype": "image", "shape": [SIZE, SIZE, 1], "info": {"is_depth_map": True}},
    }
    for name, pictures in (("top", frames), ("wrist", frames[::-1])):
        rows = []
        for k, picture in enumerate(pictures):
            data = BytesIO()
            Image.fromarray(picture).save(data, "PNG")
            path = f"images/{name}/{k:06d}.png"
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data.getvalue() if beside else b"")
            rows.append({"bytes": None if beside else data.getvalue(), "path": path})
        columns[f"observation.images.{name}"] = rows
        features[f"observation.images.{name}"] = {"dtype": "image", "shape": [SIZE, SIZE, 3]}
    columns |= {
        "action": np.arange(2.0 * n).reshape(n, 2).tolist(), "episode_index": [0] * n, "frame_index": list(range(n)),
        "timestamp": (np.arange(n) / 10).tolist(), "task_index": [0] * n,
    }  # fmt: skip
    info = {
        "codebase_version": version, "fps": 10, "features": features, "chunks_size": 1000, "video_path": None,
        "data_path": "data/{episode_index}.parquet" if version == "v2.1" else "data/{chunk_index}-{file_index}.parquet",
    }  # fmt: skip
    (root / "meta/info.json").write_text(json.dumps(info))
    (root / "data").mkdir()
    row = {"episode_index": 0, "tasks": ["push"], "length": n}
    if version == "v2.1":
        (root / "meta/tasks.jsonl").write_text('{"task_index": 0, "task": "push"}\n')
        (root / "meta/episodes.jsonl").write_text(json.dumps(row) + "\n")
    else:
        (root / "meta/episodes/chunk-000").mkdir(parents=True)
        table = {name: [value] for name, value in row.items()} | {"data/chunk_index": [0], "data/file_index": [0]}
        pq.write_table(pa.table(table), root / "meta/episodes/chunk-000/file-000.parquet")
    pq.write_table(pa.table(columns), root / "data" / ("0.parquet" if version == "v2.1" else "0-0.parquet"))
    return root


@pytest.mark.parametrize(("beside", "version"), [(False, "v2.1"), (True, "v2.1"), (False, "v3.0")])
def test_pictures_within_the_rows_are_cameras(beside, version, episodes, tmp_path):
    frames = episodes[0].sample.frames
    make_pictured(tmp_path, frames, beside=beside, version=version)
    (found,) = import_episodes("lerobot", tmp_path)
    assert [view.name for view in found.views] == ["top", "wrist"]
    np.testing.assert_array_equal(found.views[0].read(None, 0, len(frames)), frames)
    np.testing.assert_array_equal(found.views[1].read(None, 2, 4), frames[::-1][2:4])
    assert found.views[0].read((16, 16), 0, 2).shape == (2, 16, 16, 3)
    assert "depth maps are left out: observation.images.depth" in found.problems
    trace = import_trace(tmp_path, "lerobot")
    assert "observation.images.top, observation.images.wrist, observation.images.depth" in trace.info["notes"][0]
    assert trace.names("action") == ("a", "b")


def test_what_is_wrong_with_pictures_within_the_rows_is_named(episodes, tmp_path):
    root = make_pictured(tmp_path, episodes[0].sample.frames)
    table = pq.read_table(root / "data/0.parquet")
    for row, message in (({"bytes": b"no picture", "path": "a"}, "row 0 is not a picture"),
                         ({"bytes": None, "path": "../../a.png"}, "row 0 names the path"),
                         ({"bytes": None, "path": None}, "row 0 holds no picture")):  # fmt: skip
        rows = [row, *table["observation.images.top"].to_pylist()[1:]]
        at = table.column_names.index("observation.images.top")
        spoilt = table.set_column(at, "observation.images.top", pa.array(rows))
        pq.write_table(spoilt, root / "data/0.parquet")
        (rejected,) = import_episodes("lerobot", root)
        assert message in rejected.reason


def test_cameras_that_are_not_kept_are_said_and_kept_where_that_is_asked(episodes, tmp_path, capsys):
    frames = episodes[0].sample.frames
    make_pictured(tmp_path / "set", frames)
    words = ["data", "import", "kind=lerobot", f"source={tmp_path / 'set'}"]
    assert main([*words, f"out={tmp_path / 'one'}"]) == 0
    shown = capsys.readouterr().out
    assert "note: cameras left out: wrist; imports.view= chooses one, imports.further_views= keeps more" in shown
    record = read_record(tmp_path / "one", 0)
    assert (record["video"].name, record["videos"]) == ("000000.mp4", {})
    assert any("cameras left out: wrist" in problem for problem in record["problems"])
    assert main([*words, f"out={tmp_path / 'two'}", "imports.further_views=1"]) == 0
    assert "cameras left out" not in capsys.readouterr().out
    kept = read_clip(read_record(tmp_path / "two", 0)["videos"]["wrist"])[0]
    assert np.abs(kept.astype(int) - frames[::-1]).mean() < 5


# --- broken copies --------------------------------------------------------------------------------------------


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_a_broken_episode_is_named_and_the_others_are_read(episodes, tmp_path, fit):
    make_gloves(tmp_path, episodes)
    cut(tmp_path / "videos/chunk-000/observation.images.egocentric/episode_000001.mp4")
    cut(tmp_path / "data/chunk-000/episode_000002.parquet")
    found = list(import_episodes("lerobot", tmp_path, fit=fit))
    assert [isinstance(f, Imported) for f in found] == [True, False, False, True]
    assert [f.episode for f in found[1:3]] == ["episode-000001", "episode-000002"]
    assert "truncated" in found[1].reason
    assert "truncated" in found[2].reason


def test_rows_and_pictures_that_do_not_belong_together(exported, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    shutil.rmtree(copy / "meta/dexprior")
    path = sorted(copy.glob("meta/episodes/*/*.parquet"))[0]
    rows = pq.read_table(path).to_pylist()
    rows[0][f"videos/{VIDEO_KEY}/to_timestamp"] -= 2 / 24
    pq.write_table(pa.Table.from_pylist(rows), path)
    first, *others = import_episodes("lerobot", copy)
    assert isinstance(first, Rejected)
    assert f"5 pictures of {VIDEO_KEY} for 7 rows" in first.reason
    assert all(isinstance(f, Imported) for f in others)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not valid JSON, or it is truncated"),
        ('{"codebase_version": "v1.6", "fps": 30, "features": {}, "data_path": ""}', "v2.0 to v3 can be read"),
        (None, "Is .* a LeRobotDataset"),
    ],
)
def test_no_data_set(text, message, tmp_path):
    if text is not None:
        (tmp_path / "meta").mkdir()
        (tmp_path / "meta/info.json").write_text(text)
    with pytest.raises(BadInput, match=message):
        LeRobotFolder(tmp_path)
