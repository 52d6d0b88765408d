"""Intervals of samples that come in groups of groups (strikes of draws of settings) or in a table (impacts x draws)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput

__all__ = ["bootstrap_crossed", "bootstrap_nested"]


def bootstrap_nested(
    values: Float[np.ndarray, "*groups"],
    statistic: Callable[[np.ndarray], np.ndarray],
    *,
    depth: int,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[Float[np.ndarray, " figure"], Float[np.ndarray, " figure"], Float[np.ndarray, " figure"]]:
    """Statistics of nested samples with their percentile bootstrap intervals: (values, lows, highs).

    The first axis is resampled with replacement, then the second within each of its elements, and so on; what stands
    in one row stays together, so that methods are compared in pairs (Davison and Hinkley 1997, section 3.8).

    Args:
        values: samples; the first `depth` axes are groups, groups within groups, ..., samples.
        statistic: from samples of that shape to figures.
        depth: axes that are resampled.
        level: of the intervals.
        draws: resamples.
        seed: of the resampling.

    Raises:
        BadInput: an axis without elements, or fewer axes than `depth`.
    """
    values = np.asarray(values, dtype=np.float64)
    sizes = values.shape[:depth]
    if not 1 <= depth <= values.ndim or 0 in sizes:
        raise BadInput(f"bootstrap_nested: values of shape {values.shape} have no {depth} axes to resample")
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        rows = []
        for axis in range(depth):
            chosen = rng.integers(sizes[axis], size=sizes[: axis + 1])
            rows.append(chosen.reshape(chosen.shape + (1,) * (depth - axis - 1)))
        found.append(statistic(values[tuple(rows)]))
    return statistic(values), *_percentiles(found, level)


def bootstrap_crossed(
    values: Float[np.ndarray, "row column *more"],
    statistic: Callable[[np.ndarray], np.ndarray],
    *,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[Float[np.ndarray, " figure"], Float[np.ndarray, " figure"], Float[np.ndarray, " figure"]]:
    """Statistics of a table with their percentile bootstrap intervals: (values, lows, highs).

    Rows and columns are resampled with replacement, independently of each other: the interval covers other rows and
    other columns alike (Owen 2007, "The pigeonhole bootstrap"). Where every draw is scored on the same impacts, draws
    are rows and impacts are columns; as groups within groups, impacts would count as new ones in each draw.

    Args:
        values: the table; what stands in one cell stays together, so that methods are compared in pairs.
        statistic: from a table of that shape to figures.
        level: of the intervals.
        draws: resamples.
        seed: of the resampling.

    Raises:
        BadInput: a table without rows or columns.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim < 2 or 0 in values.shape[:2]:
        raise BadInput(f"bootstrap_crossed: values of shape {values.shape} are no table of rows and columns")
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        rows, columns = (rng.integers(size, size=(size,)) for size in values.shape[:2])
        found.append(statistic(values[np.ix_(rows, columns)]))
    return statistic(values), *_percentiles(found, level)


def _percentiles(
    found: list[np.ndarray], level: float
) -> tuple[Float[np.ndarray, " figure"], Float[np.ndarray, " figure"]]:
    """Lows and highs that hold `level` of the resampled figures."""
    tail = 0.5 * (1.0 - level)
    low, high = np.quantile(np.array(found), [tail, 1.0 - tail], axis=0)
    return low, high
