"""Gymnasium environments as worlds: episodes, successes, chunks, and what cannot be used."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.policy.gym.worlds import EnvConfig, GymWorlds, make


def _run(worlds: GymWorlds, action: np.ndarray) -> list[np.ndarray]:
    worlds.begin_at(np.arange(worlds.n))
    return [worlds.step(action)[0].observation["state"] for _ in range(worlds.steps)]


def test_worlds_are_the_environment_itself():
    worlds, env = GymWorlds("Point-v0", 3, EnvConfig()), gymnasium.make("Point-v0")
    action = np.array([[0.5, 0.5], [-0.5, 0.1], [0.2, 0.0]])
    seen = _run(worlds, action)
    for k in range(3):
        state, _ = env.reset(seed=k)
        total = 0.0
        for step in range(12):
            state, reward, *_ = env.step(2.0 * action[k].astype(np.float32))  # of [-2, 2]
            np.testing.assert_allclose(seen[step][k], state, atol=1e-6)
            total += reward
        assert worlds.returned[k] == pytest.approx(total, rel=1e-6)


def test_a_chunk_is_its_actions_one_after_the_other():
    single, chunked = GymWorlds("Point-v0", 2, EnvConfig()), GymWorlds("Point-v0", 2, EnvConfig(chunk=4))
    actions = np.random.default_rng(0).uniform(-0.3, 0.3, (12, 2, 2))
    single.begin_at(np.arange(2))
    chunked.begin_at(np.arange(2))
    assert (single.steps, chunked.steps) == (12, 3)
    rewards = np.array([single.step(action)[1] for action in actions])
    for k in range(3):
        part = actions[4 * k : 4 * k + 4]
        seen, reward, _ = chunked.step(part.swapaxes(0, 1).reshape(2, 8))
        np.testing.assert_allclose(reward, rewards[4 * k : 4 * k + 4].sum(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(seen.observation["state"], single._seen().observation["state"])


def test_success_counts_the_steps_that_the_rule_asks_for():
    for steps, won in ((1, True), (6, True), (12, False)):
        worlds = GymWorlds("Point-v0", 1, EnvConfig(success_steps=steps))
        worlds.begin_at(np.zeros(1))
        for _ in range(12):
            here = worlds._seen().observation["state"]
            worlds.step(np.clip(5.0 * (0.6 - here), -1, 1))
        assert worlds.success[0] == won, steps


def test_an_environment_that_does_not_say_has_no_success():
    worlds = GymWorlds("PointSilent-v0", 2, EnvConfig())
    _run(worlds, np.zeros((2, 2)))
    assert np.isnan(worlds.success).all()


def test_an_episode_that_ends_early_waits_for_the_others():
    worlds = GymWorlds("PointEnds-v0", 2, EnvConfig(reward_scale=0.5))
    worlds.begin_at(np.arange(2))
    ended, rewards = [], []
    for _ in range(12):
        _, reward, over = worlds.step(np.zeros((2, 2)))
        ended.append(over)
        rewards.append(reward)
    assert np.array(ended).sum(axis=0).tolist() == [1, 1]
    assert ended[4].all()
    assert not np.array(rewards[5:]).any()
    np.testing.assert_allclose(0.5 * worlds.returned, np.sum(rewards, axis=0))


def test_named_observations_become_flat_and_the_horizon_can_be_set():
    worlds = GymWorlds("PointNamed-v0", 1, EnvConfig(horizon=5))
    assert (worlds.size, worlds.actions, worlds.steps) == (4, 2, 5)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("CartPole-v1", r"takes actions of Discrete\(2\); a policy gives numbers"),
        ("PointForever-v0", r"has no limit of steps; set env\.horizon"),
    ],
)
def test_environments_that_cannot_be_used_say_why(name, said):
    with pytest.raises(BadInput, match=said):
        make(name)


@pytest.mark.parametrize("name", ["Poimt-v0", "Point-v7", "no_such_module:Point-v0"])
def test_an_unknown_environment_is_named_with_the_choices(name):
    with pytest.raises(UnknownName, match=f"unknown environment {name!r}.*Point-v0"):
        make(name)


def test_a_chunk_longer_than_an_episode_is_refused():
    with pytest.raises(BadInput, match=r"env\.chunk = 13: more actions at once than the 12 steps"):
        GymWorlds("Point-v0", 1, EnvConfig(chunk=13))


@pytest.mark.parametrize("task", ["Door", "Hammer", "Relocate", "Pen"])
def test_the_dense_adroit_rewards_are_refused(task):
    pytest.importorskip("gymnasium_robotics", reason="needs gymnasium-robotics")
    with pytest.raises(BadInput, match=rf"wrong sign.* take AdroitHand{task}Sparse-v1"):
        make(f"AdroitHand{task}-v1")
