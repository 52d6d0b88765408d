"""What the gate and the robot both rely on: which robot it is, how it slows down, and how soon it misses a command."""

from __future__ import annotations

from typing import Annotated

from dexprior.config import Ge, Gt, config

__all__ = ["RobotProfile"]


@config
class RobotProfile:
    """One robot. Its number of joints, their limits and its kinematics are those of the rig."""

    arm: str = "arm7"
    """In the catalog of `dexprior.worlds.rigs`."""
    end: str = "parallel"
    """End effector in the same catalog."""
    deceleration: Annotated[float, Gt(0)] = 6.0
    """Of the tool when it is stopped, or when commands stop coming [m/s^2]; 9 is what an FR3 allows."""
    angular_deceleration: Annotated[float, Gt(0)] = 12.0
    """Of the tool's rotation [rad/s^2]; 17 is what an FR3 allows."""
    watchdog: Annotated[float, Gt(0)] = 0.02
    """How long after its period a command goes on for want of the next one, before the robot slows down [s]: by so much
    may a command be late."""
    lag: Annotated[float, Ge(0)] = 0.04
    """By which the tool follows its commands [s]; of the built-in arm .03 to .035 was measured."""
