"""Intervals and tests: every comparison that dexprior prints goes through here."""

from dexprior.stats.boschloo import boschloo
from dexprior.stats.calibration import Calibration, calibrate, posterior_ranks
from dexprior.stats.comparison import Comparison, Family, compare_pairs, compare_rates
from dexprior.stats.correction import benjamini_hochberg, holm
from dexprior.stats.intervals import (
    Rate,
    bootstrap_mean,
    clopper_pearson,
    newcombe,
    newcombe_paired,
    student_mean,
    tango,
)
from dexprior.stats.nested import bootstrap_crossed, bootstrap_nested
from dexprior.stats.posterior import probability_better, probability_better_paired
from dexprior.stats.power import detectable, detectable_paired, power_boschloo, power_mcnemar
from dexprior.stats.sequential import (
    Evidence,
    confidence_sequence,
    pairs_differ,
    rate_above,
    rate_below,
    rates_differ,
)
from dexprior.stats.tests import PairedRates, fisher, mcnemar_exact, paired_permutation

__all__ = [
    "Calibration",
    "Comparison",
    "Evidence",
    "Family",
    "PairedRates",
    "Rate",
    "benjamini_hochberg",
    "bootstrap_mean",
    "bootstrap_crossed",
    "bootstrap_nested",
    "boschloo",
    "calibrate",
    "clopper_pearson",
    "compare_pairs",
    "compare_rates",
    "confidence_sequence",
    "detectable",
    "detectable_paired",
    "fisher",
    "holm",
    "mcnemar_exact",
    "newcombe",
    "newcombe_paired",
    "paired_permutation",
    "pairs_differ",
    "posterior_ranks",
    "power_boschloo",
    "power_mcnemar",
    "probability_better",
    "probability_better_paired",
    "rate_above",
    "rate_below",
    "rates_differ",
    "student_mean",
    "tango",
]
