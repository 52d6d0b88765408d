"""One channel: where the family lies at each moment, and how far outside of it a group of repeats has been so far.

Two series are watched: the deviation of a group's mean from the family's median, which shows what differs from the
start on, and its innovations, which show what changes (`innovations`). Each is divided by the family's own spread s(t),
and three things are looked at, each on its own scale: the largest magnitude of single samples and of running means (a
sup statistic at several resolutions), and a two-sided CUSUM (Page 1954). Every one is divided by what the family itself
reaches in nine of ten groups, and the largest counts. Repeats that scatter more than the family's widen s.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dexprior.stats.robust import MAD_TO_STD
from dexprior.transfer.divergence.innovations import Innovations
from dexprior.transfer.divergence.settings import DivergenceConfig

__all__ = ["Band", "running_mean"]

_SMOOTH = 9  # samples over which the spread is smoothed
_FLOOR = 0.3  # of the spread's median over time: a band may not vanish where the family agrees by chance
_BALANCE = 0.9  # quantile by which the statistics are brought to one scale
_RESOLUTION = {"m": 1e-4, "rad": 1e-5, "N": 1e-3, "N m": 1e-4, "m/s": 1e-4, "rad/s": 1e-4, "s": 1e-5}
"""Smallest spread by unit: below it lies rounding."""
_FINEST = 1e-3  # spread of innovations, in standard deviations of the noise


class Band:
    """Where the family lies; made from some groups, applied to others.

    Args:
        x: values of the groups that it is made from.
        unit: of the channel.
        dt: seconds between samples.
        config: settings.
    """

    def __init__(
        self, x: Float[np.ndarray, "group repeat time n"], unit: str, dt: float, config: DivergenceConfig
    ) -> None:
        means = x.mean(axis=1)
        self.centre = np.median(means, axis=0)
        self.repeats = x.shape[1]
        self.noise = x.var(axis=1, ddof=1).mean(axis=(0, 1)) if self.repeats > 1 else np.zeros(x.shape[-1])
        """Variance of a sample between repeats."""
        self._lengths = tuple(max(round(seconds / dt), 1) for seconds in config.averages)
        self._allowance = config.allowance
        floor = _RESOLUTION.get(unit, 1e-9)
        deviation = means - self.centre
        self._own = np.maximum(np.sqrt(self.noise / self.repeats if self.repeats > 1 else _white(means)), floor)
        self._innovations = Innovations(deviation, self._own)
        self._spreads = [_spread(running_mean(deviation, length), floor) for length in self._lengths]
        fresh = self._innovations.of(deviation)
        self._fresh_spreads = [_spread(running_mean(fresh, length), _FINEST) for length in self._lengths]
        self._scales = np.maximum([np.quantile(s.max(axis=1), _BALANCE) for s in self._statistics(x)], 1e-12)

    @property
    def spread(self) -> Float[np.ndarray, "time n"]:
        """Standard deviation of the mean of a group of the family, at each moment."""
        return self._spreads[0]

    def deviation(self, x: Float[np.ndarray, "group repeat time n"]) -> Float[np.ndarray, "group time n"]:
        """Deviation of each group's mean from the centre."""
        return x.mean(axis=1) - self.centre

    def run(self, x: Float[np.ndarray, "group repeat time n"]) -> Float[np.ndarray, "group time"]:
        """Largest statistic up to each moment; about 1 is what the family reaches."""
        return np.maximum.accumulate(self.statistic(x), axis=1)

    def statistic(self, x: Float[np.ndarray, "group repeat time n"]) -> Float[np.ndarray, "group time"]:
        """Largest of the statistics at each moment, each over what nine of ten groups of the family ever reach."""
        return np.stack([s / scale for s, scale in zip(self._statistics(x), self._scales)]).max(axis=0)

    def _statistics(self, x: Float[np.ndarray, "group repeat time n"]) -> list[Float[np.ndarray, "group time"]]:
        deviation = self.deviation(x)
        # repeats of the compared robot that scatter more than the family's make its mean less certain
        more = np.zeros((len(x), 1, x.shape[-1]))
        if self.repeats > 1:
            scatter = x.var(axis=1, ddof=1).mean(axis=1)
            more = (np.maximum(scatter - self.noise, 0.0) / x.shape[1])[:, None]
        fresh = self._innovations.of(deviation)
        return [
            *self._excesses(deviation, self._spreads, more),
            *self._excesses(fresh, self._fresh_spreads, more / self._own**2),
        ]

    def _excesses(
        self,
        series: Float[np.ndarray, "group time n"],
        spreads: list[Float[np.ndarray, "time n"]],
        more: Float[np.ndarray, "group 1 n"],
    ) -> list[Float[np.ndarray, "group time"]]:
        """Excesses of running means, then of CUSUM; `more` is what variance a sample has beyond the family's."""
        found = []
        for length, spread in zip(self._lengths, spreads):
            wide = np.sqrt(spread**2 + more / length)
            found.append((np.abs(running_mean(series, length)) / wide).max(axis=2))
        z = series / np.sqrt(spreads[0] ** 2 + more)
        sums = []
        for sign in (1.0, -1.0):
            walk = np.cumsum(sign * z - self._allowance, axis=1)
            sums.append((walk - np.minimum.accumulate(np.minimum(walk, 0.0), axis=1)).max(axis=2))
        return [*found, np.maximum(*sums)]


def running_mean(x: Float[np.ndarray, "group time n"], length: int) -> Float[np.ndarray, "group time n"]:
    """Mean over the last so many samples, over fewer at the start."""
    if length == 1:
        return x
    total = np.cumsum(np.concatenate([np.zeros_like(x[:, :1]), x], axis=1), axis=1)
    stop = np.arange(1, x.shape[1] + 1)
    start = np.maximum(stop - length, 0)
    return (total[:, stop] - total[:, start]) / (stop - start)[None, :, None]


def _white(means: Float[np.ndarray, "group time n"]) -> Float[np.ndarray, " n"]:
    """Variance of what differs from sample to sample, where there is no repeat to tell it by."""
    bend = np.diff(means, n=2, axis=1)
    return (MAD_TO_STD * np.median(np.abs(bend), axis=(0, 1))) ** 2 / 6.0


def _spread(deviation: Float[np.ndarray, "group time n"], floor: float) -> Float[np.ndarray, "time n"]:
    """Robust standard deviation over groups at each moment, smoothed over time."""
    raw = MAD_TO_STD * np.median(np.abs(deviation), axis=0)
    half = min(_SMOOTH, len(raw)) // 2
    padded = np.pad(raw, ((half, half), (0, 0)), mode="edge")
    smooth = np.stack([np.convolve(column, np.ones(2 * half + 1) / (2 * half + 1), "valid") for column in padded.T], 1)
    return np.maximum(smooth, np.maximum(_FLOOR * np.median(smooth, axis=0), floor))
