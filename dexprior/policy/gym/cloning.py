"""Imitation: an actor of flat observations from pairs."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
import torch
from torch import nn

from dexprior.config import Ge, Gt, config
from dexprior.errors import Diverged
from dexprior.policy.gym.networks import StateActor, StateCritic
from dexprior.policy.pairs import Pairs

__all__ = ["CloningConfig", "clone"]


@config
class CloningConfig:
    """Behavior cloning."""

    steps: Annotated[int, Ge(1)] = 4000
    """Gradient steps."""
    batch: Annotated[int, Ge(1)] = 256
    """Pairs in a step."""
    rate: Annotated[float, Gt(0)] = 1e-3
    """Adam's, which falls to nothing along a cosine."""
    blur: Annotated[float, Ge(0)] = 0.1
    """Standard deviation of noise on observations, in units of their own spread: what was shown in few places then
    holds around them."""
    spread: Annotated[float, Gt(0)] = 0.4
    """Standard deviation that training starts with, as a share of what the imitation is off by."""


def clone(actor: StateActor, critic: StateCritic, pairs: Pairs, config: CloningConfig, *, seed: int) -> float:
    """Fit an actor's mean to pairs, in place, and set its spread; returns the root mean square of what it is off by.

    Raises:
        Diverged: the loss is not finite.
    """
    state = torch.from_numpy(pairs.observation["state"].astype(np.float32))
    action = torch.from_numpy(pairs.action.astype(np.float32))
    for network in (actor, critic):
        network.seen.fit(pairs.observation["state"])
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(actor.body.parameters(), lr=config.rate)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.steps)
    for k in range(config.steps):
        ids = torch.randint(len(action), (min(config.batch, len(action)),), generator=generator)
        seen = actor.seen({"state": state[ids]})
        seen = seen + config.blur * torch.randn(seen.shape, generator=generator)
        loss = (actor.body(seen) - action[ids]).square().mean()
        if not bool(torch.isfinite(loss)):
            raise Diverged(f"cloning: the loss of step {k + 1} is not finite; usually clone.rate is too large")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(actor.body.parameters(), 5.0)
        optimizer.step()
        falling.step()
    with torch.no_grad():
        off = (actor.body(actor.seen({"state": state})) - action).square().mean(0).sqrt()
        actor.log_std.copy_((config.spread * off).clamp(min=math.exp(-5.0)).log())
    return float(off.square().mean().sqrt())
