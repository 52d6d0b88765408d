"""Laws of signals over time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dexprior.errors import BadInput
from dexprior.geometry.timing import contact_intervals, hysteresis, minimum_jerk, resample

signals = st.lists(st.floats(-1, 2), max_size=40).map(lambda x: np.array(x, dtype=np.float64))


def test_minimum_jerk_starts_and_ends_at_rest():
    u = np.linspace(0, 1, 1001)
    s = minimum_jerk(u)
    velocity, acceleration = np.gradient(s, u), np.gradient(np.gradient(s, u), u)
    assert (s[0], s[500], s[-1]) == pytest.approx((0, 0.5, 1))
    assert (np.diff(s) >= 0).all()
    assert velocity[[0, -1]] == pytest.approx([0, 0], abs=1e-4)
    assert acceleration[[0, -1]] == pytest.approx([0, 0], abs=0.1)
    np.testing.assert_allclose(s + minimum_jerk(1 - u), 1.0)
    np.testing.assert_array_equal(minimum_jerk(np.array([-5.0, 9.0])), [0, 1])


@given(arrays(np.float64, (5, 2, 3), elements=st.floats(-9, 9)))
def test_resampling_where_it_is_known_changes_nothing(value):
    t = np.array([0.0, 0.1, 0.5, 0.6, 2.0])
    np.testing.assert_allclose(resample(t, t, value), value, atol=1e-12)
    np.testing.assert_allclose(resample(np.array([-1.0, 3.0]), t, value), value[[0, -1]])
    np.testing.assert_allclose(resample(np.array([0.3]), t, value)[0], (value[1] + value[2]) / 2, atol=1e-12)


@given(signals)
def test_hysteresis_follows_both_thresholds(signal):
    state = hysteresis(signal, on=0.8, off=0.4)
    assert state.shape == signal.shape
    assert state[signal >= 0.8].all()
    assert not state[signal < 0.4].any()
    between = (signal >= 0.4) & (signal < 0.8)
    before = np.concatenate([[False], state[:-1]])
    np.testing.assert_array_equal(state[between], before[: len(state)][between])


@given(signals)
def test_hysteresis_switches_no_more_often_than_a_threshold(signal):
    def switches(state):
        return np.count_nonzero(np.diff(state.astype(int)))

    signal = np.concatenate([[0.0], signal])  # it starts free
    state = hysteresis(signal, on=0.8, off=0.4)
    assert switches(state) <= min(switches(signal >= 0.8), switches(signal >= 0.4))


def test_hysteresis_of_several_signals_is_that_of_each():
    signal = np.random.default_rng(0).random((30, 5))
    together = hysteresis(signal, on=0.7, off=0.3)
    for k in range(5):
        np.testing.assert_array_equal(together[:, k], hysteresis(signal[:, k], on=0.7, off=0.3))


@pytest.mark.parametrize("off", [0.5, 0.6, float("nan")])
def test_thresholds_in_the_wrong_order(off):
    with pytest.raises(BadInput, match="hysteresis needs off < on, got off = "):
        hysteresis(np.zeros(3), on=0.5, off=off)


@given(st.lists(st.booleans(), max_size=40))
def test_intervals_are_the_maximal_runs(touching):
    intervals = contact_intervals(np.array(touching, dtype=bool))
    again = np.zeros(len(touching), dtype=bool)
    for start, stop in intervals:
        assert 0 <= start < stop <= len(touching)
        again[start:stop] = True
    np.testing.assert_array_equal(again, np.array(touching, dtype=bool))
    assert all(a[1] < b[0] for a, b in itertools.pairwise(intervals))  # runs that touch would be one
