"""Lags are found to a fraction of a sample, and refused where several fit as well."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dexprior.data.importers import ForceTorque, SynchronisationConfig, find_lag, onto_clock, read_force_torque
from dexprior.errors import BadInput

T = np.arange(0, 4, 0.01)


def presses(t: np.ndarray) -> np.ndarray:
    return sum(a * np.exp(-(((t - c) / w) ** 2)) for a, c, w in [(3, 0.8, 0.1), (5, 1.5, 0.06), (2, 2.9, 0.2)])


@settings(max_examples=30)
@given(lag=st.floats(-1.5, 1.5), rate=st.sampled_from([60.0, 240.0, 1000.0]), seed=st.integers(0, 99))
def test_a_known_lag_is_found(lag, rate, seed):
    t = np.arange(-1.5, 5.5, 1 / rate)  # the sensor's clock: an event at t happens at t + lag on the other one
    noise = 0.1 * np.random.default_rng(seed).standard_normal(len(t))
    found = find_lag(t, 10 * presses(t + lag) + 3 + noise, T, presses(T))
    assert abs(found.seconds - lag) < 0.003
    assert found.peak > 0.95
    assert found.sharpness > 1.15


def test_it_does_not_depend_on_where_the_clocks_start():
    t = np.arange(-1, 5, 0.002)
    found = find_lag(t + 7000.0, presses(t + 0.2), T + 7000.2, presses(T))
    assert abs(found.seconds - 0.4) < 0.003


@pytest.mark.parametrize("signal", [np.sin(2 * np.pi * 2 * T), np.sin(2 * np.pi * 3 * T) ** 2])
def test_a_periodic_signal_is_refused(signal):
    with pytest.raises(BadInput, match=r"the lag is ambiguous: correlation 1.00 at .* and (1.00|0.9)"):
        find_lag(T, signal, T, signal)


def test_noise_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(BadInput, match="the lag is ambiguous"):
        find_lag(T, rng.standard_normal(len(T)), T, rng.standard_normal(len(T)))


def test_what_does_not_vary_is_refused():
    with pytest.raises(BadInput, match="the reference does not vary over"):
        find_lag(T, presses(T), T, np.ones(len(T)))
    with pytest.raises(BadInput, match="the signal does not vary over"):
        find_lag(T[:3], presses(T[:3]), T, presses(T))


def test_clocks_that_are_far_apart():
    with pytest.raises(BadInput, match="do not overlap within 2 s"):
        find_lag(T + 100, presses(T), T, presses(T))
    found = find_lag(T + 100, presses(T), T, presses(T), SynchronisationConfig(max_lag=101.0))
    assert abs(found.seconds + 100) < 0.003


def test_averages_of_many_samples_keep_the_impulse():
    t = np.arange(0, 2, 0.001)
    wrench = np.zeros((len(t), 6))
    wrench[:, 0] = presses(t)
    frames = np.arange(0.1, 1.9, 0.04)
    track = onto_clock(ForceTorque(t=t, wrench=wrench), frames, 0.0, tared=True)
    assert track.wrench[:, 0].sum() * 0.04 == pytest.approx(np.trapezoid(presses(t), t), rel=0.01)
    assert (track.tared, track.gravity_compensated) == (True, False)


def test_few_samples_are_interpolated():
    t = np.array([0.0, 1.0])
    wrench = np.array([[0.0] * 6, [6.0] * 6])
    track = onto_clock(ForceTorque(t=t, wrench=wrench), np.linspace(0, 1, 5), 0.0)
    np.testing.assert_allclose(track.wrench[:, 2], [0, 1.5, 3, 4.5, 6])


@pytest.mark.parametrize(("name", "unit"), [("t", 1.0), ("t_ms", 1e3), ("t_ns", 1e9)])
def test_csv(name, unit, tmp_path):
    path = tmp_path / "w.csv"
    rows = [f"{unit * t},1,2,{z},4,5,6" for t, z in [(0, 3), (0.5, 3), (0.4, 3), (1.0, "nan"), (1.5, 9)]]
    path.write_text("\n".join([f"{name},fx,fy,fz,tx,ty,tz", *rows]))
    found = read_force_torque(path)
    np.testing.assert_allclose(found.t, [0, 0.5, 1.5])
    np.testing.assert_allclose(found.wrench[-1], [1, 2, 9, 4, 5, 6])
    assert found.problems == (
        "1 of 5 force samples are not finite and are dropped",
        "1 force samples do not come after the one before and are dropped",
    )


def test_csv_without_rows(tmp_path):
    (tmp_path / "w.csv").write_text("t,fx,fy,fz,tx,ty,tz\n")
    with pytest.raises(BadInput, match="0 usable rows"):
        read_force_torque(tmp_path / "w.csv")
