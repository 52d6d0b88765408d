"""One recorded demonstration."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float32, UInt8

from dexprior.errors import BadInput
from dexprior.types.check import Checker
from dexprior.types.prior import Camera, PriorCondition, VideoSample
from dexprior.types.robot import WrenchTrack

__all__ = ["Episode", "View"]


@dataclass(frozen=True, kw_only=True)
class View:
    """The same motion seen by another camera, or the depth that belongs to the first one."""

    schema: ClassVar[str] = "dexprior.view/2"

    name: str
    """Lower-case letters, digits and `_`; it names the files."""
    camera: Camera
    frames: UInt8[np.ndarray, "time height width 3"] | None = None
    """RGB; None for a view that is depth only."""
    depth: Float32[np.ndarray, "time height width"] | None = None
    """Distance along the camera's z axis [m]; zero where there is none."""

    def __post_init__(self) -> None:
        check = Checker(self)
        if not re.fullmatch(r"[a-z0-9_]+", self.name):
            raise BadInput(f"View.name = {self.name!r}: expected lower-case letters, digits and _")
        if self.frames is None and self.depth is None:
            raise BadInput(f"View {self.name!r} has neither frames nor depth")
        if self.frames is not None:
            check.array("frames", "time", "height", "width", 3, dtype=np.uint8)
        if self.depth is not None:
            check.array("depth", "time", "height", "width", dtype=np.float32, low=0.0)
        self.camera.check_frames(len(self), f"View {self.name!r}")

    def __len__(self) -> int:
        pixels = self.depth if self.frames is None else self.frames
        assert pixels is not None
        return len(pixels)


@dataclass(frozen=True, kw_only=True)
class Episode:
    """A clip, what it was conditioned on, and the wrench that was felt."""

    schema: ClassVar[str] = "dexprior.episode/4"
    command: ClassVar[str] = "dexprior data generate"

    sample: VideoSample
    condition: PriorCondition
    wrench: WrenchTrack
    """Wrench on the human's wrist, or on the robot's tool."""
    info: dict[str, Any] = field(default_factory=dict)
    """Plain data: task, scene, seed, success."""
    views: tuple[View, ...] = ()
    """What further cameras saw, at the same times; names differ."""

    def __post_init__(self) -> None:
        if len(self.wrench) != len(self.sample.frames):
            raise BadInput(f"Episode: {len(self.sample.frames)} frames but {len(self.wrench)} wrenches")
        object.__setattr__(self, "views", tuple(self.views))
        names = [view.name for view in self.views]
        if len(set(names)) < len(names):
            raise BadInput(f"Episode.views are called {', '.join(names)}: names must differ")
        for view in self.views:
            if len(view) != len(self.sample.frames):
                raise BadInput(f"Episode: {len(self.sample.frames)} frames but {len(view)} in view {view.name!r}")
