"""The lag of a measurement behind its command: bounded, below one sample, with an interval, and nothing warped.

The model is `measured(t) = gain * command(t - lag) + offset`. For each lag of a grid gain and offset are solved in
closed form; the lag is where the squared residual is least, with a parabola through the three lowest points. Its
interval comes from a moving-block bootstrap (Kuensch 1989): residuals of a robot are correlated over time, so whole
stretches are drawn again. Percentiles of few blocks are too narrow; they are expanded about the estimate by t(n-1)
/ z * sqrt(n / (n-1)), with n blocks (Hesterberg 2015, "What Teachers Should Know About the Bootstrap", expanded
percentile interval).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from dexprior.transfer.arm.settings import ArmReportConfig

__all__ = [
    "Blocks",
    "Estimate",
    "LagFit",
    "expand",
    "fit_lag",
    "lag_bounds",
    "parabola",
    "precedes",
    "squared_residuals",
]

_STEP = 0.005  # [s] of the grid of lags
_CELLS = 4  # starting points of moving blocks a block length
_FEWEST = 8  # blocks


@dataclass(frozen=True)
class Estimate:
    """A number with its interval."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {"value": self.value, "interval": [self.low, self.high]}


@dataclass(frozen=True, kw_only=True)
class LagFit:
    """One joint in one motion."""

    lag: Estimate | None
    """[s]; None where it is not identifiable."""
    reason: str
    """Why it is not; empty where it is."""
    gain: Estimate | None
    offset: float
    """Static error where the command is in the middle of its range [rad]."""
    explained: float
    """Share of the measurement's variance."""
    halves: tuple[float, float] | None
    """Lag of the first and of the second half [s], where both say something."""
    prediction: Float[np.ndarray, " time"]
    """What the model says [rad], at every time of the even grid; the held joint's is its median."""


@dataclass(frozen=True)
class Blocks:
    """Draws of a moving-block bootstrap over cells of time."""

    edges: Int[np.ndarray, " cells_and_one"]
    """First sample of each cell, and the end."""
    counts: Float[np.ndarray, "draw cell"]
    """How often each cell is drawn; the first row is the log itself."""
    blocks: int
    """Blocks a draw."""

    @classmethod
    def of(cls, samples: int, dt: float, seconds: float, draws: int, seed: int) -> Blocks:
        """Blocks of so many seconds, shortened so that there are at least eight."""
        length = max(min(seconds / dt, samples / _FEWEST), _CELLS)
        cells = max(round(samples / length * _CELLS), _CELLS * _FEWEST)
        edges = np.linspace(0, samples, min(cells, samples) + 1).astype(np.int64)
        cells = len(edges) - 1
        blocks = max(cells // _CELLS, 1)
        rng = np.random.default_rng(seed)
        # blocks run around the end, so that every cell is drawn equally often (circular, Politis and Romano 1992)
        starts = rng.integers(cells, size=(draws, blocks, 1))
        drawn = (starts + np.arange(_CELLS)) % cells
        counts = np.zeros((draws + 1, cells))
        counts[0] = 1.0
        np.add.at(counts, (np.arange(1, draws + 1)[:, None], drawn.reshape(draws, -1)), 1.0)
        return cls(edges, counts, blocks)

    def sums(self, values: Float[np.ndarray, "n time"]) -> Float[np.ndarray, "n draw"]:
        """Sums over each draw."""
        return np.add.reduceat(values, self.edges[:-1], axis=-1) @ self.counts.T


def squared_residuals(
    inputs: Float[np.ndarray, "n time"], measured: Float[np.ndarray, " time"], blocks: Blocks
) -> tuple[Float[np.ndarray, "n draw"], Float[np.ndarray, "n draw"], Float[np.ndarray, " draw"]]:
    """Least squares of `measured` on each input with gain and offset, in every draw.

    Returns:
        squared residual, gain, and the squares about the mean of the measurement.
    """
    x = inputs - inputs.mean(axis=-1, keepdims=True)
    y = (measured - measured.mean())[None]
    n = blocks.sums(np.ones_like(y))
    sx, sy = blocks.sums(x), blocks.sums(y)
    sxx = blocks.sums(x * x) - sx * sx / n
    sxy = blocks.sums(x * y) - sx * sy / n
    syy = (blocks.sums(y * y) - sy * sy / n)[0]
    # a joint that went against its command would be another half period late: only gains above zero are lags
    gain = np.maximum(np.divide(sxy, sxx, out=np.zeros_like(sxy), where=sxx > 1e-12), 0.0)
    return np.maximum(syy - gain * sxy, 0.0), gain, syy


def parabola(
    x: Float[np.ndarray, " n"], y: Float[np.ndarray, "n draw"]
) -> tuple[Float[np.ndarray, " draw"], Float[np.ndarray, " draw"], Int[np.ndarray, " draw"]]:
    """Where each column is least and how small it is, by the parabola through its least point and both neighbours; and
    that point's index. A least value at an end stays there.
    """
    best = y.argmin(axis=0)
    k = np.clip(best, 1, len(x) - 2)
    rows = np.arange(y.shape[1])
    x0, x1, x2 = x[k - 1], x[k], x[k + 1]
    y0, y1, y2 = y[k - 1, rows], y[k, rows], y[k + 1, rows]
    left, right = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    bend = (right - left) / (x2 - x0)
    inner = np.divide(left, 2 * bend, out=np.zeros_like(left), where=bend > 0)
    vertex = np.clip((x0 + x1) / 2 - inner, x0, x2)
    inside = (bend > 0) & (best == k)
    lowest = y1 + left * (vertex - x1) + bend * (vertex - x0) * (vertex - x1)
    # Newton's form through x0, x1, x2, written from x1: y1 + left (x - x1) + bend (x - x0)(x - x1)
    return np.where(inside, vertex, x[best]), np.where(inside, np.minimum(lowest, y1), y[best, rows]), best


def expand(value: float, draws: Float[np.ndarray, " draw"], level: float, blocks: int) -> Estimate:
    """Expanded percentile interval about an estimate."""
    from scipy.stats import norm, t

    tail = (1.0 - level) / 2.0
    freedom = max(blocks - 1, 1)
    wider = float(t.ppf(1 - tail, freedom) / norm.ppf(1 - tail) * np.sqrt(blocks / freedom))
    low, high = np.quantile(draws, [tail, 1.0 - tail])
    return Estimate(value, float(value - wider * max(value - low, 0.0)), float(value + wider * max(high - value, 0.0)))


def fit_lag(
    t: Float[np.ndarray, " time"],
    command: Float[np.ndarray, " time"],
    measured: Float[np.ndarray, " time"],
    settings: ArmReportConfig,
    *,
    block: float,
    resolution: float,
    period: float | None = None,
    seed: int = 0,
) -> LagFit:
    """Lag, gain and static error of one joint.

    Args:
        t: even time [s].
        command: commanded position [rad].
        measured: measured position [rad].
        settings: bounds, block and what counts as motion.
        block: length of bootstrap blocks [s].
        resolution: smallest step of the measurement [rad].
        period: of the command [s], where it repeats: lags are told apart within one period only.
        seed: of the bootstrap.
    """
    used = (t >= t[0] + settings.settle + settings.latest) & (t <= t[-1] + min(settings.earliest, 0.0))
    middle = float(np.median(measured[used]))
    held = np.full_like(measured, middle)
    still = middle - float(np.median(command[used]))
    reason = _still(command[used], measured[used], settings, resolution)
    if reason:
        return LagFit(
            lag=None, reason=reason, gain=None, offset=still, explained=0.0, halves=None, prediction=held
        )  # fmt: skip
    earliest, latest = lag_bounds(settings, period)
    lags = np.arange(earliest, latest + _STEP / 2, _STEP)
    delayed = np.interp(t[used] - lags[:, None], t, command)
    blocks = Blocks.of(int(used.sum()), float(t[1] - t[0]), block, settings.draws, seed)
    residual, gains, squares = squared_residuals(delayed, measured[used], blocks)
    found, _, best = parabola(lags, residual)
    gain = gains[best, np.arange(len(best))]
    explained = float(1.0 - residual[best[0], 0] / squares[0])
    lag = expand(float(found[0]), found[1:], settings.level, blocks.blocks)
    shifted = np.interp(t - lag.value, t, command)
    constant = float(measured[used].mean() - gain[0] * shifted[used].mean())
    centre = (float(command[used].min()) + float(command[used].max())) / 2
    reason = ""
    if explained < settings.explained:
        reason = f"the delayed command explains {explained:.0%} of the measurement, not {settings.explained:.0%}"
        if _against(delayed, measured[used]) > settings.explained:
            reason += "; it goes against the command (is its sign turned?)"
    elif np.isin(best, (0, len(lags) - 1)).mean() > (1 - settings.level) / 2:
        end = lags[0] if (best == 0).sum() > (best == len(lags) - 1).sum() else lags[-1]
        reason = f"the lag reaches the end of the search, {end:+.2f} s"
    elif lag.high - lag.low > (latest - earliest) / 4:
        reason = f"the interval [{lag.low:.3f}, {lag.high:.3f}] s is too wide"
    return LagFit(
        lag=None if reason else lag,
        reason=reason,
        gain=None if reason else expand(float(gain[0]), gain[1:], settings.level, blocks.blocks),
        offset=still if explained < settings.explained else float(gain[0] * centre + constant - centre),
        explained=explained,
        halves=None if reason else _halves(lags, delayed, measured[used], settings),
        # a lag may be unknown where the command moves once, and yet gain and offset predict well
        prediction=gain[0] * shifted + constant if explained >= settings.explained else held,
    )


def precedes(dt: float, *lags: Estimate | None) -> bool:
    """Whether one of some lags lies below zero by more than half a sample: an arm that moves before it is told.

    No arm does. Columns of command and measurement are swapped then, or the clock of one of them is set apart.

    Args:
        dt: step of the measurement [s].
        lags: that are known [s].
    """
    return any(lag is not None and lag.high < -dt / 2 for lag in lags)


def lag_bounds(settings: ArmReportConfig, period: float | None) -> tuple[float, float]:
    """Where lags are looked for [s]: as set, and from a quarter of a period early to three quarters late.

    The lag of a periodic motion is known but for whole periods; the one nearest above zero is taken.
    """
    if period is None:
        return settings.earliest, settings.latest
    return max(settings.earliest, -period / 4), min(settings.latest, 3 * period / 4)


def _still(
    command: Float[np.ndarray, " time"],
    measured: Float[np.ndarray, " time"],
    settings: ArmReportConfig,
    resolution: float,
) -> str:
    if np.ptp(command) < settings.moving:
        return f"not commanded: {np.ptp(command):.4f} rad in all"
    low, high = np.quantile(measured, [0.005, 0.995])
    if high - low < max(settings.moving, 4 * resolution):
        return f"commanded by {np.ptp(command):.3f} rad, but it moved by {high - low:.4f} rad only"
    return ""


def _against(delayed: Float[np.ndarray, "lag time"], measured: Float[np.ndarray, " time"]) -> float:
    """Share of the variance that the command with its sign turned would explain at its best lag."""
    x, y = delayed - delayed.mean(axis=1, keepdims=True), measured - measured.mean()
    along = x @ y / np.sqrt(np.maximum((x * x).sum(axis=1) * (y @ y), 1e-18))
    return float(max(-along.min(), 0.0) ** 2)


def _halves(
    lags: Float[np.ndarray, " lag"],
    delayed: Float[np.ndarray, "lag time"],
    measured: Float[np.ndarray, " time"],
    settings: ArmReportConfig,
) -> tuple[float, float] | None:
    """Lag of each half; None where a half is not explained well."""
    middle, found = len(measured) // 2, []
    for part in (slice(None, middle), slice(middle, None)):
        size = len(measured[part])
        one = Blocks(np.array([0, size]), np.ones((1, 1)), 1)
        residual, _, squares = squared_residuals(delayed[:, part], measured[part], one)
        if squares[0] < 1e-9 or 1 - residual.min() / squares[0] < max(settings.explained, 0.9):
            return None
        found.append(float(parabola(lags, residual)[0][0]))
    return found[0], found[1]
