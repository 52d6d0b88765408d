"""What a robot does, and what it feels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput
from dexprior.types.check import Checker

__all__ = ["JointTrajectory", "WrenchTrack"]


@dataclass(frozen=True, kw_only=True)
class JointTrajectory:
    """Joint positions of a robot over time, with the end-effector pose that they reach and what its fingertips are to
    feel."""

    schema: ClassVar[str] = "dexprior.joint_trajectory/2"
    command: ClassVar[str] = "dexprior retarget"

    robot: str
    """A hand's name in the catalog, or an arm's and its end effector's: `arm7+parallel`."""
    model_hash: str
    """Hash of the compiled model: trajectories of another model are refused."""
    names: tuple[str, ...]
    """Joint names, in the order of `q`."""
    t: Float[np.ndarray, " time"]
    """Monotonic seconds, strictly increasing."""
    q: Float[np.ndarray, "time joint"]
    """Joint positions [rad, or m for slides]."""
    ee_pose: Float[np.ndarray, "time 7"]
    """Pose of the tool centre point in the base frame."""
    feasible: Bool[np.ndarray, " time"]
    """Whether the frame keeps the limits and reaches the wanted pose within tolerance."""
    fingers: tuple[str, ...]
    """Order of `contact` and `force`: human names of a hand's fingers, or on an arm the touch sensors of the end
    effector's fingertips."""
    contact: Float[np.ndarray, "time finger"]
    """Probability that each is to touch the object."""
    force: Float[np.ndarray, "time finger"]
    """Normal force of each fingertip on the object: wanted, not measured [N]."""

    def __post_init__(self) -> None:
        check = Checker(self)
        check.times("t", "time")
        q = check.array("q", "time", "joint")
        check.poses("ee_pose", "time")
        check.array("feasible", "time", dtype=bool)
        object.__setattr__(self, "names", tuple(self.names))
        if len(self.names) != q.shape[1]:
            raise BadInput(f"JointTrajectory: {len(self.names)} names for {q.shape[1]} joints")
        contact = check.array("contact", "time", "finger", low=0.0, high=1.0)
        check.array("force", "time", "finger", low=0.0)
        object.__setattr__(self, "fingers", tuple(self.fingers))
        if len(self.fingers) != contact.shape[1]:
            raise BadInput(f"JointTrajectory: {len(self.fingers)} names for {contact.shape[1]} fingers")

    def __len__(self) -> int:
        return len(self.t)


@dataclass(frozen=True, kw_only=True)
class WrenchTrack:
    """Force and torque that the environment exerts on the tool, in the sensor frame."""

    schema: ClassVar[str] = "dexprior.wrench_track/1"

    t: Float[np.ndarray, " time"]
    """Monotonic seconds, strictly increasing."""
    wrench: Float[np.ndarray, "time 6"]
    """[fx fy fz tx ty tz] of the environment on the tool, sensor frame [N, N m]."""
    tared: bool
    """Whether the reading without load was subtracted."""
    gravity_compensated: bool
    """Whether the tool's weight was subtracted."""

    def __post_init__(self) -> None:
        check = Checker(self)
        check.times("t", "time")
        check.array("wrench", "time", 6)

    def __len__(self) -> int:
        return len(self.t)
