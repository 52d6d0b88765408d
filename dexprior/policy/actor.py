"""Actor and critic: the actor sees what a robot can sense, the critic also the object's true state."""

from __future__ import annotations

import math
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
from dexprior.worlds.rigs import joint_slides

__all__ = [
    "Actor",
    "ActorConfig",
    "Critic",
    "RobotSenses",
    "Senses",
    "gaussian_kl",
    "load_actor",
    "log_prob",
    "save_actor",
]

SCHEMA = "dexprior.actor/2"
_FORCE = 10.0  # [N] that becomes 1
_LENGTH = 0.1  # [m] that becomes 1
_WIDTH = 0.02  # [m] of a gripper's slide that becomes 1
_WAVE = 0.3  # [s] of an episode for each wave of the clock


@config
class ActorConfig:
    """Sizes of actor and critic."""

    width: Annotated[int, Ge(8)] = 128
    """Width of the hidden layers."""
    point_width: Annotated[int, Ge(4)] = 24
    """Width of the point network."""
    log_std: float = -2.6
    """Initial log standard deviation of actions."""


@config
class RobotSenses:
    """What one robot brings into an observation."""

    joints: Annotated[int, Ge(0)]
    """Of the arm."""
    end: tuple[float, ...]
    """For each joint of the end effector, what becomes 1 [rad, m]."""
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
    """In the order of the observations' columns."""
    bodies: tuple[int, ...]
    """Points of the cloud on each body."""
    horizon: Annotated[float, Gt(0)]
    """Length of an episode [s]."""
    actions: Annotated[int, Ge(1)]
    """Numbers in an action."""

    @classmethod
    def of(cls, backend: Backend) -> Senses:
        """Of the policies that act in a backend."""
        robots = tuple(
            RobotSenses(
                joints=len(rig.arm.joints),
                end=tuple(_WIDTH if slides else 1.0 for slides in joint_slides(rig.end.name)),
                touch=len(rig.end.touch),
            )
            for rig in backend.actions.rigs
        )
        task = backend.task
        return cls(robots=robots, bodies=task.bodies, horizon=task.horizon, actions=backend.actions.size)

    @property
    def proprio(self) -> int:
        """Columns of `proprio`."""
        return sum(robot.proprio for robot in self.robots)


class Features(nn.Module):
    """Sensor readings as numbers of order one; points relative to the first tool, each body's pooled apart."""

    frequency: Tensor
    shift: Tensor
    unit: Tensor

    def __init__(self, config: ActorConfig, senses: Senses) -> None:
        super().__init__()
        self.senses, w = senses, config.point_width
        self.point = nn.Sequential(nn.Linear(3, w), nn.SiLU(), nn.Linear(w, w))
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
        robots, bodies = len(senses.robots), len(senses.bodies)
        touch = sum(robot.touch for robot in senses.robots)
        self.size = senses.proprio + 6 * robots + touch + 1 + 2 * len(waves) + bodies * (3 + w) + 3 * (bodies - 1)

    def forward(self, observation: dict[str, Tensor]) -> Float[Tensor, "batch feature"]:
        """Features of a batch of observations."""
        proprio = observation["proprio"]
        points = (observation["cloud"] - proprio[:, None, self._tool]) / _LENGTH
        bodies = points.split(self.senses.bodies, dim=1)
        pooled = [torch.cat([body.mean(1), self.point(body).amax(1)], -1) for body in bodies]
        apart = [body.mean(1) - bodies[0].mean(1) for body in bodies[1:]]
        wrench = observation["wrench"].unflatten(1, (-1, 2, 3)) / _FORCE
        scaled = torch.stack([wrench[:, :, 0], wrench[:, :, 1] * 10], 2).flatten(1).clamp(-5, 5)
        touch = (observation["touch"] / _FORCE).clamp(0, 5)
        t = observation["time"]
        clock = torch.cat([t - self.senses.horizon / 2, (t * self.frequency).sin(), (t * self.frequency).cos()], -1)
        return torch.cat([(proprio - self.shift) / self.unit, scaled, touch, clock, *pooled, *apart], -1)


_CENTRE = torch.tensor([0.46, 0.0, 0.1])  # middle of the work area [m]


class Actor(nn.Module):
    """Gaussian policy with a spread that does not depend on the state."""

    def __init__(self, config: ActorConfig, senses: Senses) -> None:
        super().__init__()
        self.config, self.senses = config, senses
        self.features = Features(config, senses)
        w = config.width
        self.body = nn.Sequential(
            nn.Linear(self.features.size, w), nn.SiLU(), nn.Linear(w, w), nn.SiLU(), nn.Linear(w, senses.actions)
        )
        self.log_std = nn.Parameter(torch.full((senses.actions,), config.log_std))

    def forward(self, observation: dict[str, Tensor]) -> tuple[Float[Tensor, "batch action"], Float[Tensor, " action"]]:
        """Mean and standard deviation of the action."""
        return self.body(self.features(observation)), self.log_std.clamp(-4, 0.5).exp()

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
    """Value of sensor readings plus the privileged state."""

    def __init__(self, config: ActorConfig, senses: Senses, privileged: int) -> None:
        super().__init__()
        self.features = Features(config, senses)
        w = config.width
        self.body = nn.Sequential(
            nn.Linear(self.features.size + privileged, w), nn.SiLU(), nn.Linear(w, w), nn.SiLU(), nn.Linear(w, 1)
        )

    def forward(
        self, observation: dict[str, Tensor], privileged: Float[Tensor, "batch size"]
    ) -> Float[Tensor, " batch"]:
        """Expected discounted reward."""
        scaled = (privileged / _LENGTH).asinh()  # lengths of centimetres and numbers of order one alike
        return self.body(torch.cat([self.features(observation), scaled], -1))[:, 0]


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
