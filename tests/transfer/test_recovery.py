"""When a policy lets go, and what it does after."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.transfer.recovery import ProgressMonitor, Recovering, RecoveryConfig

DT = 0.04


def rollouts(rng, n):
    """Ways that are gone at different speeds, with stops."""
    return 2.0 - np.cumsum(rng.uniform(0.02, 0.05, n) * (rng.random((30, n)) < 0.8), axis=0)


def counting():
    return lambda truth, robots, t, memory: np.add(memory, 1.0, out=memory)[:, :1].copy()


def recovering(retry=None, *, pause=0.08):
    monitor = ProgressMonitor(middle=np.array([1.0, 0.5]), reach=np.array([0.1, 0.1]), threshold=2.0)
    return Recovering(
        counting(), monitor, lambda truth: truth["left"], np.array([-9.0]), DT, retry, RecoveryConfig(pause=pause)
    )


def test_the_alarm_is_as_rare_as_is_promised():
    rng = np.random.default_rng(0)
    alarms = []
    for _ in range(300):
        remains = rollouts(rng, 101)
        alarms.append(ProgressMonitor.learn(remains[:, :100]).alarmed(remains[:, 100:])[0])
    assert 0.0 < np.mean(alarms) < 0.08  # .05, give or take


@pytest.mark.parametrize(("ranked", "rank"), [(19, 19), (20, 20), (39, 38), (40, 39)])
def test_the_threshold_is_the_conformal_rank(ranked, rank):
    """The k-th of n with k the ceiling of (1 - alpha)(n + 1), not of (1 - alpha) n: .95 is promised of one more."""
    even = np.tile([[1.0], [0.5]], ranked)  # the envelope: a half remains, give or take `least`
    late = np.stack([np.ones(ranked), 0.5 + 0.05 * np.random.default_rng(0).permutation(np.arange(1, ranked + 1))])
    monitor = ProgressMonitor.learn(np.concatenate([even, late], axis=1))
    assert monitor.threshold == pytest.approx(rank)


def test_what_stands_still_raises_it_and_what_goes_on_does_not():
    remains = rollouts(np.random.default_rng(1), 100)
    monitor = ProgressMonitor.learn(remains)
    middle = np.median(remains, axis=1)
    stuck = np.concatenate([middle[:6], np.full(24, middle[5])])
    assert monitor.alarmed(np.stack([middle, stuck, 10 * stuck], axis=1)).tolist() == [False, True, True]


def test_too_few_rollouts_and_ways_of_no_length_are_errors():
    with pytest.raises(BadInput, match=r"36 rollouts for alpha = 0[.]05; at least 38"):
        ProgressMonitor.learn(np.ones((5, 36)))
    with pytest.raises(BadInput, match="more than nothing at its start"):
        ProgressMonitor.learn(np.zeros((5, 100)))


def test_it_lets_go_once_where_too_much_is_left_and_begins_afresh():
    policy = recovering()
    memory, rows = np.zeros((2, 4)), []
    for k in range(5):
        left = np.array([0.6, 0.8]) if k else np.ones(2)
        rows.append(policy({"left": left}, None, k * DT, memory)[:, 0])
    np.testing.assert_array_equal(np.array(rows).T, [[1, 2, 3, 4, 5], [1, -9, -9, 1, 2]])
    np.testing.assert_array_equal(policy.retreated, [False, True])
    policy({"left": np.ones(2)}, None, 0.0, memory)
    assert policy.batches == [0.5]
    assert not policy.retreated.any()


def test_another_policy_may_retry():
    policy = recovering(lambda truth, robots, t, memory: np.full((2, 1), 7.0), pause=DT)
    memory = np.zeros((2, 4))
    shown = [policy({"left": np.array([a, 1.0])}, None, k * DT, memory)[:, 0] for k, a in enumerate((1.0, 0.5, 0.5))]
    np.testing.assert_array_equal(np.array(shown).T, [[1, 2, 3], [1, -9, 7]])
