"""Objects over time, and who touches them when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput
from dexprior.types.check import Checker
from dexprior.types.hand import FINGERS, SIDES, Side

__all__ = ["TRACKS", "ContactSchedule", "ObjectTrajectory"]


TRACKS = 16
"""Points of matter by which an object is usually followed; the prior's motion stream has so many."""


@dataclass(frozen=True, kw_only=True)
class ObjectTrajectory:
    """An object over time: half of what a video says, carried beside the hand.

    A few points of its matter say where it is, whether it is rigid or not; `dexprior.data.objects` makes them.
    """

    schema: ClassVar[str] = "dexprior.object_trajectory/2"

    object: str
    """Name in the catalog or the world."""
    t: Float[np.ndarray, " time"]
    """Monotonic seconds, strictly increasing."""
    points: Float[np.ndarray, "time track 3"]
    """Points on its surface in the base frame [m]; point k is the same matter throughout."""
    valid: Bool[np.ndarray, " time"]
    """Whether the frame was measured."""
    pose: Float[np.ndarray, "time 7"] | None = None
    """Pose of the object frame in the base frame; None for what deforms."""

    def __post_init__(self) -> None:
        check = Checker(self)
        check.times("t", "time")
        points = check.array("points", "time", "track", 3)
        if not points.shape[1]:
            raise BadInput("ObjectTrajectory.points follows no point")
        if self.pose is not None:
            check.poses("pose", "time")
        check.array("valid", "time", dtype=bool)

    def __len__(self) -> int:
        return len(self.t)

    @property
    def centre(self) -> Float[np.ndarray, "time 3"]:
        """Mean of the points [m]."""
        return self.points.mean(axis=1)


@dataclass(frozen=True, kw_only=True)
class ContactSchedule:
    """Which finger touches when, where and how hard: one row for each touch."""

    schema: ClassVar[str] = "dexprior.contact_schedule/2"

    side: tuple[Side, ...]
    """Side of the hand, one a touch."""
    finger: tuple[str, ...]
    """Finger names, one a touch."""
    t_on: Float[np.ndarray, " touch"]
    """First contact [s]."""
    t_off: Float[np.ndarray, " touch"]
    """End of the contact [s]."""
    point: Float[np.ndarray, "touch 3"]
    """Mean contact point in the object frame [m]."""
    normal_force: Float[np.ndarray, " touch"]
    """Mean normal force [N]."""

    def __post_init__(self) -> None:
        check = Checker(self)
        on = check.array("t_on", "touch")
        off = check.array("t_off", "touch")
        check.array("point", "touch", 3)
        check.array("normal_force", "touch", low=0.0)
        for name, what in (("finger", "finger names"), ("side", "sides")):
            values = tuple(getattr(self, name))
            object.__setattr__(self, name, values)
            if len(values) != len(on):
                raise BadInput(f"ContactSchedule: {len(values)} {what} for {len(on)} touches")
        for side in self.side:
            if side not in SIDES:
                raise BadInput(f"ContactSchedule.side = {side!r}; choices: {', '.join(SIDES)}")
        for name in self.finger:
            if name not in FINGERS:
                raise BadInput(f"ContactSchedule.finger = {name!r}; choices: {', '.join(FINGERS)}")
        if (off < on).any():
            k = int(np.argmax(off < on))
            raise BadInput(f"ContactSchedule: touch {k} ends at {off[k]:.3f} s before it starts at {on[k]:.3f} s")

    def onset(self, finger: str | None = None) -> float | None:
        """First contact of a finger, or of any finger [s]; None without a touch."""
        times = [t for f, t in zip(self.finger, self.t_on) if finger is None or f == finger]
        return float(min(times)) if times else None
