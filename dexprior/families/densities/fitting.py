"""Densities from weighted values, and from JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput, UnknownName
from dexprior.families.densities.base import INDEPENDENT, Density, DensityKind, Independent, moments, to_line
from dexprior.families.densities.copula import Copula, normal_scores
from dexprior.families.densities.flow import Flow, FlowComponent, fit_component
from dexprior.families.densities.particles import Particles
from dexprior.families.parameter import Parameter

__all__ = ["density_from_json", "fit_density"]


def fit_density(
    kind: DensityKind,
    parameters: Sequence[Parameter],
    values: Float[np.ndarray, "particle parameter"],
    weights: Float[np.ndarray, " particle"],
) -> Density:
    """The density of a kind that weighted values suggest.

    A copula takes its correlation from them and keeps the parameters' own marginals: fit those beforehand.

    Raises:
        UnknownName: no such kind.
        BadInput: values outside a support, all weights zero, or values that span less than all dimensions.
    """
    if kind not in get_args(DensityKind):
        raise UnknownName("density", kind, get_args(DensityKind))
    if kind == "independent" or not parameters:
        return INDEPENDENT
    particles = Particles(tuple(p.name for p in parameters), values, weights)
    particles.check(parameters)
    if kind == "particles":
        return particles
    if kind == "copula":
        _, covariance = moments(normal_scores(parameters, particles.values), particles.shares)
        spread = np.sqrt(covariance.diagonal())
        correlation = covariance / np.outer(spread, spread)
        np.fill_diagonal(correlation, 1.0)
        return Copula(particles.names, (correlation + correlation.T) / 2)
    z = to_line(parameters, particles.values)
    mean, covariance = moments(z, particles.shares)
    std = np.sqrt(covariance.diagonal())
    y = (z - mean) / std
    components = tuple(fit_component(y[:, :k], y[:, k], particles.shares) for k in range(len(parameters)))
    return Flow(particles.names, mean, std, components)


def density_from_json(data: Mapping[str, Any]) -> Density:
    """Inverse of `Density.to_json`.

    Raises:
        UnknownName: no such kind.
        BadInput: a missing or unknown key, or a value that cannot be.
    """
    kinds = {cls.kind: cls for cls in (Independent, Copula, Particles, Flow)}
    if not isinstance(data, Mapping) or "kind" not in data:
        raise BadInput(f"not a density: {data!r} has no kind; known are {', '.join(kinds)}")
    if data["kind"] not in kinds:
        raise UnknownName("density", data["kind"], kinds)
    plain = {name: value for name, value in data.items() if name != "kind"}
    try:
        if "names" in plain:
            plain["names"] = tuple(plain["names"])
        if "components" in plain:
            plain["components"] = tuple(_component(part) for part in plain["components"])
        return kinds[data["kind"]](**plain)
    except (TypeError, AttributeError) as error:
        raise BadInput(f"not a density of kind {data['kind']!r}: {error}") from None


def _component(data: Mapping[str, Any]) -> FlowComponent:
    plain: dict[str, Any] = {name: value if name == "slope" else tuple(value) for name, value in data.items()}
    return FlowComponent(**plain)
