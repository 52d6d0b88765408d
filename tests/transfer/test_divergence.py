"""First divergence: silent on the simulator's own traces, prompt on a step, and honest about what it did not see."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.transfer import first_divergence
from dexprior.types import Channel, Trace

T = np.arange(75) * 0.04


def _trace(rng, panel="p", *, step=None, channel="force", size=10.0, t=T, kind="measured") -> Trace:
    """A family of smooth signals with noise; `step` adds a jump to one channel from that sample on."""
    values = {}
    for name, scale in (("pose", 0.002), ("force", 0.5)):
        level = rng.normal(size=3) * scale
        value = level * np.sin(2 * t)[:, None] + rng.normal(size=(len(t), 3)) * scale
        if step is not None and name == channel:
            value[step:, 1] += size * scale
        values[name] = Channel(t=t, t_host=t + 50.0, value=value, unit="1", frame="-", kind=kind)
    return Trace(channels=values, panel_hash=panel)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_traces_of_the_family_itself_raise_few_alarms():
    """200 null comparisons of two channels: at most 5 % false alarms."""
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        simulated = [_trace(rng) for _ in range(16)]
        alarms += any(d.t is not None for d in first_divergence(simulated, _trace(rng), ["pose", "force"]))
    assert alarms <= 10


@pytest.mark.parametrize("step", [0, 20, 60])
@pytest.mark.parametrize("channel", ["pose", "force"])
def test_a_step_in_one_channel_is_found_within_three_samples(channel, step):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        simulated = [_trace(rng) for _ in range(16)]
        real = _trace(rng, step=step, channel=channel, size=40.0)
        found = first_divergence(simulated, real, ["pose", "force"])
        assert found[0].channel == channel
        assert T[step] - 1e-9 <= found[0].t <= T[min(step + 3, 74)]
        assert found[1].t is None
        assert found[0].score > found[1].score


def test_the_earliest_channel_comes_first(rng):
    simulated = [_trace(rng) for _ in range(16)]
    late, early = _trace(rng, step=50, channel="pose", size=40), _trace(rng, step=10, channel="force", size=40)
    both = Trace(channels={"pose": late["pose"], "force": early["force"]}, panel_hash="p")
    assert [d.channel for d in first_divergence(simulated, both, ["pose", "force"])] == ["force", "pose"]
    assert [d.channel for d in first_divergence(simulated, both, ["force", "pose"])] == ["force", "pose"]


def test_a_spike_is_no_divergence(rng):
    simulated = [_trace(rng) for _ in range(16)]
    value = np.median([s["force"].value for s in simulated], axis=0)
    value[30:32] += 50.0  # two samples; three in a row are asked for
    real = Trace(
        channels={"force": Channel(t=T, t_host=T, value=value, unit="N", frame="-", kind="measured")}, panel_hash="p"
    )
    assert first_divergence(simulated, real, ["force"])[0].t is None
    assert first_divergence(simulated, real, ["force"], run=2)[0].t == pytest.approx(T[30])


def test_what_was_not_seen_is_censored_at_the_end_of_the_trace(rng):
    simulated = [_trace(rng) for _ in range(16)]
    short = np.arange(20) * 0.04
    value = np.median([s["force"].value for s in simulated], axis=0)[:20]
    real = Trace(
        channels={"force": Channel(t=short, t_host=short, value=value, unit="N", frame="-", kind="measured")},
        panel_hash="p",
    )
    found = first_divergence(simulated, real, ["force"])[0]
    assert found.t is None
    assert found.seen_until == pytest.approx(short[-1])


def test_a_real_trace_may_have_its_own_rate(rng):
    simulated = [_trace(rng) for _ in range(16)]
    fine = np.linspace(0, T[-1], 200)
    value = np.zeros((200, 3))
    value[100:] += 30.0
    real = Trace(
        channels={"force": Channel(t=fine, t_host=fine, value=value, unit="N", frame="-", kind="measured")},
        panel_hash="p",
    )
    found = first_divergence(simulated, real, ["force"])[0]
    assert found.t == pytest.approx(fine[100])


def test_privileged_channels_are_refused(rng):
    simulated = [_trace(rng) for _ in range(8)]
    with pytest.raises(BadInput, match="'force' is privileged"):
        first_divergence(simulated, _trace(rng, kind="privileged"), ["force"])


def test_different_panels_are_refused(rng):
    simulated = [_trace(rng) for _ in range(8)]
    with pytest.raises(BadInput, match="different panels cannot be compared: p, q"):
        first_divergence(simulated, _trace(rng, "q"), ["force"])


def test_fewer_than_eight_traces_make_no_band(rng):
    with pytest.raises(BadInput, match="at least 8 simulated traces, got 2"):
        first_divergence([_trace(rng)] * 2, _trace(rng), ["force"])


def test_an_unknown_channel_is_named(rng):
    with pytest.raises(UnknownName, match=r"unknown channel 'forces'; did you mean 'force'\?"):
        first_divergence([_trace(rng)] * 8, _trace(rng), ["forces"])


def test_a_difference_below_the_units_resolution_is_none(rng):
    """A channel that is constant in simulation has no spread of its own."""
    flat = np.zeros((len(T), 3))

    def trace(offset):
        channel = Channel(t=T, t_host=T, value=flat + offset, unit="m", frame="base", kind="measured")
        return Trace(channels={"pose": channel}, panel_hash="p")

    assert first_divergence([trace(0.0)] * 8, trace(1e-8), ["pose"])[0].t is None
    assert first_divergence([trace(0.0)] * 8, trace(0.01), ["pose"])[0].t == T[0]
