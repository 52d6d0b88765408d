"""Many worlds are as many single ones; a snapshot goes on to the last bit; forces have the sign that they claim."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.geometry.rotations import matrix_from_quat
from dexprior.worlds.arm import HOME, MAX_OPENING
from dexprior.worlds.insertion import OTHER_FAMILY, TRAINING_FAMILY, InsertionConfig, sample_scenes, succeeded
from dexprior.worlds.stepping import CONTROL_DT, InsertionWorlds, WorldState

CONFIG = InsertionConfig()
UP = np.array([0.0, 0.0, 1.0])
N = 4


class Case:
    """n scenes with their parameters; worlds of some of them can be made again and again."""

    def __init__(self, family=TRAINING_FAMILY, n: int = N, seed: int = 0) -> None:
        self.family = family
        self.scenes = sample_scenes(np.random.default_rng(seed), n)
        values = family.sample(np.random.default_rng(seed + 1), n)
        self.parameters = [family.as_dict(row) for row in values]
        self.twists = np.random.default_rng(seed + 2).uniform(-0.3, 0.3, (20, n, 6))
        self.twists[:, :, 2] -= 0.2
        self.openings = np.random.default_rng(seed + 3).uniform(0, MAX_OPENING, (20, n))

    def worlds(self, ids=range(N), **options) -> InsertionWorlds:
        ids = list(ids)
        made = InsertionWorlds(CONFIG, len(ids), family=self.family, **({"threads": 1} | options))
        self.reset(made, ids, np.arange(len(ids)))
        return made

    def reset(self, worlds: InsertionWorlds, ids: list[int], places: np.ndarray) -> None:
        parts = {name: value[ids] for name, value in self.scenes.items()}
        worlds.reset(places, parameters=[self.parameters[i] for i in ids], **parts)

    def run(self, worlds: InsertionWorlds, ids=range(N), steps: range = range(20)) -> WorldState:
        ids = list(ids)
        for k in steps:
            worlds.step(self.twists[k, ids], self.openings[k, ids])
        return worlds.state()


@pytest.fixture(scope="module")
def case() -> Case:
    return Case()


@pytest.fixture(scope="module")
def reference(case) -> WorldState:
    return case.run(case.worlds())


def assert_equal(a: WorldState, b: WorldState, rows=slice(None)) -> None:
    for name, value in vars(a).items():
        np.testing.assert_array_equal(value[rows], vars(b)[name], err_msg=name)


@pytest.mark.parametrize("threads", [0, 1, 2, 3])
def test_results_do_not_depend_on_the_number_of_threads(threads, case, reference):
    assert_equal(reference, case.run(case.worlds(threads=threads)))


@pytest.mark.parametrize("ids", [[0], [3], [2, 0], [1, 1]])
def test_results_do_not_depend_on_the_neighbours(ids, case, reference):
    assert_equal(reference, case.run(case.worlds(ids), ids), rows=ids)


def test_a_stepper_of_the_callers_gives_the_same_motion(case, reference):
    """`mujoco.mj_step` in place of the batch: the same contacts to within rounding."""
    steps = range(8)
    alone = case.run(case.worlds([1], stepper=mujoco.mj_step), [1], steps)
    batched = case.run(case.worlds([1]), [1], steps)
    for name in ("t", "q", "tcp", "nut", "wrench", "touch", "opening"):
        np.testing.assert_allclose(vars(alone)[name], vars(batched)[name], atol=1e-9, err_msg=name)


def test_a_stepper_drives_one_world():
    with pytest.raises(ValueError, match="one world"):
        InsertionWorlds(CONFIG, 2, family=TRAINING_FAMILY, stepper=mujoco.mj_step)


def test_a_snapshot_goes_on_to_the_last_bit(case, reference):
    first = case.worlds()
    before = case.run(first, steps=range(9))
    snapshot = first.snapshot()
    case.run(first, steps=range(9, 14))  # the snapshot is a copy
    second = InsertionWorlds(CONFIG, N, family=case.family, threads=1)
    second.restore(snapshot, case.parameters)
    assert_equal(before, second.state())
    assert_equal(reference, case.run(second, steps=range(9, 20)))


def test_a_world_that_is_reset_after_a_restore_forgets_it(case):
    first = case.worlds()
    case.run(first)
    worlds = InsertionWorlds(CONFIG, N, family=case.family, threads=1)
    worlds.restore(first.snapshot(), case.parameters)
    case.reset(worlds, [2], np.array([2]))
    fresh, state = case.worlds().state(), worlds.state()
    np.testing.assert_array_equal(state.wrench[2], fresh.wrench[2])
    np.testing.assert_array_equal(state.wrench[0], first.state().wrench[0])


def test_reset_starts_some_worlds_and_leaves_the_others(case):
    worlds = case.worlds()
    moved = case.run(worlds, steps=range(5))
    case.reset(worlds, [0, 3], np.array([0, 3]))
    state, fresh = worlds.state(), case.worlds().state()
    for name in ("t", "q", "qd", "nut", "opening"):
        np.testing.assert_array_equal(vars(state)[name][[0, 3]], vars(fresh)[name][[0, 3]], err_msg=name)
        np.testing.assert_array_equal(vars(state)[name][[1, 2]], vars(moved)[name][[1, 2]], err_msg=name)


def test_reset_is_home_open_tared_and_still(case):
    state = case.worlds().state()
    np.testing.assert_array_equal(state.q, np.tile(HOME, (N, 1)))
    np.testing.assert_allclose(state.opening, MAX_OPENING)
    np.testing.assert_array_equal(state.wrench, np.zeros((N, 6)))
    np.testing.assert_array_equal(state.t, np.zeros(N))
    np.testing.assert_allclose(state.nut[:, :2], case.scenes["nut"][:, :2])
    np.testing.assert_array_equal(state.bolt, case.scenes["bolt"])
    assert not state.held.any()
    assert not state.slip.any()


def test_a_step_takes_a_control_period(case):
    worlds = case.worlds()
    for k in range(3):
        worlds.step(np.zeros((N, 6)), np.full(N, MAX_OPENING))
        np.testing.assert_allclose(worlds.state().t, (k + 1) * CONTROL_DT)


def test_state_does_not_change_behind_the_readers_back(case):
    worlds = case.worlds()
    before = worlds.state()
    copies = {name: value.copy() for name, value in vars(before).items()}
    case.run(worlds, steps=range(3))
    for name, value in copies.items():
        np.testing.assert_array_equal(vars(before)[name], value, err_msg=name)


# --- physics ------------------------------------------------------------------------------------------------


def steer(worlds: InsertionWorlds, goal: np.ndarray, opening: float, steps: int) -> WorldState:
    """Go to positions of the tool by proportional control."""
    for _ in range(steps):
        twist = np.zeros((worlds.n, 6))
        twist[:, :3] = np.clip(6.0 * (goal - worlds.state().tcp[:, :3]), -0.5, 0.5)
        worlds.step(twist, np.full(worlds.n, opening))
    return worlds.state()


def force_in_base(worlds: InsertionWorlds, state: WorldState) -> np.ndarray:
    """The wrench's force, turned from the wrist frame (which points with the tool) to base axes."""
    R = matrix_from_quat(state.tcp[:, 3:])
    return (R @ state.wrench[:, :3, None])[..., 0]


def test_pushing_onto_the_table_is_felt_as_a_force_upwards(case):
    worlds = case.worlds()
    free = worlds.state().tcp[:, :3] * [1, 0, 0] + [0, 0.0, 0]
    state = steer(worlds, free + UP * 0.02, MAX_OPENING, 25)
    assert np.abs(force_in_base(worlds, state)).max() < 4.0
    state = steer(worlds, free - UP * 0.03, MAX_OPENING, 15)
    force = force_in_base(worlds, state)
    assert (force[:, 2] > 10.0).all()
    assert (force[:, 2] > 2 * np.linalg.norm(force[:, :2], axis=1)).all()


def test_a_held_nut_is_felt_as_its_weight():
    case = Case(OTHER_FAMILY, n=2)
    worlds = case.worlds([0, 1], cone="elliptic")
    nut = case.scenes["nut"] + UP * CONFIG.height / 2
    steer(worlds, nut, MAX_OPENING, 25)
    state = steer(worlds, nut, 0.02, 8)
    assert state.held.all()
    state = steer(worlds, nut + UP * 0.1, 0.02, 45)
    assert (state.nut[:, 2] > 0.08).all()
    weight = CONFIG.mass * 1.3 * 9.81
    np.testing.assert_allclose(force_in_base(worlds, state), np.tile([0, 0, -weight], (2, 1)), atol=0.1)
    assert (state.slip < 2e-3).all()


@pytest.mark.parametrize(("family", "cone"), [(TRAINING_FAMILY, "pyramidal"), (OTHER_FAMILY, "elliptic")])
def test_a_script_puts_the_nut_on_the_bolt(family, cone):
    """The task can be done in both worlds."""
    case = Case(family, seed=5)
    worlds = case.worlds(cone=cone)
    nut, bolt = case.scenes["nut"] + UP * CONFIG.height / 2, case.scenes["bolt"]
    steer(worlds, nut + UP * 0.004, MAX_OPENING, 25)
    assert steer(worlds, nut + UP * 0.004, 0.02, 8).held.all()
    state = steer(worlds, nut + UP * 0.07, 0.02, 12)
    state = steer(worlds, bolt + UP * 0.09 - (state.nut - state.tcp)[:, :3], 0.02, 20)
    assert not succeeded(CONFIG, state.nut, bolt).any()
    goal = bolt + UP * 0.02 - (state.nut - state.tcp)[:, :3]
    steer(worlds, goal, 0.02, 20)
    state = steer(worlds, goal, MAX_OPENING, 8)
    assert succeeded(CONFIG, state.nut, bolt).all()
    assert not state.held.any()
