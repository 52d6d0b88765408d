"""Actor and critic: the actor sees what a robot can sense, the critic also the object's true state."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dexprior.artifacts import load_network, save_module
from dexprior.config import Ge, Gt, config
from dexprior.envs.base import Backend
from dexprior.errors import BadInput
from dexprior.policy.finding import Finder, Found

__all__ = [
    "Actor",
    "ActorConfig",
    "Critic",
    "RobotSenses",
    "Senses",
    "gaussian_kl",
    "load_actor",
    "log_prob",
    "mlp",
    "save_actor",
]

SCHEMA = "dexprior.actor/4"
_FORCE = 10.0  # [N] that becomes 1
_LENGTH = 0.1  # [m] that becomes 1
_SHAPE = 0.03  # [m] from a body's middle that becomes 1
_FINE = 0.005  # [m] below which distances are told apart linearly
_WIDTH = 0.02  # [m] of a gripper's slide that becomes 1
_READ = 64  # numbers that an actor's linear law reads
_WAVE = 0.3  # [s] of an episode for each wave of the clock


@config
class ActorConfig:
    """Sizes of actor and critic."""

    width: Annotated[int, Ge(8)] = 256
    """Width of the hidden layers."""
    layers: Annotated[int, Ge(1)] = 2
    """Number of hidden layers."""
    point_width: Annotated[int, Ge(4)] = 24
    """Width of the point network."""
    log_std: float = -2.6
    """Initial log standard deviation of actions."""


@config
class RobotSenses:
    """What one robot brings into an observation."""

    joints: Annotated[int, Ge(0)]
    """Joints of the arm."""
    end: tuple[float, ...]
    """What becomes 1, for each joint of the end effector [rad, m]."""
    touch: Annotated[int, Ge(0)]
    """Fingertips that feel."""

    @property
    def proprio(self) -> int:
        """Columns of `proprio`."""
        return 2 * self.joints + 9 + len(self.end)


@config
class Senses:
    """What the networks of a policy read and give; kept with their weights."""

    robots: tuple[RobotSenses, ...]
    """Robots in the order of the observations' columns."""
    bodies: tuple[int, ...]
    """Points of the cloud on each body."""
    labels: bool = True
    """Whether their places in the cloud say so; otherwise an actor finds the bodies itself."""
    horizon: Annotated[float, Gt(0)]
    """Length of an episode [s]."""
    actions: Annotated[int, Ge(1)]
    """Numbers in an action."""

    @classmethod
    def of(cls, backend: Backend) -> Senses:
        """The senses of the policies that act in a backend."""
        robots = tuple(
            RobotSenses(
                joints=len(rig.arm.joints),
                end=tuple(_WIDTH if slides else 1.0 for slides in rig.end.slides),
                touch=len(rig.end.touch),
            )
            for rig in backend.actions.rigs
        )
        task = backend.task
        return cls(
            robots=robots, bodies=task.bodies, labels=backend.labels, horizon=task.horizon, actions=backend.actions.size
        )

    @property
    def proprio(self) -> int:
        """Columns of `proprio`."""
        return sum(robot.proprio for robot in self.robots)


class Features(nn.Module):
    """Sensor readings as numbers of order one.

    Each body's points, now and when the episode began, give where its middle is from the first tool, and its shape,
    pooled from points relative to that middle: how a body is turned does not hang on where it is.

    Where points come without labels, a `Finder` says which body they lie on; how many each has is read as well. What
    reads no shapes finds no bodies either, and takes all points for one.

    Args:
        config: sizes.
        senses: what is read.
        shapes: whether shapes are read as well as places; they take most of the time.
    """

    frequency: Tensor
    shift: Tensor
    unit: Tensor

    def __init__(self, config: ActorConfig, senses: Senses, *, shapes: bool = True) -> None:
        super().__init__()
        self.senses, w = senses, config.point_width if shapes else 0
        self.point = nn.Sequential(nn.Linear(3, w), nn.SiLU()) if shapes else None
        waves = 2 * math.pi / senses.horizon * torch.arange(1, round(senses.horizon / _WAVE) + 1) / 2
        self.register_buffer("frequency", waves, persistent=False)
        first, shift, unit = 0, torch.zeros(senses.proprio), torch.ones(senses.proprio)
        tools = []
        for robot in senses.robots:
            tool = first + 2 * robot.joints
            tools.append(slice(tool, tool + 3))
            shift[tools[-1]], unit[tools[-1]] = _CENTRE, _LENGTH
            first += robot.proprio
            unit[tool + 9 : first] = torch.tensor(robot.end)
        self._tool = tools[0]
        self.register_buffer("shift", shift, persistent=False)
        self.register_buffer("unit", unit, persistent=False)
        self._split = senses.bodies if senses.labels else (sum(senses.bodies),)
        found = len(senses.bodies) if shapes and not senses.labels and len(senses.bodies) > 1 else 0
        self.finder = Finder(found, _CENTRE) if found else None
        robots, bodies = len(senses.robots), found or len(self._split)
        touch = sum(robot.touch for robot in senses.robots)
        seen = bodies * (6 + 2 * w) + 6 * (bodies - 1) + found
        self.size = senses.proprio + 6 * robots + touch + 1 + 2 * len(waves) + 2 * seen

    def forward(self, observation: dict[str, Tensor]) -> Float[Tensor, "batch feature"]:
        """Features of a batch of observations."""
        proprio = observation["proprio"]
        wrench = observation["wrench"].unflatten(1, (-1, 2, 3)) / _FORCE
        scaled = torch.stack([wrench[:, :, 0], wrench[:, :, 1] * 10], 2).flatten(1).clamp(-5, 5)
        touch = (observation["touch"] / _FORCE).clamp(0, 5)
        t = observation["time"]
        clock = torch.cat([t - self.senses.horizon / 2, (t * self.frequency).sin(), (t * self.frequency).cos()], -1)
        tool = proprio[:, self._tool]
        if self.finder is None:
            seen = [part for name in ("cloud", "first_cloud") for part in self._bodies(observation[name], tool)]
        else:
            seen = [part for found in self.finder(observation, tool).values() for part in self._found(found, tool)]
        return torch.cat([(proprio - self.shift) / self.unit, scaled, touch, clock, *seen], -1)

    def told_apart(
        self, observation: dict[str, Tensor], bodies: dict[str, Tensor]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """How well bodies are found where they come without labels; see `Finder.told_apart`."""
        assert self.finder is not None
        return self.finder.told_apart(observation, observation["proprio"][:, self._tool], bodies)

    def noted(self, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """Observations that are read many times, with the bodies that were found in them; see `Finder.noted`."""
        if self.finder is None:
            return observation
        return observation | self.finder.noted(observation, observation["proprio"][:, self._tool])

    def _bodies(self, cloud: Float[Tensor, "batch point 3"], tool: Float[Tensor, "batch 3"]) -> list[Tensor]:
        bodies = cloud.split(self._split, dim=1)
        middles = [body.mean(1) for body in bodies]
        parts = _places(middles, tool)
        if self.point is not None:
            for body, middle in zip(bodies, middles):
                each = self.point((body - middle[:, None]) / _SHAPE)
                parts += [each.max(1).values, each.mean(1)]  # the mean is what noise on single points leaves alone
        return parts

    def _found(self, found: Found, tool: Float[Tensor, "batch 3"]) -> list[Tensor]:
        """The same of bodies that were found, and the shares of the cloud's points that they have."""
        assert self.point is not None
        each = self.point(found.relative() / _SHAPE)
        parts = [*_places(list(found.middle.unbind(1)), tool), found.count / found.cloud.shape[1]]
        return [*parts, found.largest(each).flatten(1), found.mean(each).flatten(1)]


def _places(middles: list[Tensor], tool: Float[Tensor, "batch 3"]) -> list[Tensor]:
    """Where bodies are from the tool, and from the first of them."""
    offsets = [middle - tool for middle in middles]
    offsets += [middle - middles[0] for middle in middles[1:]]
    return [_both_scales(offset) for offset in offsets]


def _both_scales(offset: Float[Tensor, "batch 3"]) -> Float[Tensor, "batch 6"]:
    """A distance as a share of the work area, and so that millimetres count near zero."""
    return torch.cat([offset / _LENGTH, 0.5 * (offset / _FINE).asinh()], -1)


_CENTRE = torch.tensor([0.46, 0.0, 0.1])  # middle of the work area [m]


class Actor(nn.Module):
    """Gaussian policy with a spread that does not depend on the state.

    The mean is what a network says of the features, plus a linear law of them that changes with the episode's time: to
    follow a path that hangs on where things are is such a law, and a network alone comes near it slowly.
    """

    centre: Tensor

    def __init__(self, config: ActorConfig, senses: Senses) -> None:
        super().__init__()
        self.config, self.senses = config, senses
        self.features = Features(config, senses)
        self.body = mlp(self.features.size, config, senses.actions)
        stretches = round(senses.horizon / _WAVE) + 1
        self.register_buffer("centre", torch.linspace(0.0, senses.horizon, stretches), persistent=False)
        self.read = nn.Linear(self.features.size, _READ)
        self.law = nn.Parameter(torch.zeros(stretches * _READ, senses.actions))
        self.log_std = nn.Parameter(torch.full((senses.actions,), config.log_std))

    def forward(self, observation: dict[str, Tensor]) -> tuple[Float[Tensor, "batch action"], Float[Tensor, " action"]]:
        """Mean and standard deviation of the action."""
        features = self.features(observation)
        now = (1.0 - (observation["time"] - self.centre).abs() / _WAVE).clamp(min=0.0)  # of a piecewise linear law
        law = (now[:, :, None] * self.read(features)[:, None]).flatten(1) @ self.law
        return self.body(features) + law, self.log_std.clamp(-4, 0.5).exp()

    @torch.no_grad()
    def act(self, observation: dict[str, np.ndarray]) -> Float[np.ndarray, "n action"]:
        """The mean action, for evaluation and robots.

        Raises:
            BadInput: it was trained on other robots or objects.
        """
        seen = observation["proprio"].shape[1], observation["cloud"].shape[1]
        known = self.senses.proprio, sum(self.senses.bodies)
        if seen != known:
            raise BadInput(
                f"this actor reads {known[0]} numbers of the robot and {known[1]} points, these worlds give {seen[0]} "
                f"and {seen[1]}: it was trained for another task or robot"
            )
        mean, _ = self({k: torch.from_numpy(v) for k, v in observation.items()})
        return mean.double().numpy()


class Critic(nn.Module):
    """Value of sensor readings, but for shapes, plus the privileged state."""

    def __init__(self, config: ActorConfig, senses: Senses, privileged: int) -> None:
        super().__init__()
        self.features = Features(config, senses, shapes=False)
        self.body = mlp(self.features.size + privileged, config, 1)

    def forward(
        self, observation: dict[str, Tensor], privileged: Float[Tensor, "batch size"]
    ) -> Float[Tensor, " batch"]:
        """Expected discounted reward."""
        scaled = (privileged / _LENGTH).asinh()  # lengths of centimetres and numbers of order one alike
        return self.body(torch.cat([self.features(observation), scaled], -1))[:, 0]


def mlp(inputs: int, config: ActorConfig, outputs: int) -> nn.Sequential:
    """Hidden layers of the configured width and number."""
    sizes = [inputs, *[config.width] * config.layers]
    hidden = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.SiLU())]
    return nn.Sequential(*hidden, nn.Linear(config.width, outputs))


def log_prob(
    action: Float[Tensor, "batch action"], mean: Float[Tensor, "batch action"], std: Float[Tensor, " action"]
) -> Float[Tensor, " batch"]:
    """Log density of a diagonal Gaussian."""
    z = (action - mean) / std
    return (-0.5 * z.square() - std.log() - 0.5 * math.log(2 * math.pi)).sum(-1)


def gaussian_kl(
    mean: Float[Tensor, "batch action"],
    std: Float[Tensor, " action"],
    prior_mean: Float[Tensor, "batch sample action"],
    prior_std: Float[Tensor, " action"],
    weight: Float[Tensor, "batch sample"],
) -> Float[Tensor, " batch"]:
    """Upper bound of KL(policy || mixture), exact for one component.

    KL is convex in its second argument, so KL(q || sum_k w_k p_k) <= sum_k w_k KL(q || p_k).
    """
    ratio = (std / prior_std).square()
    offset = ((mean[:, None] - prior_mean) / prior_std).square()
    each = 0.5 * (ratio - 1 - ratio.log() + offset).sum(-1)
    return (weight * each).sum(-1)


@config
class _Saved:
    """What an actor is built from."""

    networks: ActorConfig
    senses: Senses


def save_actor(actor: Actor, path: Path, *, seed: int, extra: dict | None = None) -> Path:
    """Write a checkpoint."""
    built = _Saved(networks=actor.config, senses=actor.senses)
    return save_module(actor, path, schema=SCHEMA, producer="policy", config=built, seed=seed, extra=extra)


def load_actor(path: str | Path) -> Actor:
    """Read a checkpoint.

    Raises:
        ArtifactError: missing, damaged, or of another schema.
    """
    return load_network(
        path, schema=SCHEMA, config=_Saved, network=lambda saved: Actor(saved.networks, saved.senses),
        command="dexprior train-policy",
    )  # fmt: skip
