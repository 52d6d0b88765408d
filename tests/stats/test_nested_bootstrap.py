"""Nested resampling keeps what belongs together, and knows that a group's members are not independent."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.stats import bootstrap_mean, bootstrap_nested


def _mean(values):
    return np.array([values.mean()])


def test_one_level_is_the_plain_bootstrap():
    values = np.random.default_rng(0).normal(size=200)
    value, low, high = bootstrap_nested(values, _mean, depth=1, draws=4000)
    plain = bootstrap_mean(values)
    assert value[0] == pytest.approx(plain[0])
    np.testing.assert_allclose([low[0], high[0]], plain[1:], atol=0.01)


def test_samples_that_share_their_group_count_once():
    groups = np.random.default_rng(1).normal(size=(8, 1))
    alike = np.repeat(groups, 50, axis=1)
    _, low, high = bootstrap_nested(alike, _mean, depth=2)
    _, alone, above = bootstrap_nested(groups[:, 0], _mean, depth=1)
    np.testing.assert_allclose([low[0], high[0]], [alone[0], above[0]], atol=0.1)
    assert high[0] - low[0] > 4 * np.diff(bootstrap_mean(alike.ravel())[1:])[0]


def test_rows_stay_pairs_and_seeds_repeat():
    errors = np.random.default_rng(2).lognormal(size=(6, 3, 20, 1))
    pairs = np.concatenate([errors, 2 * errors], axis=-1)

    def ratio(values):
        first, second = values.mean(axis=(0, 1, 2))
        return np.array([first / second])

    value, low, high = bootstrap_nested(pairs, ratio, depth=3, draws=200)
    np.testing.assert_allclose([value[0], low[0], high[0]], 0.5)
    again = bootstrap_nested(errors[..., 0], _mean, depth=3, draws=50, seed=4)
    np.testing.assert_array_equal(again, bootstrap_nested(errors[..., 0], _mean, depth=3, draws=50, seed=4))


@pytest.mark.parametrize(("shape", "depth"), [((0, 3), 2), ((3, 0), 2), ((3,), 2), ((3,), 0)])
def test_nothing_to_resample_is_refused(shape, depth):
    with pytest.raises(BadInput, match="axes to resample"):
        bootstrap_nested(np.zeros(shape), _mean, depth=depth)
