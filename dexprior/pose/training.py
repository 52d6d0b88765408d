"""Training of the pose estimator: windows of clips, made harder to read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dexprior.artifacts import load_training_state, save_training_state
from dexprior.data.stacks import Stack
from dexprior.errors import BadInput
from dexprior.geometry.torch_camera import camera_rows, in_camera
from dexprior.geometry.torch_rotations import matrix_from_quat
from dexprior.pose.estimator import MOVED, WITHIN, EstimatorConfig, PoseEstimator
from dexprior.pose.told import single, untold, what_is_told
from dexprior.progress import TrainingLog

__all__ = ["train_estimator"]


def train_estimator(
    stack: Stack, config: EstimatorConfig, folder: Path, *, seed: int, samples: Stack | None = None
) -> PoseEstimator:
    """Train on demonstrations' frames, made harder to read, or go on from `folder/state.safetensors`.

    Args:
        stack: clips with frames of `config.size` pixels; those that show a hand of its side are used.
        config: of the estimator and its training.
        folder: for checkpoints and logs.
        seed: of weights and of what each step draws.
        samples: of a prior with their own motions, seen by the same cameras; they are half of each step's clips then.

    Raises:
        BadInput: no clip shows such a hand, none is as long as the window, or the samples were seen by other cameras.
    """
    sources = [_Windows(one, config) for one in (stack, samples) if one is not None]
    if samples is not None and list(samples.views) != list(stack.views):
        raise BadInput(
            f"samples seen by {list(samples.views)}, clips by {list(stack.views)}: further cameras must agree"
        )
    torch.manual_seed(seed)
    model = PoseEstimator(config)
    model.rest.fit(stack.of_sides((config.side,)))
    model.finger_mean.copy_(sources[0].target["fingers"][sources[0].known["hand"]].mean(0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, config.learning_rate, total_steps=config.steps, pct_start=0.1
    )
    state = folder / "state.safetensors"
    step = 0
    history: list[dict[str, float]] = []
    if state.exists():
        progress, _ = load_training_state(
            state, modules={"model": model}, optimizers={"adamw": optimizer}, config=(config, seed)
        )
        step, history = progress["step"], progress["history"]
        schedule.last_epoch = step
    with TrainingLog(folder, "train estimator", config.steps, history) as log:
        while step < config.steps:
            rng = np.random.default_rng([seed, step])
            views = _chosen(1 + len(stack.views), rng)
            share = [config.clips] if samples is None else [config.clips - config.clips // 2, config.clips // 2]
            drawn = [source.draw(n, views, rng) for source, n in zip(sources, share) if n]
            frames, camera, told, target, known = _together(drawn)
            frames, camera = _harder(frames, camera, config, rng)
            told = untold(told, config.untold, torch.Generator().manual_seed(int(rng.integers(2**62))))
            terms = _losses(model(frames, camera, told), camera, target, known)
            optimizer.zero_grad(set_to_none=True)
            sum(terms.values()).backward()  # type: ignore[union-attr]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            step += 1
            log.add(step, {k: float(v.detach()) for k, v in terms.items()})
            if step % config.checkpoint_every == 0 or step == config.steps:
                save_training_state(
                    state, modules={"model": model}, optimizers={"adamw": optimizer},
                    progress={"step": step, "history": history}, config=(config, seed),
                )  # fmt: skip
    return model.eval()


_ALL = 0.8  # share of steps that see all cameras
_LEAST = 1e-4  # [m] of error that counts


class _Windows:
    """Clips as tensors, of which windows are drawn; the pixels stay bytes."""

    def __init__(self, stack: Stack, config: EstimatorConfig) -> None:
        stack = stack.of_sides((config.side,))
        self._window, self._length = config.window, stack.length
        self._long = np.flatnonzero(self._length >= config.window)
        if not len(self._long):
            raise BadInput(f"clips of {self._length.max()} frames are shorter than the window of {config.window}")
        self._frames = [stack.frames, *(seen.frames for seen in stack.views.values())]
        cameras = [[c.camera for c in stack.conditions], *(seen.cameras for seen in stack.views.values())]
        frames = stack.valid.shape[1]
        self._cameras = single([[camera_rows(camera, frames) for camera in one] for one in cameras])
        self._told = what_is_told(stack.conditions, config.side)
        self.target, self.known = _targets(stack), _known(stack)

    def draw(self, n: int, views: Sequence[int], rng: np.random.Generator) -> tuple[Any, ...]:
        """Frames (n, view, time, 3, size, size), their cameras, what is told, what is to be read, and where that is
        known."""
        clips = self._long[rng.integers(len(self._long), size=n)]
        starts = rng.integers(self._length[clips] - self._window + 1)
        ids, rows = torch.from_numpy(clips)[:, None], torch.from_numpy(starts[:, None] + np.arange(self._window))
        pixels = np.stack([self._frames[v][ids, rows] for v in views], axis=1)
        return (
            torch.from_numpy(pixels).float().permute(0, 1, 2, 5, 3, 4) / 255,
            torch.stack([self._cameras[v][ids, rows] for v in views], dim=1),
            {name: value[clips] for name, value in self._told.items()},
            {name: value[ids, rows] for name, value in self.target.items()},
            {name: value[ids, rows] for name, value in self.known.items()},
        )


def _together(drawn: Sequence[Any]) -> Any:
    """Windows of several sources as one batch."""
    first = drawn[0]
    if isinstance(first, Tensor):
        return torch.cat(list(drawn))
    if isinstance(first, dict):
        return {name: _together([one[name] for one in drawn]) for name in first}
    return tuple(_together(part) for part in zip(*drawn))


def _chosen(views: int, rng: np.random.Generator) -> list[int]:
    """Which cameras a step sees: mostly all, or one of them."""
    if views == 1 or rng.random() < _ALL:
        return list(range(views))
    return [int(rng.integers(views))]


def _targets(stack: Stack) -> dict[str, Tensor]:
    """What is learned of one hand and the object, in the base frame: rotation of the wrist, finger rotations'
    logarithms, joints, points and whether these have moved, contact, and log(1 + N)."""
    rest = np.stack([c.points for c in stack.conditions])
    return {
        "matrix": matrix_from_quat(single(stack.wrist_pose[:, :, 0, 3:])),
        "fingers": single(stack.finger_pose[:, :, 0]),
        "joints": single(stack.joints[:, :, 0]),
        "points": single(stack.points),
        "moved": single(np.linalg.norm(stack.points - rest[:, None], axis=-1).mean(axis=-1) > MOVED),
        "contact": single(stack.contact[:, :, 0]),
        "force": single(np.log1p(stack.force[:, :, 0])),
    }


def _known(stack: Stack) -> dict[str, Tensor]:
    """Which frames know the hand, the object, and the touch."""
    hand = stack.hand_known[:, :, 0]
    touch = stack.valid & (stack.touch_known & stack.shows[:, 0])[:, None]
    found = {"hand": hand, "object": stack.object_known, "touch": touch}
    return {name: torch.from_numpy(value) for name, value in found.items()}


def _losses(
    out: dict[str, Tensor], camera: Tensor, target: dict[str, Tensor], known: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Losses of frames that know what is compared; fingertips that touch count more, where they are on the object."""
    off = out["joints"] - target["joints"]
    apart = off.norm(dim=-1)
    sought = torch.cat([target["joints"], target["points"].mean(dim=2, keepdim=True)], dim=2)
    sought = in_camera(camera.flatten(0, 1), sought.repeat_interleave(camera.shape[1], 0))
    aside = (out["seen"].flatten(0, 1) - sought[..., :2] / sought[..., 2:].clamp(min=0.05)).norm(dim=-1)
    aside = aside.unflatten(0, camera.shape[:2]).mean(dim=1)
    along = torch.einsum("bij,btkj->btki", out["axes"], off.detach())
    unsure = _missed(along, out["log_sigma"])  # of which only the claim learns
    way = (out["points"] - target["points"]).norm(dim=-1).mean(-1)
    tips = off[..., 4::4, :] - (out["points"] - target["points"]).mean(-2, keepdim=True)
    touching = target["contact"] * known["touch"][..., None]
    held = (tips.norm(dim=-1) * touching).sum(-1)

    def mean(value: Tensor, what: str) -> Tensor:
        chosen = known[what].to(value)
        return (value * chosen).sum() / chosen.sum().clamp(min=1.0)

    touch = nn.functional.binary_cross_entropy_with_logits(out["contact"], target["contact"], reduction="none")
    moved = nn.functional.binary_cross_entropy_with_logits(out["moved"], target["moved"], reduction="none")
    return {
        "joints": 20 * mean(apart.mean(-1), "hand"),
        "rotation": mean((out["matrix"] - target["matrix"]).square().sum((-1, -2)), "hand"),
        "fingers": 5 * mean((out["fingers"] - target["fingers"]).square().mean(-1), "hand"),
        "points": 20 * mean(way, "object"),
        "seen": 10 * (mean(aside[..., :-1].mean(-1), "hand") + mean(aside[..., -1], "object")),
        "held": 10 * mean(held, "hand"),
        "contact": mean(touch.mean(-1), "touch"),
        "moved": mean(moved, "object"),
        "force": mean((out["force"] - target["force"]).square().mean(-1), "touch"),
        "sigma": 0.05 * mean(unsure.mean((-2, -1)), "hand"),
    }


def _missed(off: Float[Tensor, "*batch 3"], log_sigma: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 3"]:
    """Quantile loss of the logarithms of errors: it is least where a share `WITHIN` of them is below the claim."""
    beyond = off.abs().clamp(min=_LEAST).log() - log_sigma
    return torch.maximum(WITHIN * beyond, (WITHIN - 1) * beyond)


def _harder(
    frames: Float[Tensor, "batch view window 3 size size"],
    camera: Float[Tensor, "batch view window 16"],
    config: EstimatorConfig,
    rng: np.random.Generator,
) -> tuple[Tensor, Tensor]:
    """Windows cut out as other cameras would see them, blurred, brighter or darker, noisy, with parts hidden and frames
    dropped: sampled videos are softer than rendered ones, and real ones worse. Returns the cameras as well."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    shape, window = frames.shape[:2], frames.shape[2]
    frames, camera = frames.flatten(0, 1), camera.flatten(0, 1)
    n = len(frames)

    def drawn(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    frames, camera = _cut(frames, camera, 1 - config.crop * drawn(n), drawn(n, 2))
    soft = nn.functional.avg_pool2d(frames.flatten(0, 1), 3, stride=1, padding=1, count_include_pad=False)
    amount = (drawn(n) * (drawn(n) < config.blur))[:, None, None, None, None]
    frames = (1 - amount) * frames + amount * soft.unflatten(0, frames.shape[:2])
    gain = 1 + 0.1 * torch.randn(n, 1, 3, 1, 1, generator=generator)
    level = config.noise * drawn(n, 1, 1, 1, 1)
    frames = (frames * gain + level * torch.randn(frames.shape, generator=generator)).clamp(0, 1)
    size = frames.shape[-1]
    grid = (torch.arange(size) + 0.5) / size
    corner, extent = drawn(n, 2), 0.3 * drawn(n, 2)
    inside = [(grid > low[:, None]) & (grid < (low + wide)[:, None]) for low, wide in zip(corner.T, extent.T)]
    hidden = (inside[0][:, :, None] & inside[1][:, None, :]) & (drawn(n) < config.hidden)[:, None, None]
    frames = torch.where(hidden[:, None, None], drawn(n, 1, 3, 1, 1), frames)
    dropped = (drawn(n, window) < config.dropped) & (torch.arange(window) > 0)
    last = torch.where(dropped, 0, torch.arange(window)).cummax(dim=1).values
    return frames[torch.arange(n)[:, None], last].unflatten(0, shape), camera.unflatten(0, shape)


def _cut(
    frames: Float[Tensor, "batch window 3 size size"],
    camera: Float[Tensor, "batch window 16"],
    share: Float[Tensor, " batch"],
    place: Float[Tensor, "batch 2"],
) -> tuple[Tensor, Tensor]:
    """A part of each picture, as large as the whole one, and the camera that sees just this part.

    Args:
        share: of width and height.
        place: of the part in what room is left, in [0, 1], x and y.
    """
    corner = place * (1 - share[:, None])
    theta = torch.zeros(len(frames), 2, 3)
    theta[:, 0, 0] = theta[:, 1, 1] = share
    theta[:, :, 2] = 2 * corner + share[:, None] - 1
    theta = theta.repeat_interleave(frames.shape[1], 0)
    flat = frames.flatten(0, 1)
    grid = nn.functional.affine_grid(theta, list(flat.shape), align_corners=False)
    cut = nn.functional.grid_sample(flat, grid, mode="bilinear", padding_mode="border", align_corners=False)
    scale = share[:, None, None]
    focal, centre = camera[..., 0:2] / scale, (camera[..., 2:4] - corner[:, None]) / scale
    return cut.unflatten(0, frames.shape[:2]), torch.cat([focal, centre, camera[..., 4:]], dim=-1)
