"""Sampling: a diffusers pipeline that denoises motion and video together."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import DiffusionPipeline, FlowMatchEulerDiscreteScheduler
from jaxtyping import Float, UInt8
from torch import Tensor

from dexprior.artifacts import make_header, read_object, write_atomic, write_json
from dexprior.data.contacts import contact_schedule
from dexprior.data.objects import followed_object
from dexprior.data.stacks import resized, resized_camera
from dexprior.errors import ArtifactError, BadInput, UnknownName
from dexprior.hands.skeleton import forward
from dexprior.prior.backbones import Latents
from dexprior.prior.card import PIPELINE, model_card
from dexprior.prior.conditioning import check_hidden, condition_tensors, window_of
from dexprior.prior.denoiser import LOW, JointDenoiser
from dexprior.prior.familiarity import Familiarity
from dexprior.prior.motion import POINTS, decode_motion, encode_clip
from dexprior.prior.proposal import Proposal
from dexprior.prior.text import TextEncoder, text_encoder
from dexprior.types import Camera, ContactConfiguration, HandTrajectory, PriorCondition, Side, VideoSample
from dexprior.types.episode import View

__all__ = ["TOGETHER", "HandObjectPipeline", "load_prior", "sample_many", "sample_of", "save_prior"]

SCHEMA = "dexprior.prior/6"
MOTION_SIGMA = 0.0015
"""Claimed spread of a coordinate of a sample's own joints [m]: what pose estimators told of it on three tasks, 1.0 to
1.7 mm (`dexprior.pose.evaluation.motion_sigma`)."""


class HandObjectPipeline(DiffusionPipeline):
    """Samples hand-object clips.

    The motion takes `motion_steps` Euler steps of the flow; the video takes `video_steps`, the first `overlap` of them
    beside the motion's last ones. While both are under way each sees the other. Either may be given instead of sampled.
    """

    denoiser: JointDenoiser
    motion_scheduler: FlowMatchEulerDiscreteScheduler
    video_scheduler: FlowMatchEulerDiscreteScheduler
    familiarity: Familiarity | None
    """What the prior remembers of its training clouds; None where nobody kept it."""
    proposal: Proposal | None
    """What proposes starts and targets; None in checkpoints that are older than it."""
    text: TextEncoder
    """What reads the sentences."""
    info: dict[str, Any]
    """What `save_prior` noted of the checkpoint that the denoiser was read from; empty without one."""
    card: str
    """What that checkpoint's README.md says; empty where there is none."""

    def __init__(
        self,
        denoiser: JointDenoiser,
        motion_scheduler: FlowMatchEulerDiscreteScheduler,
        video_scheduler: FlowMatchEulerDiscreteScheduler,
    ) -> None:
        super().__init__()
        self.register_modules(denoiser=denoiser, motion_scheduler=motion_scheduler, video_scheduler=video_scheduler)
        self.text = text_encoder(denoiser.config.text)
        self.familiarity, self.proposal, self.info, self.card = None, None, {}, ""
        read_from = denoiser.config.get("_name_or_path")  # diffusers gives a pipeline its parts, but not their folder
        if read_from and (folder := Path(read_from).parent).joinpath(_NOTE).is_file():
            self.familiarity, self.proposal = Familiarity.load(folder), Proposal.load(folder)
            self.info = read_object(folder / _NOTE, "a prior's checkpoint", schema=SCHEMA, absent=_AGAIN)
            self.card = (folder / _CARD).read_text(encoding="utf-8") if (folder / _CARD).is_file() else ""

    @classmethod
    def fresh(cls, denoiser: JointDenoiser) -> HandObjectPipeline:
        """A pipeline with default schedulers."""
        return cls(denoiser, FlowMatchEulerDiscreteScheduler(), FlowMatchEulerDiscreteScheduler())

    def save_pretrained(self, save_directory: str | Path, *args: Any, **kwargs: Any) -> None:
        """Write a checkpoint that `load_prior`, and diffusers by `from_pretrained`, read: as `save_prior`."""
        folder = Path(save_directory)
        super().save_pretrained(str(folder), *args, **kwargs)
        settings = read_object(folder / "denoiser" / "config.json")
        if settings.pop("_name_or_path", None):  # where it was read from is nobody else's business
            write_json(folder / "denoiser" / "config.json", settings)
        for memory in (self.familiarity, self.proposal):
            if memory is not None:
                memory.save(folder)
        net = self.denoiser
        note = {"header": asdict(make_header(SCHEMA, producer="prior", config=dict(net.config))), "fps": net.config.fps}
        note |= self.info
        write_json(folder / _NOTE, note)
        write_atomic(folder / "pipeline.py", PIPELINE.encode())
        write_atomic(folder / _CARD, (self.card or model_card(note)).encode())

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        commit_message: str = "A video prior of dexprior",
        create_pr: bool = False,
    ) -> str:
        """Upload a checkpoint, with its card, to the Hugging Face hub; returns the address of the commit.

        Args:
            repo_id: OWNER/NAME; made where it does not exist.
            private: whether only its owner sees a repository that is made; the owner's default when omitted.
            token: of the account; that of `hf auth login` when omitted.
            commit_message, create_pr: of the commit, and whether it is only proposed.
        """
        from huggingface_hub import create_repo, upload_folder

        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            repo = create_repo(repo_id, private=private, token=token, exist_ok=True).repo_id
            return str(
                upload_folder(
                    repo_id=repo, folder_path=folder, token=token, commit_message=commit_message, create_pr=create_pr
                )
            )

    def propose(self, conditions: Sequence[PriorCondition], *, seed: int = 0) -> list[PriorCondition]:
        """Conditions with other starts, targets and times, as `Proposal.propose`.

        Raises:
            ArtifactError: the checkpoint is older than proposals, or the one that ships.
            BadInput: as `Proposal.propose`.
        """
        if self.proposal is None:
            raise ArtifactError(
                "this prior's checkpoint holds no proposal of starts and targets: it is older than those, or the one "
                "that ships. Make it again with `dexprior train-prior`, or say them yourself"
            )
        return self.proposal.propose(conditions, seed=seed, text=self.text)

    @torch.no_grad()
    def __call__(
        self,
        conditions: list[PriorCondition],
        *,
        seed: int = 0,
        first: int = 0,
        motion_steps: int = 12,
        video_steps: int = 2,
        overlap: int = 1,
        alike: bool = False,
        hidden: Iterable[str] = (),
        guidance: Mapping[str, float] | None = None,
        given: Mapping[str, Sequence[VideoSample]] | None = None,
        provenance: dict[str, Any] | None = None,
    ) -> list[VideoSample]:
        """One sample for each condition, as long as it says.

        A rigid object's points are moved by the rigid motion that fits the denoised ones best. A sample's provenance
        has `cloud_distance` of `Familiarity.distance`, where the prior can tell it, and what was `hidden`.

        Args:
            conditions: what to sample for; repeat one to get several samples of it.
            seed: sample k depends on (seed, first + k) only, not on how many are drawn together.
            first: number of the first sample.
            motion_steps, video_steps: Euler steps of each stream. The video's last one starts from a noise level of
                1 / (steps + 1): docs/decisions/0037. Without any, all frames are black.
            overlap: how many of the motion's last steps the video already follows; none where there is no video.
            alike: start all samples from the noise of the first, so that they differ by their conditions alone.
            hidden: names of `CONDITIONS` that the prior is not told. Samples are as long as their conditions say even
                so; a hidden hand's side and shape, and what the object's points are fitted to, are taken from there.
            guidance: weights of `JointDenoiser.denoise_guided`, by names that are told.
            given: a clip for each condition, as long as that says, under the name of the stream that is kept of it: the
                frames of `video`, for which the motion is sampled, or the `motion`, which the video is sampled for. The
                kept stream is clean from the first step on; its noise level is 0.

        Raises:
            UnknownName: no such condition.
            BadInput: something is hidden, or guides, that the prior was never trained without, or guides and is hidden;
                no condition, or one whose clip is longer than those that the prior was trained on, whose camera moves
                through another number of frames, or with a hand that the prior does not know; an overlap that exceeds
                either stream; or clips that are given for other conditions, or for both streams.
        """
        hidden, guidance = check_hidden(hidden), dict(guidance or {})
        net = self.denoiser
        if lost := [name for name in check_hidden(guidance) if name in hidden]:
            raise BadInput(f"guidance by {' and '.join(lost)}, which is hidden: hide it, or let it guide")
        if new := [name for name in (*hidden, *guidance) if name not in net.config.hides]:
            raise BadInput(
                f"this prior was never trained without {' and '.join(new)}, which it needs to be told and cannot be "
                "guided by: train one with `dexprior train-prior prior.hiding.share=0.4`"
            )
        kept = _kept(given or {}, conditions)
        if "video" in kept:
            video_steps = 0
        if "motion" in kept:
            motion_steps = 0
        overlap = overlap if video_steps and motion_steps else 0
        if not conditions:
            raise BadInput("nothing to sample: the list of conditions is empty")
        if overlap and not 0 <= overlap <= min(motion_steps, video_steps):
            raise BadInput(f"overlap = {overlap}: must lie in 0..{min(motion_steps, video_steps)}")
        frames, size, fps = net.config.frames, net.config.size, net.config.fps
        lengths = [round(c.seconds * fps) for c in conditions]
        if not 0 < min(lengths) <= max(lengths) <= frames:
            raise BadInput(
                f"a condition asks for {max(lengths)} frames (and one for {min(lengths)}); this prior samples 1 to "
                f"{frames} at {fps:g} a second"
            )
        for k, (asked, n) in enumerate(zip(conditions, lengths)):
            asked.camera.check_frames(n, f"condition {k}")
            for clips in kept.values():
                if (len(clips[k].frames), clips[k].fps) != (n, fps):
                    raise BadInput(
                        f"given clip {k} has {len(clips[k].frames)} frames at {clips[k].fps:g} a second, its condition "
                        f"asks for {n} at {fps:g}"
                    )
        stacked = condition_tensors(conditions, frames, sides=net.sides, text=self.text, hidden=hidden)
        condition = {k: v.to(self.device) for k, v in stacked.items()}
        draws = [first] * len(conditions) if alike else list(range(first, first + len(conditions)))
        space = net.video.space
        motion = self._noise(draws, (frames, net.motion_mean.shape[0]), seed, 0)
        video = self._noise(draws, space.shape(frames, size), seed, 1)
        if "motion" in kept:
            motion = net.standard(
                _filled([encode_clip(c, net.sides).astype(np.float32) for c in kept["motion"]], motion)
            )
        clean_motion, low = motion, self._first_low(video, draws, seed)
        if "video" in kept:
            seen = [resized(c.frames, size // LOW).transpose(0, 3, 1, 2) / np.float32(127.5) - 1 for c in kept["video"]]
            low = _filled(seen, low)
        for scheduler, steps, last in (
            (self.motion_scheduler, motion_steps, 1.0 / max(motion_steps, 1)),
            (self.video_scheduler, video_steps, 1.0 / (video_steps + 1)),
        ):
            if steps:
                scheduler.set_timesteps(sigmas=np.linspace(1.0, last, steps), device=self.device)
        first_video = motion_steps - overlap
        noise_of_low = low
        begin = torch.zeros(1, dtype=torch.long, device=self.device)
        guides: list[Any] = []
        # in a step a frame sees its neighbours: so many behind a clip's end are needed, whatever lies behind those
        reach = net.video.reach
        needed = [n if reach is None else min(n + reach * video_steps + net.config.patch, frames) for n in lengths]
        for k in self.progress_bar(range(first_video + video_steps)):
            v = min(max(k - first_video, 0), video_steps)
            if k < motion_steps:
                sigma = self.motion_scheduler.sigmas[k].expand(len(conditions)).to(motion)
                noise = self.video_scheduler.sigmas[v] if video_steps else torch.full((), float("video" not in kept))
                video_sigma = noise.expand(len(conditions)).to(motion)
                clean_motion = net.denoise_guided(motion, sigma, low, video_sigma, condition, guidance)
                velocity = (motion - clean_motion) / sigma[:, None, None]
                motion = self.motion_scheduler.step(velocity, self.motion_scheduler.timesteps[k], motion)[0]
            if k >= first_video:
                sigma = self.video_scheduler.sigmas[v].expand(len(conditions)).to(video)
                if k < motion_steps or not guides:
                    guides = [
                        net.guide_video(
                            clean_motion[i, None, :n],
                            window_of({name: x[i, None] for name, x in condition.items()}, begin, n),
                        )
                        for i, n in enumerate(needed)
                    ]
                clean = video.clone()
                for i, n in enumerate(needed):  # one after the other: a clip fits in a processor's cache
                    places = space.times(n)
                    clean[i, :places] = net.denoise_video(video[i, None, :places], sigma[i, None], guides[i])[0]
                velocity = (video - clean) / sigma[:, None, None, None, None]
                video = self.video_scheduler.step(velocity, self.video_scheduler.timesteps[v], video)[0]
                if k + 1 < motion_steps:
                    low = self._low(video, clean, noise_of_low, float(self.video_scheduler.sigmas[v + 1]))
        if "video" in kept:
            pixels = [resized(clip.frames, size) for clip in kept["video"]]
        elif video_steps:
            pixels = [_pixels(space.decode(one[None, : space.times(n)], n))[0] for one, n in zip(video, lengths)]
        else:
            pixels = [np.zeros((n, size, size, 3), dtype=np.uint8) for n in lengths]
        physical = net.physical(motion).double().cpu().numpy()
        origin = {"source": "prior", "seed": seed, **({"hidden": list(hidden)} if hidden else {})}
        origin |= ({"guidance": guidance} if guidance else {}) | ({"kept": next(iter(kept))} if kept else {})
        origin |= provenance or {}
        told: list[dict[str, float]] = [{}] * len(conditions)
        if self.familiarity is not None and "cloud" not in hidden:
            known = self.familiarity.distance(net.motion.condition, condition)
            told = [{"cloud_distance": round(float(d), 3)} for d in known]
        return [
            sample_of(c, m[:n], p, fps, size, net.sides, {**origin, **told[k], "index": first + k})
            for k, (c, m, p, n) in enumerate(zip(conditions, physical, pixels, lengths))
        ]

    @torch.no_grad()
    def film(
        self,
        samples: Sequence[VideoSample],
        conditions: Sequence[PriorCondition],
        cameras: Sequence[Camera],
        name: str,
        *,
        seed: int = 0,
        video_steps: int = 2,
    ) -> list[View]:
        """The same motions as another camera sees them; the motion stays what it is.

        Args:
            samples: of this prior.
            conditions: that they were sampled for.
            cameras: one that sees each; calibrated for any size.
            name: of the views.
            seed: of the video's noise, by sample and name.
            video_steps: Euler steps of the video stream.

        Raises:
            BadInput: not as many conditions or cameras as samples, or a camera that moves through another number of
                frames.
        """
        if not len(samples) == len(conditions) == len(cameras):
            raise BadInput(f"{len(samples)} samples, {len(conditions)} conditions, {len(cameras)} cameras: one each")
        net = self.denoiser
        size = net.config.size
        begin = torch.zeros(1, dtype=torch.long, device=self.device)
        sigmas = np.linspace(1.0, 1.0 / (video_steps + 1), video_steps)
        views = []
        for k, (sample, condition, camera) in enumerate(zip(samples, conditions, cameras)):
            camera, n = resized_camera(camera, size), len(sample.frames)
            self.video_scheduler.set_timesteps(sigmas=sigmas, device=self.device)
            camera.check_frames(n, f"view {name!r} of sample {k}")
            asked = condition_tensors(
                [replace(condition, camera=camera)], n, sides=net.sides, text=self.text,
                hidden=sample.provenance.get("hidden", ()),
            )  # fmt: skip
            motion = torch.from_numpy(encode_clip(sample, net.sides).astype(np.float32)).to(self.device)
            told = window_of({key: value.to(self.device) for key, value in asked.items()}, begin, n)
            guide = net.guide_video(net.standard(motion)[None], told)
            video = self._noise([k], net.video.space.shape(n, size), seed, 2 + zlib.crc32(name.encode()))
            for step in range(video_steps):
                sigma = self.video_scheduler.sigmas[step].expand(1).to(video)
                clean = net.denoise_video(video, sigma, guide)
                velocity = (video - clean) / sigma[:, None, None, None, None]
                video = self.video_scheduler.step(velocity, self.video_scheduler.timesteps[step], video)[0]
            views.append(View(name=name, camera=camera, frames=_pixels(net.video.space.decode(video, n))[0]))
        return views

    def _first_low(self, video: Tensor, draws: Sequence[int], seed: int) -> Float[Tensor, "batch time 3 low low"]:
        """Noise as the motion stage sees it: that of the video itself, where pixels are what is denoised."""
        net = self.denoiser
        if isinstance(net.video.space, Latents):
            side = net.config.size // LOW
            return self._noise(draws, (net.config.frames, 3, side, side), seed, 2) / LOW
        return _lowered(video)

    def _low(
        self, video: Tensor, clean: Tensor, noise: Float[Tensor, "batch time 3 low low"], sigma: float
    ) -> Float[Tensor, "batch time 3 low low"]:
        """What the motion stage sees of a video under way; latents' clean estimate is decoded, and made noisy."""
        space = self.denoiser.video.space
        if not isinstance(space, Latents):
            return _lowered(video)
        shown = torch.cat([space.decode(one[None], noise.shape[1]) for one in clean])
        return (1 - sigma) * _lowered(shown) + sigma * noise

    def _noise(self, draws: Sequence[int], shape: tuple[int, ...], seed: int, stream: int) -> Tensor:
        rows = []
        for k in draws:
            entropy = int(np.random.default_rng([seed, stream, k]).integers(2**62))
            rows.append(torch.randn(shape, generator=torch.Generator().manual_seed(entropy)))
        return torch.stack(rows).to(self.device)


_STREAMS = ("video", "motion")  # that a clip can give


def _kept(
    given: Mapping[str, Sequence[VideoSample]], conditions: Sequence[PriorCondition]
) -> Mapping[str, Sequence[VideoSample]]:
    """The one stream that is kept, with its clips; nothing where all is sampled."""
    for name, clips in given.items():
        if name not in _STREAMS:
            raise UnknownName("stream", name, _STREAMS)
        if len(clips) != len(conditions):
            raise BadInput(f"{len(clips)} clips give their {name} for {len(conditions)} conditions: one each")
    if len(given) > 1:
        raise BadInput("video and motion are given: nothing is left to sample")
    return given


def _filled(rows: Sequence[np.ndarray], like: Float[Tensor, "batch time *rest"]) -> Float[Tensor, "batch time *rest"]:
    """Numbers of each clip, whose last frame goes on behind its end."""
    last = np.arange(like.shape[1])
    return torch.from_numpy(np.stack([one[np.minimum(last, len(one) - 1)] for one in rows])).to(like)


def _pixels(video: Float[Tensor, "batch time 3 size size"]) -> UInt8[np.ndarray, "batch time size size 3"]:
    """Frames in [-1, 1] as bytes."""
    return ((video.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 1, 3, 4, 2).cpu().numpy()


def _lowered(video: Float[Tensor, "batch time 3 size size"]) -> Float[Tensor, "batch time 3 low low"]:
    """As the motion stage sees it."""
    return torch.nn.functional.avg_pool2d(video.flatten(0, 1), LOW).unflatten(0, video.shape[:2])


def sample_many(
    prior: HandObjectPipeline, conditions: Sequence[PriorCondition], *, seed: int, **settings: Any
) -> list[VideoSample]:
    """Samples of a prior, a few conditions at a time.

    Args:
        prior: sampled; its own progress bar is switched off.
        conditions: what to sample for.
        seed: of the first batch; that of a later one is the number of its first condition more, unless all are `alike`.
        settings: of the prior's call.
    """
    from tqdm import tqdm

    prior.set_progress_bar_config(disable=True)
    samples = []
    for k in tqdm(range(0, len(conditions), TOGETHER), desc="sample", unit="batch"):
        few = list(conditions[k : k + TOGETHER])
        samples += prior(few, seed=seed if settings.get("alike") else seed + k, **settings)
    return samples


TOGETHER = 16
"""Conditions that are sampled at once."""
_NOTE, _CARD = "dexprior.json", "README.md"
_AGAIN = "Make it again with `dexprior train-prior`"


def save_prior(
    denoiser: JointDenoiser,
    folder: Path,
    *,
    seed: int,
    extra: dict[str, Any],
    familiarity: Familiarity | None = None,
    proposal: Proposal | None = None,
) -> Path:
    """Write a checkpoint: diffusers' own folder layout (safetensors and JSON), a dexprior header, what the prior
    remembers of its training clouds and proposes, and a card.

    Args:
        denoiser: trained.
        folder: of the checkpoint.
        seed: of the training.
        extra: what else is noted: `tasks`, `holdout`, `sources` of the data, `settings`, `steps`, `averaged`.
        familiarity: what it remembers.
        proposal: what proposes starts and targets.
    """
    pipeline = HandObjectPipeline.fresh(denoiser)
    header = make_header(SCHEMA, producer="prior.training", seed=seed, config=dict(denoiser.config))
    pipeline.familiarity, pipeline.proposal, pipeline.card = familiarity, proposal, ""
    pipeline.info = {"header": asdict(header), "fps": denoiser.config.fps, **extra}
    pipeline.save_pretrained(folder, safe_serialization=True)
    return folder / _NOTE


def load_prior(folder: str | Path) -> tuple[HandObjectPipeline, dict[str, Any]]:
    """Read a checkpoint: (pipeline, what `save_prior` noted).

    Raises:
        ArtifactError: missing, damaged, or of another schema.
    """
    folder = Path(folder)
    note = folder / _NOTE
    if not note.is_file():
        raise ArtifactError(f"{folder} holds no prior checkpoint; train one: dexprior train-prior")
    info = read_object(note, "a prior's checkpoint", schema=SCHEMA, absent=_AGAIN)
    try:
        # without the two options diffusers would fall back to a pickle, or to a model of this name on the internet
        denoiser, report = JointDenoiser.from_pretrained(
            folder / "denoiser", low_cpu_mem_usage=False, use_safetensors=True, local_files_only=True,
            output_loading_info=True,
        )  # fmt: skip
        if report["missing_keys"]:
            raise ValueError(f"weights are missing: {', '.join(report['missing_keys'])}")
        if report["unexpected_keys"]:
            raise ValueError(f"weights of another architecture: {', '.join(sorted(report['unexpected_keys']))}")
        for weight in (*denoiser.parameters(), *denoiser.buffers()):
            weight.data = weight.data.clone()  # they lie in the file as it falls; another alignment rounds otherwise
        schedulers = [
            FlowMatchEulerDiscreteScheduler.from_pretrained(folder / f"{name}_scheduler", local_files_only=True)
            for name in ("motion", "video")
        ]
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError) as error:
        said = " ".join(str(error).split())[:300]
        raise ArtifactError(f"{folder} is not a complete prior checkpoint: {said}") from None
    pipeline = HandObjectPipeline(denoiser.eval(), *schedulers)
    if pipeline.text.checksum != denoiser.config.text_checksum:
        raise ArtifactError(
            f"{folder} was trained with another text encoder {pipeline.text.name!r}: its weights' SHA-256 begins with "
            f"{denoiser.config.text_checksum[:16]}, that of the one found here with {pipeline.text.checksum[:16]}"
        )
    return pipeline, info


def sample_of(
    condition: PriorCondition,
    motion: Float[np.ndarray, "time motion"],
    frames: UInt8[np.ndarray, "time size size 3"],
    fps: float,
    size: int,
    sides: Sequence[Side],
    provenance: dict[str, Any],
) -> VideoSample:
    """A motion and its frames for a condition, with the hands that it asks for.

    Args:
        motion: in metres.
        size: of the frames [px].
        sides: of the hands that the motion has places for.
    """
    n = len(frames)
    t = np.arange(n) / fps
    hands = [_sampled_hand(start, decode_motion(motion, sides.index(start.side)), t) for start in condition.start]
    thing = followed_object(t, motion[:, POINTS].reshape(n, -1, 3), condition)
    return VideoSample(
        frames=frames,
        fps=fps,
        camera=resized_camera(condition.camera, size),
        hands=tuple(hands),
        object=thing,
        contact=contact_schedule(hands, thing),
        provenance=provenance,
    )


def _sampled_hand(start: ContactConfiguration, parts: dict[str, np.ndarray], t: np.ndarray) -> HandTrajectory:
    n = len(t)
    return HandTrajectory(
        t=t,
        side=start.side,
        wrist_pose=parts["wrist_pose"],
        finger_pose=parts["finger_pose"],
        betas=start.betas,
        joints=forward(parts["wrist_pose"], parts["finger_pose"], start.betas, start.side),
        contact=parts["contact"],
        force=parts["force"],
        valid=np.ones(n, dtype=bool),
        sigma=np.full((n, 21), MOTION_SIGMA),
        scale_known=True,
    )
