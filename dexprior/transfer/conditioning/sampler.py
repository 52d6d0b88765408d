"""Tempered sequential Monte Carlo: from a family to its posterior, a population of simulations at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from dexprior.config import Ge, Gt, Lt, config
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily

__all__ = ["SamplerConfig", "Samples", "sample_posterior"]

_STAGES = 200  # more powers than any likelihood needs that a population can follow
_ACCEPTED = 0.25  # share of proposals that the step of the walk is steered to
_LEAST_MOVES = 8
_FINEST = 0.05  # smallest step over the largest
_RISES = 64  # between none and the rest, at which the effective share is looked at


@config
class SamplerConfig:
    """Size of the population, and how often it moves."""

    particles: Annotated[int, Ge(32)] = 512
    """Parameter sets that are simulated at once."""
    kept: Annotated[float, Gt(0), Lt(1)] = 0.5
    """Effective share of them that a rise of the power leaves."""
    unmoved: Annotated[float, Gt(0), Lt(1)] = 0.02
    """Moves end once this share at most stands where it was copied to."""
    moves: Annotated[int, Ge(8)] = 40
    """Moves after each rise, at most."""


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Draws of a posterior."""

    values: Float[np.ndarray, "particle parameter"]
    log_likelihood: Float[np.ndarray, " particle"]
    powers: tuple[float, ...]
    """Powers of the likelihood, one a stage; the last is 1."""
    moves: int
    """Moves in all stages."""
    accepted: float
    """Share of the last stage's proposals."""


def sample_posterior(
    family: ParameterFamily,
    log_likelihood: Callable[[Float[np.ndarray, "n parameter"]], Float[np.ndarray, " n"]],
    settings: SamplerConfig,
    *,
    seed: int,
) -> Samples:
    """Draws from p(phi) L(phi), by powers of the likelihood that rise from 0 to 1.

    Each power is the largest that leaves an effective share of the particles; they are then resampled systematically
    and moved by random walks on the line of each parameter, with the population's covariance (Del Moral, Doucet and
    Jasra 2006, "Sequential Monte Carlo samplers"; adaptive powers as in Jasra et al. 2011, "Inference for Levy-driven
    stochastic volatility models via adaptive sequential Monte Carlo").

    Args:
        family: the prior, with whatever joint density it has.
        log_likelihood: of parameter sets, a population at once; -inf is allowed.
        settings: of the population.
        seed: of everything that is drawn.

    Raises:
        BadInput: no draw of the family has a likelihood, or a family without a free parameter.
    """
    rng = np.random.default_rng([seed, 31])
    free = [k for k, p in enumerate(family.parameters) if not p.fixed]
    if not free:
        raise BadInput(f"family {family.name!r} has no parameter that is not fixed")
    parameters = [family.parameters[k] for k in free]

    def values_at(z: np.ndarray) -> np.ndarray:
        values = np.tile([p.low for p in family.parameters], (len(z), 1))
        values[:, free] = np.stack([p.from_line(z[:, k]) for k, p in enumerate(parameters)], axis=1)
        return values

    def prior(values: np.ndarray) -> np.ndarray:
        """Log density on the line."""
        return family.log_prob(values) - np.sum([p.log_slope(values[:, k]) for k, p in zip(free, parameters)], axis=0)

    n, d = settings.particles, len(free)
    values = family.sample(rng, n)
    z = np.stack([p.to_line(values[:, k]) for k, p in zip(free, parameters)], axis=1)
    believed, likely = prior(values), log_likelihood(values)
    if not np.isfinite(likely).any():
        raise BadInput(f"family {family.name!r}: none of {n} draws can be simulated, or explains the traces at all")
    power, total, accepted, step = 0.0, 0, 0.0, 2.38 / np.sqrt(d)
    powers: list[float] = []
    while power < 1.0 and len(powers) < _STAGES:
        before, power = power, _next_power(likely, power, settings.kept * np.isfinite(likely).sum())
        powers.append(power)
        chosen = _systematic(rng, _weights(likely, power - before))
        z, believed, likely = z[chosen], believed[chosen], likely[chosen]
        root = np.linalg.cholesky(np.atleast_2d(np.cov(z.T)) + 1e-12 * np.eye(d))
        still, moves = np.ones(n, dtype=bool), 0
        while moves < settings.moves and (moves < _LEAST_MOVES or still.mean() > settings.unmoved):
            # every other step is full; a copy that sits on a sharp peak leaves by small ones alone
            reach = step * np.where(rng.random((n, 1)) < 0.5, 1.0, _FINEST ** rng.random((n, 1)))
            proposed = z + reach * rng.standard_normal((n, d)) @ root.T
            there = values_at(proposed)
            hoped, fits = prior(there), log_likelihood(there)
            with np.errstate(invalid="ignore"):
                gain = hoped - believed + power * (fits - likely)
            taken = np.log(rng.random(n)) < np.where(np.isfinite(hoped) & np.isfinite(fits), gain, -np.inf)
            z[taken], believed[taken], likely[taken] = proposed[taken], hoped[taken], fits[taken]
            accepted = float(taken.mean())
            step = float(np.clip(step * np.exp(accepted - _ACCEPTED), 1e-3, 2.38))
            still &= ~taken
            moves += 1
        total += moves
    if power < 1.0:
        raise BadInput(f"family {family.name!r}: the likelihood is still raised to {power:.3g} after {_STAGES} stages")
    return Samples(values=values_at(z), log_likelihood=likely, powers=tuple(powers), moves=total, accepted=accepted)


def _weights(likely: Float[np.ndarray, " n"], rise: float) -> Float[np.ndarray, " n"]:
    weights = np.exp(rise * (likely - likely.max()))
    return weights / weights.sum()


def _next_power(likely: Float[np.ndarray, " n"], power: float, wanted: float) -> float:
    """The least power at which `wanted` particles of equal weight would say as much, by bisection; 1 if there is none.

    What is left does not fall all the way: where copies of one particle lead, they share the weight at last.
    """

    def left(rise: float) -> float:
        return float(1.0 / (_weights(likely, rise) ** 2).sum())

    rises = (1.0 - power) * np.logspace(-12.0, 0.0, _RISES)
    short = [k for k, rise in enumerate(rises) if left(rise) < wanted]
    if not short:
        return 1.0
    low, high = np.log(rises[short[0] - 1] if short[0] else 1e-300), np.log(rises[short[0]])
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if left(np.exp(middle)) >= wanted else (low, middle)
    return float(min(max(power + np.exp(low), np.nextafter(power, 2.0)), 1.0))


def _systematic(rng: np.random.Generator, weights: Float[np.ndarray, " n"]) -> np.ndarray:
    """Indices, each as often as it weighs up to one (Kitagawa 1996)."""
    n = len(weights)
    at = (rng.random() + np.arange(n)) / n
    return np.minimum(np.searchsorted(np.cumsum(weights), at), n - 1)
