"""Actors and critics that read flat observations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dexprior.artifacts import load_module, save_module
from dexprior.config import Ge, Gt, config, validate
from dexprior.errors import ArtifactError
from dexprior.policy.actor import ActorConfig, mlp
from dexprior.policy.density import Standardised

__all__ = ["ResidualActor", "Shape", "StateActor", "StateCritic", "load_state_actor", "save_state_actor"]

SCHEMA = "dexprior.gym_actor/1"


@config
class Shape:
    """What an actor of flat observations is built from."""

    networks: ActorConfig
    size: Annotated[int, Ge(1)]
    """Numbers in an observation."""
    actions: Annotated[int, Ge(1)]
    """Numbers that it decides at once."""
    residual: Annotated[float, Gt(0)] | None = None
    """How far a residual reaches from the actor that it stands on; None for an actor of its own."""


class StateActor(nn.Module):
    """Gaussian policy with a spread that does not depend on the state."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.seen = Standardised(shape.size)
        self.body = mlp(shape.size, shape.networks, shape.actions)
        self.log_std = nn.Parameter(torch.full((shape.actions,), shape.networks.log_std))

    def forward(self, observation: dict[str, Tensor]) -> tuple[Float[Tensor, "batch action"], Float[Tensor, " action"]]:
        """Mean and standard deviation of the action."""
        return self.body(self.seen(observation)), self.log_std.clamp(-5, 0.5).exp()

    @torch.no_grad()
    def act(self, observation: dict[str, np.ndarray]) -> Float[np.ndarray, "n action"]:
        """The mean action."""
        mean, _ = self({name: torch.from_numpy(value) for name, value in observation.items()})
        return mean.double().numpy()


class ResidualActor(StateActor):
    """A fixed actor, and what is learned beside it: mean = base + reach * tanh(residual), which begins at nothing.

    The critic's and the prior's view does not change: the policy is one Gaussian (Sun et al. 2026, DICE-RL).
    """

    def __init__(self, shape: Shape, base: StateActor | None = None) -> None:
        super().__init__(shape)
        assert shape.residual is not None
        self.base = base or StateActor(Shape(networks=shape.networks, size=shape.size, actions=shape.actions))
        self.base.requires_grad_(False)
        if base is not None:
            self.seen.load_state_dict(base.seen.state_dict())
            with torch.no_grad():
                self.log_std.copy_(base.log_std)
        last = self.body[-1]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)

    def forward(self, observation: dict[str, Tensor]) -> tuple[Float[Tensor, "batch action"], Float[Tensor, " action"]]:
        """Mean and standard deviation of the action."""
        residual, std = super().forward(observation)
        with torch.no_grad():
            base, _ = self.base(observation)
        assert self.shape.residual is not None
        return base + self.shape.residual * residual.tanh(), std


class StateCritic(nn.Module):
    """Value of flat observations."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.seen = Standardised(shape.size)
        self.body = mlp(shape.size, shape.networks, 1)

    def forward(self, observation: dict[str, Tensor], privileged: Tensor) -> Float[Tensor, " batch"]:
        """Expected discounted reward; there is nothing privileged to read."""
        return self.body(self.seen(observation))[:, 0]


def save_state_actor(actor: StateActor, path: Path, *, seed: int, extra: dict[str, Any]) -> Path:
    """Write an actor as one file; `extra` says of which environment it is."""
    return save_module(actor, path, schema=SCHEMA, producer="policy", config=actor.shape, seed=seed, extra=extra)


def load_state_actor(path: str | Path) -> tuple[StateActor, dict[str, Any]]:
    """Read what `save_state_actor` wrote, and what it said.

    Raises:
        ArtifactError: missing, damaged, or of another schema.
    """
    state, plain, extra = load_module(path, schema=SCHEMA, command="dexprior train-policy env=ID")
    shape = validate(Shape, plain, where=str(path))
    actor = StateActor(shape) if shape.residual is None else ResidualActor(shape)
    try:
        actor.load_state_dict(state)
    except RuntimeError as error:
        raise ArtifactError(f"{path}: its weights do not fit its configuration: {error}") from None
    return actor.eval(), extra
