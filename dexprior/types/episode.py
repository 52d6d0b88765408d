"""One recorded demonstration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from dexprior.errors import BadInput
from dexprior.types.prior import PriorCondition, VideoSample
from dexprior.types.robot import WrenchTrack

__all__ = ["Episode"]


@dataclass(frozen=True, kw_only=True)
class Episode:
    """A clip, what it was conditioned on, and the wrench that was felt."""

    schema: ClassVar[str] = "dexprior.episode/1"

    sample: VideoSample
    condition: PriorCondition
    wrench: WrenchTrack
    """On the human's wrist, or on the robot's tool."""
    info: dict[str, Any] = field(default_factory=dict)
    """Plain data: task, scene, seed, success."""

    def __post_init__(self) -> None:
        if len(self.wrench) != len(self.sample.frames):
            raise BadInput(f"Episode: {len(self.sample.frames)} frames but {len(self.wrench)} wrenches")
