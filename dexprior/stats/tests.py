"""Tests of two rates or two samples, paired and unpaired; each returns its p value and says what was compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput
from dexprior.stats.intervals import check_counts, tango

__all__ = ["PairedRates", "fisher", "mcnemar_exact", "paired_permutation"]


@dataclass(frozen=True)
class PairedRates:
    """Two policies or worlds on the same task instances."""

    both: int
    only_first: int
    only_second: int
    neither: int

    def __post_init__(self) -> None:
        if min(self.both, self.only_first, self.only_second, self.neither) < 0:
            raise BadInput(f"{self}: no count may be negative")

    @classmethod
    def of(cls, first: Bool[np.ndarray, " n"], second: Bool[np.ndarray, " n"]) -> PairedRates:
        """Count outcomes of paired trials.

        Raises:
            BadInput: unequal lengths: the panels were not the same.
        """
        first, second = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
        if first.ndim != 1 or second.ndim != 1:
            raise BadInput(f"paired trials need two rows of outcomes, got shapes {first.shape} and {second.shape}")
        if first.shape != second.shape:
            raise BadInput(f"paired trials need equal panels, got {first.shape[0]} and {second.shape[0]} trials")
        return cls(
            both=int((first & second).sum()),
            only_first=int((first & ~second).sum()),
            only_second=int((~first & second).sum()),
            neither=int((~first & ~second).sum()),
        )

    @property
    def n(self) -> int:
        """Number of pairs."""
        return self.both + self.only_first + self.only_second + self.neither

    @property
    def difference(self) -> float:
        """Rate of the first minus rate of the second.

        Raises:
            BadInput: no pair.
        """
        if not self.n:
            raise BadInput("PairedRates: the difference of no pair")
        return (self.only_first - self.only_second) / self.n

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Tango's interval of the difference."""
        return tango(self.both, self.only_first, self.only_second, self.neither, level)

    def p_value(self) -> float:
        """Exact McNemar test."""
        return mcnemar_exact(self.only_first, self.only_second)


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided exact test on discordant pairs (McNemar 1947, binomial form).

    Raises:
        BadInput: a negative count.
    """
    from scipy.stats import binomtest

    if only_first < 0 or only_second < 0:
        raise BadInput(f"discordant pairs ({only_first}, {only_second}): none may be negative")
    discordant = only_first + only_second
    return 1.0 if discordant == 0 else float(binomtest(only_first, discordant, 0.5).pvalue)


def fisher(k1: int, n1: int, k2: int, n2: int) -> float:
    """Two-sided Fisher exact test of two independent rates.

    Raises:
        BadInput: a count that is impossible.
    """
    from scipy.stats import fisher_exact

    check_counts(k1, n1)
    check_counts(k2, n2)
    return float(fisher_exact([[k1, n1 - k1], [k2, n2 - k2]])[1])


def paired_permutation(
    first: Float[np.ndarray, " n"], second: Float[np.ndarray, " n"], *, draws: int = 10_000, seed: int = 0
) -> float:
    """Two-sided sign-flip test of a zero mean difference."""
    d = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    if d.ndim != 1 or len(d) == 0:
        raise BadInput(f"paired_permutation needs two equal, non-empty samples, got a difference of shape {d.shape}")
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(draws, len(d)))
    extreme = np.abs((signs * d).mean(axis=1)) >= abs(d.mean()) - 1e-15
    return float((extreme.sum() + 1) / (draws + 1))
