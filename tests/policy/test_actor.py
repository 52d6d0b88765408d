"""Densities against torch's, the KL against Monte Carlo, and who may see what."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal, kl_divergence

from dexprior.envs.base import ObservationSpec
from dexprior.envs.sim import SimBackend
from dexprior.errors import ArtifactError, BadInput
from dexprior.policy.actor import (
    Actor,
    ActorConfig,
    Critic,
    RobotSenses,
    Senses,
    gaussian_kl,
    load_actor,
    log_prob,
    save_actor,
)
from dexprior.worlds.tasks import make_task

N, K = 6, 3
PRIVILEGED_SIZE = 13
SENSES = Senses(robots=(RobotSenses(joints=7, end=(0.02, 0.02), touch=2),), bodies=(40, 24), horizon=3.0, actions=7)
TWO = Senses(
    robots=(RobotSenses(joints=6, end=(1.0,) * 5, touch=3), RobotSenses(joints=0, end=(0.02, 0.02), touch=2)),
    bodies=(64,), horizon=5.0, actions=13,
)  # fmt: skip
OBSERVATION_SIZES = {"proprio": (25,), "wrench": (6,), "touch": (2,), "cloud": (64, 3), "time": (1,)}


@pytest.fixture
def policy():
    """(mean, std) of a policy, and (means, std, weights) of a prior."""
    generator = torch.Generator().manual_seed(0)
    mean, std = torch.randn(N, 7, generator=generator), 0.2 + torch.rand(7, generator=generator)
    means, prior_std = torch.randn(N, K, 7, generator=generator), 0.2 + torch.rand(7, generator=generator)
    return mean, std, means, prior_std, torch.rand(N, K, generator=generator).softmax(-1)


@pytest.fixture
def observation():
    generator = torch.Generator().manual_seed(1)
    return {name: torch.randn(N, *shape, generator=generator) for name, shape in OBSERVATION_SIZES.items()}


def test_log_prob_is_torchs(policy):
    mean, std, *_ = policy
    action = mean + torch.randn(N, 7)
    torch.testing.assert_close(log_prob(action, mean, std), Independent(Normal(mean, std), 1).log_prob(action))


def test_kl_to_one_component_is_torchs(policy):
    mean, std, means, prior_std, _ = policy
    exact = kl_divergence(Independent(Normal(mean, std), 1), Independent(Normal(means[:, 0], prior_std), 1))
    torch.testing.assert_close(gaussian_kl(mean, std, means[:, :1], prior_std, torch.ones(N, 1)), exact)
    same = gaussian_kl(mean, std, mean[:, None].expand(-1, K, -1), std, torch.full((N, K), 1 / K))
    torch.testing.assert_close(same, torch.zeros(N))


def test_kl_to_a_mixture_is_bounded_from_above(policy):
    mean, std, means, prior_std, weight = policy
    means = mean[:, None] + 0.5 * (means - mean[:, None])
    mixture = MixtureSameFamily(Categorical(weight), Independent(Normal(means, prior_std.expand_as(means)), 1))
    torch.manual_seed(0)
    draws = mean + std * torch.randn(20_000, N, 7)
    integrand = Independent(Normal(mean, std), 1).log_prob(draws) - mixture.log_prob(draws)
    estimate, error = integrand.mean(0), integrand.std(0) / 20_000**0.5
    bound = gaussian_kl(mean, std, means, prior_std, weight)
    assert (bound > estimate - 4 * error).all()
    assert (bound > estimate + 0.05).any()  # it is a bound here, no equality


def test_a_weight_of_zero_hides_a_component(policy):
    mean, std, means, prior_std, _ = policy
    weight = torch.tensor([1.0, 0.0, 0.0]).expand(N, -1)
    torch.testing.assert_close(
        gaussian_kl(mean, std, means, prior_std, weight),
        gaussian_kl(mean, std, means[:, :1], prior_std, weight[:, :1]),
    )


def test_the_actor_sees_sensors_and_the_critic_also_the_truth(observation):
    """Perturbing the privileged state moves the value; the actor has nowhere to take it from."""
    torch.manual_seed(0)
    actor, critic = Actor(ActorConfig(width=16), SENSES), Critic(ActorConfig(width=16), SENSES, PRIVILEGED_SIZE)
    privileged = torch.zeros(N, PRIVILEGED_SIZE, requires_grad=True)
    critic(observation, privileged).sum().backward()
    assert (privileged.grad.abs().sum(0) > 0).all()
    assert set(observation) == set(OBSERVATION_SIZES)
    with pytest.raises(TypeError):
        actor(observation, privileged)
    torch.testing.assert_close(
        actor({**observation, "privileged": torch.randn(N, PRIVILEGED_SIZE)})[0], actor(observation)[0]
    )


@pytest.mark.parametrize("name", list(OBSERVATION_SIZES))
def test_every_sensor_is_used(observation, name):
    torch.manual_seed(0)
    actor = Actor(ActorConfig(width=16), SENSES)
    changed = {**observation, name: observation[name] + 0.5}
    assert (actor(observation)[0] - actor(changed)[0]).abs().max() > 1e-4


def test_the_order_of_points_on_one_body_does_not_matter(observation):
    NUT_POINTS = SENSES.bodies[0]
    actor = Actor(ActorConfig(width=16), SENSES)
    cloud = observation["cloud"]
    order = torch.cat([torch.randperm(NUT_POINTS), NUT_POINTS + torch.randperm(cloud.shape[1] - NUT_POINTS)])
    shuffled = {**observation, "cloud": cloud[:, order]}
    torch.testing.assert_close(actor(observation)[0], actor(shuffled)[0], atol=1e-5, rtol=1e-4)


def test_acting_is_the_mean_and_one_world_does_not_depend_on_the_next(observation):
    torch.manual_seed(0)
    actor = Actor(ActorConfig(width=16), SENSES).eval()
    arrays = {k: v.numpy() for k, v in observation.items()}
    actions = actor.act(arrays)
    assert actions.dtype == np.float64
    np.testing.assert_allclose(actions, actor(observation)[0].detach().numpy())
    alone = actor.act({k: v[2:3] for k, v in arrays.items()})
    np.testing.assert_allclose(alone[0], actions[2], atol=1e-6)


def test_the_spread_is_clamped():
    actor = Actor(ActorConfig(width=8, log_std=99.0), SENSES)
    assert actor({k: torch.zeros(1, *s) for k, s in OBSERVATION_SIZES.items()})[1].max() < 2.0


def test_a_checkpoint_gives_the_same_actions(observation, tmp_path):
    actor = Actor(ActorConfig(width=16, point_width=8), SENSES).eval()
    loaded = load_actor(save_actor(actor, tmp_path / "actor.safetensors", seed=0))
    assert (loaded.config, loaded.senses) == (actor.config, SENSES)
    assert torch.equal(actor(observation)[0], loaded(observation)[0])
    with pytest.raises(ArtifactError, match="no such file"):
        load_actor(tmp_path / "none.safetensors")


def test_two_robots_of_other_kinds_fit_as_well():
    actor = Actor(ActorConfig(width=16), TWO).eval()
    sizes = {"proprio": TWO.proprio, "wrench": 12, "touch": 5, "time": 1}
    assert TWO.proprio == 12 + 9 + 5 + 9 + 2
    seen = {name: np.random.default_rng(0).normal(size=(3, size)).astype(np.float32) for name, size in sizes.items()}
    seen["cloud"] = np.zeros((3, 64, 3), dtype=np.float32)
    assert actor.act(seen).shape == (3, 13)
    with pytest.raises(BadInput, match="reads 25 numbers of the robot and 64 points, these worlds give 37 and 64"):
        Actor(ActorConfig(width=16), SENSES).act(seen)


def test_senses_are_those_of_the_worlds():
    backend = SimBackend(make_task("insertion"), 1, threads=1)
    assert Senses.of(backend) == SENSES
    assert ObservationSpec.of(backend).shapes == OBSERVATION_SIZES
    folding = Senses.of(SimBackend(make_task("folding", engine="particles"), 1, threads=1))
    assert len(folding.robots) == 2
    assert folding.actions == 14


def test_an_actor_of_an_older_version_says_how_to_make_it_again(tmp_path):
    path = save_actor(Actor(ActorConfig(width=8), SENSES), tmp_path / "actor.safetensors", seed=0)
    path.write_bytes(path.read_bytes().replace(b"dexprior.actor/2", b"dexprior.actor/1"))
    with pytest.raises(ArtifactError, match="dexprior train-policy"):
        load_actor(path)
