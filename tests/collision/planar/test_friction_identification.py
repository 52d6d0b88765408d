"""Table friction from sliding tails: recovered in MuJoCo, under noise, and flagged where the data are silent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.collision.planar import (
    identify_ground_friction,
    identify_support_share,
    identify_torsional_friction,
)
from dexprior.errors import BadInput
from dexprior.worlds.pushing import PushingConfig, sliding_tails

SHAPES = ("semi_cylinder", "square", "triangle")


@pytest.fixture(params=SHAPES)
def config(request):
    return PushingConfig(shape=request.param)


def tails(config: PushingConfig, velocity: np.ndarray, **parameters: float):
    columns = {name: np.full(len(velocity), value) for name, value in parameters.items()}
    return sliding_tails(config, velocity, rate=200.0, duration=0.12, parameters=columns)


def launches(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    speed = rng.uniform(0.4, 1.0, n)
    return np.stack([speed * np.cos(angle), speed * np.sin(angle), rng.uniform(-8.0, 8.0, n)], axis=1)


@pytest.mark.parametrize("friction", [0.15, 0.3, 0.5])
def test_ground_friction_is_recovered(config, friction):
    pose, t = tails(config, launches(10), table_friction=friction)
    found = identify_ground_friction(config, pose, t)
    assert found.identifiable
    assert found.value == pytest.approx(friction, rel=0.01)


def test_ground_friction_survives_tracking_noise(config):
    pose, t = tails(config, launches(10), table_friction=0.3)
    noise = np.random.default_rng(1).normal(size=pose.shape) * [2e-4, 2e-4, 4e-3]
    found = identify_ground_friction(config, pose + noise, t)
    assert found.value == pytest.approx(0.3, abs=4 * found.standard_error + 0.005)
    assert found.standard_error < 0.01


def test_a_lost_track_ends_a_tail(config):
    pose, t = tails(config, launches(6), table_friction=0.3)
    pose[2, 14:] = np.nan
    pose[4, :] = np.nan
    assert identify_ground_friction(config, pose, t).value == pytest.approx(0.3, rel=0.01)


@pytest.mark.parametrize("share", [0.7, 1.0, 1.2])
def test_where_the_body_stands_is_recovered_from_tails(config, share):
    pose, t = tails(replace(config, support_share=share), launches(10), table_friction=0.3, torsional_friction=0.0)
    noise = np.random.default_rng(3).normal(size=pose.shape) * [2e-4, 2e-4, 4e-3]
    assert identify_support_share(config, pose, t, friction=0.3).value == pytest.approx(share, rel=0.03)
    found = identify_support_share(config, pose + noise, t, friction=0.3)
    assert found.value == pytest.approx(share, abs=4 * found.standard_error + 0.03)
    assert found.identifiable


def test_a_body_does_not_stand_where_it_would_tip():
    tall = PushingConfig(shape="triangle", height=0.15, table_friction=0.1)
    pose, t = tails(replace(tall, support_share=1.0), launches(10), table_friction=0.37)
    found = identify_support_share(tall, pose, t, friction=0.37)
    assert replace(tall, support_share=found.value).tipping_friction > 0.37


def test_torsional_friction_is_recovered_from_spinning(config):
    spin = np.zeros((6, 3))
    spin[:, 2] = np.linspace(8.0, 14.0, 6)
    pose, t = tails(config, spin, table_friction=0.1, torsional_friction=0.01)
    found = identify_torsional_friction(config, pose, t, friction=0.1)
    assert found.identifiable
    assert found.value == pytest.approx(0.01, rel=0.05)


def test_torsional_friction_below_the_noise_is_flagged(config):
    spin = np.zeros((6, 3))
    spin[:, 2] = np.linspace(8.0, 14.0, 6)
    pose, t = tails(config, spin, table_friction=0.3, torsional_friction=1e-4)
    noise = np.random.default_rng(2).normal(size=pose.shape) * [2e-4, 2e-4, 4e-3]
    assert not identify_torsional_friction(config, pose + noise, t, friction=0.3).identifiable


def test_bad_tails_are_named():
    config = PushingConfig()
    t = np.arange(10) * 0.005
    with pytest.raises(BadInput, match="expected"):
        identify_ground_friction(config, np.zeros((2, 9, 3)), t)
    with pytest.raises(BadInput, match="no object moves"):
        identify_ground_friction(config, np.zeros((2, 10, 3)), t)
    with pytest.raises(BadInput, match="increase"):
        identify_ground_friction(config, np.zeros((2, 10, 3)), t[::-1])
