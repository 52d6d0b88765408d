"""What goes in and out of an environment: commands, observations, and reward terms that keep their contract."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dexprior.envs.line.base import (
    ACTION_SIZE,
    MAX_TWIST,
    OBSERVATION_SIZES,
    PRIVILEGED_SIZE,
    Reading,
    Truth,
    action_from_command,
    command_from_action,
    observe,
    privileged,
    score,
    success,
)
from dexprior.errors import BadInput
from dexprior.worlds.arm import MAX_OPENING
from dexprior.worlds.insertion import InsertionConfig
from dexprior.worlds.measures import tolerance

WORLD = InsertionConfig()
actions = arrays(np.float64, (3, ACTION_SIZE), elements=st.floats(-1, 1))


def reading(n: int = 6, seed: int = 0, truth: bool = True) -> Reading:
    """Random but possible: unit quaternions, a nut somewhere near the bolt."""
    rng = np.random.default_rng(seed)

    def poses() -> np.ndarray:
        pose = rng.uniform(-0.1, 0.1, (n, 7))
        pose[:, 3:] = rng.normal(size=(n, 4))
        pose[:, 3:] /= np.linalg.norm(pose[:, 3:], axis=1, keepdims=True)
        return pose

    return Reading(
        t=rng.random(n),
        q=rng.normal(size=(n, 7)),
        qd=rng.normal(size=(n, 7)),
        tcp=poses(),
        opening=rng.uniform(0, MAX_OPENING, n),
        wrench=rng.normal(size=(n, 6)),
        touch=rng.random((n, 2)),
        cloud=rng.normal(size=(n, 64, 3)),
        truth=Truth(nut=poses(), bolt=rng.uniform(-0.05, 0.05, (n, 3)), slip=rng.random(n), held=rng.random(n) > 0.5)
        if truth
        else None,
    )


# --- commands -----------------------------------------------------------------------------------------------


@given(actions)
def test_commands_and_actions_are_inverse(action):
    np.testing.assert_allclose(action_from_command(*command_from_action(action)), action, atol=1e-12)


def test_actions_of_one_are_the_fastest_and_the_widest():
    twist, opening = command_from_action(np.ones((1, ACTION_SIZE)))
    np.testing.assert_array_equal(twist[0], MAX_TWIST)
    assert opening[0] == MAX_OPENING
    twist, opening = command_from_action(-np.ones((1, ACTION_SIZE)))
    np.testing.assert_array_equal(twist[0], -MAX_TWIST)
    assert opening[0] == 0


@given(arrays(np.float64, (2, ACTION_SIZE), elements=st.floats(-50, 50)))
def test_commands_stay_within_what_the_robot_may_do(action):
    twist, opening = command_from_action(action)
    assert (np.abs(twist) <= MAX_TWIST).all()
    assert ((opening >= 0) & (opening <= MAX_OPENING)).all()


def test_nan_is_passed_on_for_a_safety_gate_to_see():
    action = np.zeros((2, ACTION_SIZE))
    action[1, 3] = np.nan
    twist, opening = command_from_action(action)
    assert np.isnan(twist[1, 3])
    assert np.isfinite(twist[0]).all()
    assert np.isfinite(opening).all()


@pytest.mark.parametrize("shape", [(7,), (2, 6), (1, 2, 7)])
def test_an_action_of_another_shape_is_refused(shape):
    with pytest.raises(BadInput, match=r"actions of shape .*, expected \(n, 7\)"):
        command_from_action(np.zeros(shape))


# --- observations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 6])
def test_observations_have_the_promised_shapes(n):
    observation = observe(reading(n))
    assert {name: value.shape for name, value in observation.items()} == {
        name: (n, *shape) for name, shape in OBSERVATION_SIZES.items()
    }
    assert {value.dtype for value in observation.values()} == {np.dtype(np.float32)}


def test_policies_see_nothing_of_the_truth():
    """Another truth, or none, leaves the observation as it is."""
    with_truth = reading()
    without = dataclasses.replace(with_truth, truth=None)
    other = dataclasses.replace(with_truth, truth=reading(seed=9).truth)
    for a, b, c in zip(*(observe(r).values() for r in (with_truth, without, other))):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


def test_a_quaternion_and_its_negative_look_the_same():
    one = reading()
    tcp = one.tcp.copy()
    tcp[:, 3:] *= -1
    for a, b in zip(observe(one).values(), observe(dataclasses.replace(one, tcp=tcp)).values()):
        np.testing.assert_array_equal(a, b)


def test_a_critic_sees_the_nut_wherever_the_table_is():
    one = reading()
    seen = privileged(one)
    assert seen.shape == (6, PRIVILEGED_SIZE)
    assert seen.dtype == np.float32
    shift = np.array([0.3, -0.2, 0.1])
    tcp, nut = one.tcp.copy(), one.truth.nut.copy()
    tcp[:, :3] += shift
    nut[:, :3] += shift
    truth = dataclasses.replace(one.truth, nut=nut, bolt=one.truth.bolt + shift)
    np.testing.assert_allclose(privileged(dataclasses.replace(one, tcp=tcp, truth=truth)), seen, atol=1e-6)


@pytest.mark.parametrize("ask", [privileged, lambda r: score(r, WORLD), lambda r: success(r, WORLD)])
def test_without_a_tracker_there_is_no_verdict(ask):
    with pytest.raises(BadInput, match=r"nothing tracks the nut in this world: .*; add a tracker"):
        ask(reading(truth=False))


def test_readings_are_equal_when_every_array_is():
    assert reading() == reading()
    assert reading() != reading(seed=1)
    assert reading() != dataclasses.replace(reading(), truth=None)
    assert reading(truth=False) == reading(truth=False)
    assert reading() != "a reading"


# --- rewards ------------------------------------------------------------------------------------------------


@given(st.floats(-10, 10), st.floats(0, 5), st.floats(0.01, 5), st.floats(-40, 40))
def test_tolerance_contract(low, width, margin, x):
    """1 inside the bounds, 0.1 at the margin, falling and symmetric outside, never outside [0, 1]."""
    bounds = (low, low + width)

    def f(x):
        return float(tolerance(np.array(x), bounds=bounds, margin=margin))

    assert 0 <= f(x) <= 1
    if bounds[0] <= x <= bounds[1]:
        assert f(x) == 1
    assert f(bounds[1] + margin) == pytest.approx(0.1)
    assert f(bounds[0] - margin) == pytest.approx(0.1)
    assert f(bounds[1] + 2 * margin) < f(bounds[1] + margin)
    assert f(bounds[0] - abs(x)) == pytest.approx(f(bounds[1] + abs(x)), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("bounds", "margin"), [((1.0, 0.0), 1.0), ((0.0, 1.0), 0.0), ((0.0, 1.0), -1.0)])
def test_tolerance_refuses_what_it_cannot_mean(bounds, margin):
    with pytest.raises(BadInput, match="tolerance needs low <= high and margin > 0"):
        tolerance(np.zeros(1), bounds=bounds, margin=margin)


@given(st.integers(0, 500))
def test_every_term_lies_between_zero_and_one(seed):
    for name, value in score(reading(seed=seed), WORLD).items():
        assert value.shape == (6,), name
        assert ((value >= 0) & (value <= 1 + 1e-12)).all(), name


def at(nut_from_bolt, tcp_from_nut=(0.0, 0.0, 0.0), held=True, slip=0.0) -> Reading:
    bolt = np.array([[0.45, 0.1, 0.0]])
    upright = np.array([[1.0, 0.0, 0.0, 0.0]])
    nut = np.concatenate([bolt + nut_from_bolt, upright], axis=1)
    tcp = np.concatenate([nut[:, :3] + tcp_from_nut, upright], axis=1)
    truth = Truth(nut=nut, bolt=bolt, slip=np.array([slip]), held=np.array([held]))
    return dataclasses.replace(reading(1), tcp=tcp, truth=truth)


def test_the_task_pays_more_the_further_it_gets():
    """Away, reached, grasped, lifted, carried, half way down, seated."""
    stages = [
        at((0, -0.2, 0.012), (0, 0, 0.2), held=False),
        at((0, -0.2, 0.012), held=False),
        at((0, -0.2, 0.012)),
        at((0, -0.1, 0.06)),
        at((0, 0, 0.07)),
        at((0, 0, 0.05)),
        at((0, 0, 0.04)),
    ]
    totals = [float(score(stage, WORLD)["total"][0]) for stage in stages]
    assert (np.diff(totals) > 0).all(), totals
    assert [bool(success(stage, WORLD)[0]) for stage in stages] == [False] * 6 + [True]
    assert [float(score(stage, WORLD)["sparse"][0]) for stage in stages] == [0.0] * 6 + [1.0]


def test_slipping_costs_the_still_term_only():
    firm, slipping = (score(at((0, 0, 0.07), slip=s), WORLD) for s in (0.0, 0.1))
    assert firm["still"][0] == 1
    assert slipping["still"][0] < 0.01
    assert all(firm[name][0] == slipping[name][0] for name in firm if name not in ("still", "total"))
    assert score(at((0, 0, 0.07), held=False), WORLD)["still"][0] == 0
