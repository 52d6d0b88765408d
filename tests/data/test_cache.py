"""A cached read equals the uncached one, and is never that of another file or setting."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal

import numpy as np
import pytest

import dexprior.data.cache as module
from dexprior.data.cache import ArrayCache, FrameCache, content_hash
from dexprior.data.clips import write_clip
from dexprior.data.episodes import describe_episode
from dexprior.data.readers import ClipReader
from dexprior.data.shards import ShardSet, ShardWriter
from dexprior.errors import ArtifactError, BadInput
from dexprior.types import Episode


def moving(seed: int, n: int = 20) -> np.ndarray:
    base = np.random.default_rng(seed).integers(0, 255, (32, 48, 3), dtype=np.uint8)
    return np.stack([np.roll(base, k, axis=1) for k in range(n)])


@pytest.fixture
def clip(tmp_path):
    return write_clip(tmp_path / "clip.mp4", moving(0), 30.0)


@pytest.fixture
def decoded(monkeypatch):
    """Counts decodes."""
    counts = []
    decode = FrameCache._decode
    monkeypatch.setattr(FrameCache, "_decode", lambda self, source: counts.append(source) or decode(self, source))
    return counts


@pytest.mark.parametrize("size", [None, (24, 16)])
def test_cached_equals_uncached(tmp_path, clip, size, decoded):
    cache = FrameCache(tmp_path / "cache", size=size)
    with ClipReader(clip, size=size) as reader:
        for frames in (range(3, 19), [19, 0, 4], range(0, 20, 3)):
            for _ in range(2):
                np.testing.assert_array_equal(cache.read(clip, frames), reader.read(frames))
    assert len(decoded) == 1
    np.testing.assert_array_equal(FrameCache(tmp_path / "cache", size=size).clip(clip), cache.clip(clip))
    assert len(decoded) == 1
    with pytest.raises(ValueError, match="read-only"):
        cache.clip(clip)[0] = 0
    cache.read(clip, range(4))[0] = 0  # a copy
    with pytest.raises(BadInput, match="has 20 frames"):
        cache.read(clip, range(10, 21))


def test_a_changed_source_is_decoded_again(tmp_path, clip, decoded):
    cache = FrameCache(tmp_path / "cache")
    before, state = cache.read(clip, [5]), clip.stat()
    other = write_clip(tmp_path / "other.mp4", moving(1), 30.0).read_bytes()
    clip.write_bytes(other)
    os.utime(clip, ns=(state.st_atime_ns, state.st_mtime_ns))  # a copy that keeps times
    after = cache.read(clip, [5])
    assert not np.array_equal(before, after)
    with ClipReader(clip) as reader:
        np.testing.assert_array_equal(after, reader.read([5]))
    assert len(decoded) == 2


def test_a_file_changed_in_place_within_a_clock_tick_is_noticed(tmp_path, monkeypatch):
    path = tmp_path / "clip.bin"
    for content in (b"aaaa", b"bbbb", b"cccc"):
        path.write_bytes(content)
        assert content_hash(path) == __import__("hashlib").sha256(content).hexdigest()


def test_a_settled_file_is_hashed_once(tmp_path, clip, monkeypatch):
    monkeypatch.setattr(module, "_SETTLED", -1.0)
    expected = content_hash(clip)
    monkeypatch.setattr(module.ClipSource, "read_bytes", lambda _: pytest.fail("hashed again"))
    assert content_hash(clip) == expected


def test_settings_and_decoder_have_entries_of_their_own(tmp_path, clip, monkeypatch):
    small, own = FrameCache(tmp_path / "cache", size=(16, 16)), FrameCache(tmp_path / "cache")
    assert small.clip(clip).shape[1:3] == (16, 16)
    assert own.clip(clip).shape[1:3] == (32, 48)
    before = own.key(clip)
    monkeypatch.setattr(module, "_decoder", lambda: "another version")
    assert own.arrays.path(own.key(clip)) != own.arrays.path(before)
    assert own.arrays.prune([before]) == 1
    assert own.arrays.path(before).exists()


@pytest.mark.parametrize("cut", [0, 5, 100, -1])
def test_a_half_written_entry_is_made_again(tmp_path, clip, cut):
    cache = FrameCache(tmp_path / "cache")
    whole = np.array(cache.clip(clip))
    path = cache.arrays.path(cache.key(clip))
    path.write_bytes(path.read_bytes()[:cut])
    np.testing.assert_array_equal(cache.clip(clip), whole)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_latents_depend_on_their_encoder(tmp_path, clip, dtype):
    cache = FrameCache(tmp_path / "cache")
    calls = []

    def encode(frames):
        calls.append(len(frames))
        return frames.mean(axis=(1, 2)).astype(dtype)

    for weights in ("a", "a", "b"):
        latent = cache.latent(clip, {"weights": weights}, encode)
        np.testing.assert_array_equal(latent, cache.clip(clip).mean(axis=(1, 2)).astype(dtype))
        assert latent.dtype == dtype
    assert calls == [20, 20]


def test_a_shard_clip_is_checked_before_it_is_kept(tmp_path, examples):
    with ShardWriter(tmp_path / "shards", producer="test") as writer:
        writer.write("a", examples[Episode])
    source = ShardSet(tmp_path / "shards").clip(0)
    assert content_hash(source) == source.sha256
    with source.path.open("r+b") as stream:
        stream.seek(source.offset + 100)
        stream.write(b"XX")
    with pytest.raises(ArtifactError, match="checksum"):
        FrameCache(tmp_path / "cache").clip(source)
    assert describe_episode(examples[Episode])["frames"] == 5


def _read(folder, clip, queue) -> None:
    cache = FrameCache(folder)
    queue.put([int(cache.read(clip, range(k, k + 4)).astype(int).sum()) for k in range(16)])


def test_several_processes_fill_and_read_one_cache(tmp_path, clip):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=_read, args=(tmp_path / "cache", clip, queue)) for _ in range(4)]
    for worker in workers:
        worker.start()
    sums = [queue.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(60)
    with ClipReader(clip) as reader:
        expected = [int(reader.read(range(k, k + 4)).astype(int).sum()) for k in range(16)]
    assert sums == [expected] * 4
    assert len(list((tmp_path / "cache").glob("??/*"))) == 1


def _fill_a_small_disk(folder, queue) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    cache = ArrayCache(folder)
    cache.get({"name": "small"}, lambda: np.arange(10.0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    try:
        cache.get({"name": "large"}, lambda: np.zeros(10**5))
    except ArtifactError as error:
        queue.put(str(error))


def test_a_full_disk_is_named_and_leaves_no_half_entry(tmp_path):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=_fill_a_small_disk, args=(tmp_path, queue))
    worker.start()
    assert "cannot be written" in queue.get(timeout=60)
    worker.join(60)
    cache = ArrayCache(tmp_path)
    np.testing.assert_array_equal(cache.get({"name": "small"}, lambda: pytest.fail("made again")), np.arange(10.0))
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1
