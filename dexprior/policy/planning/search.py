"""Black-box minimisers on the cube [-1, 1]^d that are asked for candidates and told their costs.

Both begin with uniform candidates, as a strike has a local minimum on every face; then they narrow. A coordinate may
be an angle: it wraps at the ends of the cube instead of stopping there.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

__all__ = ["CemSearch", "CmaSearch", "Search"]

_SMOOTHING = 0.3  # share of the old standard deviation that is kept; without it the Gaussian collapses early


class Search(Protocol):
    """Proposes candidates, learns from their costs."""

    def ask(self) -> Float[np.ndarray, "population d"]:
        """The next candidates, in [-1, 1]."""
        ...

    def tell(self, candidates: Float[np.ndarray, "population d"], cost: Float[np.ndarray, " population"]) -> None:
        """The costs of what was asked for last."""
        ...


class CmaSearch:
    """CMA-ES (Hansen, arXiv 1604.00772) from the best of a first, uniform population; steps from the `cma` package."""

    def __init__(
        self, d: int, *, population: int, std: float, wraps: tuple[bool, ...], rng: np.random.Generator
    ) -> None:
        self._d, self._population, self._std, self._wraps, self._rng = d, population, std, np.array(wraps), rng
        self._strategy: Any = None
        self._asked: list[np.ndarray] = []

    def ask(self) -> Float[np.ndarray, "population d"]:
        """Uniform at first, then from the strategy."""
        if self._strategy is None:
            return self._rng.uniform(-1.0, 1.0, (self._population, self._d))
        self._asked = self._strategy.ask()
        return _inside(np.array(self._asked), self._wraps)

    def tell(self, candidates: Float[np.ndarray, "population d"], cost: Float[np.ndarray, " population"]) -> None:
        """Start at the best of the first population; later update the strategy."""
        if self._strategy is not None:
            self._strategy.tell(self._asked, cost.tolist())
            return
        import cma

        walls = [[None if w else b for w in self._wraps] for b in (-1.0, 1.0)]
        options = {
            "popsize": self._population,
            "bounds": walls,
            "verbose": -9,
            "seed": np.nan,  # the package would seed NumPy's global generator
            "randn": lambda *shape: self._rng.standard_normal(shape),
        }
        self._strategy = cma.CMAEvolutionStrategy(candidates[int(cost.argmin())], self._std, options)


class CemSearch:
    """Cross-entropy method: a diagonal Gaussian around the elite of each population (Rubinstein 1999)."""

    def __init__(
        self, d: int, *, population: int, elite: int, wraps: tuple[bool, ...], rng: np.random.Generator
    ) -> None:
        self._d, self._population, self._elite, self._wraps, self._rng = d, population, elite, np.array(wraps), rng
        self._mean: np.ndarray | None = None
        self._std = np.ones(d)

    def ask(self) -> Float[np.ndarray, "population d"]:
        """Uniform at first, then Gaussian."""
        shape = (self._population, self._d)
        if self._mean is None:
            return self._rng.uniform(-1.0, 1.0, shape)
        return _inside(self._mean + self._std * self._rng.standard_normal(shape), self._wraps)

    def tell(self, candidates: Float[np.ndarray, "population d"], cost: Float[np.ndarray, " population"]) -> None:
        """Fit the Gaussian to the elite, around the best where a coordinate wraps."""
        order = np.argsort(cost, kind="stable")
        best = candidates[order[0]]
        offset = candidates[order[: self._elite]] - best
        offset = np.where(self._wraps, (offset + 1.0) % 2.0 - 1.0, offset)
        self._mean = best + offset.mean(axis=0)
        self._std = (1 - _SMOOTHING) * offset.std(axis=0) + _SMOOTHING * self._std


def _inside(x: np.ndarray, wraps: np.ndarray) -> np.ndarray:
    return np.where(wraps, (x + 1.0) % 2.0 - 1.0, np.clip(x, -1.0, 1.0))
