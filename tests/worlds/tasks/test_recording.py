"""Logging worlds between control periods."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.worlds.tasks import Recording, TaskWorlds, make_task, record

_TASK = make_task("wipe")


def _worlds() -> TaskWorlds:
    worlds = TaskWorlds(_TASK, 2, threads=1)
    rng = np.random.default_rng(3)
    parameters = [_TASK.family.as_dict(row) for row in _TASK.family.sample(rng, 2)]
    worlds.reset(np.arange(2), _TASK.sample(rng, 2), parameters)
    return worlds


def _press(k: int) -> np.ndarray:
    action = np.zeros((2, 7))
    action[:, 2], action[:, 6] = -0.06, -1.0
    return action


def _record(every: int) -> Recording:
    return record(_worlds(), _press, 15, every=every)


def test_looking_more_often_changes_nothing():
    fine, coarse = _record(2), _record(20)
    assert fine.t[0] == pytest.approx(0.004)
    assert len(fine.t) == 10 * len(coarse.t) == 150
    for name in ("q", "wrench", "touch", "object", "slip", "command"):
        np.testing.assert_array_equal(getattr(fine, name)[:, 9::10], getattr(coarse, name), err_msg=name)


def test_the_plate_pushes_back_and_the_command_leads():
    recording = _record(4)
    assert (recording.wrench[:, -1, 2] < -1.0).all()  # of the plate on the tool, in the wrist's frame, which looks down
    assert np.abs(recording.wrench[:, 20, 2]).max() < 1.0  # not touched yet
    lag = np.abs(recording.command - recording.q).max(axis=(0, 1))
    assert 0.0 < lag.max() < 0.1


def test_a_look_that_does_not_divide_the_period_is_refused():
    with pytest.raises(BadInput, match="a look every 3 simulation steps; choose a divisor of 20"):
        record(_worlds(), _press, 1, every=3)
