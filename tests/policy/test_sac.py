"""SAC near a prior: the reported quantity is the KL integrand, and the KL is really kept."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from torch.distributions import Normal

from dexprior.config import validate
from dexprior.errors import ArtifactError, BadInput, ConfigError
from dexprior.policy.sac import ActionPrior, SacConfig, load_policy, mean_kl, save_policy, train_sac

BIAS, SPREAD, GOAL = -0.5, 0.2, 0.8
_TINY = SacConfig(steps=40, delta=1.0, delta_final=1.0, learning_starts=20, batch_size=8, buffer_size=100, widths=(8,))


class Reach(gymnasium.Env):
    """A point on a line: the action is its velocity, and the reward its nearness to GOAL."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.count = float(self.np_random.uniform(-0.2, 0.2)), 0
        return np.array([self.x], np.float32), {}

    def step(self, action):
        self.x = float(np.clip(self.x + 0.25 * float(action[0]), -1.0, 1.0))
        self.count += 1
        return np.array([self.x], np.float32), 1.0 - abs(self.x - GOAL), False, self.count >= 8, {}


class Named(gymnasium.ObservationWrapper):
    """The same with named observations."""

    def __init__(self) -> None:
        super().__init__(Reach())
        self.observation_space = gymnasium.spaces.Dict({"x": Reach.observation_space})

    def observation(self, observation):
        return {"x": observation}


class Biased:
    """A prior that wants to go left, away from the goal."""

    def log_prob(self, observation, action):
        return Normal(BIAS, SPREAD).log_prob(action).sum(-1)


class Learned(torch.nn.Module):
    """A prior that is a network: its mean depends on named observations."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = torch.nn.Linear(1, 1)

    def log_prob(self, observation, action):
        return Normal(self.mean(observation["x"]), SPREAD).log_prob(action).sum(-1)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny():
    return train_sac(Reach(), Biased(), _TINY, seed=0)


def test_the_actor_reports_log_pi_minus_log_prior(tiny):
    observation = torch.linspace(-1, 1, 50)[:, None]
    torch.manual_seed(3)
    action, reported = tiny.actor.action_log_prob(observation)
    mean, log_std, _ = tiny.actor.get_action_dist_params(observation)
    torch.manual_seed(3)
    raw = Normal(mean, log_std.exp()).rsample()
    squashing = torch.log(1 - torch.tanh(raw) ** 2 + 1e-6)
    log_pi = (Normal(mean, log_std.exp()).log_prob(raw) - squashing).sum(-1)
    log_prior = Normal(BIAS, SPREAD).log_prob(torch.tanh(raw)).sum(-1)
    torch.testing.assert_close(action, torch.tanh(raw))
    torch.testing.assert_close(reported, log_pi - log_prior, atol=1e-4, rtol=1e-4)


def test_the_mean_of_it_is_the_kl():
    """Against numerical integration on a grid of actions."""
    model = train_sac(Reach(), Biased(), _TINY, seed=1)
    observation = torch.zeros(1, 1)
    mean, log_std, _ = model.actor.get_action_dist_params(observation)
    a = torch.linspace(-0.9999, 0.9999, 200_001)
    pi = Normal(mean[0].double(), log_std[0].double().exp()).log_prob(torch.atanh(a.double()))
    log_pi = pi - torch.log(1 - a.double() ** 2)
    log_prior = Normal(BIAS, SPREAD).log_prob(a.double())
    kl = torch.trapezoid(log_pi.exp() * (log_pi - log_prior), a.double())
    torch.manual_seed(0)
    assert mean_kl(model, observation.expand(2000, 1)) == pytest.approx(float(kl.detach()), rel=0.03)


def test_gradients_reach_the_actor_through_the_prior(tiny):
    """Descending -log prior alone moves the actor's mean towards the prior's."""
    observation = torch.zeros(256, 1)
    bias = tiny.actor.mu.bias
    action, reported = tiny.actor.action_log_prob(observation)
    with_prior = torch.autograd.grad(reported.mean(), bias, retain_graph=True)[0]
    of_prior = torch.autograd.grad(-Biased().log_prob(observation, action).mean(), bias, retain_graph=True)[0]
    assert torch.sign(of_prior) == torch.sign(action.mean() - BIAS)
    assert abs(with_prior - of_prior) < abs(of_prior)  # most of it: log pi hardly depends on the mean


def test_named_observations_and_a_prior_that_is_a_network():
    prior = Learned()
    before = [p.clone() for p in prior.parameters()]
    model = train_sac(Named(), prior, _TINY, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(prior.parameters(), before))
    assert not [name for name in model.policy.state_dict() if "prior" in name]
    assert isinstance(prior, ActionPrior)


def test_the_allowed_kl_is_annealed(tiny):
    assert tiny.target_entropy == -1.0
    config = SacConfig(**(vars(_TINY) | {"delta_final": 9.0}))
    assert train_sac(Reach(), Biased(), config, seed=0).target_entropy == pytest.approx(-9.0)


def test_one_seed_gives_one_policy():
    states = [train_sac(Reach(), Biased(), _TINY, seed=s).policy.state_dict() for s in (4, 4, 5)]
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])
    assert not all(torch.equal(states[0][k], states[2][k]) for k in states[0])


def test_a_saved_policy_acts_the_same(tiny, tmp_path):
    path = save_policy(tiny, tmp_path / "policy.safetensors", _TINY, seed=0)
    policy = load_policy(path, Reach.observation_space, Reach.action_space)
    observation = np.linspace(-1, 1, 9, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(
        policy.predict(observation, deterministic=True)[0], tiny.predict(observation, deterministic=True)[0]
    )
    wide = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    with pytest.raises(ArtifactError, match="do not fit"):
        load_policy(path, wide, Reach.action_space)


def test_a_prior_of_the_wrong_shape_is_refused():
    class Wrong:
        def log_prob(self, observation, action):
            return Normal(0.0, 1.0).log_prob(action)  # (batch, 1): would broadcast to (batch, batch)

    with pytest.raises(BadInput, match="log_prob of shape"):
        train_sac(Reach(), Wrong(), _TINY, seed=0)


def test_the_configuration_is_strict():
    with pytest.raises(ConfigError, match="delta"):
        validate(SacConfig, {"delta": 0.0})


@pytest.mark.slow
def test_a_small_allowance_keeps_the_prior_and_a_large_one_lets_the_reward_win():
    outcomes = {}
    for delta in (0.2, 30.0):
        config = SacConfig(
            steps=1500,
            delta=delta,
            delta_final=delta,
            learning_rate=3e-3,
            initial_temperature=0.3,
            gamma=0.9,
            batch_size=64,
            buffer_size=2000,
            learning_starts=100,
            widths=(32, 32),
        )
        model = train_sac(Reach(), Biased(), config, seed=0)
        kl = mean_kl(model, model.replay_buffer.sample(512).observations)
        outcomes[delta] = (kl, _final_position(model))
    kl, x = outcomes[0.2]
    assert kl == pytest.approx(0.2, abs=0.15)
    assert x < -0.5  # eight steps of about -0.5 to the left, whatever the reward
    kl, x = outcomes[30.0]
    assert kl > 2.0
    assert x == pytest.approx(GOAL, abs=0.1)


def _final_position(model) -> float:
    ends = []
    for seed in range(5):
        env = Reach()
        observation, _ = env.reset(seed=seed)
        for _ in range(8):
            observation, *_ = env.step(model.predict(observation, deterministic=True)[0])
        ends.append(env.x)
    return float(np.mean(ends))
