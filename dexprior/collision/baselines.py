"""The opponents: MuJoCo tuned on the same measured impacts, the closed form, and a network that starts from nothing."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from jaxtyping import Float
from scipy.special import expit, logit

from dexprior.collision.closed_form import RestitutionFriction
from dexprior.collision.evaluation import relative_error
from dexprior.collision.parameters import ContactRanges
from dexprior.config import Ge, Gt, config
from dexprior.data.impacts import PlanarImpacts
from dexprior.data.simulated_impacts import CONTACT_PARAMETERS, simulate_impacts
from dexprior.errors import ConfigError
from dexprior.stats.minimize import minimize_cma

__all__ = [
    "MUJOCO_PARAMETERS",
    "CmaConfig",
    "GridConfig",
    "fit_closed_form",
    "mujoco_from_unit",
    "simulate_with",
    "tune_mujoco_cma",
    "tune_mujoco_grid",
]

MUJOCO_PARAMETERS = (*CONTACT_PARAMETERS, "impedance")
"""What is tuned: all that the network's simulator is given, and how much of the contact MuJoCo leaves to its solver."""

_SIMULATED = len(CONTACT_PARAMETERS)
_WORST = 2.0  # errors are cut off there, so that one diverging simulation does not decide a search


@config
class GridConfig:
    """The grid that MuJoCo's contact parameters are tuned on, log-spaced, at the network's impedance."""

    friction: Annotated[int, Ge(1)] = 10
    """Values of the Coulomb coefficient."""
    damping_ratio: Annotated[int, Ge(1)] = 9
    """Values of the damping ratio."""
    time_constant: Annotated[int, Ge(1)] = 2
    """Values of the time constant."""
    impratio: Annotated[int, Ge(1)] = 5
    """Values of the ratio of tangential to normal damping."""
    closed_form: Annotated[int, Ge(1)] = 101
    """Values of restitution and of friction in [0, 1] for the closed form."""


@config
class CmaConfig:
    """CMA-ES on all of MuJoCo's contact parameters, its impedance included, with an elliptic cone."""

    evaluations: Annotated[int, Ge(8)] = 400
    """Simulations of the whole set of measured impacts."""
    population: Annotated[int, Ge(4)] = 10
    """Simulated side by side."""
    spread: Annotated[float, Gt(0)] = 0.4
    """Initial standard deviation on the unit scale of the ranges."""
    impedance: tuple[float, float] = (0.005, 0.95)
    """Where the impedance, constant in depth, is searched on a logit scale: from the network's to the end of MuJoCo's
    default. (0.9, 0.95) holds it at that default."""

    def __post_init__(self) -> None:
        low, high = self.impedance
        if not 0 < low < high < 1:
            raise ConfigError(f"cma.impedance = {self.impedance}: needs 0 < low < high < 1")


def mujoco_from_unit(
    ranges: ContactRanges, impedance: tuple[float, float], unit: Float[np.ndarray, "candidate tuned"]
) -> Float[np.ndarray, "candidate tuned"]:
    """`MUJOCO_PARAMETERS` from the scale on which each range is [-1, 1]: logarithmic, logit for the impedance."""
    whole = np.concatenate([unit[:, :_SIMULATED], np.zeros((len(unit), 1))], axis=1)
    low, high = logit(impedance)
    last = expit((low + high) / 2 + (high - low) / 2 * unit[:, _SIMULATED:])
    return np.concatenate([ranges.from_unit(np, whole)[:, :_SIMULATED], last], axis=1)


def simulate_with(
    impacts: PlanarImpacts, phi: Float[np.ndarray, "*impact tuned"], *, threads: int = 1
) -> Float[np.ndarray, "impact 3"]:
    """MuJoCo's velocity after each measured impact, from the measured state before.

    Args:
        impacts: the states before.
        phi: `MUJOCO_PARAMETERS`, one set for all or one each.
        threads: of MuJoCo's pool.
    """
    phi = np.broadcast_to(phi, (len(impacts), len(MUJOCO_PARAMETERS)))
    post, _ = simulate_impacts(
        impacts.pre,
        impacts.angle,
        phi[:, :_SIMULATED],
        semi_axes=impacts.ellipse,
        mass=impacts.mass,
        inertia=impacts.inertia,
        impedance=phi[:, _SIMULATED],
        threads=threads,
    )
    return post


def tune_mujoco_grid(
    impacts: PlanarImpacts, ranges: ContactRanges, grid: GridConfig, *, impedance: float, threads: int = 1
) -> Float[np.ndarray, " tuned"]:
    """`MUJOCO_PARAMETERS` by grid search on a few measured impacts: smallest mean relative error.

    Args:
        impacts: to fit.
        ranges: where the parameters may lie.
        grid: values of each; a single one is the geometric middle of its range.
        impedance: of all candidates.
        threads: of MuJoCo's pool.
    """
    ticks = [
        np.geomspace(low, high, size) if size > 1 else [np.sqrt(low * high)]
        for (low, high), size in zip(ranges.bounds, (getattr(grid, name) for name in CONTACT_PARAMETERS))
    ]
    candidates = np.stack(np.meshgrid(*ticks, [impedance], indexing="ij"), -1).reshape(-1, len(MUJOCO_PARAMETERS))
    return candidates[int(_mean_error(impacts, candidates, threads).argmin())]


def tune_mujoco_cma(
    impacts: PlanarImpacts, ranges: ContactRanges, config: CmaConfig, *, seed: int, threads: int = 1
) -> Float[np.ndarray, " tuned"]:
    """`MUJOCO_PARAMETERS` by CMA-ES: smallest mean relative error."""
    best, _ = minimize_cma(
        lambda units: _mean_error(impacts, mujoco_from_unit(ranges, config.impedance, units), threads),
        np.zeros(len(MUJOCO_PARAMETERS)),
        spread=config.spread,
        bounds=(-1.0, 1.0),
        population=config.population,
        evaluations=config.evaluations + 1,  # as the package counts: the generation that reaches it is not the last
        seed=seed,
    )
    return mujoco_from_unit(ranges, config.impedance, best[None])[0]


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


def _mean_error(impacts: PlanarImpacts, candidates: np.ndarray, threads: int) -> Float[np.ndarray, " candidate"]:
    chunks = max(1, len(candidates) * len(impacts) // 50_000)  # bounds the memory of the simulated worlds
    errors = []
    for part in np.array_split(candidates, chunks):
        tiled = impacts.take(np.tile(np.arange(len(impacts)), len(part)))
        post = simulate_with(tiled, part.repeat(len(impacts), axis=0), threads=threads)
        found = np.minimum(relative_error(np.nan_to_num(post, nan=1e6), tiled), _WORST)
        errors.append(found.reshape(len(part), -1).mean(axis=1))
    return np.concatenate(errors)
