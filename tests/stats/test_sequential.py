"""Looking after every trial does not raise the error: by enumeration of all paths, not by asymptotics."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, binom

from dexprior.errors import BadInput
from dexprior.stats import confidence_sequence, pairs_differ, rate_above, rate_below, rates_differ

LOOKS = 150


def _evidence_by_count(test, looks: int) -> np.ndarray:
    """log e at (n, k), of a test whose evidence depends on the counts only: successes first reach every state."""
    paths = np.arange(looks)[None] < np.arange(looks + 1)[:, None]
    log_e = test(paths)
    table = np.full((looks + 1, looks + 1), -np.inf)
    for k in range(looks + 1):
        for n in range(max(k, 1), looks + 1):
            table[n, k] = log_e[k, n - 1]
    return table


def _ever_reached(table: np.ndarray, alpha: float, rate: float) -> float:
    """Probability that the evidence ever reaches 1/alpha, by dynamic programming over the counts."""
    alive = np.zeros(len(table) + 1)
    alive[0] = 1.0
    reached = 0.0
    for n in range(1, len(table)):
        alive[1:] = alive[1:] * (1 - rate) + alive[:-1] * rate
        alive[0] *= 1 - rate
        stop = table[n] >= -np.log(alpha)
        reached += alive[:-1][stop].sum()
        alive[:-1][stop] = 0.0
    return float(reached)


@pytest.mark.parametrize("bound", [0.1, 0.5, 0.9])
def test_a_rate_within_its_bound_is_rejected_with_at_most_alpha_over_all_looks(bound):
    table = _evidence_by_count(lambda paths: rate_above(paths, bound).log_e, LOOKS)
    for alpha in (0.05, 0.2):
        errors = [_ever_reached(table, alpha, rate) for rate in np.linspace(0, bound, 9)]
        assert max(errors) <= alpha
        assert (np.diff(errors) >= -1e-12).all()  # the bound itself is the hardest
        if bound < 0.9:  # 150 trials are few between 90 and 95 %
            assert _ever_reached(table, alpha, 0.5 * (1 + bound)) > 0.9


def test_a_fixed_size_test_looked_at_each_time_would_not_keep_alpha():
    """The check above has teeth: the same machinery finds that an ordinary p value, peeked at, errs far too often."""
    n, k = np.mgrid[0 : LOOKS + 1, 0 : LOOKS + 1]
    with np.errstate(divide="ignore"):
        table = np.where(k <= n, -np.log(binom.sf(k - 1, n, 0.5)), -np.inf)
    assert _ever_reached(table, 0.05, 0.5) > 0.15


def test_evidence_is_the_mixture_of_likelihood_ratios():
    outcomes, bound = np.array([1, 0, 1, 1, 1, 0, 1, 1], dtype=bool), 0.4
    k, n = outcomes.sum(), len(outcomes)
    expected = quad(lambda p: (p / bound) ** k * ((1 - p) / (1 - bound)) ** (n - k), bound, 1)[0] / (1 - bound)
    assert np.exp(rate_above(outcomes, bound).log_e[-1]) == pytest.approx(expected, rel=1e-9)
    assert rate_below(~outcomes, 1 - bound).log_e == pytest.approx(rate_above(outcomes, bound).log_e)


@pytest.mark.parametrize("rate", [0.03, 0.5, 0.8])
def test_expected_evidence_of_every_look_is_at_most_one(rate):
    for bound in (rate, min(rate + 0.1, 0.9)):
        table = _evidence_by_count(lambda paths, b=bound: rate_above(paths, b).log_e, 40)
        for n in (1, 5, 40):
            e = np.exp(table[n, : n + 1]) @ binom.pmf(np.arange(n + 1), n, rate)
            assert e <= 1 + 1e-9
            if bound == rate:
                assert e == pytest.approx(1, abs=1e-9)  # nothing is wasted at the bound


def test_pairs_that_do_not_differ_are_rejected_with_at_most_alpha_over_all_looks():
    """Concordant pairs change nothing, so the looks at discordant pairs are all; those are fair coins."""
    table = _evidence_by_count(lambda paths: pairs_differ(paths, ~paths).log_e, LOOKS)
    for alpha in (0.05, 0.2):
        assert _ever_reached(table, alpha, 0.5) <= alpha
        assert _ever_reached(table, alpha, 0.8) > 0.95
    first = np.array([1, 1, 0, 0, 1], dtype=bool)
    assert pairs_differ(first, first).log_e == pytest.approx(np.zeros(5))
    both = pairs_differ(np.array([1, 1, 0, 1], dtype=bool), np.array([0, 1, 0, 0], dtype=bool)).log_e
    assert both[0] == both[1] == both[2] < both[3]


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.77])
def test_equal_rates_by_enumeration_of_every_path(rate):
    """Seven looks of two trials: all 16384 paths."""
    looks = 7
    paths = np.array(list(itertools.product([False, True], repeat=2 * looks)))
    k = paths.sum(axis=1)
    probability = rate**k * (1 - rate) ** (2 * looks - k)
    evidence = rates_differ(paths[:, :looks], paths[:, looks:])
    assert probability.sum() == pytest.approx(1)
    assert ((np.exp(evidence.log_e) * probability[:, None]).sum(axis=0) <= 1 + 1e-9).all()
    for alpha in (0.05, 0.2, 0.5):
        assert probability[evidence.stop(alpha) > 0].sum() <= alpha


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_equal_rates_over_many_looks(rate):
    first, second = np.random.default_rng(1).random((2, 4000, 200)) < rate
    wrong = (rates_differ(first, second).stop(0.05) > 0).mean()
    assert wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4000)


def test_different_rates_are_found_early():
    rng = np.random.default_rng(2)
    first, second = rng.random((500, 200)) < 0.9, rng.random((500, 200)) < 0.5
    looks = rates_differ(first, second).stop(0.05)
    assert (looks > 0).mean() > 0.99
    assert np.median(looks[looks > 0]) < 60
    assert rates_differ(second, first).log_e == pytest.approx(rates_differ(first, second).log_e)


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.7])
def test_confidence_sequence_covers_at_all_looks_at_once(rate):
    """By dynamic programming: a look misses the rate just where the mixture rejects it."""
    paths = np.arange(LOOKS)[None] < np.arange(LOOKS + 1)[:, None]
    table = np.zeros((LOOKS + 1, LOOKS + 1))
    n = np.arange(1, LOOKS + 1)
    for k in range(LOOKS + 1):
        ones = np.minimum(n, k)
        log_e = beta.logpdf(rate, ones + 1, n - ones + 1)
        table[n, ones] = -log_e  # posterior over prior density at the rate is one over the mixture's evidence
    missed = _ever_reached(table, 0.05, rate)
    assert missed <= 0.05
    low, high = confidence_sequence(paths)
    for k in (0, 3, LOOKS // 2, LOOKS):
        rejected = np.maximum.accumulate(table[n, np.minimum(n, k)] >= -np.log(0.05))
        np.testing.assert_array_equal(rejected, (rate < low[k]) | (rate > high[k]))


def test_confidence_sequence_narrows_mirrors_and_holds_the_rate():
    outcomes = np.random.default_rng(3).random(400) < 0.3
    low, high = confidence_sequence(outcomes)
    assert (np.diff(low) >= 0).all()
    assert (np.diff(high) <= 0).all()
    assert low[-1] < 0.3 < high[-1] < low[-1] + 0.2
    mirrored = confidence_sequence(~outcomes)
    np.testing.assert_allclose(mirrored[0], 1 - high, atol=1e-12)
    inner = confidence_sequence(outcomes, 0.8)
    assert (low <= inner[0]).all()
    one = confidence_sequence(np.array([True]))
    # B(2, 1) p^-1 = 1/α at the lower end
    assert (one[0][0], one[1][0]) == pytest.approx((0.05 / 2, 1.0))


def test_p_value_falls_and_stops_where_it_reaches_alpha():
    outcomes = np.random.default_rng(4).random((50, 80)) < 0.8
    evidence = rate_above(outcomes, 0.5)
    p = evidence.p_value()
    assert ((p > 0) & (p <= 1)).all()
    assert (np.diff(p, axis=-1) <= 0).all()
    stops = evidence.stop(0.05)
    assert (stops > 0).any()
    for row, look in zip(p, stops):
        assert (row > 0.05).all() if look == 0 else row[look - 1] <= 0.05 < np.append(1.0, row)[look - 1]


def test_far_tails_stay_finite():
    n = np.arange(1, 3001)
    none = rate_above(np.zeros(3000, dtype=bool), 0.9).log_e
    np.testing.assert_allclose(none, -np.log(n + 1), atol=1e-9)  # ∫ ((1 - p) / 0.1)^n dp / 0.1
    every = rate_above(np.ones(3000, dtype=bool), 0.1).log_e
    np.testing.assert_allclose(
        every, -n * np.log(0.1) - np.log(n + 1) - np.log(0.9) + np.log1p(-(0.1 ** (n + 1.0))), rtol=1e-9
    )
    # where the tail stops being a float, the evidence goes on smoothly
    mixed = rate_above(np.arange(6000) % 10 < 5, 0.8).log_e
    assert np.isfinite(mixed).all()
    # half a trial in ten: log e = log(sum) - log(n / 2 + 1) falls like 1 / n
    slope = np.diff(mixed[999::10]) * np.arange(1000, 5991, 10) / 10
    np.testing.assert_allclose(slope, -1, atol=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rate_above(np.array([], dtype=bool), 0.5), "at least one trial"),
        (lambda: rate_above(np.ones(3, dtype=bool), 1.0), "bound = 1.0"),
        (lambda: rate_below(np.ones(3, dtype=bool), 0.0), "bound = 1.0"),
        (lambda: pairs_differ(np.ones(3, dtype=bool), np.ones(4, dtype=bool)), "equal ones"),
        (lambda: rates_differ(np.ones(0, dtype=bool), np.ones(0, dtype=bool)), "equal ones"),
        (lambda: confidence_sequence(np.ones(3, dtype=bool), 1.0), "level = 1.0"),
        (lambda: rate_above(np.ones(3, dtype=bool), 0.5).stop(0.0), "alpha = 0.0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(BadInput, match=message):
        call()
