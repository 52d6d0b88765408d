"""Friction of the table from objects that slide: what a camera sees after the rod has left.

A tail obeys x(t) = x0 + v0 t + mu G(t), with G the double integral of g F along the measured motion; F depends on the
directions of slip and, through the loads, weakly on mu itself. Regressing the positions on (1, t, G) averages the
noise of tracking as differencing them twice would not. The yaw tells how far from its centre the body stands, which
gives friction its lever, and the torsional friction, which a wide body hides behind that of its supports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from dexprior.collision.planar.sliding import friction_acceleration
from dexprior.errors import BadInput
from dexprior.worlds.pushing import PushingConfig

__all__ = [
    "FrictionEstimate",
    "identify_ground_friction",
    "identify_support_share",
    "identify_torsional_friction",
]

_MIN_SPEED = 0.05  # [m/s] slower, the direction of a measured velocity is noise
_WINDOW = 5  # frames over which the speed is judged
_SHORTEST = 6  # frames; a cubic through fewer is no smoothing
_ROUNDS = 6
_TICKS = 60
_STEP = 1e-5  # of a finite difference [m], or a share
_SHARES = (0.3, 1.5)  # of the corners' distance
_STEADY = 1.05  # share of the supports' distance, over that at which the body would tip


@dataclass(frozen=True)
class FrictionEstimate:
    """An estimate and how far it can be trusted."""

    value: float
    """Coulomb coefficient, torsional friction [m], or share of the supports' distance."""
    standard_error: float
    """Standard error of the regression; infinite where the data say nothing."""
    rows: int
    """Measured coordinates that were used."""
    identifiable: bool
    """False where the estimate is not two standard errors from zero."""


def identify_ground_friction(
    config: PushingConfig,
    tails: Float[np.ndarray, "slide frame 3"],
    t: Float[np.ndarray, " frame"],
) -> FrictionEstimate:
    """Coulomb coefficient of the table by linear regression on sliding tails.

    Args:
        config: the body; its `table_friction` is not read.
        tails: [x y yaw] at every frame, yaw counted on through full turns; NaN marks a missing frame.
        t: [s], common to all.

    Raises:
        BadInput: wrong shapes, or no object that slides for six frames.
    """
    slides = _slides(config, tails, t)
    mu = min(0.3, config.tipping_friction)
    for _ in range(_ROUNDS):  # F depends on mu through the loads only, and settles at once
        basis = np.concatenate([s.travel(config, mu, config.torsional_friction)[:, :2].ravel() / mu for s in slides])
        target = np.concatenate([s.residual[:, :2].ravel() for s in slides])
        square = basis @ basis
        mu = float(np.clip(basis @ target / square, 1e-3, config.tipping_friction))
    return _estimate(mu, target - mu * basis, basis)


def identify_torsional_friction(
    config: PushingConfig,
    tails: Float[np.ndarray, "slide frame 3"],
    t: Float[np.ndarray, " frame"],
    *,
    friction: float,
    largest: float = 0.05,
) -> FrictionEstimate:
    """Torsional friction [m] from spinning tails, once the Coulomb coefficient is known.

    Least squares on the yaw over a grid, refined once; for pure spin about supports at radius r the
    deceleration goes with sqrt(mu^2 r^2 + mu_t^2), so that a mu_t far below mu r cannot be seen and is flagged.

    Raises:
        BadInput: wrong shapes, or no object that slides for six frames.
    """
    slides = _slides(config, tails, t)
    target = np.concatenate([s.residual[:, 2] for s in slides])

    def spin(mu_t: float) -> np.ndarray:
        return np.concatenate([s.travel(config, friction, mu_t)[:, 2] for s in slides])

    return _fit_yaw(spin, target, 0.0, largest)


def identify_support_share(
    config: PushingConfig,
    tails: Float[np.ndarray, "slide frame 3"],
    t: Float[np.ndarray, " frame"],
    *,
    friction: float,
) -> FrictionEstimate:
    """`support_share` of the body from spinning tails, once the Coulomb coefficient is known.

    Least squares on the yaw over a grid, refined once. A body that spins while it slides fast is slowed in proportion
    to the square of the share, one that only spins in proportion to it; torsional friction counts in the second case
    alone, so that ten strikes hardly tell the two apart, and the share is given precedence.

    Args:
        config: the body; its friction and its own share are not read.
        tails, t: as for `identify_ground_friction`.
        friction: Coulomb coefficient of the table.

    Raises:
        BadInput: wrong shapes, or no object that slides for six frames.
    """
    slides = _slides(config, tails, t)
    target = np.concatenate([s.residual[:, 2] for s in slides])
    whole = replace(config, support_share=1.0, table_friction=1e-3)
    low = max(_SHARES[0], _STEADY * friction / whole.tipping_friction)

    def spin(share: float) -> np.ndarray:
        standing = replace(whole, support_share=share)
        return np.concatenate([s.travel(standing, friction, 0.0)[:, 2] for s in slides])

    return _fit_yaw(spin, target, low, max(_SHARES[1], low))


def _fit_yaw(spin: Callable[[float], np.ndarray], target: np.ndarray, low: float, high: float) -> FrictionEstimate:
    """The parameter in [low, high] whose `spin` explains the yaw best."""

    def best(candidates: np.ndarray) -> int:
        return int(np.argmin([((target - spin(m)) ** 2).sum() for m in candidates]))

    grid = np.linspace(low, high, _TICKS)
    k = best(grid)
    fine = np.linspace(grid[max(k - 1, 0)], grid[min(k + 1, _TICKS - 1)], _TICKS)
    value = float(fine[best(fine)])
    below = max(value - _STEP, low)
    above = min(value + _STEP, high)
    slope = (spin(above) - spin(below)) / (above - below)
    return _estimate(value, target - spin(value), slope)


@dataclass(frozen=True)
class _Slide:
    """The moving part of one tail, smoothed by a cubic in time."""

    t: np.ndarray
    yaw: np.ndarray
    velocity: np.ndarray
    residual: np.ndarray
    """Pose without its offset and its uniform motion."""

    def travel(self, config: PushingConfig, mu: float, mu_t: float) -> np.ndarray:
        """Double integral of the acceleration by friction, without its offset and its uniform motion."""
        a = friction_acceleration(config, self.yaw, self.velocity, friction=mu, torsional_friction=mu_t)
        dt = np.diff(self.t)[:, None]
        v = np.concatenate([np.zeros((1, 3)), np.cumsum(dt * (a[1:] + a[:-1]) / 2, axis=0)])
        x = np.cumsum(dt * v[:-1] + dt**2 * (2 * a[:-1] + a[1:]) / 6, axis=0)
        return _without_uniform_motion(self.t, np.concatenate([np.zeros((1, 3)), x]))


def _estimate(value: float, residual: np.ndarray, basis: np.ndarray) -> FrictionEstimate:
    square = float(basis @ basis)
    variance = float(residual @ residual) / max(len(residual) - 1, 1)
    error = float(np.sqrt(variance / square)) if square > 0 else np.inf
    return FrictionEstimate(value, error, len(residual), value > 2 * error)


def _without_uniform_motion(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    uniform = np.stack([np.ones_like(t), t - t[0]], axis=1)
    return x - uniform @ np.linalg.lstsq(uniform, x, rcond=None)[0]


def _slides(config: PushingConfig, tails: np.ndarray, t: np.ndarray) -> list[_Slide]:
    tails, t = np.asarray(tails, dtype=np.float64), np.asarray(t, dtype=np.float64)
    if tails.ndim != 3 or tails.shape[1:] != (len(t), 3) or len(t) < _SHORTEST:
        raise BadInput(f"tails have shape {tails.shape}, expected (n, {len(t)}, 3) with at least {_SHORTEST} frames")
    if not (np.diff(t) > 0).all():
        raise BadInput("tails: the times must increase strictly")
    scale = np.array([1.0, 1.0, config.footprint.gyration])
    ahead = np.minimum(np.arange(len(t)) + _WINDOW, len(t) - 1)
    behind = ahead - _WINDOW
    slides = []
    for tail in tails:
        speed = np.linalg.norm((tail[ahead] - tail[behind]) * scale, axis=1) / (t[ahead] - t[behind])
        still = ~(speed > _MIN_SPEED)  # a missing frame ends the tail, too
        end = int(still.argmax()) if still.any() else len(t)
        if end < _SHORTEST:
            continue
        time, pose = t[:end], tail[:end]
        cubic = np.polynomial.polynomial.polyfit(time - time[0], pose, 3)
        smooth = np.polynomial.polynomial.polyval(time - time[0], cubic).T
        velocity = np.polynomial.polynomial.polyval(time - time[0], np.polynomial.polynomial.polyder(cubic)).T
        slides.append(_Slide(time, smooth[:, 2], velocity, _without_uniform_motion(time, pose)))
    if not slides:
        raise BadInput(f"tails: no object moves faster than {_MIN_SPEED} m/s over {_SHORTEST} frames")
    return slides
