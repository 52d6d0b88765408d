"""Fitting to a real table through recordings alone: each method's errors on other strikes, plans carried out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior import extras
from dexprior.collision import (
    ContactRanges,
    DistillConfig,
    GeneratorConfig,
    SurrogateConfig,
    distill,
    generate_pairs,
)
from dexprior.collision.planar.strikes import TuneStrikesConfig
from dexprior.envs.reality.pushing import SETTINGS, BulletTable
from dexprior.errors import BadInput, UnknownName
from dexprior.policy.planning import PlanConfig
from dexprior.studies.strikes import execute_plans, fit_strikers, strike_errors
from dexprior.worlds.pushing import PushingConfig, Strikes

pytestmark = pytest.mark.skipif(not extras.available("pybullet"), reason="needs the extra `reality` (pybullet)")
WORLD = PushingConfig(shape="square")


def _strikes(n: int, seed: int) -> tuple[np.ndarray, Strikes]:
    rng = np.random.default_rng(seed)
    strikes = Strikes(alpha=rng.uniform(-3, 3, n), speed=rng.uniform(0.4, 1, n), beta=rng.uniform(-0.4, 0.4, n))
    return np.column_stack([np.zeros((n, 2)), rng.uniform(-3, 3, n)]), strikes


@pytest.fixture(scope="module")
def table():
    with BulletTable(WORLD, SETTINGS[1], truth=True) as found:
        yield found


@pytest.fixture(scope="module")
def fitted(table):
    base = distill(
        generate_pairs(GeneratorConfig(pairs=2000), ContactRanges(), seed=0),
        DistillConfig(steps=300, batch=128),
        SurrogateConfig(width=24, depth=2),
        seed=0,
        progress=False,
    )
    recordings = replace(table.record(*_strikes(10, 0)), velocity=None)
    tuning = TuneStrikesConfig(evaluations=8, population=4, time_constant=(0.003, 0.006))
    return fit_strikers(WORLD, base, recordings, seed=0, tuning=tuning)


def test_ten_recordings_find_the_friction_and_better_strikes_than_the_default(table, fitted):
    assert fitted.friction.value == pytest.approx(SETTINGS[1].table_friction, rel=0.1)
    errors = strike_errors(fitted, table.record(*_strikes(30, 1)), names=["mujoco_default", "closed_form", "hybrid"])
    hybrid, default = errors["hybrid"], errors["mujoco_default"]
    assert np.median(hybrid["velocity"]) < np.median(default["velocity"])
    assert hybrid["position"].mean() < 0.5 * default["position"].mean()


def test_plans_are_carried_out_on_the_real_table(table, fitted):
    def real(pose, strikes):
        return table.record(pose, strikes).final_pose

    pose, strikes = _strikes(2, 2)
    targets = real(np.zeros((2, 3)), strikes)
    plan = PlanConfig(evaluations=160, population=40)
    found = execute_plans(fitted, real, targets, repeats=2, names=["hybrid"], plan=plan)["hybrid"]
    assert len(found["positions"]) == 4
    assert found["position"][0] < 0.03
    both = [fitted.strikers[name](pose, strikes) for name in ("hybrid", "hybrid_mujoco")]
    assert np.linalg.norm((both[0] - both[1])[:, :2], axis=1).max() < 0.005


def test_errors_need_the_truth(table, fitted):
    recordings = replace(table.record(*_strikes(3, 3)), velocity=None)
    with pytest.raises(BadInput, match="truth=True"):
        strike_errors(fitted, recordings)


def test_a_method_that_was_not_fitted_is_named(table, fitted):
    with pytest.raises(UnknownName, match="unknown method 'clash'"):
        strike_errors(fitted, table.record(*_strikes(3, 3)), names=["clash"])
