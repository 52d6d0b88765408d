"""Twists of a policy become twists that a robot bears: speed, acceleration and jerk stay below limits."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dexprior import extras
from dexprior.envs.hardware.franka.limits import MotionLimits

__all__ = ["CYCLE", "Shaper"]

CYCLE = 1e-3
"""Seconds between two commands to the robot."""


_REST = 1e-9  # [m/s, rad/s, m/s^2, rad/s^2] what rounding leaves


class Shaper:
    """A twist that approaches what is asked for, by time-optimal profiles with bounded jerk (ruckig).

    The limits hold for the norms of translation and rotation: each axis gets 1 / sqrt(3) of them.

    Args:
        limits: of the tool's motion.

    Raises:
        MissingExtra: ruckig is not installed.
    """

    def __init__(self, limits: MotionLimits) -> None:
        ruckig = extras.require("ruckig")
        self._limits = limits
        self._profile = ruckig.Ruckig(6, CYCLE)
        self._input, self._output = ruckig.InputParameter(6), ruckig.OutputParameter(6)
        self._input.control_interface = ruckig.ControlInterface.Velocity
        self._input.max_acceleration = _each(limits.acceleration, limits.angular_acceleration)
        self._input.max_jerk = _each(limits.jerk, limits.angular_jerk)
        self.restart()

    def restart(self) -> None:
        """Begin at rest."""
        zero = [0.0] * 6
        self._input.current_position, self._input.current_velocity = zero, zero
        self._input.current_acceleration = zero

    @property
    def still(self) -> bool:
        """Whether it has come to rest."""
        now = (*self._input.current_velocity, *self._input.current_acceleration)
        return all(abs(x) < _REST for x in now)

    def step(self, asked: Sequence[float], cycles: int = 1) -> list[float]:
        """The twist of the next cycle.

        Args:
            asked: the twist to go to [m/s, rad/s]; speeds beyond the limits are shortened in their direction.
            cycles: how many have passed since the last one.
        """
        linear, angular = asked[:3], asked[3:]
        self._input.target_velocity = [
            *_shortened(linear, self._limits.speed), *_shortened(angular, self._limits.angular_speed),
        ]  # fmt: skip
        for _ in range(cycles):
            self._profile.update(self._input, self._output)
            self._output.pass_to_input(self._input)
        if self.still and not any(self._input.target_velocity):
            self.restart()
            return [0.0] * 6
        return list(self._output.new_velocity)


def _each(linear: float, angular: float) -> list[float]:
    return [linear / math.sqrt(3.0)] * 3 + [angular / math.sqrt(3.0)] * 3


def _shortened(vector: Sequence[float], limit: float) -> Sequence[float]:
    size = math.hypot(*vector)
    return vector if size <= limit else [x * limit / size for x in vector]
