"""What a log's time stamps say of the link: rate, jitter, and packets that are missing.

Steps d_k between stamps have two kinds of spread. A packet that is late by e_k leaves the grid alone: d_k = period +
e_k - e_(k-1), so that neighbouring steps are correlated with -var(e). A loop that takes longer by g_k shifts all that
follows: those are uncorrelated. Hence var(e) = -c_1 and var(g) = c_0 + 2 c_1, with the autocovariances c of d; their
intervals are those of batch means. A step of about m periods is a burst of m - 1 lost packets (Gilbert 1960), with the
probabilities start = bursts / received and stop = bursts / lost, and the intervals of Clopper and Pearson 1934.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.stats import beta, norm
from scipy.stats import t as student

from dexprior.transfer.noise.estimates import Fitted, found, hidden
from dexprior.transfer.noise.settings import NoiseFitConfig

__all__ = ["fit_stamps", "unbroken"]

_BATCHES = 24
_EVEN = 1e-6  # spread of the steps, relative, below which they were computed and not taken
_NEAR = 0.2  # [periods] distance from a whole number within which a gap is of lost packets


def fit_stamps(t: Float[np.ndarray, " time"], settings: NoiseFitConfig) -> tuple[Fitted, ...]:
    """Rate, jitter, loop's jitter, start and stop of bursts; latency, which one clock never tells.

    Args:
        t: time stamps, rising [s].
        settings: level, and what counts as steady.
    """
    steps = np.diff(t)
    period = float(np.median(steps))
    latency = hidden("latency", "s", "one clock does not tell how long a packet was on its way")
    if steps.std() < _EVEN * period:
        reason = "the stamps are even to the last digit: they were computed, not taken"
        return (
            hidden("rate", "Hz", reason), latency, hidden("jitter", "s", reason), hidden("loop_jitter", "s", reason),
            hidden("start", "1", reason), hidden("stop", "1", reason),
        )  # fmt: skip
    usual = steps[steps < 1.5 * period]
    missing = _missing(t, period)
    jitter, loop = _jitter(steps - (1 + np.maximum(np.round(missing), 0)) * period, settings)
    start, stop = _bursts(missing, float(usual.std()) / period, settings)
    return (_rate(usual, settings.level), latency, jitter, loop, start, stop)


def unbroken(t: Float[np.ndarray, " time"]) -> slice:
    """The longest stretch of a log without a gap."""
    steps = np.diff(t)
    cuts = np.concatenate([[0], np.flatnonzero(steps > 1.5 * np.median(steps)) + 1, [len(t)]])
    k = int(np.argmax(np.diff(cuts)))
    return slice(int(cuts[k]), int(cuts[k + 1]))


def _rate(usual: Float[np.ndarray, " step"], level: float) -> Fitted:
    """Rate of the median step; order statistics, with as many independent steps as their correlation leaves."""
    centred = usual - usual.mean()
    rho = float(np.clip(np.mean(centred[1:] * centred[:-1]) / max(float(np.mean(centred**2)), 1e-300), 0.0, 0.99))
    effective = len(usual) * (1 - rho) / (1 + rho)
    half = norm.ppf(0.5 + level / 2) * 0.5 / np.sqrt(effective)
    low, middle, high = np.quantile(usual, [max(0.5 - half, 0.0), 0.5, min(0.5 + half, 1.0)])
    return found("rate", "Hz", 1 / middle, 1 / high, 1 / low)


def _missing(t: Float[np.ndarray, " time"], period: float) -> Float[np.ndarray, " step"]:
    """Packets that are missing in each step, in periods: 0 for short steps, else by when the next packets come.

    A packet that is late alone leaves those behind it in time: the least of what it and the next two say counts.
    """
    behind = np.concatenate([t, t[-1] + period * np.arange(1, 3)])
    counts = np.min([(behind[1 + j : len(t) + j] - t[:-1]) / period - (1 + j) for j in range(3)], axis=0)
    return np.where(np.diff(t) < 1.5 * period, 0.0, counts)


def _jitter(off: Float[np.ndarray, " step"], settings: NoiseFitConfig) -> tuple[Fitted, Fitted]:
    off = off - off.mean()
    square, neighbours = off[1:] ** 2, off[1:] * off[:-1]
    return (
        _spread("jitter", -neighbours, settings, "the clock shows no packets that are late alone"),
        _spread("loop_jitter", square + 2 * neighbours, settings, "the clock shows no loop that takes longer"),
    )


def _spread(name: str, terms: np.ndarray, settings: NoiseFitConfig, reason: str) -> Fitted:
    batches = np.array([part.mean() for part in np.array_split(terms, _BATCHES)])
    error = float(batches.std(ddof=1)) / np.sqrt(_BATCHES)
    half = float(student.ppf(0.5 + settings.level / 2, _BATCHES - 1)) * error
    value = float(terms.mean())
    if value <= max(half, settings.distinct * error):
        return hidden(name, "s", reason)
    return found(name, "s", np.sqrt(value), np.sqrt(value - half), np.sqrt(value + half))


def _bursts(missing: Float[np.ndarray, " step"], spread: float, settings: NoiseFitConfig) -> tuple[Fitted, Fitted]:
    if spread > settings.steady:
        reason = f"steps vary by {spread:.0%} of the period: a late packet and a lost one look alike"
        return hidden("start", "1", reason), hidden("stop", "1", reason)
    gaps = missing[missing > _NEAR]
    near = np.abs(gaps - np.round(gaps)) < _NEAR
    if len(gaps) and near.mean() < 0.8:
        reason = f"{int((~near).sum())} of {len(gaps)} gaps are no whole number of periods: a loop that stalls"
        return hidden("start", "1", reason), hidden("stop", "1", reason)
    gaps = np.round(gaps)
    bursts, lost, tail = int((gaps > 0).sum()), int(gaps.sum()), (1 - settings.level) / 2
    start = found("start", "1", bursts / len(missing), *_proportion(bursts, len(missing), tail))
    if not bursts:
        return start, hidden("stop", "1", "no packet is missing")
    return start, found("stop", "1", bursts / lost, *_proportion(bursts, lost, tail))


def _proportion(k: int, n: int, tail: float) -> tuple[float, float]:
    low = float(beta.ppf(tail, k, n - k + 1)) if k else 0.0
    return low, float(beta.ppf(1 - tail, k + 1, n - k)) if k < n else 1.0
