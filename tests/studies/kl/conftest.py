"""A bank of three scenes of pick-and-place."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.behavior import BehaviorConfig, BehaviorPrior
from dexprior.envs.panel import Panel
from dexprior.worlds.tasks import robot_task
from dexprior.worlds.tasks.actions import MAX_TWIST


@pytest.fixture(scope="session")
def tiny_bank():
    """Straight paths to places of their own, closed half-way."""
    task = robot_task("pick_place")
    panel = Panel.sample("train", task, 3, seed=0, purpose="training")
    steps = 10
    tool = np.zeros((3, 1, steps, 1, 7))
    tool[..., 4] = 1.0
    ends = np.array([[0.4, 0.1, 0.1], [0.5, -0.1, 0.2], [0.45, 0.0, 0.15]])
    tool[:, 0, :, 0, :3] = np.linspace(0.0, 1.0, steps)[None, :, None] * ends[:, None]
    end = np.where(np.arange(steps) < 5, 1.0, -1.0)[None, None, :, None, None] * np.ones((3, 1, steps, 1, 1))
    force = np.where(end[..., 0] < 0, 2.0, 0.0)
    bank = BehaviorPrior(BehaviorConfig(), MAX_TWIST, task.control_dt, tool, end, panel.hash, force, 0.01)
    return bank, panel
