"""Strategies of the human hand: the sentence picks one, the object shapes it, physics judges it."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from dexprior.errors import BadInput, ConfigError, UnknownName
from dexprior.hands.skeleton import FINGER_RADIUS, forward
from dexprior.robots.human_hand import finger_pose_from_hinges
from dexprior.worlds.human_rig import wrist_from_gantry
from dexprior.worlds.tasks import TaskWorlds, demonstrated_tasks, human_task, make_task, strategies_of, strategy_of
from dexprior.worlds.tasks.strategies import RefineConfig, demonstrate, roll_out

_SIZES = ("small", "big", "large", "tiny", "strawberry", "grape", "peach", "mm", "cm", "wide", "narrow")


def make_worlds(n: int, threads: int = 1, **settings):
    task = make_task("pick_place", arm="gantry", end_effector="human_hand", **settings)
    return task, TaskWorlds(task, n, arm_action="joint", family=task.reality, threads=threads)


def drawn(task, n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    scenes = task.sample(rng, n)
    return scenes, [task.reality.as_dict(row) for row in task.reality.sample(rng, n)]


@pytest.mark.parametrize("task", demonstrated_tasks())
def test_a_sentence_belongs_to_one_strategy_and_says_nothing_of_the_object_s_size(task):
    assert len(strategies_of(task)) >= 3
    for a, b in itertools.combinations(strategies_of(task), 2):
        assert not {*a.sentences, *a.held_out} & {*b.sentences, *b.held_out}
    for strategy in strategies_of(task):
        every = (*strategy.sentences, *strategy.held_out)
        assert len(set(every)) == len(every) >= 8
        assert len(strategy.held_out) >= 2
        for sentence in every:
            assert strategy_of(task, sentence) is strategy
            assert not set(sentence.split()) & set(_SIZES)


def test_unknown_sentences_and_tasks_are_named():
    with pytest.raises(UnknownName, match="juggle"):
        strategy_of("pick_place", "juggle the block")
    with pytest.raises(UnknownName, match="pick_place"):
        strategies_of("juggling")


def test_plans_start_at_zero_move_forward_in_time_and_end_within_the_clip():
    for name in demonstrated_tasks():
        task = human_task(name, 0)
        scenes, _ = drawn(task, 20)
        for strategy in strategies_of(name):
            for unit in (np.zeros((20, len(strategy.knobs))), np.ones((20, len(strategy.knobs)))):
                times = strategy.plan(task, scenes, strategy.values(unit)).times
                assert (times[:, 0] == 0).all()
                assert (np.diff(times, axis=1) > 0).all()
                assert times[:, -1].max() <= strategy.seconds


def test_the_sentence_decides_the_motion_of_the_same_instance():
    task, _ = make_worlds(1)
    scenes, _ = drawn(task, 4)
    motions = []
    for strategy in strategies_of("pick_place"):
        plan = strategy.plan(task, scenes, strategy.values(np.full((4, len(strategy.knobs)), 0.5)))
        motions.append(np.stack([plan.at(t)[0] for t in np.arange(0.0, 2.8, 0.2)]))
    for a, b in itertools.combinations(motions, 2):
        assert np.abs(a - b).max(axis=(0, 2)).min() > 0.02  # in every instance, somewhere


def test_careful_lifts_succeed_by_physics_and_do_not_depend_on_threads():
    results = []
    for threads in (1, 2):
        task, worlds = make_worlds(8, threads)
        scenes, parameters = drawn(task, 8)
        unit = np.random.default_rng(1).random((8, 10))
        results.append(roll_out(worlds, strategies_of("pick_place")[0], scenes, parameters, unit))
    a, b = results
    np.testing.assert_array_equal(a.qpos, b.qpos)
    assert a.success.mean() >= 0.75
    assert (a.touch[:, a.success].max(axis=0)[:, :2] > 0.3).all()  # thumb and index finger pressed
    assert (a.object[:, a.success, 2].max(axis=0) > 0.05).all()  # it was lifted, not pushed
    # nothing touches at the start: the wrench is what the hand's own motion makes, not its weight of several newtons
    assert np.abs(a.wrench[0]).max() < 0.5


def test_the_object_alone_decides_how_wide_the_hand_closes():
    apart = {}
    for half in (0.014, 0.023):
        task, worlds = make_worlds(4, half_size=half)
        scenes, parameters = drawn(task, 4)
        rollout = roll_out(worlds, strategies_of("pick_place")[0], scenes, parameters, np.full((4, 10), 0.5))
        joints = forward(wrist_from_gantry(rollout.arm), finger_pose_from_hinges(rollout.hinges))
        gap = np.linalg.norm(joints[:, :, 4] - joints[:, :, 8], axis=-1) - 2 * FINGER_RADIUS
        pressed = (rollout.touch[:, :, :2] > 0.3).all(axis=-1)
        assert pressed.any()
        apart[half] = np.median(gap[pressed])
    assert apart[0.023] - apart[0.014] == pytest.approx(2 * 0.009, abs=0.008)


def test_sampling_repairs_what_failed_and_leaves_what_did_not():
    task, worlds = make_worlds(16)
    scenes, parameters = drawn(task, 16, seed=5)
    side = strategy_of("pick_place", "grasp the block sideways and place it on the green spot")
    none = RefineConfig(rounds=0)
    tried, unit, first = demonstrate(worlds, side, scenes, parameters, rng=np.random.default_rng(0), settings=none)
    np.testing.assert_array_equal(tried.success, first)
    assert not first.all()  # otherwise there is nothing to repair: choose another seed
    better, refined, again = demonstrate(
        worlds, side, scenes, parameters, rng=np.random.default_rng(0), settings=RefineConfig(rounds=3, leave=0.0)
    )
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(refined[first], unit[first])
    assert better.success.sum() > first.sum()


def test_other_rigs_are_refused():
    task = make_task("pick_place", arm="gantry")
    worlds = TaskWorlds(task, 1)
    scenes, parameters = drawn(task, 1)
    with pytest.raises(BadInput, match="human_hand"):
        roll_out(worlds, strategies_of("pick_place")[0], scenes, parameters, np.zeros((1, 10)))


@pytest.mark.slow
@pytest.mark.parametrize("fruit", ["strawberry", "grape", "peach"])
def test_fruit_is_lifted_and_held_through_the_shake_without_a_bruise(fruit):
    task = make_task("soft_grasp", arm="gantry", hand="human_hand", fruit=fruit, timestep=0.004)
    worlds = TaskWorlds(task, 8, arm_action="joint", family=task.reality, threads=1)
    scenes, parameters = drawn(task, 8)
    for strategy in strategies_of("soft_grasp"):
        unit = np.random.default_rng(0).random((8, len(strategy.knobs)))
        assert roll_out(worlds, strategy, scenes, parameters, unit).success.mean() >= 0.75


def test_the_peg_that_stands_is_picked_up_and_inserted():
    task = make_task("peg", arm="gantry", end_effector="human_hand", start="standing")
    worlds = TaskWorlds(task, 8, arm_action="joint", family=task.reality, threads=1)
    scenes, parameters = drawn(task, 8)
    quick = strategy_of("peg", "insert the peg into the hole as fast as you can")
    unit = np.random.default_rng(0).random((8, len(quick.knobs)))
    watched = roll_out(worlds, quick, scenes, parameters, unit)
    assert watched.success.mean() >= 0.75
    blind = roll_out(worlds, dataclasses.replace(quick, servo=None), scenes, parameters, unit)
    assert blind.success.sum() < watched.success.sum()  # a clearance of 0.25 mm needs eyes


def test_a_held_peg_needs_the_parallel_gripper():
    with pytest.raises((BadInput, ConfigError), match="standing"):
        make_task("peg", end_effector="human_hand")


@pytest.mark.parametrize(
    "name", ["twist", pytest.param("regrip", marks=pytest.mark.slow), pytest.param("side", marks=pytest.mark.slow)]
)
def test_a_started_nut_is_turned_and_stays_in_the_thread(name):
    task = make_task("nut_bolt", arm="gantry", end_effector="human_hand", start="started")
    worlds = TaskWorlds(task, 1, arm_action="joint", family=task.reality, threads=1)
    scenes, parameters = drawn(task, 1)
    worlds.reset(np.arange(1), scenes, parameters)
    start = worlds.truth()
    np.testing.assert_allclose(start["turns"], scenes["caught"] + 0.06, atol=0.03)  # it settles by the clearance
    assert start["tilt"].max() < 0.01
    strategy = next(strategy for strategy in strategies_of("nut_bolt") if strategy.name == name)
    made = roll_out(worlds, strategy, scenes, parameters, np.full((1, len(strategy.knobs)), 0.5))
    assert made.success.all()
    # it sank as it turned: a pitch a turn
    turned = np.unwrap(2 * np.arctan2(made.object[:, :, 6], made.object[:, :, 3]), axis=0)
    sunk = made.object[0, :, 2] - made.object[-1, :, 2]
    np.testing.assert_allclose(sunk, -(turned[-1] - turned[0]) / (2 * np.pi) * task.config.thread.pitch, atol=4e-4)


def test_starts_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match="use start='started'"):
        make_task("nut_bolt", end_effector="human_hand")
    with pytest.raises(ConfigError, match="may be there already"):
        make_task("nut_bolt", start="started", caught=0.3)


def test_a_hand_folds_the_cloth_and_does_not_let_it_slip():
    task = make_task("folding", arm="gantry", end_effector="human_hand", robots=1)
    worlds = TaskWorlds(task, 2, arm_action="joint", family=task.reality, threads=1)
    scenes, parameters = drawn(task, 2, seed=1)
    strategy = strategies_of("folding")[0]
    made = roll_out(worlds, strategy, scenes, parameters, np.full((2, len(strategy.knobs)), 0.5))
    truth = worlds.truth()
    assert made.success.all()
    assert (truth["slipped"] < 0.01).all()
    # the thumb is one of those that pinch while the hem goes over
    over = made.touch[len(made.t) // 2]
    assert (over[:, 0] > 0.5).all()
    assert (over[:, 1:3].max(axis=1) > 0.5).all()
    with pytest.raises(ConfigError, match="made for the parallel gripper"):
        make_task("folding", end_effector="human_hand")
