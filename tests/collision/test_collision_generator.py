"""The generator: what it accepts obeys the laws that the surrogate is to learn."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.collision import CollisionPairs, ContactRanges, GeneratorConfig, best_impulse, generate_pairs
from dexprior.config import validate
from dexprior.data.simulated_impacts import generate_impacts
from dexprior.errors import BadInput, ConfigError

SMALL = GeneratorConfig(pairs=200)


def test_pairs_are_a_function_of_the_seed_not_of_the_threads():
    one = generate_pairs(SMALL, ContactRanges(), seed=1)
    same = generate_pairs(SMALL, ContactRanges(), seed=1, threads=2)
    other = generate_pairs(SMALL, ContactRanges(), seed=2)
    for name, value in one.arrays().items():
        np.testing.assert_array_equal(value, same.arrays()[name])
        assert not np.array_equal(value, other.arrays()[name])


def test_exactly_the_wanted_number_is_accepted_and_the_rest_is_counted(pairs):
    assert len(pairs) == 3000
    assert pairs.counts["simulated"] >= 3000
    rejected = pairs.counts["gained_energy"] + pairs.counts["cut_off"]
    assert 0 < rejected < 0.1 * pairs.counts["simulated"]


def test_every_pair_approaches_within_the_declared_ranges(pairs):
    low, high = ContactRanges().bounds[:4].T
    assert (pairs.approach[:, 0] < 0).all()
    assert ((pairs.phi >= low) & (pairs.phi <= high)).all()
    assert (np.linalg.eigvalsh(pairs.delassus) > 0).all()


def test_hardly_any_impulse_adds_energy_or_pulls(pairs):
    """The energy of the fitted impulse, u.p + p.A.p / 2; the fit leaves the rolling of long contacts out."""
    work = np.einsum("bi,bi->b", pairs.approach, pairs.impulse)
    work += 0.5 * np.einsum("bi,bij,bj->b", pairs.impulse, pairs.delassus, pairs.impulse)
    assert (work <= 0).mean() > 0.99
    assert (pairs.impulse[:, 0] > 0).all()


def test_the_best_impulse_recovers_an_exact_one():
    impacts = generate_impacts(0, 25)
    geometry = impacts.geometry
    impulse = np.random.default_rng(0).normal(size=(25, 2))
    change = np.einsum("bde,bce,bc->bd", geometry.inverse_inertia, geometry.jacobian, impulse)
    np.testing.assert_allclose(best_impulse(change, geometry), impulse, rtol=1e-9)


def test_the_unit_scale_is_inverted_and_covers_the_range():
    ranges = ContactRanges()
    unit = np.random.default_rng(0).uniform(-1, 1, (50, 5))
    phi = ranges.from_unit(np, unit)
    np.testing.assert_allclose(ranges.to_unit(np, phi), unit, atol=1e-12)
    assert ranges.contains(phi).all()
    assert not ranges.contains(phi * [10.0, 100.0, 100.0, 1.0, 1.0]).any()


def test_ranges_that_are_empty_or_not_positive_are_refused():
    with pytest.raises(ConfigError, match="friction"):
        ContactRanges(friction=(0.5, 0.1))
    with pytest.raises(ConfigError, match="time_constant"):
        validate(ContactRanges, {"time_constant": [0.0, 0.1]})


def test_pairs_that_are_not_finite_are_refused(pairs):
    arrays = {k: v[:3].copy() for k, v in pairs.arrays().items()}
    arrays["impulse"][1, 0] = np.nan
    with pytest.raises(BadInput, match="impulse"):
        CollisionPairs(**arrays, counts={})
