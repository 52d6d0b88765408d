"""A Gaussian copula over the marginals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.families.densities.base import Density, DensityKind, checked_array, refuse_fixed
from dexprior.families.parameter import Parameter

__all__ = ["Copula", "normal_scores"]


@dataclass(frozen=True, eq=False)
class Copula(Density):
    """Marginals of the parameters, correlated through the normal quantiles of their distribution functions.

    p(x) = N(z; 0, R) prod_k p_k(x_k) / N(z_k; 0, 1) with z_k = Phi^-1(F_k(x_k)); Nelsen 2006, "An Introduction to
    Copulas", sec. 2.3.
    """

    kind: ClassVar[DensityKind] = "copula"
    names: tuple[str, ...]
    correlation: Float[np.ndarray, "parameter parameter"]
    """R, of the normal quantiles."""

    def __post_init__(self) -> None:
        R = checked_array(self, "correlation", (len(self.names), len(self.names)))
        if not (np.allclose(R, R.T, atol=1e-9) and np.allclose(R.diagonal(), 1.0, atol=1e-9)):
            raise BadInput(f"copula of {', '.join(self.names)}: a correlation is symmetric, with ones on its diagonal")
        least = float(np.linalg.eigvalsh(R).min()) if len(R) else 1.0
        if least <= 1e-12:
            raise BadInput(f"copula of {', '.join(self.names)}: its smallest eigenvalue {least:.3g} is not positive")

    def check(self, parameters: Sequence[Parameter]) -> None:
        """Refuse fixed parameters."""
        refuse_fixed(self, parameters)

    def sample(
        self, parameters: Sequence[Parameter], rng: np.random.Generator, n: int
    ) -> Float[np.ndarray, "n parameter"]:
        """Correlated quantiles of the marginals."""
        from scipy.special import ndtr

        u = ndtr(rng.standard_normal((n, len(parameters))) @ np.linalg.cholesky(self.correlation).T)
        return np.stack([p.ppf(u[:, k]) for k, p in enumerate(parameters)], axis=1)

    def log_prob(
        self, parameters: Sequence[Parameter], values: Float[np.ndarray, "n parameter"]
    ) -> Float[np.ndarray, " n"]:
        """See the class."""
        z = normal_scores(parameters, values)
        root = np.linalg.cholesky(self.correlation)
        white = np.linalg.solve(root, z.T)
        together = -0.5 * (white**2).sum(axis=0) - np.log(root.diagonal()).sum() + 0.5 * (z**2).sum(axis=1)
        return together + np.sum([p.log_prob(values[:, k]) for k, p in enumerate(parameters)], axis=0)

    def to_json(self) -> dict[str, Any]:
        """Names and correlation."""
        return {"kind": self.kind, "names": list(self.names), "correlation": self.correlation.tolist()}


def normal_scores(
    parameters: Sequence[Parameter], values: Float[np.ndarray, "n parameter"]
) -> Float[np.ndarray, "n parameter"]:
    """Normal quantiles of the marginals' distribution functions."""
    from scipy.special import ndtri

    u = np.stack([p.cdf(values[:, k]) for k, p in enumerate(parameters)], axis=1)
    return ndtri(np.clip(u, 1e-12, 1.0 - 1e-12))
