"""Tests that may be looked at after every trial and stopped as soon as they are decided.

Each is a product of likelihood ratios whose expectation under the hypothesis never exceeds one, so the probability that
it ever reaches 1/alpha is at most alpha (Ville 1939), however often one looks and for whatever reason one stops. Data
have the trials along the last axis, in the order in which they were run; leading axes are independent experiments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from dexprior.errors import BadInput

__all__ = ["Evidence", "confidence_sequence", "pairs_differ", "rate_above", "rate_below", "rates_differ"]

_PSEUDO = 0.18
"""Successes and failures that each plug-in rate starts with; the choice of Turner et al. 2024."""


@dataclass(frozen=True)
class Evidence:
    """What has been shown after each look."""

    log_e: Float[np.ndarray, "*experiment look"]
    """Natural logarithm of the evidence against the hypothesis."""

    def p_value(self) -> Float[np.ndarray, "*experiment look"]:
        """Valid at every look at once: one over the largest evidence so far."""
        return np.exp(-np.maximum(np.maximum.accumulate(self.log_e, axis=-1), 0.0))

    def stop(self, alpha: float = 0.05) -> Int[np.ndarray, "*experiment"]:
        """Looks (from 1) until the hypothesis is rejected; 0 where it never is.

        Raises:
            BadInput: alpha outside (0, 1).
        """
        if not 0.0 < alpha < 1.0:
            raise BadInput(f"alpha = {alpha}: must lie between 0 and 1")
        # a rounding's width below 1/alpha counts as reached
        rejected = self.log_e >= -np.log(alpha) - 1e-12
        return np.where(rejected.any(axis=-1), rejected.argmax(axis=-1) + 1, 0)


def rate_above(outcomes: Bool[np.ndarray, "*experiment look"], bound: float) -> Evidence:
    """Evidence that a rate exceeds a bound, against "it is at most the bound".

    Mixture of the likelihood ratios p against bound over p uniform in (bound, 1): each has an expectation of at most
    one under every rate up to the bound (Robbins 1970; Howard et al. 2021, "Time-uniform, nonparametric, nonasymptotic
    confidence sequences", on conjugate mixtures).

    Raises:
        BadInput: no trial, or a bound outside (0, 1).
    """
    if not 0.0 < bound < 1.0:
        raise BadInput(f"bound = {bound}: must lie between 0 and 1")
    k, n = _counts(outcomes)
    # The mixture is B(k + 1, n - k + 1) P(Beta > bound), and that tail is P(Bin(n + 1, bound) <= k): all but the sum of
    # the binomial's terms over its largest cancels.
    return Evidence(_log_sum_over_last(k, n + 1, bound) - np.log(n + 1 - k))


def rate_below(outcomes: Bool[np.ndarray, "*experiment look"], bound: float) -> Evidence:
    """Evidence that a rate is below a bound: `rate_above` of the failures."""
    return rate_above(~np.asarray(outcomes, dtype=bool), 1.0 - bound)


def pairs_differ(first: Bool[np.ndarray, "*experiment look"], second: Bool[np.ndarray, "*experiment look"]) -> Evidence:
    """Evidence that two paired rates differ: a sequential McNemar test.

    Under no difference the pairs that disagree split like a fair coin; mixture over the coin's rate, uniform in (0, 1).

    Raises:
        BadInput: panels of different sizes, or no pair.
    """
    from scipy.special import betaln

    first, second = _two(first, second)
    gain, loss = np.cumsum(first & ~second, axis=-1), np.cumsum(~first & second, axis=-1)
    return Evidence(betaln(gain + 1.0, loss + 1.0) + (gain + loss) * np.log(2.0))


def rates_differ(first: Bool[np.ndarray, "*experiment look"], second: Bool[np.ndarray, "*experiment look"]) -> Evidence:
    """Evidence that two independent rates differ, one trial of each a look.

    Turner, Ly and Grünwald 2024, "Generic E-variables for exact sequential k-sample tests that allow for optional
    stopping": rates p1, p2 guessed from earlier looks, against their mean for both. Whatever the common
    rate, the expectation of a look's factor is at most one, by the means' inequality.

    Raises:
        BadInput: samples of different sizes, or no trial.
    """
    first, second = _two(first, second)
    before = np.arange(first.shape[-1])
    p1, p2 = (
        ((np.cumsum(x, axis=-1) - x) + _PSEUDO) / (before + 2.0 * _PSEUDO)
        for x in (first.astype(int), second.astype(int))
    )
    common = 0.5 * (p1 + p2)
    ratio = np.where(first, p1 / common, (1.0 - p1) / (1.0 - common)) * np.where(
        second, p2 / common, (1.0 - p2) / (1.0 - common)
    )
    return Evidence(np.cumsum(np.log(ratio), axis=-1))


def confidence_sequence(
    outcomes: Bool[np.ndarray, "*experiment look"], level: float = 0.95
) -> tuple[Float[np.ndarray, "*experiment look"], Float[np.ndarray, "*experiment look"]]:
    """Intervals (low, high) of a rate after each trial, all of which hold it at once with probability >= level.

    The rates that a uniform mixture has not rejected so far. With probability at most 1 - level the intersection of all
    intervals so far runs empty, low above high.

    Raises:
        BadInput: no trial, or level outside (0, 1).
    """
    from scipy.special import betaln, xlog1py, xlogy

    if not 0.0 < level < 1.0:
        raise BadInput(f"level = {level}: must lie between 0 and 1")
    k, n = _counts(outcomes)
    reach = betaln(k + 1.0, n - k + 1.0) + np.log1p(-level)  # log-likelihoods up to here are rejected

    def end(outer: float) -> Float[np.ndarray, "*experiment look"]:
        """Bisects between the observed rate, which is never rejected, and an end of [0, 1]."""
        inside, outside = k / n, np.full(k.shape, outer)
        for _ in range(50):
            middle = 0.5 * (inside + outside)
            rejected = reach >= xlogy(k, middle) + xlog1py(n - k, -middle)
            inside, outside = np.where(rejected, inside, middle), np.where(rejected, middle, outside)
        return outside

    return np.maximum.accumulate(end(0.0), axis=-1), np.minimum.accumulate(end(1.0), axis=-1)


def _log_sum_over_last(k: np.ndarray, m: np.ndarray, rate: float) -> np.ndarray:
    """log of P(Bin(m, rate) <= k) / P(Bin(m, rate) = k), also where both underflow."""
    from scipy.stats import binom

    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.asarray(binom.logcdf(k, m, rate) - binom.logpmf(k, m, rate))
    deep = ~np.isfinite(ratio) | (binom.cdf(k, m, rate) < 1e-280)
    # There, thirty deviations below the mean, the terms fall like a geometric series.
    k, m = k[deep].astype(np.float64), m[deep].astype(np.float64)
    term, total = np.ones(k.shape), np.ones(k.shape)
    for j in range(400):
        term = term * np.maximum(k - j, 0.0) * (1.0 - rate) / ((m - k + j + 1.0) * rate)
        total += term
    ratio[deep] = np.log(total)
    return ratio


def _counts(outcomes: Bool[np.ndarray, "*experiment look"]) -> tuple[np.ndarray, np.ndarray]:
    """Successes and trials after each look."""
    outcomes = np.asarray(outcomes, dtype=bool)
    if outcomes.ndim == 0 or outcomes.shape[-1] == 0:
        raise BadInput(f"outcomes of shape {outcomes.shape}: at least one trial is needed")
    k = np.cumsum(outcomes, axis=-1)
    return k, np.broadcast_to(np.arange(1, outcomes.shape[-1] + 1), k.shape)


def _two(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if first.shape != second.shape or first.ndim == 0 or first.shape[-1] == 0:
        raise BadInput(f"outcomes of shapes {first.shape} and {second.shape}: equal ones with a trial are needed")
    return first, second
