"""Networks that draw the video, behind one signature."""

from dexprior.prior.backbones.base import Pixels, SigmaEmbedding, VideoBackbone, pooled
from dexprior.prior.backbones.dit import SIZES, DiT
from dexprior.prior.backbones.latents import Latents, fingerprint_of, pretrained_folder
from dexprior.prior.backbones.pretrained import PRETRAINED, PretrainedVideo
from dexprior.prior.backbones.table import BACKBONES, make_backbone
from dexprior.prior.backbones.unet import VideoStage

__all__ = [
    "BACKBONES",
    "PRETRAINED",
    "SIZES",
    "DiT",
    "Latents",
    "Pixels",
    "PretrainedVideo",
    "SigmaEmbedding",
    "VideoBackbone",
    "VideoStage",
    "fingerprint_of",
    "make_backbone",
    "pooled",
    "pretrained_folder",
]
