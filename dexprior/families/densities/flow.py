"""A triangular map to standard normals, and its fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.families.densities.base import (
    LOG_2PI,
    Density,
    DensityKind,
    checked_array,
    from_line,
    log_slope,
    refuse_fixed,
    to_line,
)
from dexprior.families.parameter import Parameter

__all__ = ["Flow", "FlowComponent", "fit_component"]

_BUMPS = 6  # of a component, at even quantiles
_LEAST_SLOPE = 1e-2  # of a component, in standard units: the map stays invertible beyond the data
_RIDGE = 1e-6  # of its least squares, per unit of weight
_BISECTIONS = 64  # halve a bracket of some tens of standard deviations to the last bit


@dataclass(frozen=True, eq=False, kw_only=True)
class FlowComponent:
    """S_k of a flow: a y_k + sum_j c_j Phi((y_k - m_j) / s_j) + a quadratic polynomial of y_1 .. y_(k-1)."""

    slope: float
    """a > 0."""
    heights: tuple[float, ...]
    """c, none negative."""
    centres: tuple[float, ...]
    """m"""
    widths: tuple[float, ...]
    """s > 0."""
    polynomial: tuple[float, ...]
    """Coefficients of 1, then of each earlier coordinate, then of their products, in order."""

    def __post_init__(self) -> None:
        numbers = (self.slope, *self.heights, *self.centres, *self.widths, *self.polynomial)
        if not np.isfinite(numbers).all() or self.slope <= 0 or min(self.heights, default=0.0) < 0:
            raise BadInput("flow: a component needs finite numbers, a positive slope and no negative height")
        if not len(self.heights) == len(self.centres) == len(self.widths) or min(self.widths, default=1.0) <= 0:
            raise BadInput("flow: a component needs a centre and a positive width for each height")

    def rise(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Its part that rises with its own coordinate."""
        from scipy.special import ndtr

        bumps = ndtr((y[:, None] - np.array(self.centres)) / np.array(self.widths))
        return self.slope * y + bumps @ np.array(self.heights)

    def log_rate(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Log of the derivative of `rise`."""
        widths = np.array(self.widths)
        bumps = _normal((y[:, None] - np.array(self.centres)) / widths) / widths
        return np.log(self.slope + bumps @ np.array(self.heights))

    def inverse(self, target: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Inverse of `rise`, by bisection: heights are bounded, so that the slope alone brackets the root."""
        low, high = (target - sum(self.heights)) / self.slope, target / self.slope
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            below = self.rise(middle) < target
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)


@dataclass(frozen=True, eq=False)
class Flow(Density):
    """A triangular map S to standard normals: S_k rises with coordinate k and depends on the earlier ones.

    p(x) = prod_k N(S_k(y_1 .. y_k); 0, 1) dS_k/dy_k over standardised line coordinates y: the Knothe-Rosenblatt map.
    Its components are separable and fitted one by one, by a maximum likelihood that is convex (Spantini et al. 2022,
    "Coupling Techniques for Nonlinear Ensemble Filtering"). Earlier coordinates shift the later ones, by a quadratic;
    they do not change their spread.
    """

    kind: ClassVar[DensityKind] = "flow"
    names: tuple[str, ...]
    mean: Float[np.ndarray, " parameter"]
    """Mean of the line coordinates."""
    std: Float[np.ndarray, " parameter"]
    components: tuple[FlowComponent, ...]

    def __post_init__(self) -> None:
        d = len(self.names)
        checked_array(self, "mean", (d,))
        if (checked_array(self, "std", (d,)) <= 0).any():
            raise BadInput(f"flow of {', '.join(self.names)}: a standard deviation is not positive")
        if len(self.components) != d:
            raise BadInput(f"flow of {', '.join(self.names)}: {len(self.components)} components for {d} parameters")
        for k, component in enumerate(self.components):
            if len(component.polynomial) != _terms(np.zeros((1, k))).shape[1]:
                raise BadInput(
                    f"flow: component {self.names[k]!r} has {len(component.polynomial)} coefficients; a quadratic of "
                    f"{k} coordinates has {_terms(np.zeros((1, k))).shape[1]}"
                )

    def check(self, parameters: Sequence[Parameter]) -> None:
        """Refuse fixed parameters."""
        refuse_fixed(self, parameters)

    def sample(
        self, parameters: Sequence[Parameter], rng: np.random.Generator, n: int
    ) -> Float[np.ndarray, "n parameter"]:
        """Standard normals through the inverse map, one coordinate after the other."""
        noise = rng.standard_normal((n, len(parameters)))
        y = np.empty_like(noise)
        for k, component in enumerate(self.components):
            y[:, k] = component.inverse(noise[:, k] - _terms(y[:, :k]) @ np.array(component.polynomial))
        return from_line(parameters, self.mean + self.std * y)

    def log_prob(
        self, parameters: Sequence[Parameter], values: Float[np.ndarray, "n parameter"]
    ) -> Float[np.ndarray, " n"]:
        """See the class."""
        y = (to_line(parameters, values) - self.mean) / self.std
        total = log_slope(parameters, values) - np.log(self.std).sum()
        for k, component in enumerate(self.components):
            S = component.rise(y[:, k]) + _terms(y[:, :k]) @ np.array(component.polynomial)
            total = total - 0.5 * S * S - 0.5 * LOG_2PI + component.log_rate(y[:, k])
        return total

    def to_json(self) -> dict[str, Any]:
        """Names and every coefficient."""
        parts = [{name: getattr(c, name) for name in FlowComponent.__dataclass_fields__} for c in self.components]
        return {
            "kind": self.kind, "names": list(self.names), "mean": self.mean.tolist(), "std": self.std.tolist(),
            "components": [{k: v if k == "slope" else list(v) for k, v in part.items()} for part in parts],
        }  # fmt: skip


def fit_component(
    earlier: Float[np.ndarray, "n earlier"], own: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]
) -> FlowComponent:
    """Least sum w (S^2 / 2 - ln dS): convex in the coefficients. The polynomial's follow from the others'."""
    from scipy.optimize import minimize
    from scipy.special import ndtr

    order = np.argsort(own)
    centres = np.interp(np.linspace(0.05, 0.95, _BUMPS), np.cumsum(weights[order]), own[order])
    widths = np.maximum(np.gradient(centres), 0.1)
    scaled = (own[:, None] - centres) / widths
    rising = np.concatenate([own[:, None], ndtr(scaled)], axis=1)
    rates = np.concatenate([np.ones((len(own), 1)), _normal(scaled) / widths], axis=1)
    terms = _terms(earlier)
    weighted = terms * weights[:, None]
    shift = np.linalg.solve(terms.T @ weighted + _RIDGE * np.eye(terms.shape[1]), weighted.T @ rising)
    left = rising - terms @ shift
    quadratic = left.T @ (left * weights[:, None]) + _RIDGE * np.eye(rising.shape[1])

    def cost(c: np.ndarray) -> tuple[float, np.ndarray]:
        rate = rates @ c
        value = 0.5 * c @ quadratic @ c - weights @ np.log(rate)
        return float(value), quadratic @ c - rates.T @ (weights / rate)

    start = np.concatenate([[1.0], np.full(_BUMPS, 1e-3)])
    bounds = [(_LEAST_SLOPE, None)] + [(0.0, None)] * _BUMPS
    best = minimize(cost, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": 500}).x
    return FlowComponent(
        slope=float(best[0]), heights=tuple(best[1:].tolist()), centres=tuple(centres.tolist()),
        widths=tuple(widths.tolist()), polynomial=tuple((-shift @ best).tolist()),
    )  # fmt: skip


def _terms(y: Float[np.ndarray, "n coordinate"]) -> Float[np.ndarray, "n term"]:
    """1, each coordinate, and each product of two."""
    i, j = np.triu_indices(y.shape[1])
    return np.concatenate([np.ones((len(y), 1)), y, y[:, i] * y[:, j]], axis=1)


def _normal(x: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * (x * x + LOG_2PI))
