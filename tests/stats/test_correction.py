"""Corrections of a family of p values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dexprior.errors import BadInput
from dexprior.stats import benjamini_hochberg, holm

rows = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_golden_values():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])


@given(rows)
def test_between_the_raw_value_and_bonferroni_in_the_same_order(p):
    raw, by_holm, by_bh = np.array(p), holm(p), benjamini_hochberg(p)
    assert (raw <= by_bh + 1e-12).all()
    assert (by_bh <= by_holm + 1e-12).all()
    assert (by_holm <= np.minimum(raw * len(p), 1) + 1e-12).all()
    order = np.argsort(raw, kind="stable")
    assert (np.diff(by_holm[order]) >= 0).all()


@given(rows, st.floats(0.001, 0.5))
def test_holm_rejects_what_his_steps_reject(p, alpha):
    """Step down: the smallest against alpha/m, the next against alpha/(m - 1), ..., until one is kept."""
    rejected = set()
    for step, i in enumerate(np.argsort(p, kind="stable")):
        if p[i] * (len(p) - step) > alpha:
            break
        rejected.add(int(i))
    assert set(np.flatnonzero(holm(p) <= alpha)) == rejected


def test_holm_keeps_the_error_of_the_family():
    """Eight true hypotheses and two false ones, correlated."""
    rng = np.random.default_rng(0)
    from scipy.stats import norm

    z = 0.6 * rng.normal(size=(4000, 1)) + 0.8 * rng.normal(size=(4000, 10)) + np.array([0.0] * 8 + [4.0] * 2)
    wrong = np.mean([(holm(norm.sf(row))[:8] <= 0.05).any() for row in z])
    assert wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4000)


@pytest.mark.parametrize("correct", [holm, benjamini_hochberg])
def test_edges_and_bad_input(correct):
    assert len(correct([])) == 0
    assert correct([0.2]) == pytest.approx([0.2])
    for bad in ([0.1, 1.2], [-0.1], [float("nan")]):
        with pytest.raises(BadInput, match=r"within 0..1"):
            correct(bad)
