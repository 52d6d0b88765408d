"""Strikes for the published reference: the same physics as the striking world, in the object's frame."""

from __future__ import annotations

import numpy as np
import pytest

import dexprior.collision.shapes.strikes as module
from dexprior.collision.shapes import (
    STRIKE_PARAMETERS,
    ContactWorlds,
    StrikeSampling,
    prism_strike,
    sample_strikes,
    simulate_strike_pairs,
    strike_features,
)
from dexprior.errors import BadInput, ConfigError
from dexprior.worlds.pushing import PushingConfig, simulate_strikes


def _missed(world, sampling, **contact):
    """Relative error of the simulated pairs against the striking world, where both separate; and how often they do."""
    n = 40
    strikes, parameters = sample_strikes(sampling, world, n, np.random.default_rng(0))
    given = dict(zip(STRIKE_PARAMETERS, parameters.T)) | {name: np.full(n, value) for name, value in contact.items()}
    result = simulate_strikes(world, np.zeros((n, 3)), strikes, parameters=given, slide=False)
    worlds = ContactWorlds(prism_strike(world.footprint.contour, like=world), n)
    velocity, _, _, separated = module._strike(worlds, world, sampling, strikes, parameters)
    both = separated & result.separated
    scale = np.array([1.0, 1.0, world.footprint.gyration])
    missed = np.linalg.norm((velocity - result.velocity) * scale, axis=1)
    return (missed / np.linalg.norm(result.velocity * scale, axis=1))[both], both.mean()


@pytest.mark.parametrize("shape", ["semi_cylinder", "square", "triangle"])
def test_a_strike_is_that_of_the_striking_world(shape):
    missed, both = _missed(PushingConfig(shape=shape), StrikeSampling())
    assert both > 0.9
    assert np.median(missed) < 0.01
    assert np.quantile(missed, 0.9) < 0.05


@pytest.mark.parametrize("shape", ["semi_cylinder", "square"])
def test_at_a_low_impedance_impratio_is_the_grip_of_the_striking_world(shape):
    """Two ways to a tangential damper, one through MuJoCo's regularization and one through its reference, agree."""
    low = StrikeSampling(time_constant=0.002, impratio=5.0, impedance=0.005)
    missed, both = _missed(PushingConfig(shape=shape), low, time_constant=0.002, rod_grip=5.0, rod_impedance=0.005)
    assert both > 0.9
    assert np.median(missed) < 0.03


def test_features_do_not_depend_on_where_the_object_lies():
    world, n = PushingConfig(shape="triangle"), 8
    strikes, _ = sample_strikes(StrikeSampling(), world, n, np.random.default_rng(1))
    pose = np.column_stack([np.linspace(-0.2, 0.2, n), np.full(n, 0.1), np.linspace(-3, 3, n)])
    here = strike_features(world, strikes, simulate_strikes(world, np.zeros((n, 3)), strikes, slide=False))
    there = strike_features(world, strikes, simulate_strikes(world, pose, strikes, slide=False))
    np.testing.assert_array_equal(here.state, there.state)
    assert (
        np.median(np.linalg.norm(here.after - there.after, axis=1)) < 0.01 * np.linalg.norm(here.after, axis=1).mean()
    )


def test_pairs_are_counted_and_a_function_of_the_seed(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 64)
    world = PushingConfig(shape="square")
    pairs, counts = simulate_strike_pairs(StrikeSampling(pairs=100), world, seed=2)
    again, _ = simulate_strike_pairs(StrikeSampling(pairs=100), world, seed=2, threads=2)
    np.testing.assert_array_equal(pairs.after, again.after)
    assert counts["simulated"] == 100 == len(pairs.state) + counts["gained_energy"] + counts["cut_off"]
    low, high = StrikeSampling().bounds(world).T
    assert ((pairs.parameters >= low) & (pairs.parameters <= high)).all()
    assert (pairs.after[:, 0] != 0).all()


def test_what_cannot_be_sampled_is_refused():
    with pytest.raises(ConfigError, match="rod_friction"):
        StrikeSampling(rod_friction=(0.5, 0.1))
    tall = PushingConfig(shape="triangle", height=0.3, table_friction=0.1)
    with pytest.raises(ConfigError, match="tips above"):
        StrikeSampling(table_friction=(0.3, 0.6)).bounds(tall)
    world = PushingConfig()
    strikes, _ = sample_strikes(StrikeSampling(), world, 3, np.random.default_rng(0))
    result = simulate_strikes(world, np.zeros((3, 3)), strikes, slide=False)
    fewer, _ = sample_strikes(StrikeSampling(), world, 2, np.random.default_rng(0))
    with pytest.raises(BadInput, match="2 strikes, but 3 results"):
        strike_features(world, fewer, result)
