"""What the arm's ledger estimates, on logs whose answer is known: lag, backlash, repeats, departure."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.transfer.arm import (
    ArmReportConfig,
    find_period,
    first_departure,
    fit_backlash,
    fit_lag,
    noise_floor,
    play,
)
from dexprior.transfer.arm.alignment import Blocks, parabola

DT = 0.02
STEP = 0.0015  # [rad] of the encoder
SETTINGS = ArmReportConfig(draws=200)


def smooth(rng: np.random.Generator, n: int, width: float = 0.6) -> np.ndarray:
    """A command that wanders by about 0.3 rad and turns about once a second."""
    kernel = np.hanning(round(width / DT))
    walk = np.convolve(rng.normal(size=n + len(kernel)), kernel, mode="valid")[:n]
    return 0.15 * walk / walk.std()


def delayed(t: np.ndarray, command: np.ndarray, lag: float) -> np.ndarray:
    return np.interp(t - lag, t, command)


def correlated(rng: np.random.Generator, n: int, scale: float, memory: float = 0.9) -> np.ndarray:
    """Noise with a memory, as a residual has it."""
    noise = rng.normal(size=n) * scale * np.sqrt(1 - memory**2)
    for k in range(1, n):
        noise[k] += memory * noise[k - 1]
    return noise


def encoder(value: np.ndarray) -> np.ndarray:
    return np.round(value / STEP) * STEP


@pytest.mark.parametrize("lag", [-0.05, 0.0, 0.087, 0.1, 0.233])
def test_a_lag_below_one_sample_is_recovered(lag):
    rng = np.random.default_rng(1)
    t = np.arange(2000) * DT
    command = smooth(rng, len(t))
    measured = encoder(0.9 * delayed(t, command, lag) + 0.03 + rng.normal(0, 0.001, len(t)))
    fit = fit_lag(t, command, measured, SETTINGS, block=2.0, resolution=STEP)
    assert fit.lag.low <= lag <= fit.lag.high
    assert fit.lag.value == pytest.approx(lag, abs=0.001)
    assert fit.lag.high - fit.lag.low < 0.003
    assert fit.gain.value == pytest.approx(0.9, abs=0.003)
    centre = (command.max() + command.min()) / 2
    assert fit.offset == pytest.approx(0.03 - 0.1 * centre, abs=0.003)


def test_the_interval_covers_as_often_as_it_says():
    """95 % intervals of 100 short logs with correlated residuals; 88 to 100 hits are within three deviations."""
    t = np.arange(1000) * DT
    hits, widths = 0, []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        command = smooth(rng, len(t))
        measured = 0.95 * delayed(t, command, 0.087) + correlated(rng, len(t), 0.01)
        fit = fit_lag(t, command, measured, SETTINGS, block=2.0, resolution=STEP, seed=seed)
        hits += fit.lag.low <= 0.087 <= fit.lag.high
        widths.append(fit.lag.high - fit.lag.low)
    assert 88 <= hits <= 100
    assert np.median(widths) < 0.02  # and not because they are wide


def test_joints_that_say_nothing_get_a_reason_and_no_number():
    rng = np.random.default_rng(2)
    t = np.arange(1500) * DT
    command = smooth(rng, len(t))
    slow, still = smooth(rng, len(t), 6.0), np.full(len(t), 0.5)
    cases = {
        "not commanded": (still, encoder(still + rng.normal(0, 0.001, len(t)))),
        "it moved by": (command, still),
        "explains": (command, smooth(rng, len(t))),
        "is its sign turned": (command, -delayed(t, command, 0.1)),
        "end of the search": (slow, delayed(t, slow, 0.8)),
    }
    for reason, (sent, seen) in cases.items():
        fit = fit_lag(t, sent, seen, SETTINGS, block=2.0, resolution=STEP)
        assert fit.lag is None
        assert fit.gain is None
        assert reason in fit.reason


def test_a_motion_that_repeats_fast_has_a_lag_within_one_period():
    t = np.arange(3000) * DT
    command = 0.04 * np.sin(2 * np.pi * t / 0.37)
    fit = fit_lag(t, command, delayed(t, command, 0.09), SETTINGS, block=2.0, resolution=STEP, period=0.37)
    assert fit.lag.value == pytest.approx(0.09, abs=0.002)


def test_halves_of_a_log_show_clocks_that_drift():
    rng = np.random.default_rng(3)
    t = np.arange(3000) * DT
    command = smooth(rng, len(t))
    measured = np.interp(t - 0.08 - 0.002 * t, t, command)  # a clock that is slow by 2 in a thousand
    fit = fit_lag(t, command, measured, SETTINGS, block=2.0, resolution=STEP)
    assert fit.halves[1] - fit.halves[0] == pytest.approx(0.06, abs=0.01)


def test_play_holds_within_its_dead_band_and_forgets_nothing_else():
    t = np.arange(2000) * DT
    command = 0.2 * np.sin(t)
    widths = np.array([0.0, 0.03, 0.1])
    out = play(command, widths)
    np.testing.assert_allclose(out[0], command, atol=1e-15)
    assert (np.abs(out - command) <= widths[:, None] / 2 + 1e-12).all()
    for row, width in zip(out, widths):
        assert np.ptp(row[500:]) == pytest.approx(0.4 - width, abs=1e-3)


@pytest.mark.parametrize(("width", "lag"), [(0.0, 0.1), (0.02, 0.087), (0.06, 0.05)])
def test_backlash_and_delay_are_told_apart(width, lag):
    rng = np.random.default_rng(4)
    t = np.arange(2500) * DT
    command = smooth(rng, len(t))
    moved = play(command, np.array([width]))[0]
    measured = encoder(0.97 * delayed(t, moved, lag) + rng.normal(0, 0.001, len(t)))
    whole = fit_lag(t, command, measured, SETTINGS, block=2.0, resolution=STEP)
    fit = fit_backlash(t, command, measured, whole, SETTINGS, block=2.0, resolution=STEP)
    assert fit.width.low - 5e-4 <= width <= fit.width.high + 5e-4
    assert fit.width.value == pytest.approx(width, abs=0.0015)
    assert fit.delay.value == pytest.approx(lag, abs=0.003)
    assert fit.reversals > 10
    if width:
        assert whole.lag.value > lag + 0.005  # which is why both are fitted together


def test_backlash_needs_reversals():
    t = np.arange(2000) * DT
    command = 0.3 * np.tanh((t - 20) / 3)
    whole = fit_lag(t, command, delayed(t, command, 0.1), SETTINGS, block=2.0, resolution=STEP)
    fit = fit_backlash(t, command, command, whole, SETTINGS, block=2.0, resolution=STEP)
    assert fit.width is None
    assert "turns 0 times" in fit.reason


def test_periods_are_found_below_one_sample():
    t = np.arange(6000) * DT
    for period in (0.373, 1.237, 9.83):
        command = np.sin(2 * np.pi * t / period) + 0.3 * np.sin(4 * np.pi * t / period)
        assert find_period(t, command) == pytest.approx(period, rel=2e-4)
    assert find_period(t, smooth(np.random.default_rng(5), len(t))) is None
    assert find_period(t, t) is None
    assert find_period(t, np.zeros(len(t))) is None


def test_the_noise_floor_is_the_scatter_between_repeats_and_nothing_else():
    """Lag, gain and a constant error repeat, and are no noise."""
    period, scale = 3.137, 0.004
    t = np.arange(3500) * DT
    command = 0.3 * np.sin(2 * np.pi * t / period) ** 3
    for seed in range(3):
        rng = np.random.default_rng(seed)
        measured = 0.8 * delayed(t, command, 0.1) + 0.05 + rng.normal(0, scale, len(t))
        floor = noise_floor(t, command, measured, SETTINGS, resolution=STEP)
        assert floor.repeats == 22 - 1  # the first second is left out, and a broken repeat with it
        assert floor.period == pytest.approx(period, rel=1e-3)
        assert floor.scale.value == pytest.approx(scale, rel=0.1)
        assert floor.scale.low < floor.scale.value < floor.scale.high
    still = noise_floor(t, command, delayed(t, command, 0.1), SETTINGS, resolution=STEP)
    assert still.scale.value < STEP  # an encoder's step is the least that can be said


def test_repeats_that_come_late_are_aligned_by_the_command():
    """A sender that hesitates moves command and measurement together; that is no scatter of the arm."""
    rng = np.random.default_rng(6)
    t = np.arange(3000) * DT
    phase = t / 3.0 + np.cumsum(rng.normal(0, 0.0003, len(t)))
    command = 0.3 * np.sin(2 * np.pi * phase)
    measured = delayed(t, command, 0.1) + rng.normal(0, 0.001, len(t))
    loose = ArmReportConfig(draws=200, alike=0.05)
    floor = noise_floor(t, command, measured, loose, resolution=0.0)
    assert floor.repeats > 10
    assert floor.scale.value < 0.008


def test_one_repeat_gives_no_noise_floor():
    rng = np.random.default_rng(7)
    t = np.arange(2000) * DT
    command = smooth(rng, len(t))
    for sent in (command, 0.3 * np.sin(2 * np.pi * t / 30)):
        floor = noise_floor(t, sent, sent, SETTINGS, resolution=STEP)
        assert floor.scale is None
        assert floor.reason == "no noise floor: one repeat"


def test_a_departure_is_found_where_it_begins_and_censored_where_it_is_not_seen():
    rng = np.random.default_rng(8)
    t = np.arange(2000) * DT
    quiet = rng.normal(0, 0.003, len(t))
    none = first_departure("elbow", t, quiet, SETTINGS, resolution=STEP)
    assert none.t is None
    assert none.seen_until == pytest.approx(t[-1])
    bumped = quiet + np.where((t > 25) & (t < 26), 0.05, 0)
    assert first_departure("elbow", t, bumped, SETTINGS, resolution=STEP).t == pytest.approx(25.0, abs=0.05)
    flicker = quiet.copy()
    flicker[1000:1003] += 0.05  # shorter than the run
    assert first_departure("elbow", t, flicker, SETTINGS, resolution=STEP).t is None


def test_blocks_draw_every_sample_equally_often():
    blocks = Blocks.of(1000, DT, 2.0, 4000, 0)
    assert blocks.blocks == 10
    sums = blocks.sums(np.ones((1, 1000)))[0]
    assert sums[0] == 1000
    np.testing.assert_allclose(sums, 1000, rtol=0.05)
    np.testing.assert_allclose(blocks.counts[1:].mean(axis=0), 1.0, atol=0.05)


def test_the_parabola_finds_the_vertex_also_on_an_uneven_grid():
    x = np.linspace(0, 1, 12) ** 2
    where = np.array([0.13, 0.4, 0.77])
    vertex, lowest, _ = parabola(x, 3 * (x[:, None] - where) ** 2 + 0.5)
    np.testing.assert_allclose(vertex, where, atol=1e-12)
    np.testing.assert_allclose(lowest, 0.5, atol=1e-12)
