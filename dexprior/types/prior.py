"""What the video prior is given and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, UInt8

from dexprior.errors import BadInput
from dexprior.types.check import Checker
from dexprior.types.hand import HandTrajectory, Side, by_side, of_side
from dexprior.types.object import ContactSchedule, ObjectTrajectory

__all__ = ["Camera", "ContactConfiguration", "PriorCondition", "VideoSample"]


@dataclass(frozen=True, kw_only=True)
class Camera:
    """A pinhole camera: x right, y down, z forward. It stands still, or has a pose in every frame of a clip."""

    schema: ClassVar[str] = "dexprior.camera/2"

    K: Float[np.ndarray, "3 3"]
    """Intrinsics for an image of `width` x `height` pixels; pixel centres at half-integers."""
    T_base_cam: Float[np.ndarray, "*time 4 4"]
    """Pose in the base frame: one, or one a frame where the camera moves."""
    width: int
    height: int

    def __post_init__(self) -> None:
        check = Checker(self)
        check.array("K", 3, 3)
        T = check.array("T_base_cam", *(["time"] if np.ndim(self.T_base_cam) == 3 else []), 4, 4)
        if not len(T):
            raise BadInput("Camera.T_base_cam holds no pose")
        if self.K[0, 0] <= 0 or self.K[1, 1] <= 0:
            raise BadInput(f"Camera.K: focal lengths {self.K[0, 0]:g}, {self.K[1, 1]:g} must be positive")
        R = T[..., :3, :3]
        if not np.allclose(R @ np.swapaxes(R, -1, -2), np.eye(3), atol=1e-4) or (np.linalg.det(R) < 0).any():
            raise BadInput("Camera.T_base_cam: the upper-left 3x3 block is not a rotation")

    @property
    def moves(self) -> bool:
        """Whether it has a pose of its own in every frame."""
        return self.T_base_cam.ndim == 3

    def poses(self, frames: int) -> Float[np.ndarray, "frames 4 4"]:
        """Its pose in each of so many frames; behind the end of its path it rests."""
        if not self.moves:
            return np.broadcast_to(self.T_base_cam, (frames, 4, 4))
        return self.T_base_cam[np.minimum(np.arange(frames), len(self.T_base_cam) - 1)]

    def check_frames(self, frames: int, what: str) -> None:
        """Refuse a path that is not as long as a clip.

        Raises:
            BadInput: it has another number of poses; `what` names the clip.
        """
        if self.moves and len(self.T_base_cam) != frames:
            raise BadInput(f"{what}: {frames} frames, but its camera moves through {len(self.T_base_cam)} poses")


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

    schema: ClassVar[str] = "dexprior.prior_condition/4"
    command: ClassVar[str] = "dexprior data generate"

    cloud: Float[np.ndarray, "point 6"]
    """Surface points and unit normals of what is manipulated and of what it is put into, in the base frame [m]."""
    moves: Bool[np.ndarray, " point"]
    """Which of them are on what is manipulated."""
    points: Float[np.ndarray, "track 3"]
    """Where the points of matter are at the start that an `ObjectTrajectory` follows [m]."""
    start: tuple[ContactConfiguration, ...]
    """One hand or two at the first frame, at most one of each side; in the order of `SIDES`."""
    target: tuple[ContactConfiguration, ...]
    """The same hands when they are about to let go; at the last frame where they never do."""
    target_at: float
    """When that is [s]."""
    seconds: float
    """Length of the clip [s]."""
    camera: Camera
    """Where the video is seen from: K, and T_base_cam, one or one a frame of the clip asked for."""
    text: str
    """One sentence that names the task."""
    pose: Float[np.ndarray, 7] | None = None
    """Pose of what is manipulated at the start; None for what deforms."""
    goal: Float[np.ndarray, 7] | None = None
    """Pose of the part that it is brought to, which stands still; None where there is none, or nobody knows it."""

    def __post_init__(self) -> None:
        check = Checker(self)
        for name in ("start", "target"):
            object.__setattr__(self, name, by_side(getattr(self, name), f"PriorCondition.{name}"))
        if [hand.side for hand in self.start] != [hand.side for hand in self.target]:
            sides = [" and ".join(hand.side for hand in hands) for hands in (self.start, self.target)]
            raise BadInput(f"PriorCondition: a start of {sides[0]}, but a target of {sides[1]}")
        cloud = check.array("cloud", "point", 6)
        if len(cloud) == 0:
            raise BadInput("PriorCondition.cloud holds no points")
        if not check.array("moves", "point", dtype=bool).any():
            raise BadInput("PriorCondition.moves: no point of the cloud moves; what is manipulated?")
        if not len(check.array("points", "track", 3)):
            raise BadInput("PriorCondition.points follows no point")
        if self.pose is not None:
            check.poses("pose")
        if self.goal is not None:
            check.poses("goal")
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

    schema: ClassVar[str] = "dexprior.video_sample/3"
    command: ClassVar[str] = "dexprior sample"

    frames: UInt8[np.ndarray, "time height width 3"]
    """RGB."""
    fps: float
    """Frames per second."""
    camera: Camera
    hands: tuple[HandTrajectory, ...]
    """One or two, at most one of each side; in the order of `SIDES`."""
    object: ObjectTrajectory
    contact: ContactSchedule
    provenance: dict[str, Any]
    """Where it comes from: `source` (demonstration, prior, real), seeds, checkpoints."""

    def __post_init__(self) -> None:
        check = Checker(self)
        frames = check.array("frames", "time", "height", "width", 3, dtype=np.uint8)
        if not self.fps > 0:
            raise BadInput(f"VideoSample.fps = {self.fps}: must be positive")
        object.__setattr__(self, "hands", by_side(self.hands, "VideoSample.hands"))
        for hand in self.hands:
            if len(hand) != len(frames) or len(self.object) != len(frames):
                raise BadInput(
                    f"VideoSample: {len(frames)} frames, {len(hand)} hand poses, {len(self.object)} object poses"
                )
        self.camera.check_frames(len(frames), "VideoSample")

    @property
    def hand(self) -> HandTrajectory:
        """The hand of a clip that shows one; BadInput where it shows two."""
        return self.of_side(None)

    def of_side(self, side: Side | None) -> HandTrajectory:
        """The hand of a side; the only one where no side is given.

        Raises:
            BadInput: the clip shows none of this side, or two and no side is given.
        """
        return of_side(self.hands, side, "the clip")
