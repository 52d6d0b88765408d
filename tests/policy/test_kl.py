"""The weight of the KL: schedules, what is noticed of a useless prior, and factors from state to state."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from dexprior.policy.kl import PHASES, KlConfig, KlWeight, PhaseFactors, by_phase

NOTHING = {"kl": 2.0, "reward": 0.1, "success": 0.0}


def test_an_annealed_weight_falls_geometrically_after_the_warm_up():
    weight = KlWeight(KlConfig(start=0.4, end=0.001), warmup=3, iterations=10)
    beta = np.array([weight.at(k) for k in range(10)])
    assert (beta[:4] == 0.4).all()
    assert beta[-1] == pytest.approx(0.001)
    np.testing.assert_allclose(np.diff(np.log(beta[3:])), np.diff(np.log(beta[3:]))[0])


@pytest.mark.parametrize("schedule", ["annealed", "fixed", "adaptive"])
def test_a_weight_that_starts_at_nothing_stays_there(schedule):
    weight = KlWeight(KlConfig(start=0.0, schedule=schedule), warmup=1, iterations=9)
    for k in range(9):
        assert weight.at(k) == 0.0
        weight.learn(**NOTHING)


def test_a_fixed_weight_stays():
    weight = KlWeight(KlConfig(start=0.3, schedule="fixed", patience=0), warmup=2, iterations=9)
    for k in range(9):
        assert weight.at(k) == 0.3
        weight.learn(**NOTHING)


def test_an_adaptive_weight_brings_the_kl_to_its_target():
    """Of a policy whose KL falls with the weight, by a law that the weight is not told."""
    weight = KlWeight(KlConfig(start=1e-2, schedule="adaptive", target=2.0), warmup=0, iterations=60)
    for k in range(60):
        kl = 0.4 / weight.at(k) ** 0.5
        weight.learn(kl=kl, reward=float(k), success=0.9)
    assert 2.0 / 1.6 < kl < 2.0 * 1.6


def test_a_prior_that_brings_nothing_is_let_go():
    weight = KlWeight(KlConfig(start=1.0, schedule="fixed", patience=4), warmup=0, iterations=50)
    for k in range(5):
        assert weight.at(k) == 1.0
        assert not weight.let_go
        weight.learn(**NOTHING)
    assert weight.let_go
    assert [weight.at(5), weight.learn(**NOTHING), weight.at(6)] == [0.5, None, 0.25]


@pytest.mark.parametrize("success", [0.5, 1.0])
def test_a_prior_of_a_policy_that_wins_is_kept(success):
    weight = KlWeight(KlConfig(start=1.0, schedule="fixed", patience=2), warmup=0, iterations=50)
    for _ in range(20):
        weight.learn(**(NOTHING | {"success": success}))
    assert not weight.let_go


def test_a_prior_is_kept_while_the_reward_rises():
    weight = KlWeight(KlConfig(start=1.0, schedule="fixed", patience=2), warmup=0, iterations=50)
    for k in range(20):
        weight.learn(kl=1.0, reward=-1.0 + 0.05 * k, success=float("nan"))
    assert not weight.let_go
    for _ in range(3):
        weight.learn(kl=1.0, reward=-1.0, success=float("nan"))
    assert weight.let_go


def test_a_resumed_weight_goes_on_as_it_would_have():
    config = KlConfig(start=0.1, schedule="adaptive", patience=3)
    whole, told = KlWeight(config, warmup=0, iterations=20), np.random.default_rng(0).random((20, 2))
    for k in range(20):
        if k == 8:
            again = KlWeight(config, warmup=0, iterations=20, state=json.loads(json.dumps(whole.state)))
        for weight in (whole, *([again] if k >= 8 else [])):
            weight.learn(kl=5 * told[k, 0], reward=told[k, 1], success=0.2)
    assert again.state == whole.state
    assert again.at(20) == whole.at(20) < 0.1


def test_factors_are_of_the_phase_and_fall_where_states_are_strange():
    config = KlConfig(phase=PhaseFactors(free=1.0, touch=2.0, held=4.0), uncertainty=1.0)
    weight = KlWeight(config, warmup=0, iterations=1)
    phase = torch.tensor([PHASES.index(name) for name in ("free", "touch", "held", "held")])
    found = weight.factor(phase, torch.tensor([0.3, 1.0, 2.0, 4.0]))
    torch.testing.assert_close(found, torch.tensor([1.0, 2.0, 2.0, 1.0]))


def test_the_kl_is_told_by_phase_where_it_occurs():
    found = by_phase(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 2]))
    assert found == {"kl/free": 2.0, "kl/held": 5.0}
