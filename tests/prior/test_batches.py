"""Many samples in batches: killed, shared and given again, they are those of one run, and nothing is made twice."""

from __future__ import annotations

import pytest
import torch

import dexprior.prior.batches as batches
from dexprior.prior.batches import sample_batches
from dexprior.prior.denoiser import JointDenoiser
from dexprior.prior.sampling import HandObjectPipeline, load_prior, save_prior

pytestmark = pytest.mark.usefixtures("one_thread")
FEW = {"motion_steps": 2, "video_steps": 1, "provenance": {"checkpoint": "here"}}


class Killed(Exception):
    """In place of a signal."""


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    """A small prior on disk; two conditions a batch."""
    monkeypatch.setattr(batches, "TOGETHER", 2)
    torch.manual_seed(0)
    model = JointDenoiser(frames=6, size=16, width=32, layers=1, heads=2, channels=10, fps=3.0).eval()
    model.motion_mean[[3, 7]] = 1.0  # a rotation
    model.motion_std.fill_(0.1)
    torch.nn.init.normal_(model.motion.head.weight, 0, 0.05)
    save_prior(model, tmp_path / "prior", seed=0, extra={})
    return tmp_path / "prior"


def _counting(checkpoint, monkeypatch, *, last: int | None = None):
    """A pipeline, and the numbers of the first samples of its batches; before its `last` one it is killed."""
    pipeline, seen = load_prior(checkpoint)[0], []
    whole = HandObjectPipeline.__call__

    def called(self, few, **settings):
        if len(seen) == last:
            raise Killed
        seen.append(settings["first"])
        return whole(self, few, **settings)

    monkeypatch.setattr(HandObjectPipeline, "__call__", called)
    return pipeline, seen


def test_a_killed_run_makes_nothing_twice_and_ends_with_the_same_bits(
    checkpoint, conditions, tmp_path, monkeypatch, same
):
    asked = [*conditions, conditions[0]]
    with monkeypatch.context() as m:
        pipeline, seen = _counting(checkpoint, m)
        whole = list(sample_batches(pipeline, checkpoint, asked, tmp_path / "whole", seed=1, **FEW))
        assert seen == [0, 2, 4]
    with monkeypatch.context() as m:
        pipeline, _ = _counting(checkpoint, m, last=1)
        with pytest.raises(Killed):
            sample_batches(pipeline, checkpoint, asked, tmp_path / "killed", seed=1, **FEW)
    with monkeypatch.context() as m:
        pipeline, seen = _counting(checkpoint, m)
        again = list(sample_batches(pipeline, checkpoint, asked, tmp_path / "killed", seed=1, **FEW))
        assert seen == [2, 4]
        list(sample_batches(pipeline, checkpoint, asked, tmp_path / "killed", seed=1, **FEW))
        assert seen == [2, 4]
    assert [sample.provenance["index"] for sample in whole] == [0, 1, 2, 3, 4]
    for a, b in zip(whole, again, strict=True):
        same(a, b)
    together = pipeline(asked, seed=1, **FEW)
    for a, b in zip(whole, together):
        assert abs(a.hand.joints - b.hand.joints).max() < 1e-5


def test_ranks_share_the_batches(checkpoint, conditions, tmp_path, monkeypatch, same):
    pipeline, seen = _counting(checkpoint, monkeypatch)
    one = list(sample_batches(pipeline, checkpoint, conditions, tmp_path / "one", seed=1, **FEW))
    seen.clear()
    shares = [
        sample_batches(pipeline, checkpoint, conditions, tmp_path / "two", seed=1, rank=rank, ranks=2, **FEW)
        for rank in range(2)
    ]
    assert seen == [0, 2]
    for share in shares:
        for a, b in zip(one, share, strict=True):
            same(a, b)


def test_other_samples_are_made_again(checkpoint, conditions, tmp_path, monkeypatch):
    pipeline, seen = _counting(checkpoint, monkeypatch)

    def made(asked=conditions[:2], seed=1, **settings):
        seen.clear()
        samples = list(sample_batches(pipeline, checkpoint, asked, tmp_path / "made", seed=seed, **{**FEW, **settings}))
        return samples, bool(seen)

    clips, first = made()
    assert first
    assert not made()[1]
    assert not made(provenance={"checkpoint": "elsewhere"})[1]  # the weights count, not where they lie
    assert made(seed=2)[1]
    assert made(motion_steps=3)[1]
    assert made(conditions[1:3])[1]
    assert made(given={"motion": clips})[1]
    assert not made(given={"motion": clips})[1]
    save_prior(pipeline.denoiser.requires_grad_(False), checkpoint, seed=0, extra={})
    assert not made()[1]
    pipeline.denoiser.motion.head.bias.add_(0.1)
    save_prior(pipeline.denoiser, checkpoint, seed=0, extra={})
    assert made()[1]
