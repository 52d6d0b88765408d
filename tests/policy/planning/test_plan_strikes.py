"""Planned strikes: they reach what can be reached, cost what was promised, and depend on nothing else."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.collision.closed_form import RestitutionFriction
from dexprior.collision.planar import PlanarStriker
from dexprior.errors import BadInput, ConfigError
from dexprior.policy.planning import MujocoStriker, PlanConfig, StrikeSimulator, plan_strikes, pose_cost
from dexprior.worlds.pushing import PushingConfig, Strikes

SHAPES = ("semi_cylinder", "square", "triangle")


def planar(config: PushingConfig) -> PlanarStriker:
    return PlanarStriker(config=config, model=RestitutionFriction(), phi=np.array([0.45, 0.2]))


def reachable(config: PushingConfig, n: int = 3) -> np.ndarray:
    rng = np.random.default_rng(3)
    strikes = Strikes(alpha=rng.uniform(-0.8, 0.8, n), speed=rng.uniform(0.4, 0.9, n), beta=rng.uniform(-0.3, 0.3, n))
    return planar(config)(np.zeros((n, 3)), strikes)


class Counting:
    """A simulator that counts its strikes."""

    def __init__(self, inner: StrikeSimulator) -> None:
        self.inner, self.strikes = inner, 0

    def __call__(self, pose, strikes):
        self.strikes += len(strikes)
        return self.inner(pose, strikes)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", ["cma", "cem"])
def test_reaches_reachable_targets(shape, method):
    config = PushingConfig(shape=shape)
    target = reachable(config)
    plans = plan_strikes(config, planar(config), np.zeros((3, 3)), target, plan=PlanConfig(method=method))
    assert np.median(plans.cost) < 0.006
    assert (np.diff(plans.history, axis=1) <= 0).all()
    assert (plans.history[:, -1] < 0.7 * plans.history[:, 0]).all()
    np.testing.assert_array_equal(plans.history[:, -1], plans.cost)
    again = planar(config)(np.zeros((3, 3)), plans.strikes)
    np.testing.assert_allclose(again, plans.final_pose, atol=1e-9)
    weight = config.footprint.gyration
    np.testing.assert_allclose(pose_cost(plans.final_pose, target, weight=weight), plans.cost, atol=1e-12)


@pytest.mark.parametrize("method", ["cma", "cem"])
def test_every_setting_spends_the_same_evaluations(method):
    config = PushingConfig(shape="square")
    plan = PlanConfig(method=method, evaluations=60, population=20)
    for simulator in (planar(config), MujocoStriker(config=config)):
        counting = Counting(simulator)
        plans = plan_strikes(config, counting, np.zeros((2, 3)), reachable(config, 2), plan=plan)
        assert counting.strikes == 2 * plans.evaluations == 120
        assert plans.seconds > 0


def test_a_plan_depends_on_its_row_and_seed_alone():
    config = PushingConfig()
    target, plan = reachable(config), PlanConfig(evaluations=80, population=20)
    together = plan_strikes(config, planar(config), np.zeros((3, 3)), target, plan=plan, seed=4)
    first = plan_strikes(config, planar(config), np.zeros((1, 3)), target[:1], plan=plan, seed=4)
    other = plan_strikes(config, planar(config), np.zeros((1, 3)), target[:1], plan=plan, seed=5)
    np.testing.assert_allclose(together.strikes.alpha[0], first.strikes.alpha[0], atol=1e-9)
    np.testing.assert_allclose(together.cost[0], first.cost[0], atol=1e-9)
    assert first.strikes.alpha[0] != other.strikes.alpha[0]


def test_mujoco_plans_carry_over_to_mujoco():
    config = PushingConfig(shape="triangle")
    mujoco = MujocoStriker(config=config, parameters={"table_friction": 0.4})
    plans = plan_strikes(
        config, mujoco, np.zeros((1, 3)), np.array([[0.08, 0.01, 0.3]]), plan=PlanConfig(evaluations=120, population=20)
    )
    np.testing.assert_allclose(mujoco(np.zeros((1, 3)), plans.strikes), plans.final_pose, atol=1e-9)
    assert plans.cost[0] < 0.03


def test_the_weight_brings_turns_to_metres():
    here, turned = np.array([[0.0, 0.0, 3.1]]), np.array([[0.0, 0.0, -3.1]])
    np.testing.assert_allclose(pose_cost(here, turned, weight=0.03), 0.03 * (2 * np.pi - 6.2))
    np.testing.assert_allclose(pose_cost(here, here + np.array([0.03, 0.04, 0.0]), weight=0.03), 0.05)


def test_bad_plans_are_refused():
    config = PushingConfig()
    with pytest.raises(ConfigError, match="whole number"):
        PlanConfig(evaluations=50, population=20)
    with pytest.raises(ConfigError, match="slowest"):
        PlanConfig(speed=(0.5, 0.2))
    with pytest.raises(BadInput, match="must both be"):
        plan_strikes(config, planar(config), np.zeros((1, 3)), np.zeros((2, 3)))
    with pytest.raises(BadInput, match="not finite"):
        plan_strikes(config, planar(config), np.zeros((1, 3)), np.full((1, 3), np.nan))

    @dataclasses.dataclass
    class Broken:
        def __call__(self, pose, strikes):
            return np.full_like(pose, np.nan)

    with pytest.raises(BadInput, match="Broken answered"):
        plan_strikes(config, Broken(), np.zeros((1, 3)), np.zeros((1, 3)))
