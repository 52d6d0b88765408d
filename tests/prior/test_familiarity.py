"""Clouds that a prior has seen nothing like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dexprior.artifacts import write_tensors
from dexprior.errors import ArtifactError
from dexprior.prior.conditioning import ConditionEncoder, condition_tensors
from dexprior.prior.denoiser import JointDenoiser
from dexprior.prior.familiarity import Familiarity
from dexprior.prior.sampling import load_prior, save_prior

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def scenes(conditions):
    """200 scenes that differ in where the object lies."""
    rng = np.random.default_rng(0)
    shifts = np.column_stack([rng.uniform(-0.06, 0.06, (200, 2)), np.zeros(200)])
    return [_shifted(conditions[0], shift) for shift in shifts]


def _shifted(condition, shift):
    cloud = condition.cloud.copy()
    cloud[condition.moves, :3] += shift
    return replace(condition, cloud=cloud)


def _grown(condition, factor):
    """The object that many times as large about its middle."""
    cloud = condition.cloud.copy()
    middle = cloud[condition.moves, :3].mean(axis=0)
    cloud[condition.moves, :3] = middle + factor * (cloud[condition.moves, :3] - middle)
    return replace(condition, cloud=cloud)


@pytest.fixture(scope="module")
def encoder(scenes):
    torch.manual_seed(0)
    made = ConditionEncoder(32)
    made.fit(condition_tensors(scenes))
    return made


def test_scenes_like_the_training_ones_are_familiar_and_other_objects_and_places_are_not(encoder, scenes):
    known = Familiarity.fit(encoder, condition_tensors(scenes[:150]))
    others = known.distance(encoder, condition_tensors(scenes[150:]))
    assert (others > 1.0).mean() <= 0.1
    for odd in (_grown(scenes[160], 2.0), _shifted(scenes[160], np.array([0.3, 0.0, 0.0]))):
        assert known.distance(encoder, condition_tensors([odd]))[0] > 1.2


def test_one_of_a_hundred_training_clouds_is_beyond_the_limit(encoder, scenes):
    known = Familiarity.fit(encoder, condition_tensors(scenes))
    assert (known.distance(encoder, condition_tensors(scenes)) <= 1.0).mean() >= 0.97


def test_the_number_of_a_cloud_s_points_and_their_order_count_for_little(encoder, scenes):
    known = Familiarity.fit(encoder, condition_tensors(scenes))
    turned = replace(scenes[3], cloud=scenes[3].cloud[::-1].copy(), moves=scenes[3].moves[::-1].copy())
    a, b = (known.distance(encoder, condition_tensors([c]))[0] for c in (scenes[3], turned))
    assert a == pytest.approx(b, abs=1e-3)


def test_remembering_draws_no_random_numbers_and_changes_no_weight(encoder, scenes):
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = Familiarity.fit(encoder, condition_tensors(scenes))
    assert torch.equal(states[0], torch.get_rng_state())
    np.testing.assert_array_equal(states[1], np.random.get_state()[1])  # noqa: NPY002
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    again = Familiarity.fit(encoder, condition_tensors(scenes))
    assert first.limit == again.limit


def test_samples_say_how_far_their_cloud_is_and_an_old_checkpoint_cannot(tmp_path, scenes):
    torch.manual_seed(0)
    net = JointDenoiser(frames=6, size=16, width=32, layers=1, heads=2, channels=10, fps=3.0).eval()
    net.motion.condition.fit(condition_tensors(scenes))
    save_prior(net, tmp_path / "old", seed=0, extra={})
    known = Familiarity.fit(net.motion.condition, condition_tensors(scenes))
    save_prior(net, tmp_path / "new", seed=0, extra={}, familiarity=known)
    asked = [scenes[0], _grown(scenes[0], 2.0)]
    few = {"motion_steps": 1, "video_steps": 1}
    told = [s.provenance for s in load_prior(tmp_path / "new")[0](asked, **few)]
    assert told[0]["cloud_distance"] <= 1.0 < told[1]["cloud_distance"]
    old, _ = load_prior(tmp_path / "old")
    assert old.familiarity is None
    samples = old(asked, **few)
    assert all("cloud_distance" not in s.provenance for s in samples)
    again = load_prior(tmp_path / "new")[0](asked, **few)
    np.testing.assert_array_equal(samples[1].frames, again[1].frames)


def test_a_damaged_memory_is_named(tmp_path):
    write_tensors(tmp_path / "familiarity.safetensors", {"mean": np.zeros(3)}, {"limit": 1.0})
    with pytest.raises(ArtifactError, match=r"familiarity.safetensors is damaged: 'whitening'"):
        Familiarity.load(tmp_path)
