"""Distil the simulator into the surrogate, identify phi through it, and fine-tune it on a few real impacts.

After CLASH ("Collision Learning via Augmented Sim-to-real Hybridization", section III): a base model learns
the simulator's physics from many simulated impacts; then, on about ten real ones, first the contact
parameters are found by gradient through the frozen network, and then the network itself is moved by a few
small steps.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from dexprior.artifacts import load_training_state, save_training_state
from dexprior.collision.generator import CollisionPairs, best_impulse
from dexprior.collision.surrogate import ImpulseNetwork, SurrogateConfig, contact_velocity
from dexprior.config import Ge, Gt, Le, config
from dexprior.data.impacts import PlanarImpacts
from dexprior.errors import BadInput

__all__ = [
    "DistillConfig",
    "FinetuneConfig",
    "Finetuned",
    "IdentifyConfig",
    "distill",
    "finetune",
    "identify",
]

_MIN_REAL = 3  # three contact parameters cannot be found from fewer impacts
_SMOOTH = 1e-6  # keeps the gradient of a norm finite at zero


@config
class DistillConfig:
    """Training of the base model on simulated impacts."""

    steps: Annotated[int, Ge(1)] = 2000
    """AdamW steps."""
    batch: Annotated[int, Ge(1)] = 512
    """Impacts per step."""
    learning_rate: Annotated[float, Gt(0)] = 6e-3
    """At the start; falls to zero along a cosine."""
    weight_decay: Annotated[float, Ge(0)] = 1e-4
    """AdamW's."""
    sigma_weight: Annotated[float, Ge(0)] = 0.02
    """Weight of the likelihood that trains the sigma heads; it does not move the mean's target."""
    checkpoint_every: Annotated[int, Ge(1)] = 250
    """Steps between two checkpoints."""


@config
class IdentifyConfig:
    """Contact parameters by gradient through the frozen network."""

    starts: Annotated[int, Ge(1), Le(10)] = 4
    """Starting points per parameter; all combinations run side by side."""
    steps: Annotated[int, Ge(1)] = 200
    """Adam steps."""
    learning_rate: Annotated[float, Gt(0)] = 0.05
    """On the unit scale of the parameters."""


@config
class FinetuneConfig:
    """A few small steps on real impacts, as many as leave-one-out says."""

    max_steps: Annotated[int, Ge(0)] = 30
    """Most steps that leave-one-out may choose; it may choose none."""
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    """AdamW's."""
    weight_decay: Annotated[float, Ge(0)] = 0.01
    """AdamW's."""


@dataclass(frozen=True, kw_only=True)
class Finetuned:
    """A fine-tuned network and how its number of steps was chosen."""

    network: ImpulseNetwork
    steps: int
    held_out: Float[np.ndarray, " step"]
    """Mean relative error of the left-out impact after 0, 1, ... steps."""
    sigma_scale: float
    """By how much the simulator's sigma had to grow to cover the left-out errors."""


def distill(
    pairs: CollisionPairs,
    config: DistillConfig,
    surrogate: SurrogateConfig,
    *,
    seed: int,
    checkpoint: Path | None = None,
    progress: bool = True,
    on_step: Callable[[int], None] | None = None,
) -> ImpulseNetwork:
    """Train the base model on simulated impacts.

    The loss is the kinetic energy of the velocity error over that of the approach, dp^T A dp A_nn / u_n^2;
    the sigma heads are fitted by likelihood to the residuals. Batches are drawn from (seed, step), so that a
    run that was killed and resumes from `checkpoint` equals an uninterrupted one bit for bit on one machine.

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
        mean, log_sigma = network(approach[rows], delassus[rows], phi[rows])
        error = mean - target[rows]
        energy = torch.einsum("bi,bij,bj->b", error, metric[rows], error).mean()
        loss = energy + config.sigma_weight * _negative_log_likelihood(error.detach(), log_sigma)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            bar.set_postfix(rms=f"{math.sqrt(energy.item()):.4f}")
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
    return network


def identify(
    network: ImpulseNetwork, impacts: PlanarImpacts, config: IdentifyConfig
) -> Float[np.ndarray, " parameter"]:
    """Contact parameters that explain a few measured impacts best, by gradient through the frozen network.

    Minimizes the mean relative error from a grid of starting points, and keeps the best. Parameters stay in
    the network's training range.

    Raises:
        BadInput: fewer than three impacts.
    """
    _require_enough(impacts, "identify")
    ranges = network.config.ranges
    count, axes = len(impacts), len(ranges.bounds)
    ticks = np.linspace(-1.0, 1.0, config.starts + 2)[1:-1]
    grid = np.stack(np.meshgrid(*[ticks] * axes, indexing="ij"), -1).reshape(-1, axes)
    free = torch.as_tensor(np.arctanh(grid), dtype=torch.float32).requires_grad_()
    real = _Measured.of(impacts, repeat=len(grid))
    optimizer = torch.optim.Adam([free], lr=config.learning_rate)
    best, best_error = grid[0], math.inf
    for _ in range(config.steps):
        unit = torch.tanh(free)
        phi = ranges.from_unit(torch, unit)
        errors = _relative_error(network, real, phi.repeat_interleave(count, dim=0))
        mean = errors.reshape(len(grid), count).mean(dim=1)
        k = int(mean.argmin())
        if mean[k].item() < best_error:
            best, best_error = unit[k].detach().numpy().astype(np.float64), mean[k].item()
        (free.grad,) = torch.autograd.grad(mean.sum(), [free])
        optimizer.step()
    return ranges.from_unit(np, best)


def finetune(
    network: ImpulseNetwork,
    impacts: PlanarImpacts,
    phi: Float[np.ndarray, " parameter"],
    config: FinetuneConfig,
) -> Finetuned:
    """Move a copy of the network by a few steps on a few measured impacts, with phi fixed.

    The number of steps is the one at which an impact that was left out is predicted best, on average. The
    errors of the left-out impacts also rescale sigma, which until then knows the simulator's scatter only.
    phi has seen the left-out impacts, so that the curve is a choice of steps, not an estimate of accuracy.

    Raises:
        BadInput: fewer than three impacts.
    """
    _require_enough(impacts, "finetune")
    everything = np.arange(len(impacts))
    curves = np.zeros((len(impacts), config.max_steps + 1))
    surprise = np.zeros((len(impacts), config.max_steps + 1))
    for left_out in everything:
        fold, test = impacts.take(np.delete(everything, left_out)), impacts.take(everything[[left_out]])
        _, curves[left_out], surprise[left_out] = _descend(network, fold, phi, config, config.max_steps, test)
    held_out = curves.mean(axis=0)
    steps = int(held_out.argmin())
    tuned, _, _ = _descend(network, impacts, phi, config, steps, None)
    scale = float(np.sqrt(surprise[:, steps].mean()))
    with torch.no_grad():
        bias = tuned.layers[-1].bias
        bias[2:] += math.log(max(scale, 1e-3))  # type: ignore[operator,index]
    return Finetuned(network=tuned, steps=steps, held_out=held_out, sigma_scale=scale)


def _descend(
    network: ImpulseNetwork,
    impacts: PlanarImpacts,
    phi: Float[np.ndarray, " parameter"],
    config: FinetuneConfig,
    steps: int,
    test: PlanarImpacts | None,
) -> tuple[ImpulseNetwork, np.ndarray, np.ndarray]:
    """A copy after `steps` steps; and on the way the error and the squared standardized error of `test`."""
    tuned = copy.deepcopy(network)
    optimizer = torch.optim.AdamW(tuned.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    real = _Measured.of(impacts)
    rows = torch.as_tensor(phi, dtype=torch.float32).expand(len(impacts), -1)
    held = None if test is None else _Measured.of(test)
    errors, surprises = np.zeros(steps + 1), np.zeros(steps + 1)
    for step in range(steps + 1):
        if held is not None:
            with torch.no_grad():
                errors[step] = _relative_error(tuned, held, rows[:1]).item()
                surprises[step] = _standardized(tuned, held, rows[:1]).item()
        if step < steps:
            loss = _relative_error(tuned, real, rows).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    return tuned, errors, surprises


class _Measured(NamedTuple):
    """Measured impacts as tensors. Velocities are (vx, vy, k omega), normed by kinetic energy."""

    approach: Float[Tensor, "impact 2"]
    delassus: Float[Tensor, "impact 2 2"]
    response: Float[Tensor, "impact 3 2"]
    """Change of velocity per contact impulse."""
    change: Float[Tensor, "impact 3"]
    size: Float[Tensor, " impact"]
    """Norm of the velocity after the impact."""
    impulse: Float[Tensor, "impact 2"]
    """Best contact impulse, in units of |u_n|/A_nn."""

    @classmethod
    def of(cls, impacts: PlanarImpacts, repeat: int = 1) -> _Measured:
        """All impacts, `repeat` times over."""
        geometry = impacts.geometry
        scale = np.array([1.0, 1.0, impacts.gyration])
        approach = contact_velocity(impacts.pre, geometry)
        unit = -approach[:, :1] / geometry.delassus[:, 0, :1]
        response = np.einsum("bde,bce->bdc", geometry.inverse_inertia, geometry.jacobian)
        arrays = (
            approach,
            geometry.delassus,
            response * scale[:, None],
            (impacts.post - impacts.pre) * scale,
            np.linalg.norm(impacts.post * scale, axis=1),
            best_impulse(impacts.post - impacts.pre, geometry) / unit,
        )
        tensors = (torch.tensor(x, dtype=torch.float32) for x in arrays)
        return cls(*(x.repeat(repeat, *[1] * (x.ndim - 1)) for x in tensors))


def _relative_error(
    network: ImpulseNetwork, real: _Measured, phi: Float[Tensor, "impact parameter"]
) -> Float[Tensor, " impact"]:
    mean, _ = network(real.approach, real.delassus, phi)
    impulse = mean * (-real.approach[:, :1] / real.delassus[:, 0, :1])
    error = torch.einsum("bdc,bc->bd", real.response, impulse) - real.change
    return torch.sqrt((error**2).sum(dim=1) + _SMOOTH) / real.size


def _standardized(
    network: ImpulseNetwork, real: _Measured, phi: Float[Tensor, "impact parameter"]
) -> Float[Tensor, " impact"]:
    """Mean square of the contact-impulse error over its predicted sigma."""
    mean, log_sigma = network(real.approach, real.delassus, phi)
    return (((real.impulse - mean) / log_sigma.exp()) ** 2).mean(dim=1)


def _negative_log_likelihood(error: Tensor, log_sigma: Tensor) -> Tensor:
    return (log_sigma + 0.5 * (error / log_sigma.exp()) ** 2).mean()


def _require_enough(impacts: PlanarImpacts, what: str) -> None:
    if len(impacts) < _MIN_REAL:
        raise BadInput(
            f"{what}: {len(impacts)} measured impact(s), but at least {_MIN_REAL} are needed to find "
            "three contact parameters; ten are usual"
        )
