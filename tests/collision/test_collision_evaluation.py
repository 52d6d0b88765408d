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
    fit_closed_form,
    point_impulse_bound,
    predict_impacts,
    relative_error,
    summarize,
    tune_mujoco_cma,
    tune_mujoco_grid,
)
from dexprior.collision.baselines import simulate_with
from dexprior.collision.evaluation import paired_ratio
from dexprior.data.impacts import find_ellipse_impacts, load_ellipse_impacts
from dexprior.data.simulated_impacts import generate_impacts
from dexprior.errors import BadInput
from dexprior.stats import bootstrap_mean


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
    numbers = summarize(errors)
    assert numbers["acc_0.2"] == accuracy_curve(errors, np.array([0.2]))[0]
    low, high = numbers["intervals"]["acc_0.2"]
    assert low < numbers["acc_0.2"] < high


def test_errors_that_are_not_finite_are_refused():
    with pytest.raises(BadInput, match="1 of 3"):
        summarize(np.array([0.1, np.nan, 0.2]))


def test_grid_tuning_finds_parameters_that_are_on_the_grid():
    ranges = ContactRanges(friction=(0.1, 0.4), damping_ratio=(0.1, 0.4), time_constant=(0.001, 0.004))
    grid = GridConfig(friction=3, damping_ratio=3, time_constant=3)
    hidden = np.array([0.2, 0.2, 0.002, 1.0])  # the middle of the grid
    impacts = generate_impacts(0, 10)
    exact = dataclasses.replace(impacts, post=simulate_with(impacts, hidden))
    np.testing.assert_allclose(tune_mujoco_grid(exact, ranges, grid), hidden)


def test_cma_finds_a_world_of_its_own_family_better_than_a_coarse_grid():
    impacts = generate_impacts(0, 8)
    exact = dataclasses.replace(impacts, post=simulate_with(impacts, np.array([0.31, 0.17, 0.0011, 3.0])))
    coarse = tune_mujoco_grid(exact, ContactRanges(), GridConfig(friction=4, damping_ratio=4, time_constant=2))
    fine = tune_mujoco_cma(exact, ContactRanges(), CmaConfig(evaluations=250), seed=0)
    errors = [relative_error(simulate_with(exact, phi), exact).mean() for phi in (coarse, fine)]
    assert errors[1] < 0.5 * errors[0]
    again = tune_mujoco_cma(exact, ContactRanges(), CmaConfig(evaluations=250), seed=0, threads=2)
    np.testing.assert_array_equal(fine, again)


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
    numbers = summarize(relative_error(point_impulse_bound(impacts), impacts))
    assert numbers["n"] == 1418
    assert 0.02 < numbers["median"] < 0.05


def test_intervals_over_draws_hold_the_mean_and_shrink():
    rng = np.random.default_rng(0)
    few, many = rng.normal(0.3, 0.05, 5), rng.normal(0.3, 0.05, 80)
    for values in (few, many):
        _, low, high = bootstrap_mean(values)
        assert low < values.mean() < high
    assert np.diff(bootstrap_mean(many)[1:]) < np.diff(bootstrap_mean(few)[1:])
    ratio, (low, high) = paired_ratio(2.0 * many, many)
    assert ratio == pytest.approx(2.0)
    assert low == pytest.approx(2.0)
    assert high == pytest.approx(2.0)
    assert paired_ratio(many, np.zeros(80)) == (None, None)
