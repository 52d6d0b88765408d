"""A policy that dies while the robot moves leaves a robot that stands, and nothing that it hit."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from gate import DOWN, KINDS, Cell, kill_trial

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cell():
    made = Cell()
    yield made
    made.close()


@pytest.mark.parametrize("kind", KINDS)
# at 0.9 m/s the first command is refused already where a loaded machine is late with it
@pytest.mark.parametrize("speed", [0.3, 0.6])
def test_a_policy_that_dies_on_its_way_to_the_table(cell, kind, speed):
    rng = np.random.default_rng(7)
    for direction in DOWN[:3]:
        velocity = tuple(speed * d for d in direction)
        found = kill_trial(cell, kind, velocity, rng, after=int(rng.integers(0, 2)), contact=False)
        assert found["passed"] >= 0
        assert found["largest"] < 60.0
        assert found["speed_left"] < 0.02
        assert found["z"] > 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_that_dies_at_the_table(cell, kind):
    rng = np.random.default_rng(8)
    for _ in range(3):
        found = kill_trial(cell, kind, (0.0, 0.0, -0.03), rng, after=None, contact=True)
        assert found["largest"] < 60.0
        assert found["speed_left"] < 0.02
