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
from dexprior.config import Ge, config
from dexprior.data.clouds import NUT_POINTS
from dexprior.envs.line.base import ACTION_SIZE, HORIZON, PRIVILEGED_SIZE
from dexprior.worlds.stepping import CONTROL_DT

__all__ = ["Actor", "ActorConfig", "Critic", "gaussian_kl", "load_actor", "log_prob", "save_actor"]

SCHEMA = "dexprior.actor/1"
_FORCE = 10.0  # [N] that becomes 1
_LENGTH = 0.1  # [m] that becomes 1
HORIZON_SECONDS = HORIZON * CONTROL_DT


@config
class ActorConfig:
    """Sizes of actor and critic."""

    width: Annotated[int, Ge(8)] = 128
    """Width of the hidden layers."""
    point_width: Annotated[int, Ge(4)] = 24
    """Width of the point network."""
    log_std: float = -2.6
    """Initial log standard deviation of actions."""


class Features(nn.Module):
    """Sensor readings as numbers of order one; points relative to the tool, nut and bolt pooled apart."""

    frequency: Tensor

    def __init__(self, config: ActorConfig) -> None:
        super().__init__()
        w = config.point_width
        self.point = nn.Sequential(nn.Linear(3, w), nn.SiLU(), nn.Linear(w, w))
        self.register_buffer("frequency", 2 * math.pi / HORIZON_SECONDS * torch.arange(1, 11) / 2, persistent=False)
        self.size = 24 + 6 + 2 + 1 + 20 + 2 * (3 + w) + 3

    def forward(self, observation: dict[str, Tensor]) -> Float[Tensor, "batch feature"]:
        """Features of a batch of observations."""
        proprio = observation["proprio"]
        tool = proprio[:, 14:17]
        points = (observation["cloud"] - tool[:, None]) / _LENGTH
        groups = (points[:, :NUT_POINTS], points[:, NUT_POINTS:])
        pooled = [torch.cat([g.mean(1), self.point(g).amax(1)], -1) for g in groups]
        apart = groups[1].mean(1) - groups[0].mean(1)
        wrench = observation["wrench"] / _FORCE
        scaled = torch.cat([wrench[:, :3], wrench[:, 3:] * 10], -1).clamp(-5, 5)
        state = torch.cat(
            [
                proprio[:, :7],
                proprio[:, 7:14],
                (tool - _CENTRE) / _LENGTH,
                proprio[:, 17:23],
                proprio[:, 23:] * 25,
            ],
            -1,
        )
        touch = (observation["touch"] / _FORCE).clamp(0, 5)
        t = observation["time"]
        clock = torch.cat([t - HORIZON_SECONDS / 2, (t * self.frequency).sin(), (t * self.frequency).cos()], -1)
        return torch.cat([state, scaled, touch, clock, *pooled, apart], -1)


_CENTRE = torch.tensor([0.46, 0.0, 0.1])  # middle of the work area [m]


class Actor(nn.Module):
    """Gaussian policy with a spread that does not depend on the state."""

    def __init__(self, config: ActorConfig) -> None:
        super().__init__()
        self.config = config
        self.features = Features(config)
        w = config.width
        self.body = nn.Sequential(
            nn.Linear(self.features.size, w), nn.SiLU(), nn.Linear(w, w), nn.SiLU(), nn.Linear(w, ACTION_SIZE)
        )
        self.log_std = nn.Parameter(torch.full((ACTION_SIZE,), config.log_std))

    def forward(self, observation: dict[str, Tensor]) -> tuple[Float[Tensor, "batch 7"], Float[Tensor, 7]]:
        """Mean and standard deviation of the action."""
        return self.body(self.features(observation)), self.log_std.clamp(-4, 0.5).exp()

    @torch.no_grad()
    def act(self, observation: dict[str, np.ndarray]) -> Float[np.ndarray, "n 7"]:
        """The mean action, for evaluation and robots."""
        mean, _ = self({k: torch.from_numpy(v) for k, v in observation.items()})
        return mean.double().numpy()


class Critic(nn.Module):
    """Value of sensor readings plus the privileged state."""

    def __init__(self, config: ActorConfig) -> None:
        super().__init__()
        self.features = Features(config)
        w = config.width
        self.body = nn.Sequential(
            nn.Linear(self.features.size + PRIVILEGED_SIZE, w),
            nn.SiLU(),
            nn.Linear(w, w),
            nn.SiLU(),
            nn.Linear(w, 1),
        )

    def forward(self, observation: dict[str, Tensor], privileged: Float[Tensor, "batch 13"]) -> Float[Tensor, " batch"]:
        """Expected discounted reward."""
        scaled = torch.cat([privileged[:, :6] / _LENGTH, privileged[:, 6:]], -1)
        return self.body(torch.cat([self.features(observation), scaled], -1))[:, 0]


def log_prob(
    action: Float[Tensor, "batch 7"], mean: Float[Tensor, "batch 7"], std: Float[Tensor, 7]
) -> Float[Tensor, " batch"]:
    """Log density of a diagonal Gaussian."""
    z = (action - mean) / std
    return (-0.5 * z.square() - std.log() - 0.5 * math.log(2 * math.pi)).sum(-1)


def gaussian_kl(
    mean: Float[Tensor, "batch 7"],
    std: Float[Tensor, 7],
    prior_mean: Float[Tensor, "batch sample 7"],
    prior_std: Float[Tensor, 7],
    weight: Float[Tensor, "batch sample"],
) -> Float[Tensor, " batch"]:
    """Upper bound of KL(policy || mixture), exact for one component.

    KL is convex in its second argument, so KL(q || sum_k w_k p_k) <= sum_k w_k KL(q || p_k).
    """
    ratio = (std / prior_std).square()
    offset = ((mean[:, None] - prior_mean) / prior_std).square()
    each = 0.5 * (ratio - 1 - ratio.log() + offset).sum(-1)
    return (weight * each).sum(-1)


def save_actor(actor: Actor, path: Path, *, seed: int, extra: dict | None = None) -> Path:
    """Write a checkpoint."""
    return save_module(actor, path, schema=SCHEMA, producer="policy", config=actor.config, seed=seed, extra=extra)


def load_actor(path: str | Path) -> Actor:
    """Read a checkpoint.

    Raises:
        ArtifactError: missing, damaged, or of another schema.
    """
    return load_network(path, schema=SCHEMA, config=ActorConfig, network=Actor)
