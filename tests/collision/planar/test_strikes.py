"""Fitting to measured strikes: what made the data is found again, and departure velocities survive the noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.collision import ContactRanges, GeneratorConfig, RestitutionFriction
from dexprior.collision.planar import PlanarStriker
from dexprior.collision.planar.strikes import (
    ScratchConfig,
    StrikeImpacts,
    TuneStrikesConfig,
    departure_velocity,
    fit_restitution,
    fit_scratch,
    fit_surrogate,
    strike_error,
    tune_mujoco_strikes,
)
from dexprior.errors import BadInput
from dexprior.worlds.pushing import PushingConfig, Strikes, simulate_strikes, sliding_tails

WORLD = PushingConfig(shape="square")


def _strikes(n: int, seed: int) -> tuple[np.ndarray, Strikes]:
    rng = np.random.default_rng(seed)
    strikes = Strikes(alpha=rng.uniform(-3, 3, n), speed=rng.uniform(0.3, 1, n), beta=rng.uniform(-0.4, 0.4, n))
    return np.column_stack([rng.uniform(-0.1, 0.1, (n, 2)), rng.uniform(-3, 3, n)]), strikes


def _made_by(phi: tuple[float, float], n: int, seed: int) -> StrikeImpacts:
    pose, strikes = _strikes(n, seed)
    truth = PlanarStriker(config=WORLD, model=RestitutionFriction(), phi=np.array(phi))
    return StrikeImpacts(config=WORLD, pose=pose, strikes=strikes, velocity=truth.velocity_after(pose, strikes))


def test_the_closed_form_is_found_again():
    np.testing.assert_allclose(fit_restitution(_made_by((0.4, 0.25), 10, 0)), [0.4, 0.25], atol=1e-9)


def test_strikes_read_as_impacts_of_the_object_against_the_rod():
    impacts = _made_by((0.0, 0.0), 6, 1)
    u = np.einsum("bcd,bd->bc", impacts.geometry.jacobian, impacts.post)
    np.testing.assert_allclose(u[:, 0], 0.0, atol=1e-12)  # without restitution they part at no speed
    np.testing.assert_allclose(np.linalg.norm(impacts.pre[:, :2], axis=1), impacts.strikes.speed)
    assert (strike_error(impacts.velocity, impacts) == 0).all()


def test_fine_tuning_on_ten_strikes_beats_the_base(surrogate):
    fit, test = _made_by((0.4, 0.25), 10, 2), _made_by((0.4, 0.25), 60, 3)
    model, identified = fit_surrogate(surrogate, fit)

    def median(m) -> float:
        striker = PlanarStriker(config=WORLD, model=m, phi=identified.phi)
        return float(np.median(strike_error(striker.velocity_after(test.pose, test.strikes), test)))

    assert median(model) < median(surrogate)
    assert median(model) < 0.12
    with pytest.raises(BadInput, match="at least 3"):
        fit_surrogate(surrogate, fit.take(np.arange(2)))


def test_grazing_strikes_are_not_read(surrogate):
    impacts = _made_by((0.4, 0.25), 10, 2)
    slow = replace(impacts, strikes=replace(impacts.strikes, speed=np.full(10, 0.1)))
    with pytest.raises(BadInput, match="at least 3"):
        fit_surrogate(surrogate, slow)
    assert fit_surrogate(surrogate, slow, slowest=0.0)[0].phi is not None


def test_a_network_from_scratch_fits_what_it_saw_and_turns_with_the_object():
    impacts = _made_by((0.4, 0.25), 10, 4)
    network = fit_scratch(impacts, ScratchConfig(width=32, depth=2, steps=600), seed=0)
    again = fit_scratch(impacts, ScratchConfig(width=32, depth=2, steps=600), seed=0)
    striker = PlanarStriker(config=WORLD, model=network, phi=np.zeros(0))
    found = striker.velocity_after(impacts.pose, impacts.strikes)
    assert strike_error(found, impacts).max() < 0.1
    np.testing.assert_array_equal(network.layers[0][0], again.layers[0][0])
    turned = striker.velocity_after(impacts.pose + np.array([0.0, 0.0, 1.0]), impacts.strikes)
    c, s = np.cos(1.0), np.sin(1.0)
    np.testing.assert_allclose(turned[:, 0], c * found[:, 0] - s * found[:, 1], atol=1e-9)
    np.testing.assert_allclose(turned[:, 2], found[:, 2], atol=1e-9)


def test_tuned_mujoco_may_go_wherever_the_network_may():
    """No contact of the network's simulator is out of reach of its opponent."""
    ours, theirs = ContactRanges(), TuneStrikesConfig()
    names = {
        "friction": "rod_friction",
        "damping_ratio": "rod_damping_ratio",
        "time_constant": "time_constant",
        "impratio": "rod_grip",
    }
    for mine, other in names.items():
        (low, high), (lowest, highest) = getattr(ours, mine), getattr(theirs, other)
        assert lowest <= low < high <= highest
    assert theirs.rod_impedance[0] <= GeneratorConfig().impedance
    assert theirs.rod_impedance[1] >= 0.95


def test_strikes_of_a_spring_and_damper_are_found_by_mujoco_at_their_impedance_alone():
    pose, strikes = _strikes(8, 5)
    contact = {"rod_friction": 0.3, "rod_damping_ratio": 0.25, "rod_impedance": 0.005, "rod_grip": 2.0}
    columns = {name: np.full(8, value) for name, value in contact.items()}
    velocity = simulate_strikes(WORLD, pose, strikes, parameters=columns, slide=False).velocity
    impacts = StrikeImpacts(config=WORLD, pose=pose, strikes=strikes, velocity=velocity)
    errors = []
    for impedance in ((0.9, 0.95), (0.005, 0.01)):
        tuning = TuneStrikesConfig(evaluations=96, time_constant=(0.003, 0.005), rod_impedance=impedance)
        found = tune_mujoco_strikes(impacts, tuning, seed=0)
        columns = {name: np.full(8, value) for name, value in found.items()}
        tuned = simulate_strikes(WORLD, pose, strikes, parameters=columns, slide=False)
        errors.append(strike_error(tuned.velocity, impacts).mean())
    assert errors[1] < 0.6 * errors[0]


def test_mujoco_is_tuned_towards_the_strikes():
    pose, strikes = _strikes(4, 5)
    truth = {"rod_friction": np.full(4, 0.4), "rod_damping_ratio": np.full(4, 0.6)}
    made = simulate_strikes(WORLD, pose, strikes, parameters=truth, slide=False)
    impacts = StrikeImpacts(config=WORLD, pose=pose, strikes=strikes, velocity=made.velocity)
    tuning = TuneStrikesConfig(evaluations=48, population=8, time_constant=(0.003, 0.005))
    found = tune_mujoco_strikes(impacts, tuning, known={"table_friction": 0.3}, seed=0)
    columns = {name: np.full(4, value) for name, value in found.items()}
    tuned = simulate_strikes(WORLD, pose, strikes, parameters=columns, slide=False)
    default = simulate_strikes(WORLD, pose, strikes, slide=False)
    assert strike_error(tuned.velocity, impacts).mean() < 0.5 * strike_error(default.velocity, impacts).mean()
    assert found["table_friction"] == 0.3


def test_departure_velocity_is_found_through_friction_and_noise():
    velocity = np.array([[0.5, 0.1, 2.0], [0.0, -0.4, -5.0], [0.15, 0.0, 0.5]])
    tails, t = sliding_tails(WORLD, velocity, duration=0.2)
    options = {"friction": WORLD.table_friction, "torsional_friction": WORLD.torsional_friction}
    scale = [1, 1, WORLD.footprint.gyration]
    exact = departure_velocity(WORLD, tails, t, np.zeros(3), **options)
    assert (np.linalg.norm((exact - velocity) * scale, axis=1) < 0.01).all()
    late = departure_velocity(WORLD, tails[:, 1:], t[1:] - t[1], np.full(3, t[1]), **options)
    assert (np.linalg.norm((late - velocity) * scale, axis=1) < 0.01).all()
    noise = np.random.default_rng(0).normal(size=tails.shape) * [2e-4, 2e-4, 4e-3]
    noisy = departure_velocity(WORLD, tails + noise, t, np.zeros(3), **options)
    assert (np.linalg.norm((noisy - velocity) * scale, axis=1) < 0.04).all()


def test_bad_recordings_are_refused():
    tails = np.full((1, 8, 3), np.nan)
    tails[0, :2] = 0.0
    options = {"friction": 0.3, "torsional_friction": 0.0}
    assert np.isnan(departure_velocity(WORLD, tails, np.arange(8) * 0.005, np.zeros(1), **options)).all()
    with pytest.raises(BadInput, match="disagree"):
        departure_velocity(WORLD, tails, np.arange(7) * 0.005, np.zeros(1), **options)
    pose, strikes = _strikes(2, 0)
    with pytest.raises(BadInput, match="is 1 here but 2 in pose"):
        StrikeImpacts(config=WORLD, pose=pose, strikes=strikes, velocity=np.zeros((1, 3)))
    with pytest.raises(BadInput, match="2 strikes on 1 objects"):
        StrikeImpacts(config=WORLD, pose=pose[:1], strikes=strikes, velocity=np.zeros((1, 3)))
