"""A twist that is kept away from joint limits passes the gate, and is as much of what was asked for as does."""

from __future__ import annotations

import numpy as np
from gate_reference import CELL, Reference

from dexprior.envs.hardware.joints import JointRoom
from dexprior.robots.arm7 import JOINT_LIMITS

PERIOD = 0.04


def test_what_is_kept_passes_and_a_little_more_does_not():
    """Judged by the reference of the gate's rules, from postures of which many are at a limit."""
    reference, room, rng = Reference(CELL), JointRoom(CELL.robot, CELL.joint_margin), np.random.default_rng(4)
    changed = 0
    for _ in range(1500):
        q = rng.uniform(JOINT_LIMITS[:, 0], JOINT_LIMITS[:, 1])
        twist = rng.uniform(-1, 1, 6) * [0.5, 0.5, 0.5, 2.0, 2.0, 2.0]
        kept = room.kept(q.tolist(), twist, PERIOD)
        assert reference._joints(q, kept * (1 - 1e-9)) is None
        if reference._joints(q, twist) is None:
            np.testing.assert_array_equal(kept, twist)
            continue
        changed += 1
        if np.array_equal(kept[:3], twist[:3]):  # it turns less
            assert reference._joints(q, kept + 1e-3 * np.concatenate([np.zeros(3), twist[3:]])) == "joint_limits"
        else:  # it moves less in its direction
            assert reference._joints(q, kept + 1e-3 * twist) == "joint_limits"
            np.testing.assert_allclose(np.cross(kept[:3], twist[:3]), 0.0, atol=1e-12)
    assert changed > 150


def test_what_leaves_the_margin_is_not_held():
    q = np.array([0.0, 0.1, 0.0, -2.2, 0.0, 2.3, JOINT_LIMITS[6, 1] - 0.01])  # nearer than the margin already
    room = JointRoom(CELL.robot, CELL.joint_margin)
    turns = {sign: room.kept(q.tolist(), np.array([0, 0, 0, 0, 0, sign * 1.0]), PERIOD)[5] for sign in (-1, 1)}
    assert sorted(abs(v) for v in turns.values()) == [0.0, 1.0]
