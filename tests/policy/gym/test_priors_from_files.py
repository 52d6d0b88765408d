"""Experts and recorded episodes from files, and experts that were made worse."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.policy.gym.experts import Defect, Expert, defective, play, read_prior, to_quality
from dexprior.policy.gym.worlds import EnvConfig, GymWorlds
from dexprior.policy.pairs import Pairs

KINDS = ("noise", "bias", "slow", "delay")


@pytest.fixture
def worlds():
    return GymWorlds("Point-v0", 8, EnvConfig(success_steps=6))


def test_an_expert_plays_its_episodes_to_a_success(worlds, expert_file):
    expert = read_prior(expert_file, worlds)
    assert isinstance(expert, Expert)
    played = play(worlds, lambda: expert, 10, seed=3)
    assert played.success.tolist() == [1.0] * 10
    assert played.pairs.episodes == 10
    assert len(played.pairs) == 120
    again = play(worlds, lambda: expert, 10, seed=3)
    np.testing.assert_array_equal(again.pairs.action, played.pairs.action)
    totals = np.bincount(played.pairs.episode, weights=played.pairs.reward)
    np.testing.assert_allclose(totals, played.returned)


def test_recorded_episodes_are_told_apart(worlds, episodes_file):
    pairs = read_prior(episodes_file, worlds)
    assert isinstance(pairs, Pairs)
    assert pairs.episodes == 10
    assert (np.bincount(pairs.episode) == 12).all()


def test_what_follows_an_end_is_left_out():
    worlds = GymWorlds("PointEnds-v0", 4, EnvConfig())
    played = play(worlds, lambda: lambda state: np.zeros((len(state), 2)), 6, seed=0)
    assert (np.bincount(played.pairs.episode) == 5).all()
    assert played.pairs.ended.sum() == 6


@pytest.mark.parametrize("kind", KINDS)
def test_a_defect_of_no_strength_leaves_an_expert_as_it_was(worlds, expert_file, kind):
    expert = read_prior(expert_file, worlds)
    good = play(worlds, lambda: expert, 4, seed=0)
    same = play(worlds, defective(expert, Defect(kind=kind), 2, seed=0), 4, seed=0)
    np.testing.assert_allclose(same.pairs.action, np.clip(good.pairs.action, -1, 1), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_an_expert_is_made_as_bad_as_is_wanted(worlds, expert_file, kind):
    expert = read_prior(expert_file, worlds)
    defect, share = to_quality(worlds, expert, kind, 0.5, seed=0, episodes=40)
    assert defect.strength > 0
    if kind == "noise":
        assert abs(share - 0.5) < 0.15
    worse = play(worlds, defective(expert, defect, 2, seed=0), 40, seed=0)
    assert worse.success.mean() == share < 1.0


def _archive(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_files_that_do_not_fit_are_named(worlds, expert_file, tmp_path):
    layers = dict(np.load(expert_file))
    rows = {"observations": np.zeros((6, 2)), "actions": np.zeros((6, 2)), "start": [0, 3]}
    wrong = {
        "reads 3 numbers and gives 2; this environment shows 2 and takes 2": layers | {"w0": np.zeros((8, 3))},
        "of which b1 is missing": {k: v for k, v in layers.items() if k != "b1"},
        "observations of 2 numbers and actions of 4": rows | {"actions": np.zeros((6, 4))},
        "expected a row a step": rows | {"actions": np.zeros((5, 2))},
        "holds no 'start'": {k: v for k, v in rows.items() if k != "start"},
        r"start has 0\.\.9, of 6 rows": rows | {"start": [0, 9]},
        "'state' holds numbers that are not finite": rows | {"observations": np.full((6, 2), np.nan)},
        r"rewards \(5,\), expected one for each of 6 steps": rows | {"rewards": np.zeros(5)},
        "no step at all": {"observations": np.zeros((0, 2)), "actions": np.zeros((0, 2)), "start": [0]},
    }  # fmt: skip
    for k, (said, arrays) in enumerate(wrong.items()):
        with pytest.raises(BadInput, match=said):
            read_prior(_archive(tmp_path / f"{k}.npz", **arrays), worlds)
