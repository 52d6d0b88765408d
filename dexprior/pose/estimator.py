"""A small pose estimator: a clip, and what is handled in it -> the hand and the object over time, in metres in the base
frame.

A convolutional encoder per frame, temporal convolutions over neighbouring frames. It is told the camera, by the ray of
each pixel, and the object's points at the start, as numbers and drawn into each frame; hand and object lie where the
rays of the cameras on which they are seen meet, so that the calibration puts them into the base frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from dexprior.artifacts import load_network, load_training_state, save_module, save_training_state
from dexprior.config import Ge, Gt, Le, config
from dexprior.data.objects import followed_object
from dexprior.data.stacks import Stack, resized
from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_from_matrix
from dexprior.geometry.torch_camera import camera_rows, in_camera, project, rays, splat
from dexprior.geometry.torch_rotations import matrix_from_axis_angle as torch_from_axis_angle
from dexprior.geometry.torch_rotations import matrix_from_quat as torch_from_quat
from dexprior.geometry.torch_rotations import matrix_from_rot6d as torch_from_rot6d
from dexprior.hands.skeleton import forward, forward_torch
from dexprior.progress import TrainingLog
from dexprior.types import Camera, HandTrajectory, ObjectTrajectory, PriorCondition, Side
from dexprior.types.episode import View

__all__ = [
    "EstimatorConfig",
    "PoseEstimator",
    "estimate",
    "load_estimator",
    "save_estimator",
    "train_estimator",
]

SCHEMA = "dexprior.pose_estimator/2"


@config
class EstimatorConfig:
    """The estimator and its training."""

    side: Side = "right"
    """Of the hand that it reads."""
    size: Annotated[int, Ge(16)] = 48
    """Width and height of its input [px]."""
    channels: Annotated[int, Ge(4)] = 32
    """Channels of the first layer; the others have two and three times as many."""
    width: Annotated[int, Ge(16)] = 160
    """Width of the temporal layers."""
    steps: Annotated[int, Ge(1)] = 1000
    """Optimisation steps."""
    clips: Annotated[int, Ge(1)] = 8
    """Clips in a step."""
    window: Annotated[int, Ge(1)] = 8
    """Consecutive frames of each."""
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    """Peak of the one-cycle schedule."""
    noise: Annotated[float, Ge(0), Le(1)] = 0.06
    """Largest standard deviation of the pixel noise added in training (pixels range over 1)."""
    blur: Annotated[float, Ge(0), Le(1)] = 0.7
    """Share of windows that are blurred in training."""
    crop: Annotated[float, Ge(0), Le(0.9)] = 0.1
    """Largest share of width and height that windows lose in training: other focal lengths and centres."""
    hidden: Annotated[float, Ge(0), Le(1)] = 0.3
    """Share of windows in which a part of the picture is hidden in training."""
    dropped: Annotated[float, Ge(0), Le(0.9)] = 0.05
    """Share of frames in training that repeat the one before."""
    samples: Annotated[int, Ge(0)] = 96
    """Samples of the prior that it learns from beside demonstrations, where there is a prior."""
    checkpoint_every: Annotated[int, Ge(1)] = 100
    """Steps between checkpoints."""

    def __post_init__(self) -> None:
        for name, value, divisor in (("size", self.size, 8), ("channels", self.channels, 2)):
            if value % divisor:
                raise BadInput(f"estimator.{name} = {value}: must be a multiple of {divisor}")


_HEADS = {
    "wrist": 3, "rotation": 6, "fingers": 45, "contact": 5, "force": 5, "way": 3, "turn": 6, "moved": 1, "height": 2,
    "log_sigma": 21,
}  # fmt: skip
_NEAR = 0.1  # [m] in which positions relative to the object are told and predicted
_DRAWN = 0.02  # width of a point of the object as a share of the image
_MOVED = 0.003  # [m] from the start, beyond which the object has moved
_LEVEL, _NEAREST = 0.05, 0.002  # how much height and nearness count beside a camera's rays
_ALL = 0.8  # share of steps that see all cameras
_SOUGHT = [0, 4, 5, 8, 12, 16, 17, 20]  # joints that are looked for in the picture


class PoseEstimator(nn.Module):
    """Frames of one camera or more, these, and the object at the start -> hand and object in the base frame, contact,
    force, uncertainty.

    Where a few joints and the object's centre are in a picture is the mean place under a map of each. Hand and object
    lie where the rays of all cameras meet; one camera leaves their depth to how high they are said to be above the
    object's start. How they are turned and bent comes from the whole pictures and the frames around. All this is done
    in a frame at the object's start, upright and turned as the first camera looks, so that it turns and moves with the
    scene.
    """

    finger_mean: Tensor
    claim: Tensor
    """What claimed standard deviations are multiplied by, so that two thirds of the errors lie within one."""
    motion_sigma: Tensor
    """Standard deviation of a coordinate of the prior's motion stream, as far as its samples tell [m]."""

    def __init__(self, config: EstimatorConfig) -> None:
        super().__init__()
        c, w = config.channels, config.width
        self.config = config
        self.enter = nn.Sequential(nn.Conv2d(3 + 3 + 1, c, 5, stride=2, padding=2), nn.SiLU())
        self.fine = _block(c, c)
        self.middle = _block(c, 2 * c, stride=2)
        self.coarse = nn.Sequential(_block(2 * c, 2 * c, stride=2), _block(2 * c, 2 * c))
        self.whole = nn.Sequential(nn.Flatten(), nn.Linear(2 * c * (config.size // 8) ** 2, w), nn.SiLU())
        self.grow = nn.ModuleList([nn.Conv2d(2 * c, 2 * c, 1), nn.Conv2d(2 * c, c, 1)])
        self.merge = _block(c, c)
        self.maps = nn.Conv2d(c, len(_SOUGHT) + 1, 1)
        self.point = nn.Sequential(nn.Linear(3, w // 2), nn.SiLU(), nn.Linear(w // 2, w // 2))
        self.object = nn.Linear(w, w)
        self.places = nn.Linear(3 * (len(_SOUGHT) + 2), w)
        self.join = nn.Sequential(nn.SiLU(), nn.Linear(w, w), nn.SiLU())
        self.time = nn.ModuleList([nn.Conv1d(w, w, 7, padding=3, padding_mode="replicate") for _ in range(2)])
        self.head = nn.Linear(w, sum(_HEADS.values()))
        nn.init.normal_(self.head.weight, std=0.01)
        self.register_buffer("finger_mean", torch.zeros(45))
        self.register_buffer("claim", torch.ones(()))
        self.register_buffer("motion_sigma", torch.tensor(0.0015))

    def forward(
        self,
        frames: Float[Tensor, "batch view time 3 size size"],
        camera: Float[Tensor, "batch view time 16"],
        points: Float[Tensor, "batch point 3"],
    ) -> dict[str, Tensor]:
        """Predictions in the base frame, contact as logits, force as log(1 + N), `seen` as x and y at a depth of one.

        Args:
            frames: in [0, 1].
            camera: as `camera_rows` gives it.
            points: of the object at the start, base frame.
        """
        b, views, t, _, size, _ = frames.shape
        origin, base = points.mean(dim=1), _upright_frame(camera[:, 0, 0])
        T = camera[..., 4:].unflatten(-1, (3, 4))
        turn = torch.einsum("bij,bvtik->bvtjk", base, T[..., :3])  # camera -> the scene's frame
        eye = torch.einsum("bij,bvti->bvtj", base, T[..., 3] - origin[:, None, None])
        looks = rays(camera, size)
        ahead = torch.einsum("bvtij,bvtjyx->bvtiyx", turn, looks)
        rest = points[:, None, None].expand(-1, views, t, -1, -1).flatten(0, 1)
        drawn = splat(project(camera.flatten(0, 1), rest), size, _DRAWN).unflatten(0, (b, views))
        seen = torch.cat([frames - 0.5, ahead, drawn[:, :, :, None]], dim=3).flatten(0, 2)
        seen = seen.contiguous(memory_format=torch.channels_last)  # on a CPU convolutions then take less time
        fine = self.fine(self.enter(seen))
        middle = self.middle(fine)
        coarse = self.coarse(middle)
        up = nn.functional.interpolate(self.grow[0](coarse), scale_factor=2.0) + middle
        up = nn.functional.interpolate(self.grow[1](up), scale_factor=2.0) + fine
        weight = self.maps(self.merge(up)).flatten(2).softmax(-1)
        halved = nn.functional.avg_pool2d(looks.flatten(0, 2), 2).flatten(2)
        found = torch.einsum("nkp,nip->nki", weight, halved).unflatten(0, (b, views, t))
        toward = torch.einsum("bvtij,bvtkj->bvtki", turn, found)
        local = torch.einsum("bij,bni->bnj", base, points - origin[:, None])
        each = self.point(local / _NEAR)
        told = self.object(torch.cat([each.amax(1), each.mean(1)], dim=-1))[:, None, None]
        placed = self.places(torch.cat([toward, eye[..., None, :]], dim=-2).flatten(-2))
        h = (self.whole(coarse).unflatten(0, (b, views, t)) + placed + told).mean(dim=1)
        h = self.join(h).transpose(1, 2)
        for layer in self.time:
            h = h + nn.functional.silu(layer(h))
        out = dict(zip(_HEADS, self.head(h.transpose(1, 2)).split(list(_HEADS.values()), -1)))
        upright = torch.tensor([1.0, 0, 0, 0, 1, 0], device=frames.device)
        local = local[:, None]
        there = _meet(eye, toward[..., -1:, :], torch.zeros_like(local[..., :1, :]), _NEAR * out["height"][..., 1:])
        turned = torch_from_rot6d(upright + out["turn"])
        moved = torch.einsum("btij,btnj->btni", turned, local.expand(-1, t, -1, -1))
        moved = moved + (there + 0.1 * _NEAR * out["way"])[:, :, None]
        moves = out["moved"].sigmoid()[..., None]  # what nobody moved is where it was
        fingers = out["fingers"] * 0.3 + self.finger_mean
        matrix = torch_from_rot6d(out["rotation"] + upright)
        bent = torch_from_axis_angle(fingers.unflatten(-1, (15, 3)))
        joints = forward_torch(torch.zeros_like(out["wrist"]), matrix, bent, self.config.side)
        wrist = _meet(eye, toward[..., :-1, :], joints[..., _SOUGHT, :], _NEAR * out["height"][..., :1])
        joints = joints + (wrist + 0.1 * _NEAR * out["wrist"])[..., None, :]

        def back(x: Tensor) -> Tensor:
            return torch.einsum("bij,btnj->btni", base, x) + origin[:, None, None]

        joints, thing = back(joints), back(moves * moved + (1 - moves) * local)
        return {
            "matrix": torch.einsum("bij,btjk->btik", base, matrix),
            "fingers": fingers,
            "joints": joints,
            "seen": found[..., :2],
            "contact": out["contact"],
            "force": out["force"],
            "moved": out["moved"][..., 0],
            "points": thing,
            "log_sigma": out["log_sigma"].clamp(-4, 4) - 4.6,  # around 10 mm
        }


def _block(into: int, out: int, *, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(into, out, 3, stride=stride, padding=1), nn.GroupNorm(4, out), nn.SiLU())


def _upright_frame(camera: Float[Tensor, "batch 16"]) -> Float[Tensor, "batch 3 3"]:
    """Axes, as columns, of a frame with the base's z, whose x is where a camera looks, as seen from above."""
    ahead = camera[:, 4:].unflatten(-1, (3, 4))[:, :2, 2]
    ahead = ahead / ahead.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    x, y, none = ahead[:, 0], ahead[:, 1], torch.zeros_like(ahead[:, 0])
    return torch.stack([x, -y, none, y, x, none, none, none, none + 1], dim=-1).unflatten(-1, (3, 3))


def _meet(
    eye: Float[Tensor, "batch view time 3"],
    toward: Float[Tensor, "batch view time point 3"],
    offset: Float[Tensor, "batch time point 3"],
    height: Float[Tensor, "batch time 1"],
) -> Float[Tensor, "batch time 3"]:
    """The place whose points, at an offset from it, lie nearest to the rays on which they are seen.

    What rays leave open, as the depth that one camera sees, is settled by a height, and that by nearness to the origin.

    Args:
        eye: where rays begin.
        toward: their directions, of any length.
        offset: of each point from the place.
        height: wanted of the place.
    """
    along = nn.functional.normalize(toward, dim=-1)
    across = torch.eye(3, device=eye.device) - along[..., :, None] * along[..., None, :]
    gap = eye[..., None, :] - offset[:, None]
    up = torch.tensor([0.0, 0.0, 1.0], device=eye.device)
    left = across.mean(dim=3).sum(dim=1) + _LEVEL * torch.diag(up) + _NEAREST * torch.eye(3, device=eye.device)
    right = (across @ gap[..., None])[..., 0].mean(dim=3).sum(dim=1) + _LEVEL * up * height
    return torch.linalg.solve(left, right)


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
            frames, camera, points, target, known = _together(drawn)
            frames, camera = _harder(frames, camera, config, rng)
            terms = _losses(model(frames, camera, points), camera, target, known)
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


class _Windows:
    """Clips as tensors, of which windows are drawn; the pixels stay bytes."""

    def __init__(self, stack: Stack, config: EstimatorConfig) -> None:
        stack = stack.of_sides((config.side,))
        self._window, self._length = config.window, stack.length
        self._long = np.flatnonzero(self._length >= config.window)
        if not len(self._long):
            raise BadInput(f"clips of {self._length.max()} frames are shorter than the window of {config.window}")
        self._frames = [stack.frames, *(seen.frames for seen in stack.views.values())]
        self._told = _told(stack)
        self.target, self.known = _targets(stack), _known(stack)

    def draw(self, n: int, views: Sequence[int], rng: np.random.Generator) -> tuple[Any, ...]:
        """Frames (n, view, time, 3, size, size), their cameras, the object's points, what is to be read, and where that
        is known."""
        clips = self._long[rng.integers(len(self._long), size=n)]
        starts = rng.integers(self._length[clips] - self._window + 1)
        ids, rows = torch.from_numpy(clips)[:, None], torch.from_numpy(starts[:, None] + np.arange(self._window))
        pixels = np.stack([self._frames[v][ids, rows] for v in views], axis=1)
        return (
            torch.from_numpy(pixels).float().permute(0, 1, 2, 5, 3, 4) / 255,
            torch.stack([self._told["camera"][v][ids, rows] for v in views], dim=1),
            self._told["points"][clips],
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


@torch.no_grad()
def estimate(
    model: PoseEstimator,
    frames: UInt8[np.ndarray, "time height width 3"],
    camera: Camera,
    fps: float,
    condition: PriorCondition,
    views: Sequence[View] = (),
) -> tuple[HandTrajectory, ObjectTrajectory]:
    """What a clip shows: its hand of the model's side, and the object.

    Args:
        model: trained.
        frames: RGB, of any size; the whole picture is shrunk to the model's.
        camera: calibrated, with any intrinsics; it has a pose in each frame where it moves.
        fps: frames a second.
        condition: where the object is at the start, by its points, and by its pose unless it deforms; nothing else of
            the condition is looked at.
        views: what further cameras saw at the same times.

    Raises:
        BadInput: no frames, or of another shape, or another number of them in a view, or a camera with poses for
            another number of frames.
    """
    n, seen = len(frames), []
    for what, clip, eye in (("the clip", frames, camera), *((f"view {v.name!r}", v.frames, v.camera) for v in views)):
        if clip is None or clip.ndim != 4 or clip.shape[3] != 3 or len(clip) != n or not n:
            shape = None if clip is None else clip.shape
            raise BadInput(f"{what}: frames of shape {shape}; an estimator reads (time, height, width, 3), one rate")
        eye.check_frames(n, what)
        seen.append((resized(clip, model.config.size), camera_rows(eye, n)))
    pixels, cameras = (_single(np.stack(rows)) for rows in zip(*seen))
    out = model(pixels.permute(0, 1, 4, 2, 3)[None] / 255, cameras[None], _single(condition.points)[None])
    found = {name: value[0].double().numpy() for name, value in out.items()}
    wrist_pose = np.concatenate([found["joints"][:, 0], quat_from_matrix(found["matrix"])], axis=1)
    t = np.arange(n) / fps
    hand = HandTrajectory(
        t=t,
        side=model.config.side,
        wrist_pose=wrist_pose,
        finger_pose=found["fingers"],
        betas=np.zeros(10),
        joints=forward(wrist_pose, found["fingers"], side=model.config.side),
        contact=1 / (1 + np.exp(-found["contact"])),
        force=np.maximum(np.expm1(np.clip(found["force"], 0, 6)), 0),
        valid=np.ones(n, dtype=bool),
        sigma=float(model.claim) * np.exp(found["log_sigma"]),
        scale_known=True,
    )
    return hand, followed_object(t, found["points"], condition)


def save_estimator(model: PoseEstimator, path: Path, *, seed: int) -> Path:
    """Write a checkpoint."""
    return save_module(model, path, schema=SCHEMA, producer="pose.training", config=model.config, seed=seed)


def load_estimator(path: str | Path) -> PoseEstimator:
    """Read a checkpoint.

    Raises:
        ArtifactError: missing, damaged, or of another schema.
    """
    return load_network(path, schema=SCHEMA, config=EstimatorConfig, network=PoseEstimator)


def _told(stack: Stack) -> dict[str, Tensor]:
    """`camera` (view, clip, time, 16), the clips' own one first, and the object's `points` (clip, 16, 3) at the
    start."""
    frames = stack.valid.shape[1]
    cameras = [[c.camera for c in stack.conditions], *(seen.cameras for seen in stack.views.values())]
    return {
        "camera": _single(np.array([[camera_rows(camera, frames) for camera in one] for one in cameras])),
        "points": _single(np.stack([c.points for c in stack.conditions])),
    }


def _targets(stack: Stack) -> dict[str, Tensor]:
    """Of one hand and the object in the base frame: rotation of the wrist, finger rotations' logarithms, joints, points
    and whether these have moved, contact, and log(1 + N)."""
    rest = np.stack([c.points for c in stack.conditions])
    return {
        "matrix": torch_from_quat(_single(stack.wrist_pose[:, :, 0, 3:])),
        "fingers": _single(stack.finger_pose[:, :, 0]),
        "joints": _single(stack.joints[:, :, 0]),
        "points": _single(stack.points),
        "moved": _single(np.linalg.norm(stack.points - rest[:, None], axis=-1).mean(axis=-1) > _MOVED),
        "contact": _single(stack.contact[:, :, 0]),
        "force": _single(np.log1p(stack.force[:, :, 0])),
    }


def _known(stack: Stack) -> dict[str, Tensor]:
    """Which frames know the hand, the object, and the touch."""
    hand = stack.hand_known[:, :, 0]
    touch = stack.valid & (stack.touch_known & stack.shows[:, 0])[:, None]
    found = {"hand": hand, "object": stack.object_known, "touch": touch}
    return {name: torch.from_numpy(value) for name, value in found.items()}


def _single(value: np.ndarray) -> Tensor:
    return torch.from_numpy(value.astype(np.float32))


def _losses(
    out: dict[str, Tensor], camera: Tensor, target: dict[str, Tensor], known: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Of frames that know what is compared; fingertips that touch count more, where they are on the object."""
    off = out["joints"] - target["joints"]
    apart = off.norm(dim=-1)
    sought = torch.cat([target["joints"][..., _SOUGHT, :], target["points"].mean(dim=2, keepdim=True)], dim=2)
    sought = in_camera(camera.flatten(0, 1), sought.repeat_interleave(camera.shape[1], 0))
    aside = (out["seen"].flatten(0, 1) - sought[..., :2] / sought[..., 2:].clamp(min=0.05)).norm(dim=-1)
    aside = aside.unflatten(0, camera.shape[:2]).mean(dim=1)
    # Gaussian likelihood of each joint's error, of which only the claimed spread learns
    variance = (2 * out["log_sigma"]).exp()
    unsure = 0.5 * off.detach().square().mean(-1) / variance + out["log_sigma"]
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
        "sigma": 0.05 * mean(unsure.mean(-1), "hand"),
    }


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
