"""Laws of every sampler: a sequence is its steps, worlds are their own, a snapshot goes on."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.config import to_plain, validate
from dexprior.errors import BadInput, ConfigError
from dexprior.families import SENSORS, SensorModels, switches_by_gap
from dexprior.families.sensors import (
    Encoder,
    EncoderConfig,
    ForceTorque,
    ForceTorqueConfig,
    Imu,
    ImuConfig,
    Sampler,
    Tactile,
    TactileConfig,
    Transport,
    TransportConfig,
)

_DT = 0.01
_MAKE = {
    "encoder": lambda n, seeds: Encoder(EncoderConfig(bias=0.01, backlash=0.02, noise=1e-3), n, 3, _DT, seeds),
    "force_torque": lambda n, seeds: ForceTorque(ForceTorqueConfig(), n, _DT, seeds, sensors=2),
    "tactile": lambda n, seeds: Tactile(TactileConfig(time_up=0.1, time_out=0.05), n, 4, _DT, seeds),
    "imu": lambda n, seeds: Imu(ImuConfig(), n, _DT, seeds),
    "transport": lambda n, seeds: Transport(TransportConfig(latency=0.02, jitter=0.01, start=0.2), n, _DT, seeds),
}


def _truth(sampler: Sampler, time: int) -> np.ndarray:
    if isinstance(sampler, Transport):
        return np.tile(np.arange(time)[:, None] * _DT, (sampler.n, 1, 1))
    phase = np.arange(sampler.channels) + np.arange(1, 50)[: sampler.n, None]
    return 2.0 + 1.5 * np.sin(0.2 * np.arange(time)[None, :, None] + phase[:, None])


@pytest.mark.parametrize("kind", _MAKE)
def test_a_sequence_is_its_steps_to_the_bit(kind):
    whole, steps, chunks = (_MAKE[kind](5, np.arange(5) + 9) for _ in range(3))
    truth = _truth(whole, 60)
    at_once = whole.run(truth)
    one_by_one = np.stack([steps.step(truth[:, k]) for k in range(60)], axis=1)
    in_chunks = np.concatenate([chunks.run(truth[:, a:b]) for a, b in ((0, 7), (7, 31), (31, 60))], axis=1)
    assert np.array_equal(at_once, one_by_one)
    assert np.array_equal(at_once, in_chunks)
    assert all(np.array_equal(value, steps.state[name]) for name, value in whole.state.items())


@pytest.mark.parametrize("kind", _MAKE)
def test_a_world_does_not_depend_on_the_others(kind):
    many = _MAKE[kind](7, np.arange(7) * 1000)
    truth = _truth(many, 40)
    readings = many.run(truth)
    alone = _MAKE[kind](1, np.array([4000])).run(truth[4:5])
    assert np.array_equal(readings[4:5], alone)
    assert not np.array_equal(readings[3] - truth[3], readings[4] - truth[4])
    some = _MAKE[kind](7, np.arange(7) * 1000)
    assert np.array_equal(some.run(truth[[5, 2]], ids=np.array([5, 2])), readings[[5, 2]])
    assert some.state["tick"].tolist() == [0, 0, 40, 0, 0, 40, 0]


@pytest.mark.parametrize("kind", _MAKE)
def test_a_snapshot_goes_on_and_a_reset_starts_anew(kind):
    sampler = _MAKE[kind](3, np.arange(3))
    truth = _truth(sampler, 50)
    first = sampler.run(truth[:, :20])
    kept = sampler.snapshot()
    rest = sampler.run(truth[:, 20:])
    sampler.restore(kept)
    assert np.array_equal(sampler.run(truth[:, 20:]), rest)
    sampler.reset(np.arange(3), np.arange(3))
    assert np.array_equal(sampler.run(truth[:, :20]), first)
    sampler.reset(np.array([1]), np.array([77]))
    assert sampler.state["tick"].tolist() == [20, 0, 20]


@pytest.mark.parametrize("kind", _MAKE)
def test_bad_values_are_refused(kind):
    sampler = _MAKE[kind](3, np.arange(3))
    truth = _truth(sampler, 5)
    truth[1, 2] = np.nan
    with pytest.raises(BadInput, match="not finite"):
        sampler.run(truth)
    with pytest.raises(BadInput, match=r"shape \(3, 5, 99\)"):
        sampler.run(np.zeros((3, 5, 99)))
    with pytest.raises(BadInput, match="seeds"):
        sampler.reset(np.arange(3), np.array([-1, 0, 1]))


def test_bad_samplers_are_refused():
    with pytest.raises(BadInput, match="dt = -1"):
        Imu(ImuConfig(), 1, -1)
    with pytest.raises(BadInput, match="0 worlds"):
        Imu(ImuConfig(), 0, 0.1)
    with pytest.raises(BadInput, match="time_out"):
        Tactile(TactileConfig(), 1, 1, 0.5)
    with pytest.raises(BadInput, match="crosstalk"):
        ForceTorqueConfig(crosstalk=((0.0,) * 6,) * 6)
    with pytest.raises(BadInput, match="below 1"):
        ForceTorqueConfig(hysteresis=(0.6, 0.5), radius=(0.1, 0.2))
    with pytest.raises(BadInput, match="never fall"):
        Transport(TransportConfig(), 1, 0.1).arrivals(np.array([[1.0, 0.5]]))


def test_sensor_models_are_plain_data_and_name_their_gap():
    models = SensorModels(encoder=EncoderConfig(bias=0.01), observation=TransportConfig(latency=0.05))
    assert validate(SensorModels, to_plain(models)) == models
    assert models.active == ("encoder", "observation")
    assert SensorModels().active == ()
    assert switches_by_gap(sensors=models) == {"sensor": ("encoder", "observation")}
    assert set(SENSORS) == set(to_plain(models))
    with pytest.raises(ConfigError, match="latencyy"):
        validate(SensorModels, {"command": {"latencyy": 0.1}})
