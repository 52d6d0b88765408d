"""A small pose estimator: clip -> hand trajectory in metres in the base frame.

A convolutional encoder per frame, temporal convolutions over neighbouring frames, and the wrist predicted in the
camera's frame, so that the calibration of the camera puts it into the base frame.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from dexprior.artifacts import load_network, load_training_state, save_module, save_training_state
from dexprior.config import Ge, Gt, Le, config
from dexprior.data.stacks import Stack
from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_rot6d, quat_from_matrix
from dexprior.geometry.torch_rotations import matrix_from_axis_angle as torch_from_axis_angle
from dexprior.geometry.torch_rotations import matrix_from_quat as torch_from_quat
from dexprior.geometry.torch_rotations import matrix_from_rot6d as torch_from_rot6d
from dexprior.hands.skeleton import forward, forward_torch
from dexprior.progress import TrainingLog
from dexprior.types import Camera, HandTrajectory, Side

__all__ = [
    "EstimatorConfig",
    "PoseEstimator",
    "estimate",
    "joint_error",
    "load_estimator",
    "save_estimator",
    "train_estimator",
]

SCHEMA = "dexprior.pose_estimator/1"


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
    steps: Annotated[int, Ge(1)] = 600
    """Optimisation steps."""
    clips: Annotated[int, Ge(1)] = 8
    """Clips in a step."""
    window: Annotated[int, Ge(1)] = 12
    """Consecutive frames of each."""
    learning_rate: Annotated[float, Gt(0)] = 2e-3
    """Peak of the one-cycle schedule."""
    noise: Annotated[float, Ge(0), Le(1)] = 0.06
    """Largest standard deviation of the pixel noise added in training (pixels range over 1)."""
    blur: Annotated[float, Ge(0), Le(1)] = 0.7
    """Share of windows that are blurred in training."""
    checkpoint_every: Annotated[int, Ge(1)] = 100
    """Steps between checkpoints."""

    def __post_init__(self) -> None:
        for name, value, divisor in (("size", self.size, 8), ("channels", self.channels, 2)):
            if value % divisor:
                raise BadInput(f"estimator.{name} = {value}: must be a multiple of {divisor}")


class PoseEstimator(nn.Module):
    """Frames -> wrist in the camera frame, finger pose, contact, force, and its own uncertainty."""

    wrist_mean: Tensor
    wrist_std: Tensor
    finger_mean: Tensor
    intrinsics: Tensor

    def __init__(self, config: EstimatorConfig) -> None:
        super().__init__()
        c = config.channels
        self.config = config
        self.see = nn.Sequential(
            nn.Conv2d(5, c, 5, stride=2, padding=2), nn.SiLU(),
            nn.Conv2d(c, 2 * c, 3, stride=2, padding=1), nn.GroupNorm(4, 2 * c), nn.SiLU(),
            nn.Conv2d(2 * c, 2 * c, 3, stride=2, padding=1), nn.GroupNorm(4, 2 * c), nn.SiLU(),
            nn.Flatten(), nn.Linear(2 * c * (config.size // 8) ** 2, config.width), nn.SiLU(),
        )  # fmt: skip
        temporal = [nn.Conv1d(config.width, config.width, 7, padding=3, padding_mode="replicate") for _ in range(2)]
        self.time = nn.Sequential(temporal[0], nn.SiLU(), temporal[1], nn.SiLU())
        self.head = nn.Linear(config.width, 3 + 6 + 45 + 5 + 5 + 1)
        self.register_buffer("wrist_mean", torch.zeros(3))
        self.register_buffer("wrist_std", torch.ones(3))
        self.register_buffer("finger_mean", torch.zeros(45))
        self.register_buffer("intrinsics", torch.zeros(4))

    def forward(self, frames: Float[Tensor, "batch time 3 size size"]) -> dict[str, Tensor]:
        """Predictions for frames in [0, 1]; poses are in the camera's frame, contact as logits, force as log(1 + N)."""
        b, t, _, size, _ = frames.shape
        grid = torch.linspace(-1, 1, size, device=frames.device)
        place = torch.stack(torch.meshgrid(grid, grid, indexing="ij")).expand(b * t, -1, -1, -1)
        features = self.see(torch.cat([frames.flatten(0, 1) - 0.5, place], 1)).unflatten(0, (b, t))
        out = self.head(self.time(features.transpose(1, 2)).transpose(1, 2))
        wrist, rotation, fingers, contact, force, spread = out.split((3, 6, 45, 5, 5, 1), -1)
        upright = torch.tensor([1.0, 0, 0, 0, 1, 0], device=frames.device)
        return {
            "wrist": wrist * self.wrist_std + self.wrist_mean,
            "rotation": rotation + upright,
            "fingers": fingers * 0.3 + self.finger_mean,
            "contact": contact,
            "force": force,
            "log_sigma": spread[..., 0].clamp(-4, 4) - 4.6,  # around 10 mm
        }


def train_estimator(stack: Stack, config: EstimatorConfig, folder: Path, *, seed: int) -> PoseEstimator:
    """Train on demonstrations' frames with noise and blur, or go on from `folder/state.safetensors`.

    Args:
        stack: clips with frames of `config.size` pixels; those that show a hand of its side are used.

    Raises:
        BadInput: no clip shows such a hand, or none is as long as the window.
    """
    stack = stack.of_sides((config.side,))
    length = stack.length
    long = np.flatnonzero(length >= config.window)
    if not len(long):
        raise BadInput(f"clips of {length.max()} frames are shorter than the window of {config.window}")
    torch.manual_seed(seed)
    model = PoseEstimator(config)
    target = _targets(stack)
    known = torch.from_numpy(stack.hand_known[:, :, 0])
    model.wrist_mean.copy_(target["wrist"][known].mean(0))
    model.wrist_std.copy_(target["wrist"][known].std(0))
    model.finger_mean.copy_(target["fingers"][known].mean(0))
    model.intrinsics.copy_(torch.from_numpy(_intrinsics(stack.conditions[0].camera).astype(np.float32)))
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
            clips = long[rng.integers(len(long), size=config.clips)]
            starts = rng.integers(length[clips] - config.window + 1)
            frames = _augment(_windows(stack.frames, clips, starts, config.window), config, rng)
            batch = {
                name: torch.stack([value[c, s : s + config.window] for c, s in zip(clips, starts)])
                for name, value in target.items()
            }
            terms = _losses(model(frames), batch, config.side)
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


@torch.no_grad()
def estimate(
    model: PoseEstimator,
    frames: UInt8[np.ndarray, "time size size 3"],
    camera: Camera,
    fps: float,
) -> HandTrajectory:
    """Trajectory of a clip's hand of the model's side.

    Args:
        frames: RGB, of the size that the model was trained for.
        camera: calibrated; its pose, in each frame where it moves, puts the hand into the base frame.

    Raises:
        BadInput: frames of another size, or none, or a camera with other intrinsics, or with poses for another number
            of frames.
    """
    size = model.config.size
    if frames.ndim != 4 or frames.shape[1:] != (size, size, 3) or len(frames) == 0:
        raise BadInput(f"frames of shape {frames.shape}: this estimator reads (time, {size}, {size}, 3)")
    camera.check_frames(len(frames), "the clip")
    trained = model.intrinsics.double().numpy()
    if not np.allclose(_intrinsics(camera), trained, atol=0.01):
        raise BadInput(
            f"camera with intrinsics {np.round(_intrinsics(camera), 3)} (shares of the image: fx, fy, cx, cy); this "
            f"estimator learned depth for {np.round(trained, 3)}"
        )
    out = model(torch.from_numpy(frames.astype(np.float32)).permute(0, 3, 1, 2)[None] / 255)
    out = {name: value[0].double().numpy() for name, value in out.items()}
    T = camera.T_base_cam
    R = T[..., :3, :3]
    turned = np.einsum("tij,tj->ti", R, out["wrist"]) if camera.moves else out["wrist"] @ R.T
    rotation = R @ matrix_from_rot6d(out["rotation"])
    wrist_pose = np.concatenate([turned + T[..., :3, 3], quat_from_matrix(rotation)], axis=1)
    n = len(frames)
    return HandTrajectory(
        t=np.arange(n) / fps,
        side=model.config.side,
        wrist_pose=wrist_pose,
        finger_pose=out["fingers"],
        betas=np.zeros(10),
        joints=forward(wrist_pose, out["fingers"], side=model.config.side),
        contact=1 / (1 + np.exp(-out["contact"])),
        force=np.maximum(np.expm1(np.clip(out["force"], 0, 6)), 0),
        valid=np.ones(n, dtype=bool),
        sigma=np.repeat(np.exp(out["log_sigma"])[:, None], 21, axis=1),
        scale_known=True,
    )


def _intrinsics(camera: Camera) -> Float[np.ndarray, 4]:
    """Focal lengths and centre as shares of the image."""
    K = camera.K / np.array([[camera.width], [camera.height], [1.0]])
    return np.array([K[0, 0], K[1, 1], K[0, 2], K[1, 2]])


def joint_error(a: HandTrajectory, b: HandTrajectory) -> Float[np.ndarray, " time"]:
    """Mean distance of the 21 joints in each frame [m]."""
    return np.linalg.norm(a.joints - b.joints, axis=-1).mean(axis=-1)


def save_estimator(model: PoseEstimator, path: Path, *, seed: int) -> Path:
    """Write a checkpoint."""
    return save_module(model, path, schema=SCHEMA, producer="pose.training", config=model.config, seed=seed)


def load_estimator(path: str | Path) -> PoseEstimator:
    """Read a checkpoint.

    Raises:
        ArtifactError: missing, damaged, or of another schema.
    """
    return load_network(path, schema=SCHEMA, config=EstimatorConfig, network=PoseEstimator)


def _targets(stack: Stack) -> dict[str, Tensor]:
    """Of one hand: wrist in the camera's frame then, finger rotations' logarithms, joints in the camera frame."""
    cameras = [c.camera for c in stack.conditions]
    frames = stack.valid.shape[1] if any(camera.moves for camera in cameras) else 1
    T = np.stack([camera.poses(frames) for camera in cameras])
    R, p = T[..., :3, :3], T[..., :3, 3]
    pose = stack.wrist_pose[:, :, 0]
    each = np.broadcast_to(R, (*pose.shape[:2], 3, 3))
    wrist = np.einsum("ctji,ctj->cti", each, pose[..., :3] - p)
    joints = np.einsum("ctji,ctnj->ctni", each, stack.joints[:, :, 0] - p[:, :, None])
    rotation = np.swapaxes(R, -1, -2) @ torch_from_quat(torch.from_numpy(pose[..., 3:])).numpy()
    arrays = {
        "wrist": wrist, "rotation": rotation, "fingers": stack.finger_pose[:, :, 0], "joints": joints,
        "contact": stack.contact[:, :, 0], "force": np.log1p(stack.force[:, :, 0]),
    }  # fmt: skip
    return {name: torch.from_numpy(value.astype(np.float32)) for name, value in arrays.items()}


def _losses(out: dict[str, Tensor], batch: dict[str, Tensor], side: Side) -> dict[str, Tensor]:
    rotation = torch_from_rot6d(out["rotation"])
    fingers = torch_from_axis_angle(out["fingers"].unflatten(-1, (15, 3)))
    joints = forward_torch(out["wrist"], rotation, fingers, side)
    distance = (joints - batch["joints"]).norm(dim=-1).mean(-1)
    # Laplace likelihood of the mean joint error: its scale becomes the reported sigma
    uncertain = distance.detach() / out["log_sigma"].exp() + out["log_sigma"]
    return {
        "joints": 20 * distance.mean(),
        "rotation": (rotation - batch["rotation"]).square().sum((-1, -2)).mean(),
        "fingers": (out["fingers"] - batch["fingers"]).square().mean() * 5,
        "contact": nn.functional.binary_cross_entropy_with_logits(out["contact"], batch["contact"]),
        "force": 0.3 * (out["force"] - batch["force"]).square().mean(),
        "sigma": 0.05 * uncertain.mean(),
    }


def _windows(
    frames: UInt8[np.ndarray, "clip time size size 3"], clips: np.ndarray, starts: np.ndarray, window: int
) -> Float[Tensor, "batch window 3 size size"]:
    chosen = np.stack([frames[c, s : s + window] for c, s in zip(clips, starts)])
    return torch.from_numpy(chosen).float().permute(0, 1, 4, 2, 3) / 255


def _augment(
    frames: Float[Tensor, "batch window 3 size size"], config: EstimatorConfig, rng: np.random.Generator
) -> Float[Tensor, "batch window 3 size size"]:
    """Blur, brightness, contrast and pixel noise: sampled videos are softer than rendered ones."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    n = len(frames)
    soft = torch.nn.functional.avg_pool2d(frames.flatten(0, 1), 3, stride=1, padding=1, count_include_pad=False)
    amount = torch.rand(n, generator=generator) * (torch.rand(n, generator=generator) < config.blur)
    amount = amount[:, None, None, None, None]
    frames = (1 - amount) * frames + amount * soft.unflatten(0, frames.shape[:2])
    gain = 1 + 0.1 * torch.randn(n, 1, 3, 1, 1, generator=generator)
    level = config.noise * torch.rand(n, 1, 1, 1, 1, generator=generator)
    return (frames * gain + level * torch.randn(frames.shape, generator=generator)).clamp(0, 1)
