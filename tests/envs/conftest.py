"""Instances and robot states that the environment tests share."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.envs.hardware import RobotState
from dexprior.envs.panel import Panel
from dexprior.robots.arm7 import HOME, ArmKinematics
from dexprior.worlds.tasks import make_task


@pytest.fixture(scope="session")
def instance() -> Panel:
    """A panel of one instance of the insertion in its other world."""
    task = make_task("insertion").other()
    return Panel.sample("test", task, 1, seed=3, family=task.reality)


@pytest.fixture
def state() -> RobotState:
    """The built-in arm at home, at 10 s on the host's clock and 1000 s on its own."""
    position, _, _ = ArmKinematics().forward(HOME[None])
    return RobotState(
        t=1000.0,
        t_host=10.0,
        seq=-1,
        status="ready",
        q=HOME,
        qd=np.zeros(7),
        tcp=np.array([*position[0], 0.0, 1.0, 0.0, 0.0]),
        opening=0.08,
        wrench=np.zeros(6),
        peak_force=0.0,
        touch=np.zeros(2),
        cloud=np.zeros((64, 3)),
    )
