"""Backlash: how far a command goes back before the joint follows.

The model is the family's command path, `measured(t) = gain * play(command)(t - delay) + offset`, where the play
operator of width w holds its output while the input turns within a dead band: p(t) = clip(p(t-), c(t) - w/2, c(t) +
w/2) (Krasnosel'skii and Pokrovskii 1989). Play and delay commute, so the play of each width is computed once. Delay and
width are told apart by the flat stretch after each reversal, whose length changes with speed only for a width. What
a stiff gear's play does and what stiction does under a proportional servo is the same in such a log: the width is
that of the whole path, not of the gears alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dexprior.transfer.arm.alignment import Blocks, Estimate, LagFit, expand, lag_bounds, parabola, squared_residuals
from dexprior.transfer.arm.settings import ArmReportConfig

__all__ = ["BacklashFit", "fit_backlash", "play", "reversals"]

_WIDTHS = 20
_STEP = 0.01  # [s] of the grid of delays
_FEWEST = 4  # reversals


@dataclass(frozen=True, kw_only=True)
class BacklashFit:
    """One joint in one motion."""

    width: Estimate | None
    """[rad]; None where it is not identifiable."""
    delay: Estimate | None
    """Lag that is left when the backlash explains its share [s]."""
    reversals: int
    """Reversals of the command."""
    reason: str
    """Why it is not identifiable; empty where it is."""


def play(command: Float[np.ndarray, " time"], widths: Float[np.ndarray, " width"]) -> Float[np.ndarray, "width time"]:
    """Output of the play operator for each width [rad], starting in the middle of its dead band."""
    out = np.empty((len(command), len(widths)))
    half, state = widths / 2, np.full(len(widths), float(command[0]))
    lower, upper = command[:, None] - half, command[:, None] + half
    for k in range(len(command)):
        state = np.minimum(np.maximum(state, lower[k]), upper[k])
        out[k] = state
    return out.T


def reversals(command: Float[np.ndarray, " time"], moving: float) -> int:
    """How often the command turns by at least `moving` [rad]."""
    turning = play(command, np.array([moving]))[0]
    steps = np.sign(np.diff(turning))
    steps = steps[steps != 0]
    return int((steps[1:] != steps[:-1]).sum())


def fit_backlash(
    t: Float[np.ndarray, " time"],
    command: Float[np.ndarray, " time"],
    measured: Float[np.ndarray, " time"],
    lag: LagFit,
    settings: ArmReportConfig,
    *,
    block: float,
    resolution: float,
    period: float | None = None,
    seed: int = 0,
) -> BacklashFit:
    """Width and delay together; arguments as those of `fit_lag`."""
    turns = reversals(command, settings.moving)
    if lag.explained < settings.explained:
        return BacklashFit(width=None, delay=None, reversals=turns, reason=lag.reason)
    if turns < _FEWEST:
        return BacklashFit(
            width=None, delay=None, reversals=turns, reason=f"the command turns {turns} times; {_FEWEST} are needed"
        )  # fmt: skip
    used = (t >= t[0] + settings.settle + settings.latest) & (t <= t[-1] + min(settings.earliest, 0.0))
    blocks = Blocks.of(int(used.sum()), float(t[1] - t[0]), block, settings.draws, seed)
    widest = min(settings.widest, 0.9 * float(np.ptp(command)))
    earliest, latest = lag_bounds(settings, period)
    delays = np.arange(earliest, lag.lag.high + 0.03 if lag.lag else latest, _STEP)
    widths = widest * np.linspace(0, 1, _WIDTHS) ** 2
    profile, _ = _profile(t, command, measured, used, widths, delays, blocks)
    rough, _, _ = parabola(widths, profile)
    # the second grid is finer, and spans what the draws found
    low, high = np.quantile(rough, [0.01, 0.99])
    margin = 0.25 * (high - low) + 2 * resolution + 0.05 * widest
    widths = np.linspace(max(low - margin, 0.0), min(high + margin, widest), _WIDTHS)
    profile, found_delays = _profile(t, command, measured, used, widths, delays, blocks)
    found, _, best = parabola(widths, profile)
    delay = found_delays[best, np.arange(len(best))]
    width = expand(float(found[0]), found[1:], settings.level, blocks.blocks)
    # draws that all end at zero do not show that there is none: an encoder's step could hide
    width = Estimate(width.value, max(width.low, 0.0), max(width.high, resolution))
    reason = ""
    if best[0] == len(widths) - 1 and widths[-1] >= widest:
        reason = f"the best width lies at the end of the search, {widest:.3f} rad"
    elif width.high - width.low > float(np.ptp(command)) / 4:
        reason = (
            f"the interval [{width.low:.4f}, {width.high:.4f}] rad is too wide for a command of {np.ptp(command):.3f}"
        )
    return BacklashFit(
        width=None if reason else width,
        delay=None if reason else expand(float(delay[0]), delay[1:], settings.level, blocks.blocks),
        reversals=turns,
        reason=reason,
    )


def _profile(
    t: Float[np.ndarray, " time"],
    command: Float[np.ndarray, " time"],
    measured: Float[np.ndarray, " time"],
    used: np.ndarray,
    widths: Float[np.ndarray, " width"],
    delays: Float[np.ndarray, " delay"],
    blocks: Blocks,
) -> tuple[Float[np.ndarray, "width draw"], Float[np.ndarray, "width draw"]]:
    """Least squared residual of each width over all delays, and that delay."""
    least, at = [], []
    for output in play(command, widths):
        residual, _, _ = squared_residuals(np.interp(t[used] - delays[:, None], t, output), measured[used], blocks)
        delay, lowest, _ = parabola(delays, residual)
        least.append(lowest)
        at.append(delay)
    return np.stack(least), np.stack(at)
