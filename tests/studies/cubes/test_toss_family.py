"""The wider family of cubes: mechanics that hold whatever the contact, and parameters that come back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.data.tosses import CUBE_MASS, CubeScale, fly, generate_tosses, lowest_corner
from dexprior.errors import BadInput, UnknownName
from dexprior.geometry.rotations import quat_rotate, rotation_angle
from dexprior.studies.cubes import (
    CUBE_FAMILY,
    CUBE_PRIOR,
    CUBE_RANGES,
    CubeEvaluationConfig,
    CubeSimulator,
    FamilyConfig,
    MeanToss,
    TossSimulator,
    family_from_unit,
    family_prior,
    first_impacts,
    fit_first_impacts,
    fit_whole_tosses,
    mean_states,
    pose_cost,
    relative_error,
    simulate_family,
    simulate_family_impacts,
    stochastic,
    whole_toss,
)
from dexprior.studies.cubes.model import contact_frame

SCALE = CubeScale(half_width=0.0509, gravity=9.53, table_height=-0.0004)


def test_tuned_mujoco_may_go_wherever_our_cube_may():
    """In all that MuJoCo's contact has: friction, damping, time constant, their ratio, and down to our impedance."""
    shared = [name for name in CUBE_PRIOR if name in CUBE_RANGES]
    assert shared == ["friction", "damping_ratio", "time_constant", "impratio"]
    for name in shared:
        low, high = CUBE_RANGES[name]
        assert low <= CUBE_PRIOR[name].low
        assert high >= CUBE_PRIOR[name].high
    assert CUBE_RANGES["impedance_start"][0] <= 0.005
    assert CUBE_RANGES["impedance_end"][0] <= 0.005
    assert CubeEvaluationConfig().simulation.substeps >= FamilyConfig().substeps


def family(**values):
    phi = family_prior()
    for name, value in values.items():
        phi[CUBE_FAMILY.index(name)] = value
    return phi


@pytest.fixture(scope="module")
def tosses():
    return generate_tosses(2, 12, scale=SCALE, noise=0.0)


@pytest.fixture(scope="module")
def impacts():
    return first_impacts(generate_tosses(5, 80, scale=SCALE, noise=0.0), SCALE)


def energy(states, phi):
    inertia = SCALE.inertia * phi[CUBE_FAMILY.index("inertia")]
    kinetic = 0.5 * CUBE_MASS * (states[..., 7:10] ** 2).sum(-1) + 0.5 * inertia * (states[..., 10:] ** 2).sum(-1)
    return kinetic + CUBE_MASS * SCALE.gravity * states[..., 2]


def test_a_cube_that_touches_nothing_flies_on_a_parabola(tosses):
    start = tosses.initial_states
    start[:, 2] += 5.0
    played = simulate_family(start, 40, np.tile(family_prior(), (len(start), 1)), SCALE)
    assert np.allclose(played[:, -1], fly(start, np.full(len(start), 40 * tosses.dt), SCALE.gravity), atol=1e-9)


def test_the_centre_of_mass_of_an_uneven_cube_flies_on_a_parabola(tosses):
    offset = np.array([0.003, -0.002, 0.001])
    start = tosses.initial_states
    start[:, 2] += 5.0
    phi = family(offset_x=offset[0], offset_y=offset[1], offset_z=offset[2])
    played = simulate_family(start, 40, np.tile(phi, (len(start), 1)), SCALE)
    centre = played[..., :3] + quat_rotate(played[..., 3:7], offset)
    curvature = np.diff(centre, n=2, axis=1) / tosses.dt**2
    assert np.allclose(curvature, [0.0, 0.0, -SCALE.gravity], atol=1e-6)
    assert np.allclose(played[:, :, 10:], start[:, None, 10:], atol=1e-12)


def test_tosses_lose_energy_and_end_at_rest_on_a_face(tosses):
    phi = family_prior()
    played = simulate_family(tosses.initial_states, 200, np.tile(phi, (len(tosses), 1)), SCALE)
    total = energy(played, phi)
    assert (np.diff(total, axis=1) < 0.02 * total[:, :1]).all()
    final = played[:, -1]
    assert (np.linalg.norm(final[:, 7:], axis=1) < 0.05).mean() > 0.8
    still = np.linalg.norm(final[:, 7:], axis=1) < 0.05
    assert np.allclose(final[still, 2], SCALE.table_height + SCALE.half_width, atol=1e-3)
    assert lowest_corner(played, SCALE).min() > -0.01


def test_a_cube_measured_inside_the_table_stays_on_it():
    still = np.zeros((1, 13))
    still[0, 2], still[0, 3] = SCALE.table_height + SCALE.half_width - 5e-4, 1.0
    played = simulate_family(still, 30, family(damping_ratio=0.2)[None], SCALE)
    assert np.array_equal(played[:, 0], still)
    assert np.allclose(played[0, 1:, 2], SCALE.table_height + SCALE.half_width, atol=5e-5)
    assert np.abs(played[0, 1:, 7:]).max() < 0.01


def test_a_heavier_rim_turns_less(impacts):
    turned = []
    for inertia in (0.8, 1.6):
        post = simulate_family_impacts(impacts, family(inertia=inertia)[None])[0]
        turned.append(np.linalg.norm(post[:, 3:] - impacts.pre[:, 3:], axis=1).mean())
    assert turned[1] < 0.8 * turned[0]


def test_a_first_impact_is_the_beginning_of_its_toss(impacts):
    phi = family_prior()
    post = simulate_family_impacts(impacts, phi[None])[0]
    assert (energy(np.hstack([impacts.pose, post]), phi) < energy(impacts.states, phi)).all()
    assert (post[:, 2] > impacts.pre[:, 2]).all()
    fine = simulate_family_impacts(impacts, phi[None], substeps=128)[0]
    assert np.median(relative_error(post, impacts)) == pytest.approx(np.median(relative_error(fine, impacts)), rel=0.1)


def test_results_depend_on_neither_threads_nor_neighbours(tosses):
    start, phi = tosses.initial_states, np.tile(family_prior(), (len(tosses), 1))
    together = simulate_family(start, 60, phi, SCALE)
    assert np.array_equal(together, simulate_family(start, 60, phi, SCALE, threads=2))
    assert np.array_equal(together[3:5], simulate_family(start[3:5], 60, phi[3:5], SCALE))


def test_a_wrong_shape_and_an_unknown_name_are_refused(tosses):
    with pytest.raises(BadInput, match=r"expected \(12, 9\)"):
        simulate_family(tosses.initial_states, 3, np.zeros((12, 4)), SCALE)
    with pytest.raises(UnknownName, match="colour"):
        family_from_unit(("colour",), np.zeros((1, 1)))


# --- fits ---------------------------------------------------------------------------------------------------


def test_first_impacts_of_the_family_give_its_inertia_and_friction_back(impacts):
    truth = family(friction=0.12, inertia=1.45)
    made = replace(impacts, post=simulate_family_impacts(impacts, truth[None])[0])
    settings = FamilyConfig(names=("friction", "damping_ratio", "inertia"), evaluations=120, prior_weight=0.01)
    learned, rest = made.take(np.arange(10)), made.take(np.arange(10, len(made)))
    model = fit_first_impacts(learned, settings, seed=0)
    assert model.phi[CUBE_FAMILY.index("friction")] == pytest.approx(0.12, rel=0.15)
    assert model.phi[CUBE_FAMILY.index("inertia")] == pytest.approx(1.45, rel=0.1)
    post, covariance = model.predict(rest)
    assert np.median(relative_error(post, rest)) < 0.05
    assert np.median(relative_error(simulate_family_impacts(rest, family_prior()[None])[0], rest)) > 0.08
    deviation = np.sqrt(np.einsum("bii->bi", covariance))
    assert (np.abs(contact_frame(rest, rest.post - post)) < 3.0 * deviation).mean() > 0.9


def test_a_heavy_prior_wins_over_few_impacts(impacts):
    settings = FamilyConfig(evaluations=36, prior_weight=1e4)
    found = fit_first_impacts(impacts.take(np.arange(4)), settings, seed=0).phi
    assert np.allclose(found, family_prior(), rtol=0.1, atol=1e-9)


def test_two_impacts_are_too_few(impacts):
    with pytest.raises(BadInput, match="2 impacts; at least 3"):
        fit_first_impacts(impacts.take(np.arange(2)), FamilyConfig(), seed=0)


def test_the_contact_frame_keeps_the_energy(impacts):
    turned = contact_frame(impacts, impacts.pre)
    assert np.allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(impacts.pre * impacts.velocity_scale, axis=1))
    assert (turned[:, 0] < 0).mean() > 0.9


def test_fitting_whole_tosses_improves_on_the_prior(tosses):
    few = tosses.take(np.arange(4))
    settings = FamilyConfig(names=("friction", "damping_ratio", "inertia"), evaluations=13, prior_weight=0.0)
    found = fit_whole_tosses(few, SCALE, settings, seed=0)
    costs = [
        (e / (e + 0.1)).mean()
        for e in (whole_toss(CubeSimulator(phi=phi, scale=SCALE), few, SCALE).cost for phi in (found, family_prior()))
    ]
    assert costs[0] < costs[1]
    assert np.array_equal(found, fit_whole_tosses(few, SCALE, settings, seed=0))


# --- distributions ------------------------------------------------------------------------------------------


def test_the_mean_minimizes_the_expected_cost():
    rng = np.random.default_rng(0)
    members = generate_tosses(7, 10, noise=0.0).padded()[:, :40]
    members = np.repeat(members[:1], 9, axis=0) + 0.05 * rng.normal(size=(9, 40, 13))
    members[..., 3:7] /= np.linalg.norm(members[..., 3:7], axis=-1, keepdims=True)
    mean = mean_states(members)
    assert np.allclose(np.linalg.norm(mean[..., 3:7], axis=-1), 1.0)
    expected = pose_cost(mean[None], members).mean()
    assert all(expected < pose_cost(other[None], members).mean() for other in members)


def test_the_mean_of_orientations_ignores_their_sign():
    members = np.repeat(generate_tosses(7, 10, noise=0.0).padded()[:1, :5], 4, axis=0)
    members[1::2, :, 3:7] *= -1.0
    assert rotation_angle(mean_states(members)[:, 3:7], members[0, :, 3:7]).max() < 1e-6


def test_the_stochastic_cube_is_a_function_of_its_seed_and_the_mean_is_deterministic(tosses):
    simulator = stochastic(CubeSimulator(phi=family_prior(), scale=SCALE))
    start = tosses.initial_states
    once, again, other = (simulator.rollout(start, 40, seed) for seed in (1, 1, 2))
    assert np.array_equal(once, again)
    assert not np.allclose(once, other)
    mean = MeanToss(simulator=simulator, members=3)
    assert isinstance(mean, TossSimulator)
    played = mean.rollout(start, 40)
    assert np.array_equal(played, mean.rollout(start, 40))
    assert np.array_equal(played[:, 0], start)
