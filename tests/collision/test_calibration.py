"""Identification, what is flagged, and the residual: a known answer is found, and ignorance is admitted."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.collision import (
    IdentifyConfig,
    ImpulseResidual,
    ResidualConfig,
    finetune,
    identify,
    predict_impacts,
    relative_error,
    score_distribution,
)
from dexprior.data.simulated_impacts import generate_impacts
from dexprior.errors import BadInput

QUIET = ResidualConfig(amplitude=0.01, linear=0.001, bias=0.001, noise=0.005)


@pytest.fixture(scope="module")
def own_world(surrogate):
    """Impacts of a world that the surrogate describes exactly, and its contact parameters."""
    phi = np.array([0.2, 0.3, 0.001, 2.0, 0.0])
    impacts = generate_impacts(0, 40)
    return dataclasses.replace(impacts, post=predict_impacts(surrogate, impacts, phi)[0]), phi


@pytest.fixture(scope="module")
def bouncier(own_world):
    """A world that the family cannot describe: all impulses are 25 % larger."""
    impacts, _ = own_world
    return dataclasses.replace(impacts, post=impacts.pre + 1.25 * (impacts.post - impacts.pre))


def test_identification_finds_a_world_that_the_network_describes(surrogate, own_world):
    impacts, phi = own_world
    found = identify(surrogate, impacts, IdentifyConfig(), QUIET)
    assert relative_error(predict_impacts(surrogate, impacts, found.phi)[0], impacts).mean() < 0.02
    assert found.phi[0] == pytest.approx(phi[0], rel=0.1)  # friction shows in every impact that slips
    low, high = found.interval.T
    assert (low <= found.phi).all()
    assert (found.phi <= high).all()


def test_what_impacts_of_one_speed_cannot_tell_is_flagged(surrogate, own_world):
    impacts, _ = own_world
    found = identify(surrogate, impacts, IdentifyConfig(), ResidualConfig())
    named = found.as_dict()
    assert named["friction"]["identifiable"]
    assert named["damping_ratio"]["identifiable"]
    assert not named["damping_exponent"]["identifiable"]  # all approach at 2.2 to 3 m/s
    few = identify(surrogate, impacts.take(np.arange(3)), IdentifyConfig(), ResidualConfig())
    assert (np.diag(few.covariance) >= np.diag(found.covariance) * (1 - 1e-6)).all()
    assert few.interval[0, 1] / few.interval[0, 0] > 1.5 * found.interval[0, 1] / found.interval[0, 0]  # friction


def test_finetuning_a_perfect_model_changes_next_to_nothing(surrogate, own_world):
    impacts, _ = own_world
    fit, rest = impacts.split(10, seed=0)
    found = identify(surrogate, fit, IdentifyConfig(), QUIET)
    tuned = finetune(surrogate, fit, found, QUIET)
    before, after = (predict_impacts(m, rest, found.phi)[0] for m in (surrogate, tuned))
    assert relative_error(after, dataclasses.replace(rest, post=before)).mean() < 0.01


@pytest.mark.parametrize("n_fit", [10, 30])
def test_finetuning_learns_what_the_family_cannot_say(surrogate, bouncier, n_fit):
    fit, rest = bouncier.split(n_fit, seed=0)
    found = identify(surrogate, fit, IdentifyConfig(), ResidualConfig())
    tuned = finetune(surrogate, fit, found, ResidualConfig())
    before, after = (relative_error(predict_impacts(m, rest, found.phi)[0], rest).mean() for m in (surrogate, tuned))
    assert after < 0.85 * before


def test_the_spread_covers_noise_that_was_added(surrogate, own_world):
    impacts, _ = own_world
    noisy = dataclasses.replace(
        impacts, post=impacts.post + np.random.default_rng(0).normal(0, 0.15, (40, 3)) * [1, 1, 0]
    )
    fit, rest = noisy.split(20, seed=0)
    tuned = finetune(surrogate, fit, identify(surrogate, fit, IdentifyConfig(), ResidualConfig()), ResidualConfig())
    scores = score_distribution(tuned, rest, tuned.phi)
    assert 0.7 < scores["coverage_90"] < 1.0
    assert scores["coverage_50"] < scores["coverage_90"]


def test_impacts_without_a_context_use_the_residual_that_needs_none(surrogate, bouncier):
    fit, rest = bouncier.split(10, seed=0)
    tuned = finetune(surrogate, fit, identify(surrogate, fit, IdentifyConfig(), ResidualConfig()), ResidualConfig())
    bare = dataclasses.replace(rest.geometry, context=None)
    rows = np.tile(tuned.phi, (len(rest), 1))
    without, _ = tuned.predict(rest.pre, bare, rows)
    untuned, _ = surrogate.predict(rest.pre, bare, rows)
    assert relative_error(without, rest).mean() < relative_error(untuned, rest).mean()


def test_too_few_measured_impacts_are_refused(surrogate, own_world):
    two = own_world[0].take(np.arange(2))
    with pytest.raises(BadInput, match="at least 3"):
        identify(surrogate, two, IdentifyConfig(), ResidualConfig())
    enough = identify(surrogate, own_world[0], IdentifyConfig(), ResidualConfig())
    with pytest.raises(BadInput, match="at least 3"):
        finetune(surrogate, two, enough, ResidualConfig())


# --- the Gaussian process itself ---


def test_left_out_errors_are_those_of_refitting_without_the_sample():
    rng = np.random.default_rng(1)
    inputs, missed = rng.normal(size=(12, 4)), rng.normal(scale=0.05, size=(12, 2))
    model = ImpulseResidual.prior(inputs, ResidualConfig()).conditioned(missed)
    rest = np.arange(1, 12)
    fold = dataclasses.replace(model, inputs=model.inputs[rest], unreliable=model.unreliable[:, rest])
    fold = fold.conditioned(missed[rest])
    mean, std = fold.predict(inputs[:1])
    np.testing.assert_allclose(model.left_out(missed)[0], ((missed[:1] - mean) / std)[0], rtol=1e-6)


def test_far_from_all_samples_the_spread_is_the_priors_and_near_them_the_noise():
    rng = np.random.default_rng(2)
    inputs, missed = rng.normal(size=(60, 3)), np.zeros((60, 2))
    config = ResidualConfig(linear=1e-4)
    model = ImpulseResidual.prior(inputs, config).conditioned(missed)
    _, near = model.predict(np.zeros((1, 3)))
    _, far = model.predict(np.full((1, 3), 30.0))
    assert config.noise < near[0, 0] < 1.2 * config.noise
    assert far[0, 0] == pytest.approx(np.hypot(config.amplitude, config.noise), rel=0.1)


def test_impacts_that_scatter_far_more_than_the_others_do_not_pull_the_mean():
    rng = np.random.default_rng(4)
    inputs = rng.normal(size=(120, 3))
    true = np.stack([0.1 * np.sin(2 * inputs[:, 0]), 0.05 * inputs[:, 1]], axis=1)
    missed = true + rng.normal(scale=0.01, size=true.shape)
    wild = rng.choice(120, size=12, replace=False)
    missed[wild] += rng.choice([-0.3, 0.3], size=(12, 2))
    found = {}
    for name, config in {"tails": ResidualConfig(), "normal": ResidualConfig(reweightings=0)}.items():
        found[name] = ImpulseResidual.prior(inputs, config).fitted(missed, config)
    error = {name: np.abs(model.predict(inputs)[0] - true).mean() for name, model in found.items()}
    assert error["tails"] < 0.6 * error["normal"]
    unreliable = found["tails"].unreliable
    assert unreliable[:, wild].min() > 2.0
    assert np.median(unreliable[:, wild]) > 5.0
    assert np.median(unreliable) < 1.2
    np.testing.assert_array_equal(found["normal"].unreliable, 1.0)


def test_the_evidence_prefers_the_noise_that_was_there():
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(150, 3))
    missed = np.stack([0.1 * np.sin(2 * inputs[:, 0]), np.zeros(150)], axis=1) + rng.normal(scale=0.01, size=(150, 2))
    start = ImpulseResidual.prior(inputs, ResidualConfig())
    model = start.conditioned(missed).fitted(missed, ResidualConfig())
    np.testing.assert_allclose(model.noise, 0.01, rtol=0.4)
    assert model.length_scales[0, 0] < 0.5 * model.length_scales[0, 1:].min()
