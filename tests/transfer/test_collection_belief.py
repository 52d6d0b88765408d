"""The belief about contributions: closed forms where there are any, nested Monte Carlo where there are none."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dexprior.errors import ArtifactError, BadInput, UnknownName
from dexprior.families import GAPS
from dexprior.transfer.collection import (
    UNKNOWN,
    Belief,
    Contribution,
    Noise,
    PairCounts,
    check_probabilities,
    read_probabilities,
)

NAMES = (*GAPS, UNKNOWN)
EVEN = dict.fromkeys(NAMES, 1 / 7)
COSTS = dict.fromkeys(NAMES, Contribution(0.3, 0.1))
NOISE = Noise(0.5, 0.3)
SURE = {"contact": 1.0}


def sure(**more) -> Belief:
    """Contact is the cause, for certain: a normal distribution."""
    return Belief.from_diagnosis(SURE, COSTS, trust=1.0, quiet=0.02, **more)


def test_moments_before_the_trials_are_those_of_the_mixtures():
    belief = Belief.from_diagnosis(EVEN, COSTS, trust=1.0)
    p = 1 / 7
    variance = p * (0.1**2 + 0.3**2) + (1 - p) * 0.02**2 - (p * 0.3) ** 2
    assert belief.mean == pytest.approx(6 * p * 0.3, abs=1e-4)
    assert belief.variance == pytest.approx(6 * variance, rel=1e-3)
    assert belief.variance_of_sum() == pytest.approx(belief.variance, rel=1e-3)


@pytest.mark.parametrize("n", [10.0, 100.0])
def test_information_has_its_closed_form_where_everything_is_normal(n):
    # the scatter of a pair depends a little on c, so that it is made constant: rates are clipped far from 0 and 1
    class Constant(Noise):
        def variance(self, c):
            return np.full_like(c, 0.35)

    noise = Constant(0.5, 0.3)
    side = 5 * 0.02**2
    before = 0.1**2 + side
    left = 1 / (1 / 0.1**2 + n / 0.35)
    found = sure().information("contact", noise, np.array([n]))[0]
    assert found == pytest.approx(0.5 * np.log(before / (left + side)), rel=0.01)
    assert sure().expected_variances("contact", noise, np.array([n]))[0] == pytest.approx(left, rel=0.01)


def test_information_agrees_with_nested_monte_carlo_over_bernoulli_pairs():
    """Pairs are drawn as they are run, and p(y | T), p(y) are means over inner draws (Rainforth et al. 2018)."""
    n, outer, inner = 40, 6000, 4000
    belief = Belief.from_diagnosis({"contact": 0.6, "object": 0.4}, COSTS, trust=1.0)
    rng = np.random.default_rng(0)
    active = rng.random((2, outer)) < np.array([[0.6], [0.4]])
    c = np.where(active, rng.normal(0.3, 0.1, active.shape), rng.normal(0, 0.02, active.shape))
    rest = rng.normal(0, 0.02, (4, outer)).sum(axis=0)
    total = c.sum(axis=0) + rest
    p, q = 0.5, np.clip(0.5 + c[0], 0.02, 0.98)
    covariance = 0.3 * np.sqrt(p * (1 - p) * q * (1 - q))
    gain, loss = q * (1 - p) - covariance, p * (1 - q) - covariance
    draws = rng.random((n, outer))
    y = ((draws < gain).sum(axis=0) - ((draws >= gain) & (draws < gain + loss)).sum(axis=0)) / n

    def density(y, c):
        v = NOISE.variance(c) / n
        return np.exp(-0.5 * (y - c) ** 2 / v) / np.sqrt(v)

    # p(y) over the prior; p(y | T) with the prior's c weighted by how well the rest then fits T
    few = slice(0, 800)
    other = c[1][:inner] + rest[:inner]
    marginal = np.array([density(v, c[0][:inner]).mean() for v in y[few]])
    spread = 0.012  # of the kernel that compares sums
    conditional = []
    for v, t in zip(y[few], total[few]):
        weight = np.exp(-0.5 * ((t - c[0][:inner] - other[rng.permutation(inner)]) / spread) ** 2)
        conditional.append((weight @ density(v, c[0][:inner])) / weight.sum())
    estimate = np.mean(np.log(np.array(conditional) / marginal))
    error = np.std(np.log(np.array(conditional) / marginal)) / np.sqrt(800)
    exact = belief.information("contact", NOISE, np.array([float(n)]))[0]
    assert exact == pytest.approx(estimate, abs=4 * error + 0.03)
    assert exact > 0.2


def test_more_pairs_tell_more_and_a_gap_that_is_known_tells_nothing():
    belief = Belief.from_diagnosis({"contact": 0.7, "visual": 0.3}, COSTS, trust=1.0)
    told = belief.information("contact", NOISE, np.array([5.0, 20.0, 80.0, 320.0]))
    assert np.all(np.diff(told) > 0)
    assert belief.information("human", NOISE, np.array([20.0]))[0] < 0.01 * told[1]


def test_pairs_move_the_belief_to_their_difference():
    belief = Belief.from_diagnosis(EVEN, COSTS).updated({"visual": PairCounts(90, 10, 200)})
    visual = belief.contribution("visual")
    assert visual["low"] < 0.4 < visual["high"]
    assert visual["high"] - visual["low"] < 0.2
    assert belief.updated({"visual": PairCounts(0, 0, 0)}).mean == belief.mean


def test_updates_add_up_in_any_order():
    belief = Belief.from_diagnosis(EVEN, COSTS)
    a, b = {"contact": PairCounts(5, 1, 10)}, {"contact": PairCounts(2, 3, 10), "human": PairCounts(1, 0, 5)}
    np.testing.assert_array_equal(belief.updated(a).updated(b).total, belief.updated(b).updated(a).total)


def test_the_likelihood_is_that_of_a_bernoulli_pair_by_simulation():
    """The posterior's interval holds what was drawn from its prior about as often as it says."""
    rng = np.random.default_rng(3)
    prior = sure()
    held = 0
    for _ in range(200):
        c = np.clip(rng.normal(0.3, 0.1), 0.02, 0.48)
        agree = rng.uniform(c, 1.0)  # share of pairs that disagree
        gain, loss, _ = rng.multinomial(60, [(agree + c) / 2, (agree - c) / 2, 1 - agree])
        post = prior.updated({"contact": PairCounts(int(gain), int(loss), 60)}).contribution("contact")
        held += post["low"] <= c <= post["high"]
    assert 0.90 <= held / 200 <= 0.99


def test_a_measured_gap_narrows_the_sum_and_leaves_room_for_the_unknown():
    known = Belief.from_diagnosis({"contact": 1.0}, COSTS, trust=1.0, measured=(0.3, 0.03))
    shared = Belief.from_diagnosis({"contact": 0.5, UNKNOWN: 0.5}, COSTS, trust=1.0, measured=(0.3, 0.03))
    assert known.width() < 0.5 * sure().width()
    assert known.mean == pytest.approx(0.3, abs=0.01)
    assert shared.width() > 2 * known.width()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"contact": 0.5, "visual": 0.4}, "sum to 0.9"),
        ({"contact": float("nan"), "visual": 1.0}, "contact"),
        ({"contact": -0.2, "visual": 1.2}, "-0.2"),
        ({}, "no gap"),
    ],
)
def test_what_is_no_distribution_is_refused(given, named):
    with pytest.raises(BadInput, match=named):
        check_probabilities(given)


def test_unknown_gaps_are_named_everywhere():
    with pytest.raises(UnknownName, match="contact"):
        check_probabilities({"contract": 1.0})
    with pytest.raises(UnknownName, match="friction"):
        Belief.from_diagnosis(EVEN, COSTS | {"friction": Contribution(0.1, 0.1)})
    with pytest.raises(UnknownName, match="unknown"):
        Belief.from_diagnosis(EVEN, COSTS).updated({UNKNOWN: PairCounts(0, 0, 1)})


@pytest.mark.parametrize(
    "make",
    [
        lambda: PairCounts(3, 3, 5),
        lambda: PairCounts(-1, 0, 5),
        lambda: Contribution(1.2, 0.1),
        lambda: Contribution(0.2, float("nan")),
        lambda: Noise(0.5, 1.0),
        lambda: Belief.from_diagnosis(EVEN, {"contact": Contribution(0.1, 0.1)}),
        lambda: Belief.from_diagnosis(EVEN, COSTS, trust=1.5),
        lambda: Belief.from_diagnosis(EVEN, COSTS, measured=(0.3, 0.0)),
    ],
)
def test_impossible_values_are_refused(make):
    with pytest.raises(BadInput):
        make()


def test_a_diagnosis_is_read_alone_or_under_its_name(tmp_path):
    path = tmp_path / "diagnosis.json"
    path.write_text(json.dumps({"probabilities": EVEN, "note": "x"}))
    assert read_probabilities(path) == EVEN
    path.write_text(json.dumps(EVEN))
    assert read_probabilities(path) == EVEN
    path.write_text("[1]")
    with pytest.raises(ArtifactError, match=r"diagnosis\.json"):
        read_probabilities(path)
