"""Strikes answered by a collision model: two-body mechanics, and agreement with MuJoCo."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.collision.closed_form import RestitutionFriction
from dexprior.collision.planar import PlanarStriker, object_velocity, strike_contact
from dexprior.errors import BadInput
from dexprior.worlds.pushing import PushingConfig, Strikes, impact_points, simulate_strikes

SHAPES = ("semi_cylinder", "square", "triangle")


def strikes_on(config: PushingConfig, n: int) -> tuple[np.ndarray, Strikes]:
    rng = np.random.default_rng(0)
    low, high = config.alpha_range
    strikes = Strikes(alpha=rng.uniform(low, high, n), speed=rng.uniform(0.2, 1.0, n), beta=rng.uniform(-0.5, 0.5, n))
    return rng.uniform(-1.0, 1.0, (n, 3)), strikes


@pytest.fixture(params=SHAPES)
def config(request):
    return PushingConfig(shape=request.param)


def test_an_impulse_moves_object_and_rod_as_newton_says(config):
    pose, strikes = strikes_on(config, 30)
    before, geometry = strike_contact(config, pose, strikes)
    impulse = np.random.default_rng(1).normal(size=(30, 2))  # normal, tangent
    after = before + np.einsum("nij,ncj,nc->ni", geometry.inverse_inertia, geometry.jacobian, impulse)
    v = object_velocity(config, before, after)

    normal, tangent = geometry.jacobian[:, 0, :2], geometry.jacobian[:, 1, :2]
    force = impulse[:, :1] * normal + impulse[:, 1:] * tangent
    point, _ = impact_points(config, strikes.alpha)
    c, s = np.cos(pose[:, 2]), np.sin(pose[:, 2])
    arm = np.stack([c * point[:, 0] - s * point[:, 1], s * point[:, 0] + c * point[:, 1]], axis=1)
    torque = arm[:, 0] * force[:, 1] - arm[:, 1] * force[:, 0]
    np.testing.assert_allclose(v, np.column_stack([force / config.mass, torque / config.inertia]), atol=1e-9)
    rod_gain = v[:, :2] - (after - before)[:, :2]  # relative = object - rod
    np.testing.assert_allclose(rod_gain, -force / config.rod_mass, atol=1e-9)


def test_every_strike_approaches(config):
    pose, strikes = strikes_on(config, 100)
    before, geometry = strike_contact(config, pose, strikes)
    assert (np.einsum("nj,nj->n", geometry.jacobian[:, 0], before) < 0).all()


def test_final_poses_agree_with_mujoco_for_a_fitted_model(config):
    pose, strikes = strikes_on(config, 60)
    truth = simulate_strikes(config, pose, strikes)
    planar = PlanarStriker(config=config, model=RestitutionFriction(), phi=np.array([0.455, 0.207]))
    scale = np.array([1.0, 1.0, config.footprint.gyration])
    velocity = planar.velocity_after(pose, strikes)
    error = np.linalg.norm((velocity - truth.velocity) * scale, axis=1)
    assert np.median(error / np.linalg.norm(truth.velocity * scale, axis=1)) < 0.06
    assert np.median(np.linalg.norm((planar(pose, strikes) - truth.final_pose)[:, :2], axis=1)) < 0.004


def test_a_heavier_rod_strikes_harder(config):
    pose, strikes = strikes_on(config, 20)
    speed = []
    for rod_mass in (0.5, 1.5, 50.0):
        heavier = dataclasses.replace(config, rod_mass=rod_mass)
        striker = PlanarStriker(config=heavier, model=RestitutionFriction(), phi=np.array([0.5, 0.2]))
        speed.append(np.linalg.norm(striker.velocity_after(pose, strikes)[:, :2], axis=1))
    assert (speed[0] < speed[1]).all()
    assert (speed[1] < speed[2]).all()


def test_models_that_do_not_fit_are_refused():
    config = PushingConfig()
    with pytest.raises(BadInput, match="restitution, friction"):
        PlanarStriker(config=config, model=RestitutionFriction(), phi=np.zeros(3))
