"""The joint denoiser: a transformer over motion tokens and a video stage that follows it.

Both streams carry their own noise level. Motion tokens see the (noisy) video at low resolution, and the video sees
the motion's present estimate as control maps, so the two can be denoised together. Why: docs/decisions/0002.

    noisy motion --+--> transformer --> clean motion --> control maps --+--> U-Net --> clean video
    noisy video ---+ (4x smaller)                       noisy video ----+

In place of the U-Net there may be another of `dexprior.prior.backbones`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dexprior.errors import ArtifactError
from dexprior.prior.backbones import SigmaEmbedding, fingerprint_of, make_backbone, pretrained_folder
from dexprior.prior.carrying import Carrying
from dexprior.prior.conditioning import (
    CONDITIONS,
    ConditionEncoder,
    frame_of_target,
    straight_path,
    told,
    without_hidden,
)
from dexprior.prior.maps import control_maps
from dexprior.prior.motion import HANDS, POINTS, motion_size
from dexprior.prior.text import HASHED, HASHED_SIZE
from dexprior.types import Side

__all__ = ["JointDenoiser"]

LOW = 4
"""The motion stage sees the video shrunk by this factor."""


class JointDenoiser(ModelMixin, ConfigMixin):
    """Predicts clean motion and clean video from noisy ones.

    Args:
        frames: of the longest clip; a multiple of `patch`.
        size: of a frame [px]; a multiple of 8.
        width, layers, heads: of the transformer.
        patch: frames in a motion token.
        channels: of the video stage at half resolution.
        fps: frames per second.
        sides: of the hands that it knows, in the order of `dexprior.types.SIDES`.
        text, text_size, text_checksum: of the `TextEncoder` that reads its sentences.
        hides: names of `CONDITIONS` that it has learned to go without.
        backbone, backbone_size, backbone_name, backbone_rank, backbone_compile: of the video stage; `name`, `scale`,
            `pretrained`, `rank` and `compiled` of `make_backbone`.
        backbone_checksum: of the pretrained files that it was trained with; empty where none were, or before training.

    Raises:
        UnknownName, BadInput, ArtifactError: as `make_backbone`, and for pretrained files that are not those.
    """

    motion_mean: Tensor
    motion_std: Tensor

    @register_to_config
    def __init__(
        self,
        frames: int = 48,
        size: int = 48,
        width: int = 128,
        layers: int = 4,
        heads: int = 4,
        patch: int = 3,
        channels: int = 40,
        dropout: float = 0.05,
        fps: float = 24.0,
        sides: Sequence[Side] = ("right",),
        text: str = HASHED,
        text_size: int = HASHED_SIZE,
        text_checksum: str = "",
        hides: Sequence[str] = (),
        backbone: str = "unet",
        backbone_size: str = "small",
        backbone_name: str | None = None,
        backbone_rank: int = 16,
        backbone_compile: bool = False,
        backbone_checksum: str = "",
    ) -> None:
        super().__init__()
        self.fps, self.sides = fps, tuple(sides)
        self.motion = MotionStage(frames, size, width, layers, heads, patch, dropout, len(sides), text_size)
        self.video = make_backbone(
            backbone, size=size, hands=len(sides), channels=channels, width=width, fps=fps, scale=backbone_size,
            pretrained=backbone_name, rank=backbone_rank, compiled=backbone_compile,
        )  # fmt: skip
        if backbone_name is not None:
            found = fingerprint_of(pretrained_folder(backbone_name))
            if backbone_checksum not in ("", found):
                raise ArtifactError(f"backbone {backbone_name!r}: other weights than those that it was trained with")
            self.register_to_config(backbone_checksum=found)
        self.carrying = Carrying()
        self.register_buffer("motion_mean", torch.zeros(motion_size(len(sides))))
        self.register_buffer("motion_std", torch.ones(motion_size(len(sides))))

    def denoise_motion(
        self,
        noisy: Float[Tensor, "batch time motion"],
        sigma: Float[Tensor, " batch"],
        low_video: Float[Tensor, "batch time 3 low low"],
        video_sigma: Float[Tensor, " batch"],
        condition: dict[str, Tensor],
    ) -> Float[Tensor, "batch time motion"]:
        """Clean motion, standardised.

        What the condition gives is given: hands and object at the first frame, and the wrists at the target's. The rest
        departs from a straight path, and where it is known what the object is brought to, from `Carrying`. What the
        condition hides, nothing depends on. The numbers of a hand that is not there are zero.

        Args:
            noisy: (1 - sigma) * clean + sigma * noise, standardised.
            low_video: the noisy video, shrunk by `LOW`.
        """
        condition = self._told(condition)
        straight, unit = self._departure(condition, noisy.shape[1])
        target = frame_of_target(condition, self.fps)
        correction = self.motion(noisy, sigma, low_video, video_sigma, condition, straight, target, self.fps)
        clean = torch.where(self._given(condition, target, noisy), straight, straight + unit * correction)
        return clean if len(self.sides) == 1 else torch.where(self._shown(condition)[:, None], clean, 0.0)

    def denoise_guided(
        self,
        noisy: Float[Tensor, "batch time motion"],
        sigma: Float[Tensor, " batch"],
        low_video: Float[Tensor, "batch time 3 low low"],
        video_sigma: Float[Tensor, " batch"],
        condition: dict[str, Tensor],
        guidance: Mapping[str, float],
    ) -> Float[Tensor, "batch time motion"]:
        """Clean motion that follows some conditions more than the network does, in one call of `denoise_motion`.

        m + sum_k w_k (m - m without k), where m is what the network makes of all conditions that are told: Ho and
        Salimans 2022, "Classifier-Free Diffusion Guidance", for several conditions as in Liu et al. 2022,
        "Compositional Visual Generation with Composable Diffusion Models". What is given stays as it is.

        Args:
            guidance: weight w of each guided one of `CONDITIONS`; without any, this is `denoise_motion`.
        """
        if not guidance:
            return self.denoise_motion(noisy, sigma, low_video, video_sigma, condition)
        n, names = len(noisy), list(guidance)
        many = {key: value.repeat(1 + len(names), *[1] * (value.ndim - 1)) for key, value in condition.items()}
        for k, name in enumerate(names, start=1):
            many["told"][k * n : (k + 1) * n, list(CONDITIONS).index(name)] = False
        streams = (x.repeat(1 + len(names), *[1] * (x.ndim - 1)) for x in (noisy, sigma, low_video, video_sigma))
        motions, sigmas, lows, video_sigmas = streams
        made, *without = self.denoise_motion(motions, sigmas, lows, video_sigmas, many).split(n)
        guided = made + sum(weight * (made - other) for weight, other in zip(guidance.values(), without))
        shown = self._told(condition)
        return torch.where(self._given(shown, frame_of_target(shown, self.fps), noisy), made, guided)

    def _told(self, condition: dict[str, Tensor]) -> dict[str, Tensor]:
        """What the network is shown of a condition."""
        mean = self.motion_mean
        hands = torch.stack([mean[places.pose] for places in HANDS[: len(self.sides)]])
        return without_hidden(condition, hands, mean[POINTS].unflatten(0, (-1, 3)), self.config.frames / self.fps)

    def _departure(
        self, condition: dict[str, Tensor], frames: int
    ) -> tuple[Float[Tensor, "batch time motion"], Float[Tensor, "batch time motion"]]:
        """What the motion departs from, standardised, and the units of what the network adds."""
        path = straight_path(condition, frames, self.fps)
        straight = self.motion_mean.expand(*path.shape[:2], -1).clone()
        straight[..., : POINTS.stop] = path[..., : POINTS.stop]
        if len(self.sides) > 1:
            straight[..., HANDS[1].pose] = path[..., POINTS.stop :]
        unit = torch.ones_like(straight)
        way, spread = self.carrying(condition, frames, self.fps)
        known = self.carrying.knows(condition)[:, None, None]
        timed = known & told(condition, "time")[:, None, None]  # drawn out over a clip, the way says where, not when
        straight[..., POINTS] = torch.where(known, way.flatten(2), straight[..., POINTS])
        unit[..., POINTS] = torch.where(timed, spread.expand_as(way).flatten(2) / self.motion_std[POINTS], 1.0)
        return self.standard(straight), unit

    def _given(
        self, condition: dict[str, Tensor], target: Float[Tensor, " batch"], motion: Tensor
    ) -> Bool[Tensor, "batch time motion"]:
        frame = torch.arange(motion.shape[1], device=motion.device)
        given = torch.zeros(motion.shape, dtype=torch.bool, device=motion.device)
        given[:, 0, POINTS] = told(condition, "cloud")[:, None]
        reached = (told(condition, "target") & told(condition, "time"))[:, None] & (frame == target[:, None])
        for places in HANDS[: len(self.sides)]:
            given[..., places.wrist.start : places.rotation.stop] = reached[..., None]
            given[:, 0, places.pose] |= told(condition, "start")[:, None]
        return given

    def _shown(self, condition: dict[str, Tensor]) -> Bool[Tensor, "batch motion"]:
        """Which numbers belong to the object, or to a hand that is there."""
        shown = torch.ones_like(self.motion_mean, dtype=torch.bool).repeat(len(condition["shows"]), 1)
        for k, places in enumerate(HANDS[: len(self.sides)]):
            for place in places:
                shown[:, place] = condition["shows"][:, k, None]
        return shown

    def denoise_video(
        self,
        noisy: Float[Tensor, "batch place channel row column"],
        sigma: Float[Tensor, " batch"],
        guide: Any,
    ) -> Float[Tensor, "batch place channel row column"]:
        """Clean video, in the space of the video stage: frames in [-1, 1], or latents of these.

        Args:
            guide: of the same frames' motion, from `guide_video`.
        """
        return self.video(noisy, sigma, guide)

    def guide_video(
        self,
        motion: Float[Tensor, "batch time motion"],
        condition: dict[str, Tensor],
        known: Bool[Tensor, "batch time part"] | None = None,
    ) -> Any:
        """What the video stage is given of motion and scene: the same for all noise levels.

        Args:
            motion: standardised.
            known: whether the first hand, the object, and the second hand are known; all is when omitted.
        """
        shown = self._told(condition)
        maps = control_maps(self.physical(motion), shown, self.config.size, sides=self.sides, known=known)
        if not self.video.reads:
            return self.video.guide(maps)
        return self.video.guide(maps, self.motion.tokens(motion, shown))

    def physical(self, motion: Float[Tensor, "*batch motion"]) -> Float[Tensor, "*batch motion"]:
        """Undo the standardisation."""
        return motion * self.motion_std + self.motion_mean

    def standard(self, motion: Float[Tensor, "*batch motion"]) -> Float[Tensor, "*batch motion"]:
        """Standardise."""
        return (motion - self.motion_mean) / self.motion_std


class MotionStage(nn.Module):
    """Transformer over condition tokens and motion tokens."""

    def __init__(
        self,
        frames: int,
        size: int,
        width: int,
        layers: int,
        heads: int,
        patch: int,
        dropout: float,
        hands: int,
        text_size: int,
    ) -> None:
        super().__init__()
        if frames % patch:
            raise ValueError(f"{frames} frames are no multiple of the patch of {patch}")
        self.patch = patch
        low = (size // LOW) ** 2 * 3
        numbers = motion_size(hands)
        self.condition = ConditionEncoder(width, hands, text_size)
        self.embed = nn.Linear(patch * numbers, width)
        self.see = nn.Linear(patch * low, width)
        self.guide = nn.Linear(patch * (numbers + 3), width)
        self.times = nn.ModuleList([SigmaEmbedding(width) for _ in range(2)])
        self.position = nn.Parameter(0.02 * torch.randn(frames // patch, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, patch * numbers)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(
        self,
        noisy: Float[Tensor, "batch time motion"],
        sigma: Float[Tensor, " batch"],
        low_video: Float[Tensor, "batch time 3 low low"],
        video_sigma: Float[Tensor, " batch"],
        condition: dict[str, Tensor],
        straight: Float[Tensor, "batch time motion"],
        target: Float[Tensor, " batch"],
        fps: float,
    ) -> Float[Tensor, "batch time motion"]:
        """What the clean motion adds to the straight path, both standardised; nothing attends to frames behind the
        clip's end."""
        phase, shown = _phases(condition, target, noisy.shape[1], fps)
        tokens = self.embed(rearrange(noisy, "b (n p) d -> b n (p d)", p=self.patch))
        tokens = tokens + self.see(rearrange(low_video, "b (n p) c y x -> b n (p c y x)", p=self.patch))
        guide = torch.cat([straight, phase], dim=-1)
        tokens = tokens + self.guide(rearrange(guide, "b (n p) d -> b n (p d)", p=self.patch))
        tokens = tokens + self.position
        if condition["camera"].ndim == 3:
            moved = self.condition.moved(condition["camera"][:, : noisy.shape[1]])
            tokens = tokens + rearrange(moved, "b (n p) w -> b n p w", p=self.patch).mean(dim=2)
        time = self.times[0](sigma) + self.times[1](video_sigma)
        given = self.condition(condition)
        behind = ~rearrange(shown, "b (n p) -> b n p", p=self.patch).any(-1)
        ignored = torch.cat([behind.new_zeros(given.shape[:2]), behind], dim=1)
        h = self.blocks(torch.cat([given, tokens], dim=1) + time[:, None], src_key_padding_mask=ignored)
        out = self.head(self.norm(h[:, given.shape[1] :]))
        return rearrange(out, "b n (p d) -> b (n p) d", p=self.patch)

    @torch.no_grad()
    def tokens(
        self, motion: Float[Tensor, "batch time motion"], condition: dict[str, Tensor]
    ) -> Float[Tensor, "batch token width"]:
        """Tokens of a condition, then of clean motion, for a video stage that reads them; it does not train them.

        Args:
            motion: standardised; behind its end its last frame goes on to the end of a patch.
        """
        rows = torch.arange(-(-motion.shape[1] // self.patch) * self.patch, device=motion.device)
        patches = rearrange(motion[:, rows.clamp(max=motion.shape[1] - 1)], "b (n p) d -> b n (p d)", p=self.patch)
        moving = self.embed(patches) + self.position[: patches.shape[1]]
        return torch.cat([self.condition(condition), moving], dim=1)


def _phases(
    condition: dict[str, Tensor], target: Float[Tensor, " batch"], frames: int, fps: float
) -> tuple[Float[Tensor, "batch time 3"], Bool[Tensor, "batch time"]]:
    """Each frame's share of the way to the target, seconds since then, and whether it is in the clip."""
    frame = torch.arange(frames, device=target.device, dtype=target.dtype)
    share = (frame / target.clamp(min=1.0)[:, None]).clamp(max=1.0)
    after = ((frame - target[:, None]) / fps).clamp(min=0.0)
    shown = frame < (condition["seconds"] * fps).round()[:, None]
    return torch.stack([share, after, shown.to(share)], dim=-1), shown
