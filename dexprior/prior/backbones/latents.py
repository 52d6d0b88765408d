"""The latents of a pretrained autoencoder, as a space to denoise in, and the files of a pretrained video model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import diffusers
import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from dexprior.artifacts import read_object
from dexprior.errors import ArtifactError, BadInput
from dexprior.prior.backbones.base import Pixels

__all__ = ["AUTOENCODERS", "Latents", "fingerprint_of", "frozen", "load_part", "pretrained_folder"]

AUTOENCODERS = ("AutoencoderKLWan", "AutoencoderKLLTXVideo")
"""Classes of diffusers whose latents are known here: (z - mean) / std, the first frame by itself."""


class Latents(Pixels):
    """Latents of unit spread, of an autoencoder that never trains.

    Args:
        folder: of a pretrained video model; its autoencoder lies in `vae`.

    Raises:
        ArtifactError: it cannot be read.
        BadInput: another kind of autoencoder.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.vae: Any = load_part(folder, "vae", AUTOENCODERS)
        config = self.vae.config
        if type(self.vae).__name__ == "AutoencoderKLWan":
            mean, std = torch.tensor(config.latents_mean), torch.tensor(config.latents_std)
            side, many = config.scale_factor_spatial, config.scale_factor_temporal
        else:
            mean, std = self.vae.latents_mean, self.vae.latents_std / config.scaling_factor
            side, many = self.vae.spatial_compression_ratio, self.vae.temporal_compression_ratio
        self.ratio, self.channels = (many, side, side), len(mean)
        self.register_buffer("mean", mean.float().view(1, -1, 1, 1, 1), persistent=False)
        self.register_buffer("std", std.float().view(1, -1, 1, 1, 1), persistent=False)
        frozen(self)

    @torch.no_grad()
    def encode(self, video: Float[Tensor, "batch time 3 size size"]) -> Float[Tensor, "batch place channel row column"]:
        """The likeliest latents; behind its end a clip's last frame is repeated."""
        frames, times = video.shape[1], self.times(video.shape[1])
        rows = torch.arange(1 + self.ratio[0] * (times - 1), device=video.device).clamp(max=frames - 1)
        z = self.vae.encode(rearrange(video[:, rows], "b t c y x -> b c t y x")).latent_dist.mode().float()
        return rearrange((z - self.mean) / self.std, "b c t y x -> b t c y x")

    @torch.no_grad()
    def decode(
        self, places: Float[Tensor, "batch place channel row column"], frames: int
    ) -> Float[Tensor, "batch time 3 size size"]:
        """The first frames of what latents show, in [-1, 1]."""
        z = rearrange(places, "b t c y x -> b c t y x") * self.std + self.mean
        timed = getattr(self.vae.config, "timestep_conditioning", False)  # LTX's later decoders take a noise level
        video = self.vae.decode(z, z.new_zeros(len(z))) if timed else self.vae.decode(z)
        return rearrange(video.sample.float().clamp(-1, 1), "b c t y x -> b t c y x")[:, :frames]


def frozen(module: nn.Module) -> None:
    """Leave what does not train out of a module's state: the pretrained files hold it, and it is large.

    It is neither written with the module's state nor missed when one is read.
    """
    trained = {name for name, weight in module.named_parameters() if weight.requires_grad}
    names = tuple(name for name in module.state_dict() if name not in trained)
    dotted = tuple(f".{name}" for name in names)

    def leave_out(_: nn.Module, state: dict[str, Tensor], prefix: str, __: Any) -> None:
        for name in names:
            state.pop(prefix + name, None)

    def not_missed(_: nn.Module, keys: Any) -> None:
        keys.missing_keys[:] = [key for key in keys.missing_keys if not f".{key}".endswith(dotted)]

    module.register_state_dict_post_hook(leave_out)
    module.register_load_state_dict_post_hook(not_missed)


def pretrained_folder(name: str) -> Path:
    """The folder of a pretrained video model, in diffusers' layout.

    Args:
        name: of a local folder, or of a repository of the Hugging Face Hub, which is fetched where it is not cached.

    Raises:
        ArtifactError: neither is to be had.
    """
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(name, allow_patterns=["transformer/*", "vae/*", "model_index.json"]))
    except (OSError, ValueError, HfHubHTTPError, HFValidationError) as error:
        said = " ".join(str(error).split())[:200]
        raise ArtifactError(
            f"backbone {name!r}: no such folder, and it cannot be fetched from the Hugging Face Hub ({said}). Without "
            "a network, copy its transformer and vae and give their folder as prior.backbone_name"
        ) from None


def load_part(folder: Path, part: str, kinds: Sequence[str]) -> Any:
    """A pretrained network, its weights in memory of their own.

    Raises:
        ArtifactError: missing or damaged.
        BadInput: a network of another architecture.
    """
    note = folder / part / "config.json"
    if not note.is_file():
        raise ArtifactError(f"backbone {folder}: no {part}/config.json in it; a pretrained video model has one")
    kind = str(read_object(note, f"the backbone's {part}").get("_class_name"))
    if kind not in kinds:
        raise BadInput(f"backbone {folder}: its {part} is a {kind}; here it has to be a {' or '.join(kinds)}")
    try:
        network, report = getattr(diffusers, kind).from_pretrained(
            folder / part, local_files_only=True, use_safetensors=True, torch_dtype=torch.float32,
            output_loading_info=True,
        )  # fmt: skip
        if report["missing_keys"]:
            raise ValueError(f"weights are missing: {', '.join(sorted(report['missing_keys'])[:5])}")
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError) as error:
        said = " ".join(str(error).split())[:200]
        raise ArtifactError(f"backbone {folder}: its {part} cannot be read: {said}") from None
    for weight in (*network.parameters(), *network.buffers()):
        weight.data = weight.data.clone()  # they lie in the file as it falls; another alignment rounds otherwise
    return network.requires_grad_(False)


def fingerprint_of(folder: Path) -> str:
    """A hash of the sizes and beginnings of a pretrained model's files of weights."""
    seen = hashlib.sha256()
    for file in sorted(folder.glob("*/*.safetensors")):
        with file.open("rb") as stream:
            seen.update(f"{file.relative_to(folder)} {file.stat().st_size} ".encode() + stream.read(1 << 20))
    return seen.hexdigest()
