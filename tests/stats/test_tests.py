"""Tests of two rates: golden values, symmetry, and a size that is kept."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from dexprior.errors import BadInput
from dexprior.stats import PairedRates, boschloo, fisher, mcnemar_exact, paired_permutation


@pytest.mark.parametrize(
    ("table", "p_fisher", "p_boschloo"),
    [((4, 10, 8, 10), 0.170, 0.089), ((7, 30, 18, 30), 0.008, 0.004), ((13, 30, 21, 30), 0.067, None)],
)
def test_golden_values(table, p_fisher, p_boschloo):
    assert fisher(*table) == pytest.approx(p_fisher, abs=5e-4)
    if p_boschloo is not None:
        assert boschloo(*table) == pytest.approx(p_boschloo, abs=5e-4)


@given(st.integers(0, 8), st.integers(0, 8))
def test_fisher_does_not_care_who_is_first_or_what_success_is_called(a, b):
    p = fisher(a, 8, b, 8)
    assert 0 < p <= 1
    assert fisher(b, 8, a, 8) == pytest.approx(p)
    assert fisher(8 - a, 8, 8 - b, 8) == pytest.approx(p)


def test_boschloo_is_never_weaker_than_fisher():
    for a, b in itertools.product(range(0, 7, 2), range(0, 7, 3)):
        assert boschloo(a, 6, b, 6) <= fisher(a, 6, b, 6) + 1e-6


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (3, 7), (0, 6), (12, 4)])
def test_mcnemar_is_twice_the_binomial_tail(first, second):
    n, k = first + second, min(first, second)
    expected = 1.0 if n == 0 else min(1.0, 2 * binom.cdf(k, n, 0.5))
    assert mcnemar_exact(first, second) == pytest.approx(expected)
    assert mcnemar_exact(second, first) == pytest.approx(expected)


@pytest.mark.parametrize("n", [3, 8, 15])
def test_mcnemar_keeps_its_size(n):
    """Under no difference, the discordant pairs split like a fair coin."""
    p = np.array([mcnemar_exact(k, n - k) for k in range(n + 1)])
    for level in (0.01, 0.05, 0.2):
        assert binom.pmf(np.arange(n + 1), n, 0.5)[p <= level].sum() <= level


def test_paired_rates_count_each_kind_of_pair():
    first = np.array([1, 1, 1, 0, 0, 0], dtype=bool)
    second = np.array([1, 0, 0, 1, 0, 0], dtype=bool)
    pairs = PairedRates.of(first, second)
    assert pairs == PairedRates(both=1, only_first=2, only_second=1, neither=2)
    assert pairs.n == 6
    assert pairs.difference == pytest.approx(first.mean() - second.mean())
    assert pairs.p_value() == mcnemar_exact(2, 1)


def test_pairs_need_equal_panels():
    with pytest.raises(BadInput, match="equal panels, got 3 and 4 trials"):
        PairedRates.of(np.ones(3, bool), np.ones(4, bool))


def test_permutation_test_of_all_signs():
    """Ten differences of one sign: only two of the 1024 sign patterns are as extreme."""
    p = paired_permutation(np.arange(1.0, 11.0), np.zeros(10), draws=40_000)
    assert p == pytest.approx(2 / 1024, rel=0.4)
    assert paired_permutation(np.ones(4), np.ones(4)) == 1.0


def test_permutation_test_repeats_and_is_symmetric():
    a, b = np.random.default_rng(1).normal(size=(2, 12))
    assert paired_permutation(a, b) == paired_permutation(a, b) == pytest.approx(paired_permutation(b, a), abs=1e-12)


def test_permutation_test_keeps_its_size():
    rng = np.random.default_rng(0)
    p = np.array([paired_permutation(*rng.normal(size=(2, 8)), draws=400, seed=k) for k in range(300)])
    assert (p <= 0.1).mean() <= 0.1 + 3 * np.sqrt(0.09 / 300)


@pytest.mark.parametrize("shape", [(0,), (2, 2)])
def test_permutation_test_needs_samples(shape):
    with pytest.raises(BadInput, match="two equal, non-empty samples"):
        paired_permutation(np.zeros(shape), np.zeros(shape))
