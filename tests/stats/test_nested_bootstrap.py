"""Nested resampling keeps what belongs together, and knows that a group's members are not independent."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.stats import bootstrap_crossed, bootstrap_mean, bootstrap_nested


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


def _width(found):
    return float(found[2][0] - found[1][0])


def test_columns_that_all_rows_share_are_one_sample_however_many_rows():
    """Impacts that are scored in every draw: a hundred draws of the same impacts are no larger a test set."""
    columns = np.random.default_rng(4).normal(size=(1, 60))
    alike = np.repeat(columns, 100, axis=0)
    crossed = bootstrap_crossed(alike, _mean)
    assert _width(crossed) == pytest.approx(np.diff(bootstrap_mean(columns[0])[1:])[0], rel=0.1)
    assert _width(crossed) > 4 * _width(bootstrap_nested(alike, _mean, depth=2))


def test_both_rows_and_columns_widen_the_interval():
    rng = np.random.default_rng(5)
    rows, columns = rng.normal(size=(40, 1)), rng.normal(size=(1, 50))
    both, alone = bootstrap_crossed(rows + columns, _mean), bootstrap_crossed(rows + 0 * columns, _mean)
    assert both[0][0] == pytest.approx((rows + columns).mean())
    assert _width(both) > 1.2 * _width(alone)


def test_a_table_without_rows_or_columns_is_refused():
    for empty in (np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3)):
        with pytest.raises(BadInput, match="no table"):
            bootstrap_crossed(empty, _mean)
