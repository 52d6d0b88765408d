"""A panel, and a behavioral prior that hovers over its nuts."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.behavior import BehaviorConfig, BehaviorPrior
from dexprior.envs.line.base import HORIZON, MAX_TWIST
from dexprior.envs.line.panel import Panel
from dexprior.geometry.timing import minimum_jerk
from dexprior.worlds.arm import HOME, MAX_OPENING, ArmKinematics
from dexprior.worlds.insertion import TRAINING_FAMILY
from dexprior.worlds.stepping import CONTROL_DT


@pytest.fixture(scope="session")
def panel() -> Panel:
    """Four training instances."""
    return Panel.sample("test", TRAINING_FAMILY, 4, seed=0)


@pytest.fixture(scope="session")
def bank(panel) -> BehaviorPrior:
    """Down to the nut in a second, close, and up again; one trajectory a scene."""
    home = ArmKinematics().forward(HOME[None])[0][0]
    k = np.arange(1, HORIZON + 1)
    down, up = minimum_jerk(k / 25), minimum_jerk((k - 45) / 25)
    tool = np.empty((len(panel), 1, HORIZON, 7))
    tool[..., 3:] = [0.0, 1.0, 0.0, 0.0]
    for i, instance in enumerate(panel):
        nut = np.array(instance.nut) + np.array([0.0, 0.0, 0.012])
        tool[i, 0, :, :3] = (1 - down)[:, None] * home + down[:, None] * nut + up[:, None] * [0.0, 0.0, 0.08]
    opening = np.broadcast_to(np.where(k < 30, 0.08, 0.02), (len(panel), 1, HORIZON)).copy()
    return BehaviorPrior(BehaviorConfig(), MAX_TWIST, MAX_OPENING, CONTROL_DT, tool, opening, panel.hash)
