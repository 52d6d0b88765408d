"""Intervals cover what they promise to cover, and agree with those of others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from dexprior.errors import BadInput
from dexprior.stats import Rate, bootstrap_mean, clopper_pearson, newcombe

counts = st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize("n", range(1, 61))
def test_coverage_is_never_below_nominal(n):
    """Enumerates every outcome, for a grid of true rates and just beside each end, where coverage dips."""
    ends = np.array([clopper_pearson(k, n) for k in range(n + 1)])
    rates = np.concatenate([np.linspace(0, 1, 401), np.clip(np.ravel(ends[..., None] + [-1e-9, 1e-9]), 0, 1)])
    covered = (ends[:, 0, None] <= rates) & (rates <= ends[:, 1, None])
    probability = binom.pmf(np.arange(n + 1)[:, None], n, rates)
    coverage = (covered * probability).sum(axis=0)
    assert coverage.min() >= 0.95 - 1e-9


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
@pytest.mark.parametrize("n", [1, 2, 7, 30, 211])
def test_equals_scipy(n, level):
    for k in range(n + 1):
        theirs = binomtest(k, n).proportion_ci(level, method="exact")
        np.testing.assert_allclose(clopper_pearson(k, n, level), (theirs.low, theirs.high), rtol=0, atol=1e-12)


@given(counts, st.floats(0.5, 0.99))
def test_interval_holds_the_rate_and_mirrors(count, level):
    k, n = count
    low, high = clopper_pearson(k, n, level)
    assert 0 <= low <= k / n <= high <= 1
    np.testing.assert_allclose(clopper_pearson(n - k, n, level), (1 - high, 1 - low), atol=1e-10)


@given(counts)
def test_more_confidence_is_a_wider_interval(count):
    inner, outer = clopper_pearson(*count, 0.8), clopper_pearson(*count, 0.99)
    assert outer[0] <= inner[0] <= inner[1] <= outer[1]


def test_rule_of_three():
    """No failure in n trials: the rate is above 1 - 3/n or so, however lucky the run."""
    assert clopper_pearson(100, 100, 0.9)[0] == pytest.approx(1 - 3 / 100, abs=1e-3)


def test_newcombe_reproduces_his_examples():
    """Newcombe 1998, "Interval estimation for the difference...", table II, method 10."""
    assert newcombe(56, 70, 48, 80) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert newcombe(9, 10, 3, 10) == pytest.approx((0.1705, 0.8090), abs=5e-5)
    assert newcombe(10, 10, 0, 10) == pytest.approx((0.6075, 1.0000), abs=5e-5)


@given(counts, counts)
def test_newcombe_holds_the_difference_and_changes_sign(first, second):
    low, high = newcombe(*first, *second)
    difference = first[0] / first[1] - second[0] / second[1]
    assert -1 - 1e-12 <= low <= difference + 1e-12
    assert difference - 1e-12 <= high <= 1 + 1e-12
    np.testing.assert_allclose(newcombe(*second, *first), (-high, -low), atol=1e-12)


@pytest.mark.parametrize("bad", [(1, 0), (-1, 5), (6, 5)])
def test_impossible_counts(bad):
    with pytest.raises(BadInput, match=r"successes of .* trials: n must be at least 1"):
        clopper_pearson(*bad)
    with pytest.raises(BadInput):
        newcombe(*bad, 1, 2)
    with pytest.raises(BadInput):
        newcombe(1, 2, *bad)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, float("nan")])
def test_impossible_level(level):
    with pytest.raises(BadInput, match="must lie between 0 and 1"):
        clopper_pearson(1, 2, level)


def test_bootstrap_agrees_with_the_normal_interval_and_repeats():
    values = np.random.default_rng(0).normal(3.0, 2.0, 400)
    mean, low, high = bootstrap_mean(values)
    half = 1.96 * values.std() / np.sqrt(400)
    assert mean == pytest.approx(values.mean())
    assert (mean - low, high - mean) == pytest.approx((half, half), rel=0.1)
    assert bootstrap_mean(values) == (mean, low, high)
    assert bootstrap_mean(np.full(5, 2.5)) == (2.5, 2.5, 2.5)


def test_bootstrap_of_nothing():
    with pytest.raises(BadInput, match="no values"):
        bootstrap_mean(np.array([]))


def test_a_rate_is_shown_with_its_counts():
    assert str(Rate(18, 30)) == "18/30 = 60% [41%, 77%]"
    assert Rate(18, 30).value == 0.6
    assert Rate(0, 30).as_dict() == {"k": 0, "n": 30, "rate": 0.0, "interval": list(clopper_pearson(0, 30))}


def test_no_trial_is_not_a_rate_of_zero():
    nothing = Rate(0, 0)
    assert str(nothing) == "not testable"
    assert nothing.value is None
    assert nothing.interval() is None
    assert nothing.as_dict() == {"k": 0, "n": 0, "rate": None, "interval": None}


@pytest.mark.parametrize("bad", [(1, 0), (5, 4), (-1, 4), (0, -1)])
def test_impossible_rates(bad):
    with pytest.raises(BadInput):
        Rate(*bad)


def test_paired_newcombe_agrees_with_the_unpaired_one_without_correlation_and_narrows_with_it():
    from dexprior.stats import newcombe, newcombe_paired

    low, high = newcombe_paired(20, 20, 20, 20)  # independent: ad = bc
    assert (low, high) == pytest.approx(newcombe(40, 80, 40, 80))
    tight = newcombe_paired(38, 2, 2, 38)
    assert tight[1] - tight[0] < 0.5 * (high - low)
    swapped = newcombe_paired(30, 4, 12, 34)
    assert newcombe_paired(30, 12, 4, 34) == pytest.approx((-swapped[1], -swapped[0]))
    assert swapped[0] < -8 / 80 < swapped[1]


def test_paired_newcombe_gives_the_papers_example():
    """Newcombe 1998, table II: cells 43, 0, 0, 0... and 36, 12, 2, 0 with d = 0.20."""
    from dexprior.stats import newcombe_paired

    low, high = newcombe_paired(36, 12, 2, 0)
    assert low == pytest.approx(0.0569, abs=5e-4)
    assert high == pytest.approx(0.3404, abs=5e-4)
