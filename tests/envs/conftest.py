"""Instances and robot states that the environment tests share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.envs.hardware import RobotState
from dexprior.envs.line.panel import Instance, Panel
from dexprior.worlds.arm import HOME, ArmKinematics
from dexprior.worlds.insertion import OTHER_FAMILY


@pytest.fixture(scope="session")
def instance() -> Instance:
    """A task instance in the other world."""
    return Panel.sample("test", OTHER_FAMILY, 1, seed=3).instances[0]


@pytest.fixture
def quiet(instance: Instance) -> Instance:
    """The same, without sensor noise."""
    return replace(instance, parameters={**instance.parameters, "wrench_noise": 0.0, "cloud_noise": 0.0})


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
