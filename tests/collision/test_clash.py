"""The published recipe on an ellipse: what its network sees, and that it finds what made the impacts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.collision.clash import (
    TUNED_CLASH,
    ClashConfig,
    StateFeatures,
    ellipse_features,
    ellipse_measured,
    simulate_ellipse_pairs,
    train_clash,
)
from dexprior.collision.evaluation import relative_error
from dexprior.data.impacts import PlanarImpacts
from dexprior.data.simulated_impacts import generate_impacts
from dexprior.errors import BadInput

SMALL = ClashConfig(pairs=4000, batch=256, pretrain_steps=800)
HIDDEN = (0.3, 0.8)  # friction, damping ratio; away from the middle of the ranges, where a search starts


@pytest.fixture(scope="module")
def pretrained():
    simulated, _ = simulate_ellipse_pairs(SMALL, generate_impacts(0, 4), seed=0)
    return train_clash(SMALL, simulated, seed=0)


def _impacts(seed: int, n: int) -> PlanarImpacts:
    return generate_impacts(seed, n, phi=(*HIDDEN, SMALL.time_constant, 1.0), noise=0.0)


def _error(model, impacts: PlanarImpacts) -> float:
    post = model.predict(ellipse_features(impacts)) / np.array([1.0, 1.0, impacts.gyration])
    return float(np.median(relative_error(post, impacts)))


def _aimed(impacts: PlanarImpacts, turn: float, speed: float) -> PlanarImpacts:
    """The same starts with the velocity turned from the contact point by `turn`, counter-clockwise."""
    r = np.stack([impacts.normal_row[:, 2], -impacts.tangent_row[:, 2]], axis=1)
    towards = speed * r / np.linalg.norm(r, axis=1, keepdims=True)
    c, s = np.cos(turn), np.sin(turn)
    return dataclasses.replace(impacts, pre=np.column_stack([towards @ np.array([[c, s], [-s, c]]), impacts.pre[:, 2]]))


@pytest.mark.parametrize("turn", [-0.4, 0.0, 0.7])
def test_the_deflection_is_the_angle_from_the_contact_point_to_the_velocity(turn):
    """Both deflections turn the same way, so that together they are the heading of the velocity."""
    impacts = _aimed(generate_impacts(1, 30), turn, 2.0)
    speed, towards, _, deflection, _ = ellipse_features(impacts).T
    np.testing.assert_allclose(deflection, turn, atol=1e-12)
    np.testing.assert_allclose(speed, 2.0)
    heading = towards + deflection
    np.testing.assert_allclose(2.0 * np.stack([np.sin(heading), -np.cos(heading)], axis=1), impacts.pre[:, :2])


def test_a_mirrored_impact_has_the_opposite_deflections_and_spin():
    impacts = generate_impacts(2, 30)
    mirror = np.array([-1.0, 1.0, -1.0])
    mirrored = dataclasses.replace(
        impacts,
        pre=impacts.pre * mirror,
        normal_row=impacts.normal_row * [1.0, 1.0, -1.0],
    )
    expected = ellipse_features(impacts) * [1.0, -1.0, 1.0, -1.0, -1.0]
    np.testing.assert_allclose(ellipse_features(mirrored), expected, atol=1e-12)


def test_identification_finds_the_damping_that_made_the_impacts_and_predicts_others(pretrained):
    """Friction is hardly told by strongly damped impacts; the damping ratio is."""
    model = pretrained.clone()
    before = dict(model.parameters)
    model.identify(ellipse_measured(_impacts(3, 12)))
    assert abs(model.parameters["damping_ratio"] - HIDDEN[1]) < 0.3 * abs(before["damping_ratio"] - HIDDEN[1])
    others = _impacts(4, 100)
    assert _error(model, others) < 0.8 * _error(pretrained, others)
    assert pretrained.parameters == before  # a copy was fitted


def test_a_parameter_that_is_known_otherwise_stays(pretrained):
    model = pretrained.clone()
    model.identify(ellipse_measured(_impacts(3, 12)), fixed={"friction": 0.31})
    assert model.parameters["friction"] == pytest.approx(0.31)
    assert model.parameters["damping_ratio"] > pretrained.parameters["damping_ratio"]


def test_fine_tuning_fits_the_measured_impacts_and_a_smaller_rate_moves_less(pretrained):
    impacts = _impacts(5, 10)
    measured, moved = ellipse_measured(impacts), []
    for rate in (1e-3, 1e-5):
        model = pretrained.clone()
        model.config = dataclasses.replace(SMALL, finetune_rate=rate)
        model.finetune(measured)
        moved.append(np.abs(model.predict(measured.state) - pretrained.predict(measured.state)).max())
        assert _error(model, impacts) < _error(pretrained, impacts)
    assert moved[1] < 0.1 * moved[0]


def test_the_tuned_recipe_simulates_the_contact_of_impacts_at_a_low_impedance():
    """Pairs made at the impedance of the impacts predict them, others do not."""
    like = generate_impacts(0, 4)
    truth = (0.3, 0.3, TUNED_CLASH.time_constant, TUNED_CLASH.impratio)
    impacts = generate_impacts(6, 200, phi=truth, impedance=TUNED_CLASH.impedance, noise=0.0)
    errors = {}
    for name, config in (("published", SMALL), ("tuned", dataclasses.replace(TUNED_CLASH, pairs=4000, batch=256))):
        narrow = dataclasses.replace(config, friction=(0.29, 0.31), damping_ratio=(0.29, 0.31), pretrain_steps=800)
        simulated, _ = simulate_ellipse_pairs(narrow, like, seed=0)
        errors[name] = _error(train_clash(narrow, simulated, seed=0), impacts)
    assert errors["tuned"] < 0.6 * errors["published"]


def test_pairs_without_parameters_are_refused():
    bare = StateFeatures(state=np.zeros((3, 5)), parameters=None, after=np.zeros((3, 3)))
    with pytest.raises(BadInput, match="simulated pairs need the parameters"):
        train_clash(SMALL, bare, seed=0)
