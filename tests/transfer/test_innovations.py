"""Innovations: what is left of a group's deviation once its own past has been listened to."""

import numpy as np
import pytest

from dexprior.transfer.divergence.channel import Band
from dexprior.transfer.divergence.innovations import Innovations
from dexprior.transfer.divergence.settings import DivergenceConfig

T = np.linspace(0.0, 2.0, 200)
SHAPES = np.stack([np.sin(3 * T), np.cos(7 * T), T**2])  # three ways to differ
NOISE = 0.1


def family(groups: int, seed: int, shapes: np.ndarray = SHAPES) -> np.ndarray:
    rng = np.random.default_rng(seed)
    known = rng.normal(size=(groups, len(shapes))) @ shapes
    return known[..., None] + NOISE * rng.normal(size=(groups, len(T), 1))


@pytest.fixture(scope="module")
def innovations() -> Innovations:
    return Innovations(family(200, 0), np.array([NOISE]))


def test_it_sees_in_how_many_ways_members_differ(innovations):
    assert innovations.components == len(SHAPES)


def test_innovations_of_a_member_are_noise_alone(innovations):
    deviation = family(400, 1)
    fresh = innovations.of(deviation)[:, 20:, 0]
    assert np.std(deviation) > 8 * NOISE
    assert 0.97 < fresh.std() < 1.06
    neighbours = np.mean(fresh[:, 1:] * fresh[:, :-1]) / fresh.var()
    assert abs(neighbours) < 0.03


def test_what_comes_later_changes_nothing_before(innovations):
    deviation = family(2, 2)
    changed = deviation.copy()
    changed[:, 120:] += 5.0
    before, after = innovations.of(deviation), innovations.of(changed)
    np.testing.assert_array_equal(before[:, :120], after[:, :120])
    assert (np.abs(after[:, 120] - before[:, 120]) > 10.0).all()


def test_a_family_of_noise_has_no_components():
    deviation = NOISE * np.random.default_rng(3).normal(size=(100, 200, 2))
    innovations = Innovations(deviation, np.array([NOISE, NOISE]))
    assert innovations.components == 0
    np.testing.assert_allclose(innovations.of(deviation), deviation / NOISE)


@pytest.mark.parametrize("repeats", [1, 4])
def test_a_slow_drift_is_beyond_the_family_before_its_deviation_is(repeats):
    rng = np.random.default_rng(4)

    def repeated(groups: int, seed: int) -> np.ndarray:
        means = family(groups, seed)[:, None]
        return means + NOISE * rng.normal(size=(groups, repeats, len(T), 1))

    band = Band(repeated(200, 5), "1", T[1], DivergenceConfig())
    drifting = repeated(50, 6)
    drifting[..., 0] += 4.0 * np.maximum(T - 1.0, 0.0)
    beyond = band.run(drifting) > 1.5
    found = np.array([T[row.argmax()] - 1.0 if row.any() else np.inf for row in beyond])
    three_sigma = np.abs(band.deviation(drifting)[..., 0]) > 3.0 * band.spread[:, 0]
    late = np.array([T[row.argmax()] - 1.0 if row.any() else np.inf for row in three_sigma])
    assert np.median(found) < 0.35
    assert np.median(late) > 2 * np.median(found)
