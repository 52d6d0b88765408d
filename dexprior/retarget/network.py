"""The retargeting network: hand and object trajectory -> tool pose and opening of a parallel gripper.

It predicts corrections to a kinematic baseline (`pinch_frame`), in a frame that moves with the scene, so that moving
hand and object together moves the answer with them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dexprior.artifacts import load_network, load_training_state, save_module, save_training_state
from dexprior.config import Ge, Gt, config
from dexprior.data.stacks import Stack
from dexprior.geometry.timing import hysteresis
from dexprior.progress import TrainingLog
from dexprior.retarget import losses
from dexprior.types import HandTrajectory, ObjectTrajectory

__all__ = [
    "RetargetConfig",
    "Retargeter",
    "hand_features",
    "human_contact",
    "load_retargeter",
    "save_retargeter",
    "tool_trajectory",
    "train_retargeter",
]

SCHEMA = "dexprior.retargeter/1"
FEATURES = 3 + 3 + 12 + 5 + 5 + 3
"""Pinch minus object, object minus its start, four fingertips minus pinch, contact, log force, pinch velocity."""


@config
class RetargetConfig:
    """The network, its training, and what the robot can do."""

    width: Annotated[int, Ge(8)] = 96
    """Channels of the temporal convolutions."""
    steps: Annotated[int, Ge(1)] = 400
    """Optimisation steps."""
    batch: Annotated[int, Ge(1)] = 32
    """Clips in a step."""
    learning_rate: Annotated[float, Gt(0)] = 2e-3
    """AdamW's."""
    noise: Annotated[float, Ge(0)] = 0.004
    """Slow noise on hand and object positions in training [m]: estimates are not exact."""
    grip_gain: Annotated[float, Gt(0)] = 1.5
    """Robot's pad force as a multiple of the human's thumb force: two pads replace three fingertips."""
    object_width: Annotated[float, Gt(0)] = 0.036
    """Width of the object between the pads [m]."""
    max_opening: Annotated[float, Gt(0)] = 0.08
    """Of the gripper [m]."""
    max_speed: Annotated[float, Gt(0)] = 0.5
    """Of the tool [m/s]."""
    floor: float = 0.011
    """Lowest tool height [m]."""
    position: Annotated[float, Ge(0)] = 1.0
    """Weight of the position loss."""
    clearance: Annotated[float, Ge(0)] = 1.0
    """Weight of the clearance loss."""
    smoothness: Annotated[float, Ge(0)] = 0.002
    """Weight of the smoothness loss."""
    timing: Annotated[float, Ge(0)] = 3.0
    """Weight of the contact-timing loss."""
    force: Annotated[float, Ge(0)] = 1.0
    """Weight of the force-profile loss."""
    limits: Annotated[float, Ge(0)] = 5.0
    """Weight of the limit loss."""
    checkpoint_every: Annotated[int, Ge(1)] = 100
    """Steps between checkpoints."""


class Retargeter(nn.Module):
    """Temporal convolutions over hand features."""

    scale: Tensor

    def __init__(self, config: RetargetConfig) -> None:
        super().__init__()
        self.config = config
        w = config.width
        layers: list[nn.Module] = [nn.Conv1d(FEATURES, w, 5, padding=2)]
        for dilation in (1, 2, 4):
            layers += [nn.SiLU(), nn.Conv1d(w, w, 5, padding=2 * dilation, dilation=dilation)]
        self.body = nn.Sequential(*layers, nn.SiLU())
        self.head = nn.Conv1d(w, 3 + 1, 1)
        nn.init.zeros_(self.head.weight)
        self.register_buffer("scale", torch.ones(FEATURES))

    def forward(
        self, features: Float[Tensor, "batch time feature"], pinch: Float[Tensor, "batch time 3"]
    ) -> tuple[Float[Tensor, "batch time 3"], Float[Tensor, "batch time"]]:
        """Tool position in the base frame [m] and commanded opening [m]."""
        out = self.head(self.body((features / self.scale).transpose(1, 2))).transpose(1, 2)
        tool = pinch + 0.03 * out[..., :3]
        closed = torch.sigmoid(out[..., 3] * 3 - 1.5)
        width = self.config.object_width
        opening = width + (self.config.max_opening - width) * (1 - closed) - 0.02 * closed
        return tool, opening


def hand_features(
    joints: Float[np.ndarray, "*batch time 21 3"],
    contact: Float[np.ndarray, "*batch time 5"],
    force: Float[np.ndarray, "*batch time 5"],
    object_position: Float[np.ndarray, "*batch time 3"],
    dt: float,
) -> tuple[
    Float[np.ndarray, "*batch time feature"],
    Float[np.ndarray, "*batch time 3"],
    Float[np.ndarray, "*batch time 2"],
]:
    """Network input, pinch centre [m] and horizontal closing direction, from a hand and an object.

    The pinch centre lies half-way between the thumb's tip and the mean of index and middle fingertip.
    """
    tips = joints[..., 4::4, :]
    opposing = tips[..., 1:3, :].mean(axis=-2)
    pinch = 0.5 * (tips[..., 0, :] + opposing)
    direction = (opposing - tips[..., 0, :])[..., :2]
    direction = direction / np.maximum(np.linalg.norm(direction, axis=-1, keepdims=True), 1e-6)
    velocity = np.gradient(pinch, dt, axis=-2)
    relative = (tips[..., :4, :] - pinch[..., None, :]).reshape(*pinch.shape[:-1], 12)
    start = object_position[..., :1, :]
    features = np.concatenate(
        [pinch - object_position, object_position - start, relative, contact, np.log1p(force), velocity],
        axis=-1,
    )
    return features, pinch, direction


def train_retargeter(stack: Stack, config: RetargetConfig, folder: Path, *, seed: int) -> Retargeter:
    """Train on demonstrations; needs no robot data: the losses say what must be kept.

    Goes on from `folder/state.safetensors` when that is there.
    """
    torch.manual_seed(seed)
    dt = 1.0 / stack.fps
    model = Retargeter(config)
    features, _, _ = hand_features(stack.joints, stack.contact, stack.force, stack.points.mean(axis=2), dt)
    model.scale.copy_(torch.from_numpy(features[stack.valid].std(axis=0) + 1e-3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=1e-4)
    state = folder / "state.safetensors"
    step = 0
    history: list[dict[str, float]] = []
    if state.exists():
        progress, _ = load_training_state(
            state, modules={"model": model}, optimizers={"adamw": optimizer}, config=(config, seed)
        )
        step, history = progress["step"], progress["history"]
    human = human_contact(stack.contact, stack.force)
    with TrainingLog(folder, "train retargeting", config.steps, history) as log:
        while step < config.steps:
            rng = np.random.default_rng([seed, step])
            clips = rng.integers(len(stack), size=config.batch)
            terms = _step_losses(model, stack, clips, human, config, dt, rng)
            optimizer.zero_grad(set_to_none=True)
            sum(terms.values()).backward()  # type: ignore[union-attr]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            log.add(step, {k: float(v.detach()) for k, v in terms.items()})
            if step % config.checkpoint_every == 0 or step == config.steps:
                save_training_state(
                    state, modules={"model": model}, optimizers={"adamw": optimizer},
                    progress={"step": step, "history": history}, config=(config, seed),
                )  # fmt: skip
    return model.eval()


@torch.no_grad()
def tool_trajectory(
    model: Retargeter, hand: HandTrajectory, held: ObjectTrajectory
) -> tuple[Float[np.ndarray, "time 7"], Float[np.ndarray, " time"]]:
    """Tool poses (gripper pointing down, pads along the human's pinch) and commanded openings [m]."""
    dt = float(np.median(np.diff(hand.t)))
    features, pinch, direction = hand_features(hand.joints, hand.contact, hand.force, held.centre, dt)
    tool, opening = model(
        torch.from_numpy(features[None].astype(np.float32)), torch.from_numpy(pinch[None].astype(np.float32))
    )
    position = tool[0].double().numpy()
    return np.concatenate([position, _downward(direction)], axis=1), opening[0].double().numpy()


def save_retargeter(model: Retargeter, path: Path, *, seed: int) -> Path:
    """Write a checkpoint."""
    return save_module(model, path, schema=SCHEMA, producer="retarget.training", config=model.config, seed=seed)


def load_retargeter(path: str | Path) -> Retargeter:
    """Read a checkpoint.

    Raises:
        ArtifactError: missing, damaged, or of another schema.
    """
    return load_network(path, schema=SCHEMA, config=RetargetConfig, network=Retargeter)


def human_contact(
    contact: Float[np.ndarray, "clip time 5"], force: Float[np.ndarray, "clip time 5"]
) -> tuple[Float[np.ndarray, "clip time"], Float[np.ndarray, "clip time"]]:
    """Whether the human holds (thumb and an opposing finger touch), and the thumb's normal force [N]."""
    holds = np.minimum(contact[..., 0], np.maximum(contact[..., 1], contact[..., 2]))
    steady = hysteresis(np.moveaxis(holds, 1, 0), on=0.6, off=0.4)
    return np.moveaxis(steady, 0, 1).astype(np.float64), force[..., 0]


def _step_losses(
    model: Retargeter,
    stack: Stack,
    clips: np.ndarray,
    human: tuple[np.ndarray, np.ndarray],
    config: RetargetConfig,
    dt: float,
    rng: np.random.Generator,
) -> dict[str, Tensor]:
    joints, position = stack.joints[clips], stack.points[clips].mean(axis=2)
    wobble = config.noise * _slow_noise(rng, (2, len(clips), joints.shape[1], 3))
    features, pinch, _ = hand_features(
        joints + wobble[0][:, :, None], stack.contact[clips], stack.force[clips], position + wobble[1], dt
    )
    clean_pinch = hand_features(joints, stack.contact[clips], stack.force[clips], position, dt)[1]
    contact, force = (torch.from_numpy(a[clips].astype(np.float32)) for a in human)
    noisy, given, target, held = (
        torch.from_numpy(a.astype(np.float32)) for a in (features, pinch, clean_pinch, position)
    )
    tool, opening = model(noisy, given)
    reached = losses.follow_gripper(opening, dt)
    robot_contact = losses.contact_logit(reached, config.object_width)
    robot_force = losses.grip_force(opening, config.object_width)
    limits = losses.limit_loss(
        tool, opening + 0.02, dt=dt, max_speed=config.max_speed, max_opening=config.max_opening + 0.02,
        floor=config.floor,
    )  # fmt: skip
    return {
        "position": config.position * losses.position_loss(tool, target, held, contact),
        "clearance": config.clearance * losses.clearance_loss(tool, held, contact),
        "smoothness": config.smoothness * losses.smoothness_loss(tool, dt),
        "timing": config.timing * losses.contact_timing_loss(robot_contact, contact),
        "force": config.force * losses.force_profile_loss(robot_force, config.grip_gain * force, contact),
        "limits": config.limits * limits,
    }


def _slow_noise(rng: np.random.Generator, shape: tuple[int, ...]) -> Float[np.ndarray, "*shape"]:
    """Unit noise that is constant over a clip plus a smaller part that varies smoothly."""
    knots = rng.normal(size=(*shape[:2], 5, shape[3]))
    t = np.linspace(0, 4, shape[2])
    k = np.minimum(t.astype(int), 3)
    u = (t - k)[:, None]
    varying = (1 - u) * knots[:, :, k] + u * knots[:, :, k + 1]
    return 0.8 * rng.normal(size=(*shape[:2], 1, shape[3])) + 0.6 * varying


def _downward(direction: Float[np.ndarray, "time 2"]) -> Float[np.ndarray, "time 4"]:
    """Orientations with the tool's z down and its y (the pads' axis) along the horizontal direction.

    A parallel gripper is the same after half a turn: the half nearer to y pointing to -y of the base is taken, one
    half for the whole clip, so that the tool never turns over when the direction passes the x axis.
    """
    turns_over = (direction[1:] * direction[:-1]).sum(axis=1) < 0
    direction = direction * np.cumprod(np.concatenate([[1.0], np.where(turns_over, -1.0, 1.0)]))[:, None]
    direction = -direction if direction[:, 1].sum() > 0 else direction
    # smooth over time: the closing direction is noisy while the hand is open
    kernel = np.ones(9) / 9
    padded = np.pad(direction, ((4, 4), (0, 0)), mode="edge")
    direction = np.stack([np.convolve(padded[:, k], kernel, mode="valid") for k in range(2)], axis=1)
    direction = direction / np.linalg.norm(direction, axis=1, keepdims=True)
    y = np.concatenate([direction, np.zeros((len(direction), 1))], axis=1)
    z = np.broadcast_to([0.0, 0.0, -1.0], y.shape)
    from dexprior.geometry.rotations import quat_from_matrix

    return quat_from_matrix(np.stack([np.cross(y, z), y, z], axis=-1))
