"""A posterior learned by a network from simulations: neural posterior estimation by the `sbi` package.

Needs `dexprior[sbi]`, and with it torch, which nothing else of the transfer layer loads.
"""

from __future__ import annotations

import tempfile
from typing import Annotated

import numpy as np

from dexprior.config import Ge, config
from dexprior.errors import BadInput
from dexprior.extras import require
from dexprior.families import ParameterFamily
from dexprior.transfer.conditioning.observations import Observations
from dexprior.transfer.conditioning.simulator import CheckedSimulator, Simulator
from dexprior.transfer.conditioning.verdicts import Conditioned, VerdictConfig, conclude

__all__ = ["NeuralConfig", "neural"]


@config
class NeuralConfig:
    """Size of the training set."""

    simulations: Annotated[int, Ge(100)] = 5000
    """Draws of the family that are simulated."""
    draws: Annotated[int, Ge(64)] = 1024
    """Draws of the posterior."""
    verdict: VerdictConfig = VerdictConfig()
    """Verdict on flags and coverage."""


def neural(
    family: ParameterFamily,
    observations: Observations,
    *,
    simulate: Simulator,
    settings: NeuralConfig | None = None,
    seed: int,
) -> Conditioned:
    """Condition a family by a network; see `condition`.

    It learns the parameters' line coordinates from the mean of noisy repeats (Greenberg et al. 2019, "Automatic
    Posterior Transformation for Likelihood-Free Inference", one round). Noise that is not declared is taken as known,
    at its estimate.

    Raises:
        MissingExtra: `sbi` is absent.
        BadInput: as `condition`, and a single repeat without declared noise: there is none to train with.
    """
    require("sbi")
    import torch
    from sbi.inference import NPE
    from torch.utils.tensorboard import SummaryWriter

    settings = settings or NeuralConfig()
    if observations.std is None:
        raise BadInput("neural: one repeat has no noise to train with; declare it with noise=")
    checked = CheckedSimulator(simulate, observations)
    rng = np.random.default_rng([seed, 34])
    free = [k for k, p in enumerate(family.parameters) if not p.fixed]
    parameters = [family.parameters[k] for k in free]
    values = family.sample(rng, settings.simulations)
    predicted = checked(values)
    finite = np.isfinite(predicted).all(axis=1)
    scale = observations.std / np.sqrt(observations.repeats)
    seen = (predicted + scale * rng.standard_normal(predicted.shape) - observations.mean) / scale
    line = np.stack([p.to_line(values[:, k]) for k, p in zip(free, parameters)], axis=1)
    mean, root = line.mean(axis=0), np.linalg.cholesky(np.atleast_2d(np.cov(line.T)))
    white = np.linalg.solve(root, (line - mean).T).T
    # training writes logs, to the working folder unless it is told otherwise, and draws from torch's own generator
    with tempfile.TemporaryDirectory() as logs, torch.random.fork_rng(devices=[]), SummaryWriter(logs) as writer:
        torch.manual_seed(int(rng.integers(2**31)))
        prior = torch.distributions.MultivariateNormal(torch.zeros(len(free)), torch.eye(len(free)))
        estimator = NPE(prior=prior, summary_writer=writer, show_progress_bars=False)
        estimator.append_simulations(
            torch.as_tensor(white[finite], dtype=torch.float32), torch.as_tensor(seen[finite], dtype=torch.float32)
        )
        estimator.train()
        posterior = estimator.build_posterior()
        drawn = posterior.sample((settings.draws,), x=torch.zeros(1, observations.size), show_progress_bars=False)
    z = mean + drawn.numpy().astype(np.float64).reshape(settings.draws, len(free)) @ root.T
    found = np.tile([p.low for p in family.parameters], (len(z), 1))
    found[:, free] = np.stack([p.from_line(z[:, k]) for k, p in enumerate(parameters)], axis=1)
    at = checked(found)
    top = int(np.argmax(observations.log_likelihood(at)))
    return conclude(
        family, observations, found, found[top], at[top], settings.verdict, simulations=checked.asked,
        notes=("a network's posterior, with the noise taken as known",),
    )  # fmt: skip
