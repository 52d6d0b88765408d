"""What robots are told: actions in [-1, 1], as policies and experts give them, and commands in SI units.

commands = actions.commands(action)        # saturated
action = actions.action(commands)          # the inverse
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from dexprior.errors import BadInput
from dexprior.robots.rigs import Rig

__all__ = ["MAX_JOINT_SPEED", "MAX_TWIST", "ActionSpec", "ArmAction", "RobotCommand"]

ArmAction = Literal["cartesian", "joint"]
"""Twists at the tool centre point, or changes of the joint targets."""
MAX_TWIST = np.array([0.5, 0.5, 0.5, 2.0, 2.0, 2.0])
"""What an action of 1 stands for [m/s, rad/s]."""
MAX_JOINT_SPEED = 1.5
"""The same for joints [rad/s, m/s]."""


@dataclass(frozen=True, eq=False)
class RobotCommand:
    """What one robot of every world is told for a control period."""

    arm: Float[np.ndarray, "n arm"]
    """Twist of the tool centre point in base axes [m/s, rad/s], or one speed a joint [rad/s, m/s]."""
    end: Float[np.ndarray, "n actuator"]
    """Control of each actuator of the end effector, in its own unit (m, rad, or N of a tendon)."""
    saturated: Int[np.ndarray, " n"] | None = None
    """How many of the arm's numbers were clipped where it was made of an action; None where it was not."""


@dataclass(frozen=True, eq=False)
class ActionSpec:
    """What the columns of an action mean: robot by robot the arm's, then the end effector's (-1 closed, 1 open)."""

    rigs: tuple[Rig, ...]
    arm_action: ArmAction
    dt: float
    """Control period [s]."""

    @cached_property
    def columns(self) -> tuple[tuple[slice, slice], ...]:
        """Columns of each robot: columns of its arm, and of its end effector."""
        found, start = [], 0
        for rig in self.rigs:
            middle = start + self._arm_size(rig)
            stop = middle + rig.end.action_size
            found.append((slice(start, middle), slice(middle, stop)))
            start = stop
        return tuple(found)

    @property
    def size(self) -> int:
        """Columns of an action."""
        return self.columns[-1][1].stop if self.rigs else 0

    def commands(self, action: Float[np.ndarray, "n action"]) -> tuple[RobotCommand, ...]:
        """Commands of actions, one a robot; what lies beyond [-1, 1] is clipped, and counted where it is the arm's.

        Beyond an end effector's ends there is nothing to ask for: open is open. Beyond the arm's fastest there is.

        A value that is not finite passes: simulators refuse it, and a robot's safety gate has to see it to stop.

        Raises:
            BadInput: wrong shape.
        """
        action = np.asarray(action, dtype=np.float64)
        if action.ndim != 2 or action.shape[1] != self.size:
            raise BadInput(f"actions of shape {action.shape}, expected (n, {self.size})")
        beyond = np.abs(action) > 1.0
        action = np.clip(action, -1.0, 1.0)
        return tuple(
            RobotCommand(action[:, arm] * self._scale(rig), rig.end_control(action[:, end]), beyond[:, arm].sum(axis=1))
            for rig, (arm, end) in zip(self.rigs, self.columns)
        )

    def action(self, commands: Sequence[RobotCommand]) -> Float[np.ndarray, "n action"]:
        """Inverse of `commands`, without the clip; actuators that share a number must agree."""
        parts = []
        for rig, command in zip(self.rigs, commands, strict=True):
            first = slice(None) if rig.end.couples is None else [group[0] for group in rig.end.couples]
            low, high = rig.end.control[first].T
            parts += [command.arm / self._scale(rig), 2.0 * (command.end[:, first] - low) / (high - low) - 1.0]
        return np.concatenate(parts, axis=1)

    @staticmethod
    def saturated(action: Float[np.ndarray, "n action"]) -> int:
        """How many values `commands` clips."""
        return int((np.abs(action) > 1.0).sum())

    def _arm_size(self, rig: Rig) -> int:
        joints = len(rig.arm.joints)
        return 6 if self.arm_action == "cartesian" and joints else joints

    def _scale(self, rig: Rig) -> Float[np.ndarray, " arm"]:
        size = self._arm_size(rig)
        return MAX_TWIST if self.arm_action == "cartesian" and size else np.full(size, MAX_JOINT_SPEED)
