"""CMA-ES (Hansen, arXiv 1604.00772; the `cma` package) on costs that are evaluated a population at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

__all__ = ["minimize_cma"]


def minimize_cma(
    cost: Callable[[Float[np.ndarray, "candidate d"]], Float[np.ndarray, " candidate"]],
    start: Float[np.ndarray, " d"],
    *,
    spread: float,
    bounds: tuple[float, float],
    population: int,
    evaluations: int,
    seed: int,
) -> tuple[Float[np.ndarray, " d"], float]:
    """The best candidate that was tried, and its cost; a function of the seed.

    Args:
        cost: of candidates, all of a population at once.
        start: where the search begins; it is not itself tried.
        spread: first standard deviation.
        bounds: of every coordinate.
        population: candidates per generation.
        evaluations: candidates after which no further generation is begun.
        seed: of the search.
    """
    import cma

    options = {"bounds": list(bounds), "popsize": population, "seed": seed + 1, "verbose": -9}  # seed 0 is the clock
    search = cma.CMAEvolutionStrategy(start, spread, options)
    best, lowest, tried = np.asarray(start), np.inf, 0
    while tried < evaluations and not search.stop():
        asked = search.ask()
        costs = cost(np.array(asked))
        search.tell(asked, costs.tolist())
        tried += len(asked)
        if costs.min() < lowest:
            best, lowest = np.array(asked[int(costs.argmin())]), float(costs.min())
    return best, lowest
