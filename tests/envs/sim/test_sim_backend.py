"""Simulated worlds as a backend: what they read is their own, and what policies see of it has names."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.envs.base import FirstLook, ObservationSpec, Reading, tracked
from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.envs.tasks import TaskVectorEnv
from dexprior.errors import ArtifactError, BadInput
from dexprior.worlds.tasks import make_task

TASK = make_task("insertion")


@pytest.fixture(scope="module")
def panel() -> Panel:
    return Panel.sample("test", TASK, 5, seed=0)


def rows(reading: Reading, ids) -> list[np.ndarray]:
    parts = [reading.t, reading.cloud, *reading.truth.values()]
    parts += [value for robot in reading.robots for value in vars(robot).values()]
    return [part[ids] for part in parts]


def play(backend: SimBackend, panel: Panel, actions: np.ndarray) -> list[Reading]:
    return [backend.reset(panel), *(backend.step(backend.actions.commands(action)) for action in actions)]


def test_a_world_reads_alike_whoever_is_beside_it(panel):
    actions = np.random.default_rng(0).uniform(-1, 1, (8, 3, 7))
    many = play(SimBackend(TASK, 3, threads=2), panel.take([4, 1, 2]), actions)
    alone = play(SimBackend(TASK, 1, threads=1), panel.take([1]), actions[:, 1:2])
    for one, other in zip(many, alone, strict=True):
        for mine, its in zip(rows(one, [1]), rows(other, [0]), strict=True):
            np.testing.assert_array_equal(mine, its)


def test_some_worlds_start_afresh_and_the_others_go_on(panel):
    backend = SimBackend(TASK, 3, threads=1)
    later = play(backend, panel.take([0, 1, 2]), np.full((4, 3, 7), 0.3))[-1]
    mixed = backend.reset(panel.take([4]), np.array([1]))
    fresh = SimBackend(TASK, 1, threads=1).reset(panel.take([4]))
    for was, now, new in zip(rows(later, [0, 2]), rows(mixed, [0, 2]), rows(fresh, [0]), strict=True):
        np.testing.assert_array_equal(was, now)
        assert new.shape[1:] == now.shape[1:]
    for now, new in zip(rows(mixed, [1]), rows(fresh, [0]), strict=True):
        np.testing.assert_array_equal(now, new)
    assert mixed.t.tolist() == [0.16, 0.0, 0.16]


def test_panels_of_other_tasks_or_sizes_are_refused(panel):
    backend = SimBackend(TASK, 2, threads=1)
    with pytest.raises(BadInput, match="5 instances for 2 worlds"):
        backend.reset(panel)
    with pytest.raises(BadInput, match="is of task 'peg', not 'insertion'"):
        backend.reset(Panel.sample("p", make_task("peg"), 2, seed=0))


def test_every_column_of_what_policies_see_has_its_name(panel):
    backend = SimBackend(TASK, 2, threads=1)
    reading = backend.reset(panel.take([0, 1]))
    spec = ObservationSpec.of(backend)
    shown = spec.observe(reading, reading.cloud)
    assert {name: value.shape[1:] for name, value in shown.items()} == spec.shapes
    assert {value.dtype for value in shown.values()} == {np.dtype(np.float32)}
    (columns,), (robot,) = spec.columns, reading.robots
    for name, value in (("q", robot.q), ("qd", robot.qd), ("position", robot.tcp[:, :3]), ("end", robot.end)):
        np.testing.assert_allclose(shown["proprio"][:, columns[name]], value, atol=1e-6)
    flipped = dataclasses.replace(robot, tcp=robot.tcp * np.r_[1, 1, 1, -1, -1, -1, -1])
    turned = spec.observe(dataclasses.replace(reading, robots=(flipped,)), reading.cloud)
    np.testing.assert_array_equal(turned["proprio"], shown["proprio"])  # a quaternion and its negative look the same


def test_policies_see_the_object_only_with_a_tracker(panel):
    backend = SimBackend(TASK, 1, threads=1)
    reading = backend.reset(panel.take([0]))
    blind, seeing = ObservationSpec.of(backend), ObservationSpec.of(backend, tracker=True)
    other = dataclasses.replace(reading, truth=None)
    shown = [blind.observe(one, reading.cloud).values() for one in (reading, other)]
    for a, b in zip(*shown, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(seeing.observe(reading, reading.cloud)["object"], reading.truth["object"], atol=1e-6)
    for ask in (tracked, lambda one: seeing.observe(one, one.cloud)):
        with pytest.raises(BadInput, match=r"nothing tracks the object in this world: .*; add a tracker"):
            ask(other)


def test_readings_are_equal_when_every_array_is(panel):
    one, other = (SimBackend(TASK, 1, threads=1).reset(panel.take([0])) for _ in range(2))
    assert one == other
    assert one != dataclasses.replace(one, truth=None)
    robot = dataclasses.replace(one.robots[0], touch=one.robots[0].touch + 1.0)
    assert one != dataclasses.replace(one, robots=(robot,))
    assert one != "a reading"


def test_without_a_tracker_an_environment_gives_no_reward(panel):
    class Blind(SimBackend):
        def _read(self) -> Reading:
            return dataclasses.replace(super()._read(), truth=None)

    env = TaskVectorEnv(TASK, 2, panel=panel, backend=Blind(TASK, 2, threads=1))
    _, info = env.reset()
    _, reward, terminated, truncated, info = env.step(np.zeros((2, 7)))
    assert not reward.any()
    assert not terminated.any()
    assert not truncated.any()
    assert set(info) == {"reading"}
    with pytest.raises(BadInput, match="a backend of 2 worlds of 'insertion', expected 3 of 'insertion'"):
        TaskVectorEnv(TASK, 3, backend=Blind(TASK, 2, threads=1))


def test_a_panel_moves_to_another_world_and_keeps_its_scenes(panel):
    moved = panel.moved_to("there", TASK.reality, seed=3)
    assert moved.hash == panel.hash
    assert moved.family == TASK.reality
    assert moved.parameters.shape == (5, len(TASK.reality.names))
    np.testing.assert_array_equal(panel.moved_to("here", TASK.family, seed=3).parameters, panel.parameters)
    assert moved.moved_to("back", TASK.family, seed=3).name == "back"


def test_a_panel_of_an_older_version_names_what_makes_it_again(panel, tmp_path):
    path = panel.save(tmp_path / "panel.json")
    assert Panel.load(path).hash == panel.hash
    path.write_text(path.read_text().replace("dexprior.panel/2", "dexprior.panel/1"))
    with pytest.raises(ArtifactError, match=r"reads 'dexprior\.panel/2'\. Make it again: `dexprior build-behavior`"):
        Panel.load(path)
    path.write_text('{"name": "old", "family": {}, "instances": []}')
    with pytest.raises(ArtifactError, match="build-behavior"):
        Panel.load(path)


def test_a_first_look_is_the_mean_of_an_episode_s_first_clouds_in_each_world():
    look, rng = FirstLook(), np.random.default_rng(0)
    reading = SimBackend(TASK, 2, threads=1).reset(Panel.sample("p", TASK, 2, seed=0))
    clouds = rng.normal(size=(14, 2, TASK.points, 3)).astype(np.float32)
    clock = np.array([[k, k if k < 12 else k - 12] for k in range(14)]) * 0.04  # the second world begins again at 12
    found = [look.see(dataclasses.replace(reading, t=t, cloud=cloud)) for t, cloud in zip(clock, clouds, strict=True)]
    np.testing.assert_array_equal(found[0], clouds[0])
    np.testing.assert_allclose(found[4], clouds[:5].mean(0), atol=1e-6)
    np.testing.assert_allclose(found[11], clouds[:10].mean(0), atol=1e-6)  # what comes later changes nothing
    np.testing.assert_allclose(found[13][0], clouds[:10, 0].mean(0), atol=1e-6)
    np.testing.assert_array_equal(found[12][1], clouds[12, 1])
    np.testing.assert_allclose(found[13][1], clouds[12:, 1].mean(0), atol=1e-6)


def unlabelled(reading: Reading, true: np.ndarray, lies: np.ndarray, rng: np.random.Generator, noise: float) -> Reading:
    """Noisy points in another order."""
    order = rng.permuted(np.tile(np.arange(true.shape[1]), (len(true), 1)), axis=1)
    cloud = np.take_along_axis(true, order[..., None], axis=1) + noise * rng.normal(size=true.shape)
    return dataclasses.replace(reading, cloud=cloud.astype(np.float32), bodies=lies[order])


def test_a_first_look_without_labels_gathers_what_lies_together():
    """The mean of every point in place of one measurement of it: nothing lies between things, and noise is averaged."""
    reading = SimBackend(TASK, 2, threads=1).reset(Panel.sample("p", TASK, 2, seed=0))
    grid = 0.02 * np.stack(np.meshgrid(*[np.arange(4)] * 3), axis=-1).reshape(-1, 3)
    true, lies = np.stack([grid, grid + 0.5]), (grid[:, 0] > 0.03).astype(int)
    look, rng, found = FirstLook(labels=False), np.random.default_rng(0), []
    for k in range(14):
        clock = dataclasses.replace(reading, t=np.array([k, k if k < 12 else k - 12]) * 0.04)
        found.append((look.see(unlabelled(clock, true, lies, rng, 0.003)), look.bodies.copy()))

    def error(world: int, k: int) -> float:
        apart = np.linalg.norm(found[k][0][world][:, None] - true[world], axis=-1)
        assert (lies[apart.argmin(axis=1)] == found[k][1][world]).all()
        assert len(set(apart.argmin(axis=1))) == TASK.points
        return float(np.sqrt(np.square(apart.min(axis=1)).mean()))

    single, gathered = error(0, 0), error(0, 11)
    assert gathered < 0.45 * single
    np.testing.assert_array_equal(found[13][0][0], found[9][0][0])  # what comes later changes nothing
    assert error(1, 12) > 0.8 * single  # begun again


def test_a_first_look_without_labels_keeps_nothing_of_another_episode_and_of_no_other_world():
    reading = SimBackend(TASK, 2, threads=1).reset(Panel.sample("p", TASK, 2, seed=0))
    rng = np.random.default_rng(0)
    true, lies = rng.normal(size=(2, TASK.points, 3)), np.zeros(TASK.points, dtype=int)
    true[:, 40:] = true[:, :24]  # points that are seen twice
    rows = [unlabelled(dataclasses.replace(reading, t=np.full(2, k * 0.04)), true, lies, rng, 0.5) for k in range(12)]
    used, fresh, alone = (FirstLook(labels=False) for _ in range(3))
    for k in range(12):
        used.see(dataclasses.replace(rows[k], cloud=rows[k].cloud[::-1] + 1.0))
    for k in range(12):
        a, b = used.see(rows[k]), fresh.see(rows[k])
        one = dataclasses.replace(rows[k], t=rows[k].t[1:], cloud=rows[k].cloud[1:], bodies=rows[k].bodies[1:])
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(alone.see(one)[0], b[1])
