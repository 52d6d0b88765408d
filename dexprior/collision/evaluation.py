"""How well collision models predict measured impacts: one metric, one split, and the baselines.

The error of an impact is ||pred - true|| / ||true|| in (vx, vy, k omega), with k the radius of gyration: the
kinetic-energy norm. acc_e is the share of impacts with an error below e (CLASH, its equation 4).
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from dexprior.collision.closed_form import RestitutionFriction
from dexprior.collision.generator import best_impulse
from dexprior.collision.parameters import ContactRanges
from dexprior.collision.surrogate import apply_impulse
from dexprior.config import Ge, config
from dexprior.data.impacts import PlanarImpacts, simulate_impacts
from dexprior.errors import BadInput
from dexprior.stats import clopper_pearson
from dexprior.types.collision import CollisionModel

__all__ = [
    "GridConfig",
    "accuracy_curve",
    "fit_closed_form",
    "point_impulse_bound",
    "predict_impacts",
    "relative_error",
    "simulate_with",
    "summarize",
    "tune_mujoco",
]

THRESHOLDS = (0.1, 0.2)


@config
class GridConfig:
    """The grid that MuJoCo's contact parameters are tuned on, log-spaced over the ranges."""

    friction: Annotated[int, Ge(1)] = 14
    """Values of the Coulomb coefficient."""
    damping_ratio: Annotated[int, Ge(1)] = 12
    """Values of the damping ratio."""
    time_constant: Annotated[int, Ge(1)] = 5
    """Values of the time constant."""
    closed_form: Annotated[int, Ge(1)] = 101
    """Values of restitution and of friction in [0, 1] for the closed form."""


def relative_error(predicted: Float[np.ndarray, "impact 3"], impacts: PlanarImpacts) -> Float[np.ndarray, " impact"]:
    """||predicted - measured|| / ||measured|| in (vx, vy, k omega)."""
    scale = np.array([1.0, 1.0, impacts.gyration])
    distance = np.linalg.norm((predicted - impacts.post) * scale, axis=1)
    return distance / np.linalg.norm(impacts.post * scale, axis=1)


def accuracy_curve(
    errors: Float[np.ndarray, " impact"], thresholds: Float[np.ndarray, " threshold"]
) -> Float[np.ndarray, " threshold"]:
    """Share of impacts whose error is below each threshold."""
    return np.searchsorted(np.sort(errors), thresholds, side="left") / max(len(errors), 1)


def summarize(errors: Float[np.ndarray, " impact"], *, level: float = 0.95) -> dict[str, Any]:
    """Shares below 0.1 and 0.2 with Clopper-Pearson intervals, the median, and n; plain data."""
    if not np.isfinite(errors).all():
        raise BadInput(f"summarize: {int((~np.isfinite(errors)).sum())} of {len(errors)} errors are not finite")
    n = len(errors)
    below = {f"acc_{e:g}": int((errors < e).sum()) for e in THRESHOLDS}
    return {
        **{name: k / n for name, k in below.items()},
        "median": float(np.median(errors)),
        "n": n,
        "intervals": {name: list(clopper_pearson(k, n, level)) for name, k in below.items()},
    }


def predict_impacts(
    model: CollisionModel, impacts: PlanarImpacts, phi: Float[np.ndarray, " parameter"]
) -> tuple[Float[np.ndarray, "impact 3"], Float[np.ndarray, "impact 3"]]:
    """A model's velocity after each impact, and its standard deviation, with one phi for all."""
    return model.predict(impacts.pre, impacts.geometry, np.tile(phi, (len(impacts), 1)))


def simulate_with(
    impacts: PlanarImpacts, phi: Float[np.ndarray, " parameter"], *, threads: int = 1
) -> Float[np.ndarray, "impact 3"]:
    """MuJoCo's velocity after each measured impact: from the measured state before, with one phi for all."""
    post, _ = simulate_impacts(
        impacts.pre,
        impacts.angle,
        np.tile(phi, (len(impacts), 1)),
        semi_axes=impacts.semi_axes,
        mass=impacts.mass,
        inertia=impacts.inertia,
        threads=threads,
    )
    return post


def tune_mujoco(
    impacts: PlanarImpacts, ranges: ContactRanges, grid: GridConfig, *, threads: int = 1
) -> Float[np.ndarray, " parameter"]:
    """MuJoCo's contact parameters by grid search on a few measured impacts: smallest mean relative error."""
    sizes = (grid.friction, grid.damping_ratio, grid.time_constant)
    ticks = [np.geomspace(low, high, size) for (low, high), size in zip(ranges.bounds, sizes)]
    candidates = np.stack(np.meshgrid(*ticks, indexing="ij"), -1).reshape(-1, len(sizes))
    many, n = len(candidates), len(impacts)
    post, _ = simulate_impacts(
        np.tile(impacts.pre, (many, 1)),
        np.tile(impacts.angle, many),
        np.repeat(candidates, n, axis=0),
        semi_axes=impacts.semi_axes,
        mass=impacts.mass,
        inertia=impacts.inertia,
        threads=threads,
    )
    errors = relative_error(post, impacts.take(np.tile(np.arange(n), many))).reshape(many, n)
    return candidates[int(errors.mean(axis=1).argmin())]


def fit_closed_form(impacts: PlanarImpacts, grid: GridConfig) -> Float[np.ndarray, " 2"]:
    """phi of `RestitutionFriction` by grid search on a few measured impacts: smallest mean relative error."""
    ticks = np.linspace(0.0, 1.0, grid.closed_form)
    candidates = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), -1).reshape(-1, 2)
    many, n = len(candidates), len(impacts)
    tiled = impacts.take(np.tile(np.arange(n), many))
    post, _ = RestitutionFriction().predict(tiled.pre, tiled.geometry, np.repeat(candidates, n, axis=0))
    return candidates[int(relative_error(post, tiled).reshape(many, n).mean(axis=1).argmin())]


def point_impulse_bound(impacts: PlanarImpacts) -> Float[np.ndarray, "impact 3"]:
    """The best that one impulse at the contact point can do: a bound, not a model, as it sees the outcome."""
    impulse = best_impulse(impacts.post - impacts.pre, impacts.geometry)
    post, _ = apply_impulse(impacts.pre, impacts.geometry, impulse, np.zeros_like(impulse))
    return post
