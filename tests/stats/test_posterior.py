"""Posterior probabilities against closed forms, and the symmetries that they must have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import betaln
from scipy.stats import beta

from dexprior.errors import BadInput
from dexprior.stats import probability_better, probability_better_paired

counts = st.integers(0, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def _sum(k1: int, n1: int, k2: int, n2: int) -> float:
    """P(p1 > p2) under uniform priors as a finite sum over the successes of the first."""
    a1, b1, a2, b2 = k1 + 1, n1 - k1 + 1, k2 + 1, n2 - k2 + 1
    i = np.arange(a1)
    return float(np.exp(betaln(a2 + i, b1 + b2) - np.log(b1 + i) - betaln(1 + i, b1) - betaln(a2, b2)).sum())


@given(counts, counts)
@settings(max_examples=40, deadline=None)
def test_equals_the_finite_sum(first, second):
    assert probability_better(*first, *second) == pytest.approx(_sum(*first, *second), abs=1e-9)


@pytest.mark.parametrize("table", [(0, 1, 1, 1), (4, 10, 8, 10), (0, 3, 0, 30)])
def test_jeffreys_prior_equals_quadrature(table):
    k1, n1, k2, n2 = table
    first, second = beta(k1 + 0.5, n1 - k1 + 0.5), beta(k2 + 0.5, n2 - k2 + 0.5)
    expected = quad(lambda u: second.cdf(first.ppf(u)), 0, 1, epsabs=1e-10)[0]
    assert probability_better(*table, prior=0.5) == pytest.approx(expected, abs=1e-7)


@given(counts, counts)
@settings(max_examples=40, deadline=None)
def test_either_is_better(first, second):
    assert probability_better(*first, *second) + probability_better(*second, *first) == pytest.approx(1, abs=1e-9)


def test_edges():
    assert probability_better(0, 0, 0, 0) == pytest.approx(0.5)
    assert probability_better(1, 1, 0, 0) == pytest.approx(2 / 3)  # Beta(2, 1) against a uniform rate: its mean
    assert probability_better(10_000, 10_000, 0, 10_000) == pytest.approx(1.0)
    assert probability_better(0, 10_000, 10_000, 10_000) == pytest.approx(0.0, abs=1e-12)


def test_a_success_more_is_never_worse():
    p = [probability_better(k, 12, 5, 9) for k in range(13)]
    assert (np.diff(p) > 0).all()
    q = [probability_better_paired(k, 4) for k in range(13)]
    assert (np.diff(q) > 0).all()


def test_paired_equals_draws_from_the_dirichlet_posterior():
    cells = np.random.default_rng(0).dirichlet([31, 8, 4, 20], 200_000)
    drawn = (cells[:, 1] > cells[:, 2]).mean()
    assert probability_better_paired(7, 3) == pytest.approx(drawn, abs=4 * np.sqrt(drawn * (1 - drawn) / 200_000))
    assert probability_better_paired(0, 0) == 0.5
    assert probability_better_paired(3, 7) == pytest.approx(1 - probability_better_paired(7, 3))


def test_bad_input():
    with pytest.raises(BadInput, match="k must lie within"):
        probability_better(3, 2, 1, 2)
    with pytest.raises(BadInput, match="none may be negative"):
        probability_better_paired(-1, 2)
    for call in (lambda: probability_better(1, 2, 1, 2, prior=0.1), lambda: probability_better_paired(1, 2, prior=0)):
        with pytest.raises(BadInput, match="at least 1/2"):
            call()
