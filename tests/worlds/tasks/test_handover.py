"""The person of the hand-over, and what their habits do."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.worlds.tasks import TaskWorlds, expert_of, make_task

_OPEN = np.array([0, 0, 0, 0, 0, 0, 1.0])


def _start(n: int = 2, **injectors: float) -> TaskWorlds:
    task = make_task("handover", injectors=injectors)
    worlds = TaskWorlds(task, n, threads=1)
    rows = [task.family.as_dict(row) for row in task.family.sample(np.random.default_rng(1), n)]
    worlds.reset(np.arange(n), task.sample(np.random.default_rng(0), n), rows)
    return worlds


def _path(worlds: TaskWorlds, steps: int, action: np.ndarray = _OPEN) -> dict[str, np.ndarray]:
    rows = []
    for _ in range(steps):
        worlds.step(np.tile(action, (worlds.n, 1)))
        truth = worlds.truth()
        rows.append((truth["object"][:, 0], truth["hand"], truth["released"]))
    return dict(zip(("x", "hand", "released"), np.array(rows).transpose(1, 0, 2)))


def test_a_person_waits_with_the_bar_in_the_hand():
    worlds = _start(3)
    path = _path(worlds, 120)
    assert (path["released"] == -1).all()
    assert (path["hand"] > 3.0).all()
    truth = worlds.truth()
    assert not worlds.task.failure(truth).any()
    offered = worlds.view.memory["person/offer"][:, :3]
    np.testing.assert_allclose(truth["object"][:, :3], offered, atol=0.02)
    assert np.ptp(path["x"][60:], axis=0).max() < 0.01


def test_what_the_person_does_depends_on_the_instance_and_the_time_alone():
    task, hand = make_task("handover", injectors={"odd_reach": 1.0, "hesitation": 1.0, "regrip": 1.0}), []
    for robot in (_OPEN, np.array([0.2, 0.1, 0.3, 0, 0, 0.2, 0.5])):
        worlds = TaskWorlds(task, 2, threads=1)
        rows = [task.family.as_dict(row) for row in task.family.sample(np.random.default_rng(1), 2)]
        worlds.reset(np.arange(2), task.sample(np.random.default_rng(0), 2), rows)
        commands = []
        for _ in range(60):
            worlds.step(np.tile(robot, (2, 1)))
            commands.append(worlds.view.ctrl[:, -27:].copy())  # the person's
        hand.append(np.array(commands))
    np.testing.assert_array_equal(hand[0], hand[1])
    assert np.abs(hand[0][0] - hand[0][-1]).max() > 0.1


def test_a_pinch_of_something_else_is_no_reason_to_let_go():
    """Pads that press each other, away from the bar, change nothing."""
    path = _path(_start(1), 70, np.array([0, 0, 0.2, 0, 0, 0, -1.0]))
    assert (path["released"] == -1).all()


def test_whoever_opens_after_the_hand_did_loses_the_bar():
    worlds = _start(2)
    memory, lost = np.zeros((2, 4)), np.zeros(2, dtype=bool)
    for k in range(140):
        truth = worlds.truth()
        action = expert_of("handover")(truth, worlds.view.rigs, 0.04 * k, memory)
        action[truth["released"] > 0.4] = _OPEN
        worlds.step(action)
        lost |= worlds.task.failure(worlds.truth())
        assert not worlds.task.success(worlds.truth()).any()
    assert lost.all()


def test_a_hesitating_person_draws_back():
    plain, hesitant = (_path(_start(4, **habit), 60)["x"] for habit in ({}, {"hesitation": 1.0}))
    back = [np.maximum(np.diff(x, axis=0), 0.0).sum(axis=0) for x in (plain, hesitant)]  # the reach goes along -x
    assert back[0].max() < 0.01
    assert back[1].max() > 0.03


def test_an_odd_reach_ends_elsewhere():
    plain, odd = (
        make_task("handover", injectors=habit).sample(np.random.default_rng(0), 200)
        for habit in ({}, {"odd_reach": 1.0})
    )
    assert np.abs(plain["offer"][:, 1]).max() <= 0.02
    assert 0.03 < np.abs(odd["offer"][:, 1]).max() <= 0.08
    assert not plain["tilt"].any()
    assert 0.2 < np.abs(odd["tilt"]).max() <= 0.3
    np.testing.assert_array_equal(plain["start"], odd["start"])  # a switch draws nothing for the others


def test_a_regrip_loosens_the_fingers_and_closes_them_again():
    worlds = _start(4, regrip=1.0)
    hand = _path(worlds, 90)["hand"]
    during = np.rint((worlds.view.memory["person/regrip"][:, 0] + 0.25) / 0.04).astype(int)
    loose = np.array([hand[k - 3 : k + 4, i].min() for i, k in enumerate(during)])
    assert (loose < 0.6 * hand[20]).all()
    assert (hand[-1] > 0.8 * hand[20]).all()


def test_people_are_asked_of_tasks_that_have_them():
    with pytest.raises(BadInput, match="no person in this task"):
        make_task("peg", injectors={"hesitation": 0.5})
    assert make_task("handover", injectors={"regrip": 0.5}).config.regrip == 0.5
