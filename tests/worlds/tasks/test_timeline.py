"""Events within an episode."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.families import Event, actuation
from dexprior.worlds.tasks import TaskWorlds, make_task

_TASK = make_task("pick_place")


def _worlds(events, *, family=None, threads: int = 1) -> TaskWorlds:
    n = len(events)
    worlds = TaskWorlds(_TASK, n, threads=threads, family=family)
    scene = _TASK.sample(np.random.default_rng(1), 1)
    values = worlds.family.as_dict(worlds.family.sample(np.random.default_rng(0), 1)[0])
    scenes = {name: np.repeat(value, n, axis=0) for name, value in scene.items()}
    worlds.reset(np.arange(n), scenes, [values] * n, events)
    return worlds


def _idle(worlds: TaskWorlds, steps: int) -> None:
    for _ in range(steps):
        worlds.step(np.zeros((worlds.n, worlds.action_size)))


def test_an_impulse_changes_the_momentum_by_itself():
    """On a table without friction a push of J gives m v = J, whatever the time that it takes."""
    slick = Event(kind="set", time=0.0, target="cube_friction", value=(0.0,))
    pushes = [Event(kind="push", time=0.2, target="cube", value=(0.0, 0.02, 0.0), duration=d) for d in (0.0, 0.12)]
    worlds = _worlds([(slick, pushes[0]), (slick, pushes[1]), (slick,)])
    _idle(worlds, 1)  # the event writes every friction of its world
    worlds.view.model_field("geom_friction")[:, worlds.model.geom("table").id] = 0.0
    _idle(worlds, 4)
    assert np.abs(worlds.view.velocity("cube")[:, 1]).max() < 1e-6
    _idle(worlds, 3)
    cube = worlds.model.body("cube").id
    mass = worlds.model.body_mass[cube] * worlds.view.parameters[0]["cube_mass"]
    np.testing.assert_allclose(mass * worlds.view.velocity("cube")[:, 1], [0.02, 0.02, 0.0], rtol=0.02, atol=1e-6)
    _idle(worlds, 1)
    assert not worlds.view.state_field("xfrc_applied").any()


def test_parameters_change_on_time_and_back():
    drop = Event(kind="set", time=0.10, target="pad_friction", value=(0.2,), duration=0.08)
    heavy = Event(kind="scale", time=0.08, target="cube_mass", value=(2.0,))
    worlds = _worlds([(drop, heavy), ()])
    pad, cube = worlds.model.geom("robot/pad_left").id, worlds.model.body("cube").id
    friction, mass = worlds.view.model_field("geom_friction"), worlds.view.model_field("body_mass")
    was, light = friction[0, pad, 0], mass[0, cube]
    seen = []
    for _ in range(6):
        _idle(worlds, 1)
        seen.append((friction[0, pad, 0], mass[0, cube] / light))
    np.testing.assert_allclose([s[0] for s in seen], [was, was, was, 0.2, 0.2, was])
    np.testing.assert_allclose([s[1] for s in seen], [1, 1, 2, 2, 2, 2])
    assert friction[1, pad, 0] == was
    assert mass[1, cube] == light
    assert worlds.view.parameters[0]["cube_mass"] == 2 * worlds.view.parameters[1]["cube_mass"]


def test_a_delay_can_come_and_go():
    family = _TASK.family.extended(*actuation(delay=(0.0, 0.08), backlash=(0.0, 0.0)))
    late = Event(kind="set", time=0.2, target="actuator_delay", value=(0.08,))
    worlds = _worlds([(late,), (Event(kind="set", time=0.0, target="actuator_delay", value=(0.0,)),)], family=family)
    for _ in range(10):
        worlds.step(np.tile([0.3, 0, 0, 0, 0, 0, 1.0], (2, 1)))
    behind = worlds.state()[0].tcp[:, 0]
    assert 0.2 * 0.15 * 0.08 < behind[1] - behind[0] < 2 * 0.15 * 0.08


def test_events_do_not_depend_on_other_worlds_and_survive_a_snapshot():
    events = [
        (Event(kind="scale", time=0.16, target="cube_mass", value=(3.0,)),),
        (
            Event(kind="push", time=0.12, target="cube", value=(0.01, 0.02, 0.0), duration=0.2),
            Event(kind="set", time=0.3, target="cube_friction", value=(0.1,)),
        ),
        (),
    ]
    many, one = _worlds(events, threads=2), _worlds(events[1:2])
    start = [dict(row) for row in many.view.parameters]
    actions = np.random.default_rng(3).uniform(-1, 1, (12, 3, 7))
    for action in actions[:5]:
        many.step(action)
        one.step(action[1:2])
    np.testing.assert_array_equal(many.view.qpos[1], one.view.qpos[0])
    kept = many.snapshot()
    for action in actions[5:]:
        many.step(action)
    other = TaskWorlds(_TASK, 3, threads=1)
    other.restore(kept, start, events)
    for action in actions[5:]:
        other.step(action)
    np.testing.assert_array_equal(many.view.qpos, other.view.qpos)
    assert np.linalg.norm(many.view.qpos[1] - many.view.qpos[2]) > 1e-3


def test_a_world_without_events_keeps_its_bits():
    plain = TaskWorlds(_TASK, 1, threads=1)
    values = _TASK.family.as_dict(_TASK.family.sample(np.random.default_rng(0), 1)[0])
    plain.reset(np.arange(1), _TASK.sample(np.random.default_rng(1), 1), [values])
    mixed = _worlds([(), (Event(kind="push", time=0.1, target="cube", value=(0.0, 0.02, 0.0)),)])
    for action in np.random.default_rng(2).uniform(-1, 1, (8, 1, 7)):
        plain.step(action)
        mixed.step(np.repeat(action, 2, axis=0))
    np.testing.assert_array_equal(plain.view.qpos[0], mixed.view.qpos[0])


def test_events_that_cannot_be_applied_are_refused():
    with pytest.raises(UnknownName, match="cube_friction"):
        _worlds([(Event(kind="set", time=0, target="colour", value=(1,)),)])
    with pytest.raises(UnknownName, match="cube"):
        _worlds([(Event(kind="push", time=0, target="moon", value=(0, 0, 1)),)])
    with pytest.raises(BadInput, match="'goal' does not move"):
        _worlds([(Event(kind="push", time=0, target="goal", value=(0, 0, 1)),)])
    worlds = _worlds([()])
    scenes = _TASK.sample(np.random.default_rng(0), 1)
    with pytest.raises(BadInput, match="events of 2 worlds, expected 1"):
        worlds.reset(np.arange(1), scenes, worlds.view.parameters, [(), ()])
