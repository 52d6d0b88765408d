"""What every video backbone is: one signature, a space in which it denoises, and what it may be given."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["Pixels", "SigmaEmbedding", "VideoBackbone", "pooled"]


class Pixels(nn.Module):
    """The space of the frames themselves, in [-1, 1]; also what any other space offers."""

    channels = 3
    ratio: tuple[int, int, int] = (1, 1, 1)
    """Frames, rows and columns of pixels in one place of the space; the first in time is the first frame alone."""

    def times(self, frames: int) -> int:
        """Places in time of a clip."""
        return 1 + -(-(frames - 1) // self.ratio[0])

    def shape(self, frames: int, size: int) -> tuple[int, int, int, int]:
        """(time, channels, rows, columns) of a clip."""
        return self.times(frames), self.channels, size // self.ratio[1], size // self.ratio[2]

    def encode(self, video: Float[Tensor, "batch time 3 size size"]) -> Float[Tensor, "batch place channel row column"]:
        """Frames in this space."""
        return video

    def decode(
        self, places: Float[Tensor, "batch place channel row column"], frames: int
    ) -> Float[Tensor, "batch time 3 size size"]:
        """The first frames of what `encode` made."""
        return places[:, :frames]

    def filled(self, maps: Float[Tensor, "batch time channel size size"]) -> Float[Tensor, "batch channel many y x"]:
        """Maps, channels first, of as many frames as fill `times`: the first and the last are repeated."""
        frames, many = maps.shape[1], self.ratio[0] * self.times(maps.shape[1])
        rows = torch.arange(many, device=maps.device) - (self.ratio[0] - 1)
        return rearrange(maps[:, rows.clamp(0, frames - 1)], "b t c y x -> b c t y x")


class VideoBackbone(nn.Module, ABC):
    """Predicts clean video from noisy video, in its `space`.

    What is given is told once per clip, by `guide`; what that returns is the backbone's own affair.
    """

    space: Pixels
    reach: int | None = None
    """Frames on each side that one step sees; a whole clip when None, which windows of training should then be as long
    as."""
    reads = False
    """Whether `guide` wants tokens."""

    @abstractmethod
    def guide(
        self,
        maps: Float[Tensor, "batch time channel size size"],
        tokens: Float[Tensor, "batch token width"] | None = None,
    ) -> Any:
        """What `forward` is given, the same for all noise levels.

        Args:
            maps: control maps, in [0, 1].
            tokens: of cloud, poses and motion, from the motion stage; None where nobody knows them.
        """

    @abstractmethod
    def forward(
        self, noisy: Float[Tensor, "batch place channel row column"], sigma: Float[Tensor, " batch"], guide: Any
    ) -> Float[Tensor, "batch place channel row column"]:
        """Clean video.

        Args:
            noisy: (1 - sigma) * clean + sigma * noise, in `space`.
        """


def pooled(
    weight: Float[Tensor, "batch time 1 size size"], like: Float[Tensor, "batch place channel row column"]
) -> Float[Tensor, "batch place 1 row column"]:
    """Weights of pixels as those of the places of a space: means of what each covers."""
    t, _, y, x = like.shape[1:]
    if weight.shape[1] == t and weight.shape[3:] == (y, x):
        return weight
    return rearrange(nn.functional.adaptive_avg_pool3d(weight[:, :, 0], (t, y, x)), "b t y x -> b t 1 y x")


class SigmaEmbedding(nn.Module):
    """A noise level in [0, 1] as a vector: sines and cosines, then two layers."""

    frequency: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("frequency", torch.exp(torch.linspace(0, math.log(200.0), 16)), persistent=False)
        self.layers = nn.Sequential(nn.Linear(32, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, sigma: Float[Tensor, " batch"]) -> Float[Tensor, "batch width"]:
        """Embed."""
        angle = sigma[:, None] * self.frequency
        return self.layers(torch.cat([angle.sin(), angle.cos()], -1))
