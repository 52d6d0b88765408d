"""Episodes come back, and a killed writer costs at most the line that it was writing."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from pictured import pictured_episode, two_handed_episode

from dexprior.artifacts import read_tensors, write_tensors
from dexprior.data.episodes import EpisodeFolder, append_index, read_episode, read_episodes, read_index, write_episode
from dexprior.errors import ArtifactError, BadInput
from dexprior.types import Episode


def smooth_frames(n: int, size: int) -> np.ndarray:
    """A gradient that moves: what a video codec keeps well."""
    x = np.linspace(0, 1, size)
    picture = np.stack(np.broadcast_arrays(x[:, None], x[None], 0.5), axis=-1)
    return np.stack([(255 * np.clip(picture * (0.5 + 0.1 * k), 0, 1)).astype(np.uint8) for k in range(n)])


@pytest.fixture(scope="module")
def episode(example_makers):
    made = example_makers(n=5, size=64)[Episode]
    sample = dataclasses.replace(made.sample, frames=smooth_frames(5, 64))
    return dataclasses.replace(made, sample=sample)


@pytest.fixture
def folder(tmp_path, episode):
    """Attempts 0 and 2 were kept, 1 was not."""
    for number, kept in enumerate([True, False, True]):
        if kept:
            write_episode(tmp_path, number, episode, producer="test", seed=number)
        append_index(tmp_path, {"number": number, "kept": kept, "seed": number})
    return tmp_path


def test_an_episode_comes_back(folder, episode, same):
    back = read_episode(folder, 0)
    frames = back.sample.frames
    assert frames.shape == episode.sample.frames.shape
    error = frames.astype(float) - episode.sample.frames
    assert np.abs(error).mean() < 3.0  # the video is lossy
    exact = dataclasses.replace(back, sample=dataclasses.replace(back.sample, frames=episode.sample.frames))
    same(exact, episode)


def test_cameras_that_move_come_back(folder, same):
    walks = pictured_episode(walks=True)
    main = walks.sample.camera
    other = dataclasses.replace(walks.views[0], camera=dataclasses.replace(main, T_base_cam=main.T_base_cam[::-1]))
    write_episode(folder, 3, dataclasses.replace(walks, views=(other,)), producer="test")
    back = read_episode(folder, 3)
    same(back.sample.camera, main)
    same(back.condition.camera, main)
    same(back.views[0].camera, other.camera)


def test_two_hands_come_back(tmp_path, same):
    both = two_handed_episode()
    write_episode(tmp_path, 0, both, producer="test")
    append_index(tmp_path, {"number": 0, "kept": True})
    back = read_episode(tmp_path, 0)
    same(back.sample.hands, both.sample.hands)
    same(back.condition.start + back.condition.target, both.condition.start + both.condition.target)
    assert EpisodeFolder(tmp_path).row(0)["hands"] == ["right", "left"]


def test_the_pixels_are_in_the_video_only(folder):
    tensors, _ = read_tensors(folder / "000000.safetensors")
    assert not [name for name in tensors if "frames" in name]
    assert sorted(p.name for p in folder.iterdir()) == [
        "000000.mp4", "000000.safetensors", "000002.mp4", "000002.safetensors", "index.jsonl",
    ]  # fmt: skip


def test_kept_episodes_in_order(folder):
    assert len(list(read_episodes(folder))) == 2
    assert [row["number"] for row in read_index(folder)] == [0, 1, 2]


def test_no_kept_episode(tmp_path):
    append_index(tmp_path, {"number": 0, "kept": False})
    with pytest.raises(ArtifactError, match="holds no kept episode; make some with `dexprior data`"):
        list(read_episodes(tmp_path))


def test_no_index(tmp_path):
    with pytest.raises(ArtifactError, match=r"index\.jsonl: no such file; is .* a folder of episodes\?"):
        read_index(tmp_path)


@pytest.mark.parametrize("half", ['{"number": 3, "ke', '{"number": 3, "kept": true}', "\n\xff"[1:], "{"])
def test_a_half_written_last_line_is_dropped_and_appending_goes_on(folder, half):
    before = read_index(folder)
    with (folder / "index.jsonl").open("a") as stream:
        stream.write(half)
    assert read_index(folder) == before
    append_index(folder, {"number": 3, "kept": False})
    assert read_index(folder) == [*before, {"number": 3, "kept": False}]


def test_every_cut_of_the_index_reads_as_whole_lines(folder):
    index = folder / "index.jsonl"
    data, rows = index.read_bytes(), read_index(folder)
    for length in range(len(data)):
        index.write_bytes(data[:length])
        assert read_index(folder) == rows[: data[:length].count(b"\n")]


def test_a_damaged_line_before_the_last_is_told(folder):
    index = folder / "index.jsonl"
    lines = index.read_text().splitlines(keepends=True)
    index.write_text(lines[0] + "{oops\n" + lines[2])
    with pytest.raises(ArtifactError, match=r"index\.jsonl, line 2: "):
        read_index(folder)


def test_missing_video(folder):
    (folder / "000002.mp4").unlink()
    with pytest.raises(BadInput, match=r"no clip at .*000002\.mp4"):
        read_episode(folder, 2)


def test_missing_arrays(folder):
    (folder / "000002.safetensors").unlink()
    with pytest.raises(ArtifactError, match=r"000002\.safetensors: no such file"):
        read_episode(folder, 2)


def test_video_of_another_episode(folder, example_makers):
    longer = example_makers(n=7, size=64)[Episode]
    write_episode(folder, 3, longer, producer="test")
    (folder / "000003.mp4").replace(folder / "000000.mp4")
    with pytest.raises(BadInput, match="7 frames, 5 hand poses"):
        read_episode(folder, 0)


def test_another_schema(folder):
    path = folder / "000000.safetensors"
    tensors, meta = read_tensors(path)
    meta["header"]["schema"] = "dexprior.episode/0"
    write_tensors(path, tensors, meta)
    with pytest.raises(
        ArtifactError,
        match=r"holds 'dexprior\.episode/0', .*make it again with `dexprior data generate`",
    ):
        read_episode(folder, 0)
    with pytest.raises(ArtifactError, match=r"make it again with `dexprior data generate`"):
        EpisodeFolder(folder).row(0)


def test_the_index_is_plain_json_lines(folder):
    lines = (folder / "index.jsonl").read_text().splitlines()
    assert [json.loads(line)["kept"] for line in lines] == [True, False, True]
