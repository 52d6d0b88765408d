"""First divergence: quiet on the simulator's own traces, prompt on a change, honest about what it did not see."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.stats import holm
from dexprior.stats.correction import holm_columns
from dexprior.transfer import DivergenceConfig, first_divergence
from dexprior.transfer.divergence import DivergenceDetector, Signals, groups_needed, signals_of
from dexprior.transfer.divergence import detector as detector_module
from dexprior.types import Channel, Trace

T = np.arange(150) * 0.02
SIZES = {"joints": 0.002, "force": 0.5}
UNITS = {"joints": "rad", "force": "N"}
PLAIN = DivergenceConfig(timing="")
REFERENCE = groups_needed(3, DivergenceConfig())


def _groups(rng, n, *, repeats=3, late=0.0, step=None, channel="force", size=0.0) -> Signals:
    """A family of smooth signals that share a command: a level for every group, noise in every repeat."""
    values = {}
    for name, scale in SIZES.items():
        level = rng.normal(size=(n, 1, 1, 3)) * 0.2
        wave = np.sin(2 * np.pi * (T - late))[:, None] * np.array([5.0, 3.0, 0.0])
        x = (level + wave + rng.normal(size=(n, repeats, len(T), 3))) * scale
        if step is not None and name == channel:
            x[:, :, step:, 1] += size * scale
        values[name] = x
    return Signals(
        t=T, values=values, units=UNITS, panel_hash="p", shifts=np.zeros((n, repeats)), until=np.full(n, T[-1])
    )


@pytest.fixture(scope="module")
def detector():
    return DivergenceDetector.fit(_groups(np.random.default_rng(0), 3 * REFERENCE))


def test_groups_of_the_family_itself_raise_few_alarms(detector):
    rows = detector.compare(_groups(np.random.default_rng(1), 400))
    alarms = sum(row[0].t is not None for row in rows)
    assert 1 <= alarms <= 32  # 5 % of 400 are 20; of two hundred thresholds the worst would allow 32


@pytest.mark.parametrize("step", [0, 40, 140])
@pytest.mark.parametrize("channel", ["joints", "force"])
def test_a_step_is_found_in_its_channel_at_once(detector, channel, step):
    for row in detector.compare(_groups(np.random.default_rng(2), 20, step=step, channel=channel, size=8.0)):
        assert row[0].channel in (channel, "timing" if channel == "joints" else channel)
        assert T[step] <= row[0].t <= T[min(step + 3, 149)]
        assert row[0].p_adjusted <= 0.05


def test_a_small_step_adds_up_and_its_onset_lies_in_the_interval(detector):
    rows = detector.compare(_groups(np.random.default_rng(3), 60, step=60, size=1.6))
    found = [row[0] for row in rows if row[0].t is not None and row[0].channel == "force"]
    assert len(found) >= 50
    assert np.median([d.t for d in found]) > T[62]  # not seen at once
    held = np.mean([d.onset.low <= T[60] <= d.onset.high for d in found])
    assert held >= 0.85
    assert np.median([d.onset.high - d.onset.low for d in found]) < 0.4


def test_being_late_is_read_as_timing(detector):
    rows = detector.compare(_groups(np.random.default_rng(4), 20, late=0.05))
    for row in rows:
        by_name = {d.channel: d for d in row}
        assert by_name["timing"].t is not None
        assert by_name["timing"].score > by_name["joints"].score


@pytest.mark.parametrize("late", [0.02, -0.03])
def test_the_lag_has_the_sign_and_size_of_the_delay(detector, late):
    lag = detector.with_timing(_groups(np.random.default_rng(7), 40, late=late))["timing"]
    assert np.median(lag[:, :, 50:]) == pytest.approx(late, rel=0.15)


@pytest.mark.parametrize("channels", [1, 3, 8])
def test_the_fewest_groups_are_those_with_which_one_channel_can_alarm(channels):
    """The smallest p of n groups is 1 / (n + 1), and Holm asks one of `channels` for alpha / channels."""
    least = next(
        n for n in range(1, 2000) if 1.0 / (n - round(PLAIN.fit * n) + 1) <= PLAIN.alpha / channels + 1e-12
    )  # fmt: skip
    assert least <= groups_needed(channels, PLAIN) <= least + 2  # a share of a group is no group


@pytest.mark.parametrize("rank", [0, 1, 30, 59, 60])
def test_a_p_value_counts_the_group_itself(detector, rank):
    """One of n + 1 exchangeable groups: what lies above all n others has p = 1 / (n + 1), what lies below them 1."""
    known = np.arange(60.0)
    p = detector_module._p_values(known, np.array([rank - 0.5]))
    assert p[0] == pytest.approx((61 - rank) / 61)
    wide = dataclasses.replace(detector, thresholds={"force": known})
    for level in (0.02, 0.05, 0.5):
        assert (rank - 0.5 > wide._threshold("force", level)) == (p[0] <= level)


def test_repeats_that_scatter_more_are_less_certain(detector):
    rng = np.random.default_rng(5)
    noisy = _groups(rng, 40, step=60, size=2.5)
    calm = [row[0].score for row in detector.compare(noisy)]
    noisy.values["force"] += rng.normal(size=noisy.values["force"].shape) * 3 * SIZES["force"]
    assert np.mean([row[0].score for row in detector.compare(noisy)]) < 0.8 * np.mean(calm)


def test_too_few_groups_can_never_raise_an_alarm():
    needed = groups_needed(2, PLAIN)
    with pytest.raises(BadInput, match=rf"{needed - 1} groups of simulated repeats: {needed} are needed for 2 channel"):
        DivergenceDetector.fit(_groups(np.random.default_rng(0), needed - 1), PLAIN)
    detector = DivergenceDetector.fit(_groups(np.random.default_rng(0), needed), PLAIN)
    assert detector.compare(_groups(np.random.default_rng(1), 1, step=50, size=50.0))[0][0].t is not None


def test_another_number_of_repeats_is_refused(detector):
    with pytest.raises(BadInput, match="1 real repeats are compared with groups of 3"):
        detector.compare(_groups(np.random.default_rng(0), 1, repeats=1))


def test_the_same_seed_gives_the_same_interval(detector):
    real = _groups(np.random.default_rng(6), 1, step=60, size=1.6)
    assert detector.compare(real, seed=3) == detector.compare(real, seed=3)


# --- from traces ----------------------------------------------------------------------------------------------------


def _trace(rng, panel="p", *, start=0.0, t=T, step=None, size=20.0, kind="measured", unit="N", late=0.0) -> Trace:
    """Its clock begins at `start`; the robot does everything `late` seconds after its command."""
    clock = t + start
    wave = np.sin(2 * np.pi * np.maximum(t - 0.3, 0.0))[:, None] * np.ones(3)
    force = np.sin(2 * np.pi * np.maximum(t - 0.3 - late, 0.0))[:, None] + 0.05 * rng.normal(size=(len(t), 3))
    if step is not None:
        force[step:, 1] += size * 0.05
    return Trace(
        channels={
            "command": Channel(t=clock, t_host=clock, value=wave, unit="rad", frame="-", kind="commanded"),
            "force": Channel(t=clock, t_host=clock + 50.0, value=force, unit=unit, frame="-", kind=kind),
        },
        panel_hash=panel,
    )


def _simulated(rng, **changes) -> list[list[Trace]]:
    return [[_trace(rng, **changes)] for _ in range(groups_needed(1, PLAIN))]


def test_a_log_that_begins_later_is_brought_into_the_commands_phase():
    rng = np.random.default_rng(0)
    reference = signals_of(_simulated(rng), ["force"])
    real = signals_of(
        [[_trace(rng, start=0.137, t=np.arange(160) * 0.02)]], ["force"], like=reference,
        reference=_trace(rng)["command"],
    )  # fmt: skip
    assert real.shifts[0, 0] == pytest.approx(0.137, abs=2e-3)
    assert real.notes == ()
    detector = DivergenceDetector.fit(reference, PLAIN)
    assert detector.compare(real)[0][0].t is None


def test_traces_go_all_the_way():
    rng = np.random.default_rng(1)
    simulated = _simulated(rng)
    assert first_divergence(simulated, [_trace(rng)], ["force"], PLAIN)[0].t is None
    found = first_divergence(simulated, [_trace(rng, step=50)], ["force"], PLAIN)[0]
    assert T[50] <= found.t <= T[52]


def test_a_log_that_was_cut_is_compared_up_to_its_end():
    rng = np.random.default_rng(2)
    found = first_divergence(_simulated(rng), [_trace(rng, t=T[:60])], ["force"], PLAIN)[0]
    assert found.t is None
    assert found.seen_until == pytest.approx(T[59])
    reference = signals_of(_simulated(rng), ["force"])
    assert "1 of 1 groups end early" in signals_of([[_trace(rng, t=T[:60])]], ["force"], like=reference).notes[0]


def test_commands_that_differ_leave_the_clocks_alone():
    rng = np.random.default_rng(3)
    other = _trace(rng, start=0.1)
    command = Channel(t=T, t_host=T, value=rng.normal(size=(150, 3)), unit="rad", frame="-", kind="commanded")
    mixed = Trace(channels=other.channels | {"command": command}, panel_hash="p")
    signals = signals_of([[_trace(rng)], [mixed]], ["force"])
    assert (signals.shifts == 0).all()
    assert "commands differ" in signals.notes[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "privileged"}, "'force' is privileged"),
        ({"panel": "q"}, "different panels cannot be compared: p, q"),
        ({"unit": "kgf"}, "'force' is in N and in kgf"),
        ({"t": np.concatenate([T[:60], T[60:] + 0.4])}, "no sample between 1.180 and 1.600 s"),
        ({"t": T[:10]}, "has 10 samples; at least 20"),
    ],
)
def test_a_bad_trace_is_named(change, message):
    rng = np.random.default_rng(4)
    with pytest.raises(BadInput, match=message):
        first_divergence(_simulated(rng), [_trace(rng, **change)], ["force"], PLAIN)


def test_a_start_that_was_cut_off_is_refused():
    rng = np.random.default_rng(5)
    late = _trace(rng)
    cut = {name: Channel(t=c.t[30:], t_host=c.t[30:], value=c.value[30:], unit=c.unit, frame="-", kind=c.kind)
           for name, c in late.channels.items()}  # fmt: skip
    with pytest.raises(BadInput, match=r"'force' begins 0\.\d+ s after what it is compared with"):
        first_divergence(_simulated(rng), [Trace(channels=cut, panel_hash="p")], ["force"], PLAIN)


def test_an_unknown_channel_is_named():
    rng = np.random.default_rng(6)
    with pytest.raises(UnknownName, match=r"unknown channel 'forces'; did you mean 'force'\?"):
        first_divergence(_simulated(rng), [_trace(rng)], ["forces"], PLAIN)


def test_a_difference_below_the_units_resolution_is_none():
    """A channel that is constant in simulation has no spread of its own."""

    def trace(offset):
        channel = Channel(t=T, t_host=T, value=np.zeros((150, 3)) + offset, unit="m", frame="base", kind="measured")
        return Trace(channels={"joints": channel}, panel_hash="p")

    simulated = [[trace(0.0)] for _ in range(groups_needed(1, PLAIN))]
    assert first_divergence(simulated, [trace(0.0)], ["joints"], PLAIN)[0].t is None
    assert first_divergence(simulated, [trace(0.01)], ["joints"], PLAIN)[0].t == T[0]


def test_the_correction_over_time_is_holms():
    p = np.sort(np.random.default_rng(7).random((4, 9)), axis=1)[:, ::-1] * 0.05
    adjusted = holm_columns(p)
    for k in range(9):
        np.testing.assert_allclose(adjusted[:, k], holm(p[:, k]))
