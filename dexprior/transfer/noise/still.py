"""Noise of a sensor that measures nothing new: white noise, bias instability, random walk, and a drift to a new offset.

The Allan variance of each averaging time is a quadratic form of the signal. Its expectation is N^2/tau + (2 ln 2/pi)
B^2 + K^2 tau/3 (IEEE 952-2020), and with the spectrum S that these terms have, the covariance of two of them is
sum_f H_i H_j S^2 df^2, with H_m(f) = 2 sin^4(pi f m dt) / (m sin(pi f dt))^2: periodogram values are independent and
exponential. The terms follow by generalised least squares, none below zero, and the covariance is computed again from
them. Intervals are those of a chi-squared variable with as many degrees of freedom, 2 (theta / se)^2, as for a single
Allan variance.

A drift a + b (1 - exp(-t/tau)) is fitted to averages over blocks, whose covariance is that of white noise and a random
walk of unknown size, by maximum likelihood; tau and b have profile likelihood intervals. It counts as a drift where the
likelihood ratio against a random walk alone is large enough, and then is taken off before the rest is fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import nnls
from scipy.stats import chi2

from dexprior.errors import BadInput
from dexprior.families.sensors import allan_terms, allan_variance, averaging
from dexprior.transfer.noise.estimates import Fitted, found, hidden
from dexprior.transfer.noise.quantum import fit_step
from dexprior.transfer.noise.settings import NoiseFitConfig

__all__ = ["fit_still"]

_ROUNDS = 4  # of covariance and estimate in turn
_CHUNK = 1 << 16  # frequencies at a time
_BLOCKS = 160  # of the drift
_FAR = 12.0  # of the log likelihood, below the best: where the second, finer grid of time constants ends
_SHAKEN = 15.0  # robust standard deviations by which a second's mean may leave its neighbours'


def fit_still(values: Float[np.ndarray, " time"], dt: float, unit: str, settings: NoiseFitConfig) -> tuple[Fitted, ...]:
    """Terms of one channel of a sensor at rest, evenly sampled.

    Args:
        values: readings [unit].
        dt: time between them [s].
        unit: of the readings.
        settings: level, averaging times, and what counts as evidence.

    Returns:
        step, white [unit/sqrt(Hz)], instability [unit], walk [unit/sqrt(s)], drift [unit], drift_time [s].

    Raises:
        BadInput: the sensor is moved or pushed within the log.
    """
    names = (("white", f"{unit}/sqrt(Hz)"), ("instability", unit), ("walk", f"{unit}/sqrt(s)"))
    drifts = (("drift", unit), ("drift_time", "s"))
    step = fit_step(values, unit, level=settings.level)
    spread = float(np.diff(values).std() / np.sqrt(2))
    quantum = step.value or (float(np.ptp(np.unique(values)[:2])) if len(np.unique(values)) > 1 else np.inf)
    if spread == 0 or (spread < 0.5 * quantum and (step.identifiable or len(np.unique(values)) < 4)):
        reason = "readings hardly change: the noise is hidden below the reading's step"
        return (step, *(hidden(name, u, reason) for name, u in (*names, *drifts)))
    _refuse_motion(values, dt)
    white = max(spread**2 * dt, 1e-300)
    drift, drift_time, taken = _drift(values, dt, white, unit, settings)
    lengths = averaging(len(values), points=settings.points, longest=settings.longest)
    terms = _terms(values - taken, dt, lengths, settings)
    rounding = 0.0 if step.value is None else step.value**2 / 12 * dt
    fitted = []
    for (name, u), theta, se in zip(names, terms.theta, terms.error):
        off = rounding if name == "white" else 0.0
        if theta - off < settings.distinct * se:
            fitted.append(
                hidden(name, u, f"its Allan variance is {theta / se if se else 0:.1f} standard errors from 0")
            )
            continue
        freedom = 2 * (theta / se) ** 2
        high, low = (
            freedom * theta / chi2.ppf(p, freedom) for p in (0.5 - settings.level / 2, 0.5 + settings.level / 2)
        )
        if low - off <= 0:
            fitted.append(hidden(name, u, "it cannot be told from the rounding of readings"))
        else:
            fitted.append(found(name, u, *(np.sqrt(x - off) for x in (theta, low, high))))
    return (step, *fitted, drift, drift_time)


@dataclass(frozen=True)
class _Terms:
    theta: Float[np.ndarray, " term"]
    """N^2, B^2, K^2."""
    error: Float[np.ndarray, " term"]
    """Standard errors."""


def _terms(
    values: Float[np.ndarray, " time"], dt: float, lengths: Int[np.ndarray, " tau"], settings: NoiseFitConfig
) -> _Terms:
    variance = allan_variance(values, dt, lengths)
    design = allan_terms(lengths * dt)[:, 1:]
    design[:, 2] *= 1 + 0.5 / lengths**2.0  # a random walk of samples, not of a continuous signal
    scale = 1 / variance
    theta, _ = nnls(design * scale[:, None], np.ones(len(lengths)))
    for _ in range(_ROUNDS):
        covariance = _covariance(theta, len(values), dt, lengths)
        lower = np.linalg.cholesky(covariance + 1e-10 * np.diag(np.diag(covariance)))
        whitened = solve_triangular(lower, design, lower=True)
        size = np.linalg.norm(whitened, axis=0)
        theta, _ = nnls(whitened / size, solve_triangular(lower, variance, lower=True))
        theta = theta / size
    information = (whitened / size).T @ (whitened / size)
    return _Terms(theta, np.sqrt(np.diag(np.linalg.inv(information))) / size)


def _covariance(
    theta: Float[np.ndarray, " 3"], samples: int, dt: float, lengths: Int[np.ndarray, " tau"]
) -> Float[np.ndarray, "tau tau"]:
    """Covariance of Allan variances of a signal with these terms."""
    width = 1 / (samples * dt)
    total = np.zeros((len(lengths), len(lengths)))
    last = (samples - 1) // 2
    for first in range(1, last + 1, _CHUNK):
        f = np.arange(first, min(first + _CHUNK, last + 1)) * width
        sine = np.sin(np.pi * f * dt)
        spectrum = 2 * theta[0] + theta[1] / (np.pi * f) + theta[2] * dt**2 / (2 * sine**2)
        passed = 2 * np.sin(np.pi * dt * np.outer(lengths, f)) ** 4 / (lengths[:, None] * sine) ** 2 * spectrum * width
        total += passed @ passed.T
    return total


def _drift(
    values: Float[np.ndarray, " time"], dt: float, white: float, unit: str, settings: NoiseFitConfig
) -> tuple[Fitted, Fitted, Float[np.ndarray, " time"] | float]:
    """Size and time constant, and what is to be taken off."""
    length = max(len(values) // _BLOCKS, 1)
    count = len(values) // length
    y = values[: count * length].reshape(count, length).mean(axis=1)
    t = (np.arange(count) + 0.5) * length * dt
    whole = count * length * dt
    walks = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 46)]) * white / whole**2
    noise = white / (length * dt)
    times = np.geomspace(4 * length * dt, 3 * whole, 40)
    rough = _Profile.of(t, y, noise, walks, times)
    names = ("drift", unit), ("drift_time", "s")
    if rough.evidence < settings.evidence:
        reason = f"no drift that a random walk does not explain as well (twice the log ratio is {rough.evidence:.1f})"
        return hidden(*names[0], reason), hidden(*names[1], reason), 0.0
    near = np.flatnonzero(rough.likelihood >= rough.likelihood.max() - _FAR)
    times = np.geomspace(times[max(near[0] - 1, 0)], times[min(near[-1] + 1, len(times) - 1)], 60)
    fine = _Profile.of(t, y, noise, walks, times)
    at = int(fine.likelihood.argmax())
    taken = fine.size[at] * (1 - np.exp(-(np.arange(len(values)) + 0.5) * dt / times[at]))
    limit = float(chi2.ppf(settings.level, 1)) / 2
    floor = float(fine.likelihood[at]) - limit
    inside = np.flatnonzero(fine.likelihood >= floor)
    if inside[0] == 0 or inside[-1] == len(times) - 1:
        end = "shorter than can be seen" if inside[0] == 0 else "longer than the log"
        reason = f"there is a drift, but its time constant may be {end}"
        return hidden(*names[0], reason), hidden(*names[1], reason), taken
    low = _crossing(times, fine.likelihood, floor, int(inside[0]), -1)
    high = _crossing(times, fine.likelihood, floor, int(inside[-1]), 1)
    half = np.sqrt(2 * limit) * fine.error
    least, most = (fine.size - half)[inside].min(), (fine.size + half)[inside].max()
    return found(*names[0], fine.size[at], least, most), found(*names[1], times[at], low, high), taken


@dataclass(frozen=True)
class _Profile:
    """A drift of each time constant, with the random walk that suits it best."""

    likelihood: Float[np.ndarray, " time_constant"]
    """Logarithm."""
    size: Float[np.ndarray, " time_constant"]
    error: Float[np.ndarray, " time_constant"]
    """Standard error of the size."""
    evidence: float
    """Twice the log likelihood ratio of the best of them against none."""

    @classmethod
    def of(
        cls,
        t: Float[np.ndarray, " block"],
        y: Float[np.ndarray, " block"],
        noise: float,
        walks: Float[np.ndarray, " walk"],
        times: Float[np.ndarray, " time_constant"],
    ) -> _Profile:
        """The profile of block averages y at t; `noise` is their variance without a walk, `walks` are tried sizes of
        K^2."""
        shared, bases, one = np.minimum(t[:, None], t[None]), 1 - np.exp(-t[:, None] / times), np.ones_like(t)
        spread = ((bases - bases.mean(axis=0)) ** 2).sum(axis=0) / noise
        without, rows = -np.inf, []
        for walk in walks:
            factor = cho_factor(noise * np.eye(len(t)) + walk * shared, lower=True)
            solved = cho_solve(factor, np.column_stack([one, y, bases]))
            log_det = 2 * np.log(np.diag(factor[0])).sum()
            one_one, one_y, one_b = solved[:, 0].sum(), solved[:, 1].sum(), solved[:, 2:].sum(axis=0)
            yy = y @ solved[:, 1] - one_y**2 / one_one
            by = bases.T @ solved[:, 1] - one_b * one_y / one_one
            bb = np.einsum("ik,ik->k", bases, solved[:, 2:]) - one_b**2 / one_one
            # restricted likelihood: what offset and size take up does not count as a smaller walk
            shrunk = np.log(one_one) + np.log(bb / spread)
            without = max(without, -0.5 * float(log_det + yy + np.log(one_one)))
            rows.append((-0.5 * (log_det + yy - by**2 / bb + shrunk), by / bb, 1 / np.sqrt(bb)))
        likelihood, size, error = np.moveaxis(np.array(rows), 1, 0)
        best = likelihood.argmax(axis=0), np.arange(len(times))
        return cls(likelihood[best], size[best], error[best], 2 * (float(likelihood.max()) - without))


def _crossing(times: np.ndarray, profile: np.ndarray, level: float, k: int, side: int) -> float:
    """Where a profile crosses a level between grid point k, which is above, and the next one on a side."""
    share = (profile[k] - level) / (profile[k] - profile[k + side])
    return float(times[k] * (times[k + side] / times[k]) ** share)


def _refuse_motion(values: Float[np.ndarray, " time"], dt: float) -> None:
    """A sensor that is moved for a moment: a mean that leaves those before and after it by far."""
    length = max(round(1.0 / dt), 2)
    count = len(values) // length
    if count < 8:
        return
    means = values[: count * length].reshape(count, length).mean(axis=1)
    jumps = np.diff(means)
    robust = 1.4826 * float(np.median(np.abs(jumps - np.median(jumps))))
    if robust > 0 and np.abs(jumps - np.median(jumps)).max() > _SHAKEN * robust:
        k = int(np.argmax(np.abs(jumps - np.median(jumps))))
        raise BadInput(
            f"readings leave their rest {k + 1} s after the start, by {abs(jumps[k]) / robust:.0f} times what seconds "
            "differ by: the sensor was moved or pushed, and this log is not of one at rest"
        )
