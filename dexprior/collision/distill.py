"""Distil the simulator into the network: the base model, before any measured impact."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from tqdm import tqdm

from dexprior.artifacts import load_training_state, save_training_state
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
    """At the start; falls to zero along a cosine."""
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
    optimizer = torch.optim.AdamW(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    identity = {"distill": config, "surrogate": surrogate, "seed": seed, "pairs": len(pairs)}
    done = 0
    if checkpoint is not None and checkpoint.exists():
        state, _ = load_training_state(
            checkpoint, modules={"network": network}, optimizers={"adamw": optimizer}, config=identity
        )
        done = int(state["step"])

    approach, delassus, phi, impulse = (torch.tensor(x, dtype=torch.float32) for x in pairs.arrays().values())
    a_nn = delassus[:, 0, 0]
    target = impulse * (a_nn / -approach[:, 0])[:, None]
    metric = delassus / a_nn[:, None, None]
    bar = tqdm(range(done, config.steps), initial=done, total=config.steps, desc="distill", disable=not progress)
    for step in bar:
        for group in optimizer.param_groups:
            group["lr"] = 0.5 * config.learning_rate * (1.0 + math.cos(math.pi * step / config.steps))
        draw = np.random.default_rng([seed, step]).integers(len(pairs), size=config.batch)
        rows = torch.as_tensor(draw)
        error = network(approach[rows], delassus[rows], phi[rows]) - target[rows]
        energies = torch.einsum("bi,bij,bj->b", error, metric[rows], error)
        loss = (_KNEE * (torch.sqrt(1.0 + energies / _KNEE**2) - 1.0)).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            bar.set_postfix(median=f"{energies.detach().sqrt().median().item():.4f}")
        if checkpoint is not None and ((step + 1) % config.checkpoint_every == 0 or step + 1 == config.steps):
            save_training_state(
                checkpoint,
                modules={"network": network},
                optimizers={"adamw": optimizer},
                progress={"step": step + 1},
                config=identity,
            )
        if on_step is not None:
            on_step(step + 1)
    with torch.no_grad():
        scatter = (network(approach, delassus, phi) - target).square().mean(dim=0).sqrt()
    return Surrogate.from_network(network, seen_range(pairs), scatter.numpy().astype(np.float64))
