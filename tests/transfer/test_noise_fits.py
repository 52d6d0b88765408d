"""Noise fitted back from generated logs: values, intervals, and what a log cannot tell."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.families.sensors import (
    Encoder,
    EncoderConfig,
    ForceTorque,
    ForceTorqueConfig,
    Imu,
    ImuConfig,
    InertialConfig,
    Transport,
    TransportConfig,
)
from dexprior.transfer.noise import Fitted, NoiseFitConfig, fit_joint, fit_stamps, fit_step, fit_still, unbroken

_SETTINGS = NoiseFitConfig()
_DT = 0.02


def _still(samples: int, seed: int = 0, **terms: float) -> np.ndarray:
    gyroscope = InertialConfig(longest=4 * samples * _DT, **terms)
    sensor = Imu(ImuConfig(gyroscope=gyroscope, accelerometer=InertialConfig()), 1, _DT, np.array([seed]))
    return sensor.run(np.zeros((1, samples, 6)))[0, :, 0]


def _named(fits: tuple[Fitted, ...]) -> dict[str, Fitted]:
    return {p.name: p for p in fits}


def test_white_noise_and_walk_are_found_and_nothing_else_is():
    found = _named(fit_still(_still(20000, white=2e-3, walk=5e-3), _DT, "u", _SETTINGS))
    for name, truth in (("white", 2e-3), ("walk", 5e-3)):
        assert found[name].value == pytest.approx(truth, rel=0.1)
        assert found[name].low < truth < found[name].high
    for name in ("instability", "drift", "drift_time", "step"):
        assert not found[name].identifiable
        assert found[name].as_dict()["interval"] is None
        assert found[name].reason
    assert found["walk"].unit == "u/sqrt(s)"


def test_bias_instability_is_found():
    fits = [_named(fit_still(_still(15000, k, white=1e-3, instability=3e-3), _DT, "u", _SETTINGS)) for k in range(4)]
    assert np.mean([f["instability"].value for f in fits]) == pytest.approx(3e-3, rel=0.1)
    assert sum(f["instability"].low < 3e-3 < f["instability"].high for f in fits) >= 3


def test_white_noise_alone_hides_the_rest_and_intervals_cover():
    fits = [_named(fit_still(_still(5000, k, white=1e-3), _DT, "u", _SETTINGS)) for k in range(10)]
    assert sum(f["white"].low < 1e-3 < f["white"].high for f in fits) >= 8
    assert not any(f[name].identifiable for f in fits for name in ("instability", "walk", "drift"))


def test_warm_up_of_a_force_sensor_is_found():
    config = ForceTorqueConfig(
        warmup=(1.5,) * 6, warmup_time=60.0, white=(0.01,) * 6, walk=(1e-3,) * 6, step=(0.0,) * 6
    )
    reading = ForceTorque(config, 1, 0.05).run(np.zeros((1, 8000, 6)))[0, :, 0]
    found = _named(fit_still(reading, 0.05, "N", _SETTINGS))
    assert found["drift"].value == pytest.approx(1.5, rel=0.1)
    assert found["drift_time"].value == pytest.approx(60.0, rel=0.1)
    assert found["drift_time"].low < 60.0 < found["drift_time"].high
    assert found["white"].value == pytest.approx(0.01, rel=0.05)  # the drift was taken off


def test_a_drift_that_outlasts_the_log_has_no_time_constant():
    config = ForceTorqueConfig(
        warmup=(20.0,) * 6, warmup_time=5000.0, white=(0.01,) * 6, walk=(0.0,) * 6, step=(0.0,) * 6
    )
    found = _named(fit_still(ForceTorque(config, 1, 0.05).run(np.zeros((1, 4000, 6)))[0, :, 0], 0.05, "N", _SETTINGS))
    assert "longer than the log" in found["drift_time"].reason
    assert found["drift"].value is None


def test_steps_are_found_and_rounding_is_no_noise():
    rng = np.random.default_rng(0)
    reading = np.round(rng.normal(scale=0.03, size=8000) / 0.04) * 0.04
    found = _named(fit_still(reading, _DT, "u", _SETTINGS))
    assert found["step"].value == pytest.approx(0.04, rel=1e-6)
    assert found["white"].value == pytest.approx(0.03 * np.sqrt(_DT), rel=0.05)
    coarse = np.round(rng.normal(0.01, scale=0.01, size=8000) / 0.04) * 0.04
    assert "hidden below" in _named(fit_still(coarse, _DT, "u", _SETTINGS))["white"].reason
    constant = _named(fit_still(np.full(5000, 1.0), _DT, "u", _SETTINGS))
    assert not any(p.identifiable for p in constant.values())
    assert (
        "no grid" in fit_step(rng.normal(size=500), "u", level=0.95).reason
        or not fit_step(rng.normal(size=500), "u", level=0.95).identifiable
    )


def test_a_push_is_no_noise():
    reading = _still(20000, white=1e-3)
    reading[9000:9400] += 0.5
    with pytest.raises(BadInput, match=r"leave their rest 1\d\d s"):
        fit_still(reading, _DT, "u", _SETTINGS)


def _stamps(config: TransportConfig, samples: int = 4000, seed: int = 0) -> np.ndarray:
    sent = np.arange(samples)[None] * _DT
    arrival, _ = Transport(config, 1, _DT, np.array([seed])).arrivals(sent)
    return arrival[np.isfinite(arrival)]


def test_jitter_and_bursts_are_found_in_time_stamps():
    found = _named(fit_stamps(_stamps(TransportConfig(latency=0.1, jitter=1e-3, start=0.02, stop=0.4)), _SETTINGS))
    assert found["rate"].value == pytest.approx(50.0, rel=0.01)
    for name, truth in (("jitter", 1e-3), ("start", 0.02), ("stop", 0.4)):
        assert found[name].low < truth < found[name].high
        assert found[name].value == pytest.approx(truth, rel=0.25)
    many = [
        _named(fit_stamps(_stamps(TransportConfig(jitter=1e-3, start=0.02, stop=0.4), seed=k), _SETTINGS))
        for k in range(12)
    ]
    for name, truth in (("jitter", 1e-3), ("start", 0.02), ("stop", 0.4)):
        assert np.mean([f[name].value for f in many]) == pytest.approx(truth, rel=0.1)
    assert not found["latency"].identifiable
    assert not found["loop_jitter"].identifiable


def test_late_packets_are_not_taken_for_lost_ones():
    """One packet in 150 is late by more than half a period, and none is lost."""
    found = _named(fit_stamps(_stamps(TransportConfig(jitter=2e-3), 8000), _SETTINGS))
    assert found["start"].value < 1e-3
    assert found["jitter"].value == pytest.approx(2e-3, rel=0.1)


def test_a_loop_that_takes_longer_is_no_jitter_of_packets():
    t = np.cumsum(_DT + np.random.default_rng(0).normal(scale=3e-4, size=4000))
    found = _named(fit_stamps(t, _SETTINGS))
    assert found["loop_jitter"].value == pytest.approx(3e-4, rel=0.1)
    assert not found["jitter"].identifiable
    assert found["start"].value == 0.0
    assert 0 < found["start"].high < 0.002
    assert "no packet is missing" in found["stop"].reason


def test_what_stamps_cannot_tell_is_said():
    even = _named(fit_stamps(np.arange(2000) * _DT, _SETTINGS))
    assert not any(p.identifiable for p in even.values())
    wild = np.cumsum(np.random.default_rng(0).uniform(0.2, 1.8, 3000) * _DT)
    assert "look alike" in _named(fit_stamps(wild, _SETTINGS))["start"].reason
    stalls = np.full(3000, _DT) + np.random.default_rng(0).normal(scale=1e-4, size=3000)
    stalls[::100] = 2.45 * _DT
    assert "stalls" in _named(fit_stamps(np.cumsum(stalls), _SETTINGS))["start"].reason
    cut = np.delete(np.arange(1000) * _DT, [300, 301, 700])
    assert unbroken(cut) == slice(300, 698)


def _rested(noise: float, step: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    t = np.arange(6000) * _DT
    command = 0.5 * np.floor(t / 10.0)
    encoder = Encoder(EncoderConfig(step=step, noise=noise), 1, 1, _DT)
    return t, command, encoder.run(command[None, :, None])[0, :, 0]


def test_noise_at_rest_is_found_where_it_shows():
    t, command, measured = _rested(noise=2e-3, step=1.5e-3)
    step, noise = fit_joint(t, command, t, measured, _SETTINGS)
    assert step.value == pytest.approx(1.5e-3, rel=1e-6)
    assert noise.value == pytest.approx(2e-3, rel=0.05)
    assert noise.low < 2e-3 < noise.high
    t, command, measured = _rested(noise=2e-4, step=1.5e-3)
    assert not fit_joint(t, command, t, measured, _SETTINGS)[1].identifiable
    swinging = command + 0.05 * np.sin(3 * t)
    assert "motion" in fit_joint(t, command, t, swinging, _SETTINGS)[1].reason
    moving = np.sin(t)
    assert "long enough" in fit_joint(t, moving, t, moving, _SETTINGS)[1].reason


def test_a_hidden_parameter_cannot_have_numbers():
    with pytest.raises(BadInput, match="noise"):
        Fitted(name="noise", unit="rad", value=1.0, low=0.0, high=2.0, identifiable=False, reason="x")
    with pytest.raises(BadInput, match="noise"):
        Fitted(name="noise", unit="rad", value=1.0, low=0.0, high=np.inf, identifiable=True)
    assert json.dumps(Fitted(name="a", unit="1", value=None, identifiable=False, reason="why").as_dict())
