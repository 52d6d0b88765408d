"""Encoders of joints: the step of readings, their noise while a joint rests, and backlash where the motion shows it."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.stats import chi2

from dexprior.transfer.arm import ArmReportConfig, fit_backlash, fit_lag, noise_floor
from dexprior.transfer.arm.alignment import precedes
from dexprior.transfer.arm.repeats import block_length
from dexprior.transfer.noise.estimates import Fitted, found, hidden
from dexprior.transfer.noise.quantum import fit_step
from dexprior.transfer.noise.settings import NoiseFitConfig

__all__ = ["fit_joint", "fit_play", "rests"]

_LEVELS = 3  # readings in a rest; with two, noise and where it lies between them look alike
_WHITE = 0.3  # correlation of neighbouring readings above which a joint moves: an encoder's noise is white
_SHARE = 0.5  # [steps] noise below it cannot be told from the step (Sheppard's correction fails)


def fit_joint(
    t: Float[np.ndarray, " time"],
    command: Float[np.ndarray, " time"],
    t_measured: Float[np.ndarray, " time"],
    measured: Float[np.ndarray, " time"],
    settings: NoiseFitConfig,
) -> tuple[Fitted, Fitted]:
    """Step and noise [rad] of one joint's encoder.

    Args:
        t, command: what was commanded, when [s, rad].
        t_measured, measured: what was measured, when [s, rad].
        settings: level, and what counts as rest.
    """
    step = fit_step(measured, "rad", level=settings.level)
    parts = [measured[a:b] for a, b in rests(t, command, t_measured, settings)]
    return step, _noise(parts, step.value or 0.0, settings.level)


def fit_play(
    t: Float[np.ndarray, " time"],
    command: Float[np.ndarray, " time"],
    measured: Float[np.ndarray, " time"],
    resolution: float,
    arm: ArmReportConfig,
    *,
    seed: int,
) -> Fitted:
    """Backlash between command and joint, as the arm's ledger has it; even time."""
    floor = noise_floor(t, command, measured, arm, resolution=resolution, seed=seed)
    block = block_length(floor, t, arm)
    lag = fit_lag(t, command, measured, arm, block=block, resolution=resolution, period=floor.period, seed=seed)
    fit = fit_backlash(
        t, command, measured, lag, arm, block=block, resolution=resolution, period=floor.period, seed=seed
    )  # fmt: skip
    if precedes(float(t[1] - t[0]), lag.lag, fit.delay):
        return hidden("backlash", "rad", "it moves before it is told: are command and measurement swapped?")
    if fit.width is None:
        return hidden("backlash", "rad", fit.reason)
    return found("backlash", "rad", fit.width.value, fit.width.low, fit.width.high)


def rests(
    t: Float[np.ndarray, " time"],
    command: Float[np.ndarray, " time"],
    t_measured: Float[np.ndarray, " time"],
    settings: NoiseFitConfig,
) -> list[tuple[int, int]]:
    """Stretches of measurements, first and last index, while the command stays; their starts are left out."""
    turns = np.flatnonzero(np.diff(command) != 0)
    starts = t[np.concatenate([[0], turns + 1])]
    ends = np.concatenate([t[turns + 1], t[-1:]])
    long = ends - starts >= settings.rest
    return [
        (int(a), int(b))
        for a, b in zip(
            np.searchsorted(t_measured, starts[long] + settings.settle), np.searchsorted(t_measured, ends[long])
        )
        if b - a >= 10
    ]


def _noise(parts: list[np.ndarray], step: float, level: float) -> Fitted:
    if not parts:
        return hidden("noise", "rad", "no joint is commanded to rest for long enough")
    levels = max(len(np.unique(part)) for part in parts)
    if levels < _LEVELS:
        return hidden("noise", "rad", f"at rest it reads {levels} value(s): the noise is hidden below the step")
    squares, freedom, samples = 0.0, 0.0, 0
    for part in parts:
        k = np.arange(len(part))
        rest = part - np.polyval(np.polyfit(k, part, 1), k)  # joints creep
        power = max(float(rest @ rest), 1e-300)
        rho = float(np.clip((rest[1:] @ rest[:-1]) / power, 0.0, 0.99))
        if rho > _WHITE:
            continue
        squares, samples = squares + float(rest @ rest), samples + len(part) - 2
        freedom += (len(part) - 2) * (1 - rho**2) / (1 + rho**2)
    if not samples:
        return hidden("noise", "rad", "joints swing or creep while they are commanded to rest: what scatters is motion")
    variance = squares / samples
    low, high = (freedom * variance / chi2.ppf(p, freedom) - step**2 / 12 for p in (0.5 + level / 2, 0.5 - level / 2))
    value = variance - step**2 / 12
    if value < (_SHARE * step) ** 2 or low <= 0:
        return hidden(
            "noise", "rad", f"at rest readings scatter by {np.sqrt(variance):.2g} rad, no more than their step"
        )
    return found("noise", "rad", np.sqrt(value), np.sqrt(low), np.sqrt(high))
