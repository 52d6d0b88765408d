"""Intervals and tests: every comparison that dexprior prints goes through here."""

from dexprior.stats.intervals import Rate, bootstrap_mean, clopper_pearson, newcombe, newcombe_paired
from dexprior.stats.tests import PairedRates, boschloo, fisher, mcnemar_exact, paired_permutation

__all__ = [
    "PairedRates",
    "Rate",
    "bootstrap_mean",
    "boschloo",
    "clopper_pearson",
    "fisher",
    "mcnemar_exact",
    "newcombe",
    "newcombe_paired",
    "paired_permutation",
]
