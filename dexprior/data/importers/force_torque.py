"""Force-torque recordings as CSV, brought onto the clock of a video or a trajectory.

Two ways: by a clock that both share, or by cross-correlation with a signal of the trajectory that must rise and fall
with the force (fingertip forces, or how hard the wrist is accelerated). Cross-correlation always has a maximum, so
what matters is how far it stands out: a flat or a periodic signal has many lags that fit about as well, and is
refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from jaxtyping import Float

from dexprior.config import Gt, Le, config
from dexprior.errors import BadInput
from dexprior.geometry.timing import resample
from dexprior.reading import read_csv
from dexprior.types import WrenchTrack

__all__ = ["ForceTorque", "Lag", "SynchronisationConfig", "find_lag", "onto_clock", "read_force_torque"]

_LATEST, _STRONGEST = 1e19, 1e6  # of a clock, in ns; [N], [N m]
_AXES = ("fx", "fy", "fz", "tx", "ty", "tz")


@config
class SynchronisationConfig:
    """When a lag found by cross-correlation is believed."""

    rate: Annotated[float, Gt(0)] = 200.0
    """Samples a second at which both signals are compared [Hz]."""
    max_lag: Annotated[float, Gt(0)] = 2.0
    """Largest lag that is considered [s]."""
    min_peak: Annotated[float, Gt(0), Le(1)] = 0.5
    """Smallest correlation at the best lag."""
    min_sharpness: Annotated[float, Gt(1)] = 1.15
    """Smallest ratio of the best correlation to the best one outside its own peak."""
    min_overlap: Annotated[float, Gt(0), Le(1)] = 0.5
    """Smallest share of the shorter signal that must overlap at a lag."""


@dataclass(frozen=True, kw_only=True)
class ForceTorque:
    """Samples of one sensor, on its own clock."""

    t: Float[np.ndarray, " sample"]
    """Seconds, strictly increasing."""
    wrench: Float[np.ndarray, "sample 6"]
    """[fx fy fz tx ty tz], sensor frame [N, N m]."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Lag:
    """How far one clock is behind another."""

    seconds: float
    """Add it to the first signal's times to bring it onto the second's clock."""
    peak: float
    """Correlation there, in [-1, 1]."""
    sharpness: float
    """Ratio of the peak to the highest correlation outside it."""
    rival: float
    """The lag of that second-best fit [s]."""


def read_force_torque(path: Path) -> ForceTorque:
    """Read a CSV with a header: `t` [s], `t_ms` or `t_ns`, and fx, fy, fz [N], tx, ty, tz [N m].

    Rows that are not finite, or whose time does not increase, are dropped and counted in `problems`.

    Raises:
        BadInput: no such file, missing columns, not numbers, or fewer than two usable rows.
    """
    table = read_csv(path)
    table = replace(table, columns=[name.lower() for name in table.columns])
    clock = next((name for name in ("t", "t_ms", "t_ns") if name in table.columns), None)
    if clock is None or any(axis not in table.columns for axis in _AXES):
        raise BadInput(f"{path}: expected the columns t (or t_ms, t_ns), {', '.join(_AXES)}; it has {table.columns}")
    rows = np.stack([table.numbers(name) for name in (clock, *_AXES)], axis=1)
    problems = []
    wild = ~(np.abs(np.nan_to_num(rows, posinf=0.0, neginf=0.0)) <= [_LATEST, *[_STRONGEST] * 6])
    if wild.any():
        k = int(wild.any(axis=1).argmax())
        raise BadInput(f"{path}, line {table.lines[k]}: {rows[k][wild[k]][0]:g} is no time, force or torque")
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        problems.append(f"{int((~finite).sum())} of {len(rows)} force samples are not finite and are dropped")
    rows = rows[finite]
    t = rows[:, 0] * {"t": 1.0, "t_ms": 1e-3, "t_ns": 1e-9}[clock]
    later = np.concatenate([[True], t[1:] > np.maximum.accumulate(t)[:-1]]) if len(t) else np.zeros(0, dtype=bool)
    if not later.all():
        problems.append(f"{int((~later).sum())} force samples do not come after the one before and are dropped")
    if later.sum() < 2:
        raise BadInput(f"{path}: {int(later.sum())} usable rows, expected at least two")
    return ForceTorque(t=t[later], wrench=rows[later, 1:], problems=tuple(problems))


def find_lag(
    t: Float[np.ndarray, " n"],
    signal: Float[np.ndarray, " n"],
    t_reference: Float[np.ndarray, " m"],
    reference: Float[np.ndarray, " m"],
    settings: SynchronisationConfig | None = None,
) -> Lag:
    """The lag at which a signal fits a reference best, by normalised cross-correlation.

    c(lag) = corr(signal(time - lag), reference(time)) over the samples that overlap; refined by a parabola.

    Args:
        t: seconds of the signal, its own clock.
        signal: e.g. the force's magnitude.
        t_reference: seconds of the reference.
        reference: what rises and falls with the signal.
        settings: which lags are tried and when one is believed; the defaults when omitted.

    Raises:
        BadInput: a signal does not vary, or the lag is ambiguous; the message gives the peak and its rival.
    """
    settings = settings or SynchronisationConfig()
    step = 1.0 / settings.rate
    a, b = (_uniform(*pair, step) for pair in ((t, signal), (t_reference, reference)))
    for name, samples in (("signal", a), ("reference", b)):
        if len(samples) < 8 or samples.std() < 1e-9 * max(1.0, np.abs(samples).max()):
            raise BadInput(f"the {name} does not vary over {len(samples)} samples: no lag can be found")
    start = t_reference[0] - t[0]  # lag at which both first samples coincide
    reach = int(settings.max_lag * settings.rate)
    centre = round(-start * settings.rate)
    shifts = np.arange(centre - reach, centre + reach + 1)  # samples by which a is moved against b; lag = start + shift
    correlation = np.array([_correlation(a, b, int(s), settings.min_overlap) for s in shifts])
    best = int(np.nanargmax(np.where(np.isfinite(correlation), correlation, -np.inf)))
    peak = float(correlation[best])
    if not np.isfinite(peak):
        raise BadInput(f"the signals do not overlap within {settings.max_lag:g} s of each other")
    outside = np.ones(len(shifts), dtype=bool)
    outside[_lobe(correlation, best)] = False
    rest = np.where(outside & np.isfinite(correlation), correlation, -np.inf)
    second = int(rest.argmax())
    rival = float(rest[second])
    sharpness = np.inf if rival <= 0 else peak / rival
    lag = start + (shifts[best] + _parabola(correlation, best)) * step
    if peak < settings.min_peak or sharpness < settings.min_sharpness:
        raise BadInput(
            f"the lag is ambiguous: correlation {peak:.2f} at {lag:+.3f} s and {rival:.2f} at "
            f"{start + shifts[second] * step:+.3f} s (needed: at least {settings.min_peak:g}, and "
            f"{settings.min_sharpness:g} times the second best): give both a common clock, or tap the sensor in "
            "view of the camera"
        )
    return Lag(seconds=lag, peak=peak, sharpness=float(sharpness), rival=float(start + shifts[second] * step))


def onto_clock(
    samples: ForceTorque,
    t: Float[np.ndarray, " time"],
    offset: float,
    *,
    tared: bool = False,
    compensated: bool = False,
) -> WrenchTrack:
    """The wrench at the frames of a video or trajectory.

    Averages the sensor's samples within a frame where there are several, else interpolates.

    Args:
        samples: the sensor's recording.
        t: times of the frames [s].
        offset: added to the sensor's times.
        tared: whether the reading without load was subtracted.
        compensated: whether the tool's weight was subtracted.

    Raises:
        BadInput: the recording does not cover the frames.
    """
    clock = samples.t + offset
    half = float(np.median(np.diff(t))) / 2 if len(t) > 1 else 0.5
    if clock[0] > t[0] + half or clock[-1] < t[-1] - half:
        raise BadInput(
            f"forces from {clock[0]:.2f} to {clock[-1]:.2f} s do not cover the frames from {t[0]:.2f} to {t[-1]:.2f} s"
        )
    wrench = resample(t, clock, samples.wrench)
    left, right = np.searchsorted(clock, t - half), np.searchsorted(clock, t + half)
    total = np.concatenate([np.zeros((1, 6)), np.cumsum(samples.wrench, axis=0)])
    count = right - left
    mean = (total[right] - total[left]) / np.maximum(count, 1)[:, None]
    wrench = np.where((count > 1)[:, None], mean, wrench)
    return WrenchTrack(t=t, wrench=wrench, tared=tared, gravity_compensated=compensated)


def _uniform(t: np.ndarray, value: np.ndarray, step: float) -> np.ndarray:
    t, value = np.asarray(t, dtype=np.float64), np.asarray(value, dtype=np.float64)
    grid = t[0] + step * np.arange(int((t[-1] - t[0]) / step) + 1)
    return np.interp(grid, t, value)


def _correlation(a: np.ndarray, b: np.ndarray, shift: int, min_overlap: float) -> float:
    """Correlation of a moved by `shift` samples with b, over what overlaps; NaN where too little does."""
    low, high = max(0, shift), min(len(b), len(a) + shift)
    if high - low < max(8, min_overlap * min(len(a), len(b))):
        return np.nan
    x, y = a[low - shift : high - shift], b[low:high]
    x, y = x - x.mean(), y - y.mean()
    scale = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / scale) if scale > 0 else 0.0


def _lobe(correlation: np.ndarray, best: int) -> slice:
    """The peak itself: down to the first minimum, or to half its height, on each side."""
    half = correlation[best] / 2

    def walk(step: int) -> int:
        k = best
        while 0 <= k + step < len(correlation) and np.isfinite(correlation[k + step]):
            if correlation[k + step] > correlation[k] and correlation[k] < half:
                break
            k += step
            if correlation[k] <= 0:
                break
        return k

    return slice(walk(-1), walk(1) + 1)


def _parabola(y: np.ndarray, k: int) -> float:
    """Offset of the maximum from sample k, of the parabola through three samples."""
    if k in (0, len(y) - 1) or not np.isfinite(y[k - 1 : k + 2]).all():
        return 0.0
    bend = y[k - 1] - 2 * y[k] + y[k + 1]
    return float(0.5 * (y[k - 1] - y[k + 1]) / bend) if bend < 0 else 0.0
