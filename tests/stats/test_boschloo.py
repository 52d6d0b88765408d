"""Boschloo's test equals SciPy's, and its rejection regions are those tables, with their size kept."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, boschloo_exact

from dexprior.errors import BadInput
from dexprior.stats import boschloo
from dexprior.stats.boschloo import rejected_from

tables = st.tuples(st.integers(1, 40), st.integers(1, 40)).flatmap(
    lambda n: st.tuples(st.integers(0, n[0]), st.just(n[0]), st.integers(0, n[1]), st.just(n[1]))
)


@given(tables)
@settings(max_examples=50, deadline=None)
def test_equals_scipy(table):
    """SciPy samples the common rate more coarsely: its maximum may lie below ours, by at most 1e-6."""
    k1, n1, k2, n2 = table
    theirs = boschloo_exact([[k1, k2], [n1 - k1, n2 - k2]]).pvalue
    assert -1e-9 <= boschloo(*table) - theirs <= 1e-6


@given(tables)
@settings(max_examples=30, deadline=None)
def test_it_does_not_care_who_is_first_or_what_success_is_called(table):
    k1, n1, k2, n2 = table
    p = boschloo(*table)
    assert 0 < p <= 1
    assert boschloo(k2, n2, k1, n1) == pytest.approx(p, rel=1e-9)
    assert boschloo(n1 - k1, n1, n2 - k2, n2) == pytest.approx(p, rel=1e-9)


@pytest.mark.parametrize("sizes", [(1, 1), (3, 7), (8, 8), (9, 5)])
@pytest.mark.parametrize("alpha", [0.025, 0.1])
def test_rejected_tables_are_those_with_a_small_p(sizes, alpha):
    n1, n2 = sizes
    rows = rejected_from(n1, n2, alpha)
    for k1, k2 in itertools.product(range(n1 + 1), range(n2 + 1)):
        p = boschloo_exact([[k1, k2], [n1 - k1, n2 - k2]], alternative="less").pvalue
        assert (k2 >= rows[k1]) == (p <= alpha), (k1, k2, p)


@pytest.mark.parametrize("sizes", [(10, 10), (13, 31), (64, 64)])
def test_size_is_kept_at_every_common_rate(sizes):
    n1, n2 = sizes
    rates = np.linspace(0, 1, 2001)[:, None]
    rows = rejected_from(n1, n2, 0.025)
    size = (binom.pmf(np.arange(n1 + 1), n1, rates) * binom.sf(rows - 1, n2, rates)).sum(axis=1)
    assert size.max() <= 0.025 + 1e-9


def test_a_thousand_trials_a_side():
    """z of the pooled test is 4.49 without, 4.45 with correction; SciPy needs half a minute for this one."""
    assert 6e-6 < boschloo(400, 1000, 500, 1000) < 9e-6


@pytest.mark.parametrize("bad", [(0, 0, 1, 2), (1, 2, 3, 2), (-1, 2, 1, 2)])
def test_impossible_counts(bad):
    with pytest.raises(BadInput, match="n must be at least 1"):
        boschloo(*bad)
    with pytest.raises(BadInput, match="alpha = 5"):
        rejected_from(2, 2, 5)
