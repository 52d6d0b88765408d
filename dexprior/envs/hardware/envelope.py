"""Where the tool may go, and how fast: it must be able to stop before the workspace ends.

    reach(speed) = speed (age of the state + period + watchdog + lag) + speed^2 / (2 deceleration)

is how far the tool goes, at worst, if the command is the last one that anybody sends. In a contact zone, where the task
means to touch, the speed is at most `contact_speed` instead, and so it is for whatever would reach into one.
"""

from __future__ import annotations

import math

from dexprior.config import config
from dexprior.errors import BadInput

__all__ = ["Box", "Envelope", "Point"]

Point = tuple[float, float, float]

_SLACK = 1e-9  # [m] and relative: a command exactly at a limit passes


@config
class Box:
    """A box in the base frame [m]."""

    low: tuple[float, float, float]
    """Its smallest corner."""
    high: tuple[float, float, float]
    """Its largest corner."""

    def __post_init__(self) -> None:
        if not all(low < high for low, high in zip(self.low, self.high)):
            raise BadInput(f"gate: the box {self.low} to {self.high} is empty")

    def holds(self, p: Point) -> bool:
        """Whether a point is in it."""
        (x, y, z), (a, b, c), (d, e, f) = p, self.low, self.high
        return a <= x <= d and b <= y <= e and c <= z <= f

    def meets(self, p: Point, q: Point) -> bool:
        """Whether the straight line from p to q touches it."""
        return self.entry(p, q) <= 1.0

    def entry(self, p: Point, q: Point) -> float:
        """Share of the way from p to q at which the line through both enters the box; infinite if it never does."""
        first, last = 0.0, math.inf
        for a, b, low, high in zip(p, q, self.low, self.high):
            step = b - a
            if step == 0.0:
                if not low <= a <= high:
                    return math.inf
                continue
            near, far = (low - a) / step, (high - a) / step
            if near > far:
                near, far = far, near
            first, last = max(first, near), min(last, far)
        return first if first <= last else math.inf


class Envelope:
    """Speeds and places that leave room to stop.

    Args:
        workspace: in which the tool centre point must stay.
        zones: where contact is intended; they may reach beyond the workspace.
        contact_speed: largest in a zone [m/s].
        deceleration: of the robot [m/s^2].
        delay: from the moment at which a command is judged until the robot slows down for want of the next [s].
    """

    def __init__(
        self, workspace: Box, zones: tuple[Box, ...], *, contact_speed: float, deceleration: float, delay: float
    ) -> None:
        self.workspace, self.zones = workspace, zones
        self.contact_speed, self._deceleration, self._delay = contact_speed, deceleration, delay

    def reach(self, speed: float, age: float) -> float:
        """How far the tool goes at a speed [m/s] until it stands [m], in a state of some age [s]."""
        return speed * (age + self._delay) + speed * speed / (2.0 * self._deceleration)

    def ahead(self, p: Point, velocity: Point, speed: float, age: float) -> Point:
        """Where the tool stands after a command that is the last one."""
        if speed == 0.0:
            return p
        k = self.reach(speed, age) / speed
        return p[0] + k * velocity[0], p[1] + k * velocity[1], p[2] + k * velocity[2]

    def leaves(self, p: Point, ahead: Point) -> int | None:
        """Axis along which a tool that stands ahead is outside, farther than now; None where it is inside."""
        worst, axis = _SLACK, None
        for k in (0, 1, 2):
            low, high = self.workspace.low[k], self.workspace.high[k]
            farther = max(low - ahead[k], ahead[k] - high, 0.0) - max(low - p[k], p[k] - high, 0.0)
            if farther > worst:
                worst, axis = farther, k
        return None if axis is None or any(zone.holds(ahead) for zone in self.zones) else axis

    def touches(self, p: Point, ahead: Point) -> bool:
        """Whether the way ahead leads through a contact zone, or begins in one."""
        return any(zone.meets(p, ahead) for zone in self.zones)

    def fastest(self, p: Point, velocity: Point, age: float) -> float:
        """Largest speed in the direction of a velocity that this envelope lets through [m/s]; at most its own."""
        asked = math.hypot(*velocity)
        if asked == 0.0:
            return 0.0

        def allowed(speed: float) -> bool:
            ahead = (
                self.ahead(p, velocity, asked, age) if speed == asked else self._scaled(p, velocity, asked, speed, age)
            )
            return self.leaves(p, ahead) is None and (speed <= self.contact_speed or not self.touches(p, ahead))

        if allowed(asked):
            return asked
        low, high = 0.0, asked
        # what is allowed is allowed at less speed, too, except that slow commands may end in a zone and fast ones not
        if asked > self.contact_speed and allowed(self.contact_speed):
            low = self.contact_speed
        for _ in range(30):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if allowed(middle) else (low, middle)
        return low

    def _scaled(self, p: Point, velocity: Point, asked: float, speed: float, age: float) -> Point:
        k = speed / asked
        return self.ahead(p, (k * velocity[0], k * velocity[1], k * velocity[2]), speed, age)
