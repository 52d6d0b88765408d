"""Objects over time, and who touches them when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from dexprior.types.check import Checker
from dexprior.types.hand import FINGERS

__all__ = ["ContactSchedule", "ObjectTrajectory"]


@dataclass(frozen=True, kw_only=True)
class ObjectTrajectory:
    """An object's pose over time: half of what a video says, carried beside the hand."""

    schema: ClassVar[str] = "dexprior.object_trajectory/1"

    object: str
    """Name in the catalog or the world."""
    t: Float[np.ndarray, " time"]
    """Monotonic seconds, strictly increasing."""
    pose: Float[np.ndarray, "time 7"]
    """Pose of the object frame in the base frame."""
    valid: Bool[np.ndarray, " time"]
    """Whether the frame was measured."""

    def __post_init__(self) -> None:
        check = Checker(self)
        check.times("t", "time")
        check.poses("pose", "time")
        check.array("valid", "time", dtype=bool)

    def __len__(self) -> int:
        return len(self.t)


@dataclass(frozen=True, kw_only=True)
class ContactSchedule:
    """Which finger touches when, where and how hard: one row for each touch."""

    schema: ClassVar[str] = "dexprior.contact_schedule/1"

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
        object.__setattr__(self, "finger", tuple(self.finger))
        from dexprior.errors import BadInput

        if len(self.finger) != len(on):
            raise BadInput(f"ContactSchedule: {len(self.finger)} finger names for {len(on)} touches")
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
