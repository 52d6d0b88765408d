"""What a sample is conditioned on, as tensors: cloud, start and target contact configuration, camera, text."""

from __future__ import annotations

import hashlib
import re
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat, rot6d_from_matrix
from dexprior.types import ContactConfiguration, PriorCondition

__all__ = ["ConditionEncoder", "condition_tensors", "embed_text", "frame_of_target", "straight_path"]

CONFIGURATION_SIZE = 3 + 6 + 45 + 5 + 15 + 10
CAMERA_SIZE = 4 + 12
TEXT_SIZE = 128


def embed_text(text: str) -> Float[np.ndarray, 128]:
    """Hashed n-grams of words and letters, unit length: needs no model, and close sentences land close.

    Each n-gram adds +1 or -1 to one of 128 cells (feature hashing, Weinberger et al. 2009).
    """
    words = re.findall(r"[a-z0-9]+", text.lower())
    grams = [*words, *(" ".join(pair) for pair in pairwise(words))]
    grams += [f"#{word[i : i + 3]}" for word in words for i in range(len(word) - 2)]
    vector = np.zeros(TEXT_SIZE)
    for gram in grams:
        digest = hashlib.blake2b(gram.encode(), digest_size=4).digest()
        value = int.from_bytes(digest, "little")
        vector[(value >> 1) % TEXT_SIZE] += 1.0 if value & 1 else -1.0
    norm = np.linalg.norm(vector)
    return vector / norm if norm else vector


def condition_tensors(conditions: list[PriorCondition]) -> dict[str, Tensor]:
    """Stack conditions: `cloud` (n, points, 6), `moves` (n, points), `points` (n, 16, 3), `start` and `target` (n, 84),
    `target_at` and `seconds` (n,) [s], `camera` (n, 16), `text` (n, 128).

    Raises:
        BadInput: clouds of different sizes, or objects followed by different numbers of points.
    """
    for name in ("cloud", "points"):
        counts = sorted({len(getattr(c, name)) for c in conditions})
        if len(counts) > 1:
            raise BadInput(f"conditions with {' and '.join(map(str, counts))} points in `{name}` cannot be stacked")

    def stack(rows: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(rows).astype(np.float32))

    return {
        "cloud": stack([c.cloud for c in conditions]),
        "moves": torch.from_numpy(np.stack([c.moves for c in conditions])),
        "points": stack([c.points for c in conditions]),
        "start": stack([_configuration(c.start) for c in conditions]),
        "target": stack([_configuration(c.target) for c in conditions]),
        "target_at": torch.tensor([c.target_at for c in conditions], dtype=torch.float32),
        "seconds": torch.tensor([c.seconds for c in conditions], dtype=torch.float32),
        "camera": stack([_camera(c) for c in conditions]),
        "text": stack([embed_text(c.text) for c in conditions]),
    }


def _configuration(c: ContactConfiguration) -> Float[np.ndarray, 84]:
    rotation = rot6d_from_matrix(matrix_from_quat(c.wrist_pose[3:]))
    touching = c.touching.astype(np.float64)
    return np.concatenate([c.wrist_pose[:3], rotation, c.finger_pose, touching, c.points.ravel(), c.betas])


def _camera(condition: PriorCondition) -> Float[np.ndarray, 16]:
    camera = condition.camera
    scaled = camera.K / np.array([[camera.width], [camera.height], [1.0]])
    intrinsics = [scaled[0, 0], scaled[1, 1], scaled[0, 2], scaled[1, 2]]
    return np.concatenate([intrinsics, camera.T_base_cam[:3].ravel()])


def frame_of_target(condition: dict[str, Tensor], fps: float) -> Float[Tensor, " batch"]:
    """The frame of the target, a whole number: within the clip."""
    last = (condition["seconds"] * fps).round() - 1.0
    return torch.minimum((condition["target_at"] * fps).round(), last).clamp(min=0.0)


def straight_path(condition: dict[str, Tensor], frames: int, fps: float) -> Float[Tensor, "batch frames 102"]:
    """Straight line from the start to the target, and rest there: what the motion departs from.

    Wrist position [m], rotation (6), fingers (45), then the object's points [m], which start where the condition has
    them and are shifted to where the target's fingertips touch.
    """
    hands, points = [condition[name][:, :54] for name in ("start", "target")], condition["points"]
    touching, tips = condition["target"][:, 54:59, None], condition["target"][:, 59:74].unflatten(1, (5, 3))
    touched = (tips * touching).sum(1) / touching.sum(1).clamp(min=1.0)
    shift = torch.where(touching.sum(1) > 0, touched - points.mean(1), 0.0)[:, None]
    start = torch.cat([hands[0], points.flatten(1)], -1)
    end = torch.cat([hands[1], (points + shift).flatten(1)], -1)
    frame = torch.arange(frames, device=points.device, dtype=points.dtype)
    u = (frame / frame_of_target(condition, fps).clamp(min=1.0)[:, None]).clamp(max=1.0)[..., None]
    return start[:, None] * (1 - u) + end[:, None] * u


class ConditionEncoder(nn.Module):
    """Six tokens: cloud, start, target, camera, text, times."""

    origin: Tensor
    scale: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.point = nn.Sequential(nn.Linear(7, width), nn.SiLU(), nn.Linear(width, width))
        self.cloud = nn.Linear(2 * width + 7, width)
        self.start = nn.Linear(CONFIGURATION_SIZE, width)
        self.target = nn.Linear(CONFIGURATION_SIZE, width)
        self.camera = nn.Linear(CAMERA_SIZE, width)
        self.text = nn.Linear(TEXT_SIZE, width)
        self.time = nn.Linear(2, width)
        self.kind = nn.Parameter(0.02 * torch.randn(6, width))
        self.register_buffer("origin", torch.zeros(3))
        self.register_buffer("scale", torch.ones(()))

    def fit(self, clouds: Float[Tensor, "n point 6"]) -> None:
        """Centre and scale positions by what the training clouds cover."""
        points = clouds[..., :3].reshape(-1, 3)
        self.origin.copy_(points.mean(0))
        self.scale.copy_(points.std(0).mean())

    def forward(self, condition: dict[str, Tensor]) -> Float[Tensor, "batch 6 width"]:
        """Encode stacked conditions."""
        moves = condition["moves"][..., None].to(condition["cloud"])
        cloud = torch.cat([self._scaled(condition["cloud"], (slice(0, 3),)), moves], dim=-1)
        per_point = self.point(cloud)
        pooled = torch.cat([per_point.amax(1), per_point.mean(1), cloud.mean(1)], dim=-1)
        places = (slice(0, 3), *(slice(59 + 3 * f, 62 + 3 * f) for f in range(5)))
        tokens = [
            self.cloud(pooled),
            self.start(self._scaled(condition["start"], places)),
            self.target(self._scaled(condition["target"], places)),
            self.camera(condition["camera"]),
            self.text(condition["text"]),
            self.time(torch.stack([condition["target_at"], condition["seconds"]], dim=-1) / 4.0),
        ]
        return torch.stack(tokens, dim=1) + self.kind

    def _scaled(self, value: Tensor, places: tuple[slice, ...]) -> Tensor:
        """Centre and scale the positions among the numbers; a finger that does not touch keeps its zeros."""
        value = value.clone()
        for k, place in enumerate(places):
            scaled = (value[..., place] - self.origin) / self.scale
            value[..., place] = torch.where(value[..., place] == 0, 0.0, scaled) if k else scaled
        return value
