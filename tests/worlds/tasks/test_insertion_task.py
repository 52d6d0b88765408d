"""The insertion as a task of the suite: its rewards, what a critic sees, and its other world."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dexprior.geometry.rotations import matrix_from_quat
from dexprior.robots.arm7 import HOME, MAX_OPENING
from dexprior.worlds.tasks import RigState, RobotCommand, Scenes, Task, TaskWorlds, make_task
from dexprior.worlds.tasks.insertion import engaged_depth

TASK = make_task("insertion")
UP = np.array([0.0, 0.0, 1.0])


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


# --- its physics --------------------------------------------------------------------------------------------


def _worlds(task: Task = TASK, n: int = 2) -> tuple[TaskWorlds, Scenes]:
    family = task.family if task == TASK else task.reality
    worlds, scenes = TaskWorlds(task, n, family=family, threads=1), task.sample(np.random.default_rng(0), n)
    worlds.reset(np.arange(n), scenes, [family.as_dict(row) for row in family.sample(np.random.default_rng(1), n)])
    return worlds, scenes


def _steer(worlds: TaskWorlds, goal: np.ndarray, opening: float, steps: int) -> RigState:
    """Go to positions of the tool by proportional control; the wrench's force is then in base axes."""
    for _ in range(steps):
        arm = np.zeros((worlds.n, 6))
        arm[:, :3] = np.clip(6.0 * (goal - worlds.state()[0].tcp[:, :3]), -0.5, 0.5)
        worlds.drive((RobotCommand(arm, np.full((worlds.n, 2), opening / 2)),))
    rig = worlds.state()[0]
    force = (matrix_from_quat(rig.tcp[:, 3:]) @ rig.wrench[:, :3, None])[..., 0]
    return replace(rig, wrench=np.concatenate([force, rig.wrench[:, 3:]], axis=1))


def test_a_reset_is_home_open_and_tared():
    worlds, scenes = _worlds()
    rig, truth = worlds.state()[0], worlds.truth()
    np.testing.assert_array_equal(rig.q, np.tile(HOME, (2, 1)))
    np.testing.assert_allclose(rig.end.sum(axis=1), MAX_OPENING)
    np.testing.assert_array_equal(rig.wrench, np.zeros((2, 6)))
    np.testing.assert_allclose(truth["object"][:, :2], scenes["nut"][:, :2])
    np.testing.assert_array_equal(truth["bolt"], scenes["bolt"])


def test_pushing_onto_the_table_is_felt_as_a_force_upwards():
    worlds, _ = _worlds()
    free = worlds.state()[0].tcp[:, :3] * [1, 0, 0]
    assert np.abs(_steer(worlds, free + UP * 0.02, MAX_OPENING, 25).wrench[:, :3]).max() < 4.0
    force = _steer(worlds, free - UP * 0.03, MAX_OPENING, 15).wrench[:, :3]
    assert (force[:, 2] > 10.0).all()
    assert (force[:, 2] > 2 * np.linalg.norm(force[:, :2], axis=1)).all()


def test_a_held_nut_is_felt_as_its_weight():
    worlds, scenes = _worlds(TASK.other())
    nut = scenes["nut"] + UP * TASK.config.height / 2
    _steer(worlds, nut, MAX_OPENING, 25)
    _steer(worlds, nut, 0.02, 8)
    assert worlds.truth()["held"].all()
    force = _steer(worlds, nut + UP * 0.1, 0.02, 45).wrench[:, :3]
    truth = worlds.truth()
    assert (truth["object"][:, 2] > 0.08).all()
    weight = TASK.config.mass * 1.3 * 9.81
    np.testing.assert_allclose(force, np.tile([0, 0, -weight], (2, 1)), atol=0.1)
    assert (truth["slip"] < 2e-3).all()


def test_servos_follow_joint_positions_and_nothing_else():
    worlds, _ = _worlds()
    goal = worlds.state()[0].q + 0.05
    worlds.follow(goal, np.full((2, 2), 0.02), steps=150)
    rig = worlds.state()[0]
    np.testing.assert_allclose(rig.q, goal, atol=5e-3)
    np.testing.assert_allclose(rig.end, 0.02, atol=1e-3)
    np.testing.assert_allclose(worlds.view.time, 150 * TASK.config.timestep)
