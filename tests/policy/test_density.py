"""Densities over actions: normalised, calibrated, of several modes and sentences, and aware of where they end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dexprior.errors import ArtifactError, BadInput, UnknownName
from dexprior.policy.density import DensityConfig, coverage, fit_density, load_density, save_density
from dexprior.policy.pairs import Pairs
from dexprior.policy.priors import DensityPrior

KINDS = ("flow", "mixture")
pytestmark = pytest.mark.usefixtures("one_thread")
SPREAD, JITTER = 0.1, 0.02


def _two_habits(rng: np.random.Generator, n: int, side: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """States, and actions that go round an obstacle on either side."""
    state = rng.normal(size=(n, 2)).astype(np.float32)
    side = rng.choice([-1.0, 1.0], n) if side is None else side
    mean = np.column_stack([0.5 * side + 0.2 * np.tanh(state[:, 0]), 0.2 * side * state[:, 1]])
    return state, mean + SPREAD * rng.normal(size=(n, 2))


def _true_log_density(state: np.ndarray, action: np.ndarray) -> np.ndarray:
    variance = SPREAD**2 + JITTER**2
    each = []
    for side in (-1.0, 1.0):
        mean = np.column_stack([0.5 * side + 0.2 * np.tanh(state[:, 0]), 0.2 * side * state[:, 1]])
        each.append(-0.5 * (((action - mean) ** 2).sum(1) / variance) - np.log(2 * np.pi * variance) - np.log(2.0))
    return np.logaddexp(*each)


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    """A density of the two habits, and what held-out episodes say of it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    state, action = _two_habits(np.random.default_rng(0), 6000)
    pairs = Pairs(observation={"state": state}, action=action, episode=np.repeat(np.arange(100), 60))
    config = DensityConfig(kind=request.param, width=32, context=16, components=4, steps=600, rate=3e-3)
    found = fit_density(pairs, replace(config, jitter=JITTER, transforms=2), seed=0)
    torch.set_num_threads(before)
    return found


@torch.no_grad()
def test_two_habits_are_both_kept_within_a_tenth_of_a_nat(fitted):
    density, _ = fitted
    rng = np.random.default_rng(1)
    state, action = _two_habits(rng, 4000)
    action = action + JITTER * rng.normal(size=action.shape)
    context = density.context({"state": torch.from_numpy(state)})
    found = density.log_prob_at(context, torch.from_numpy(action.astype(np.float32))).numpy()
    assert (_true_log_density(state, action) - found).mean() < 0.1
    drawn = density.sample(context, torch.Generator().manual_seed(0)).numpy()
    assert 0.45 < (drawn[:, 0] > 0).mean() < 0.55
    assert (np.abs(drawn[:, 0]) < 0.1).mean() < 0.03  # between the habits nobody goes


@torch.no_grad()
def test_a_density_integrates_to_one(fitted):
    density, _ = fitted
    axis = torch.linspace(-2.5, 2.5, 301)
    grid = torch.cartesian_prod(axis, axis)
    for state in ([0.0, 0.0], [1.0, -0.7]):
        context = density.context({"state": torch.tensor([state])}).expand(len(grid), -1)
        cell = float(axis[1] - axis[0]) ** 2
        assert float(density.log_prob_at(context, grid).exp().sum()) * cell == pytest.approx(1.0, abs=0.02)


@torch.no_grad()
def test_its_spread_is_calibrated(fitted):
    density, told = fitted
    state, action = _two_habits(np.random.default_rng(2), 2000)
    context = density.context({"state": torch.from_numpy(state)})
    found = coverage(density, context, torch.from_numpy(action.astype(np.float32)), levels=(0.5, 0.9))
    assert found["0.5"] == pytest.approx(0.5, abs=0.06)
    assert found["0.9"] == pytest.approx(0.9, abs=0.04)
    assert told["coverage"]["0.9"] == pytest.approx(0.9, abs=0.06)


@torch.no_grad()
def test_what_it_was_not_fitted_to_is_strange(fitted):
    density, _ = fitted
    state = np.random.default_rng(3).normal(size=(500, 2)).astype(np.float32)
    near = density.strangeness({"state": torch.from_numpy(state)})
    far = density.strangeness({"state": torch.from_numpy(state + np.float32(8.0))})
    assert float((near <= 1.0).float().mean()) > 0.95
    assert float((far > 1.0).float().mean()) == 1.0


def test_the_sampled_kl_is_the_kl_in_the_mean(fitted):
    """Of a Gaussian around one habit: against the integral over a grid."""
    prior = DensityPrior(fitted[0])
    state = torch.zeros(1, 2)
    noted = prior.note({"state": state}, {}, np.zeros(1, dtype=int))
    mean, std = torch.tensor([[0.45, 0.05]]), torch.tensor([0.08, 0.12])
    axis = torch.linspace(-0.8, 1.6, 401)
    grid = torch.cartesian_prod(axis, axis)
    own = (-0.5 * ((grid - mean) / std).square() - std.log() - 0.5 * np.log(2 * np.pi)).sum(-1)
    density = fitted[0].log_prob_at(noted["context"].expand(len(grid), -1), grid)
    exact = float((own.exp() * (own - density)).sum()) * float(axis[1] - axis[0]) ** 2
    many = {name: value.expand(8000, *value.shape[1:]) for name, value in noted.items()}
    found = prior.kl(many, mean.expand(8000, -1), std, torch.Generator().manual_seed(0))
    assert float(found.mean()) == pytest.approx(exact, abs=0.08)


def test_a_file_gives_the_same_density(fitted, tmp_path):
    density = fitted[0]
    again = load_density(save_density(density, tmp_path / "density.safetensors", seed=0))
    state, action = torch.randn(5, 2), torch.randn(5, 2)
    context = density.context({"state": state})
    assert torch.equal(again.log_prob_at(again.context({"state": state}), action), density.log_prob_at(context, action))
    (tmp_path / "density.safetensors").write_bytes(b"nothing")
    with pytest.raises(ArtifactError, match=r"density\.safetensors"):
        load_density(tmp_path / "density.safetensors")


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_chooses_the_habit(kind):
    rng = np.random.default_rng(4)
    which = np.repeat(rng.integers(2, size=60), 30)
    state, action = _two_habits(rng, 1800, np.where(which == 1, 1.0, -1.0))
    pairs = Pairs(
        observation={"state": state}, action=action, episode=np.repeat(np.arange(60), 30), sentence=which,
        sentences=("to the left", "to the right"),
    )  # fmt: skip
    density, _ = fit_density(
        pairs, DensityConfig(kind=kind, width=24, context=8, components=2, steps=400, rate=3e-3), seed=0
    )
    state = torch.randn(300, 2)
    for sentence, side in (("to the left", -1), ("to the right", 1), (None, -1)):
        prior = DensityPrior(density, sentence)
        noted = prior.note({"state": state}, {}, np.zeros(300, dtype=int))
        drawn = prior.act(noted, torch.Generator().manual_seed(0))
        assert float((side * drawn[:, 0] > 0).float().mean()) > 0.97
    with pytest.raises(UnknownName, match="unknown sentence 'to the rihgt'; did you mean 'to the right'"):
        DensityPrior(density, "to the rihgt")


def test_chunks_are_actions_in_a_row():
    episode = np.repeat([0, 1, 2], [7, 2, 6])
    action = np.arange(15.0)[:, None]
    pairs = Pairs(observation={"state": action.copy()}, action=action, episode=episode).chunks(3)
    assert pairs.action.tolist() == [[0, 1, 2], [3, 4, 5], [9, 10, 11], [12, 13, 14]]
    assert pairs.observation["state"][:, 0].tolist() == [0, 3, 9, 12]
    assert pairs.episode.tolist() == [0, 0, 2, 2]


def test_a_chunk_knows_that_its_actions_hang_together():
    """Two actions that are always equal: a density of chunks is far above the product of their own."""
    rng = np.random.default_rng(5)
    first = rng.choice([-0.5, 0.5], 1000)
    action = np.repeat(first, 2)[:, None] + 0.02 * rng.normal(size=(2000, 1))
    pairs = Pairs(observation={"state": np.zeros((2000, 1), np.float32)}, action=action, episode=np.arange(2000) // 20)
    config = DensityConfig(kind="mixture", components=4, width=16, context=4, steps=300, chunk=2)
    density, told = fit_density(pairs, config, seed=0)
    drawn = density.sample(density.context({"state": torch.zeros(400, 1)}), torch.Generator().manual_seed(0))
    assert float((drawn[:, 0] * drawn[:, 1] > 0).float().mean()) > 0.95
    _, single = fit_density(pairs, replace(config, chunk=1), seed=0)
    assert told["nats"] > 2 * single["nats"] + 0.4


def test_pairs_that_teach_nothing_are_refused():
    one = Pairs(observation={"state": np.zeros((4, 2))}, action=np.zeros((4, 1)), episode=np.zeros(4, dtype=int))
    with pytest.raises(BadInput, match="one episode cannot be split"):
        fit_density(one, DensityConfig(), seed=0)
    with pytest.raises(BadInput, match="no episode has the 5 steps of a chunk"):
        one.chunks(5)
    with pytest.raises(BadInput, match=r"reads 'state' alone, these pairs hold \['cloud'\]"):
        fit_density(replace(one, observation={"cloud": np.zeros((4, 2))}), DensityConfig(), seed=0)
    with pytest.raises(BadInput, match="3 rows of 'action' for 4 steps"):
        replace(one, action=np.zeros((3, 1)))
