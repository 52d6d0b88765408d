"""Densities against torch's, the KL against Monte Carlo, and who may see what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal, kl_divergence

from dexprior.config import to_plain, validate
from dexprior.envs.base import ObservationSpec
from dexprior.envs.sim import SimBackend
from dexprior.errors import ArtifactError, BadInput
from dexprior.families import SensorModels, SightConfig
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
from dexprior.policy.finding import Finder
from dexprior.worlds.tasks import make_task

N, K = 6, 3
PRIVILEGED_SIZE = 13
SENSES = Senses(robots=(RobotSenses(joints=7, end=(0.02, 0.02), touch=2),), bodies=(40, 24), horizon=3.0, actions=7)
PLAIN = replace(SENSES, labels=False)
TWO = Senses(
    robots=(RobotSenses(joints=6, end=(1.0,) * 5, touch=3), RobotSenses(joints=0, end=(0.02, 0.02), touch=2)),
    bodies=(64,), horizon=5.0, actions=13,
)  # fmt: skip
OBSERVATION_SIZES = {
    "proprio": (25,), "wrench": (6,), "touch": (2,), "cloud": (64, 3), "first_cloud": (64, 3), "time": (1,),
}  # fmt: skip


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


@pytest.mark.parametrize("name", ["cloud", "first_cloud"])
def test_the_shape_of_a_body_does_not_hang_on_where_it_is(observation, name):
    """Moving a body moves the features of its place alone; a millimetre near the tool moves one of them by a tenth."""
    features = Actor(ActorConfig(width=16, point_width=8), SENSES).features
    first = SENSES.bodies[0]
    moved = observation[name].clone()
    moved[:, :first] += torch.tensor([0.03, -0.02, 0.01])
    before, after = features(observation), features({**observation, name: moved})
    assert ((before - after).abs() > 1e-3).sum(1).tolist() == [12] * N
    near = {**observation, name: observation["proprio"][:, None, 14:17].expand(-1, 64, -1).contiguous()}
    nudged = {**near, name: near[name] + torch.tensor([0.001, 0.0, 0.0])}
    assert (features(near) - features(nudged)).abs().amax(1).min() > 0.09


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
    seen["cloud"] = seen["first_cloud"] = np.zeros((3, 64, 3), dtype=np.float32)
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
    path.write_bytes(path.read_bytes().replace(b"dexprior.actor/4", b"dexprior.actor/3"))
    with pytest.raises(ArtifactError, match="dexprior train-policy"):
        load_actor(path)


# --- points without labels --------------------------------------------------------------------------------------

CLOUDS = ("cloud", "first_cloud")
FIRST = PLAIN.bodies[0]


def by_height(actor: Actor) -> Actor:
    """One that finds bodies perfectly: the second one is what lies more than a metre high."""
    finder = actor.features.finder
    with torch.no_grad():
        for weight in finder.parameters():
            weight.zero_()
        finder.each.weight[0, 2], finder.each.bias[0] = 1.0, -9.0  # [dm] from .1 m
        finder.second.weight[0, 0] = finder.say.weight[1, 0] = 100.0
        finder.say.bias[0] = 50.0
    return actor


@pytest.fixture
def apart(observation):
    """The first body on the ground, the second one far above."""
    high = torch.zeros(1, 64, 3)
    high[:, FIRST:, 2] = 2.0
    return observation | {name: 0.1 * observation[name] + high for name in CLOUDS}


def test_without_labels_the_order_of_all_points_does_not_matter(observation):
    """Not in the last bit; with labels it is all that says which body a point lies on."""
    torch.manual_seed(0)
    labelled, plain = Actor(ActorConfig(width=16), SENSES), Actor(ActorConfig(width=16), PLAIN)
    shuffled = observation | {name: observation[name][:, torch.randperm(64)] for name in CLOUDS}
    assert torch.equal(plain(observation)[0], plain(shuffled)[0])
    assert (labelled(observation)[0] - labelled(shuffled)[0]).abs().max() > 1e-3


def test_bodies_that_are_found_are_where_those_with_labels_are(apart):
    found = by_height(Actor(ActorConfig(width=16), PLAIN)).features.finder(apart, apart["proprio"][:, 14:17])
    for name in CLOUDS:
        for k, body in enumerate(apart[name].split(PLAIN.bodies, dim=1)):
            torch.testing.assert_close(found[name].middle[:, k], body.mean(1), atol=1e-5, rtol=0)
            torch.testing.assert_close(found[name].largest(found[name].cloud)[:, k], body.amax(1).clamp(min=0.0))
        assert found[name].count.tolist() == [list(PLAIN.bodies)] * N
        relative = found[name].relative()
        torch.testing.assert_close(found[name].mean(relative), torch.zeros(N, 2, 3), atol=1e-5, rtol=0)


def test_points_that_stand_in_for_hidden_ones_move_nothing(apart):
    actor = by_height(Actor(ActorConfig(width=16), PLAIN))
    features = []
    for copies in ([5, 9, 11], [30, 50, 60]):
        cloud = apart["cloud"].clone()
        cloud[:, [8, 40, 41]] = cloud[:, copies]
        cloud[:, [5, 9, 11, 30, 50, 60]] = apart["cloud"][:, [5, 9, 11, 30, 50, 60]]
        features.append(actor.features.finder(apart | {"cloud": cloud}, apart["proprio"][:, 14:17])["cloud"])
    assert torch.equal(features[0].count, features[1].count)
    torch.testing.assert_close(features[0].middle, features[1].middle)


def test_a_hidden_body_is_where_it_was_and_has_no_points(apart):
    actor = by_height(Actor(ActorConfig(width=16, point_width=8), PLAIN))
    hidden = apart | {"cloud": apart["cloud"][:, :FIRST].repeat(1, 2, 1)[:, :64]}
    found = actor.features.finder(hidden, apart["proprio"][:, 14:17])
    assert found["cloud"].count.tolist() == [[FIRST, 0.0]] * N
    assert torch.equal(found["cloud"].middle[:, 1], found["first_cloud"].middle[:, 1])
    assert torch.isfinite(actor.features(hidden)).all()


def test_a_policy_s_own_loss_does_not_reach_what_finds_bodies(observation):
    actor = Actor(ActorConfig(width=16), PLAIN)
    actor(observation)[0].sum().backward()
    assert all(weight.grad is None for weight in actor.features.finder.parameters())
    assert all(weight.grad is not None for weight in actor.features.point.parameters())
    actor.features.told_apart(observation, {name: torch.zeros(N, 64, dtype=torch.uint8) for name in CLOUDS})[
        0
    ].backward()
    assert all(weight.grad is not None for weight in actor.features.finder.parameters())


def test_bodies_are_told_apart_by_what_lies_around_them():
    """Of two balls on either side the larger one is the first: no point says by itself which one it is on."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    finder = Finder(2, torch.zeros(3))
    optimizer = torch.optim.Adam(finder.parameters(), lr=2e-2)
    right = torch.zeros(())
    for _ in range(150):
        lies = (torch.rand(32, 24, generator=generator) > 0.5).to(torch.uint8)
        side = torch.where(torch.rand(32, 1, generator=generator) > 0.5, 0.1, -0.1)
        cloud = torch.where(lies == 0, 0.06, 0.01)[..., None] * torch.randn(32, 24, 3, generator=generator)
        cloud[..., 0] += torch.where(lies == 0, side, -side)
        loss, right = finder.told_apart(dict.fromkeys(CLOUDS, cloud), torch.zeros(32, 3), dict.fromkeys(CLOUDS, lies))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert right > 0.95


def test_what_was_found_once_is_not_found_again(observation):
    """Features of observations with the bodies in them are the same, and need no clouds."""
    features = Actor(ActorConfig(width=16), PLAIN).features
    noted = features.noted(observation)
    torch.testing.assert_close(features(noted), features(observation))
    assert torch.equal(features(noted | dict.fromkeys(CLOUDS, torch.zeros(N, 64, 3))), features(noted))
    labelled = Actor(ActorConfig(width=16), SENSES).features
    assert labelled.noted(observation) is observation


def test_an_actor_that_finds_bodies_is_kept_whole(observation, tmp_path):
    actor = Actor(ActorConfig(width=16, point_width=8), PLAIN).eval()
    loaded = load_actor(save_actor(actor, tmp_path / "actor.safetensors", seed=0))
    assert loaded.senses == PLAIN
    assert torch.equal(actor(observation)[0], loaded(observation)[0])


def test_senses_without_labels_are_those_of_worlds_without():
    sensors = SensorModels(sight=SightConfig(labels=False))
    assert Senses.of(SimBackend(make_task("insertion"), 1, sensors=sensors, threads=1)) == PLAIN


def test_senses_that_say_nothing_of_labels_have_them():
    """Actors were kept without that word before."""
    plain = to_plain(SENSES)
    del plain["labels"]
    assert validate(Senses, plain, where="senses") == SENSES


def test_where_all_points_lie_on_one_body_there_is_nothing_to_find(observation):
    one = replace(PLAIN, bodies=(64,))
    torch.manual_seed(0)
    plain = Actor(ActorConfig(width=16), one)
    torch.manual_seed(0)
    assert torch.equal(plain(observation)[0], Actor(ActorConfig(width=16), replace(one, labels=True))(observation)[0])
