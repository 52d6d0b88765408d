"""Reference groups from the simulator, thresholds from other groups of it, and the comparison with a real one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.stats.correction import holm_columns
from dexprior.transfer.divergence.channel import Band, running_mean
from dexprior.transfer.divergence.onset import Onset, find_onset
from dexprior.transfer.divergence.settings import DivergenceConfig
from dexprior.transfer.divergence.signals import Signals, signals_of
from dexprior.types import Trace

__all__ = ["TIMING", "Divergence", "DivergenceDetector", "first_divergence", "groups_needed"]

TIMING = "timing"
"""Name of the derived channel: by how much a robot is later than the family's centre [s]."""
_MOVES = 0.05  # of the median information about timing: where less moves, nothing is read


@dataclass(frozen=True)
class Divergence:
    """First divergence of one channel."""

    channel: str
    t: float | None
    """Seconds at which it is certain; None when it was not seen before `seen_until`: a censored value, not an
    agreement for ever."""
    seen_until: float
    score: float
    """Largest statistic over the threshold of this channel; above 1 is an alarm where the family of channels allows."""
    p: float = 1.0
    """Probability of the family reaching as much: conformal, of this channel alone."""
    p_adjusted: float = 1.0
    """The same after Holm's correction over the channels."""
    onset: Onset | None = None
    """When it began."""


def groups_needed(channels: int, config: DivergenceConfig) -> int:
    """Reference groups below which no channel could ever raise an alarm."""
    return math.ceil((math.ceil(channels / config.alpha) - 1) / (1.0 - config.fit)) + 1


@dataclass(frozen=True)
class DivergenceDetector:
    """Compares groups of real repeats with a family of simulated ones.

    A group of the family raises an alarm in any channel with probability at most `alpha`: its rank among the groups
    that gave the threshold is uniform (split conformal; Vovk et al. 2005, Lei et al. 2018), and Holm's correction holds
    for any dependence between channels.
    """

    config: DivergenceConfig
    reference: Signals
    bands: dict[str, Band]
    thresholds: dict[str, Float[np.ndarray, " calibration"]]
    """Sorted largest statistics of the groups that were not used for the bands."""
    _null: dict[str, Float[np.ndarray, "group time n"]] = field(repr=False)
    _rates: Float[np.ndarray, "time n"] | None = field(repr=False)

    @classmethod
    def fit(cls, reference: Signals, config: DivergenceConfig | None = None) -> DivergenceDetector:
        """A detector fitted to groups over the family.

        Raises:
            BadInput: too few groups for any alarm.
        """
        config = config or DivergenceConfig()
        timing = config.timing in reference.values
        needed = groups_needed(len(reference.values) + timing, config)
        if reference.groups < needed:
            raise BadInput(
                f"{reference.groups} groups of simulated repeats: {needed} are needed for {len(reference.values)} "
                f"channel(s){' and the timing' if timing else ''} at alpha = {config.alpha:g}; simulate more, compare "
                "fewer channels, or raise alpha"
            )
        dt = float(reference.t[1] - reference.t[0])
        used = round(config.fit * reference.groups)
        rates = None
        units = dict(reference.units)
        values = dict(reference.values)
        if timing:
            first = reference.values[config.timing][:used]
            centre = np.median(first.mean(axis=1), axis=0)
            noise = (
                np.sqrt(first.var(axis=1, ddof=1).mean(axis=(0, 1))) if first.shape[1] > 1 else np.ones(first.shape[-1])
            )
            rates = _rates_of(centre, np.maximum(noise, 1e-9), dt)
            values[TIMING] = _timing(values[config.timing], centre, rates, dt, config)
            units[TIMING] = "s"
        bands = {name: Band(value[:used], units[name], dt, config) for name, value in values.items()}
        thresholds = {name: np.sort(band.run(values[name][used:])[:, -1]) for name, band in bands.items()}
        null = {name: band.deviation(values[name]) for name, band in bands.items()}
        return cls(config, reference, bands, thresholds, null, rates)

    def compare(self, real: Signals, *, seed: int = 0) -> list[list[Divergence]]:
        """First divergences of each group, by channel, earliest first.

        Raises:
            BadInput: other channels or another number of repeats than the reference has.
        """
        if set(real.values) != set(self.reference.values):
            raise BadInput(f"channels {sorted(real.values)} are compared with {sorted(self.reference.values)}")
        if real.repeats != self.reference.repeats:
            raise BadInput(
                f"{real.repeats} real repeats are compared with groups of {self.reference.repeats} simulated ones: "
                "simulate groups of as many"
            )
        values = self.with_timing(real)
        statistics = {name: band.statistic(values[name]) for name, band in self.bands.items()}
        last = np.searchsorted(self.reference.t, real.until + 1e-9) - 1
        return [
            self._verdicts(values, {name: s[g, : last[g] + 1] for name, s in statistics.items()}, g, seed)
            for g in range(real.groups)
        ]

    def with_timing(self, real: Signals) -> dict[str, Float[np.ndarray, "group repeat time n"]]:
        """Values by channel, with the derived one."""
        if self._rates is None:
            return dict(real.values)
        dt, source = float(self.reference.t[1] - self.reference.t[0]), self.config.timing
        lag = _timing(real.values[source], self.bands[source].centre, self._rates, dt, self.config)
        return real.values | {TIMING: lag}

    def _threshold(self, name: str, level: float) -> float:
        known = self.thresholds[name]
        rank = int(level * (len(known) + 1) + 1e-9)
        return float(known[len(known) - rank]) if rank else np.inf

    def _verdicts(
        self, values: dict[str, np.ndarray], statistics: dict[str, np.ndarray], g: int, seed: int
    ) -> list[Divergence]:
        names, t, rng = list(self.bands), self.reference.t, np.random.default_rng([seed, g])
        runs = {name: np.maximum.accumulate(statistics[name]) for name in names}
        p = np.stack([_p_values(self.thresholds[name], runs[name]) for name in names])
        adjusted = holm_columns(p)  # at each moment, of what is known by then: no alarm looks back
        found = []
        for k, name in enumerate(names):
            run, certain = runs[name], adjusted[k] <= self.config.alpha
            alarm = int(certain.argmax()) if certain[-1] else None
            onset = None
            if alarm is not None:
                source = self.config.timing if name == TIMING else name
                band = self.bands[source]
                deviation, noise = band.deviation(values[source][g : g + 1])[0], band.noise / band.repeats
                usual = statistics[name][: alarm + 1] < 1.0
                stop = min(alarm, int(np.flatnonzero(usual).max(initial=0)) + self.config.onset_samples)
                onset = find_onset(t, deviation, self._null[source], noise, stop, alarm, self.config, rng)
            found.append(
                Divergence(
                    channel=name,
                    t=None if alarm is None else float(t[alarm]),
                    seen_until=float(t[len(run) - 1]),
                    score=float(run[-1] / max(self._threshold(name, self.config.alpha / len(names)), 1e-12)),
                    p=float(p[k, -1]),
                    p_adjusted=float(adjusted[k, -1]),
                    onset=onset,
                )
            )
        return sorted(found, key=lambda d: (d.t is None, d.t if d.t is not None else -d.score))


def first_divergence(
    simulated: Sequence[Sequence[Trace]],
    real: Sequence[Trace],
    channels: Sequence[str],
    config: DivergenceConfig | None = None,
    *,
    seed: int = 0,
) -> list[Divergence]:
    """First divergence of real repeats from a family of simulated ones, earliest channel first.

    Args:
        simulated: groups over the family, each of as many repeats as are real.
        real: repeats of one task instance on one robot; with a single one, noise and difference cannot be told apart
            but by the family's own spread.
        channels: names; a privileged channel is refused, since no diagnosis may rest on it.
        config: settings.
        seed: of the onset's bootstrap.

    Raises:
        UnknownName: a channel that a trace does not have.
        BadInput: what `signals_of` and `DivergenceDetector` refuse.
    """
    reference = signals_of(simulated, channels)
    command = simulated[0][0].channels.get("command")
    found = signals_of([real], channels, like=reference, reference=command)
    return DivergenceDetector.fit(reference, config).compare(found, seed=seed)[0]


def _p_values(known: Float[np.ndarray, " calibration"], run: Float[np.ndarray, " time"]) -> Float[np.ndarray, " time"]:
    """Conformal, of the largest statistic up to each moment among those of whole groups; it never grows."""
    return (1 + len(known) - np.searchsorted(known, run, side="left")) / (len(known) + 1)


def _rates_of(
    centre: Float[np.ndarray, "time n"], noise: Float[np.ndarray, " n"], dt: float
) -> Float[np.ndarray, "time n"]:
    """Rates of the family's centre, over the variance of its noise."""
    return np.gradient(centre, dt, axis=0) / noise**2


def _timing(
    x: Float[np.ndarray, "group repeat time n"],
    centre: Float[np.ndarray, "time n"],
    weighted: Float[np.ndarray, "time n"],
    dt: float,
    config: DivergenceConfig,
) -> Float[np.ndarray, "group repeat time 1"]:
    """Lag behind the centre, to first order: -sum(c' (x - c)) / sum(c'^2) over a window; 0 where nothing moves."""
    groups, repeats = x.shape[:2]
    length = max(round(config.lag_window / dt), 1)
    rate = np.gradient(centre, dt, axis=0)
    above = running_mean(-((x - centre) * weighted).sum(axis=-1).reshape(groups * repeats, -1, 1), length)
    below = running_mean((rate * weighted).sum(axis=-1)[None, :, None], length)
    enough = np.maximum(below, _MOVES * np.median(below))
    lag = np.divide(above, enough, out=np.zeros_like(above), where=enough > 0)
    return lag.reshape(groups, repeats, -1, 1)
