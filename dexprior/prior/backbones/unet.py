"""The first backbone: a small U-Net over pixels."""

from __future__ import annotations

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from dexprior.prior.backbones.base import Pixels, SigmaEmbedding, VideoBackbone
from dexprior.prior.maps import map_channels

__all__ = ["VideoStage"]


class VideoStage(VideoBackbone):
    """A small U-Net over frames (two levels), with 1-D convolutions over time between them.

    Channels come last in memory: on a CPU its convolutions then take little more than half the time.
    """

    reach = 1

    def __init__(self, channels: int, hands: int) -> None:
        super().__init__()
        self.space = Pixels()
        wide = channels * 3 // 2
        self.time = SigmaEmbedding(wide)
        self.enter = nn.Conv2d((3 + map_channels(hands) + 2) * 4, channels, 3, padding=1)
        self.down = FrameBlock(channels, channels, wide)
        self.shrink = nn.Conv2d(channels, wide, 3, stride=2, padding=1)
        self.middle = FrameBlock(wide, wide, wide)
        self.temporal = nn.Conv1d(wide, wide, 3, padding=1, groups=15)
        self.middle2 = FrameBlock(wide, wide, wide)
        self.grow = nn.Conv2d(wide, channels * 4, 1)
        self.up = FrameBlock(2 * channels, channels, wide)
        self.leave = nn.Conv2d(channels, 3 * 4, 3, padding=1)
        nn.init.zeros_(self.temporal.weight)
        nn.init.zeros_(self.temporal.bias)  # type: ignore[arg-type]

    def guide(
        self,
        maps: Float[Tensor, "batch time channel size size"],
        tokens: Float[Tensor, "batch token width"] | None = None,
    ) -> Float[Tensor, "batch time features half half"]:
        """What the first layer makes of control maps and of places in the frame."""
        b, t, _, size, _ = maps.shape
        grid = torch.linspace(-1, 1, size, device=maps.device, dtype=maps.dtype)
        place = torch.stack(torch.meshgrid(grid, grid, indexing="ij"))[None, None].expand(b, t, -1, -1, -1)
        seen = _halved(torch.cat([2 * maps - 1, place], 2))
        entered = nn.functional.conv2d(seen, self.enter.weight[:, _PIXELS:], self.enter.bias, padding=1)
        return entered.unflatten(0, (b, t))

    def forward(
        self,
        noisy: Float[Tensor, "batch time 3 size size"],
        sigma: Float[Tensor, " batch"],
        guide: Float[Tensor, "batch time features half half"],
    ) -> Float[Tensor, "batch time 3 size size"]:
        """Clean video."""
        b, t = noisy.shape[:2]
        time = self.time(sigma).repeat_interleave(t, 0)
        x = nn.functional.conv2d(_halved(noisy), self.enter.weight[:, :_PIXELS], padding=1).add_(guide.flatten(0, 1))
        skip = self.down(x, time)
        h = self.middle(self.shrink(skip), time)
        h = h + self._over_time(h, b)
        h = nn.functional.pixel_shuffle(self.grow(self.middle2(h, time)), 2)
        h = self.up(torch.cat([h, skip], 1), time)
        return nn.functional.pixel_shuffle(self.leave(h), 2).unflatten(0, (b, t))

    def _over_time(self, h: Float[Tensor, "frame wide y x"], clips: int) -> Float[Tensor, "frame wide y x"]:
        """`temporal`, as a convolution of pictures whose rows are frames: nothing is moved in memory for it."""
        rows = rearrange(h, "(b t) c y x -> b c t (y x)", b=clips)
        mixed = nn.functional.conv2d(
            rows, self.temporal.weight[..., None], self.temporal.bias, padding=(1, 0), groups=self.temporal.groups
        )
        return rearrange(mixed, "b c t (y x) -> (b t) c y x", y=h.shape[-2])


_PIXELS = 3 * 4  # channels of a frame at half resolution


def _halved(frames: Float[Tensor, "batch time channel size size"]) -> Float[Tensor, "frame deeper half half"]:
    """Each 2x2 pixels as channels, which come last in memory."""
    return nn.functional.pixel_unshuffle(frames.flatten(0, 1), 2).contiguous(memory_format=torch.channels_last)


class FrameBlock(nn.Module):
    """Two 3x3 convolutions with group norm, shifted by the noise level, plus a skip."""

    def __init__(self, into: int, out: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(5, into), nn.GroupNorm(5, out)
        self.conv1, self.conv2 = nn.Conv2d(into, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.shift = nn.Linear(time, out)
        self.skip = nn.Conv2d(into, out, 1) if into != out else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Apply to a batch of frames."""
        h = self.conv1(nn.functional.silu(self.norm1(x))).add_(self.shift(time)[..., None, None])
        return self.conv2(nn.functional.silu(self.norm2(h))).add_(self.skip(x))
