"""Sequential pushing: frames agree, rewards are what the task says, and Gymnasium's checker is content."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from dexprior.collision import RestitutionFriction
from dexprior.collision.planar import PlanarStriker
from dexprior.config import validate
from dexprior.envs.pushing import PushingEnv, PushingTask, PushingWorlds, Segments, judge, observe, strikes_from_action
from dexprior.errors import BadInput, ConfigError
from dexprior.worlds.pushing import PushingConfig

WORLD, TASK = PushingConfig(), PushingTask()


@pytest.fixture(scope="module")
def striker():
    return PlanarStriker(config=WORLD, model=RestitutionFriction(), phi=np.array([0.4, 0.2]))


def test_gymnasium_accepts_the_environment(striker):
    check_env(PushingEnv(striker), skip_render_check=True)


def test_many_worlds_are_the_single_world_many_times(striker):
    many = PushingWorlds(WORLD, TASK, striker, 4, seed=1)
    many.reset()
    start, turn = many.pose.copy(), many.turn.copy()
    action = np.random.default_rng(0).uniform(-1, 1, (4, 3))
    out = many.step(action)
    for k in range(4):
        one = PushingWorlds(WORLD, TASK, striker, 1)
        one.pose, one.turn = start[[k]].copy(), turn[[k]].copy()
        alone = one.step(action[[k]])
        np.testing.assert_allclose(alone.observation[0], out.observation[k], atol=1e-6)
        assert alone.reward[0] == pytest.approx(out.reward[k])


def test_the_policy_cannot_tell_where_in_the_world_a_segment_lies(striker):
    rng = np.random.default_rng(2)
    local = np.column_stack([rng.uniform(0, 0.3, 5), rng.uniform(-0.04, 0.04, 5), rng.uniform(-1, 1, 5)])
    segments = Segments(np.column_stack([rng.normal(size=(5, 2)), rng.uniform(-3, 3, 5)]), rng.uniform(-0.7, 0.7, 5))
    np.testing.assert_allclose(segments.local(segments.world(local)), local, atol=1e-12)
    strikes = strikes_from_action(TASK, WORLD, rng.uniform(-1, 1, (5, 3)))
    moved = segments.local(striker(segments.world(local), strikes))
    alone = striker(local, strikes)
    np.testing.assert_allclose(observe(TASK, moved, segments.turn), observe(TASK, alone, segments.turn), atol=1e-5)


def test_the_sub_goal_is_seen_from_the_object():
    pose = np.array([[0.1, 0.0, np.pi / 2]])  # looks along +y; the sub-goal lies to its right
    seen = observe(TASK, pose, np.array([np.pi / 2]))[0]
    np.testing.assert_allclose(seen, [1 / 3, 0, 0, -0.2 / 0.3, 1, 0], atol=1e-6)


def test_rewards_are_what_the_task_says():
    pose = np.array([[0.1, 0.0, 0.0], [0.3, 0.03, 0.5], [0.1, 0.05, 0.0], [-0.03, 0.02, 0.0], [0.36, 0.0, 0.0]])
    verdict = judge(TASK, pose, np.array([0.0, 0.2, 0.0, 0.0, 0.0]), np.array([1, 4, 1, 1, 1]))
    np.testing.assert_array_equal(verdict.reached, [False, True, False, False, False])
    np.testing.assert_array_equal(verdict.left, [False, False, True, False, True])
    assert verdict.reward[0] == pytest.approx(-0.2 / 0.3)
    assert verdict.reward[1] == pytest.approx(-0.1 + 3.0 * (1 - 0.3 / np.pi) + 2.0 * 0.5)
    assert verdict.reward[2] == pytest.approx(-np.hypot(0.2, 0.05) / 0.3 - 5.0)


def test_strikes_stay_on_the_arc_side():
    strikes = strikes_from_action(TASK, WORLD, np.array([[-9.0, 0.0, 0.0], [1.0, 1.0, 1.0]]))
    np.testing.assert_allclose(strikes.alpha, [-WORLD.max_alpha, WORLD.max_alpha])
    assert strikes.speed.max() == TASK.speed[1]


@pytest.mark.parametrize("action", [np.zeros((2, 2)), np.array([[0.0, np.nan, 0.0]])])
def test_bad_actions_are_refused(action):
    with pytest.raises(BadInput, match="pushing action"):
        strikes_from_action(TASK, WORLD, action)


def test_a_simulator_that_answers_nan_is_named():
    worlds = PushingWorlds(WORLD, TASK, lambda pose, strikes: pose * np.nan, 2)
    worlds.reset()
    with pytest.raises(BadInput, match="not finite"):
        worlds.step(np.zeros((2, 3)))


def test_bad_settings_are_refused():
    with pytest.raises(ConfigError, match="slowest < fastest"):
        PushingTask(speed=(1.0, 0.1))
    with pytest.raises(ConfigError, match="Did you mean 'reached'"):
        validate(PushingTask, {"reachd": 0.1})
