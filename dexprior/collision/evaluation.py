"""How well collision models predict measured impacts.

The error of an impact is ||pred - true|| / ||true|| in (vx, vy, k omega), with k the radius of gyration: the
kinetic-energy norm. acc_e is the share of impacts with an error below e (CLASH, its equation 4).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from dexprior.collision.generator import best_impulse
from dexprior.collision.surrogate import Surrogate, apply_impulse, contact_velocity
from dexprior.data.impacts import PlanarImpacts
from dexprior.errors import BadInput
from dexprior.types.collision import CollisionModel, MeasuredImpacts

__all__ = [
    "FIGURES",
    "accuracy_curve",
    "figures",
    "measured_impulse",
    "point_impulse_bound",
    "predict_impacts",
    "relative_error",
    "score_distribution",
]

THRESHOLDS = (0.1, 0.2)

FIGURES = (*(f"acc_{e:g}" for e in THRESHOLDS), "median")
"""What is said of a method's errors."""


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


def figures(errors: Float[np.ndarray, "*draws impact method"]) -> Float[np.ndarray, "*draws method figure"]:
    """`FIGURES` of each method: shares of errors below the thresholds, and the median; NaN marks what was not scored.

    Raises:
        BadInput: an error that is infinite, or a method that failed on some of the scored impacts only.
    """
    known = ~np.isnan(errors)
    if np.isinf(errors).any() or (known.any(axis=-1) != known.all(axis=-1)).any():
        raise BadInput("figures: some errors are not finite; a simulation diverged")
    count = known.sum(axis=-2)
    shares = [(errors < e).sum(axis=-2) / count for e in THRESHOLDS]
    ordered = np.sort(errors, axis=-2)  # NaN come last
    middle = [np.take_along_axis(ordered, k[..., None, :], axis=-2)[..., 0, :] for k in ((count - 1) // 2, count // 2)]
    return np.stack([*shares, (middle[0] + middle[1]) / 2], axis=-1)


def predict_impacts(
    model: CollisionModel, impacts: PlanarImpacts, phi: Float[np.ndarray, " parameter"]
) -> tuple[Float[np.ndarray, "impact 3"], Float[np.ndarray, "impact 3"]]:
    """A model's velocity after each impact, and its standard deviation, with one phi for all."""
    return model.predict(impacts.pre, impacts.geometry, np.tile(phi, (len(impacts), 1)))


def point_impulse_bound(impacts: PlanarImpacts) -> Float[np.ndarray, "impact 3"]:
    """The best that one impulse at the contact point can do: a bound, not a model, as it sees the outcome."""
    impulse = best_impulse(impacts.post - impacts.pre, impacts.geometry)
    post, _ = apply_impulse(impacts.pre, impacts.geometry, impulse, np.zeros_like(impulse))
    return post


def measured_impulse(impacts: MeasuredImpacts) -> Float[np.ndarray, "impact 2"]:
    """The best contact impulse of each impact, in units of |u_n|/A_nn."""
    geometry = impacts.geometry
    approach = contact_velocity(impacts.pre, geometry)
    unit = -approach[:, :1] / geometry.delassus[:, 0, :1]
    return best_impulse(impacts.post - impacts.pre, geometry) / unit


def score_distribution(
    model: Surrogate, impacts: PlanarImpacts, phi: Float[np.ndarray, " parameter"]
) -> dict[str, float]:
    """How well the predicted spread fits: mean negative log-likelihood of a component of the measured impulse (in units
    of |u_n|/A_nn), and the share of components inside the intervals of 50 and 90 %."""
    mean, std = model.impulse(impacts.pre, impacts.geometry, np.tile(phi, (len(impacts), 1)))
    standardized = (measured_impulse(impacts) - mean) / std
    nll = 0.5 * standardized**2 + np.log(std) + 0.5 * np.log(2.0 * np.pi)
    inside = np.abs(standardized)
    return {
        "negative_log_likelihood": float(nll.mean()),
        "coverage_50": float((inside < norm.ppf(0.75)).mean()),
        "coverage_90": float((inside < norm.ppf(0.95)).mean()),
    }
