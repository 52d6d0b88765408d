"""The one loop of worlds and whoever acts in them."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.worlds.tasks import SUITE, TaskWorlds, episode, expert_of, make_task

QUICK = tuple(name for name in SUITE if name not in ("folding", "nut_bolt"))


def _begun(name: str, n: int = 2) -> TaskWorlds:
    task = make_task(name)
    worlds = TaskWorlds(task, n, threads=1)
    parameters = [task.family.as_dict(row) for row in task.family.sample(np.random.default_rng(2), n)]
    worlds.reset(np.arange(n), task.sample(np.random.default_rng(1), n), parameters)
    return worlds


@pytest.mark.parametrize("name", QUICK)
def test_what_a_step_said_stays_said(name):
    """Whatever the worlds do next; and what is true after a step is what was before the next."""
    worlds, said, last = _begun(name), {}, {}
    for step in episode(worlds, expert_of(name), seconds=0.4):
        for key, value in said.items():
            np.testing.assert_array_equal(last[key], value)
            np.testing.assert_array_equal(step.before[key], value)
        said, last = {key: np.array(value) for key, value in step.truth.items()}, step.truth
    assert step.number == round(0.4 / worlds.task.control_dt) - 1


def test_an_episode_lasts_as_long_as_the_task_and_goes_on_only_when_asked():
    worlds = _begun("pick_place")
    steps = episode(worlds, lambda truth, robots, t, memory: np.zeros((2, 7)))
    assert worlds.view.time[0] == 0.0
    assert next(steps).number == 0
    assert worlds.view.time[0] == pytest.approx(worlds.task.control_dt)
    assert sum(1 for _ in steps) == worlds.task.steps - 1


def test_a_player_is_told_the_time_keeps_notes_and_is_cut_to_the_box():
    worlds, times = _begun("pick_place"), []

    def player(truth, robots, t, memory):
        times.append(t)
        memory[:, 0] += 1.0
        assert (memory[:, 0] == len(times)).all()
        return np.full((2, 7), 3.0)

    actions = [step.action for step in episode(worlds, player, seconds=0.2)]
    np.testing.assert_allclose(times, worlds.task.control_dt * np.arange(5))
    assert (np.array(actions) == 1.0).all()


@pytest.mark.parametrize(("action", "said"), [(np.zeros((2, 6)), "shape"), (np.full((2, 7), np.nan), "not finite")])
def test_actions_that_are_none_are_refused(action, said):
    with pytest.raises(BadInput, match=said):
        next(episode(_begun("pick_place"), lambda *told: action))
