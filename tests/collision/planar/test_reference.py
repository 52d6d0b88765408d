"""The published recipe on strikes: what made the strikes is found again, in any orientation, and nothing is tuned."""

from __future__ import annotations

import numpy as np
import pytest

import dexprior.collision.shapes.strikes as module
from dexprior.collision.clash import ClashConfig
from dexprior.collision.planar.reference import ReferenceStriker, fit_reference, train_reference
from dexprior.collision.planar.strikes import StrikeImpacts, strike_error
from dexprior.collision.shapes import STRIKE_PARAMETERS, StrikeSampling, simulate_strike_pairs
from dexprior.worlds.pushing import PushingConfig, Strikes, simulate_strikes

WORLD = PushingConfig(shape="semi_cylinder")
SAMPLING = StrikeSampling(pairs=600)


@pytest.fixture(scope="module")
def pretrained():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", SAMPLING.pairs)  # strikes are simulated in whole blocks
        simulated, _ = simulate_strike_pairs(SAMPLING, WORLD, seed=0)
    return train_reference(ClashConfig(pretrain_steps=400, steps=400, batch=256), SAMPLING, WORLD, simulated, seed=0)


def _measured(n: int, seed: int) -> StrikeImpacts:
    rng = np.random.default_rng(seed)
    strikes = Strikes(alpha=rng.uniform(-1.2, 1.2, n), speed=rng.uniform(0.4, 1, n), beta=rng.uniform(-0.4, 0.4, n))
    pose = np.column_stack([rng.uniform(-0.1, 0.1, (n, 2)), rng.uniform(-3, 3, n)])
    truth = {"rod_friction": np.full(n, 0.5), "rod_damping_ratio": np.full(n, 0.7)}
    velocity = simulate_strikes(WORLD, pose, strikes, parameters=truth, slide=False).velocity
    return StrikeImpacts(config=WORLD, pose=pose, strikes=strikes, velocity=velocity)


def test_ten_strikes_fit_the_four_parameters_and_predict_others(pretrained):
    fit, test = _measured(10, 1), _measured(50, 2)
    fitted = fit_reference(pretrained, fit)
    assert tuple(fitted.parameters) == STRIKE_PARAMETERS
    assert pretrained.parameters["rod_damping_ratio"] == pytest.approx(0.525)  # a copy was fitted

    def error(model):
        return np.median(
            strike_error(ReferenceStriker(config=WORLD, model=model).velocity_after(test.pose, test.strikes), test)
        )

    assert error(fitted) < 0.8 * error(pretrained)
    assert error(fitted) < 0.2


def test_a_strike_turns_with_the_object(pretrained):
    test = _measured(5, 3)
    striker = ReferenceStriker(config=WORLD, model=pretrained, contact_time=0.0)
    turned = test.pose + np.array([0.0, 0.0, 1.0])
    c, s = np.cos(1.0), np.sin(1.0)
    here, there = striker.velocity_after(test.pose, test.strikes), striker.velocity_after(turned, test.strikes)
    np.testing.assert_allclose(there[:, :2], here[:, :2] @ np.array([[c, s], [-s, c]]), atol=1e-12)
    np.testing.assert_allclose(there[:, 2], here[:, 2], atol=1e-12)
    moved = striker(test.pose, test.strikes) - test.pose
    travel = np.linalg.norm(moved[:, :2], axis=1) / np.linalg.norm(here[:, :2], axis=1) ** 2 * 2 * 9.81 * 0.3
    assert ((travel > 0.8) & (travel < 1.6)).all()  # about v^2 / (2 mu g); spin makes it farther
