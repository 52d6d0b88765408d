"""What a sample is conditioned on, as tensors: cloud, start and target contact configuration, camera, text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dexprior.errors import BadInput, UnknownName
from dexprior.geometry.rotations import matrix_from_quat, rot6d_from_matrix
from dexprior.geometry.torch_camera import CAMERA_SIZE, camera_rows
from dexprior.geometry.transforms import IDENTITY_POSE
from dexprior.prior.text import HASHED, HASHED_SIZE, TextEncoder, text_encoder
from dexprior.types import ContactConfiguration, PriorCondition, Side

__all__ = [
    "CONDITIONS",
    "ConditionEncoder",
    "check_hidden",
    "condition_tensors",
    "frame_of_target",
    "straight_path",
    "told",
    "window_of",
    "without_hidden",
]

CONDITIONS = {
    "start": "hands at the first frame",
    "target": "wrists where they are about to let go; with `fingers`, which fingers touch then, and where",
    "fingers": "finger poses then",
    "time": "when that is, and how long the clip is",
    "cloud": "the object, its place, and the part that it is brought to",
    "text": "the sentence",
}
"""What a prior can be told, or not. The camera is always told: pixels are of nobody else's."""
CONFIGURATION_SIZE = 3 + 6 + 45 + 5 + 15 + 10
_FORGOTTEN = 0.2  # share of a sentence's numbers that a training step leaves out: sentences are few,
_SAID = 8  # and of what they say so many numbers are kept
_WRIST, _FINGERS, _TOUCH = slice(0, 9), slice(9, 54), slice(54, 74)  # of a configuration


def condition_tensors(
    conditions: list[PriorCondition],
    frames: int | None = None,
    *,
    sides: Sequence[Side] = ("right",),
    text: TextEncoder | None = None,
    hidden: Iterable[str] = (),
) -> dict[str, Tensor]:
    """Stack conditions: `cloud` (n, points, 6), `moves` (n, points), `points` (n, 16, 3), `start` and `target`
    (n, hand, 84) of the hands that each `shows` (n, hand), `target_at` and `seconds` (n,) [s], `camera` (n, 16), `text`
    (n, numbers), `pose` and `goal` (n, 7) of those that are `brought` (n,) to a part whose pose is known, and have one,
    and `told` (n, 6), which of `CONDITIONS` the network is told: what is hidden stays in the other tensors, and
    `without_hidden` takes it out.

    Where any camera moves, `camera` is (n, time, 16).

    Args:
        conditions: with clouds of one size.
        frames: poses of each camera, then; as many as the longest path has when omitted.
        sides: of the hands.
        text: what reads the sentences; hashed n-grams when omitted.
        hidden: names of `CONDITIONS` that none of them tells.

    Raises:
        UnknownName: another name.
        BadInput: clouds of different sizes, objects followed by different numbers of points, or a hand of another side.
    """
    hidden = check_hidden(hidden)
    read = text_encoder(HASHED) if text is None else text
    for name in ("cloud", "points"):
        counts = sorted({len(getattr(c, name)) for c in conditions})
        if len(counts) > 1:
            raise BadInput(f"conditions with {' and '.join(map(str, counts))} points in `{name}` cannot be stacked")

    for k, condition in enumerate(conditions):
        if other := [hand.side for hand in condition.start if hand.side not in sides]:
            raise BadInput(
                f"condition {k} asks for {' and '.join(f'a {hand.side} hand' for hand in condition.start)}; only "
                f"{' and '.join(f'the {side} hand' for side in sides)} is known here, not the {other[0]} one: leave it "
                "out of start and target, or train a prior on clips that show it"
            )

    def stack(rows: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(rows).astype(np.float32))

    return {
        "cloud": stack([c.cloud for c in conditions]),
        "moves": torch.from_numpy(np.stack([c.moves for c in conditions])),
        "points": stack([c.points for c in conditions]),
        "start": stack([_configurations(c.start, sides) for c in conditions]),
        "target": stack([_configurations(c.target, sides) for c in conditions]),
        "shows": torch.tensor([[side in [hand.side for hand in c.start] for side in sides] for c in conditions]),
        "target_at": torch.tensor([c.target_at for c in conditions], dtype=torch.float32),
        "seconds": torch.tensor([c.seconds for c in conditions], dtype=torch.float32),
        "camera": stack(_cameras(conditions, frames)),
        "text": stack(list(read([c.text for c in conditions]))),
        "pose": stack([IDENTITY_POSE if c.pose is None else c.pose for c in conditions]),
        "goal": stack([IDENTITY_POSE if c.goal is None else c.goal for c in conditions]),
        "brought": torch.tensor([c.pose is not None and c.goal is not None for c in conditions]),
        "told": torch.tensor([name not in hidden for name in CONDITIONS]).repeat(len(conditions), 1),
    }


def check_hidden(names: Iterable[str]) -> tuple[str, ...]:
    """Names of `CONDITIONS`.

    Raises:
        UnknownName: another name.
    """
    names = tuple(names)
    for name in names:
        if name not in CONDITIONS:
            raise UnknownName("condition", name, tuple(CONDITIONS))
    return names


def told(condition: dict[str, Tensor], name: str) -> Bool[Tensor, " batch"]:
    """Whether one of `CONDITIONS` is told."""
    return condition["told"][:, list(CONDITIONS).index(name)]


def without_hidden(
    condition: dict[str, Tensor],
    hands: Float[Tensor, "hand 54"],
    points: Float[Tensor, "track 3"],
    seconds: float,
) -> dict[str, Tensor]:
    """Conditions in which nothing is left of what is not told; those that tell everything are the same.

    A hand whose start is hidden starts at its target, and one whose target is hidden stays at its start; where both
    are, and where the fingers are, it is everybody's. Hidden times are those of the longest clip, to the end of which
    the target is drawn out. A hidden object is everybody's, without a surface, and brought to nothing. The sentence is
    taken out where it is encoded.

    Args:
        hands: everybody's wrist position [m], rotation and fingers, of each hand.
        points: everybody's, of the object [m].
        seconds: of the longest clip.
    """
    row, table = {name: told(condition, name)[:, None] for name in CONDITIONS}, condition["start"].new_zeros(())
    start, target = condition["start"].clone(), condition["target"].clone()
    for places, reached in ((_WRIST, row["target"]), (_FINGERS, row["fingers"])):
        begun, there, rest = row["start"][..., None], reached[..., None], hands[:, places]
        start[..., places] = torch.where(begun, start[..., places], torch.where(there, target[..., places], rest))
        target[..., places] = torch.where(there, target[..., places], start[..., places])
    touched = (row["target"] & row["fingers"])[..., None]
    start[..., _TOUCH] = torch.where(row["start"][..., None], start[..., _TOUCH], table)
    target[..., _TOUCH] = torch.where(touched, target[..., _TOUCH], table)
    seen, timed = row["cloud"], row["time"][:, 0]
    return {
        **condition,
        "start": start,
        "target": target,
        "target_at": torch.where(timed, condition["target_at"], seconds),
        "seconds": torch.where(timed, condition["seconds"], seconds),
        "cloud": torch.where(seen[..., None], condition["cloud"], table),
        "moves": condition["moves"] | ~seen,
        "points": torch.where(seen[..., None], condition["points"], points),
        "brought": condition["brought"] & seen[:, 0],
    }


def _configurations(hands: Sequence[ContactConfiguration], sides: Sequence[Side]) -> Float[np.ndarray, "hand 84"]:
    """Numbers of each hand in the order of the sides; zeros for a hand that is not there."""
    found = {hand.side: _configuration(hand) for hand in hands}
    return np.stack([found.get(side, np.zeros(CONFIGURATION_SIZE)) for side in sides])


def _configuration(c: ContactConfiguration) -> Float[np.ndarray, 84]:
    rotation = rot6d_from_matrix(matrix_from_quat(c.wrist_pose[3:]))
    touching = c.touching.astype(np.float64)
    return np.concatenate([c.wrist_pose[:3], rotation, c.finger_pose, touching, c.points.ravel(), c.betas])


def _cameras(conditions: list[PriorCondition], frames: int | None) -> list[Float[np.ndarray, "*time 16"]]:
    paths = [len(c.camera.T_base_cam) for c in conditions if c.camera.moves]
    time = max(paths, default=1) if frames is None else frames
    rows = [camera_rows(c.camera, time if paths else 1) for c in conditions]
    return rows if paths else [row[0] for row in rows]


def window_of(condition: dict[str, Tensor], start: Int[Tensor, " batch"], frames: int) -> dict[str, Tensor]:
    """The condition of some frames of each clip: of a camera that moves, its poses there; the rest is the clip's."""
    camera = condition["camera"]
    if camera.ndim == 2:
        return condition
    rows = start[:, None] + torch.arange(frames, device=start.device)
    return {**condition, "camera": camera[torch.arange(len(camera), device=start.device)[:, None], rows]}


def frame_of_target(condition: dict[str, Tensor], fps: float) -> Float[Tensor, " batch"]:
    """The frame of the target, a whole number: within the clip."""
    last = (condition["seconds"] * fps).round() - 1.0
    return torch.minimum((condition["target_at"] * fps).round(), last).clamp(min=0.0)


def straight_path(condition: dict[str, Tensor], frames: int, fps: float) -> Float[Tensor, "batch frames path"]:
    """Straight line from the start to the target, and rest there: what the motion departs from.

    Of the first hand wrist position [m], rotation (6) and fingers (45), then the object's points [m], which start where
    the condition has them and are shifted to where the target's fingertips touch, then of a second hand what is of the
    first one.
    """
    hands, points = [condition[name][..., :54] for name in ("start", "target")], condition["points"]
    touching = condition["target"][..., 54:59].flatten(1)[..., None]
    tips = condition["target"][..., 59:74].flatten(1).unflatten(1, (-1, 3))
    touched = (tips * touching).sum(1) / touching.sum(1).clamp(min=1.0)
    shift = torch.where(touching.sum(1) > 0, touched - points.mean(1), 0.0)[:, None]
    start = torch.cat([hands[0][:, 0], points.flatten(1), hands[0][:, 1:].flatten(1)], -1)
    end = torch.cat([hands[1][:, 0], (points + shift).flatten(1), hands[1][:, 1:].flatten(1)], -1)
    frame = torch.arange(frames, device=points.device, dtype=points.dtype)
    u = (frame / frame_of_target(condition, fps).clamp(min=1.0)[:, None]).clamp(max=1.0)[..., None]
    return start[:, None] * (1 - u) + end[:, None] * u


class ConditionEncoder(nn.Module):
    """Six tokens: cloud, start, target, camera in the first frame, text, times; of a second hand start and target.

    A token whose condition is hidden says that, too.
    """

    origin: Tensor
    scale: Tensor
    usual: Tensor
    unlike: Tensor

    def __init__(self, width: int, hands: int = 1, text: int = HASHED_SIZE) -> None:
        super().__init__()
        self.point = nn.Sequential(nn.Linear(7, width), nn.SiLU(), nn.Linear(width, width))
        self.cloud = nn.Linear(2 * width + 7, width)
        self.start = nn.Linear(CONFIGURATION_SIZE, width)
        self.target = nn.Linear(CONFIGURATION_SIZE, width)
        self.camera = nn.Linear(CAMERA_SIZE, width)
        self.text = nn.Sequential(nn.Dropout(_FORGOTTEN), nn.Linear(text, _SAID), nn.Linear(_SAID, width))
        self.time = nn.Linear(2, width)
        self.kind = nn.Parameter(0.02 * torch.randn(6, width))
        self.hidden = nn.Parameter(torch.zeros(len(CONDITIONS), width))
        self.second = nn.ModuleList([nn.Linear(CONFIGURATION_SIZE, width) for _ in range(2 * (hands - 1))])
        self.second_kind = nn.Parameter(0.02 * torch.randn(2, width)) if hands > 1 else None
        self.register_buffer("origin", torch.zeros(3))
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("usual", torch.zeros(text))
        self.register_buffer("unlike", torch.tensor(text**-0.5))

    def fit(self, condition: dict[str, Tensor]) -> None:
        """Centre and scale positions by what the training clouds cover, and sentences by how they differ."""
        points = condition["cloud"][..., :3].reshape(-1, 3)
        self.origin.copy_(points.mean(0))
        self.scale.copy_(points.std(0).mean())
        sentences = condition["text"].unique(dim=0)
        if len(sentences) > 1:
            self.usual.copy_(sentences.mean(0))
            self.unlike.copy_((sentences - self.usual).square().mean().sqrt())

    def forward(self, condition: dict[str, Tensor]) -> Float[Tensor, "batch token width"]:
        """Encode conditions of which `without_hidden` is left; where a hand is not there, its tokens say that alone."""
        hidden = {name: ~told(condition, name)[:, None] * self.hidden[k] for k, name in enumerate(CONDITIONS)}
        missing = {"start": hidden["start"], "target": hidden["target"] + hidden["fingers"]}
        places = (slice(0, 3), *(slice(59 + 3 * f, 62 + 3 * f) for f in range(5)))
        hands = [
            (self._scaled(condition[name][:, k], places), condition["shows"][:, k, None], missing[name])
            for k in range(condition["shows"].shape[1])
            for name in ("start", "target")
        ]
        sentence = torch.where(told(condition, "text")[:, None], (condition["text"] - self.usual) / self.unlike, 0.0)
        tokens = [
            self.cloud_token(condition) + hidden["cloud"],
            *(
                torch.where(shown, layer(hand) + lost, 0.0)
                for layer, (hand, shown, lost) in zip((self.start, self.target), hands)
            ),
            self.camera(condition["camera"] if condition["camera"].ndim == 2 else condition["camera"][:, 0]),
            self.text(sentence) + hidden["text"],
            self.time(torch.stack([condition["target_at"], condition["seconds"]], dim=-1) / 4.0) + hidden["time"],
        ]
        encoded = torch.stack(tokens, dim=1) + self.kind
        if self.second_kind is None:
            return encoded
        second = [
            torch.where(shown, layer(hand) + lost, 0.0) for layer, (hand, shown, lost) in zip(self.second, hands[2:])
        ]
        return torch.cat([encoded, torch.stack(second, dim=1) + self.second_kind], dim=1)

    def cloud_token(self, condition: dict[str, Tensor]) -> Float[Tensor, "batch width"]:
        """What the cloud alone says: pooled over its points, so that their order and number count for little."""
        moves = condition["moves"][..., None].to(condition["cloud"])
        cloud = torch.cat([self._scaled(condition["cloud"], (slice(0, 3),)), moves], dim=-1)
        per_point = self.point(cloud)
        return self.cloud(torch.cat([per_point.amax(1), per_point.mean(1), cloud.mean(1)], dim=-1))

    def moved(self, camera: Float[Tensor, "batch time 16"]) -> Float[Tensor, "batch time width"]:
        """How far a camera has moved since the first frame, as the camera's own token shows it."""
        return (camera - camera[:, :1]) @ self.camera.weight.T

    def _scaled(self, value: Tensor, places: tuple[slice, ...]) -> Tensor:
        """Centre and scale the positions among the numbers; a finger that does not touch keeps its zeros."""
        value = value.clone()
        for k, place in enumerate(places):
            scaled = (value[..., place] - self.origin) / self.scale
            value[..., place] = torch.where(value[..., place] == 0, 0.0, scaled) if k else scaled
        return value
