"""A diffusion transformer over patches of pixels or of latents.

Peebles and Xie 2023, "Scalable Diffusion Models with Transformers": blocks of attention and a feed-forward layer whose
scales, shifts and gates follow the noise level. Here one projection of the noise level serves all blocks, each of which
adds a table of its own; queries and keys are normalised and then turned by their time, row and column.
"""

from __future__ import annotations

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from dexprior.prior.backbones.base import Pixels, SigmaEmbedding, VideoBackbone

__all__ = ["SIZES", "DiT"]

SIZES = {"small": (256, 6, 4), "base": (1024, 24, 16), "large": (1536, 28, 24)}
"""Width, blocks and heads: 5, 310 and 810 million parameters."""
_TIMES = 10_000.0  # the slowest turn takes so many places


class DiT(VideoBackbone):
    """A transformer over all patches of a clip.

    Args:
        space: in which it denoises.
        maps: channels of the control maps.
        width, blocks, heads: of the transformer; a head has an even width of at least six.
        patch: rows and columns of a patch, in the space.
        compiled: compile each block; on a GPU only, for on a CPU that takes minutes and buys nothing.
    """

    def __init__(
        self, space: Pixels, maps: int, *, width: int, blocks: int, heads: int, patch: int, compiled: bool = False
    ) -> None:
        super().__init__()
        self.space, self.patch, self.heads = space, patch, heads
        t, y, x = space.ratio
        self.covered = {"t": t, "p": patch * y, "q": patch * x}
        self.enter = nn.Linear(space.channels * patch**2, width)
        self.see = nn.Linear(maps * t * patch * y * patch * x, width)
        self.time = SigmaEmbedding(width)
        self.modulate = nn.Linear(width, 6 * width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(blocks)])
        self.norm = nn.RMSNorm(width, elementwise_affine=False)
        self.last = nn.Linear(width, 2 * width)
        self.leave = nn.Linear(width, space.channels * patch**2)
        for layer in (self.modulate, self.last, self.leave):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        if compiled and torch.cuda.is_available():
            for block in self.blocks:
                block.compile()

    def guide(
        self,
        maps: Float[Tensor, "batch time channel size size"],
        tokens: Float[Tensor, "batch token width"] | None = None,
    ) -> Float[Tensor, "batch patch width"]:
        """What each patch sees of the control maps."""
        seen = rearrange(self.space.filled(maps), "b c (n t) (y p) (x q) -> b (n y x) (c t p q)", **self.covered)
        return self.see(2 * seen - 1)

    def forward(
        self,
        noisy: Float[Tensor, "batch place channel row column"],
        sigma: Float[Tensor, " batch"],
        guide: Float[Tensor, "batch patch width"],
    ) -> Float[Tensor, "batch place channel row column"]:
        """Clean video."""
        p, grid = self.patch, (noisy.shape[1], noisy.shape[3] // self.patch, noisy.shape[4] // self.patch)
        h = self.enter(rearrange(noisy, "b t c (y p) (x q) -> b (t y x) (c p q)", p=p, q=p)) + guide
        time = nn.functional.silu(self.time(sigma))
        change = self.modulate(time).unflatten(1, (1, 6, -1))
        turn = turns(grid, h.shape[-1] // self.heads, h.device)
        for block in self.blocks:
            h = block(h, change, turn)
        scale, shift = self.last(time)[:, None].chunk(2, dim=-1)
        out = self.leave(self.norm(h) * (1 + scale) + shift)
        t, y, x = grid
        return rearrange(out, "b (t y x) (c p q) -> b t c (y p) (x q)", t=t, y=y, x=x, p=p, q=p)


class Block(nn.Module):
    """Attention and a feed-forward layer, each behind a norm and in front of a gate that the noise level sets."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = (nn.RMSNorm(width, elementwise_affine=False) for _ in range(2))
        self.queries, self.keys = (nn.RMSNorm(width // heads) for _ in range(2))
        self.mix, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.table = nn.Parameter(torch.zeros(6, width))

    def forward(
        self,
        h: Float[Tensor, "batch patch width"],
        change: Float[Tensor, "batch 1 6 width"],
        turn: tuple[Tensor, Tensor],
    ) -> Float[Tensor, "batch patch width"]:
        """One block.

        Args:
            change: scale, shift and gate of the attention, then of the feed-forward layer.
            turn: of `turns`.
        """
        scale, shift, gate, scale2, shift2, gate2 = (change + self.table).to(h.dtype).unbind(2)
        q, k, v = self.mix(self.norm1(h) * (1 + scale) + shift).unflatten(-1, (3, self.heads, -1)).unbind(2)
        q, k = (turned(norm(part), turn).to(v.dtype) for norm, part in ((self.queries, q), (self.keys, k)))
        seen = nn.functional.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        h = h + gate * self.out(seen.transpose(1, 2).flatten(2))
        return h + gate2 * self.feed(self.norm2(h) * (1 + scale2) + shift2)


def turns(
    grid: tuple[int, int, int], width: int, device: torch.device
) -> tuple[Float[Tensor, "patch 1 half"], Float[Tensor, "patch 1 half"]]:
    """Cosines and sines of the angles that pairs of a head's numbers are turned by: some by the patch's time, others by
    its row and by its column. Su et al. 2021, "RoFormer"."""
    side = width // 6
    pairs = (width // 2 - 2 * side, side, side)
    angles = []
    for axis, (many, n) in enumerate(zip(grid, pairs)):
        speed = _TIMES ** (-torch.arange(n, device=device, dtype=torch.float32) / n)
        angle = torch.arange(many, device=device)[:, None] * speed
        angles.append(angle.view(*(many if k == axis else 1 for k in range(3)), n).expand(*grid, n))
    angle = torch.cat(angles, dim=-1).flatten(0, 2)[:, None]
    return angle.cos(), angle.sin()


def turned(
    part: Float[Tensor, "batch patch head width"], turn: tuple[Tensor, Tensor]
) -> Float[Tensor, "batch patch head width"]:
    """Queries or keys, each pair of numbers (k, k + half) turned by its angle."""
    (a, b), (cos, sin) = part.chunk(2, dim=-1), turn
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
