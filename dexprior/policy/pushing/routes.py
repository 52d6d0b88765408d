"""The high-level planner: a route is a chain of straight segments, of which one at a time is handed to the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from dexprior.envs.pushing import PushingTask
from dexprior.errors import BadInput
from dexprior.geometry.rotations import wrap_angle
from dexprior.types.check import Checker

__all__ = ["Route", "next_segment"]


@dataclass(frozen=True, kw_only=True)
class Route:
    """Corner points of a path in the plane, from its start to its end."""

    schema: ClassVar[str] = "dexprior.route/1"

    corners: Float[np.ndarray, "corner 2"]
    """[m]"""

    def __post_init__(self) -> None:
        Checker(self).array("corners", "corner", 2)
        if len(self.corners) < 2:
            raise BadInput(f"Route: {len(self.corners)} corner(s), at least a start and an end are needed")

    @classmethod
    def turning(cls, segments: int, task: PushingTask, *, angle: float = np.pi / 4) -> Route:
        """Segments of the task's length that turn by `angle` to the left, then to the right, and so on.

        Raises:
            BadInput: an angle beyond what the policy is trained for, or no segment.
        """
        if segments < 1 or abs(angle) > task.max_turn + 1e-9:
            raise BadInput(
                f"Route.turning: {segments} segments that turn by {angle:.3f} rad; needs one or more, and at most "
                f"task.max_turn = {task.max_turn:.3f}"
            )
        heading = np.where(np.arange(segments) % 2 == 1, angle, 0.0)
        steps = task.length * np.stack([np.cos(heading), np.sin(heading)], axis=1)
        return cls(corners=np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)]))

    @property
    def segments(self) -> int:
        """Number of segments."""
        return len(self.corners) - 1

    @property
    def heading(self) -> Float[np.ndarray, " segment"]:
        """Direction of each segment [rad]."""
        step = np.diff(self.corners, axis=0)
        return np.arctan2(step[:, 1], step[:, 0])


def next_segment(route: Route, done: int) -> tuple[Float[np.ndarray, " 3"], float]:
    """The upcoming segment's start [x y heading], and its sub-goal's orientation from that heading [rad].

    The sub-goal lies at the end of the segment and looks along the one after; the last one looks along its own.

    Raises:
        BadInput: no segment is left.
    """
    if not 0 <= done < route.segments:
        raise BadInput(f"next_segment: {done} of {route.segments} segments are done; none is left")
    heading = route.heading
    ahead = heading[min(done + 1, route.segments - 1)]
    turn = wrap_angle(ahead - heading[done])
    return np.array([*route.corners[done], heading[done]]), float(turn)
