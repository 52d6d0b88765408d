"""Shards: many writers, kills, full disks and damage cost at most the episode that they hit."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tarfile

import numpy as np
import pytest

from dexprior.data.clips import read_clip
from dexprior.data.episodes import append_index, read_episodes, write_episode
from dexprior.data.readers import ClipReader
from dexprior.data.shards import ShardSet, ShardWriter, SplitConfig, open_episodes, split_of
from dexprior.data.stacks import load_stack
from dexprior.errors import ArtifactError, BadInput
from dexprior.types import Episode
from dexprior.types.episode import View


def smooth(n: int, size: int, shift: float = 0.0) -> np.ndarray:
    x = np.linspace(0, 1, size)
    picture = np.stack(np.broadcast_arrays(x[:, None], x[None], 0.5), axis=-1)
    return np.stack([(255 * np.clip(picture * (0.5 + shift + 0.1 * k), 0, 1)).astype(np.uint8) for k in range(n)])


@pytest.fixture(scope="module")
def episode(example_makers):
    made = example_makers(n=5, size=32)[Episode]
    return dataclasses.replace(made, sample=dataclasses.replace(made.sample, frames=smooth(5, 32)))


@pytest.fixture(scope="module")
def two_cameras(episode):
    depth = np.linspace(0.3, 1.2, 5 * 32 * 32, dtype=np.float32).reshape(5, 32, 32)
    depth[:, :4] = 0
    side = View(name="side", camera=episode.sample.camera, frames=smooth(5, 32, 0.2), depth=depth)
    front = View(name="front", camera=episode.sample.camera, depth=depth)
    return dataclasses.replace(episode, views=(side, front))


def fill(folder, episode, names, writer="w0", **settings):
    with ShardWriter(folder, writer=writer, producer="test", **settings) as shards:
        for k, name in enumerate(names):
            shards.write(name, episode, seed=k)


def ids(folder) -> list[str]:
    return [row["id"] for row in ShardSet(folder).rows()]


def without_pixels(episode: Episode) -> Episode:
    sample = dataclasses.replace(episode.sample, frames=np.zeros_like(episode.sample.frames))
    return dataclasses.replace(episode, sample=sample, views=())


def test_an_episode_comes_back_with_all_its_cameras(tmp_path, two_cameras, same):
    fill(tmp_path, two_cameras, ["a"])
    back = ShardSet(tmp_path).read(0)
    same(without_pixels(back), without_pixels(two_cameras))
    assert [view.name for view in back.views] == ["side", "front"]
    for view, written in zip(back.views, two_cameras.views):
        same(view.camera, written.camera)
        assert np.abs(view.depth - written.depth).max() <= 0.51e-4
        assert (view.depth[:, :4] == 0).all()
    assert back.views[1].frames is None
    assert np.abs(back.views[0].frames.astype(int) - two_cameras.views[0].frames).mean() < 4


def test_the_folder_layout_keeps_the_same_parts(tmp_path, two_cameras, same):
    write_episode(tmp_path / "folder", 7, two_cameras, producer="test", seed=3)
    append_index(tmp_path / "folder", {"number": 7, "kept": True, "seed": 3})
    fill(tmp_path / "shards", two_cameras, ["a"])
    folder, shards = open_episodes(tmp_path / "folder"), open_episodes(tmp_path / "shards")
    same(folder.read(0), shards.read(0))
    described, row = folder.row(0), shards.row(0)
    assert (described.pop("id"), described.pop("seed")) == ("000007", 3)
    assert described == {key: row[key] for key in described}
    for view in (None, "side"):
        np.testing.assert_array_equal(read_clip(folder.clip(0, view))[0], read_clip(shards.clip(0, view))[0])
    with pytest.raises(BadInput, match=r"has no back\.mp4; it has: mp4, side\.mp4"):
        shards.clip(0, "back")


def test_a_clip_is_read_inside_its_shard(tmp_path, episode):
    fill(tmp_path, episode, ["a", "b"])
    shards = ShardSet(tmp_path)
    with ClipReader(shards.clip(1)) as clip:
        np.testing.assert_array_equal(clip.read([4, 1]), read_clip(shards.clip(0), reader="pyav")[0][[4, 1]])


def test_a_shard_is_a_plain_tar(tmp_path, two_cameras):
    fill(tmp_path, two_cameras, ["a", "b"])
    with tarfile.open(tmp_path / "w0-00000.tar", "r|") as stream:
        names = [member.name for member in stream]
    parts = ["mp4", "side.mp4", "side.depth.mkv", "front.depth.mkv", "safetensors", "json"]
    assert names == [f"{name}.{part}" for name in "ab" for part in parts]


def test_stacks_and_episodes_read_both_layouts(tmp_path, episode, same):
    fill(tmp_path / "shards", episode, ["a", "b"])
    for number in range(2):
        write_episode(tmp_path / "folder", number, episode, producer="test")
        append_index(tmp_path / "folder", {"number": number, "kept": True})
    for a, b in zip(read_episodes(tmp_path / "shards"), read_episodes(tmp_path / "folder"), strict=True):
        same(a, b)
    one, other = load_stack(tmp_path / "shards", 16), load_stack(tmp_path / "folder", 16)
    np.testing.assert_array_equal(one.frames, other.frames)
    fill(tmp_path / "shards", episode, ["c"], writer="w1")
    assert len(load_stack(tmp_path / "shards", 16)) == 3, "a stack notices that its shards grew"


def test_shards_are_rolled_and_writing_goes_on(tmp_path, episode):
    fill(tmp_path, episode, "abc", max_bytes=1)
    fill(tmp_path, episode, "d", max_bytes=10**9)
    fill(tmp_path, episode, "e", max_bytes=10**9)
    assert [p.name for p in sorted(tmp_path.glob("*.tar"))] == [f"w0-0000{k}.tar" for k in range(4)]
    assert ids(tmp_path) == list("abcde")
    with ShardWriter(tmp_path, producer="test") as shards, pytest.raises(BadInput, match="'b' is in"):
        shards.write("b", episode)


def test_the_same_episodes_give_the_same_shards(tmp_path, two_cameras, monkeypatch):
    monkeypatch.setattr("time.strftime", lambda *_: "2026-01-01T00:00:00Z")
    for name in ("one", "two"):
        fill(tmp_path / name, two_cameras, "ab")
    assert (tmp_path / "one/w0-00000.tar").read_bytes() == (tmp_path / "two/w0-00000.tar").read_bytes()
    assert ShardSet(tmp_path / "one").fingerprint == ShardSet(tmp_path / "two").fingerprint


def test_a_writer_name_is_one_process(tmp_path, episode):
    with ShardWriter(tmp_path, producer="test"):
        with pytest.raises(BadInput, match="writer 'w0' is open in another process"):
            ShardWriter(tmp_path, producer="test")
        fill(tmp_path, episode, "b", writer="w1")
    for name in ("", "a-b", "../a"):
        with pytest.raises(BadInput, match="expected letters"):
            ShardWriter(tmp_path, writer=name, producer="test")
    with ShardWriter(tmp_path, producer="test") as shards, pytest.raises(BadInput, match=r"episode 'a\.b'"):
        shards.write("a.b", episode)


def _write_many(folder, writer, episode) -> None:
    fill(folder, episode, [f"{writer}-{k}" for k in range(6)], writer=writer)


def test_several_writers_at_once(tmp_path, episode):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_write_many, args=(tmp_path, f"w{k}", episode)) for k in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    shards = ShardSet(tmp_path)
    assert sorted(row["id"] for row in shards.rows()) == [f"w{k}-{n}" for k in range(3) for n in range(6)]
    assert len(list(shards.usable())) == 18
    assert not shards.damage


# --- kills and damage ---


def test_every_cut_leaves_the_whole_episodes(tmp_path, episode, same):
    fill(tmp_path, episode, "abc")
    shard = tmp_path / "w0-00000.tar"
    data, ends = shard.read_bytes(), [row["end"] for row in ShardSet(tmp_path).rows()]
    for length in [*range(ends[0] - 512, len(data), 1013), *ends, *(end + 1 for end in ends)]:
        shard.write_bytes(data[:length])
        whole = [name for name, end in zip("abc", ends) if end <= length]
        shards = ShardSet(tmp_path)
        assert [row["id"] for row in shards.rows()] == whole
        if whole:
            same(without_pixels(shards.read(len(whole) - 1)), without_pixels(episode))
        named = {damage.episode for damage in shards.damage}
        assert named >= set("abc") - set(whole)


@pytest.mark.parametrize("index", ["lost", "behind", "cut"])
def test_an_index_is_completed_from_its_shard(tmp_path, two_cameras, same, index):
    fill(tmp_path, two_cameras, "abc")
    path = tmp_path / "w0-00000.jsonl"
    rows, before = list(ShardSet(tmp_path).rows()), path.read_text()
    lines = before.splitlines(keepends=True)
    if index == "lost":
        path.unlink()
    else:
        path.write_text("".join(lines[:2]) + (lines[2][:40] if index == "cut" else ""))
    shards = ShardSet(tmp_path)
    assert json.loads(json.dumps(list(shards.rows()))) == rows
    assert not shards.damage
    same(without_pixels(shards.read(2)), without_pixels(two_cameras))
    fill(tmp_path, two_cameras, "d")
    assert path.read_text().startswith(before), "the writer completes the file"
    assert ids(tmp_path) == list("abcd")


_VICTIM = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
import dexprior.data.shards as shards
from tests.conftest import make_examples
from dexprior.types import Episode
episode = make_examples(n=5, size=32)[Episode]
writer = shards.ShardWriter(sys.argv[1], producer="test")
writer.write("a", episode); writer.write("b", episode)
def half(stream, data):
    stream.write(data[: len(data) // 2]); os.kill(os.getpid(), signal.SIGKILL)
shards._write_all = half
writer.write("c", episode)
"""


def test_a_killed_writer_goes_on_behind_the_last_whole_episode(tmp_path, episode):
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    done = subprocess.run([sys.executable, "-c", _VICTIM, str(tmp_path), root], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]
    shards = ShardSet(tmp_path)
    assert [row["id"] for row in shards.rows()] == ["a", "b"]
    assert [(d.episode, d.reason) for d in shards.damage] == [
        ("c", "its writer stopped in the middle of it, or is writing it")
    ]
    with ShardWriter(tmp_path, producer="test") as writer:
        assert writer.ids == {"a", "b"}
        assert [damage.episode for damage in writer.dropped] == ["c"]
        writer.write("c", episode)
    shards = ShardSet(tmp_path)
    assert [row["id"] for row, _ in shards.usable()] == ["a", "b", "c"]
    assert not shards.damage


def _fill_a_small_disk(folder, episode, queue) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as a full disk: write() fails
    written = 0
    try:
        with ShardWriter(folder, producer="test") as writer:
            resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
            while written < 100:
                writer.write(f"e{written}", episode)
                written += 1
    except ArtifactError as error:
        queue.put((written, str(error)))


def test_a_full_disk_is_named_and_what_was_written_stays(tmp_path, episode):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=_fill_a_small_disk, args=(tmp_path, episode, queue))
    worker.start()
    written, message = queue.get(timeout=60)
    worker.join(60)
    assert 0 < written < 100
    assert f"episode 'e{written}' cannot be written" in message
    assert f"the {written} episodes of this writer are whole: free some space" in message
    shards = ShardSet(tmp_path)
    assert len(list(shards.usable())) == written
    assert not shards.damage
    fill(tmp_path, episode, [f"e{written}"])
    assert len(list(ShardSet(tmp_path).usable())) == written + 1


def test_a_flipped_byte_costs_one_episode(tmp_path, episode):
    fill(tmp_path, episode, "abc")
    shards = ShardSet(tmp_path)
    clip = shards.clip(1)
    with clip.path.open("r+b") as stream:
        stream.seek(clip.offset + clip.length // 2)
        byte = stream.read(1)
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([byte[0] ^ 1]))
    with pytest.raises(ArtifactError, match=r"episode 'b' in .*: mp4 does not have its checksum"):
        shards.read(1)
    assert [row["id"] for row, _ in shards.usable()] == ["a", "c"]
    assert [damage.episode for damage in shards.damage] == ["b"]


def test_a_damaged_index_line_costs_one_episode(tmp_path, episode):
    fill(tmp_path, episode, "abc")
    path = tmp_path / "w0-00000.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + "{oops\n" + lines[2])
    shards = ShardSet(tmp_path)
    assert [row["id"] for row in shards.rows()] == ["a", "c"]
    assert "damaged in line 2" in shards.damage[0].reason


def test_an_episode_that_two_writers_wrote_counts_once(tmp_path, episode):
    fill(tmp_path, episode, "ab", writer="w0")
    fill(tmp_path, episode, "bc", writer="w1")
    shards = ShardSet(tmp_path)
    assert [row["id"] for row in shards.rows()] == ["a", "b", "c"]
    assert [(d.shard, d.episode) for d in shards.damage] == [("w1-00000.tar", "b")]


def test_no_shards(tmp_path):
    with pytest.raises(ArtifactError, match="holds no shard"):
        ShardSet(tmp_path)


# --- splits ---


def rows(n, objects=("nut", "peg", "cloth")):
    return [{"id": str(k), "seed": k, "object": objects[k % len(objects)]} for k in range(n)]


@pytest.mark.parametrize("by", ["seed", "object"])
def test_a_split_shares_no_seed_or_object(by):
    many = rows(4000, [f"object {k}" for k in range(500)])
    settings = SplitConfig(by=by, validation=0.2, test=0.1)
    found = [split_of(row, settings) for row in many]
    groups: dict = {}
    for row, split in zip(many, found):
        groups.setdefault(row[by], set()).add(split)
    assert all(len(splits) == 1 for splits in groups.values())
    assert found.count("validation") == pytest.approx(800, abs=160)
    assert found.count("test") == pytest.approx(400, abs=130)


def test_more_episodes_move_none():
    settings = SplitConfig()
    before = {row["id"]: split_of(row, settings) for row in rows(200)}
    after = {row["id"]: split_of(row, settings) for row in reversed(rows(3000))}
    assert all(after[key] == split for key, split in before.items())


def test_held_out_objects_are_tested_on():
    settings = SplitConfig(held_out=("peg",))
    assert {split_of(row, settings) for row in rows(60) if row["object"] == "peg"} == {"test"}
    with pytest.raises(BadInput, match="more than all"):
        SplitConfig(validation=0.8, test=0.3)
