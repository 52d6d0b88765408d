"""A scripted insertion that looks at the truth, for whatever needs a command source that succeeds."""

from __future__ import annotations

import numpy as np

from dexprior.envs.line.base import Reading
from dexprior.worlds.insertion import InsertionConfig

__all__ = ["ScriptedInsertion"]


class ScriptedInsertion:
    """Puts the nut on the bolt by looking at the truth: over it, down, grasp, up, across, down."""

    def __init__(self, world: InsertionConfig) -> None:
        self.world, self.phase, self.count = world, 0, 0
        self.nut: np.ndarray | None = None

    def __call__(self, reading: Reading) -> tuple[np.ndarray, np.ndarray]:
        """Twist and opening."""
        assert reading.truth is not None
        nut, bolt, tool = reading.truth.nut[0, :3], reading.truth.bolt[0], reading.tcp[0, :3]
        self.nut = nut.copy() if self.nut is None else self.nut
        up, held = np.array([0.0, 0.0, 1.0]), tool - nut
        grasp = self.nut + 0.004 * up
        over = bolt + (self.world.bolt_height + self.world.height / 2 + 0.015) * up
        goals = (
            (self.nut + 0.08 * up, 0.08),
            (grasp, 0.08),
            (grasp, 0.0),
            (np.array([*tool[:2], over[2] + 0.004]), 0.0),
            (over + held, 0.0),
            (bolt + (self.world.height / 2 + 0.004) * up + held, 0.0),
        )
        goal, opening = goals[self.phase]
        self.count += 1
        arrived = self.count >= 8 if self.phase == 2 else np.linalg.norm(goal - tool) < 0.003
        if arrived and self.phase < len(goals) - 1:
            self.phase, self.count = self.phase + 1, 0
        velocity = np.clip(6.0 * (goal - tool), -0.4, 0.4)
        return np.concatenate([velocity, np.zeros(3)])[None], np.array([opening])
