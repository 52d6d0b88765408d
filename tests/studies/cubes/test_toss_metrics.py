"""Simulators, metrics and tuning of tosses, on generated ones."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.data.tosses import CUBE_PARAMETERS, CubeScale, generate_tosses
from dexprior.errors import BadInput, UnknownName
from dexprior.geometry.rotations import quat_from_axis_angle, quat_multiply
from dexprior.studies.cubes import (
    CmaConfig,
    MujocoTosses,
    NoisyStart,
    SimulationConfig,
    TossGridConfig,
    TossSimulator,
    bootstrap,
    corner_impact,
    coverage,
    ensemble,
    face_probability,
    face_up,
    first_impact_objective,
    first_impacts,
    fit_corner_impact,
    kernel_likelihood,
    paired_ratio,
    point_impulse_bound,
    pose_cost,
    relative_error,
    simulate_first_impacts,
    subtrajectories,
    subtrajectory_objective,
    tune_cma,
    tune_grid,
    whole_toss,
    whole_toss_objective,
)

PHI = (0.16, 0.35, 0.006, 4.0, 0.0, 0.0, 0.9, 0.95, 0.001)
SCALE = CubeScale(half_width=0.0509, gravity=9.53, table_height=-0.0004)
SETTINGS = SimulationConfig()


@pytest.fixture(scope="module")
def tosses():
    return generate_tosses(2, 20, phi=PHI, scale=SCALE, noise=0.0)


@pytest.fixture(scope="module")
def truth():
    return MujocoTosses(phi=np.array(PHI), scale=SCALE)


@pytest.fixture(scope="module")
def impacts():
    return first_impacts(generate_tosses(5, 80, phi=PHI, scale=SCALE, noise=0.0, substeps=64), SCALE)


class Frozen:
    """Stays where it is."""

    def rollout(self, initial_states, steps, seed):
        return np.repeat(initial_states[:, None], steps + 1, axis=1)


# --- whole tosses and sub-trajectories ----------------------------------------------------------------------


def test_the_simulator_that_made_the_tosses_plays_them_without_error(tosses, truth):
    errors = whole_toss(truth, tosses, SCALE)
    for name in ("cost", "final_cost", "position", "angle"):
        np.testing.assert_allclose(getattr(errors, name), 0.0, atol=1e-5)
    assert 0 < errors.penetration.mean() < 2.0


def test_the_cost_of_a_frame_is_its_definition(tosses):
    states = tosses.states[:5]
    moved = states.copy()
    moved[:, 0] += 0.02
    moved[:, 3:7] = quat_multiply(states[:, 3:7], quat_from_axis_angle(np.array([0.0, 0.3, 0.0])))
    np.testing.assert_allclose(pose_cost(moved, states), 0.02**2 / 0.0524 + 0.3**2)


def test_a_whole_toss_averages_its_own_frames_only(tosses):
    errors = whole_toss(Frozen(), tosses, SCALE)
    for k in range(3):
        rows = tosses.states[tosses.start[k] : tosses.start[k + 1]]
        cost = pose_cost(np.broadcast_to(rows[0], rows.shape), rows)
        apart = np.linalg.norm(rows[1:, :3] - rows[0, :3], axis=1)
        assert errors.cost[k] == pytest.approx(cost[1:].mean())
        assert errors.final_cost[k] == pytest.approx(cost[-1])
        assert errors.position[k] == pytest.approx(100 * apart.mean() / (2 * SCALE.half_width))
    np.testing.assert_allclose(errors.penetration, 0.0)


def test_subtrajectories_start_everywhere_and_average_per_toss(tosses):
    errors = subtrajectories(Frozen(), tosses, steps=80)
    np.testing.assert_array_equal(errors.count, tosses.lengths - 80)
    rows = tosses.states[tosses.start[1] : tosses.start[2]]
    by_hand = [np.linalg.norm(rows[k + 1 : k + 81, :3] - rows[k, :3], axis=1).mean() for k in range(len(rows) - 80)]
    assert errors.position[1] == pytest.approx(np.mean(by_hand))
    coarse = subtrajectories(Frozen(), tosses, steps=80, stride=10)
    np.testing.assert_array_equal(coarse.count, np.ceil((tosses.lengths - 80) / 10))
    with pytest.raises(BadInput, match="of 500 steps need longer tosses"):
        subtrajectories(Frozen(), tosses, steps=500)


def test_short_subtrajectories_are_easier(tosses):
    other = MujocoTosses(phi=np.array((0.3, 1.0, 0.01, *PHI[3:])), scale=SCALE)
    short, long = (subtrajectories(other, tosses, steps=n, stride=20) for n in (16, 80))
    assert short.position.mean() < long.position.mean()
    assert short.rotation.mean() < long.rotation.mean()


def test_a_simulator_that_breaks_the_protocol_is_one_clear_error(tosses):
    class Short(Frozen):
        def rollout(self, initial_states, steps, seed):
            return super().rollout(initial_states, steps - 1, seed)

    class Broken(Frozen):
        def rollout(self, initial_states, steps, seed):
            states = super().rollout(initial_states, steps, seed)
            states[3, 2, 0] = np.nan
            return states

    with pytest.raises(BadInput, match=r"Short.rollout returned .* expected"):
        whole_toss(Short(), tosses, SCALE)
    with pytest.raises(BadInput, match="not finite in 1 tosses"):
        whole_toss(Broken(), tosses, SCALE)
    assert isinstance(Frozen(), TossSimulator)
    with pytest.raises(BadInput, match=r"MujocoTosses.phi"):
        MujocoTosses(phi=np.ones(3), scale=SCALE)


# --- first impacts ------------------------------------------------------------------------------------------


def test_mujoco_s_first_impact_is_the_segmented_one(impacts):
    """Two ways to read the same impact: straight from the simulation, and from a flight fitted to frames."""
    errors = relative_error(simulate_first_impacts(impacts, np.array([PHI]), SETTINGS)[0], impacts)
    assert np.median(errors) < 0.03


def test_the_bound_is_below_every_point_impulse(impacts):
    bound = relative_error(point_impulse_bound(impacts), impacts)
    e, mu = fit_corner_impact(impacts)
    assert (bound <= relative_error(corner_impact(impacts, e, mu), impacts) + 1e-9).all()
    assert np.quantile(bound, 0.9) < 0.03  # a stiff contact is nearly one impulse at one point


def test_the_textbook_corner_keeps_its_laws(impacts):
    geometry = impacts.geometry
    before = np.einsum("bcd,bd->bc", geometry.jacobian, impacts.pre)
    for e, mu in ((0.0, 0.0), (0.4, 0.15), (0.4, 10.0)):
        post = corner_impact(impacts, e, mu)
        after = np.einsum("bcd,bd->bc", geometry.jacobian, post)
        np.testing.assert_allclose(after[:, 0], -e * before[:, 0], atol=1e-9)
        impulse = np.linalg.solve(geometry.delassus, (after - before)[..., None])[..., 0]
        assert (np.linalg.norm(impulse[:, 1:], axis=1) <= mu * impulse[:, 0] + 1e-9).all()
    np.testing.assert_allclose(after[:, 1:], 0.0, atol=1e-9)  # with so much friction it sticks


def test_the_textbook_fit_finds_what_made_the_impacts(impacts):
    import dataclasses

    made = dataclasses.replace(impacts, post=corner_impact(impacts, 0.35, 0.15))
    assert fit_corner_impact(made) == pytest.approx((0.35, 0.15), abs=0.01)


# --- tuning -------------------------------------------------------------------------------------------------


def test_a_grid_finds_its_best_point(tosses):
    objective = whole_toss_objective(tosses.take(np.arange(6)), SCALE, SETTINGS)
    phi, cost = tune_grid(
        objective,
        TossGridConfig(sizes={"friction": 3, "damping_ratio": 3}),
        start=dict(zip(CUBE_PARAMETERS, PHI)),
    )
    assert cost == pytest.approx(float(objective(phi[None])[0]))
    assert cost <= objective(np.array([(0.03, 0.1, *PHI[2:]), (1.0, 3.0, *PHI[2:])])).min() + 1e-12


def test_cma_gets_closer_to_the_hidden_parameters_and_is_a_function_of_the_seed(impacts):
    objective = first_impact_objective(impacts.take(np.arange(12)), SETTINGS)
    settings = CmaConfig(names=("friction", "damping_ratio", "time_constant"), evaluations=120, population=10)
    start = dict(zip(CUBE_PARAMETERS, (0.5, 1.0, 0.003, *PHI[3:])))
    phi, cost = tune_cma(objective, settings, seed=0, start=start)
    assert cost < 0.3 * float(objective(np.array([list(start.values())]))[0])
    assert phi[0] == pytest.approx(PHI[0], rel=0.15)
    again, _ = tune_cma(objective, settings, seed=0, start=start)
    np.testing.assert_array_equal(phi, again)


def test_objectives_are_lowest_at_the_truth(tosses, impacts):
    few = tosses.take(np.arange(4))
    phis = np.array([PHI, (0.3, *PHI[1:]), (PHI[0], 1.5, *PHI[2:])])
    for objective in (
        whole_toss_objective(few, SCALE, SETTINGS),
        whole_toss_objective(few, SCALE, SETTINGS, saturation=None),
        subtrajectory_objective(few, SCALE, SETTINGS, stride=15),
        first_impact_objective(impacts.take(np.arange(5)), SETTINGS),
    ):
        costs = objective(phis)
        assert costs.argmin() == 0


def test_unknown_parameters_are_named():
    with pytest.raises(UnknownName, match="slipperiness"):
        tune_cma(lambda phis: phis[:, 0], CmaConfig(names=("slipperiness",)), seed=0)
    with pytest.raises(UnknownName, match="slipperiness"):
        tune_grid(lambda phis: phis[:, 0], TossGridConfig(sizes={"slipperiness": 3}))
    with pytest.raises(BadInput, match="at least one value"):
        tune_grid(lambda phis: phis[:, 0], TossGridConfig(sizes={"friction": 0}))


# --- distributions and intervals ----------------------------------------------------------------------------


def test_faces_are_told_apart():
    s = np.sqrt(0.5)
    quats = {0: (s, 0, -s, 0), 1: (s, 0, s, 0), 2: (s, s, 0, 0), 3: (s, -s, 0, 0), 4: (1, 0, 0, 0), 5: (0, 1, 0, 0)}
    states = np.zeros((6, 13))
    states[:, 3:7] = list(quats.values())
    np.testing.assert_array_equal(face_up(states), list(quats))


def test_an_ensemble_s_face_probability_is_its_count(tosses):
    final = tosses.padded()[:4, -1]
    flipped = final.copy()
    flipped[:, 3:7] = quat_multiply(np.tile([0.0, 1.0, 0.0, 0.0], (4, 1)), final[:, 3:7])
    members = np.stack([final, final, final, flipped])
    np.testing.assert_allclose(face_probability(members, final), 3.5 / 7.0)
    np.testing.assert_allclose(face_probability(members, flipped), 1.5 / 7.0)


def test_the_kernel_density_integrates_to_one_in_the_plane():
    """With the orientation right, the planar part is a normal density over x and y."""
    bandwidth = 0.2
    member = np.zeros((1, 1, 13))
    member[..., 3] = 1.0
    ticks = np.linspace(-0.4, 0.4, 81)
    x, y = np.meshgrid(ticks, ticks)
    measured = np.zeros((x.size, 13))
    measured[:, 0], measured[:, 1], measured[:, 3] = x.ravel(), y.ravel(), 1.0
    density = np.exp(kernel_likelihood(np.repeat(member, x.size, axis=1), measured, bandwidth=bandwidth))
    over_rotation = (2 * np.pi * bandwidth**2) ** 1.5
    assert density.sum() * (ticks[1] - ticks[0]) ** 2 * over_rotation == pytest.approx(1.0, abs=1e-3)


def test_honest_ensembles_cover_what_they_say():
    rng = np.random.default_rng(0)
    members, measured = rng.normal(size=(200, 2000)), rng.normal(size=2000)
    assert coverage(members, measured, level=0.8) == pytest.approx(0.8, abs=0.03)
    assert coverage(0.5 * members, measured, level=0.8) < 0.6


def test_a_noisy_start_is_a_function_of_the_seed(tosses, truth):
    start = tosses.initial_states[:5]
    noisy = NoisyStart(simulator=truth)
    np.testing.assert_array_equal(noisy.rollout(start, 30, 1), noisy.rollout(start, 30, 1))
    members = ensemble(noisy, start, 30, members=4, seed=0)
    assert members.shape == (4, 5, 31, 13)
    spread = members[..., :3].std(axis=0).mean(axis=(0, 2))
    assert 0 < spread[0] < spread[-1]
    quiet = NoisyStart(simulator=truth, position=0.0, rotation=0.0, velocity=0.0, spin=0.0)
    np.testing.assert_allclose(quiet.rollout(start, 30, 3), truth.rollout(start, 30), atol=1e-9)


def test_intervals_resample_recordings_and_not_their_copies():
    rng = np.random.default_rng(1)
    values = rng.normal(1.0, 1.0, 30)
    copies, groups = np.tile(values, 4), np.tile(np.arange(30), 4)
    alone, grouped, naive = bootstrap(values), bootstrap(copies, groups=groups), bootstrap(copies)
    assert alone[0] == pytest.approx(grouped[0])
    width = [high - low for _, low, high in (alone, grouped, naive)]
    assert width[1] == pytest.approx(width[0], rel=0.1)
    assert width[2] < 0.65 * width[0]
    with pytest.raises(BadInput, match="no values"):
        bootstrap(np.zeros(0))


def test_crossed_intervals_know_that_draws_differ_too():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(50, 1)) + 2.0 * rng.normal(size=(1, 4))
    tosses, both = (bootstrap(values, lambda x, axis: x.mean(), crossed=crossed) for crossed in (False, True))
    assert both[0] == tosses[0]
    assert both[2] - both[1] > 1.5 * (tosses[2] - tosses[1])


def test_paired_ratios_see_a_common_factor_exactly():
    errors = np.random.default_rng(0).lognormal(size=50)
    for kind in ("mean", "median", "geometric"):
        assert paired_ratio(0.7 * errors, errors, kind=kind, draws=100) == pytest.approx((0.7, 0.7, 0.7))
    with pytest.raises(BadInput, match="choices: mean, median, geometric"):
        paired_ratio(errors, errors, kind="harmonic")
