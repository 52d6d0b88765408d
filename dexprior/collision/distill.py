"""Distil the simulator into the network: the base model, before any measured impact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import torch

from dexprior.collision.descent import descend
from dexprior.collision.generator import CollisionPairs
from dexprior.collision.surrogate import ImpulseNetwork, Surrogate, SurrogateConfig, seen_range
from dexprior.config import Ge, Gt, config

__all__ = ["DistillConfig", "distill"]

_KNEE = 0.05  # relative velocity error beyond which the loss grows linearly


@config
class DistillConfig:
    """Training of the base model on simulated impacts."""

    steps: Annotated[int, Ge(1)] = 6000
    """AdamW steps."""
    batch: Annotated[int, Ge(1)] = 512
    """Impacts per step."""
    learning_rate: Annotated[float, Gt(0)] = 6e-3
    """The rate at the start; falls to zero along a cosine."""
    weight_decay: Annotated[float, Ge(0)] = 1e-4
    """AdamW's."""
    checkpoint_every: Annotated[int, Ge(1)] = 500
    """Steps between two checkpoints."""


def distill(
    pairs: CollisionPairs,
    config: DistillConfig,
    surrogate: SurrogateConfig,
    *,
    seed: int,
    checkpoint: Path | None = None,
    progress: bool = True,
    on_step: Callable[[int], None] | None = None,
) -> Surrogate:
    """Train the base model on simulated impacts.

    The error of an impact is the kinetic energy of its velocity error over that of the approach,
    E = dp^T A dp A_nn / u_n^2; the loss is a pseudo-Huber one in sqrt(E), so that contacts near jamming, where a hair
    decides the outcome, do not rule the others.
    Batches are drawn from (seed, step), so that a run that was killed and resumes from `checkpoint` equals an
    uninterrupted one bit for bit on one machine.

    Args:
        pairs: simulated impacts.
        config: the training.
        surrogate: the network.
        seed: initial weights and batches are a function of it.
        checkpoint: file to resume from where it exists, and to write every `config.checkpoint_every` steps.
        progress: show a progress bar.
        on_step: called after each step with the number of steps done.

    Raises:
        ArtifactError: the checkpoint was written under another configuration or seed.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = ImpulseNetwork(surrogate)
    approach, delassus, phi, impulse = (torch.tensor(x, dtype=torch.float32) for x in pairs.arrays().values())
    a_nn = delassus[:, 0, 0]
    target = impulse * (a_nn / -approach[:, 0])[:, None]
    metric = delassus / a_nn[:, None, None]

    def loss(step: int) -> tuple[torch.Tensor, Callable[[], dict[str, str]]]:
        draw = np.random.default_rng([seed, step]).integers(len(pairs), size=config.batch)
        rows = torch.as_tensor(draw)
        error = network(approach[rows], delassus[rows], phi[rows]) - target[rows]
        energies = torch.einsum("bi,bij,bj->b", error, metric[rows], error)
        value = (_KNEE * (torch.sqrt(1.0 + energies / _KNEE**2) - 1.0)).mean()
        return value, lambda: {"median": f"{energies.detach().sqrt().median().item():.4f}"}

    descend(
        network,
        loss,
        config,
        label="distill",
        identity={"distill": config, "surrogate": surrogate, "seed": seed, "pairs": len(pairs)},
        checkpoint=checkpoint,
        progress=progress,
        on_step=on_step,
    )
    with torch.no_grad():
        scatter = (network(approach, delassus, phi) - target).square().mean(dim=0).sqrt()
    return Surrogate.from_network(network, seen_range(pairs), scatter.numpy().astype(np.float64))
