"""The insertion as a task of the suite: its rewards, what a critic sees, and its other world."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dexprior.worlds.insertion import engaged_depth
from dexprior.worlds.stepping import InsertionWorlds
from dexprior.worlds.tasks import Task, TaskWorlds, make_task
from dexprior.worlds.tasks.actions import MAX_TWIST
from dexprior.worlds.tasks.suite import expert_of

TASK = make_task("insertion")


def truth_at(nut_from_bolt: Any, tool_from_nut: Any = (0.0, 0.0, 0.0), *, held=True, slip=0.0) -> dict[str, Any]:
    """What is true with the nut there."""
    bolt = np.array([[0.45, 0.1, 0.0]])
    nut = np.concatenate([bolt + nut_from_bolt, [[1.0, 0.0, 0.0, 0.0]]], axis=1)
    return _completed({
        "object": nut, "bolt": bolt, "held": np.array([held]), "slip": np.array([slip]),
        "tool": nut[:, :3] + tool_from_nut,
    })  # fmt: skip


def random_truth(seed: int, n: int = 6) -> dict[str, Any]:
    """A nut, a bolt and a tool somewhere near each other."""
    rng = np.random.default_rng(seed)
    nut = rng.uniform(-0.1, 0.1, (n, 7))
    nut[:, 3:] = rng.normal(size=(n, 4))
    nut[:, 3:] /= np.linalg.norm(nut[:, 3:], axis=1, keepdims=True)
    return _completed({
        "object": nut, "bolt": rng.uniform(-0.05, 0.05, (n, 3)), "held": rng.random(n) > 0.5, "slip": rng.random(n),
        "tool": rng.uniform(-0.1, 0.1, (n, 3)),
    })  # fmt: skip


def _completed(truth: dict[str, Any]) -> dict[str, Any]:
    c = TASK.config
    goal = truth["bolt"] + [0.0, 0.0, c.bolt_height + c.height / 2]
    return truth | {"goal": goal, "depth": engaged_depth(c, truth["object"], truth["bolt"])}


@given(st.integers(0, 500))
def test_every_term_lies_between_zero_and_one(seed):
    for name, value in TASK.reward(random_truth(seed)).items():
        assert value.shape == (6,), name
        assert ((value >= 0) & (value <= 1 + 1e-12)).all(), name


def test_the_task_pays_more_the_further_it_gets():
    """Away, reached, grasped, lifted, carried, half way down, seated."""
    stages = [
        truth_at((0, -0.2, 0.012), (0, 0, 0.2), held=False),
        truth_at((0, -0.2, 0.012), held=False),
        truth_at((0, -0.2, 0.012)),
        truth_at((0, -0.1, 0.06)),
        truth_at((0, 0, 0.07)),
        truth_at((0, 0, 0.05)),
        truth_at((0, 0, 0.04)),
    ]
    totals = [float(TASK.reward(stage)["total"][0]) for stage in stages]
    assert (np.diff(totals) > 0).all(), totals
    assert [bool(TASK.success(stage)[0]) for stage in stages] == [False] * 6 + [True]
    assert [float(TASK.reward(stage)["sparse"][0]) for stage in stages] == [0.0] * 6 + [1.0]


def test_slipping_costs_the_still_term_only():
    firm, slipping = (TASK.reward(truth_at((0, 0, 0.07), slip=s)) for s in (0.0, 0.1))
    assert firm["still"][0] == 1
    assert slipping["still"][0] < 0.01
    assert all(firm[name][0] == slipping[name][0] for name in firm if name not in ("still", "total"))
    assert TASK.reward(truth_at((0, 0, 0.07), held=False))["still"][0] == 0


def test_a_critic_sees_the_nut_wherever_the_table_is():
    one, shift = random_truth(0), np.array([0.3, -0.2, 0.1])
    moved = one | {name: one[name] + shift for name in ("bolt", "goal", "tool")}
    moved["object"] = one["object"] + np.concatenate([shift, np.zeros(4)])
    assert TASK.privileged(one).shape == (6, 13)
    np.testing.assert_allclose(TASK.privileged(moved), TASK.privileged(one), atol=1e-12)


def test_the_other_world_has_another_friction_cone():
    """And further: injectors stay on, and a task that differs in parameters alone is its own."""
    assert TASK.other().config.cone == "elliptic"
    assert TASK.other().other() == TASK.other()
    cones = [task.layout().spec.compile().opt.cone for task in (TASK, TASK.other())]
    assert cones[0] != cones[1]
    lit = make_task("insertion", injectors={"light": 0.5}, injector_seed=2)
    assert lit.other() == make_task("insertion", cone="elliptic", injectors={"light": 0.5}, injector_seed=2)
    assert make_task("peg").other() == make_task("peg")


@pytest.mark.slow
@pytest.mark.parametrize("task", [TASK, TASK.other()], ids=["training", "other"])
def test_it_is_the_lines_world(task: Task):
    """64 episodes, the same actions in both: one world until something touches, one verdict in the end."""
    n, family = 64, task.family if task == TASK else task.reality
    scenes = task.sample(np.random.default_rng([0, 0]), n)
    values = [family.as_dict(row) for row in family.sample(np.random.default_rng([0, 1]), n)]
    suite = TaskWorlds(task, n, family=family, threads=1)
    line = InsertionWorlds(task.config, n, family=family, cone=task.config.cone, threads=1)
    suite.reset(np.arange(n), scenes, values)
    line.reset(np.arange(n), nut=scenes["nut"], nut_yaw=scenes["yaw"][:, None], bolt=scenes["bolt"], parameters=values)
    memory, touched, apart = np.zeros((n, 4)), np.zeros(n, dtype=bool), {"tool": 0.0, "wrench": 0.0, "nut": 0.0}
    for k in range(75):
        truth, rig, state = suite.truth(), suite.view.rigs[0], line.state()
        touched |= (rig.touch > 0).any(axis=1) | (state.touch > 0).any(axis=1)
        for name, ours, theirs in (
            ("tool", rig.tcp, state.tcp), ("wrench", rig.wrench, state.wrench), ("nut", truth["object"], state.nut)
        ):  # fmt: skip
            apart[name] = max(apart[name], float(np.abs((ours - theirs)[~touched]).max(initial=0.0)))
        action = expert_of("insertion")(truth, suite.view.rigs, k * task.control_dt, memory)
        suite.step(action)
        line.step(action[:, :6] * MAX_TWIST, (action[:, 6] + 1.0) / 2.0 * 0.08)
    truth, state = suite.truth(), line.state()
    solved = [task.success(truth), task.success(truth | {"object": state.nut})]
    print(f"{task.config.cone}: {apart}, solved {solved[0].sum()} and {solved[1].sum()} of {n}")
    assert touched.all()
    assert max(apart.values()) < 1e-9, apart
    np.testing.assert_array_equal(*solved)
    assert solved[0].mean() > 0.9
