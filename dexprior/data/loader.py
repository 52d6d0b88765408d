"""Batches of clips for training: the same order with any number of workers, and an exact resume inside an epoch.

    table = ClipTable.from_episodes(episodes, BucketConfig(sizes=((64, 64),), lengths=(16, 48)))
    loader = ClipLoader(EpisodeClips(episodes, table, cache=folder), LoaderConfig(batch=8), seed=0, workers=2)
    for batch in loader:                      # one epoch, or what is left of it
        step(batch["frames"])                 # uint8 (batch, time, height, width, 3)
        state = loader.state_dict()           # belongs to the batches that were yielded, not to those prefetched

Every random choice is a function of (seed, epoch, clip), so that it does not matter which worker makes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

import numpy as np
from jaxtyping import Int32, Int64

from dexprior.config import Ge, config
from dexprior.data.cache import FrameCache
from dexprior.data.episodes import EpisodeSet
from dexprior.data.readers import ClipPool
from dexprior.errors import BadInput

if TYPE_CHECKING:
    import torch

__all__ = [
    "BucketConfig",
    "ClipLoader",
    "ClipTable",
    "Clips",
    "Draw",
    "EpisodeClips",
    "LoaderConfig",
    "batches_of_epoch",
]


@config
class BucketConfig:
    """Shapes that batches may have."""

    sizes: tuple[tuple[int, int], ...] = ((64, 64),)
    """(height, width) to scale to; a clip gets the one whose aspect ratio is nearest, then the largest it fills."""
    lengths: tuple[int, ...] = (16,)
    """Frames; a clip gets the largest that it has, a shorter one is left out."""

    def __post_init__(self) -> None:
        if not self.sizes or not self.lengths or min(self.lengths) < 1 or min(map(min, self.sizes)) < 1:
            raise BadInput(f"BucketConfig: sizes {self.sizes}, lengths {self.lengths}: give some, all positive")


@config
class LoaderConfig:
    """How clips become batches."""

    batch: Annotated[int, Ge(1)] = 8
    """Clips in a batch of one rank; a bucket's last clips that fill none wait for another epoch's order."""
    open_clips: Annotated[int, Ge(1)] = 4
    """Decoders that each worker keeps open."""
    prefetch: Annotated[int, Ge(1)] = 2
    """Batches that each worker makes ahead."""


@dataclass(frozen=True)
class Draw:
    """One clip of one epoch: what a worker is told."""

    epoch: int
    clip: int


@dataclass(frozen=True)
class ClipTable:
    """Which bucket each usable clip is in: two numbers a clip, however many there are."""

    episode: Int64[np.ndarray, " clip"]
    """Number of the episode in its set."""
    bucket: Int32[np.ndarray, " clip"]
    shapes: tuple[tuple[int, int, int], ...]
    """(frames, height, width) of each bucket."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Reason -> number of episodes."""

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def fingerprint(self) -> str:
        """Hash of which episode is in which bucket."""
        digest = hashlib.sha256(repr(self.shapes).encode())
        for array in (self.episode, self.bucket):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    @classmethod
    def from_episodes(
        cls, episodes: EpisodeSet, settings: BucketConfig, *, keep: Callable[[Mapping[str, Any]], bool] | None = None
    ) -> ClipTable:
        """Sort episodes into buckets by their index rows; no clip is opened.

        Args:
            episodes: of either layout.
            settings: the buckets.
            keep: which rows to use, e.g. `lambda row: split_of(row, splits) == "train"`; all when omitted.

        Raises:
            BadInput: no episode is left.
        """
        shapes = tuple((length, *size) for length in sorted(settings.lengths) for size in settings.sizes)
        number, bucket = np.zeros(len(episodes), np.int64), np.zeros(len(episodes), np.int32)
        used = 0
        left_out: dict[str, int] = {}
        for k in range(len(episodes)):
            row = episodes.row(k)
            shape = _bucket(row["frames"], row["height"], row["width"], settings)
            reason = "not wanted" if keep is not None and not keep(row) else "shorter than every bucket"
            if shape is None or reason == "not wanted":
                left_out[reason] = left_out.get(reason, 0) + 1
                continue
            number[used], bucket[used] = k, shapes.index(shape)
            used += 1
        if not used:
            raise BadInput(f"no clip of {episodes.folder} can be used: {left_out or 'it is empty'}")
        return cls(number[:used].copy(), bucket[:used].copy(), shapes, left_out)


class Clips(Protocol):
    """What a loader draws from: a map from a draw to arrays, the same for the same draw."""

    table: ClipTable

    def __getitem__(self, draw: Draw) -> dict[str, Any]: ...


class EpisodeClips:
    """Clips of episodes: a window of the bucket's length at the bucket's size, with its sentence.

    The window starts at a frame drawn from (seed, epoch, clip). Opens what it reads in the process that reads it.
    """

    def __init__(
        self,
        episodes: EpisodeSet,
        table: ClipTable,
        *,
        seed: int = 0,
        cache: str | Path | None = None,
        open_clips: int = 4,
    ) -> None:
        """Draw from episodes.

        Args:
            episodes: of either layout.
            table: their buckets.
            seed: of the windows.
            cache: folder for decoded frames; decoded anew each time when omitted.
            open_clips: decoders kept open for each size, without a cache.
        """
        self.episodes, self.table, self.seed = episodes, table, seed
        sizes = {shape[1:] for shape in table.shapes}
        self._caches = {} if cache is None else {size: FrameCache(cache, size=size) for size in sizes}
        self._pools = {} if cache is not None else {size: ClipPool(most=open_clips, size=size) for size in sizes}

    def __getitem__(self, draw: Draw) -> dict[str, Any]:
        number = int(self.table.episode[draw.clip])
        length, *size = self.table.shapes[self.table.bucket[draw.clip]]
        row = self.episodes.row(number)
        rng = np.random.default_rng([self.seed, draw.epoch, draw.clip])
        start = int(rng.integers(row["frames"] - length + 1))
        reader = (self._caches or self._pools)[size[0], size[1]]
        frames = reader.read(self.episodes.clip(number), range(start, start + length))
        return {"frames": frames, "text": row["text"], "episode": row["id"], "start": start, "fps": row["fps"]}


def batches_of_epoch(
    table: ClipTable, *, batch: int, seed: int, epoch: int, rank: int = 0, world: int = 1
) -> list[Int64[np.ndarray, " batch"]]:
    """The batches of one epoch for one rank: clips shuffled within buckets, then batches shuffled.

    Batch k of the epoch goes to rank k mod `world`; batches that do not come out even for all ranks are left out, so
    that no rank waits for another. Ranks never share a clip within an epoch.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(table))
    batches: list[np.ndarray] = []
    for bucket in range(len(table.shapes)):
        clips = order[table.bucket[order] == bucket]
        batches += list(clips[: len(clips) // batch * batch].reshape(-1, batch))
    batches = [batches[k] for k in rng.permutation(len(batches))]
    return batches[rank : len(batches) // world * world : world]


class ClipLoader:
    """Iterates over one epoch after another; `for batch in loader` gives the rest of the present one."""

    def __init__(
        self,
        clips: Clips,
        settings: LoaderConfig,
        *,
        seed: int,
        workers: int = 0,
        rank: int = 0,
        world: int = 1,
        context: str | None = None,
    ) -> None:
        """Load from `clips`.

        Args:
            clips: what a worker evaluates; pickled where workers are spawned.
            settings: batch size and read-ahead.
            seed: of the order.
            workers: processes; 0 loads in this one.
            rank: of this process among `world` that train together.
            world: number of ranks.
            context: how workers start (fork, spawn, forkserver); the platform's choice when omitted.

        Raises:
            BadInput: an impossible rank, or fewer clips than one batch for each rank.
        """
        if not 0 <= rank < world:
            raise BadInput(f"rank {rank} of {world}: expected 0 <= rank < world")
        self.clips, self.settings, self.seed = clips, settings, seed
        self.workers, self.rank, self.world, self.context = workers, rank, world, context
        self._epoch, self._batch = 0, 0
        if not self._batches(0):
            raise BadInput(
                f"{len(clips.table)} clips in {len(clips.table.shapes)} buckets do not fill a batch of "
                f"{settings.batch} for each of {world} ranks"
            )

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        return len(self._batches(self._epoch))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        import torch

        batches = self._batches(self._epoch)[self._batch :]
        epoch = self._epoch
        draws = ([Draw(epoch, int(clip)) for clip in batch] for batch in batches)
        loader: Any = torch.utils.data.DataLoader(
            cast("torch.utils.data.Dataset[Any]", _Mapped(self.clips)),
            batch_sampler=cast("torch.utils.data.Sampler[list[Any]]", draws),
            num_workers=self.workers,
            collate_fn=_collate,
            prefetch_factor=self.settings.prefetch if self.workers else None,
            multiprocessing_context=self.context if self.workers else None,
        )
        for batch in loader:
            self._batch += 1  # before the yield: the state belongs to what the caller holds
            yield batch
        self._epoch, self._batch = self._epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is: plain data."""
        return {
            "seed": self.seed,
            "epoch": self._epoch,
            "batch": self._batch,
            "clips": self.clips.table.fingerprint,
            "world": self.world,
            "batch_size": self.settings.batch,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another loader was.

        Raises:
            BadInput: its order was another one.
        """
        for name, value in self.state_dict().items():
            if name not in ("epoch", "batch") and state.get(name) != value:
                raise BadInput(f"the loader's state has {name} = {state.get(name)}, this loader {value}: not its order")
        self._epoch, self._batch = state["epoch"], state["batch"]

    def _batches(self, epoch: int) -> list[np.ndarray]:
        return batches_of_epoch(
            self.clips.table,
            batch=self.settings.batch,
            seed=self.seed,
            epoch=epoch,
            rank=self.rank,
            world=self.world,
        )


class _Mapped:
    """A dataset in torch's sense: `DataLoader` only asks for items."""

    def __init__(self, clips: Clips) -> None:
        self.clips = clips

    def __len__(self) -> int:
        return len(self.clips.table)

    def __getitem__(self, draw: Draw) -> dict[str, Any]:
        return self.clips[draw]


def _collate(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Stack arrays and numbers into tensors; texts stay lists."""
    import torch

    out: dict[str, torch.Tensor | list[Any]] = {}
    for name, first in items[0].items():
        values = [item[name] for item in items]
        if isinstance(first, np.ndarray):
            out[name] = torch.from_numpy(np.stack(values))
        elif isinstance(first, (int, float)):
            out[name] = torch.tensor(values)
        else:
            out[name] = values
    return out


def _bucket(frames: int, height: int, width: int, settings: BucketConfig) -> tuple[int, int, int] | None:
    lengths = [length for length in settings.lengths if length <= frames]
    if not lengths:
        return None

    def misfit(size: tuple[int, int]) -> tuple[int, bool, int]:
        aspect = abs(np.log(size[1] * height / (size[0] * width))) / 0.1  # within a tenth counts as equal
        enlarged = size[0] > height or size[1] > width
        area = size[0] * size[1]
        return round(float(aspect)), enlarged, area if enlarged else -area

    return max(lengths), *min(settings.sizes, key=misfit)
