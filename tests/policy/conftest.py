"""A panel, and a behavioral prior that hovers over its nuts."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.behavior import BehaviorConfig, BehaviorPrior
from dexprior.envs.panel import Panel
from dexprior.geometry.timing import minimum_jerk
from dexprior.robots.arm7 import HOME, ArmKinematics
from dexprior.worlds.tasks import Task, make_task
from dexprior.worlds.tasks.actions import MAX_TWIST


@pytest.fixture(scope="session")
def task() -> Task:
    """What is learned."""
    return make_task("insertion")


@pytest.fixture(scope="session")
def panel(task) -> Panel:
    """Four training instances."""
    return Panel.sample("test", task, 4, seed=0)


@pytest.fixture(scope="session")
def bank(task, panel) -> BehaviorPrior:
    """Down to the nut in a second, close, and up again; one trajectory a scene."""
    home = ArmKinematics().forward(HOME[None])[0][0]
    k = np.arange(1, task.steps + 1)
    down, up = minimum_jerk(k / 25), minimum_jerk((k - 45) / 25)
    tool = np.empty((len(panel), 1, task.steps, 1, 7))
    tool[..., 3:] = [0.0, 1.0, 0.0, 0.0]
    for i, place in enumerate(panel.scenes["nut"]):
        nut = place + np.array([0.0, 0.0, 0.012])
        tool[i, 0, :, 0, :3] = (1 - down)[:, None] * home + down[:, None] * nut + up[:, None] * [0.0, 0.0, 0.08]
    end = np.broadcast_to(np.where(k < 30, 1.0, -0.5)[:, None, None], (len(panel), 1, task.steps, 1, 1)).copy()
    return BehaviorPrior(BehaviorConfig(), MAX_TWIST, task.control_dt, tool, end, panel.hash)
