"""PPO near the behavioral prior: it imitates first, keeps close, and survives a kill."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dexprior.artifacts import read_tensors
from dexprior.envs.line.panel import Panel
from dexprior.errors import ArtifactError, BadInput
from dexprior.policy.actor import ActorConfig
from dexprior.policy.ppo import PpoConfig, _advantages, _beta, train_ppo
from dexprior.worlds.insertion import TRAINING_FAMILY

SMALL = {"worlds": 4, "minibatch": 100, "actor": ActorConfig(width=32, point_width=8)}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def imitated(panel, bank, tmp_path_factory):
    """Two iterations that only imitate."""
    config = PpoConfig(
        **(SMALL | {"minibatch": 50}), iterations=2, warmup=2, guided=4, warmup_epochs=20, epochs=1, learning_rate=2e-3
    )
    return train_ppo(panel, bank, config, tmp_path_factory.mktemp("ppo"), seed=0)


def test_the_kl_to_the_prior_falls_while_it_is_imitated(imitated):
    _, curve = imitated
    assert curve[1]["kl"] < 0.3 * curve[0]["kl"]


def test_the_warm_up_makes_the_actor_act_like_the_prior(imitated, panel, bank):
    """In the states of the prior's own episodes, against an actor that learned nothing."""
    from dexprior.envs.line import SimBackend
    from dexprior.policy.actor import Actor
    from dexprior.policy.rollout import prior_policy, run_episodes

    wanted, imitation, nothing = [], [], []
    follow = prior_policy(bank, np.arange(4))
    torch.manual_seed(0)
    fresh = Actor(SMALL["actor"]).eval()

    def act(observation, reading):
        wanted.append(follow(observation, reading))
        imitation.append(imitated[0].act(observation))
        nothing.append(fresh.act(observation))
        return wanted[-1]

    run_episodes(act, SimBackend(4, family=TRAINING_FAMILY), panel)
    error, before = (np.abs(np.array(a) - np.array(wanted)).mean() for a in (imitation, nothing))
    assert error < 0.6 * before


def test_a_killed_run_equals_an_uninterrupted_one(panel, bank, tmp_path, kill_at_checkpoint):
    """Across the end of the warm-up; weights, optimizer and learning curve to the last bit."""
    config = PpoConfig(**SMALL, iterations=2, warmup=1, warmup_epochs=1, epochs=1)
    whole, curve = train_ppo(panel, bank, config, tmp_path / "whole", seed=3)
    kill_at_checkpoint(train_ppo, panel, bank, config, tmp_path / "killed", seed=3)
    assert read_tensors(tmp_path / "killed" / "state.safetensors")[1]["progress"]["iteration"] == 1
    resumed, same_curve = train_ppo(panel, bank, config, tmp_path / "killed", seed=3)
    assert same_curve == curve
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values()):
        assert torch.equal(a, b)
    states = [read_tensors(tmp_path / name / "state.safetensors")[0] for name in ("whole", "killed")]
    for name, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][name], err_msg=name)


def test_another_configuration_does_not_go_on(panel, bank, tmp_path):
    config = PpoConfig(**SMALL, iterations=1, warmup=1, warmup_epochs=1)
    train_ppo(panel, bank, config, tmp_path, seed=0)
    with pytest.raises(ArtifactError, match="resume with the same configuration"):
        train_ppo(panel, bank, replace(config, iterations=2), tmp_path, seed=0)


def test_a_prior_of_another_panel_is_refused(bank, tmp_path):
    other = Panel.sample("other", TRAINING_FAMILY, 4, seed=1)
    with pytest.raises(BadInput, match=f"built for panel {bank.panel_hash}, this one is {other.hash}"):
        train_ppo(other, bank, PpoConfig(**SMALL, iterations=1), tmp_path, seed=0)


def test_without_a_prior_there_is_no_kl_and_no_warm_up(panel, tmp_path):
    config = PpoConfig(**SMALL, iterations=1, warmup=1, epochs=1)
    _, curve = train_ppo(panel, None, config, tmp_path, seed=0)
    assert curve[0]["kl"] == curve[0]["beta"] == 0.0


def test_training_starts_from_a_given_actor_and_names_other_sizes(imitated, panel, tmp_path):
    """With a step that moves nothing, the actor comes out as it went in."""
    config = PpoConfig(**SMALL, iterations=1, warmup=0, epochs=1, learning_rate=1e-12)
    actor, _ = train_ppo(panel, None, config, tmp_path / "still", seed=1, init=imitated[0])
    for name, weight in imitated[0].state_dict().items():
        torch.testing.assert_close(actor.state_dict()[name], weight, atol=1e-6, rtol=0)
    fresh, _ = train_ppo(panel, None, config, tmp_path / "fresh", seed=1)
    assert (fresh.body[0].weight - actor.body[0].weight).abs().max() > 0.01
    wide = replace(config, actor=ActorConfig(width=40, point_width=8))
    with pytest.raises(BadInput, match=r"\(32, 8\), the configuration \(40, 8\)"):
        train_ppo(panel, None, wide, tmp_path / "wide", seed=1, init=imitated[0])


def test_the_weight_of_the_kl_is_annealed_geometrically():
    config = PpoConfig(iterations=10, warmup=3, kl_start=0.4, kl_end=0.001)
    beta = np.array([_beta(config, k) for k in range(10)])
    assert (beta[:4] == 0.4).all()
    assert beta[-1] == pytest.approx(0.001)
    np.testing.assert_allclose(np.diff(np.log(beta[3:])), np.diff(np.log(beta[3:]))[0])
    assert _beta(PpoConfig(kl_start=0.0), 20) == 0.0


def test_advantages_are_discounted_sums_of_surprises():
    """With lambda = 1: the discounted return, bootstrapped at the cut, minus the value."""
    config = PpoConfig(discount=0.9, trace=1.0)
    reward, value = torch.rand(5, 2), torch.rand(6, 2)
    expected = torch.stack(
        [sum(0.9**j * reward[k + j] for j in range(5 - k)) + 0.9 ** (5 - k) * value[5] - value[k] for k in range(5)]
    )
    torch.testing.assert_close(_advantages(reward, value, config), expected)
    one_step = _advantages(reward, value, PpoConfig(discount=0.9, trace=0.0))
    torch.testing.assert_close(one_step, reward + 0.9 * value[1:] - value[:-1])
