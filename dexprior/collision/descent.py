"""AdamW on freshly drawn batches, with checkpoints: how the networks of this package are trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
from tqdm import tqdm

from dexprior.artifacts import load_training_state, save_training_state

__all__ = ["DescentConfig", "descend"]


class DescentConfig(Protocol):
    """What a training's configuration must say."""

    @property
    def steps(self) -> int:
        """AdamW steps."""
        ...

    @property
    def learning_rate(self) -> float:
        """The rate at the start; falls to zero along a cosine."""
        ...

    @property
    def weight_decay(self) -> float:
        """AdamW's."""
        ...

    @property
    def checkpoint_every(self) -> int:
        """Steps between two checkpoints."""
        ...


def descend(
    network: torch.nn.Module,
    loss: Callable[[int], tuple[torch.Tensor, Callable[[], dict[str, str]]]],
    config: DescentConfig,
    *,
    label: str,
    identity: dict[str, Any],
    checkpoint: Path | None,
    progress: bool,
    on_step: Callable[[int], None] | None,
) -> None:
    """Train a network in place.

    Args:
        network: to be trained.
        loss: of the batch of a step, which it draws as a function of the step alone, and what to show of it; a run that
            was killed and resumes from `checkpoint` then equals an uninterrupted one bit for bit on one machine.
        config: of the training.
        label: of the progress bar.
        identity: what the run is a function of; a checkpoint of another is refused.
        checkpoint: file to resume from where it exists, and to write every `config.checkpoint_every` steps.
        progress: show a progress bar.
        on_step: called after each step with the number of steps done.

    Raises:
        ArtifactError: the checkpoint was written by a run of another identity.
    """
    optimizer = torch.optim.AdamW(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    modules, optimizers, done = {"network": network}, {"adamw": optimizer}, 0
    if checkpoint is not None and checkpoint.exists():
        state, _ = load_training_state(checkpoint, modules=modules, optimizers=optimizers, config=identity)
        done = int(state["step"])
    bar = tqdm(range(done, config.steps), initial=done, total=config.steps, desc=label, disable=not progress)
    for step in bar:
        for group in optimizer.param_groups:
            group["lr"] = 0.5 * config.learning_rate * (1.0 + math.cos(math.pi * step / config.steps))
        value, shown = loss(step)
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        optimizer.step()
        if step % 50 == 0:
            bar.set_postfix(shown())
        if checkpoint is not None and ((step + 1) % config.checkpoint_every == 0 or step + 1 == config.steps):
            save_training_state(
                checkpoint, modules=modules, optimizers=optimizers, progress={"step": step + 1}, config=identity
            )
        if on_step is not None:
            on_step(step + 1)
