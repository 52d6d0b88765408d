"""When a policy lets go, and what it does after."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.transfer.recovery import Recovering, RecoveryConfig, SlipMonitor

DT = 0.04
HELD = np.ones(3, dtype=bool)


def steps():
    return lambda truth, robots, t, memory: np.add(memory, 1.0, out=memory)[:, :1].copy()


def test_the_threshold_is_exceeded_as_rarely_as_is_promised():
    rng = np.random.default_rng(0)
    alarms = []
    for _ in range(200):
        slip = (rng.random((40, 40)) < rng.random(40)).astype(float)
        monitor = SlipMonitor.learn(slip[:, :39], np.ones((40, 39), dtype=bool), DT)
        last = np.convolve(slip[:, 39], np.ones(monitor.length) / monitor.length)[:40] - 1e-9
        alarms.append(last.max() > monitor.threshold)
    assert 0.0 < np.mean(alarms) < 0.09  # .05, give or take


def test_slip_of_what_is_not_held_does_not_count():
    slip = np.ones((20, 40))
    assert SlipMonitor.learn(slip, np.zeros((20, 40), dtype=bool), DT).threshold == 0.0


def test_too_few_rollouts_are_an_error():
    with pytest.raises(BadInput, match=r"18 rollouts for alpha = 0[.]05; at least 19"):
        SlipMonitor.learn(np.ones((5, 18)), np.ones((5, 18), dtype=bool), DT)


def test_it_lets_go_where_it_slips_and_begins_afresh():
    policy = Recovering(steps(), SlipMonitor(0.1, 1), np.array([-9.0]), DT, RecoveryConfig(pause=0.08, tries=1))
    memory, rows = np.zeros((3, 4)), []
    for k in range(5):
        slip = np.array([0.0, 1.0 if k == 1 else 0.0, 1.0])
        rows.append(policy({"slip": slip, "held": HELD}, None, k * DT, memory)[:, 0])
    np.testing.assert_array_equal(
        np.array(rows).T, [[1, 2, 3, 4, 5], [1, -9, -9, 1, 2], [-9, -9, 1, 2, 3]]
    )  # fmt: skip
    np.testing.assert_array_equal(policy.retreats, [0, 1, 1])


def test_another_policy_may_retry():
    policy = Recovering(
        steps(), SlipMonitor(0.1, 1), np.array([-9.0]), DT, RecoveryConfig(pause=0.04, tries=1),
        retry=lambda truth, robots, t, memory: np.full((3, 1), 7.0),
    )  # fmt: skip
    memory = np.zeros((3, 4))
    slip = np.array([0.0, 1.0, 0.0])
    first = policy({"slip": slip, "held": HELD}, None, 0.0, memory)
    second = policy({"slip": 0 * slip, "held": HELD}, None, DT, memory)
    assert first[:, 0].tolist() == [1, -9, 1]
    assert second[:, 0].tolist() == [2, 7, 2]
