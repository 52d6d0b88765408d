"""What the gate and the robot both rely on: which robot it is, how it slows down, and how soon it misses a command."""

from __future__ import annotations

from typing import Annotated

from dexprior.config import Ge, Gt, config
from dexprior.errors import BadInput
from dexprior.robots.catalog import able_to_stop
from dexprior.robots.rigs import Rig

__all__ = ["RobotProfile", "profile_of"]


@config
class RobotProfile:
    """One robot. Its number of joints, their limits and its kinematics are those of the rig."""

    arm: str
    """Name of the arm in the catalog of `dexprior.robots`, as all arms have."""
    end: str
    """End effector in the same catalog."""
    deceleration: Annotated[float, Gt(0)]
    """Deceleration of the tool when it is stopped, or when commands stop coming [m/s^2]."""
    angular_deceleration: Annotated[float, Gt(0)]
    """Deceleration of the tool's rotation [rad/s^2]."""
    lag: Annotated[float, Ge(0)]
    """Time by which the tool follows its commands [s]."""
    watchdog: Annotated[float, Gt(0)] = 0.02
    """How long after its period a command goes on for want of the next one, before the robot slows down [s]: by so much
    may a command be late."""


def profile_of(rig: Rig) -> RobotProfile:
    """The profile of a rig whose arm's motion is in the catalog.

    Raises:
        BadInput: it is not.
    """
    motion = rig.arm.motion
    if motion is None:
        raise BadInput(f"nobody has said how the arm {rig.arm.name!r} stops; known: {', '.join(able_to_stop())}")
    return RobotProfile(
        arm=rig.arm.name,
        end=rig.end.name,
        deceleration=motion.deceleration,
        angular_deceleration=motion.angular_deceleration,
        lag=motion.lag,
    )
