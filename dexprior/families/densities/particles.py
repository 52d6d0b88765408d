"""Weighted particles, smoothed by kernels that keep their mean and covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput, UnknownName
from dexprior.families.densities.base import (
    LOG_2PI,
    Density,
    DensityKind,
    checked_array,
    from_line,
    log_slope,
    moments,
    refuse_fixed,
    to_line,
)
from dexprior.families.parameter import Parameter

__all__ = ["Particles"]

Resampling = Literal["smoothed", "plain"]
_AT_ONCE = 2_000_000  # distances between values and particles that are held in memory


@dataclass(frozen=True, eq=False)
class Particles(Density):
    """Weighted values, with a normal kernel about each on the line.

    Kernels have the covariance h^2 S of the particles' own S, and stand at a z + (1 - a) mean with a^2 = 1 - h^2, so
    that the mixture keeps mean and covariance (West 1993, "Approximating posterior distributions by mixtures"). The
    bandwidth is Silverman's, h = (4 / ((d + 2) m))^(1 / (d + 4)) with m = 1 / sum w^2 (Silverman 1986, eq. 4.14).
    """

    kind: ClassVar[DensityKind] = "particles"
    names: tuple[str, ...]
    values: Float[np.ndarray, "particle parameter"]
    """Values in the parameters' own units."""
    weights: Float[np.ndarray, " particle"]
    """Not negative; they need not sum to one."""
    resampling: Resampling = "smoothed"
    """Draws are of the mixture; or, with `plain`, particles themselves, and `log_prob` is that of the mixture still."""

    def __post_init__(self) -> None:
        values = checked_array(self, "values", (None, len(self.names)))
        weights = checked_array(self, "weights", (len(values),))
        if self.resampling not in get_args(Resampling):
            raise UnknownName("resampling", self.resampling, get_args(Resampling))
        if (weights < 0).any():
            raise BadInput(f"particles of {', '.join(self.names)}: weight {weights.min():g} is negative")
        if not weights.sum() > 0:
            raise BadInput(f"particles of {', '.join(self.names)}: all {len(weights)} weights are zero")

    @property
    def shares(self) -> Float[np.ndarray, " particle"]:
        """Weights that sum to one."""
        return self.weights / self.weights.sum()

    @property
    def effective(self) -> float:
        """Particles of equal weight that say as much (Kish 1965)."""
        return float(1.0 / (self.shares**2).sum())

    @property
    def bandwidth(self) -> float:
        """h: of the kernels, in standard deviations of the particles."""
        d = len(self.names)
        return float(min((4.0 / ((d + 2) * self.effective)) ** (1.0 / (d + 4)), 1.0))

    def check(self, parameters: Sequence[Parameter]) -> None:
        """Refuse fixed parameters, particles outside the support, and particles that span less than all of them."""
        refuse_fixed(self, parameters)
        for k, p in enumerate(parameters):
            outside = self.values[(self.values[:, k] < p.low) | (self.values[:, k] > p.high), k]
            if len(outside):
                raise BadInput(f"particles: {p.name!r} = {outside[0]:g} is outside the support [{p.low:g}, {p.high:g}]")
        self._mixture(parameters)

    def sample(
        self, parameters: Sequence[Parameter], rng: np.random.Generator, n: int
    ) -> Float[np.ndarray, "n parameter"]:
        """Draws of the mixture, or of the particles."""
        chosen = np.minimum(np.searchsorted(np.cumsum(self.shares), rng.random(n), side="right"), len(self.values) - 1)
        if self.resampling == "plain":
            return self.values[chosen].copy()
        centres, root = self._mixture(parameters)
        return from_line(parameters, centres[chosen] + rng.standard_normal((n, len(parameters))) @ root.T)

    def log_prob(
        self, parameters: Sequence[Parameter], values: Float[np.ndarray, "n parameter"]
    ) -> Float[np.ndarray, " n"]:
        """See the class."""
        from scipy.special import logsumexp

        centres, root = self._mixture(parameters)
        white = np.linalg.solve(root, to_line(parameters, values).T).T
        about = np.linalg.solve(root, centres.T).T
        far = (about**2).sum(axis=1)
        mixed = np.empty(len(white))
        for rows in np.array_split(np.arange(len(white)), max(len(white) * len(about) // _AT_ONCE, 1)):
            apart = (white[rows] ** 2).sum(axis=1)[:, None] + far - 2.0 * white[rows] @ about.T
            mixed[rows] = logsumexp(-0.5 * np.maximum(apart, 0.0), b=self.shares, axis=1)
        normal = -np.log(root.diagonal()).sum() - 0.5 * len(parameters) * LOG_2PI
        return mixed + normal + log_slope(parameters, values)

    def to_json(self) -> dict[str, Any]:
        """Names, values, weights and the kind of resampling."""
        return {
            "kind": self.kind, "names": list(self.names), "values": self.values.tolist(),
            "weights": self.weights.tolist(), "resampling": self.resampling,
        }  # fmt: skip

    def _mixture(self, parameters: Sequence[Parameter]) -> tuple[np.ndarray, np.ndarray]:
        """Centres of the kernels on the line, and the root of their covariance."""
        z = to_line(parameters, self.values)
        mean, covariance = moments(z, self.shares)
        spread = np.sqrt(np.maximum(covariance.diagonal(), 1e-300))
        rank = int(np.linalg.matrix_rank(covariance / np.outer(spread, spread), tol=1e-10))
        if rank < len(parameters):
            raise BadInput(
                f"particles of {', '.join(self.names)}: they span {rank} of {len(parameters)} dimensions; give more "
                "particles that differ, or fix a parameter"
            )
        h = self.bandwidth
        return mean + np.sqrt(1.0 - h * h) * (z - mean), h * np.linalg.cholesky(covariance)
