"""What may stand behind task worlds in MuJoCo's batch's place, and MuJoCo Warp in particular."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from dexprior.errors import BadInput, MissingExtra, UnknownName
from dexprior.worlds.tasks import SUITE, Task, TaskWorlds, make_task
from dexprior.worlds.tasks.pick_place import PickPlace

_SEAM = {"model", "nsim", "state", "bind", "expand", "reset", "forward", "step", "get_model", "get_data"}


class _Narrow:
    """An engine with nothing but the seam."""

    def __init__(self, batch) -> None:
        self._batch, self.asked = batch, set()

    def __getattr__(self, name: str):
        self.asked.add(name)
        if name not in _SEAM:
            raise AttributeError(name)
        return getattr(self._batch, name)


class _Behind(PickPlace):
    def engine(self, batch):
        return _Narrow(batch)


@pytest.fixture
def absent(monkeypatch):
    """MuJoCo Warp is not installed."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "mujoco_warp" else find(name))


def _begin(task: Task, n: int, **options) -> TaskWorlds:
    worlds = TaskWorlds(task, n, threads=1, **options)
    rows = task.family.sample(np.random.default_rng(1), n)
    scenes = task.sample(np.random.default_rng(0), n)
    worlds.reset(np.arange(n), scenes, [task.family.as_dict(row) for row in rows])
    return worlds


def test_ten_names_are_all_that_worlds_ask_of_an_engine():
    narrow, plain = _begin(_Behind(), 2), _begin(PickPlace(), 2)
    for worlds in (narrow, plain):
        for action in np.random.default_rng(2).uniform(-1, 1, (5, 2, worlds.action_size)):
            worlds.step(action)
        worlds.restore(worlds.snapshot(), list(worlds.view.parameters))
        worlds.data(1)
    assert np.array_equal(narrow.snapshot()["mujoco"], plain.snapshot()["mujoco"])
    assert np.array_equal(narrow.view.sensordata, plain.view.sensordata)
    assert narrow._batch.asked == _SEAM - {"model"}  # the worlds have their own


@pytest.mark.parametrize("name", SUITE)
def test_tasks_that_it_steps_are_those_named(name, absent):
    with pytest.raises(MissingExtra if SUITE[name].warp else BadInput):
        TaskWorlds(make_task(name), 1, physics="warp")


def test_an_absent_package_is_a_line_to_install_it(absent):
    with pytest.raises(MissingExtra, match=r"'peg' with physics='warp' needs .*pip install 'dexprior\[warp\]'"):
        TaskWorlds(make_task("peg"), 1, physics="warp")


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("soft_grasp", {}, "a flex"),
        ("folding", {"engine": "particles"}, "part of it is stepped by ParticleBatch"),
    ],
)
def test_what_it_cannot_step_is_named_with_what_it_can(name, settings, reason):
    with pytest.raises(BadInput) as caught:
        TaskWorlds(make_task(name, **settings), 1, physics="warp")
    assert str(caught.value) == (
        f"task {name!r} cannot be stepped by MuJoCo Warp: {reason}. "
        "Tasks that can: cube_in_hand, handover, insertion, nut_bolt, peg, pick_place, wipe; "
        "physics='mujoco' steps every task"
    )


def test_physics_has_a_name():
    with pytest.raises(UnknownName, match=r"unknown physics 'wrap'; did you mean 'warp'"):
        TaskWorlds(make_task("peg"), 1, physics="wrap")


@pytest.mark.slow
def test_it_steps_as_mujoco_does_in_single_precision():
    pytest.importorskip("mujoco_warp", reason="mujoco_warp is not installed: pip install 'dexprior[warp]'")
    task = make_task("peg")
    sides = [_begin(task, 3, physics=physics) for physics in ("mujoco", "warp")]
    sides[1].restore(sides[0].snapshot(), list(sides[0].view.parameters))
    for tolerance in (1e-5, 1e-4, 1e-3):  # [m, rad] the peg is in the fingers
        for worlds in sides:
            worlds.step(np.full((3, worlds.action_size), -0.1))
        np.testing.assert_allclose(sides[1].view.qpos, sides[0].view.qpos, atol=tolerance)
    np.testing.assert_allclose(sides[1].view.time, sides[0].view.time, atol=1e-12)


@pytest.mark.slow
def test_it_finds_room_for_contacts_and_leaves_other_worlds_alone():
    pytest.importorskip("mujoco_warp", reason="mujoco_warp is not installed: pip install 'dexprior[warp]'")
    task = make_task("peg")
    wide, narrow = (_begin(task, 3, physics="warp") for _ in range(2))
    narrow._batch._room, narrow._batch._data = (3, 9), None  # of the 12 contacts of a held peg
    for worlds in (wide, narrow):
        worlds.step(np.zeros((3, worlds.action_size)))
    assert np.array_equal(wide.view.qpos, narrow.view.qpos)
    before = narrow.view.qpos.copy()
    narrow.reset(np.array([1]), task.sample(np.random.default_rng(5), 1), [narrow.view.parameters[0]])
    assert np.array_equal(narrow.view.qpos[[0, 2]], before[[0, 2]])
    assert not np.array_equal(narrow.view.qpos[1], before[1])
