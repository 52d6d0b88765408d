"""Slip is what a rigid grip cannot explain; a reward falls to a tenth at its margin."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.worlds.measures import SLIP_SPEED, slip_rate, slip_speed, tolerance


def test_tolerance_is_one_inside_and_a_tenth_at_the_margin():
    x = np.array([-0.5, 0.0, 0.4, 1.0, 1.5])
    np.testing.assert_allclose(tolerance(x, bounds=(0.0, 1.0), margin=0.5), [0.1, 1.0, 1.0, 1.0, 0.1])
    assert (np.diff(tolerance(np.linspace(1.0, 3.0, 20), bounds=(0.0, 1.0), margin=0.5)) < 0).all()
    with pytest.raises(BadInput, match="margin > 0"):
        tolerance(x, bounds=(0.0, 1.0), margin=0.0)


def test_what_moves_with_the_tool_does_not_slip_whichever_way_the_tool_moves():
    rng = np.random.default_rng(0)
    tool, point, twist = rng.normal(size=(20, 3)), rng.normal(size=(20, 3)), rng.normal(size=(20, 6))
    carried = twist[:, :3] + np.cross(twist[:, 3:], point - tool)
    away = rng.normal(size=(20, 3))
    held = np.arange(20) % 2 == 0
    still = slip_speed(point=point, velocity=carried, tool=tool, twist=twist, held=held)
    moving = slip_speed(point=point, velocity=carried + away, tool=tool, twist=twist, held=held)
    np.testing.assert_allclose(still, 0.0, atol=1e-12)
    np.testing.assert_allclose(moving, np.where(held, np.linalg.norm(away, axis=1), 0.0))


def test_slip_is_counted_while_something_is_held():
    fast, slow = 2 * SLIP_SPEED, 0.5 * SLIP_SPEED
    slip = np.array([[fast, fast, fast], [slow, fast, fast], [fast, slow, fast], [fast, fast, fast]])
    held = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 0, 0]], dtype=bool)
    np.testing.assert_array_equal(slip_rate(slip, held), [0.75, 0.5, np.nan])
