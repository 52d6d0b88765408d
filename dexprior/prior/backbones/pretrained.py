"""Pretrained video transformers of diffusers, steered by control maps and by tokens of the scene.

The pretrained weights stay as they are. What trains: matrices of low rank beside the projections of every attention (Hu
et al. 2021, "LoRA"), further input channels that begin at zero, and an attention to the scene's tokens whose output
begins at zero (Zhang et al. 2023, "Adding Conditional Control to Text-to-Image Diffusion Models", begin likewise). So
training begins with what the pretrained network makes of a clip without a sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from dexprior.errors import BadInput
from dexprior.prior.backbones.base import VideoBackbone
from dexprior.prior.backbones.latents import Latents, frozen, load_part

__all__ = ["PRETRAINED", "PretrainedVideo"]

_HINTS = 16  # numbers that a place of the latents is told of the control maps
_HEADS, _HEAD = 4, 32  # of the attention to the scene's tokens
_PROJECTIONS = ("to_q", "to_k", "to_v")


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What differs between the pretrained transformers."""

    kind: str
    """Class of diffusers."""
    entry: str
    """Layer that latents go in by."""
    blocks: str
    """Where its blocks are, each with `attn1` among patches and `attn2` to the sentence."""
    words: str
    """Setting that has the width of the sentence's embedding."""
    call: Callable[[Any, Tensor, Tensor, Tensor, Latents, float], Tensor]
    """Velocity, of (transformer, latents, noise level, words, space, frames per second)."""


def _wan(net: Any, x: Tensor, sigma: Tensor, words: Tensor, space: Latents, fps: float) -> Tensor:
    x = rearrange(x, "b t c y x -> b c t y x")
    made = net(hidden_states=x, timestep=1000.0 * sigma, encoder_hidden_states=words, return_dict=False)[0]
    return rearrange(made, "b c t y x -> b t c y x")


def _ltx(net: Any, x: Tensor, sigma: Tensor, words: Tensor, space: Latents, fps: float) -> Tensor:
    t, _, rows, columns = x.shape[1:]
    many, *sides = space.ratio
    made = net(
        hidden_states=rearrange(x, "b t c y x -> b (t y x) c"), timestep=1000.0 * sigma, encoder_hidden_states=words,
        encoder_attention_mask=None, num_frames=t, height=rows, width=columns,
        rope_interpolation_scale=(many / fps, *sides), return_dict=False,
    )[0]  # fmt: skip
    return rearrange(made, "b (t y x) c -> b t c y x", t=t, y=rows)


PRETRAINED = {
    "wan": Architecture(
        kind="WanTransformer3DModel", entry="patch_embedding", blocks="blocks", words="text_dim", call=_wan
    ),
    "ltx": Architecture(
        kind="LTXVideoTransformer3DModel", entry="proj_in", blocks="transformer_blocks", words="caption_channels",
        call=_ltx,
    ),
}  # fmt: skip
"""Architectures by name. Both predict the velocity noise - clean of the flow that the other backbones see."""


class PretrainedVideo(VideoBackbone):
    """A pretrained transformer in the latents of its autoencoder.

    Args:
        architecture: a name of `PRETRAINED`.
        folder: of the pretrained model.
        maps: channels of the control maps.
        width: of the scene's tokens.
        rank: of the matrices beside the projections.
        fps: frames per second.

    Raises:
        ArtifactError: the files are missing or damaged.
        BadInput: they are of another architecture.
    """

    reads = True

    def __init__(self, architecture: str, folder: Path, *, maps: int, width: int, rank: int, fps: float) -> None:
        super().__init__()
        self.row, self.fps = PRETRAINED[architecture], fps
        self.net: Any = load_part(folder, "transformer", [self.row.kind])
        self.space: Latents = Latents(folder)
        config = self.net.config
        if config.in_channels != self.space.channels:
            raise BadInput(
                f"backbone {folder}: its transformer takes {config.in_channels} channels, its vae makes "
                f"{self.space.channels}: a model that is told pictures as well is none that can be used here"
            )
        self.patch = config.patch_size if isinstance(config.patch_size, int) else config.patch_size[-1]
        inner = config.num_attention_heads * config.attention_head_dim
        setattr(self.net, self.row.entry, Widened(getattr(self.net, self.row.entry), _HINTS))
        for block in getattr(self.net, self.row.blocks):
            for attention in (block.attn1, block.attn2):
                for name in _PROJECTIONS:
                    setattr(attention, name, LowRank(getattr(attention, name), rank))
                attention.to_out[0] = LowRank(attention.to_out[0], rank)
            block.attn2 = WithTokens(block.attn2, inner)
        self.hint = nn.Conv3d(maps, _HINTS, self.space.ratio, stride=self.space.ratio)
        self.scene = nn.Linear(width, getattr(config, self.row.words))
        frozen(self)

    def guide(
        self,
        maps: Float[Tensor, "batch time channel size size"],
        tokens: Float[Tensor, "batch token width"] | None = None,
    ) -> tuple[Float[Tensor, "batch place channel row column"], Float[Tensor, "batch token words"]]:
        """What each place is told of the control maps, and an empty sentence with the scene's tokens behind it."""
        hints = rearrange(self.hint(2 * self.space.filled(maps) - 1), "b c t y x -> b t c y x")
        empty = hints.new_zeros(len(hints), 1, self.scene.out_features)
        return hints, empty if tokens is None else torch.cat([empty, self.scene(tokens)], dim=1)

    def forward(
        self,
        noisy: Float[Tensor, "batch place channel row column"],
        sigma: Float[Tensor, " batch"],
        guide: tuple[Float[Tensor, "batch place hint row column"], Float[Tensor, "batch token words"]],
    ) -> Float[Tensor, "batch place channel row column"]:
        """Clean latents: noisy - sigma * velocity."""
        hints, words = guide
        velocity = self.row.call(self.net, torch.cat([noisy, hints], dim=2), sigma, words, self.space, self.fps)
        return noisy - sigma[:, None, None, None, None] * velocity


class Widened(nn.Module):
    """A convolution or linear layer that takes further channels, of which it makes nothing yet."""

    def __init__(self, layer: nn.Conv3d | nn.Linear, more: int) -> None:
        super().__init__()
        self.layer, self.dim = layer, -1 if isinstance(layer, nn.Linear) else 1
        self.more: nn.Module
        if isinstance(layer, nn.Linear):
            self.own, self.more = layer.in_features, nn.Linear(more, layer.out_features, bias=False)
        else:
            t, y, x = layer.kernel_size
            self.own = layer.in_channels
            self.more = nn.Conv3d(more, layer.out_channels, (t, y, x), stride=(t, y, x), bias=False)
        nn.init.zeros_(self.more.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to the layer's own channels and those behind them."""
        own, more = x.split([self.own, x.shape[self.dim] - self.own], dim=self.dim)
        return self.layer(own) + self.more(more)


class LowRank(nn.Module):
    """A linear layer, with a product of two narrow ones beside it, which begins at zero."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Apply."""
        return self.layer(x) + self.up(self.down(x))


class WithTokens(nn.Module):
    """An attention to a sentence of one word, with another beside it to the tokens behind that; it begins at zero."""

    def __init__(self, attention: nn.Module, width: int) -> None:
        super().__init__()
        self.attention = attention
        self.query = nn.Linear(width, _HEADS * _HEAD, bias=False)
        self.pair = nn.Linear(width, 2 * _HEADS * _HEAD, bias=False)
        self.out = nn.Linear(_HEADS * _HEAD, width, bias=False)
        nn.init.zeros_(self.out.weight)

    def forward(self, hidden_states: Tensor, encoder_hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Apply; without tokens it is the attention to the sentence alone."""
        word, tokens = encoder_hidden_states[:, :1], encoder_hidden_states[:, 1:]
        made = self.attention(hidden_states, word, *args, **kwargs)
        if not tokens.shape[1]:
            return made
        asked, told = self.query(hidden_states), self.pair(tokens)
        query, pair = (rearrange(x, "b n (h d) -> b h n d", h=_HEADS) for x in (asked, told))
        keys, values = pair.chunk(2, dim=-1)
        seen = nn.functional.scaled_dot_product_attention(query, keys, values)
        return made + self.out(rearrange(seen, "b h n d -> b n (h d)"))
