"""What the video prior is given and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, UInt8

from dexprior.errors import BadInput
from dexprior.types.check import Checker
from dexprior.types.hand import HandTrajectory, Side
from dexprior.types.object import ContactSchedule, ObjectTrajectory

__all__ = ["Camera", "ContactConfiguration", "PriorCondition", "VideoSample"]


@dataclass(frozen=True, kw_only=True)
class Camera:
    """A pinhole camera: x right, y down, z forward."""

    schema: ClassVar[str] = "dexprior.camera/1"

    K: Float[np.ndarray, "3 3"]
    """Intrinsics for an image of `width` x `height` pixels; pixel centres at half-integers."""
    T_base_cam: Float[np.ndarray, "4 4"]
    """Camera pose in the base frame."""
    width: int
    height: int

    def __post_init__(self) -> None:
        check = Checker(self)
        check.array("K", 3, 3)
        T = check.array("T_base_cam", 4, 4)
        if self.K[0, 0] <= 0 or self.K[1, 1] <= 0:
            raise BadInput(f"Camera.K: focal lengths {self.K[0, 0]:g}, {self.K[1, 1]:g} must be positive")
        R = T[:3, :3]
        if not np.allclose(R @ R.T, np.eye(3), atol=1e-4) or np.linalg.det(R) < 0:
            raise BadInput("Camera.T_base_cam: the upper-left 3x3 block is not a rotation")


@dataclass(frozen=True, kw_only=True)
class ContactConfiguration:
    """A MANO hand pose plus which fingers touch where: what the prior starts from and aims at."""

    schema: ClassVar[str] = "dexprior.contact_configuration/1"

    side: Side
    wrist_pose: Float[np.ndarray, 7]
    """Wrist pose in the base frame."""
    finger_pose: Float[np.ndarray, 45]
    """Axis-angle of MANO's finger joints [rad]."""
    betas: Float[np.ndarray, 10]
    """MANO shape coefficients."""
    touching: Bool[np.ndarray, 5]
    """Which fingers touch the object."""
    points: Float[np.ndarray, "5 3"]
    """Where they touch, base frame [m]; zero where they do not."""

    def __post_init__(self) -> None:
        check = Checker(self)
        check.one_of("side", ("left", "right"))
        check.poses("wrist_pose")
        check.array("finger_pose", 45)
        check.array("betas", 10)
        check.array("touching", 5, dtype=bool)
        check.array("points", 5, 3)


@dataclass(frozen=True, kw_only=True)
class PriorCondition:
    """What a sample is conditioned on."""

    schema: ClassVar[str] = "dexprior.prior_condition/2"
    command: ClassVar[str] = "dexprior data generate"

    cloud: Float[np.ndarray, "point 6"]
    """Surface points and unit normals of what is manipulated and of what it is put into, in the base frame [m]."""
    moves: Bool[np.ndarray, " point"]
    """Which of them are on what is manipulated."""
    points: Float[np.ndarray, "track 3"]
    """Where the points of matter are at the start that an `ObjectTrajectory` follows [m]."""
    start: ContactConfiguration
    """Hand at the first frame."""
    target: ContactConfiguration
    """Hand when it is about to let go; at the last frame where it never does."""
    target_at: float
    """When that is [s]."""
    seconds: float
    """Length of the clip [s]."""
    camera: Camera
    """Where the video is seen from (K and T_base_cam)."""
    text: str
    """One sentence that names the task."""
    pose: Float[np.ndarray, 7] | None = None
    """Pose of what is manipulated at the start; None for what deforms."""

    def __post_init__(self) -> None:
        check = Checker(self)
        cloud = check.array("cloud", "point", 6)
        if len(cloud) == 0:
            raise BadInput("PriorCondition.cloud holds no points")
        if not check.array("moves", "point", dtype=bool).any():
            raise BadInput("PriorCondition.moves: no point of the cloud moves; what is manipulated?")
        if not len(check.array("points", "track", 3)):
            raise BadInput("PriorCondition.points follows no point")
        if self.pose is not None:
            check.poses("pose")
        if not 0.0 <= self.target_at <= self.seconds:
            raise BadInput(
                f"PriorCondition.target_at = {self.target_at:g} s lies outside the clip of {self.seconds:g} s"
            )
        norms = np.linalg.norm(cloud[:, 3:], axis=1)
        if not np.allclose(norms, 1.0, atol=1e-2):
            raise BadInput(f"PriorCondition.cloud: normals have norms {norms.min():.3f} to {norms.max():.3f}, not 1")
        if np.abs(cloud[:, :3]).max() > 10.0:
            raise BadInput(
                f"PriorCondition.cloud reaches {np.abs(cloud[:, :3]).max():.0f} m from the base: points are in "
                "metres in the base frame; a cloud in millimetres must be divided by 1000"
            )


@dataclass(frozen=True, kw_only=True)
class VideoSample:
    """A clip with what moves in it: a demonstration, or a sample of the prior."""

    schema: ClassVar[str] = "dexprior.video_sample/2"
    command: ClassVar[str] = "dexprior sample"

    frames: UInt8[np.ndarray, "time height width 3"]
    """RGB."""
    fps: float
    """Frames per second."""
    camera: Camera
    hand: HandTrajectory
    object: ObjectTrajectory
    contact: ContactSchedule
    provenance: dict[str, Any]
    """Where it comes from: `source` (demonstration, prior, real), seeds, checkpoints."""

    def __post_init__(self) -> None:
        check = Checker(self)
        frames = check.array("frames", "time", "height", "width", 3, dtype=np.uint8)
        if not self.fps > 0:
            raise BadInput(f"VideoSample.fps = {self.fps}: must be positive")
        if len(self.hand) != len(frames) or len(self.object) != len(frames):
            raise BadInput(
                f"VideoSample: {len(frames)} frames, {len(self.hand)} hand poses, {len(self.object)} object poses"
            )
