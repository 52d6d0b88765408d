"""Samples of many conditions, by several ranks, in batches with files of their own: a killed run loses one batch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dexprior.artifacts import file_hash, load_all, save, to_tensors
from dexprior.prior.sampling import TOGETHER, HandObjectPipeline
from dexprior.progress import say
from dexprior.types import PriorCondition, VideoSample

__all__ = ["sample_batches"]


def sample_batches(
    prior: HandObjectPipeline,
    checkpoint: Path,
    conditions: Sequence[PriorCondition],
    folder: Path,
    *,
    seed: int,
    given: Mapping[str, Sequence[VideoSample]] | None = None,
    rank: int = 0,
    ranks: int = 1,
    **settings: Any,
) -> Iterator[VideoSample]:
    """Make what is missing of a rank's share; then read all samples, those of other ranks as well.

    A batch is `TOGETHER` conditions in a row. Its file is named by a hash of all that its samples depend on: weights,
    conditions, what is given, seed, number of its first sample, and settings. What is there is not made again, whoever
    made it, and a run that was killed ends with the bits of one that was not.

    Args:
        prior: sampled; its own progress bar is switched off.
        checkpoint: that it was read from.
        conditions: what to sample for, one sample each.
        folder: of the batches' files.
        seed: of the samples; sample k depends on (seed, k).
        given: as of the prior's call.
        rank, ranks: every `ranks`-th batch is this one's.
        settings: of the prior's call.

    Returns:
        An iterator over the samples; it makes the missing ones at once, and reads when it is asked for the first. Ranks
        have to wait for each other in between.
    """
    prior.set_progress_bar_config(disable=True)
    plain = {name: value for name, value in settings.items() if name != "provenance"}
    weights = [file_hash(file) for file in sorted(checkpoint.glob("denoiser/*.safetensors"))]
    files = []
    for number, first in enumerate(range(0, len(conditions), TOGETHER)):
        batch = slice(first, first + TOGETHER)
        few, kept = list(conditions[batch]), {name: list(clips[batch]) for name, clips in (given or {}).items()}
        file = folder / f"{_hash(weights, few, kept, seed, first, plain)}.safetensors"
        files.append(file)
        if number % ranks == rank and not file.exists():
            samples = prior(few, seed=seed, first=first, given=kept, **settings)
            save(samples, file, producer="sample", seed=seed)
            say(f"sample: {first + len(few)} of {len(conditions)}")
    return (sample for file in files for sample in load_all(file, VideoSample))


def _hash(*values: Any) -> str:
    """Sixteen hex digits of values and their arrays."""
    tensors, tree = to_tensors(values)
    seen = hashlib.sha256(json.dumps(tree, sort_keys=True, default=str).encode())
    for name in sorted(tensors):
        seen.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode() + tensors[name].tobytes())
    return seen.hexdigest()[:16]
