"""Parameters of each sensor model, found again in what it reads, within ten per cent."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.families.sensors import (
    DepthConfig,
    Encoder,
    EncoderConfig,
    ForceTorque,
    ForceTorqueConfig,
    Imu,
    ImuConfig,
    InertialConfig,
    Tactile,
    TactileConfig,
    sense_depth,
)

_SIX = (0.0,) * 6
_QUIET = {"warmup": _SIX, "white": _SIX, "walk": _SIX, "hysteresis": (), "radius": (), "step": _SIX}


def test_crosstalk_and_gain():
    rng = np.random.default_rng(0)
    crosstalk = np.eye(6) + 0.05 * rng.normal(size=(6, 6))
    gain = tuple(1 + 0.1 * rng.normal(size=6))
    config = ForceTorqueConfig(**{**_QUIET, "white": (0.01,) * 6}, crosstalk=tuple(map(tuple, crosstalk)), gain=gain)
    loads = rng.uniform(-5, 5, (1, 4000, 6))
    read = ForceTorque(config, 1, 0.01).run(loads)
    found = np.linalg.lstsq(loads[0], read[0], rcond=None)[0].T
    truth = np.diag(gain) @ crosstalk
    assert np.abs(found - truth).max() < 0.1 * np.abs(truth - np.diag(np.diag(truth))).max()
    assert np.abs(found / truth - 1)[np.eye(6, dtype=bool)].max() < 0.01


def test_warm_up_of_a_force_sensor():
    config = ForceTorqueConfig(**{**_QUIET, "warmup": (1.0, -2.0, 3.0, 0.1, 0.2, -0.3)}, warmup_time=50.0)
    read = ForceTorque(config, 1, 0.5).run(np.zeros((1, 400, 6)))[0]
    t = 0.5 * np.arange(1, 401)
    slope = np.polyfit(t[:200], np.log(np.abs(np.array(config.warmup) - read))[:200], 1)[0]
    assert -1 / slope == pytest.approx(np.full(6, 50.0), rel=1e-6)
    assert read[-1] == pytest.approx(np.array(config.warmup) * -np.expm1(-200 / 50))


def test_noise_of_a_force_sensor():
    white, walk = (0.02, 0.02, 0.02, 1e-3, 1e-3, 1e-3), (0.01, 0.01, 0.01, 5e-4, 5e-4, 5e-4)
    still = np.zeros((40, 2000, 6))
    read = ForceTorque(ForceTorqueConfig(**{**_QUIET, "white": white}), 40, 0.01).run(still)
    assert read.std(axis=(0, 1)) * np.sqrt(0.01) == pytest.approx(np.array(white), rel=0.02)
    read = ForceTorque(ForceTorqueConfig(**{**_QUIET, "walk": walk}), 40, 0.01).run(still)
    assert np.diff(read, axis=1).std(axis=(0, 1)) / np.sqrt(0.01) == pytest.approx(np.array(walk), rel=0.02)
    assert (read[:, -1] ** 2).mean() > (read[:, 200] ** 2).mean() * 5  # it grows with time


def test_hysteresis_of_a_force_sensor_is_a_loop_of_the_right_area_at_any_speed():
    shares, radii, amplitude = (0.1, 0.05), (0.02, 0.1), 50.0
    config = ForceTorqueConfig(**{**_QUIET, "hysteresis": shares, "radius": radii})
    expected = sum(4 * p * r * 200 * (amplitude - r * 200) for p, r in zip(shares, radii))
    for period in (800, 3000):
        load = amplitude * np.sin(2 * np.pi * np.arange(3 * period + 1) / period)
        read = ForceTorque(config, 1, 0.01).run(np.tile(load[None, :, None], (1, 1, 6)))[0, :, 0]
        x, y = load[-period - 1 :], read[-period - 1 :]
        loop = abs(np.sum((y[1:] + y[:-1]) / 2 * np.diff(x)))
        assert loop == pytest.approx(expected, rel=0.01)


def test_a_force_sensor_ends_at_its_limit_and_reads_in_steps():
    config = ForceTorqueConfig(**{**_QUIET, "step": (0.5,) * 6})
    read = ForceTorque(config, 1, 0.01).run(np.linspace(-300, 300, 200)[None, :, None] * np.ones(6))[0]
    assert np.abs(read[:, 0]).max() == 200.0
    assert np.abs(read[:, 5]).max() == 10.0
    assert np.array_equal(read * 2, np.round(read * 2))


def test_tactile_noise_dropout_and_hysteresis():
    config = TactileConfig(floor=0.05, share=0.04, hysteresis=0.3, radius=0.2, threshold=0.0, time_up=2.0, time_out=0.2)
    load = np.full((60, 3000, 2), 5.0)
    read = Tactile(config, 60, 2, 0.01).run(load)
    out = read == 0
    assert out.mean() == pytest.approx(0.2 / 2.2, rel=0.1)
    began = (out[:, 1:] & ~out[:, :-1]).sum()
    assert out.sum() / began * 0.01 == pytest.approx(0.2, rel=0.1)  # mean time out
    assert (~out).sum() / began * 0.01 == pytest.approx(2.0, rel=0.1)  # mean time until it fails
    felt = 5.0 - 0.3 * 0.2
    assert read[~out].mean() == pytest.approx(felt, rel=0.002)
    assert read[~out].std() == pytest.approx(np.hypot(0.05, 0.04 * felt), rel=0.02)
    silent = TactileConfig(floor=0.0, share=0.0, hysteresis=0.3, radius=0.2, threshold=0.0)
    cycle = 3 + 2 * np.sin(2 * np.pi * np.arange(1600) / 800)
    y = Tactile(silent, 1, 1, 0.01).run(cycle[None, :, None])[0, :, 0]
    up, down = np.interp(3.0, *_rising(cycle, y)), np.interp(3.0, *_rising(cycle, y, -1))
    assert down - up == pytest.approx(2 * 0.3 * 0.2, rel=0.05)  # the width of the loop


def _rising(x: np.ndarray, y: np.ndarray, sign: int = 1) -> tuple[np.ndarray, np.ndarray]:
    part = slice(1000, 1400) if sign < 0 else slice(600, 1000)
    order = np.argsort(x[part])
    return x[part][order], y[part][order]


def test_encoder_bias_acts_on_reading_and_command_alike():
    encoder = Encoder(EncoderConfig(step=1e-3, bias=0.02, backlash=0.01, noise=0.0), 200, 3, 0.01)
    assert encoder.bias.std() == pytest.approx(0.02, rel=0.1)
    quiet = Encoder(EncoderConfig(step=0.0, bias=0.02), 200, 3, 0.01)
    command = np.full((200, 3), 0.7)
    assert quiet.step(quiet.commanded(command)) == pytest.approx(command, abs=1e-12)  # the servo believes it is there
    assert quiet.commanded(command) == pytest.approx(command - quiet.bias)


def test_encoder_step_backlash_and_noise():
    q = 0.5 * np.sin(2 * np.pi * np.arange(4000) / 1000)[None, :, None]
    read = Encoder(EncoderConfig(step=0.002, backlash=0.0), 1, 1, 0.01).run(q)[0, :, 0]
    assert np.diff(np.unique(np.round(read, 9))).min() == pytest.approx(0.002, rel=1e-6)
    read = Encoder(EncoderConfig(step=0.0, backlash=0.03), 1, 1, 0.01).run(q)[0, :, 0]
    assert (q[0, 1500:, 0] - read[1500:]).max() * 2 == pytest.approx(0.03, rel=0.01)
    read = Encoder(EncoderConfig(step=0.001, noise=0.002), 50, 2, 0.01).run(np.zeros((50, 400, 2)))
    assert np.sqrt(read.var() - 0.001**2 / 12) == pytest.approx(0.002, rel=0.02)


def test_turn_on_bias_and_range_of_an_inertial_sensor():
    gyroscope = InertialConfig(turn_on=0.02, limit=1.0, step=0.01)
    read = Imu(ImuConfig(gyroscope=gyroscope, accelerometer=InertialConfig(turn_on=0.3)), 400, 0.01)
    first = read.step(np.zeros((400, 6)))
    assert first[:, :3].std() == pytest.approx(np.hypot(0.02, 0.01 / np.sqrt(12)), rel=0.1)
    assert first[:, 3:].std() == pytest.approx(0.3, rel=0.1)
    assert np.array_equal(read.step(np.zeros((400, 6))), first)  # nothing else is on
    assert read.step(np.full((400, 6), 50.0))[:, :3].max() == pytest.approx(1.0)


def test_depth_noise_grows_with_the_square_of_distance():
    config = DepthConfig(floor=0.0, square=0.002, step=0.0, reach=0)
    depth = np.tile(np.linspace(0.5, 4.0, 8)[None, :, None], (20, 1, 100))
    read = sense_depth(config, depth, np.arange(20), 0)
    spread = (read - depth).std(axis=(0, 2))
    power, scale = np.polyfit(np.log(depth[0, :, 0]), np.log(spread), 1)
    assert power == pytest.approx(2.0, rel=0.05)
    assert np.exp(scale) == pytest.approx(0.002, rel=0.1)


def test_depth_loses_edges_and_mirrors():
    config = DepthConfig(edge_lost=0.4, reach=2, mirror_lost=0.6, mirror_far=0.15, floor=0.0, square=0.0, step=0.0)
    depth = np.full((30, 40, 60), 1.0)
    depth[:, :, 30:] = 2.0
    read = sense_depth(config, depth, np.arange(30), 3)
    lost = (read == 0).mean(axis=(0, 1))
    assert lost[28:32] == pytest.approx(np.full(4, 0.4), rel=0.1)
    assert not lost[:28].any()
    assert not lost[32:].any()
    mirror = np.zeros(depth.shape, dtype=bool)
    mirror[:, :, 5:20] = True
    facing = np.ones(depth.shape)
    facing[:, :, 40:50] = np.cos(np.deg2rad(80))
    read = sense_depth(config, depth, np.arange(30), 3, mirror=mirror, facing=facing)
    assert (read[:, :, 5:20] == 0).mean() == pytest.approx(0.6, rel=0.1)
    assert (read[:, :, 40:50] == 0).mean() == pytest.approx(0.6, rel=0.1)
    seen = read[:, :, 5:20][read[:, :, 5:20] > 0]
    assert seen.mean() - 1.0 == pytest.approx(0.15, rel=0.1)
    nothing = sense_depth(config, np.zeros((1, 4, 4)), np.array([0]), 0)
    assert not nothing.any()


def test_depth_of_a_world_is_its_own():
    depth = np.random.default_rng(0).uniform(0.5, 3, (5, 12, 16))
    read = sense_depth(DepthConfig(), depth, np.arange(5) * 7, 4)
    assert np.array_equal(read[3:4], sense_depth(DepthConfig(), depth[3:4], np.array([21]), 4))
    assert not np.array_equal(read, sense_depth(DepthConfig(), depth, np.arange(5) * 7, 5))
