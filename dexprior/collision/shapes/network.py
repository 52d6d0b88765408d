"""One network for many shapes: it sees the object as a point cloud from where it is struck.

Planar impacts of an object with another body. All that it reads is known before any contact is solved: where the object
is struck, the velocity of the two bodies relative to each other there, masses and contact parameters. It is told no
normal and no Delassus operator: what surface it meets is read from the cloud.

    frame    origin at the impact point; first axis against the object's velocity relative to the other body there: the
             heading of a rod that strikes an object at rest
    points   position / k and outward normal of surface points of the object, k its radius of gyration
    cloud    heads of attention over the points, and their maximum (PointNet, arXiv 1612.00593)
    known    centre of mass / k, log relative speed, share of the object in the contact's lightness, contact parameters
    impulse  head `free`: a perceptron of cloud and known, in units of relative speed times reduced mass
             head `contact`: the normal is the attended normal of the points; it gives approach and Delassus operator,
             and the surrogate's network their impulse

An impulse at the impact point is all that a contact can do, so that velocity and spin agree by construction. Mirrored
impacts are answered by mirrored impulses exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dexprior.artifacts import load_network, save_module
from dexprior.collision.descent import descend
from dexprior.collision.parameters import PARAMETERS, ContactRanges
from dexprior.collision.shapes.pairs import ShapePairs
from dexprior.collision.surrogate import ImpulseNetwork, SurrogateConfig
from dexprior.config import Ge, Gt, config
from dexprior.errors import BadInput

__all__ = [
    "ShapeNetwork",
    "ShapeNetworkConfig",
    "ShapeTrainingConfig",
    "Strikes2D",
    "load_shape_network",
    "planar_strikes",
    "relative_errors",
    "save_shape_network",
    "train_shape_network",
]

SCHEMA = "dexprior.shape_network/1"
_HEADS = 3
_GLOBALS = 4 + len(PARAMETERS)
_MIN_SPEED = 1e-9  # [m/s]
_CLOSE = 1e-4  # squared distance, in radii of gyration, below which points count as equally near
_GRAZING = 0.02  # sine of the flattest approach; a normal that is read wrongly may even point away


@config
class ShapeNetworkConfig:
    """Size of the network, and what it knows."""

    width: Annotated[int, Ge(4)] = 64
    """Units per hidden layer."""
    depth: Annotated[int, Ge(1)] = 3
    """Hidden layers of the head; the encoder has two."""
    head: Literal["contact", "free", "blind"] = "contact"
    """What makes an impulse of the cloud's code; `blind` is `free` without a cloud, from the centre of mass alone."""
    near: Annotated[int, Ge(1)] = 16
    """Points of the cloud nearest to the impact that it sees."""
    far: Annotated[int, Ge(0)] = 32
    """Further points, from all over; in training drawn anew each step."""
    ranges: ContactRanges = ContactRanges()
    """Contact parameters that it was trained on."""


@config
class ShapeTrainingConfig:
    """Training on simulated impacts of several shapes."""

    steps: Annotated[int, Ge(1)] = 3000
    """AdamW steps."""
    batch: Annotated[int, Ge(1)] = 256
    """Impacts per step, from all shapes alike."""
    learning_rate: Annotated[float, Gt(0)] = 3e-3
    """The rate at the start; falls to zero along a cosine."""
    weight_decay: Annotated[float, Ge(0)] = 1e-4
    """AdamW's."""
    checkpoint_every: Annotated[int, Ge(1)] = 500
    """Steps between two checkpoints."""


@dataclass(frozen=True, kw_only=True)
class Strikes2D:
    """Planar impacts of one or several shapes, in the frame of the strike and without units."""

    clouds: Float[Tensor, "shape point 4"]
    """Position / k and outward normal of surface points, body frame."""
    shape: Int[Tensor, " strike"]
    """Which cloud."""
    point: Float[Tensor, "strike 2"]
    """Impact point / k, body frame."""
    heading: Float[Tensor, "strike 2"]
    """Unit vector against the relative velocity at the impact point, body frame."""
    known: Float[Tensor, "strike global"]
    """Centre of mass (2, frame of the strike), log relative speed, share of the object, contact parameters."""
    impulse: Float[Tensor, "strike 2"]
    """Impulse in the frame of the strike, in units of relative speed times reduced mass."""
    before: Float[Tensor, "strike 3"]
    """Object's (vx, vy, k omega), body frame [m/s]."""
    after: Float[Tensor, "strike 3"]
    """The same after the impact."""
    kick: Float[Tensor, " strike"]
    """Change of the object's velocity per unit of `impulse` [m/s]."""

    def __len__(self) -> int:
        return len(self.shape)

    def rows(self, rows: Tensor) -> Strikes2D:
        """The chosen strikes; the clouds stay."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "clouds"})


def planar_strikes(pairs: Sequence[ShapePairs], ranges: ContactRanges) -> Strikes2D:
    """Impacts of several shapes as the network sees them.

    Args:
        pairs: one item per shape, with clouds of equal size.
        ranges: scale of the contact parameters.

    Raises:
        BadInput: impacts in space, or clouds of different size.
    """
    found: list[dict[str, np.ndarray]] = []
    for number, part in enumerate(pairs):
        if part.inverse_inertia[0, 2, 2] != 0:
            raise BadInput("planar_strikes: these impacts happen in space; generate them with planar motions")
        if len(part.cloud) != len(pairs[0].cloud):
            raise BadInput(f"planar_strikes: clouds of {len(part.cloud)} and {len(pairs[0].cloud)} points")
        k = part.gyration
        light, other = part.inverse_inertia[:, 0, 0]
        relative = np.einsum("ncj,nc->nj", part.frame, part.approach)[:, :2]
        speed = np.linalg.norm(relative, axis=1) + _MIN_SPEED
        heading = -relative / speed[:, None]
        point = part.point[:, :2] / k
        kick = speed * light / (light + other)
        before, after = (
            np.column_stack([velocity[:, 0, :2], k * velocity[:, 0, 5]]) for velocity in (part.before, part.after)
        )
        phi = part.parameters[:, : len(PARAMETERS)]
        centre = _turned_back(-point, heading)
        n = len(part)
        found.append(
            {
                "shape": np.full(n, number),
                "point": point,
                "heading": heading,
                "known": np.column_stack(
                    [centre, np.log(speed), np.full(n, light / (light + other)), ranges.to_unit(np, phi)]
                ),
                "impulse": _turned_back((after - before)[:, :2] / kick[:, None], heading),
                "before": before,
                "after": after,
                "kick": kick,
            }
        )
    clouds = np.stack([np.concatenate([p.cloud[:, :2] / p.gyration, p.cloud[:, 3:5]], axis=1) for p in pairs])
    joined = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
    tensors = {k: torch.as_tensor(v, dtype=torch.int64 if k == "shape" else torch.float32) for k, v in joined.items()}
    return Strikes2D(clouds=torch.as_tensor(clouds, dtype=torch.float32), **tensors)


class ShapeNetwork(nn.Module):
    """See the module."""

    def __init__(self, config: ShapeNetworkConfig) -> None:
        super().__init__()
        self.config, width = config, config.width
        if config.head != "blind":
            self.encoder = nn.Sequential(nn.Linear(5, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
            self.score = nn.Linear(width, _HEADS)
            self.sharpness = nn.Parameter(torch.ones(_HEADS))
        if config.head == "contact":
            self.impulse = ImpulseNetwork(SurrogateConfig(width=width, depth=config.depth, ranges=config.ranges))
        else:
            code = _HEADS * (width + 5) + width if config.head == "free" else 0
            layers: list[nn.Module] = [nn.Linear(code + _GLOBALS, width), nn.SiLU()]
            for _ in range(config.depth - 1):
                layers += [nn.Linear(width, width), nn.SiLU()]
            self.head = nn.Sequential(*layers, nn.Linear(width, 2))

    def forward(self, strikes: Strikes2D, far: Int[Tensor, "strike far"]) -> Float[Tensor, "strike 2"]:
        """Impulse in the frame of the strike, in units of relative speed times reduced mass.

        Args:
            strikes: what is known of the impacts; what came of them is not read.
            far: points of the cloud that each impact sees beside the nearest.
        """
        known, mirror = strikes.known, strikes.known.new_tensor([1.0, -1.0])
        mirrored = torch.cat([known[:, :2] * mirror, known[:, 2:]], dim=1)
        if self.config.head == "blind":
            return 0.5 * (self.head(known) + mirror * self.head(mirrored))
        points = self._points(strikes, far)
        reflection = points.new_tensor([1.0, -1.0, 1.0, -1.0, 1.0])
        straight, reflected = self._attend(points), self._attend(points * reflection)
        if self.config.head == "free":
            codes = [
                torch.cat([a.flatten(1), f.amax(dim=1), k], dim=1)
                for (a, f), k in ((straight, known), (reflected, mirrored))
            ]
            return 0.5 * (self.head(codes[0]) + mirror * self.head(codes[1]))
        outward = straight[0][:, 0, -3:-1] + mirror * reflected[0][:, 0, -3:-1]
        return self._through_contact(known, -nn.functional.normalize(outward, dim=1))

    def _points(self, strikes: Strikes2D, far: Tensor) -> Float[Tensor, "strike point 5"]:
        """Position, normal and log squared distance of the points that each impact sees, in the frame of the strike."""
        cloud = strikes.clouds[strikes.shape]
        away = (cloud[..., :2] - strikes.point[:, None]).square().sum(-1)
        near = away.topk(self.config.near, dim=1, largest=False).indices
        chosen = torch.cat([near, far], dim=1)
        seen = cloud.gather(1, chosen[..., None].expand(-1, -1, 4))
        position = _turn_back(seen[..., :2] - strikes.point[:, None], strikes.heading[:, None])
        normal = _turn_back(seen[..., 2:], strikes.heading[:, None])
        return torch.cat([position, normal, torch.log(away.gather(1, chosen) + _CLOSE)[..., None]], dim=-1)

    def _attend(self, points: Float[Tensor, "strike point 5"]) -> tuple[Tensor, Tensor]:
        """Attended features and points of each head, and the features of all points."""
        features = self.encoder(points)
        score = self.score(features) - nn.functional.softplus(self.sharpness) * points[..., 4:]
        weights = torch.softmax(score, dim=1)
        return torch.einsum("sph,spw->shw", weights, torch.cat([features, points], dim=-1)), features

    def _through_contact(
        self, known: Float[Tensor, "strike global"], normal: Float[Tensor, "strike 2"]
    ) -> Float[Tensor, "strike 2"]:
        """The surrogate's impulse for a contact with this normal (into the object), in units of the free head."""
        tangent = torch.stack([-normal[:, 1], normal[:, 0]], dim=1)
        axes = torch.stack([normal, tangent], dim=1)
        arm, speed, share = -known[:, :2], known[:, 2].exp(), known[:, 3]
        lever = arm[:, :1] * axes[..., 1] - arm[:, 1:] * axes[..., 0]
        delassus = torch.eye(2) + share[:, None, None] * lever[:, :, None] * lever[:, None, :]
        closing = normal[:, 0].clamp(min=_GRAZING)
        approach = torch.stack([-closing, -tangent[:, 0]], dim=1)
        phi = self.config.ranges.from_unit(torch, known[:, 4:])
        given = self.config.ranges.at_speed(torch, phi, speed * closing)
        impulse = self.impulse(approach * speed[:, None], delassus, given) * (closing / delassus[:, 0, 0])[:, None]
        return (impulse[:, :, None] * axes).sum(dim=1)

    def predict(self, strikes: Strikes2D, *, batch: int = 2048) -> Float[np.ndarray, "strike 3"]:
        """Object's (vx, vy, k omega) after the impacts, body frame [m/s]."""
        after = []
        stride = torch.linspace(0, strikes.clouds.shape[1] - 1, self.config.far).round().long()
        with torch.no_grad():
            for rows in torch.arange(len(strikes)).split(batch):
                part = strikes.rows(rows)
                impulse = self.forward(part, stride.expand(len(rows), -1))
                push = _turn(impulse, part.heading) * part.kick[:, None]
                spin = part.point[:, 0] * push[:, 1] - part.point[:, 1] * push[:, 0]
                after.append(part.before + torch.cat([push, spin[:, None]], dim=1))
        return torch.cat(after).numpy().astype(np.float64)


def train_shape_network(
    strikes: Strikes2D,
    config: ShapeTrainingConfig,
    network: ShapeNetworkConfig,
    *,
    seed: int,
    checkpoint: Path | None = None,
    progress: bool = True,
    on_step: Callable[[int], None] | None = None,
) -> ShapeNetwork:
    """Train one network on the impacts of several shapes.

    The loss is the squared error of the object's velocity (vx, vy, k omega) in units of relative speed times its share
    of the reduced mass. Batches and points are drawn from (seed, step), so that a run that was killed and resumes from
    `checkpoint` equals an uninterrupted one bit for bit on one machine.

    Args:
        strikes: simulated impacts.
        config: the training.
        network: the network.
        seed: initial weights and batches are a function of it.
        checkpoint: file to resume from where it exists, and to write every `config.checkpoint_every` steps.
        progress: show a progress bar.
        on_step: called after each step with the number of steps done.

    Raises:
        ArtifactError: the checkpoint was written under another configuration or seed.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built = ShapeNetwork(network)

    def loss(step: int) -> tuple[Tensor, Callable[[], dict[str, str]]]:
        rng = np.random.default_rng([seed, step])
        rows = torch.as_tensor(rng.integers(len(strikes), size=config.batch))
        far = torch.as_tensor(rng.integers(strikes.clouds.shape[1], size=(config.batch, network.far)))
        part = strikes.rows(rows)
        missed = _turn(built(part, far) - part.impulse, part.heading)
        spin = part.point[:, 0] * missed[:, 1] - part.point[:, 1] * missed[:, 0]
        value = (missed.square().sum(dim=1) + spin.square()).mean()
        return value, lambda: {"rms": f"{math.sqrt(value.item()):.4f}"}

    descend(
        built,
        loss,
        config,
        label="shapes",
        identity={"training": config, "network": network, "seed": seed, "strikes": len(strikes)},
        checkpoint=checkpoint,
        progress=progress,
        on_step=on_step,
    )
    return built.eval()


def relative_errors(
    predicted: Float[np.ndarray, "strike 3"], after: Float[np.ndarray, "strike 3"]
) -> Float[np.ndarray, " strike"]:
    """||predicted - true|| / ||true|| in the object's (vx, vy, k omega)."""
    return np.linalg.norm(predicted - after, axis=1) / np.linalg.norm(after, axis=1)


def save_shape_network(
    network: ShapeNetwork, path: str | Path, *, producer: str, seed: int | None, parents: tuple[str, ...] = ()
) -> Path:
    """Write a network as one safetensors file."""
    return save_module(
        network, path, schema=SCHEMA, producer=producer, config=network.config, seed=seed, parents=parents
    )


def load_shape_network(path: str | Path) -> ShapeNetwork:
    """Read what `save_shape_network` wrote.

    Raises:
        ArtifactError: missing, damaged, or of another schema.
    """
    return load_network(path, schema=SCHEMA, config=ShapeNetworkConfig, network=ShapeNetwork)


def _turn(v: Tensor, heading: Tensor) -> Tensor:
    """Rotation from the frame of the strike to the body frame."""
    c, s = heading[..., 0], heading[..., 1]
    return torch.stack([c * v[..., 0] - s * v[..., 1], s * v[..., 0] + c * v[..., 1]], dim=-1)


def _turn_back(v: Tensor, heading: Tensor) -> Tensor:
    return _turn(v, torch.stack([heading[..., 0], -heading[..., 1]], dim=-1))


def _turned_back(v: np.ndarray, heading: np.ndarray) -> np.ndarray:
    c, s = heading.T
    return np.column_stack([c * v[:, 0] + s * v[:, 1], c * v[:, 1] - s * v[:, 0]])
