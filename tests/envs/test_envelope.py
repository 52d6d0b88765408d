"""The fastest speed that leaves room to stop is allowed, and nothing faster is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from gate_reference import CELL, Reference

from dexprior.envs.hardware import Box
from dexprior.errors import BadInput

PERIOD = 0.04


def test_the_reach_is_what_is_coasted_and_what_is_braked():
    config = CELL
    robot = config.robot
    for speed in (0.0, 0.01, 0.3, 0.9):
        for age in (0.0, 0.1):
            coasted, braked = speed * (age + PERIOD + robot.watchdog + robot.lag), speed**2 / (2 * robot.deceleration)
            assert config.envelope(PERIOD).reach(speed, age) == pytest.approx(coasted + braked)


def test_the_fastest_speed_passes_and_a_faster_one_does_not():
    """Judged by the reference of the gate's rules, from everywhere in and around the workspace."""
    config = CELL
    envelope, reference, rng = config.envelope(PERIOD), Reference(config), np.random.default_rng(3)
    limited = 0
    for _ in range(3000):
        p = rng.uniform([0.2, -0.4, 0.0], [0.75, 0.4, 0.4])
        v = rng.normal(0, 0.4, 3)
        age, asked = float(rng.uniform(0, 0.1)), float(np.linalg.norm(v))
        fast = envelope.fastest(tuple(p.tolist()), tuple(v.tolist()), age)
        assert 0.0 <= fast <= asked + 1e-12
        if fast > 0:
            slower = fast * (1 - 1e-6)
            assert reference._place(p, v * (slower / asked), slower, age) is None
        if fast < asked - 1e-9:
            limited += 1
            faster = fast * 1.001 + 1e-5
            assert reference._place(p, v * (faster / asked), faster, age) is not None
    assert limited > 500


def test_the_way_through_a_box():
    box = Box(low=(0.0, 0.0, 0.0), high=(1.0, 1.0, 1.0))
    assert box.holds((0.5, 1.0, 0.0))
    assert box.entry((-1.0, 0.5, 0.5), (1.0, 0.5, 0.5)) == 0.5
    assert box.entry((0.5, 0.5, 0.5), (9.0, 0.5, 0.5)) == 0.0
    assert box.entry((-1.0, 2.0, 0.5), (1.0, 2.0, 0.5)) == math.inf
    assert not box.meets((-1.0, 0.5, 0.5), (-0.5, 0.5, 0.5))  # ends before it
    assert not box.meets((2.0, 0.5, 0.5), (3.0, 0.5, 0.5))  # behind the start


def test_an_empty_box_is_refused():
    with pytest.raises(BadInput, match="is empty"):
        Box(low=(0.0, 0.0, 1.0), high=(1.0, 1.0, 1.0))
