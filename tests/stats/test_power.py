"""Power equals the enumeration of every outcome, and a detectable difference is where it passes the wanted one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from dexprior.errors import BadInput
from dexprior.stats import (
    boschloo,
    detectable,
    detectable_paired,
    mcnemar_exact,
    power_boschloo,
    power_mcnemar,
)


@pytest.mark.parametrize("rates", [(0.2, 0.7), (0.9, 0.5), (1.0, 0.0)])
def test_unpaired_power_is_the_probability_of_the_rejected_tables(rates):
    (p1, p2), n1, n2 = rates, 7, 9
    expected = sum(
        binom.pmf(a, n1, p1) * binom.pmf(b, n2, p2)
        for a, b in itertools.product(range(n1 + 1), range(n2 + 1))
        if boschloo(a, n1, b, n2) <= 0.05 and (a / n1 - b / n2) * (p1 - p2) > 0
    )
    assert power_boschloo(p1, n1, p2, n2) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("shares", [(0.5, 0.1), (0.3, 0.0), (0.6, 0.4)])
def test_paired_power_is_the_probability_of_the_rejected_tables(shares):
    (gain, loss), n = shares, 14
    expected = sum(
        multinomial.pmf([b, c, n - b - c], n, [gain, loss, 1 - gain - loss])
        for b in range(n + 1)
        for c in range(n + 1 - b)
        if b > c and mcnemar_exact(b, c) <= 0.05
    )
    assert power_mcnemar(gain, loss, n) == pytest.approx(expected, abs=1e-10)


def test_power_under_no_difference_is_at_most_half_of_alpha():
    assert max(power_boschloo(p, 20, p, 20) for p in np.linspace(0, 1, 41)) <= 0.025
    assert max(power_mcnemar(q, q, 30) for q in np.linspace(0, 0.5, 21)) <= 0.025


@pytest.mark.parametrize(("direction", "sign"), [("better", 1), ("worse", -1)])
def test_power_passes_the_wanted_one_at_the_detectable_difference(direction, sign):
    d = detectable(25, 30, 0.55, direction=direction)
    assert power_boschloo(0.55 + sign * d, 25, 0.55, 30) == pytest.approx(0.8, abs=1e-6)
    assert power_boschloo(0.55 + sign * d * 0.9, 25, 0.55, 30) < 0.8
    mirrored = detectable(25, 30, 0.45, direction="worse" if direction == "better" else "better")
    assert mirrored == pytest.approx(d, abs=1e-6)


def test_pairs_pass_the_wanted_power_at_the_detectable_difference():
    d = detectable_paired(40, 0.1)
    assert power_mcnemar(0.1 + d, 0.1, 40) == pytest.approx(0.8, abs=1e-6)
    # without losses six gains are needed, (1/2)^5 = 0.031: P(Bin(n, d) >= 6) = 0.8
    assert binom.sf(5, 20, detectable_paired(20, 0.0)) == pytest.approx(0.8, abs=1e-6)


def test_more_trials_find_smaller_differences_and_more_losses_hide_them():
    by_n = [detectable(n, n, 0.5) for n in (10, 20, 40, 80)]
    assert (np.diff(by_n) < 0).all()
    by_pairs = [detectable_paired(n, 0.1) for n in (20, 40, 80, 160)]
    assert (np.diff(by_pairs) < 0).all()
    by_loss = [detectable_paired(60, loss) for loss in (0.0, 0.05, 0.1, 0.2)]
    assert (np.diff(by_loss) > 0).all()
    assert detectable(30, 30, 0.5, power=0.95) > detectable(30, 30, 0.5)
    assert detectable(30, 30, 0.5, alpha=0.01) > detectable(30, 30, 0.5)


def test_few_trials_find_nothing():
    assert detectable(1, 1, 0.5) is None
    assert detectable(2, 2, 0.0) is None  # 2/2 against 0/2 has p = 0.125
    assert detectable(3, 3, 0.0) == pytest.approx(0.8 ** (1 / 3))  # 3/3 against 0/3 has p = 0.031
    assert detectable(30, 30, 1.0) is None
    assert detectable(30, 30, 0.0, direction="worse") is None
    assert detectable_paired(5, 0.0) is None  # five gains of five: p = 0.0625
    assert detectable_paired(6, 0.0) is not None
    assert detectable_paired(50, 0.5) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: power_boschloo(1.5, 3, 0.5, 3), r"p1 = 1.5: must lie within 0..1"),
        (lambda: power_boschloo(0.5, 0, 0.6, 3), "n must be at least 1"),
        (lambda: power_mcnemar(0.7, 0.6, 3), "together at most 1"),
        (lambda: power_mcnemar(0.1, 0.1, 0), "at least one pair"),
        (lambda: detectable(3, 3, -0.1), "baseline = -0.1"),
        (lambda: detectable(9, 9, 0.5, power=1.0), "power = 1.0"),
        (lambda: detectable_paired(9, 0.1, alpha=0.0), "alpha = 0.0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(BadInput, match=message):
        call()
