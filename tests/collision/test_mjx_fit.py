"""Fitting through MJX: it is MuJoCo, its derivatives are right, and it finds parameters that it was not told."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior import extras
from dexprior.collision.parameters import ContactRanges
from dexprior.data.simulated_impacts import generate_impacts, simulate_impacts
from dexprior.errors import MissingExtra

PHI = (0.25, 0.3, 0.001, 1.5, 0.02)


def test_without_mjx_the_message_says_what_to_install(monkeypatch):
    from dexprior.collision.mjx_fit import MjxConfig, _simulator, tune_mujoco_mjx

    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda name: None)
    _simulator.cache_clear()
    with pytest.raises(MissingExtra, match=r"dexprior\[mjx\]"):
        tune_mujoco_mjx(generate_impacts(0, 3), ContactRanges(), MjxConfig(), impedance=(0.005, 0.95), seed=0)


@pytest.mark.slow
def test_mjx_agrees_with_mujoco_and_with_its_own_differences_and_finds_hidden_parameters():
    """One test for three laws, since compiling takes most of a minute."""
    pytest.importorskip("jax")
    pytest.importorskip("mujoco.mjx")
    from dexprior.collision.mjx_fit import MjxConfig, _simulator, tune_mujoco_mjx

    impacts = generate_impacts(0, 10, phi=PHI[:4], impedance=PHI[4], noise=0.0)
    simulate = _simulator(impacts.semi_axes, impacts.mass, impacts.inertia, 120)
    phi = np.array(PHI)
    post, slope = simulate(phi, impacts.pre, impacts.angle)
    mujoco_post, _ = simulate_impacts(
        impacts.pre,
        impacts.angle,
        np.tile(PHI[:4], (10, 1)),
        semi_axes=impacts.semi_axes,
        mass=impacts.mass,
        inertia=impacts.inertia,
        impedance=PHI[4],
    )
    scale = np.array([1.0, 1.0, impacts.gyration])
    missed = np.linalg.norm((post - mujoco_post) * scale, axis=1) / np.linalg.norm(mujoco_post * scale, axis=1)
    assert np.median(missed) < 0.01
    assert missed.max() < 0.06  # by a time step, where rounding decides when the contact begins
    for k in range(len(phi)):
        step = 1e-5 * phi[k] * np.eye(len(phi))[k]
        ahead, behind = (simulate(phi + s * step, impacts.pre, impacts.angle)[0] for s in (1, -1))
        np.testing.assert_allclose(slope[..., k], (ahead - behind) / (2 * step[k]), rtol=1e-3, atol=1e-3)
    found = tune_mujoco_mjx(impacts, ContactRanges(), MjxConfig(), impedance=(0.005, 0.95), seed=0)
    np.testing.assert_allclose(found[:2], PHI[:2], rtol=0.1)
    assert found[4] < 0.2
