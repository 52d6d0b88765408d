"""Stable-Baselines3's SAC in chunks, so that a run that is killed goes on as it would have.

At the start of each chunk random numbers are seeded by (seed, steps done) and all episodes restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.utils import set_random_seed

from dexprior.artifacts import load_training_state, save_training_state, write_json
from dexprior.progress import TrainingLog

__all__ = ["learn_in_chunks"]


def learn_in_chunks(
    model: SAC,
    folder: Path,
    *,
    steps: int,
    every: int,
    identity: Mapping[str, Any],
    seed: int,
    seed_worlds: Callable[[int], None],
    row: Callable[[], dict[str, float]],
    name: str,
    show: tuple[str, ...],
    quiet: bool = False,
    callback: BaseCallback | None = None,
) -> list[dict[str, float]]:
    """Train a model in place, or go on where an interrupted run stopped; returns the learning curve.

    Writes `checkpoint.safetensors` and `curve.json` (a row a chunk) into the folder. Seeds torch, NumPy and `random`
    globally, as SB3 does.

    Args:
        model: as it starts; its buffer holds all steps.
        folder: exists.
        steps: in all, over all worlds.
        every: steps in a chunk.
        identity: what a checkpoint must have been made with.
        seed: of everything that is drawn.
        seed_worlds: seeds the starts of episodes.
        row: what the curve says after a chunk.
        name: what the progress bar says.
        show: which numbers of the row it carries.
        quiet: neither progress bar nor TensorBoard.
        callback: of SB3, called at every step.

    Raises:
        ArtifactError: the folder holds a checkpoint of another configuration or seed.
    """
    model.set_logger(Logger(folder=None, output_formats=[]))
    checkpoint = folder / "checkpoint.safetensors"
    curve: list[dict[str, float]] = _restore(model, checkpoint, identity) if checkpoint.exists() else []
    with TrainingLog(folder, name, steps, curve, quiet=quiet) as log:
        while model.num_timesteps < steps:
            words = np.random.SeedSequence([seed, model.num_timesteps]).generate_state(3)
            set_random_seed(int(words[0]))
            model.action_space.seed(int(words[1]))
            seed_worlds(int(words[2]))
            model._last_obs = None  # learn() then resets the worlds
            chunk = min(every, steps - model.num_timesteps)
            model.learn(chunk, reset_num_timesteps=False, callback=callback)
            log.add(model.num_timesteps, row(), show=show)
            _store(model, checkpoint, identity, curve)
            write_json(folder / "curve.json", curve)
    return curve


_BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def _parts(model: SAC) -> tuple[dict[str, torch.nn.Module], dict[str, torch.optim.Optimizer]]:
    assert model.ent_coef_optimizer is not None  # the temperature is learned
    optimizers = {
        "actor": model.actor.optimizer,
        "critic": model.critic.optimizer,
        "temperature": model.ent_coef_optimizer,
    }
    return {"policy": model.policy}, optimizers


def _store(model: SAC, path: Path, identity: Mapping[str, Any], curve: list[dict[str, float]]) -> None:
    modules, optimizers = _parts(model)
    buffer: Any = model.replay_buffer
    arrays = {name: getattr(buffer, name)[: buffer.pos] for name in _BUFFER}
    arrays["log_temperature"] = model.log_ent_coef.detach().numpy()  # type: ignore[union-attr]
    progress = {"step": model.num_timesteps, "updates": model._n_updates, "curve": curve}
    save_training_state(
        path, modules=modules, optimizers=optimizers, progress=progress, config=dict(identity), arrays=arrays
    )


def _restore(model: SAC, path: Path, identity: Mapping[str, Any]) -> list[dict[str, float]]:
    modules, optimizers = _parts(model)
    progress, arrays = load_training_state(path, modules=modules, optimizers=optimizers, config=dict(identity))
    buffer: Any = model.replay_buffer
    for name in _BUFFER:
        getattr(buffer, name)[: len(arrays[name])] = arrays[name]
    buffer.pos = len(arrays["actions"])
    model.log_ent_coef.data[:] = torch.from_numpy(arrays["log_temperature"])  # type: ignore[union-attr]
    model.num_timesteps, model._n_updates = int(progress["step"]), int(progress["updates"])
    return progress["curve"]
