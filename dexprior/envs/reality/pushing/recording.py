"""What a laboratory records of a strike: poses by motion capture, and when the rod's force sensor felt the object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Float

from dexprior.config import Ge, Gt, config
from dexprior.errors import BadInput
from dexprior.types.check import Checker
from dexprior.worlds.pushing import Strikes

__all__ = ["CaptureConfig", "Recordings"]


@config
class CaptureConfig:
    """The motion capture; its noise is independent from frame to frame."""

    rate: Annotated[float, Gt(0)] = 200.0
    """Frames per second."""
    position_noise: Annotated[float, Ge(0)] = 2e-4
    """Standard deviation of x and y [m]."""
    angle_noise: Annotated[float, Ge(0)] = 4e-3
    """Standard deviation of the yaw [rad]."""


@dataclass(frozen=True, kw_only=True)
class Recordings:
    """Recorded strikes on objects at rest; NaN stands where no frame was taken."""

    schema: ClassVar[str] = "dexprior.strike_recordings/1"

    strikes: Strikes
    """As they were asked for: the rod moves as commanded."""
    pose: Float[np.ndarray, "strike 3"]
    """[x y yaw] at which the object was placed."""
    track: Float[np.ndarray, "strike frame 3"]
    """[x y yaw] at every frame, yaw counted on through full turns."""
    t: Float[np.ndarray, " frame"]
    """Time of the frames [s]; the rod starts at zero."""
    touch: Float[np.ndarray, "strike 2"]
    """When the rod felt the object first and last [s]."""
    final_pose: Float[np.ndarray, "strike 3"]
    """Where the object stopped: the mean of several frames at rest."""
    velocity: Float[np.ndarray, "strike 3"] | None = None
    """[vx vy omega] at separation, from a table that tells the truth, to score by; None from any other."""

    def __post_init__(self) -> None:
        check = Checker(self)
        check.array("pose", "strike", 3)
        check.array("touch", "strike", 2)
        check.array("final_pose", "strike", 3)
        n = len(self.strikes)
        if self.track.shape != (n, len(self.t), 3) or len(self.pose) != n:
            raise BadInput(f"Recordings: track {self.track.shape} must be ({n}, {len(self.t)}, 3)")

    def __len__(self) -> int:
        return len(self.strikes)

    def take(self, rows: np.ndarray) -> Recordings:
        """The chosen strikes, in the given order."""
        chosen = Strikes(**{name: getattr(self.strikes, name)[rows] for name in ("alpha", "speed", "beta")})
        fields = ("pose", "track", "touch", "final_pose")
        told = None if self.velocity is None else self.velocity[rows]
        return Recordings(
            strikes=chosen, t=self.t, velocity=told, **{name: getattr(self, name)[rows] for name in fields}
        )

    def tails(self) -> tuple[Float[np.ndarray, "strike frame 3"], Float[np.ndarray, " frame"]]:
        """The frames after separation, and their times counted from the first of them; NaN where a track has ended."""
        first = np.searchsorted(self.t, self.touch[:, 1], side="right")
        frames = len(self.t) - int(first.min())
        tails = np.full((len(self), frames, 3), np.nan)
        for tail, track, k in zip(tails, self.track, first):
            tail[: len(self.t) - k] = track[k:]
        return tails, self.t[:frames] - self.t[0]
