"""Intervals for rates and means. A rate is never shown without its counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput

__all__ = [
    "Rate", "bootstrap_mean", "check_counts", "clopper_pearson", "newcombe", "newcombe_paired", "student_mean", "tango",
]  # fmt: skip


def clopper_pearson(k: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Exact interval of a binomial rate; covers at least `level` for every true rate.

    Clopper and Pearson 1934: the ends are quantiles of beta distributions.

    Raises:
        BadInput: n < 1, k outside [0, n], or level outside (0, 1).
    """
    from scipy.stats import beta

    _check_counts(k, n, level)
    tail = (1.0 - level) / 2.0
    low = 0.0 if k == 0 else float(beta.ppf(tail, k, n - k + 1))
    high = 1.0 if k == n else float(beta.ppf(1.0 - tail, k + 1, n - k))
    return low, high


def newcombe(k1: int, n1: int, k2: int, n2: int, level: float = 0.95) -> tuple[float, float]:
    """Interval of the difference p1 - p2 of two independent rates (Newcombe 1998, method 10).

    Squares and adds the distances of each rate from its Wilson limits.
    """
    _check_counts(k1, n1, level)
    _check_counts(k2, n2, level)
    p1, p2 = k1 / n1, k2 / n2
    low1, high1 = _wilson(k1, n1, level)
    low2, high2 = _wilson(k2, n2, level)
    d = p1 - p2
    return (
        float(d - np.hypot(p1 - low1, high2 - p2)),
        float(d + np.hypot(high1 - p1, p2 - low2)),
    )


def newcombe_paired(
    both: int, only_first: int, only_second: int, neither: int, level: float = 0.95
) -> tuple[float, float]:
    """Interval of the difference p1 - p2 of two paired rates (Newcombe 1998, "Improved confidence intervals for the
    difference between binomial proportions based on paired data", method 10).

    As `newcombe`, with the correlation of the pairs, corrected for continuity where it is positive.

    Raises:
        BadInput: no pair, a negative count, or level outside (0, 1).
    """
    n = _check_pairs(both, only_first, only_second, neither, level)
    k1, k2 = both + only_first, both + only_second
    p1, p2 = k1 / n, k2 / n
    low1, high1 = _wilson(k1, n, level)
    low2, high2 = _wilson(k2, n, level)
    product = float(k1) * (n - k1) * k2 * (n - k2)
    excess = float(both * neither - only_first * only_second)
    excess = max(excess - n / 2, 0.0) if excess > 0 else excess
    phi = excess / np.sqrt(product) if product > 0 else 0.0
    d = p1 - p2
    down = (p1 - low1) ** 2 - 2 * phi * (p1 - low1) * (high2 - p2) + (high2 - p2) ** 2
    up = (p2 - low2) ** 2 - 2 * phi * (p2 - low2) * (high1 - p1) + (high1 - p1) ** 2
    return float(d - np.sqrt(max(down, 0.0))), float(d + np.sqrt(max(up, 0.0)))


def tango(both: int, only_first: int, only_second: int, neither: int, level: float = 0.95) -> tuple[float, float]:
    """Interval of the difference p1 - p2 of two paired rates: every difference that the score test does not reject.

    Tango 1998, "Equivalence test and confidence interval for the difference in proportions for the paired-sample
    design". `both` and `neither` count only through their sum.

    Raises:
        BadInput: no pair, a negative count, or level outside (0, 1).
    """
    n = _check_pairs(both, only_first, only_second, neither, level)
    return _tango_low(only_first, only_second, n, level), -_tango_low(only_second, only_first, n, level)


def bootstrap_mean(
    values: Float[np.ndarray, " n"], *, level: float = 0.95, draws: int = 4000, seed: int = 0
) -> tuple[float, float, float]:
    """Mean with a percentile bootstrap interval: (mean, low, high).

    Raises:
        BadInput: no values.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.size == 0:
        raise BadInput("bootstrap_mean: no values")
    rng = np.random.default_rng(seed)
    means = values[rng.integers(len(values), size=(draws, len(values)))].mean(axis=1)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return float(values.mean()), float(low), float(high)


def student_mean(values: Float[np.ndarray, " n"], *, level: float = 0.95) -> tuple[float, float, float]:
    """Mean with an interval by Student's t: (mean, low, high); of paired differences, that of a paired t test.

    Raises:
        BadInput: fewer than two values, or level outside (0, 1).
    """
    from scipy.stats import t

    values = np.asarray(values, dtype=np.float64)
    if values.size < 2:
        raise BadInput(f"student_mean: {values.size} values; a spread needs two")
    _check_level(level)
    mean = float(values.mean())
    half = float(t.ppf(0.5 + level / 2.0, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return mean, mean - half, mean + half


@dataclass(frozen=True)
class Rate:
    """k successes of n, with its exact interval; n = 0 is a rate that was not tested."""

    k: int
    n: int

    def __post_init__(self) -> None:
        if self.n:
            _check_counts(self.k, self.n, 0.95)
        elif self.k:
            raise BadInput(f"Rate: {self.k} successes of no trial")

    @property
    def value(self) -> float | None:
        """k / n, or None when nothing was tested."""
        return self.k / self.n if self.n else None

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Clopper-Pearson interval, or None when nothing was tested."""
        return clopper_pearson(self.k, self.n, level) if self.n else None

    def __str__(self) -> str:
        if not self.n:
            return "not testable"
        low, high = clopper_pearson(self.k, self.n)
        return f"{self.k}/{self.n} = {self.k / self.n:.0%} [{low:.0%}, {high:.0%}]"

    def as_dict(self) -> dict[str, float | int | list[float] | None]:
        """Plain data for JSON."""
        interval = self.interval()
        return {
            "k": self.k,
            "n": self.n,
            "rate": self.value,
            "interval": list(interval) if interval else None,
        }


def _wilson(k: int, n: int, level: float) -> tuple[float, float]:
    from scipy.stats import norm

    z = float(norm.ppf(0.5 + level / 2.0))
    centre = (k + z * z / 2.0) / (n + z * z)
    half = z * np.sqrt(k * (n - k) / n + z * z / 4.0) / (n + z * z)
    return float(centre - half), float(centre + half)


def _tango_low(gain: int, loss: int, n: int, level: float) -> float:
    """Where (gain - loss - n δ) / sqrt(n (2 q + δ (1 - δ))) equals z, q the loss's likeliest rate given δ."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    if loss == n:
        return -1.0
    z = float(norm.ppf(0.5 + level / 2.0))

    def excess(delta: float) -> float:
        a = 2.0 * n
        b = -gain - loss + (2.0 * n - gain + loss) * delta
        c = -loss * delta * (1.0 - delta)
        q = (np.sqrt(max(b * b - 4.0 * a * c, 0.0)) - b) / (2.0 * a)
        return gain - loss - n * delta - z * np.sqrt(max(n * (2.0 * q + delta * (1.0 - delta)), 0.0))

    # The numerator vanishes at the observed difference, and so does the variance when no pair disagrees: the root that
    # is wanted lies below.
    return float(brentq(excess, -1.0, (gain - loss) / n - 1e-10, xtol=1e-13))


def _check_pairs(both: int, only_first: int, only_second: int, neither: int, level: float) -> int:
    counts = (both, only_first, only_second, neither)
    if min(counts) < 0 or sum(counts) < 1:
        raise BadInput(f"paired counts {counts}: none may be negative, and at least one pair is needed")
    _check_level(level)
    return sum(counts)


def check_counts(k: int, n: int) -> None:
    """Refuse counts that are impossible.

    Raises:
        BadInput: no trial, or k outside 0..n.
    """
    if n < 1 or not 0 <= k <= n:
        raise BadInput(f"{k} successes of {n} trials: n must be at least 1 and k within 0..n")


def _check_counts(k: int, n: int, level: float) -> None:
    check_counts(k, n)
    _check_level(level)


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise BadInput(f"level = {level}: must lie between 0 and 1")
