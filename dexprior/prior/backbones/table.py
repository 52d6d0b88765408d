"""Backbones by their names."""

from __future__ import annotations

from dexprior.errors import BadInput, UnknownName
from dexprior.prior.backbones.base import Pixels, VideoBackbone
from dexprior.prior.backbones.dit import SIZES, DiT
from dexprior.prior.backbones.latents import Latents, pretrained_folder
from dexprior.prior.backbones.pretrained import PRETRAINED, PretrainedVideo
from dexprior.prior.backbones.unet import VideoStage
from dexprior.prior.maps import map_channels

__all__ = ["BACKBONES", "make_backbone"]

BACKBONES = ("unet", "dit", *PRETRAINED)
"""Names of the backbones."""
_PATCH = {False: 4, True: 2}  # rows and columns of a patch, of pixels and of latents


def make_backbone(
    name: str,
    *,
    size: int,
    hands: int,
    channels: int,
    width: int,
    fps: float,
    scale: str = "small",
    pretrained: str | None = None,
    rank: int = 16,
    compiled: bool = False,
) -> VideoBackbone:
    """A backbone by its name.

    Args:
        name: of `BACKBONES`.
        size: of a frame [px].
        hands: that the control maps show.
        channels: of the U-Net.
        width: of the scene's tokens.
        fps: frames per second.
        scale: of the transformer `dit`, a name of `SIZES`.
        pretrained: folder or repository of the pretrained model; of `dit`, the one whose latents it denoises.
        rank: of what trains beside a pretrained model's projections.
        compiled: compile the blocks of `dit`, on a GPU.

    Raises:
        UnknownName: no such backbone, or no such size of it.
        BadInput: a pretrained one without a name, a U-Net with one, or frames that its patches do not fill.
        ArtifactError: a pretrained model that is not to be had.
    """
    if name not in BACKBONES:
        raise UnknownName("backbone", name, BACKBONES)
    if scale not in SIZES:
        raise UnknownName("size of a backbone", scale, SIZES)
    if name in PRETRAINED and pretrained is None:
        raise BadInput(
            f"prior.backbone = {name}: give prior.backbone_name, a folder or a repository of the Hugging Face Hub with "
            "pretrained weights; it is not trained from nothing"
        )
    if name == "unet":
        if pretrained is not None:
            raise BadInput(f"prior.backbone_name = {pretrained}: the backbone unet has no pretrained weights")
        return VideoStage(channels, hands)
    folder = None if pretrained is None else pretrained_folder(pretrained)
    made: VideoBackbone
    if name == "dit":
        space = Pixels() if folder is None else Latents(folder)
        wide, blocks, heads = SIZES[scale]
        patch = _PATCH[folder is not None]
        made = DiT(
            space, map_channels(hands), width=wide, blocks=blocks, heads=heads, patch=patch, compiled=compiled
        )  # fmt: skip
    else:
        assert folder is not None
        made = PretrainedVideo(name, folder, maps=map_channels(hands), width=width, rank=rank, fps=fps)
        patch = made.patch
    if size % (patch * made.space.ratio[1]):
        raise BadInput(f"prior.size = {size}: the backbone {name} needs a multiple of {patch * made.space.ratio[1]}")
    return made
