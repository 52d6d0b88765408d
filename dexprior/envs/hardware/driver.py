"""What a robot must offer to be driven: one small protocol, and the state that it reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from dexprior.envs.base import Truth
from dexprior.envs.panel import Panel
from dexprior.types import Command
from dexprior.types.check import Checker

__all__ = ["Driver", "RobotState", "RobotStatus"]

RobotStatus = Literal["ready", "moving", "holding", "stopped"]


@dataclass(frozen=True, kw_only=True)
class RobotState:
    """What a robot cell (arm, gripper, wrist sensor, camera) measures at one moment; always finite."""

    schema: ClassVar[str] = "dexprior.robot_state/1"

    t: float
    """Seconds on the device's clock; its zero means nothing."""
    t_host: float
    """Monotonic seconds of this host when the state arrived."""
    seq: int
    """The last command that was carried out for a whole period; -1 before the first."""
    status: RobotStatus
    """`holding`: commands stopped coming, it stands still. `stopped`: latched until `recover`."""
    q: Float[np.ndarray, " joint"]
    qd: Float[np.ndarray, " joint"]
    tcp: Float[np.ndarray, " 7"]
    """Pose of the tool centre point, base frame."""
    opening: float
    """Distance between the pads [m]."""
    wrench: Float[np.ndarray, " 6"]
    """Wrench of the environment on the tool at this moment, wrist frame [N, N m]."""
    peak_force: float
    """Largest norm of the force since the state before [N]: an impact lasts milliseconds, a period forty."""
    touch: Float[np.ndarray, " finger"]
    """Normal force on each fingertip [N]."""
    cloud: Float[np.ndarray, "point 3"]
    """Object points that the cell's camera measured, base frame [m]."""
    truth: Truth | None = None
    """What a tracker says, where the cell has one (n = 1)."""

    def __post_init__(self) -> None:
        check = Checker(self)
        for name in ("t", "t_host", "opening", "peak_force"):
            object.__setattr__(self, name, float(check.array(name)))
        axes: tuple[tuple[str, int | str], ...] = (("q", "joint"), ("qd", "joint"), ("wrench", 6), ("touch", "finger"))
        for name, axis in axes:
            check.array(name, axis)
        check.array("cloud", "point", 3)
        check.poses("tcp")
        check.one_of("status", ("ready", "moving", "holding", "stopped"))


@runtime_checkable
class Driver(Protocol):
    """One robot cell. Methods block; none may be called before `connect`; `stop` may come from any thread.

    A driver checks little: what may be sent is decided by `SafetyGate`. What it raises beyond the errors that are
    listed here stops the robot too.
    """

    @property
    def real_time(self) -> bool:
        """Whether its clock runs by itself. If not, time passes there only while it carries out a command."""
        ...

    @property
    def period(self) -> float:
        """Seconds that one command is carried out for."""
        ...

    def connect(self) -> None:
        """Reach the robot.

        Raises:
            ConnectionLost: it is not there.
        """
        ...

    def prepare(self, instance: Panel) -> RobotState:
        """Go to the home posture with an open gripper, objects placed (by an operator, where they are real).

        This motion is the driver's own and does not pass the gate.

        Raises:
            SafetyStop: the robot is stopped.
        """
        ...

    def read(self) -> RobotState:
        """The state at the end of the last command's period: waits for it, and so paces the caller.

        Raises:
            ConnectionLost: the robot is gone or silent.
            BadInput: what it reports is not a state, e.g. not finite.
        """
        ...

    def send(self, command: Command) -> None:
        """Hand over one command, to be carried out for one period; does not wait for it.

        Raises:
            SafetyStop: the robot is stopped.
            BadInput: the robot refuses the command. It may stay in motion under the one before: call `stop`.
            ConnectionLost: the robot is gone.
        """
        ...

    def stop(self) -> None:
        """Slow down at once, by the profile's deceleration, and stay so until `recover`.

        Raises:
            ConnectionLost: the robot is gone; it slows down by itself when a connection closes or falls silent.
        """
        ...

    def recover(self) -> None:
        """End a stop; for a person who has looked."""
        ...

    def close(self) -> None:
        """Let go of the robot, which then stands still."""
        ...
