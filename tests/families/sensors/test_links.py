"""Latency, jitter, bursts of loss, and what a receiver knows when."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.families.sensors import Transport, TransportConfig, newest, write_latency


def test_latency_and_jitter_are_found_again():
    config = TransportConfig(latency=0.03, jitter=0.004)
    sent = np.tile(np.arange(2000) * 0.1, (20, 1))
    arrival, lost = Transport(config, 20, 0.1).arrivals(sent)
    wait = arrival - sent
    assert not lost.any()
    assert wait.min() == pytest.approx(0.03, rel=0.1)
    assert wait.mean() - 0.03 == pytest.approx(0.004, rel=0.05)
    assert wait.max() <= config.longest + 1e-9


def test_bursts_of_loss_are_found_again():
    config = TransportConfig(start=0.02, stop=0.25)
    _, lost = Transport(config, 50, 0.01).arrivals(np.tile(np.arange(4000) * 0.01, (50, 1)))
    began = lost[:, 1:] & ~lost[:, :-1]
    ended = ~lost[:, 1:] & lost[:, :-1]
    assert began.sum() / (~lost[:, :-1]).sum() == pytest.approx(0.02, rel=0.1)
    assert ended.sum() / lost[:, :-1].sum() == pytest.approx(0.25, rel=0.1)
    assert lost.mean() == pytest.approx(0.02 / 0.27, rel=0.1)
    single = TransportConfig(start=0.0, lost_good=0.1)
    _, lost = Transport(single, 50, 0.01).arrivals(np.tile(np.arange(2000) * 0.01, (50, 1)))
    assert lost.mean() == pytest.approx(0.1, rel=0.05)


def test_packets_overtake_each_other_only_where_asked():
    sent = np.tile(np.arange(500) * 0.001, (3, 1))
    kept, _ = Transport(TransportConfig(jitter=0.01), 3, 0.001).arrivals(sent)
    mixed, _ = Transport(TransportConfig(jitter=0.01, overtaking=True), 3, 0.001).arrivals(sent)
    assert (np.diff(kept, axis=1) >= 0).all()
    assert (np.diff(mixed, axis=1) < 0).any()
    assert np.array_equal(kept, np.maximum.accumulate(mixed, axis=1))


def test_the_receiver_sees_the_newest_that_has_arrived():
    rng = np.random.default_rng(0)
    sent = np.sort(rng.uniform(0, 1, (4, 60)), axis=1)
    config = TransportConfig(latency=0.02, jitter=0.03, start=0.1, stop=0.3, overtaking=True)
    arrival, _ = Transport(config, 4, 0.01).arrivals(sent)
    at = rng.uniform(0, 1.3, (4, 30))
    at[:, 0] = arrival[np.arange(4), np.isfinite(arrival).argmax(axis=1)]  # exactly when one arrives
    seen = newest(arrival, at)
    for world in range(4):
        for k, t in enumerate(at[world]):
            there = np.flatnonzero(arrival[world] <= t)
            assert seen[world, k] == (there.max() if len(there) else -1)
    with pytest.raises(BadInput, match="newest"):
        newest(arrival, at[:2])


def _slider() -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    spec.option.timestep, spec.option.gravity = 0.001, [0, 0, 0]
    body = spec.worldbody.add_body()
    body.add_geom(size=[0.1, 0, 0])
    body.add_joint(name="slide", type=mujoco.mjtJoint.mjJNT_SLIDE)
    spec.add_actuator(name="motor", trntype=mujoco.mjtTrn.mjTRN_JOINT, target="slide").set_to_motor()
    spec.add_sensor(name="clock", type=mujoco.mjtSensor.mjSENS_CLOCK)
    return spec


@pytest.mark.parametrize(("latency", "late"), [(0.0, 0), (0.005, 5), (0.0052, 6), (0.012, 12)])
def test_mujoco_delays_by_as_much(latency, late):
    spec = _slider()
    assert write_latency(spec, TransportConfig(latency=latency), actuators="mot*", sensors="*") == ("motor", "clock")
    model = spec.compile()
    data = mujoco.MjData(model)
    force, clock = [], []
    for k in range(40):
        data.ctrl[0] = k + 1
        mujoco.mj_step(model, data)
        force.append(data.actuator_force[0])
        clock.append(data.sensordata[0] * 1000)
    assert force == pytest.approx([max(k + 1 - late, 0) for k in range(40)])
    assert clock == pytest.approx([max(k - late, 0) for k in range(40)], abs=1e-9)


def test_what_mujoco_cannot_delay_is_refused():
    with pytest.raises(BadInput, match=r"jitter 0\.01"):
        write_latency(_slider(), TransportConfig(jitter=0.01), actuators="*")
    with pytest.raises(BadInput, match="glob"):
        write_latency(_slider(), TransportConfig(latency=0.01))
    with pytest.raises(UnknownName, match="clock"):
        write_latency(_slider(), TransportConfig(latency=0.01), sensors="gyro*")
