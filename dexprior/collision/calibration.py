"""Fit a distilled model to a few measured impacts: its contact parameters, then what it still misses.

`identify` finds phi by its largest posterior density under the residual's covariance, so that phi is not bent to
explain what no phi can; `finetune` then conditions the residual on what is missed at that phi. Both see the
network's weights as fixed: with ten impacts there are a handful of numbers to learn, not ten thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from jaxtyping import Bool, Float

from dexprior.collision.evaluation import measured_impulse
from dexprior.collision.parameters import PARAMETERS
from dexprior.collision.residual import ImpulseResidual, ResidualConfig, residual_inputs
from dexprior.collision.surrogate import Surrogate, contact_velocity
from dexprior.config import Ge, Gt, Le, config
from dexprior.errors import BadInput
from dexprior.types.collision import MeasuredImpacts

__all__ = ["Identified", "IdentifyConfig", "finetune", "identify"]

_MIN_REAL = 3  # fewer impacts cannot tell friction from restitution from tangential damping
_STEP = 1e-3  # of a finite difference in the unit scale of phi
_CHI2_95 = 3.84
_SCATTER_WEIGHT = 5.0  # samples that the prior noise counts for, when left-out errors rescale the spread


@config
class IdentifyConfig:
    """Contact parameters of the largest posterior density."""

    starts: Annotated[int, Ge(1), Le(10)] = 3
    """Starting points per parameter; the best few are refined."""
    refined: Annotated[int, Ge(1)] = 3
    """How many starting points are refined."""
    steps: Annotated[int, Ge(1)] = 30
    """Levenberg-Marquardt steps."""
    prior_width: Annotated[float, Gt(0)] = 0.3
    """Standard deviation of the prior about the middle of the range; the range is [-1, 1]."""
    unidentifiable: Annotated[float, Gt(0), Le(1)] = 0.8
    """A parameter whose posterior is wider than this share of its prior is flagged."""


@dataclass(frozen=True, kw_only=True)
class Identified:
    """Contact parameters of one pair of materials."""

    phi: Float[np.ndarray, " parameter"]
    """Parameters of the largest posterior density."""
    covariance: Float[np.ndarray, "parameter parameter"]
    """Laplace's, on the unit scale."""
    interval: Float[np.ndarray, "parameter 2"]
    """Intervals of 95 %, in the parameters' own units."""
    identifiable: Bool[np.ndarray, " parameter"]
    """False where the impacts said little more than the prior."""

    def as_dict(self) -> dict[str, dict[str, object]]:
        """Plain data by parameter."""
        return {
            name: {
                "value": float(self.phi[k]),
                "interval": self.interval[k].tolist(),
                "identifiable": bool(self.identifiable[k]),
            }
            for k, name in enumerate(PARAMETERS)
        }


def identify(base: Surrogate, impacts: MeasuredImpacts, config: IdentifyConfig, residual: ResidualConfig) -> Identified:
    """Contact parameters that explain a few measured impacts best, through the frozen network.

    Maximizes the Gaussian likelihood of the measured contact impulses under the residual's prior covariance, times
    a Gaussian prior on the unit scale of phi, by Levenberg-Marquardt from the best of a grid of starting points.

    Raises:
        BadInput: fewer than three impacts.
    """
    _require_enough(impacts, "identify")
    precision = _precisions(_prior(impacts, residual))
    measured = measured_impulse(impacts)
    approach, delassus = contact_velocity(impacts.pre, impacts.geometry), impacts.geometry.delassus
    count, n = len(PARAMETERS), len(impacts)

    def missed(units: Float[np.ndarray, "candidate parameter"]) -> Float[np.ndarray, "candidate sample 2"]:
        phi = base.config.ranges.from_unit(np, units).repeat(n, axis=0)
        many = len(units)
        found = base.network_impulse(np.tile(approach, (many, 1)), np.tile(delassus, (many, 1, 1)), phi)
        return measured - found.reshape(many, n, 2)

    def cost(units: Float[np.ndarray, "candidate parameter"]) -> Float[np.ndarray, " candidate"]:
        error = missed(units)
        fit = np.einsum("msk,kst,mtk->m", error, precision, error)
        return 0.5 * fit + 0.5 * ((units / config.prior_width) ** 2).sum(axis=1)

    ticks = np.linspace(-1.0, 1.0, config.starts + 2)[1:-1]
    grid = np.stack(np.meshgrid(*[ticks] * (count - 1), [0.0], indexing="ij"), -1).reshape(-1, count)
    best = grid[np.argsort(cost(grid), kind="stable")[: config.refined]]
    refined = [_levenberg_marquardt(unit, missed, cost, precision, config) for unit in best]
    unit, hessian = min(refined, key=lambda found: float(cost(found[0][None])[0]))
    covariance = np.linalg.inv(hessian)
    spread = np.sqrt(np.diag(covariance))
    ends = np.stack([unit - np.sqrt(_CHI2_95) * spread, unit + np.sqrt(_CHI2_95) * spread])
    ends = base.config.ranges.from_unit(np, np.clip(ends, -1.0, 1.0))
    return Identified(
        phi=base.config.ranges.from_unit(np, unit[None])[0],
        covariance=covariance,
        interval=ends.T,
        identifiable=spread < config.unidentifiable * config.prior_width,
    )


def finetune(base: Surrogate, impacts: MeasuredImpacts, identified: Identified, residual: ResidualConfig) -> Surrogate:
    """The base with its identified parameters and a residual conditioned on the measured impacts.

    Two residuals are fitted: one that knows the impacts' context, and one for contacts that come without. Errors
    of impacts that were left out rescale the spread.

    Raises:
        BadInput: fewer than three impacts.
    """
    _require_enough(impacts, "finetune")
    approach = contact_velocity(impacts.pre, impacts.geometry)
    found = base.network_impulse(approach, impacts.geometry.delassus, np.tile(identified.phi, (len(impacts), 1)))
    missed = measured_impulse(impacts) - found
    residuals = {}
    for name in ("contact", "context"):
        inputs = residual_inputs(approach, impacts.geometry, context=name == "context")
        model = ImpulseResidual.prior(inputs, residual)
        enough = len(impacts) >= residual.evidence_from
        model = model.fitted(missed, residual) if enough else model.conditioned(missed)
        surprise = (model.left_out(missed) ** 2).sum(axis=0)
        factor = np.sqrt((surprise + _SCATTER_WEIGHT) / (len(impacts) + _SCATTER_WEIGHT))
        residuals[name] = model.rescaled(factor, missed)
    return replace(base, phi=identified.phi, phi_covariance=identified.covariance, residuals=residuals)


def _levenberg_marquardt(
    unit: np.ndarray,
    missed: Callable[[np.ndarray], np.ndarray],
    cost: Callable[[np.ndarray], np.ndarray],
    precision: np.ndarray,
    config: IdentifyConfig,
) -> tuple[np.ndarray, np.ndarray]:
    """A local minimum inside the range, and the Gauss-Newton Hessian there."""
    count, damping, prior = len(unit), 1e-2, 1.0 / config.prior_width**2
    current = float(cost(unit[None])[0])
    hessian = np.eye(count)
    for _ in range(config.steps):
        inward = np.where(unit > 1.0 - 2.0 * _STEP, -_STEP, _STEP)
        error = missed(np.concatenate([unit[None], unit + np.diag(inward)]))
        slope = (error[1:] - error[:1]) / inward[:, None, None]
        hessian = np.einsum("psk,kst,qtk->pq", slope, precision, slope) + prior * np.eye(count)
        gradient = np.einsum("psk,kst,tk->p", slope, precision, error[0]) + prior * unit
        step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), -gradient)
        moved = np.clip(unit + step, -1.0, 1.0)
        value = float(cost(moved[None])[0])
        if value < current:
            unit, current, damping = moved, value, damping / 5.0
        else:
            damping *= 8.0
    return unit, hessian


def _prior(impacts: MeasuredImpacts, residual: ResidualConfig) -> ImpulseResidual:
    approach = contact_velocity(impacts.pre, impacts.geometry)
    return ImpulseResidual.prior(residual_inputs(approach, impacts.geometry, context=True), residual)


def _precisions(residual: ImpulseResidual) -> Float[np.ndarray, "2 sample sample"]:
    return np.stack([residual.precision(0), residual.precision(1)])


def _require_enough(impacts: MeasuredImpacts, what: str) -> None:
    if len(impacts) < _MIN_REAL:
        raise BadInput(
            f"{what}: {len(impacts)} measured impact(s), but at least {_MIN_REAL} are needed to tell friction, "
            "restitution and tangential damping apart; ten are usual"
        )
