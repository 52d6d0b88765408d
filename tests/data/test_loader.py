"""Order and content are functions of (seed, epoch): workers, ranks and kills do not change them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.data.loader import (
    BucketConfig,
    ClipLoader,
    ClipTable,
    EpisodeClips,
    LoaderConfig,
    batches_of_epoch,
)
from dexprior.data.shards import ShardSet, ShardWriter, SplitConfig, split_of
from dexprior.errors import BadInput
from dexprior.types import Episode

torch = pytest.importorskip("torch")
BUCKETS = BucketConfig(sizes=((16, 16), (32, 32)), lengths=(4, 8))


@pytest.fixture(scope="module")
def shards(tmp_path_factory, example_makers):
    """Clips of 3 to 9 frames at 32 and 64 pixels; those of 3 fit no bucket."""
    folder = tmp_path_factory.mktemp("shards")
    with ShardWriter(folder, producer="test") as writer:
        for k in range(30):
            made = example_makers(n=(3, 5, 8, 9)[k % 4], seed=k, size=(16, 32)[k // 15])[Episode]
            condition = dataclasses.replace(made.condition, text=f"sentence {k}")
            writer.write(f"e{k:02d}", dataclasses.replace(made, condition=condition), seed=k)
    return ShardSet(folder)


@pytest.fixture(scope="module")
def table(shards):
    return ClipTable.from_episodes(shards, BUCKETS)


def loader(shards, table, **settings):
    cache = settings.pop("cache", None)
    return ClipLoader(EpisodeClips(shards, table, cache=cache), LoaderConfig(batch=2), seed=3, **settings)


def seen(batches) -> list:
    return [(b["episode"], b["start"].tolist(), b["frames"].numpy().tobytes()) for b in batches]


def test_buckets(shards, table):
    assert table.left_out == {"shorter than every bucket": 8}
    assert table.shapes == ((4, 16, 16), (4, 32, 32), (8, 16, 16), (8, 32, 32))
    for episode, bucket in zip(table.episode, table.bucket):
        row = shards.row(int(episode))
        frames, height, width = table.shapes[bucket]
        assert frames == max(n for n in (4, 8) if n <= row["frames"])
        assert (height, width) == (row["height"], row["width"])


def test_a_bucket_is_the_nearest_shape_that_is_not_enlarged():
    from dexprior.data.loader import _bucket

    settings = BucketConfig(sizes=((64, 64), (128, 128), (64, 112), (720, 1280)), lengths=(16, 48))
    assert _bucket(50, 360, 640, settings) == (48, 64, 112)
    assert _bucket(20, 100, 100, settings) == (16, 64, 64)
    assert _bucket(20, 32, 32, settings) == (16, 64, 64), "the least enlarged where all are larger"
    assert _bucket(15, 100, 100, settings) is None
    with pytest.raises(BadInput, match="give some, all positive"):
        BucketConfig(sizes=(), lengths=(16,))


def test_an_epoch_has_every_clip_at_most_once_and_one_shape_a_batch(table):
    for epoch in range(3):
        batches = batches_of_epoch(table, batch=2, seed=0, epoch=epoch)
        clips = np.concatenate(batches)
        assert len(set(clips)) == len(clips) >= len(table) - 4
        assert all(len(set(table.bucket[batch])) == 1 for batch in batches)
    first, second = (batches_of_epoch(table, batch=2, seed=0, epoch=e) for e in (0, 1))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))


def test_a_batch_holds_what_it_says(shards, table):
    for batch in loader(shards, table):
        for k, name in enumerate(batch["episode"]):
            number = int(name[1:])
            start, frames = int(batch["start"][k]), batch["frames"][k].numpy()
            whole = shards.read(number).sample.frames
            assert batch["text"][k] == f"sentence {number}"
            assert batch["frames"].dtype == torch.uint8
            assert np.abs(frames.astype(int) - whole[start : start + len(frames)]).mean() < 3


@pytest.mark.parametrize(
    ("workers", "context"), [(1, "fork"), (2, "fork"), pytest.param(2, "spawn", marks=pytest.mark.slow)]
)
def test_the_order_does_not_depend_on_the_workers(shards, table, workers, context):
    alone = seen(loader(shards, table))
    assert seen(loader(shards, table, workers=workers, context=context)) == alone


def test_cached_batches_are_the_same(shards, table, tmp_path):
    alone = seen(loader(shards, table))
    for _ in range(2):
        assert seen(loader(shards, table, cache=tmp_path)) == alone


@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_epoch_equals_the_uninterrupted_one(shards, table, workers):
    whole = loader(shards, table)
    expected = seen(whole) + seen(whole)
    half = len(whole) // 2
    first = loader(shards, table, workers=workers)
    iterator = iter(first)
    before = seen(next(iterator) for _ in range(half))
    state = first.state_dict()
    assert state["batch"] == half, "prefetched batches do not count"
    del iterator
    second = loader(shards, table, workers=2 - workers)
    second.load_state_dict(state)
    assert before + seen(second) + seen(second) == expected


def test_a_state_of_another_order_is_refused(shards, table):
    state = loader(shards, table).state_dict()
    with pytest.raises(BadInput, match="world = 1, this loader 2"):
        loader(shards, table, world=2).load_state_dict(state)


def test_ranks_share_no_clip_and_end_together(shards, table):
    parts = [seen(loader(shards, table, rank=rank, world=3)) for rank in range(3)]
    assert len({len(part) for part in parts}) == 1
    names = [name for part in parts for episodes, _, _ in part for name in episodes]
    assert len(set(names)) == len(names)
    together = [batch for batches in zip(*parts) for batch in batches]
    assert together == seen(loader(shards, table))[: len(together)]
    with pytest.raises(BadInput, match="rank 3 of 3"):
        loader(shards, table, rank=3, world=3)


def test_windows_change_from_epoch_to_epoch(shards, table):
    many = loader(shards, table)
    starts = [{e: s for names, start, _ in seen(many) for e, s in zip(names, start)} for _ in range(4)]
    assert any(len({epoch.get(name) for epoch in starts} - {None}) > 1 for name in starts[0])


def test_only_wanted_episodes(shards):
    splits = SplitConfig(test=0.3)
    table = ClipTable.from_episodes(shards, BUCKETS, keep=lambda row: split_of(row, splits) == "train")
    wanted = {k for k, row in enumerate(shards.rows()) if split_of(row, splits) == "train" and row["frames"] > 3}
    assert set(table.episode.tolist()) == wanted
    with pytest.raises(BadInput, match=r"no clip of .* can be used: \{'not wanted': 30\}"):
        ClipTable.from_episodes(shards, BUCKETS, keep=lambda _: False)
    with pytest.raises(BadInput, match="do not fill a batch of 99"):
        ClipLoader(EpisodeClips(shards, table), LoaderConfig(batch=99), seed=0)
