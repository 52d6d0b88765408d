"""The opponents: MuJoCo tuned on the same measured impacts, the closed form, and a network that starts from nothing."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from jaxtyping import Float

from dexprior.collision.closed_form import RestitutionFriction
from dexprior.collision.evaluation import relative_error
from dexprior.collision.parameters import ContactRanges
from dexprior.config import Ge, Gt, config
from dexprior.data.impacts import PlanarImpacts
from dexprior.data.simulated_impacts import CONTACT_PARAMETERS, simulate_impacts
from dexprior.stats.minimize import minimize_cma

__all__ = ["CmaConfig", "GridConfig", "fit_closed_form", "simulate_with", "tune_mujoco_cma", "tune_mujoco_grid"]

_WORST = 2.0  # errors are cut off there, so that one diverging simulation does not decide a search


@config
class GridConfig:
    """The grid that MuJoCo's contact parameters are tuned on, log-spaced over the ranges; `impratio` stays 1."""

    friction: Annotated[int, Ge(1)] = 14
    """Values of the Coulomb coefficient."""
    damping_ratio: Annotated[int, Ge(1)] = 12
    """Values of the damping ratio."""
    time_constant: Annotated[int, Ge(1)] = 5
    """Values of the time constant."""
    closed_form: Annotated[int, Ge(1)] = 101
    """Values of restitution and of friction in [0, 1] for the closed form."""


@config
class CmaConfig:
    """CMA-ES on all of MuJoCo's contact parameters, with its default impedance and an elliptic cone."""

    evaluations: Annotated[int, Ge(8)] = 400
    """Simulations of the whole set of measured impacts."""
    population: Annotated[int, Ge(4)] = 10
    """Simulated side by side."""
    spread: Annotated[float, Gt(0)] = 0.4
    """Initial standard deviation on the unit scale of the ranges."""


def simulate_with(
    impacts: PlanarImpacts,
    phi: Float[np.ndarray, "*impact simulated"],
    *,
    impedance: float | None = None,
    threads: int = 1,
) -> Float[np.ndarray, "impact 3"]:
    """MuJoCo's velocity after each measured impact, from the measured state before; one phi for all, or one each."""
    post, _ = simulate_impacts(
        impacts.pre,
        impacts.angle,
        np.broadcast_to(phi, (len(impacts), len(CONTACT_PARAMETERS))),
        semi_axes=impacts.ellipse,
        mass=impacts.mass,
        inertia=impacts.inertia,
        impedance=impedance,
        threads=threads,
    )
    return post


def tune_mujoco_grid(
    impacts: PlanarImpacts, ranges: ContactRanges, grid: GridConfig, *, threads: int = 1
) -> Float[np.ndarray, " simulated"]:
    """MuJoCo's contact parameters by grid search on a few measured impacts: smallest mean relative error."""
    sizes = (grid.friction, grid.damping_ratio, grid.time_constant)
    ticks = [np.geomspace(low, high, size) for (low, high), size in zip(ranges.bounds, sizes)]
    candidates = np.stack(np.meshgrid(*ticks, [1.0], indexing="ij"), -1).reshape(-1, len(CONTACT_PARAMETERS))
    return candidates[int(_mean_error(impacts, candidates, threads).argmin())]


def tune_mujoco_cma(
    impacts: PlanarImpacts, ranges: ContactRanges, config: CmaConfig, *, seed: int, threads: int = 1
) -> Float[np.ndarray, " simulated"]:
    """MuJoCo's contact parameters, `impratio` included, by CMA-ES: smallest mean relative error."""
    best, _ = minimize_cma(
        lambda units: _mean_error(impacts, _simulated(ranges, units), threads),
        np.zeros(len(CONTACT_PARAMETERS)),
        spread=config.spread,
        bounds=(-1.0, 1.0),
        population=config.population,
        evaluations=config.evaluations + 1,  # as the package counts: the generation that reaches it is not the last
        seed=seed,
    )
    return _simulated(ranges, best[None])[0]


def fit_closed_form(impacts: PlanarImpacts, grid: GridConfig) -> Float[np.ndarray, " 2"]:
    """phi of `RestitutionFriction` by grid search on a few measured impacts: smallest mean relative error."""
    ticks = np.linspace(0.0, 1.0, grid.closed_form)
    candidates = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), -1).reshape(-1, 2)
    many, n = len(candidates), len(impacts)
    chunks = max(1, many * n // 200_000)  # bounds the memory for large sets
    errors = []
    for part in np.array_split(candidates, chunks):
        tiled = impacts.take(np.tile(np.arange(n), len(part)))
        post, _ = RestitutionFriction().predict(tiled.pre, tiled.geometry, np.repeat(part, n, axis=0))
        errors.append(relative_error(post, tiled).reshape(len(part), n).mean(axis=1))
    return candidates[int(np.concatenate(errors).argmin())]


def _simulated(ranges: ContactRanges, units: np.ndarray) -> np.ndarray:
    whole = np.concatenate([units, np.zeros((len(units), 1))], axis=1)
    return ranges.from_unit(np, whole)[:, : len(CONTACT_PARAMETERS)]


def _mean_error(impacts: PlanarImpacts, candidates: np.ndarray, threads: int) -> Float[np.ndarray, " candidate"]:
    chunks = max(1, len(candidates) * len(impacts) // 50_000)  # bounds the memory of the simulated worlds
    errors = []
    for part in np.array_split(candidates, chunks):
        tiled = impacts.take(np.tile(np.arange(len(impacts)), len(part)))
        post = simulate_with(tiled, part.repeat(len(impacts), axis=0), threads=threads)
        found = np.minimum(relative_error(np.nan_to_num(post, nan=1e6), tiled), _WORST)
        errors.append(found.reshape(len(part), -1).mean(axis=1))
    return np.concatenate(errors)
