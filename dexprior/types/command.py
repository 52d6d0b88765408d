"""One command to a robot, simulated or real."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from dexprior.types.check import Checker

__all__ = ["Command", "CommandMode"]

CommandMode = Literal["cartesian_velocity", "joint_position", "tendon"]


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command.

    NaN is allowed here on purpose, and only here: the safety gate must see what a policy really asked for, refuse
    it and log it.
    """

    schema: ClassVar[str] = "dexprior.command/2"

    seq: int
    """Counts up by one; a gap is a lost command."""
    t: float
    """When it was decided, monotonic seconds of the sender."""
    mode: CommandMode
    value: Float[np.ndarray, " n"]
    """`cartesian_velocity`: twist [vx vy vz wx wy wz] at the tool centre point in base axes [m/s, rad/s];
    `joint_position`: [rad]; `tendon`: tensions [N]."""
    gripper: float | None = None
    """Wanted opening between the pads [m]; None leaves the gripper as it is."""
    saturated: int = 0
    """Numbers of the arm's part of the action behind it that were clipped; 0 for what was no action."""

    def __post_init__(self) -> None:
        Checker(self).one_of("mode", ("cartesian_velocity", "joint_position", "tendon"))
        value = np.array(self.value, dtype=np.float64).reshape(-1)
        value.setflags(write=False)
        object.__setattr__(self, "value", value)

    @property
    def finite(self) -> bool:
        """Whether every number in it is finite."""
        return bool(np.isfinite(self.value).all()) and (self.gripper is None or math.isfinite(self.gripper))
