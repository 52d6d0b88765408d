"""The surrogate: physics that holds for any weights, and NumPy against torch."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from dexprior.artifacts import write_tensors
from dexprior.collision import (
    ContactRanges,
    IdentifyConfig,
    ResidualConfig,
    RestitutionFriction,
    Surrogate,
    contact_velocity,
    finetune,
    identify,
    predict_impacts,
)
from dexprior.collision.generator import best_impulse
from dexprior.collision.surrogate import _contact_features
from dexprior.data.simulated_impacts import generate_impacts
from dexprior.errors import ArtifactError, BadInput
from dexprior.extras import available
from dexprior.types import CollisionModel, ContactGeometry


@pytest.fixture
def contacts():
    """Two hundred approaching contacts of random seven-dof mechanisms: (pre, geometry, phi)."""
    rng = np.random.default_rng(0)
    n, dof = 200, 7
    root = rng.normal(size=(n, dof, dof))
    geometry = ContactGeometry(
        jacobian=rng.normal(size=(n, 2, dof)),
        inverse_inertia=root @ root.transpose(0, 2, 1) + 0.3 * np.eye(dof),
    )
    pre = rng.normal(size=(n, dof))
    pre *= -np.sign(contact_velocity(pre, geometry)[:, :1])  # turn the separating ones round
    phi = ContactRanges().from_unit(np, rng.uniform(-1.0, 1.0, (n, 5)))
    return pre, geometry, phi


def kinetic(velocity, geometry):
    return 0.5 * np.einsum("bi,bij,bj->b", velocity, np.linalg.inv(geometry.inverse_inertia), velocity)


def test_both_models_fulfil_the_interface(wild):
    assert isinstance(wild, CollisionModel)
    assert isinstance(RestitutionFriction(), CollisionModel)


def test_what_is_not_known_of_phi_widens_the_spread_by_its_first_order(wild, contacts):
    """Variances add: that of the model, and slope times covariance times slope, by differences on the unit scale."""
    pre, geometry, phi = contacts
    root = 0.01 * np.random.default_rng(1).normal(size=(5, 5))
    covariance, ranges, step = root @ root.T, wild.config.ranges, 1e-3
    approach = contact_velocity(pre, geometry)
    unit = ranges.to_unit(np, phi)
    moved = [ranges.from_unit(np, unit + step * row) for row in np.eye(5)]
    at = wild._network(_contact_features(np, approach, geometry.delassus), phi)
    slope = np.stack([wild._network(_contact_features(np, approach, geometry.delassus), m) - at for m in moved]) / step
    added = np.einsum("pnc,pq,qnc->nc", slope, covariance, slope)
    _, known = wild.impulse(pre, geometry, phi)
    _, unsure = dataclasses.replace(wild, phi_covariance=covariance).impulse(pre, geometry, phi)
    np.testing.assert_allclose(unsure**2 - known**2, added, rtol=1e-6, atol=1e-12)
    assert (added.max(axis=1) > 0).mean() > 0.9


def test_numpy_equals_torch(wild, contacts):
    pre, geometry, phi = contacts
    approach, delassus = contact_velocity(pre, geometry), geometry.delassus
    network = wild.network().double()
    simulated = wild.config.ranges.at_speed(np, phi, -approach[:, 0])
    with torch.no_grad():
        impulse = network(*(torch.as_tensor(np.array(x)) for x in (approach, delassus, simulated)))
    unit = -approach[:, :1] / delassus[:, 0, :1]
    post, _ = wild.predict(pre, geometry, phi)
    np.testing.assert_allclose(best_impulse(post - pre, geometry) / unit, impulse.numpy(), atol=1e-6)


def test_one_impact_a_few_and_many_are_answered_alike(wild, contacts):
    """Three code paths: the scalar kernel, one batch, and batches in chunks."""
    pre, geometry, phi = contacts
    expected, _ = wild.predict(pre, geometry, phi)
    models = [wild, wild.compiled()] if available("numba") else [wild]
    for model in models:
        for k in range(5):
            one = ContactGeometry(
                jacobian=geometry.jacobian[k : k + 1], inverse_inertia=geometry.inverse_inertia[k : k + 1]
            )
            alone, _ = model.predict(pre[k : k + 1], one, phi[k : k + 1])
            np.testing.assert_allclose(alone[0], expected[k], rtol=1e-9, atol=1e-9)
    many = ContactGeometry(
        jacobian=np.tile(geometry.jacobian, (6, 1, 1)), inverse_inertia=np.tile(geometry.inverse_inertia, (6, 1, 1))
    )
    chunked, _ = wild.predict(np.tile(pre, (6, 1)), many, np.tile(phi, (6, 1)))
    np.testing.assert_allclose(chunked, np.tile(expected, (6, 1)), rtol=1e-9, atol=1e-9)


def test_any_weights_obey_momentum_friction_and_energy(wild, contacts):
    pre, geometry, phi = contacts
    post, std = wild.predict(pre, geometry, phi)
    impulse = best_impulse(post - pre, geometry)
    explained = np.einsum("bde,bce,bc->bd", geometry.inverse_inertia, geometry.jacobian, impulse)
    np.testing.assert_allclose(post - pre, explained, atol=1e-9)  # nothing but an impulse at the contact
    assert (impulse[:, 0] >= 0).all()
    assert (np.abs(impulse[:, 1]) <= phi[:, 0] * impulse[:, 0] * (1 + 1e-6) + 1e-12).all()
    assert (kinetic(post, geometry) <= kinetic(pre, geometry) * (1 + 1e-9)).all()
    assert (std >= 0).all()


def test_where_the_energy_bound_is_far_the_contact_separates_however_it_is_coupled(surrogate, contacts):
    """p_n A_nn + p_t A_tn = (1 + e) |u_n|, e >= 0: where friction drives the contact on, its impulse is larger."""
    pre, geometry, phi = contacts
    approach, delassus = contact_velocity(pre, geometry), geometry.delassus
    coupling = delassus[:, 0, 1] / delassus[:, 0, 0]
    post, _ = surrogate.predict(pre, geometry, phi)
    rebound = contact_velocity(post, geometry)[:, 0] / -approach[:, 0]
    impulse = best_impulse(post - pre, geometry)
    ratio = impulse[:, 1] / np.maximum(impulse[:, 0], 1e-12)
    inside = (kinetic(post, geometry) < kinetic(pre, geometry) * (1 - 1e-6)) & (1.0 + ratio * coupling > 0.25)
    assert (inside & (np.abs(ratio * coupling) > 0.1)).sum() > 20
    assert (rebound[inside] >= -1e-9).all()


def test_friction_that_drives_the_contact_on_needs_more_impulse_to_stop_it(surrogate):
    """The same sliding on two mechanisms that differ in the sign of A_tn alone, against the textbook's impulses."""
    mu, n = 0.3, 2
    geometry = ContactGeometry(
        jacobian=np.tile(np.eye(2), (n, 1, 1)),
        inverse_inertia=np.array([[[1.0, c], [c, 1.5]] for c in (-0.5, 0.5)]),
    )
    pre = np.tile([-1.0, 2.0], (n, 1))  # slides on throughout: friction is -mu p_n
    post, _ = surrogate.predict(pre, geometry, np.tile([mu, 0.3, 0.0008, 1.0, 0.0], (n, 1)))
    normal = best_impulse(post - pre, geometry)[:, 0]
    expected, _ = RestitutionFriction().predict(pre, geometry, np.tile([0.4, mu], (n, 1)))
    textbook = best_impulse(expected - pre, geometry)[:, 0]
    assert normal[1] > normal[0]
    assert normal[1] / normal[0] == pytest.approx(textbook[1] / textbook[0], rel=0.15)


def test_mirroring_the_tangent_changes_nothing(wild, contacts):
    pre, geometry, phi = contacts
    mirrored = ContactGeometry(
        jacobian=geometry.jacobian * np.array([[1.0], [-1.0]]), inverse_inertia=geometry.inverse_inertia
    )
    np.testing.assert_allclose(wild.predict(pre, mirrored, phi)[0], wild.predict(pre, geometry, phi)[0], atol=1e-9)


def test_heavier_bodies_of_the_same_shape_collide_alike(wild, contacts):
    pre, geometry, phi = contacts
    heavier = ContactGeometry(jacobian=geometry.jacobian, inverse_inertia=geometry.inverse_inertia / 100.0)
    np.testing.assert_allclose(wild.predict(pre, heavier, phi)[0], wild.predict(pre, geometry, phi)[0], atol=1e-9)


def test_a_change_of_coordinates_changes_nothing(wild, contacts):
    """v = T w: the same mechanism in other generalised velocities collides the same way."""
    pre, geometry, phi = contacts
    transform = np.random.default_rng(1).normal(size=(7, 7)) + 3 * np.eye(7)
    inverse = np.linalg.inv(transform)
    other = ContactGeometry(
        jacobian=geometry.jacobian @ transform,
        inverse_inertia=inverse @ geometry.inverse_inertia @ inverse.T,
    )
    post, _ = wild.predict(pre @ inverse.T, other, phi)
    np.testing.assert_allclose(post @ transform.T, wild.predict(pre, geometry, phi)[0], atol=1e-7)


def test_a_separating_contact_is_left_alone(wild, contacts):
    pre, geometry, phi = contacts
    post, std = wild.predict(-pre, geometry, phi)
    np.testing.assert_array_equal(post, -pre)
    np.testing.assert_array_equal(std, 0.0)


def test_a_trained_model_separates_and_knows_where_it_was_trained(surrogate, pairs):
    n = 500
    geometry = ContactGeometry(jacobian=np.tile(np.eye(2), (n, 1, 1)), inverse_inertia=pairs.delassus[:n])
    pre, phi = pairs.approach[:n], np.hstack([pairs.phi[:n], np.zeros((n, 1))])
    post, _ = surrogate.predict(pre, geometry, phi)
    assert (post[:, 0] >= -1e-6).mean() > 0.99
    assert surrogate.inside(pre, geometry, phi).all()
    assert not surrogate.inside(-pre, geometry, phi).any()
    assert not surrogate.inside(pre * 100.0, geometry, phi).any()
    assert not surrogate.inside(pre, geometry, phi * [100.0, 1.0, 1.0, 1.0, 1.0]).any()


def test_saving_and_loading_keeps_every_prediction(surrogate, tmp_path):
    impacts = generate_impacts(0, 40)
    fit, rest = impacts.split(10, seed=0)
    named = finetune(surrogate, fit, identify(surrogate, fit, IdentifyConfig(), ResidualConfig()), ResidualConfig())
    loaded = Surrogate.load(named.save(tmp_path / "model.safetensors", producer="test", seed=0))
    np.testing.assert_array_equal(loaded.phi, named.phi)
    np.testing.assert_array_equal(loaded.seen, named.seen)
    for before, after in zip(predict_impacts(named, rest, named.phi), predict_impacts(loaded, rest, named.phi)):
        np.testing.assert_array_equal(before, after)


def test_a_truncated_or_foreign_model_file_is_refused(surrogate, tmp_path):
    path = surrogate.save(tmp_path / "model.safetensors", producer="test", seed=0)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ArtifactError, match="truncated"):
        Surrogate.load(path)
    foreign = write_tensors(tmp_path / "other.safetensors", {"x": np.zeros(2)}, {"config": {}})
    with pytest.raises(ArtifactError, match="no dexprior header"):
        Surrogate.load(foreign)


@pytest.mark.parametrize("phi", [np.ones((200, 2)), np.ones(5), np.zeros((200, 5))])
def test_parameters_of_the_wrong_shape_or_sign_are_refused(wild, contacts, phi):
    with pytest.raises(BadInput, match="friction, damping_ratio, time_constant"):
        wild.predict(contacts[0], contacts[1], phi)


# --- the closed form ------------------------------------------------------------------------------


def test_without_friction_the_restitution_is_newtons(contacts):
    pre, geometry, _ = contacts
    post, _ = RestitutionFriction().predict(pre, geometry, np.tile([0.4, 0.0], (len(pre), 1)))
    before, after = contact_velocity(pre, geometry)[:, 0], contact_velocity(post, geometry)[:, 0]
    np.testing.assert_allclose(after, -0.4 * before, atol=1e-9)
    elastic, _ = RestitutionFriction().predict(pre, geometry, np.tile([1.0, 0.0], (len(pre), 1)))
    np.testing.assert_allclose(kinetic(elastic, geometry), kinetic(pre, geometry))


def test_endless_friction_stops_the_sliding_of_a_ball():
    """Without coupling between normal and tangent; with it, a contact can jam instead."""
    pre = np.random.default_rng(0).normal(size=(50, 2)) * [1.0, 3.0]
    pre[:, 0] = -np.abs(pre[:, 0])
    geometry = ContactGeometry(
        jacobian=np.tile(np.eye(2), (50, 1, 1)), inverse_inertia=np.tile(np.diag([2.0, 7.0]), (50, 1, 1))
    )
    post, _ = RestitutionFriction().predict(pre, geometry, np.tile([0.4, 1e6], (50, 1)))
    np.testing.assert_allclose(post, pre * [-0.4, 0.0], atol=1e-12)


def test_the_closed_form_refuses_other_parameters(contacts):
    with pytest.raises(BadInput, match="restitution, friction"):
        RestitutionFriction().predict(contacts[0], contacts[1], contacts[2])
