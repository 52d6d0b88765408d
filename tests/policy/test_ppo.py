"""PPO near the behavioral prior: it imitates first, keeps close, and survives a kill."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from reaching import Reaching

from dexprior.artifacts import read_tensors
from dexprior.envs.factory import SimulationOptions
from dexprior.envs.panel import Panel
from dexprior.envs.tasks import TaskVectorEnv
from dexprior.errors import ArtifactError, BadInput, Diverged
from dexprior.families import SensorModels, SightConfig
from dexprior.policy.actor import Actor, ActorConfig, Critic, RobotSenses, Senses, log_prob
from dexprior.policy.collecting import Collector, Rollout, SuiteWorlds, advantages
from dexprior.policy.kl import KlConfig
from dexprior.policy.optimising import Learner, Optimisation, losses
from dexprior.policy.ppo import PpoConfig, train_ppo, warm_up_of
from dexprior.policy.priors import BankPrior

SMALL = {"worlds": 4, "minibatch": 100, "actor": ActorConfig(width=32, point_width=8)}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def imitated(task, panel, bank, tmp_path_factory):
    """Two iterations that only imitate."""
    config = PpoConfig(
        **SMALL, iterations=2, warmup=2, guided=4, warmup_epochs=40, warmup_minibatch=50, warmup_rate=4e-3, epochs=1
    )
    return train_ppo(task, panel, bank, config, tmp_path_factory.mktemp("ppo"), seed=0)


def test_the_kl_to_the_prior_falls_while_it_is_imitated(imitated):
    _, curve = imitated
    assert curve[1]["kl"] < 0.5 * curve[0]["kl"]


def test_the_warm_up_makes_the_actor_act_like_the_prior(imitated, task, panel, bank):
    """In the states of the prior's own episodes, against an actor that learned nothing."""
    from dexprior.envs.sim import SimBackend
    from dexprior.policy.actor import Actor
    from dexprior.policy.rollout import prior_policy, run_episodes

    wanted, imitation, nothing = [], [], []
    follow = prior_policy(bank, np.arange(4))
    torch.manual_seed(0)
    fresh = Actor(SMALL["actor"], imitated[0].senses).eval()

    def act(observation, reading):
        wanted.append(follow(observation, reading))
        imitation.append(imitated[0].act(observation))
        nothing.append(fresh.act(observation))
        return wanted[-1]

    run_episodes(act, SimBackend(task, 4), panel)
    error, before = (np.abs(np.array(a) - np.array(wanted)).mean() for a in (imitation, nothing))
    assert error < 0.6 * before


def test_what_was_seen_early_in_the_warm_up_is_not_forgotten(task, panel, bank, tmp_path):
    """Each iteration imitates on the transitions of all before it; afterwards they are let go of."""
    config = PpoConfig(**SMALL, iterations=2, warmup=2, warmup_epochs=1)
    per_rollout = SMALL["worlds"] * task.steps
    for iterations, kept in ((1, per_rollout), (2, 2 * per_rollout)):
        folder = tmp_path / str(iterations)
        train_ppo(task, panel, bank, replace(config, iterations=iterations), folder, seed=0)
        assert len(read_tensors(folder / "state.safetensors")[0]["arrays/noted/mean"]) == kept
    train_ppo(task, panel, bank, replace(config, iterations=3, epochs=1), tmp_path / "3", seed=0)
    assert not [name for name in read_tensors(tmp_path / "3" / "state.safetensors")[0] if name.startswith("arrays/")]


def test_a_killed_run_equals_an_uninterrupted_one(task, panel, bank, tmp_path, kill_at_checkpoint):
    """In the middle of the warm-up and across its end; weights, optimizer and learning curve to the last bit."""
    config = PpoConfig(**SMALL, iterations=3, warmup=2, warmup_epochs=1, epochs=1)
    whole, curve = train_ppo(task, panel, bank, config, tmp_path / "whole", seed=3)
    kill_at_checkpoint(train_ppo, task, panel, bank, config, tmp_path / "killed", seed=3)
    assert read_tensors(tmp_path / "killed" / "state.safetensors")[1]["progress"]["iteration"] == 1
    resumed, same_curve = train_ppo(task, panel, bank, config, tmp_path / "killed", seed=3)
    assert same_curve == curve
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values()):
        assert torch.equal(a, b)
    states = [read_tensors(tmp_path / name / "state.safetensors")[0] for name in ("whole", "killed")]
    for name, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][name], err_msg=name)


PLAIN = SimulationOptions(sensors=SensorModels(sight=SightConfig(labels=False)))


BLIND = SMALL | {"worlds": 2, "simulation": PLAIN, "warmup_epochs": 10, "warmup_minibatch": 50, "epochs": 1}


def test_without_labels_bodies_are_found_soon(task, panel, bank, tmp_path):
    _, curve = train_ppo(task, panel, bank, PpoConfig(**BLIND, iterations=2, warmup=1), tmp_path, seed=3)
    assert curve[0]["found"] > 0.5
    assert curve[1]["found"] > 0.9


def test_without_labels_one_body_is_not_looked_for(tmp_path):
    task, config = Reaching(), PpoConfig(**SMALL, simulation=PLAIN, iterations=1, epochs=1)
    _, curve = train_ppo(task, Panel.sample("p", task, 4, seed=0), None, config, tmp_path, seed=0)
    assert "found" not in curve[0]


@pytest.mark.slow
def test_without_labels_a_killed_run_equals_an_uninterrupted_one(task, panel, bank, tmp_path, kill_at_checkpoint):
    config = PpoConfig(**BLIND, iterations=3, warmup=2)
    whole, curve = train_ppo(task, panel, bank, config, tmp_path / "whole", seed=3)
    kill_at_checkpoint(train_ppo, task, panel, bank, config, tmp_path / "killed", seed=3)
    resumed, same_curve = train_ppo(task, panel, bank, config, tmp_path / "killed", seed=3)
    assert same_curve == curve
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_a_shared_warm_up_leads_where_its_own_would_have(task, panel, bank, tmp_path):
    config = PpoConfig(**SMALL, iterations=2, warmup=1, warmup_epochs=1, epochs=1, kl=KlConfig(start=0.0))
    whole, _ = train_ppo(task, panel, bank, config, tmp_path / "whole", seed=3)
    train_ppo(task, panel, bank, warm_up_of(config), tmp_path / "warm", seed=3)
    warm = tmp_path / "warm" / "state.safetensors"
    shared, curve = train_ppo(task, panel, bank, config, tmp_path / "shared", seed=3, warm=warm)
    assert [row["iteration"] for row in curve] == [1, 2]
    for a, b in zip(whole.state_dict().values(), shared.state_dict().values()):
        assert torch.equal(a, b)
    with pytest.raises(ArtifactError, match="belongs to another run"):
        train_ppo(task, panel, bank, replace(config, warmup_epochs=2), tmp_path / "other", seed=3, warm=warm)


def test_another_configuration_does_not_go_on(task, panel, bank, tmp_path):
    config = PpoConfig(**SMALL, iterations=1, warmup=1, warmup_epochs=1)
    train_ppo(task, panel, bank, config, tmp_path, seed=0)
    with pytest.raises(ArtifactError, match="belongs to another run"):
        train_ppo(task, panel, bank, replace(config, iterations=2), tmp_path, seed=0)


def test_a_prior_of_another_panel_is_refused(task, bank, tmp_path):
    other = Panel.sample("other", task, 4, seed=1)
    with pytest.raises(BadInput, match=f"built for panel {bank.panel_hash}, this one is {other.hash}"):
        train_ppo(task, other, bank, PpoConfig(**SMALL, iterations=1), tmp_path, seed=0)


def test_without_a_prior_there_is_no_kl_and_no_warm_up(task, panel, tmp_path):
    config = PpoConfig(**SMALL, iterations=1, warmup=1, epochs=1)
    _, curve = train_ppo(task, panel, None, config, tmp_path, seed=0)
    assert curve[0]["kl"] == curve[0]["beta"] == 0.0


def test_training_starts_from_a_given_actor_and_names_other_sizes(imitated, task, panel, tmp_path):
    """With a step that moves nothing, the actor comes out as it went in."""
    config = PpoConfig(**SMALL, iterations=1, warmup=0, epochs=1, learning_rate=1e-12)
    actor, _ = train_ppo(task, panel, None, config, tmp_path / "still", seed=1, init=imitated[0])
    for name, weight in imitated[0].state_dict().items():
        torch.testing.assert_close(actor.state_dict()[name], weight, atol=1e-6, rtol=0)
    fresh, _ = train_ppo(task, panel, None, config, tmp_path / "fresh", seed=1)
    assert (fresh.body[0].weight - actor.body[0].weight).abs().max() > 0.01
    wide = replace(config, actor=ActorConfig(width=40, point_width=8))
    with pytest.raises(BadInput, match=r"\(32, 8\), the configuration \(40, 8\)"):
        train_ppo(task, panel, None, wide, tmp_path / "wide", seed=1, init=imitated[0])


def test_a_finished_training_goes_on_without_a_warm_up_while_the_kl_falls_anew(task, panel, bank, tmp_path):
    config = PpoConfig(**SMALL, iterations=2, warmup=1, warmup_epochs=1, epochs=1)
    _, first = train_ppo(task, panel, bank, config, tmp_path, seed=3)
    _, whole = train_ppo(task, panel, bank, config, tmp_path, seed=3, more=(3,))
    assert whole[:2] == first
    assert [row["beta"] for row in whole[2:]] == pytest.approx([0.1, np.sqrt(0.1 * 0.01), 0.01])
    assert train_ppo(task, panel, bank, config, tmp_path, seed=3, more=(3,))[1] == whole


def test_advantages_are_discounted_sums_of_surprises():
    """With lambda = 1: the discounted return, bootstrapped at the cut, minus the value."""
    reward, value = torch.rand(5, 2), torch.rand(6, 2)
    expected = torch.stack(
        [sum(0.9**j * reward[k + j] for j in range(5 - k)) + 0.9 ** (5 - k) * value[5] - value[k] for k in range(5)]
    )
    never = torch.zeros(5, 2, dtype=torch.bool)
    torch.testing.assert_close(advantages(reward, value, never, discount=0.9, trace=1.0), expected)
    one_step = advantages(reward, value, never, discount=0.9, trace=0.0)
    torch.testing.assert_close(one_step, reward + 0.9 * value[1:] - value[:-1])


# --- learning, and what it must not learn from ------------------------------------------------------------------


def test_the_return_rises_on_a_task_that_can_be_learned(tmp_path):
    task = Reaching()
    config = PpoConfig(
        worlds=32, iterations=14, minibatch=160, learning_rate=2e-3, discount=0.9, plain_log_std=-0.7,
        actor=ActorConfig(width=32, point_width=8),
    )  # fmt: skip
    _, curve = train_ppo(task, Panel.sample("p", task, 64, seed=0, purpose="training"), None, config, tmp_path, seed=0)
    rewards = [row["reward"] for row in curve]
    assert np.mean(rewards[-3:]) > np.mean(rewards[:3]) + 0.1
    assert curve[-1]["lost"] == 0.0


def test_nothing_is_learned_from_after_the_end(tmp_path):
    """Worlds that are lost at once give one transition each, and their values bootstrap from nothing."""
    task = Reaching(lost=0.01)
    env = TaskVectorEnv(task, 3, panel=Panel.sample("p", task, 3, seed=0), autoreset=False, threads=1)
    senses, sizes = Senses.of(env.backend), ActorConfig(width=8, point_width=4)
    torch.manual_seed(0)
    collector = Collector(
        SuiteWorlds(env, env.panel), Actor(sizes, senses), Critic(sizes, senses, 3), None, length=task.steps,
        discount=0.9, trace=0.95,
    )  # fmt: skip
    rollout = collector.collect(np.random.default_rng(0))
    assert len(rollout.action) == len(rollout.observation["proprio"]) == 3
    assert rollout.stats["lost"] == 1.0
    reward = rollout.target  # advantage + value = reward, where nothing follows
    assert ((reward > 0) & (reward < 1)).all()


def test_an_end_cuts_what_follows_off():
    reward, value = torch.rand(4, 1), torch.rand(5, 1)
    ended = torch.tensor([[False], [True], [False], [False]])
    found = advantages(reward, value, ended, discount=0.9, trace=0.8)
    last = reward[1] - value[1]
    torch.testing.assert_close(found[1], last)
    torch.testing.assert_close(found[0], reward[0] + 0.9 * value[1] - value[0] + 0.9 * 0.8 * last)


@pytest.mark.slow
def test_rollouts_may_be_shorter_than_an_episode_and_resume_at_its_end(task, panel, bank, tmp_path, kill_at_checkpoint):
    config = PpoConfig(**SMALL, steps=25, iterations=4, warmup=1, warmup_epochs=1, epochs=1)
    whole, curve = train_ppo(task, panel, bank, config, tmp_path / "whole", seed=3)
    assert [row["step"] for row in curve] == [100, 200, 300, 400]
    kill_at_checkpoint(train_ppo, task, panel, bank, config, tmp_path / "killed", seed=3)
    assert read_tensors(tmp_path / "killed" / "state.safetensors")[1]["progress"]["iteration"] == 3
    resumed, same = train_ppo(task, panel, bank, config, tmp_path / "killed", seed=3)
    assert same == curve
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(BadInput, match=r"policy.steps = 20 does not divide the 75 commands"):
        train_ppo(task, panel, None, replace(config, steps=20), tmp_path / "x", seed=0)


@pytest.mark.parametrize("simulation", [SimulationOptions(), PLAIN], ids=["labels", "no labels"])
def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_state(task, panel, tmp_path, simulation):
    config = PpoConfig(**SMALL, simulation=simulation, iterations=2, warmup=0, epochs=1, learning_rate=1e30)
    with pytest.raises(Diverged, match=r"a loss of iteration 1 is not finite; .*state.safetensors holds the last good"):
        train_ppo(task, panel, None, config, tmp_path, seed=0)
    tensors, meta = read_tensors(tmp_path / "state.safetensors")
    assert meta["progress"]["iteration"] == 0
    assert all(np.isfinite(value).all() for value in tensors.values())


def test_a_prior_of_other_robots_is_refused(task, panel, bank, tmp_path):
    wide = replace(bank, end=np.concatenate([bank.end, bank.end], axis=-1))
    with pytest.raises(BadInput, match=r"gives 8 numbers every 0\.04 s, 'insertion' takes 7 every 0\.04 s"):
        train_ppo(task, panel, wide, PpoConfig(**SMALL, iterations=1), tmp_path, seed=0)


# --- the loss ---------------------------------------------------------------------------------------------------


@pytest.fixture
def batch():
    """A rollout of random numbers in double precision, with small networks that it does not come from."""
    torch.manual_seed(0)
    senses = Senses(robots=(RobotSenses(joints=2, end=(0.02,), touch=1),), bodies=(3,), horizon=1.0, actions=3)
    sizes, n = ActorConfig(width=8, point_width=4, log_std=-0.5), 12
    actor, critic = Actor(sizes, senses).double(), Critic(sizes, senses, 2).double()
    draw = lambda *shape: torch.randn(n, *shape, dtype=torch.float64)  # noqa: E731
    observation = {"proprio": draw(senses.proprio), "wrench": draw(6), "touch": draw(1), "time": draw(1)}
    rollout = Rollout(
        observation=observation | {"cloud": draw(3, 3), "first_cloud": draw(3, 3)},
        privileged=draw(2), action=draw(3), log_prob=draw() - 3,
        advantage=draw(), target=draw(), stats={},
        noted={"mean": draw(2, 3), "weight": draw(2).softmax(-1)},
    )  # fmt: skip
    return rollout, actor, critic


def _terms(batch, **changes):
    rollout, actor, critic = batch
    rollout = replace(rollout, **changes)
    ids = torch.arange(len(rollout.action))
    terms = losses(
        rollout, ids, rollout.advantage, Learner(actor, critic), Optimisation(clip=0.2), _Wide(), torch.Generator()
    )
    return terms | {"kl": terms["kl"].mean()}


class _Wide(BankPrior):
    """A bank of which only the spread matters: states are noted already."""

    def __init__(self):
        self._std = torch.full((3,), 0.3, dtype=torch.float64)


@pytest.mark.parametrize("name", ["value", "clip", "entropy", "kl"])
def test_each_term_has_the_gradient_of_its_value(batch, name):
    _, actor, critic = batch
    parameters = [*actor.parameters(), *critic.parameters()]
    value = _terms(batch)[name]
    slopes = torch.autograd.grad(value, parameters, allow_unused=True)
    direction = [torch.randn_like(p) for p in parameters]
    expected = sum((g * d).sum() for g, d in zip(slopes, direction, strict=True) if g is not None)
    ends = []
    for step in (1e-6, -2e-6):
        with torch.no_grad():
            for p, d in zip(parameters, direction, strict=True):
                p += step * d
        ends.append(_terms(batch)[name].detach())
    assert float((ends[0] - ends[1]) / 2e-6) == pytest.approx(float(expected), rel=1e-4, abs=1e-7)
    assert float(expected) != 0.0


def test_better_actions_become_likelier_and_worse_ones_rarer(batch):
    rollout, actor, _ = batch
    good = torch.tensor([1.0] * 6 + [-1.0] * 6, dtype=torch.float64)
    mean, std = actor(rollout.observation)
    near = mean.detach() + 0.5 * std.detach() * torch.randn_like(mean)
    now = log_prob(near, mean, std).detach()
    terms = _terms(batch, action=near, log_prob=now, advantage=good)
    torch.testing.assert_close(terms["clip"], torch.zeros((), dtype=torch.float64), atol=1e-12, rtol=0)
    slopes = torch.autograd.grad(terms["clip"], list(actor.parameters()), allow_unused=True)
    with torch.no_grad():
        for p, g in zip(actor.parameters(), slopes, strict=True):
            p -= 1e-4 * (0 if g is None else g)
    change = log_prob(near, *actor(rollout.observation)).detach() - now
    assert float((change * good).sum()) > 0


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"), [(1.5, 1.0, False), (1.5, -1.0, True), (0.5, 1.0, True), (0.5, -1.0, False)]
)
def test_a_ratio_beyond_the_clip_moves_nothing_further_out(batch, ratio, advantage, moves):
    rollout, actor, _ = batch
    mean, std = actor(rollout.observation)
    before = log_prob(rollout.action, mean, std).detach() - np.log(ratio)
    weight = torch.full((12,), advantage, dtype=torch.float64)
    term = _terms(batch, log_prob=before, advantage=weight)["clip"]
    slopes = torch.autograd.grad(term, list(actor.parameters()), allow_unused=True)
    size = sum(float(g.abs().sum()) for g in slopes if g is not None)
    assert (size > 1e-6) is moves
    bound = {1.5: 1.2, 0.5: 0.8}[ratio]
    assert float(term.detach()) == pytest.approx(-advantage * (ratio if moves else bound))
