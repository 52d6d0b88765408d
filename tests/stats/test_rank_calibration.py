"""Ranks of exact posteriors are uniform; of ones that are too sure, too wide or beside, they are not."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.stats import calibrate, holm, posterior_ranks

TRIALS, DRAWS = 300, 99


def ranks(width: float = 1.0, shift: float = 0.0) -> np.ndarray:
    """Of a standard normal parameter with one noisy observation, and a posterior that is off by a width or a shift."""
    rng = np.random.default_rng(4)
    truth = rng.standard_normal((TRIALS, 1))
    seen = truth + 0.5 * rng.standard_normal((TRIALS, 1))
    mean, std = seen / 1.25, np.sqrt(0.2)
    draws = mean[:, None] + shift * std + width * std * rng.standard_normal((TRIALS, DRAWS, 1))
    return posterior_ranks(truth, draws, seed=0)


def test_an_exact_posterior_is_calibrated():
    found = calibrate(["x"], ranks(), draws=DRAWS)
    assert found.adjusted[0] > 0.01
    assert found.kolmogorov[0] > 0.01
    assert found.counts.sum() == TRIALS


@pytest.mark.parametrize(
    ("width", "shift", "ends"), [(0.6, 0.0, True), (1.6, 0.0, False), (1.0, 0.5, True)], ids=["sure", "wide", "beside"]
)
def test_a_wrong_posterior_is_found_out(width, shift, ends):
    found = calibrate(["x"], ranks(width, shift), draws=DRAWS)
    assert found.adjusted[0] < 1e-3
    counts = found.counts[0]
    assert (max(counts[0], counts[-1]) > counts[4:6].mean()) == ends
    if shift:
        assert found.kolmogorov[0] < 1e-3


def test_p_values_of_many_exact_posteriors_are_uniform():
    from scipy.stats import kstest

    rng = np.random.default_rng(0)
    found = calibrate([str(k) for k in range(200)], rng.integers(0, DRAWS + 1, (TRIALS, 200)), draws=DRAWS)
    assert kstest(found.p_values, "uniform").pvalue > 0.01
    np.testing.assert_array_equal(found.adjusted, holm(found.p_values))
    assert found.adjusted.min() > 0.05


def test_ties_are_split_evenly():
    found = posterior_ranks(np.zeros((4000, 1)), np.zeros((4000, 9, 1)), seed=0)
    np.testing.assert_allclose(np.bincount(found[:, 0], minlength=10), 400, atol=80)


def test_ranks_count_what_is_below():
    draws = np.array([[[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]])
    assert posterior_ranks(np.array([[2.5, 4.0]]), draws, seed=0).tolist() == [[2, 0]]


def test_plain_data():
    row = calibrate(["x"], ranks(), draws=DRAWS).as_dict()["x"]
    assert set(row) == {"p", "p_holm", "p_ks", "counts"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: posterior_ranks(np.zeros((3, 2)), np.zeros((3, 9, 1)), seed=0),
            r"shape \(3, 2\) among draws of shape",
        ),
        (lambda: posterior_ranks(np.full((3, 1), np.nan), np.zeros((3, 9, 1)), seed=0), "a truth or a draw is not fin"),
        (lambda: calibrate(["x"], np.zeros((50, 2), int), draws=9), r"shape \(50, 2\) for 1 parameters"),
        (
            lambda: calibrate(["x"], np.full((50, 1), 10), draws=9),
            "ranks from 10 to 10: among 9 draws they lie in 0..9",
        ),
        (lambda: calibrate(["x"], np.zeros((50, 1), int), draws=98), "10 bins do not share the 99 ranks of 98 draws"),
        (lambda: calibrate(["x"], np.zeros((49, 1), int), draws=9), "49 trials for 10 bins: at least 5 a bin"),
    ],
)
def test_what_cannot_be_tested_is_said(make, message):
    with pytest.raises(BadInput, match=message):
        make()
