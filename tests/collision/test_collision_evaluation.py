"""The metric and the baselines."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.collision import (
    CmaConfig,
    ContactRanges,
    GridConfig,
    RestitutionFriction,
    accuracy_curve,
    figures,
    fit_closed_form,
    point_impulse_bound,
    predict_impacts,
    relative_error,
    tune_mujoco_cma,
    tune_mujoco_grid,
)
from dexprior.collision.baselines import MUJOCO_PARAMETERS, mujoco_from_unit, simulate_with
from dexprior.collision.generator import GeneratorConfig
from dexprior.data.impacts import find_ellipse_impacts, load_ellipse_impacts
from dexprior.data.simulated_impacts import generate_impacts, simulate_impacts
from dexprior.errors import BadInput


def test_the_error_is_zero_for_the_truth_and_one_for_standstill():
    impacts = generate_impacts(0, 20)
    np.testing.assert_array_equal(relative_error(impacts.post, impacts), 0.0)
    np.testing.assert_allclose(relative_error(0 * impacts.post, impacts), 1.0)


def test_the_error_is_the_kinetic_energy_norm():
    impacts = generate_impacts(0, 20)
    inertia = np.linalg.inv(impacts.geometry.inverse_inertia)
    wrong = impacts.post - impacts.pre
    energy = [np.einsum("bi,bij,bj->b", v, inertia, v) for v in (wrong, impacts.post)]
    np.testing.assert_allclose(relative_error(impacts.pre, impacts), np.sqrt(energy[0] / energy[1]))


def test_no_contact_impulse_beats_the_bound_on_any_impact(wild, surrogate):
    impacts = generate_impacts(3, 100, noise=0.1)
    bound = relative_error(point_impulse_bound(impacts), impacts)
    for model, phi in ((wild, [0.4, 0.2, 0.002, 1.0, 0.0]), (surrogate, [0.2, 0.2, 0.002, 1.0, 0.0])):
        post, _ = predict_impacts(model, impacts, np.array(phi))
        assert (bound <= relative_error(post, impacts) + 1e-9).all()


def test_accuracy_grows_with_the_threshold_and_agrees_with_the_summary():
    errors = np.random.default_rng(0).exponential(0.2, 300)
    curve = accuracy_curve(errors, np.linspace(0, 5, 50))
    assert curve[0] == 0
    assert curve[-1] == 1
    assert (np.diff(curve) >= 0).all()
    (_, below, median) = figures(errors[:, None])[0]
    assert below == accuracy_curve(errors, np.array([0.2]))[0]
    assert median == np.median(errors)


def test_figures_leave_out_what_was_not_scored_and_refuse_what_diverged():
    """Each draw has its own scored impacts: NaN stands for the fitted ones, in all methods alike."""
    errors = np.random.default_rng(1).exponential(0.2, (3, 40, 2))
    errors[0, :5], errors[1, 7], errors[2, 20:] = np.nan, np.nan, np.nan
    for draw, found in zip(errors, figures(errors)):
        for method, (below, _, median) in zip(draw[~np.isnan(draw[:, 0])].T, found):
            assert below == np.mean(method < 0.1)
            assert median == pytest.approx(np.median(method))
    errors[0, 10, 1] = np.nan
    with pytest.raises(BadInput, match="not finite"):
        figures(errors)
    errors[0, 10, 1] = np.inf
    with pytest.raises(BadInput, match="not finite"):
        figures(errors)


def test_grid_tuning_finds_parameters_that_are_on_the_grid():
    ranges = ContactRanges(
        friction=(0.1, 0.4), damping_ratio=(0.1, 0.4), time_constant=(0.001, 0.004), impratio=(0.5, 4.5)
    )
    grid = GridConfig(friction=3, damping_ratio=3, time_constant=1, impratio=3)
    hidden = np.array([0.2, 0.2, 0.002, 1.5, 0.01])  # the middle of the grid
    impacts = generate_impacts(0, 10)
    exact = dataclasses.replace(impacts, post=simulate_with(impacts, hidden))
    np.testing.assert_allclose(tune_mujoco_grid(exact, ranges, grid, impedance=0.01), hidden)


def test_cma_finds_a_world_of_its_own_family_better_than_a_coarse_grid():
    impacts = generate_impacts(0, 8)
    exact = dataclasses.replace(impacts, post=simulate_with(impacts, np.array([0.31, 0.17, 0.0011, 3.0, 0.02])))
    small = GridConfig(friction=4, damping_ratio=4, time_constant=1, impratio=2)
    coarse = tune_mujoco_grid(exact, ContactRanges(), small, impedance=0.005)
    fine = tune_mujoco_cma(exact, ContactRanges(), CmaConfig(evaluations=250), seed=0)
    errors = [relative_error(simulate_with(exact, phi), exact).mean() for phi in (coarse, fine)]
    assert errors[1] < 0.5 * errors[0]
    again = tune_mujoco_cma(exact, ContactRanges(), CmaConfig(evaluations=250), seed=0, threads=2)
    np.testing.assert_array_equal(fine, again)


def test_tuned_mujoco_may_go_wherever_the_network_may():
    """No contact of the network's simulator is out of reach of its opponent, and neither is MuJoCo's default."""
    ranges, config = ContactRanges(), CmaConfig()
    for end in (-1.0, 1.0):
        found = mujoco_from_unit(ranges, config.impedance, np.full((1, len(MUJOCO_PARAMETERS)), end))[0]
        np.testing.assert_allclose(found[:-1], ranges.bounds[:-1, int(end > 0)])
    low, high = config.impedance
    assert low <= GeneratorConfig().impedance
    assert high >= 0.95


def test_a_held_back_impedance_costs_what_a_free_one_gains():
    """Impacts of a contact at a low impedance: a search that may not go there keeps an error, one that may does not."""
    impacts = generate_impacts(4, 10, phi=(0.2, 0.25, 8e-4, 2.0), impedance=0.005, noise=0.0)
    errors = []
    for impedance in ((0.9, 0.95), CmaConfig().impedance):
        phi = tune_mujoco_cma(impacts, ContactRanges(), CmaConfig(evaluations=250, impedance=impedance), seed=0)
        errors.append(relative_error(simulate_with(impacts, phi), impacts).mean())
    assert errors[1] < 0.4 * errors[0]


def test_the_impedance_of_each_row_is_its_own():
    impacts = generate_impacts(5, 3)
    phi = np.array([[0.2, 0.2, 0.001, 1.0, d] for d in (0.005, 0.2, 0.9)])
    together = simulate_with(impacts, phi)
    for k in range(3):
        post, _ = simulate_impacts(
            impacts.pre[k : k + 1],
            impacts.angle[k : k + 1],
            phi[k : k + 1, :4],
            semi_axes=impacts.ellipse,
            mass=impacts.mass,
            inertia=impacts.inertia,
            impedance=float(phi[k, 4]),
        )
        np.testing.assert_array_equal(post[0], together[k])


def test_the_closed_form_fit_finds_its_own_world():
    impacts = generate_impacts(0, 10)
    post, _ = predict_impacts(RestitutionFriction(), impacts, np.array([0.5, 0.2]))
    exact = dataclasses.replace(impacts, post=post)
    np.testing.assert_allclose(fit_closed_form(exact, GridConfig(closed_form=11)), [0.5, 0.2])


def test_the_measured_impacts_are_nearly_but_not_quite_point_impulses():
    path = find_ellipse_impacts()
    if path is None:
        pytest.skip("the measured ellipse impacts are not under $DEXPRIOR_DATA/impacts")
    impacts = load_ellipse_impacts(path)
    assert len(impacts) == 1418
    assert 0.02 < np.median(relative_error(point_impulse_bound(impacts), impacts)) < 0.05
