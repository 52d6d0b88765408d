"""Noise floor: how far an arm is from itself when it is commanded the same again.

Repeats are found in the command alone, by its autocorrelation, and aligned by the command's phase; measurements never
decide what is a repeat. Centre and scale of each phase are robust (median, median absolute deviation with the
small-sample factors of Croux and Rousseeuw 1992).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dexprior.stats.robust import MAD_TO_STD
from dexprior.transfer.arm.alignment import Estimate, expand
from dexprior.transfer.arm.settings import ArmReportConfig

__all__ = ["NoiseFloor", "block_length", "find_period", "noise_floor"]

_SHORTEST = 0.1  # [s] of a period
_ALIKE = 0.9  # autocorrelation at a period
_ORIGINS = 12  # phases at which cutting into repeats is tried
_SHIFT = 0.05  # [s] by which one repeat may come early or late
_PARTS = 8  # of the phase, for the interval
_SMALL = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}


@dataclass(frozen=True, kw_only=True)
class NoiseFloor:
    """One joint in one motion."""

    repeats: int
    period: float | None
    """Period of the command [s]."""
    scale: Estimate | None
    """Standard deviation from repeat to repeat, mean over the phase, not below what the encoder's steps
    alone give [rad]; None with fewer than two repeats."""
    worst: float | None
    """Its 95th percentile over the phase [rad]."""
    reason: str
    """Why there is none; empty where there is one."""


def find_period(t: Float[np.ndarray, " time"], command: Float[np.ndarray, " time"]) -> float | None:
    """Period of a command [s], below one sample; None where it does not repeat.

    The first peak of the normalized autocorrelation above 0.9 after it has fallen below 0.5; later multiples of it
    make it finer.
    """
    dt = float(t[1] - t[0])
    x = command - command.mean()
    n = len(x)
    if np.ptp(x) < 1e-9 or n < 2 * _SHORTEST / dt:
        return None
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(x, size)
    product = np.fft.irfft(spectrum * spectrum.conj(), size)[:n]
    energy = np.concatenate([[0.0], np.cumsum(x * x)])
    shifts = np.arange(n)
    norm = np.sqrt(np.maximum(energy[n - shifts] * (energy[n] - energy[shifts]), 1e-18))
    alike = np.where(shifts <= 0.9 * n, product / norm, -1.0)
    fallen = int(np.argmax(alike < 0.5)) if (alike < 0.5).any() else n
    first = max(fallen, int(_SHORTEST / dt))
    inner = alike[1:-1]
    peaks = np.flatnonzero((inner >= alike[:-2]) & (inner > alike[2:]) & (inner > _ALIKE)) + 1
    peaks = peaks[peaks >= first]
    if not len(peaks):
        return None
    period = _vertex(alike, int(peaks[0]))
    for multiple in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64):
        guess = period * multiple
        near = peaks[np.abs(peaks - guess) < max(0.02 * period * multiple, 2.0)]
        if guess > 0.8 * n or not len(near):
            break
        period = _vertex(alike, int(near[np.argmin(np.abs(near - guess))])) / multiple
    return period * dt


def noise_floor(
    t: Float[np.ndarray, " time"],
    command: Float[np.ndarray, " time"],
    measured: Float[np.ndarray, " time"],
    settings: ArmReportConfig,
    *,
    resolution: float,
    seed: int = 0,
) -> NoiseFloor:
    """Scatter of one joint from repeat to repeat; the first `settings.settle` seconds are left out."""
    used = t >= t[0] + settings.settle
    t, command, measured = t[used], command[used], measured[used]
    if np.ptp(command) < settings.moving:
        return NoiseFloor(repeats=1, period=None, scale=None, worst=None, reason="no noise floor: not commanded")
    period = find_period(t, command)
    if period is None:
        return NoiseFloor(repeats=1, period=None, scale=None, worst=None, reason="no noise floor: one repeat")
    kept = _cut(t, command, measured, period, settings.alike * float(np.ptp(command)))
    if len(kept) < 2:
        return NoiseFloor(repeats=1, period=period, scale=None, worst=None, reason="no noise floor: one repeat")
    scale = np.maximum(_scale(kept), resolution / np.sqrt(12))
    return NoiseFloor(
        repeats=len(kept), period=period, scale=_interval(kept, scale, settings, seed),
        worst=float(np.quantile(scale, 0.95)), reason="",
    )  # fmt: skip


def block_length(floor: NoiseFloor, t: Float[np.ndarray, " time"], settings: ArmReportConfig) -> float:
    """Length of the bootstrap's blocks [s]: as set, or a whole period where the command repeats at least eight
    times."""
    if floor.period is not None and floor.period > settings.block and floor.period * 8 <= t[-1] - t[0]:
        return floor.period
    return settings.block


def _interval(
    kept: Float[np.ndarray, "repeat phase"], scale: Float[np.ndarray, " phase"], settings: ArmReportConfig, seed: int
) -> Estimate:
    """The mean scale with the wider of two bootstrap intervals: over repeats, and over eighths of the phase.

    Over repeats each one's distance to the centre is drawn, and not the repeat: twins would make the floor too low. Two
    repeats are equally far from their centre, so that only the phase says anything there.
    """
    rng = np.random.default_rng(seed)
    value = float(np.mean(scale))
    ends = [value, value]
    distance = np.mean(np.abs(kept - np.median(kept, axis=0)), axis=1)
    parts = np.array([part.mean() for part in np.array_split(scale, min(_PARTS, len(scale)))])
    for pieces in (distance, parts):
        drawn = pieces[rng.integers(len(pieces), size=(settings.draws, len(pieces)))].mean(axis=1)
        ratio = drawn / max(float(pieces.mean()), 1e-12)
        found = expand(value, value * ratio, settings.level, len(pieces))
        ends = [min(ends[0], max(found.low, 0.0)), max(ends[1], found.high)]
    return Estimate(value, ends[0], ends[1])


def _cut(
    t: Float[np.ndarray, " time"],
    command: Float[np.ndarray, " time"],
    measured: Float[np.ndarray, " time"],
    period: float,
    tolerance: float,
) -> Float[np.ndarray, "repeat phase"]:
    """Measurements of all whole periods whose command is that of the others, at equal phases."""
    steps = max(round(period / (t[1] - t[0])), 4)
    phase = np.arange(steps) / steps
    best = np.zeros((0, steps))
    for origin in np.arange(_ORIGINS) / _ORIGINS * period:
        count = int((t[-1] - t[0] - origin) / period + 1e-9)
        if count < 2:
            continue
        at = t[0] + origin + (np.arange(count)[:, None] + phase) * period
        for _ in range(2):
            sent = np.interp(at, t, command)
            centre = np.median(sent, axis=0)
            slope = np.gradient(centre, period / steps)
            # the shift that brings each repeat's command onto the others' (one step of Gauss and Newton)
            at += np.clip(-((sent - centre) @ slope) / max(float(slope @ slope), 1e-12), -_SHIFT, _SHIFT)[:, None]
        sent = np.interp(at, t, command)
        same = np.sqrt(np.mean((sent - np.median(sent, axis=0)) ** 2, axis=1)) <= tolerance
        if same.sum() > len(best):
            best = _sampled(at[same], t, measured, period / steps)
    return best


def _sampled(
    at: Float[np.ndarray, "repeat phase"],
    t: Float[np.ndarray, " time"],
    measured: Float[np.ndarray, " time"],
    step: float,
) -> Float[np.ndarray, "repeat phase"]:
    """Measurements nearest to these times, moved there along the slope of the repeats' median.

    Interpolating between two samples would average their noise: white noise would seem 18 % smaller than it is.
    """
    slope = np.gradient(np.median(np.interp(at, t, measured), axis=0), step)
    near = np.clip(np.rint((at - t[0]) / (t[1] - t[0])).astype(np.int64), 0, len(t) - 1)
    return measured[near] - slope * (t[near] - at)


def _scale(kept: Float[np.ndarray, "repeat phase"]) -> Float[np.ndarray, " phase"]:
    n = len(kept)
    factor = _SMALL.get(n, n / (n - 0.8))
    return factor * MAD_TO_STD * np.median(np.abs(kept - np.median(kept, axis=0)), axis=0)


def _vertex(values: Float[np.ndarray, " n"], k: int) -> float:
    left, here, right = values[k - 1], values[k], values[k + 1]
    bend = left - 2 * here + right
    return k + (0.5 * float((left - right) / bend) if bend < 0 else 0.0)
