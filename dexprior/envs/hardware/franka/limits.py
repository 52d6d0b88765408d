"""Limits of the FR3: the maker's, and those that its motion and its gate are held to here.

The maker's are of "Robot and interface specifications" (Franka Robotics, control parameters of the FR3).
"""

from __future__ import annotations

from typing import Annotated, Any

from dexprior.config import Gt, config

__all__ = ["FR3", "GATE", "LOST_CYCLES", "SHAPED", "MotionLimits"]


@config
class MotionLimits:
    """Largest norms of a tool's translation and rotation, and of what changes them."""

    speed: Annotated[float, Gt(0)]
    """Linear speed [m/s]."""
    acceleration: Annotated[float, Gt(0)]
    """Linear acceleration [m/s^2]."""
    jerk: Annotated[float, Gt(0)]
    """Linear jerk [m/s^3]."""
    angular_speed: Annotated[float, Gt(0)]
    """Angular speed [rad/s]."""
    angular_acceleration: Annotated[float, Gt(0)]
    """Angular acceleration [rad/s^2]."""
    angular_jerk: Annotated[float, Gt(0)]
    """Angular jerk [rad/s^3]."""


FR3 = MotionLimits(
    speed=3.0, acceleration=9.0, jerk=4500.0, angular_speed=2.5, angular_acceleration=17.0, angular_jerk=8500.0
)
"""The maker's: a command beyond one of them aborts the motion."""
SHAPED = MotionLimits(
    speed=1.0, acceleration=3.0, jerk=600.0, angular_speed=2.0, angular_acceleration=6.0, angular_jerk=1200.0
)
"""What commands are shaped to: a third of the maker's accelerations and less of the jerk, so that joints far from the
middle of their range, whose own limits translate into less, keep room."""
LOST_CYCLES = 20
"""Milliseconds without an answer after which the robot stops by itself."""

GATE: dict[str, Any] = {
    "max_linear_speed": 0.25,
    "max_angular_speed": 0.8,
    "max_force": 20.0,
    "press_force": 10.0,
    "robot": {
        "deceleration": SHAPED.acceleration / 3**0.5,
        "angular_deceleration": SHAPED.angular_acceleration / 3**0.5,
        "lag": 0.04,
    },
}
"""Settings of the gate in front of a robot beside which people may stand: 0.25 m/s is the reduced speed of ISO 10218-1,
20 N a force that a hand can push back. They are defaults, and no statement that any standard is met. Decelerations are
those of the slowest direction; the lag holds the time until a deceleration has built up, 5 ms, and what was measured
on the emulator."""
