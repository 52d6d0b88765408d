"""Tango's interval: what the score test does not reject."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from dexprior.errors import BadInput
from dexprior.stats import newcombe_paired, tango

cells = st.tuples(*[st.integers(0, 40)] * 4).filter(lambda c: sum(c) > 0)


@pytest.mark.parametrize("table", [(1, 1, 7, 12), (59, 6, 16, 80), (3, 9, 2, 1), (0, 5, 0, 9)])
def test_ends_solve_the_score_equation_with_a_numerical_maximum_likelihood(table):
    """The nuisance rate by direct maximisation instead of the paper's root of a quadratic."""
    _, b, c, _ = table
    n = sum(table)
    for end, sign in zip(tango(*table, 0.9), (1, -1)):

        def unlikely(q, d=end):
            p12, p21 = q + d, q
            rest = 1 - p12 - p21
            return -sum(k * np.log(max(p, 1e-300)) for k, p in ((b, p12), (c, p21), (n - b - c, rest)) if k)

        low, high = max(0.0, -end), (1 - end) / 2
        q = minimize_scalar(unlikely, bounds=(low, high), options={"xatol": 1e-12}).x
        z = (b - c - n * end) / np.sqrt(n * (2 * q + end * (1 - end)))
        assert z == pytest.approx(sign * norm.ppf(0.95), abs=2e-4)


@given(cells, st.floats(0.5, 0.99))
@settings(max_examples=60, deadline=None)
def test_it_holds_the_difference_and_changes_sign_with_the_sides(table, level):
    a, b, c, d = table
    low, high = tango(a, b, c, d, level)
    difference = (b - c) / sum(table)
    assert -1 <= low <= difference <= high <= 1
    assert tango(a, c, b, d, level) == (-high, -low)
    assert tango(d, b, c, a, level) == (low, high)  # concordant pairs count through their sum


@given(cells)
@settings(max_examples=40, deadline=None)
def test_more_confidence_is_a_wider_interval(table):
    inner, outer = tango(*table, 0.8), tango(*table, 0.99)
    assert outer[0] <= inner[0] <= inner[1] <= outer[1]


def test_edges():
    z2 = norm.ppf(0.975) ** 2
    # no pair disagrees: n δ² = z² δ (1 - δ) with δ = q
    assert tango(20, 0, 0, 30) == pytest.approx((-z2 / (50 + z2), z2 / (50 + z2)), abs=1e-9)
    assert tango(0, 7, 0, 0)[1] == 1.0
    assert tango(0, 0, 7, 0)[0] == -1.0
    low, high = tango(1, 0, 0, 0)
    assert -1 < low < 0 < high < 1


def test_it_agrees_with_newcombe_on_many_pairs():
    np.testing.assert_allclose(tango(4000, 700, 500, 3000), newcombe_paired(4000, 700, 500, 3000), atol=2e-4)


@pytest.mark.parametrize("bad", [(0, 0, 0, 0), (3, -1, 2, 2)])
def test_impossible_pairs(bad):
    with pytest.raises(BadInput, match="none may be negative, and at least one pair"):
        tango(*bad)


@pytest.mark.parametrize("level", [0.0, 1.0, float("nan")])
def test_impossible_level(level):
    for interval in (tango, newcombe_paired):
        with pytest.raises(BadInput, match="must lie between 0 and 1"):
            interval(1, 2, 3, 4, level)
