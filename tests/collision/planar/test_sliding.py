"""Slides in the plane: the laws of friction, and agreement with MuJoCo's own sliding."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.collision.planar import SlideConfig, friction_acceleration, slide_to_rest
from dexprior.errors import BadInput
from dexprior.worlds.pushing import GRAVITY, PushingConfig, simulate_sliding

SHAPES = ("semi_cylinder", "square", "triangle")


def velocities(n: int, seed: int = 0) -> np.ndarray:
    """Up to 1 m/s, evenly over the disc, and 10 rad/s."""
    rng = np.random.default_rng(seed)
    speed, angle = np.sqrt(rng.uniform(0.0, 1.0, n)), rng.uniform(0.0, 2.0 * np.pi, n)
    return np.stack([speed * np.cos(angle), speed * np.sin(angle), rng.uniform(-10.0, 10.0, n)], axis=1)


@pytest.fixture(params=SHAPES)
def config(request):
    return PushingConfig(shape=request.param)


def test_agrees_with_mujoco(config):
    v = velocities(100)
    ours, _ = slide_to_rest(config, np.zeros((100, 3)), v)
    mujoco, _, rested = simulate_sliding(config, np.zeros((100, 3)), v)
    assert rested.all()
    assert np.linalg.norm((ours - mujoco)[:, :2], axis=1).max() < 0.002
    assert np.rad2deg(np.abs(ours - mujoco)[:, 2].max()) < 1.0


def test_agrees_with_mujoco_at_other_frictions(config):
    v, friction = velocities(60, seed=1), np.linspace(0.12, 0.5, 60)
    torsion = np.linspace(0.0, 0.01, 60)
    ours, _ = slide_to_rest(config, np.zeros((60, 3)), v, friction=friction, torsional_friction=torsion)
    mujoco, _, _ = simulate_sliding(
        config, np.zeros((60, 3)), v, parameters={"table_friction": friction, "torsional_friction": torsion}
    )
    assert np.linalg.norm((ours - mujoco)[:, :2], axis=1).max() < 0.002
    assert np.rad2deg(np.abs(ours - mujoco)[:, 2].max()) < 1.5


def test_step_size_has_converged(config):
    v = velocities(200, seed=2)
    ours, seconds = slide_to_rest(config, np.zeros((200, 3)), v)
    fine, fine_seconds = slide_to_rest(config, np.zeros((200, 3)), v, slide=SlideConfig(share=0.02, steps=400))
    assert np.abs(ours - fine)[:, :2].max() < 2e-4
    assert np.rad2deg(np.abs(ours - fine)[:, 2].max()) < 0.2
    np.testing.assert_allclose(seconds, fine_seconds, rtol=0.02)


def test_without_spin_it_stops_where_coulomb_says(config):
    v = np.array([[0.7, 0.0, 0.0], [0.0, -0.4, 0.0]])
    final, seconds = slide_to_rest(config, np.zeros((2, 3)), v)
    np.testing.assert_allclose(final[:, :2], v[:, :2] * [[0.7], [0.4]] / (2 * 0.3 * GRAVITY), atol=1e-6)
    np.testing.assert_allclose(final[:, 2], 0.0, atol=1e-9)
    np.testing.assert_allclose(seconds, [0.7 / (0.3 * GRAVITY), 0.4 / (0.3 * GRAVITY)], rtol=1e-6)


@pytest.mark.parametrize("shape", ["square", "triangle"])
def test_pure_spin_decelerates_evenly(shape):
    config = PushingConfig(shape=shape)
    radius, k = np.linalg.norm(config.footprint.supports[0]), config.footprint.gyration
    a = friction_acceleration(config, np.zeros(1), np.array([[0.0, 0.0, 5.0]]), friction=0.3, torsional_friction=0.004)
    np.testing.assert_allclose(a, [[0, 0, -GRAVITY * np.hypot(0.3 * radius, 0.004) / k**2]], rtol=1e-9, atol=1e-9)


def test_friction_only_takes_energy(config):
    v, yaw = velocities(500, seed=3), np.random.default_rng(4).uniform(-3, 3, 500)
    a = friction_acceleration(config, yaw, v, friction=0.5, torsional_friction=0.002)
    k = config.footprint.gyration
    assert ((v * a * [1.0, 1.0, k**2]).sum(axis=1) < 0).all()
    assert (np.linalg.norm(a[:, :2], axis=1) <= 0.5 * GRAVITY * (1 + 1e-9)).all()


def test_moving_and_mirroring_the_world(config):
    v = velocities(50, seed=5)
    here, _ = slide_to_rest(config, np.zeros((50, 3)), v)
    c, s = np.cos(1.1), np.sin(1.1)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    there, _ = slide_to_rest(config, np.tile([0.4, -0.1, 1.1], (50, 1)), v @ turn.T)
    np.testing.assert_allclose(there, here @ turn.T + [0.4, -0.1, 1.1], atol=1e-9)
    flip = np.array([1.0, -1.0, -1.0])
    np.testing.assert_allclose(slide_to_rest(config, np.zeros((50, 3)), v * flip)[0], here * flip, atol=1e-9)


def test_a_body_at_rest_stays(config):
    pose = np.array([[0.1, 0.2, 0.3]])
    final, seconds = slide_to_rest(config, pose, np.zeros((1, 3)))
    np.testing.assert_array_equal(final, pose)
    assert seconds[0] == 0.0


def test_rows_do_not_know_each_other(config):
    v = velocities(20, seed=6)
    together, _ = slide_to_rest(config, np.zeros((20, 3)), v)
    alone, _ = slide_to_rest(config, np.zeros((1, 3)), v[7:8])
    np.testing.assert_allclose(together[7], alone[0], atol=1e-12)


def test_bad_input_is_named():
    config = PushingConfig()
    with pytest.raises(BadInput, match="must both be"):
        slide_to_rest(config, np.zeros((2, 3)), np.zeros((1, 3)))
    with pytest.raises(BadInput, match="not finite"):
        slide_to_rest(config, np.zeros((1, 3)), np.full((1, 3), np.nan))
    with pytest.raises(BadInput, match="tips over"):
        slide_to_rest(config, np.zeros((1, 3)), np.ones((1, 3)), friction=0.95)
    with pytest.raises(BadInput, match="torsional_friction"):
        slide_to_rest(config, np.zeros((1, 3)), np.ones((1, 3)), torsional_friction=-0.1)
    with pytest.raises(BadInput, match="friction has shape"):
        slide_to_rest(config, np.zeros((2, 3)), np.ones((2, 3)), friction=np.full(3, 0.3))
