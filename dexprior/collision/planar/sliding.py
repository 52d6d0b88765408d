"""Thousands of prisms that slide to rest on a table, integrated at once.

A body that slides with velocity v and spin omega touches the table at its supports r_i. The friction of each obeys the
law of largest dissipation on MuJoCo's elliptic cone of tangential and torsional friction,

    f_i = -mu^2 u_i / s_i,   tau_i = -mu_t^2 omega / s_i,   s_i = sqrt(mu^2 |u_i|^2 + mu_t^2 omega^2),

per unit of load, with u_i the slip velocity. The loads N_i are those of a rigid body on equal springs: linear in r_i,
and in balance with the weight and with the moment of friction, whose lever is the height of the centre of mass.

Friction does not depend on how fast a body slides, only on the direction of (v, omega), so that the body stops after a
finite time along a fixed direction. Each Runge-Kutta step covers a fixed share of the time that is left; the rest,
where the direction has settled, is uniform deceleration and is added in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from dexprior.config import Ge, Gt, Lt, config
from dexprior.errors import BadInput
from dexprior.worlds.pushing import GRAVITY, PushingConfig

__all__ = ["SlideConfig", "friction_acceleration", "slide_to_rest"]

_TINY = 1e-12


@config
class SlideConfig:
    """How finely a slide is integrated."""

    share: Annotated[float, Gt(0), Lt(1)] = 0.1
    """Share of the time left that one step covers; 0.1 is within 0.2 mm and 0.2 degrees of 0.02 up to 1 m/s and 10
    rad/s."""
    steps: Annotated[int, Ge(1)] = 40
    """Runge-Kutta steps; what is left is (1 - share)^steps of the speed and the square of it of the way."""


@dataclass(frozen=True)
class _Friction:
    """Support positions and friction of a batch; arrays are (support, 1) and (batch,)."""

    x: np.ndarray
    y: np.ndarray
    basis: np.ndarray
    """Rows 1, x, y."""
    height: float
    gyration: float
    mu: np.ndarray
    mu_t: np.ndarray

    def acceleration(self, yaw: np.ndarray, v: np.ndarray) -> np.ndarray:
        """d[vx vy omega]/dt; axis 0 of `v` is the component."""
        c, s = np.cos(yaw), np.sin(yaw)
        vx, vy, omega = c * v[0] + s * v[1], c * v[1] - s * v[0], v[2]  # in the body frame
        ux, uy = vx - omega * self.y, vy + omega * self.x
        size = np.sqrt(self.mu**2 * (ux * ux + uy * uy) + (self.mu_t * omega) ** 2) + _TINY
        grip = -(self.mu**2) / size
        fx, fy = grip * ux, grip * uy
        load = self._loads(fx, fy)
        force_x, force_y = (load * fx).sum(axis=0), (load * fy).sum(axis=0)
        spin = -(self.mu_t**2) * omega / size
        torque = (load * (self.x * fy - self.y * fx + spin)).sum(axis=0)
        return GRAVITY * np.stack([c * force_x - s * force_y, s * force_x + c * force_y, torque / self.gyration**2])

    def _loads(self, fx: np.ndarray, fy: np.ndarray) -> np.ndarray:
        """Share of the weight that each support carries: N = a + b x + c y with sum N = 1, sum N (r + height f) = 0."""
        x1, x2, x3 = self.basis @ (self.x + self.height * fx)
        y1, y2, y3 = self.basis @ (self.y + self.height * fy)
        cofactors = np.stack([x2 * y3 - x3 * y2, x3 * y1 - x1 * y3, x1 * y2 - x2 * y1])
        load = np.maximum(self.basis.T @ cofactors, 0.0)  # their sum, the determinant, is positive short of tipping
        return load / load.sum(axis=0)


def friction_acceleration(
    config: PushingConfig,
    yaw: Float[np.ndarray, " slide"],
    velocity: Float[np.ndarray, "slide 3"],
    *,
    friction: float | Float[np.ndarray, " slide"],
    torsional_friction: float | Float[np.ndarray, " slide"],
) -> Float[np.ndarray, "slide 3"]:
    """d[vx vy omega]/dt of bodies that slide on the table [m/s^2, rad/s^2]."""
    law = _friction(config, len(yaw), friction, torsional_friction)
    return law.acceleration(np.asarray(yaw), np.asarray(velocity).T).T


def slide_to_rest(
    config: PushingConfig,
    pose: Float[np.ndarray, "slide 3"],
    velocity: Float[np.ndarray, "slide 3"],
    *,
    friction: float | Float[np.ndarray, " slide"] | None = None,
    torsional_friction: float | Float[np.ndarray, " slide"] | None = None,
    slide: SlideConfig | None = None,
) -> tuple[Float[np.ndarray, "slide 3"], Float[np.ndarray, " slide"]]:
    """Where sliding bodies stop.

    Args:
        config: the body, and the friction where it is not given.
        pose: [x y yaw] at the start.
        velocity: [vx vy omega] at the start; zero is allowed.
        friction: Coulomb coefficient on the table.
        torsional_friction: [m], of each support.
        slide: step sizes.

    Returns:
        final_pose: [x y yaw], yaw counted on through full turns.
        seconds: until rest.

    Raises:
        BadInput: wrong shapes, NaN, a friction that is not positive or at which the body would tip over.
    """
    pose, velocity = np.asarray(pose, dtype=np.float64), np.asarray(velocity, dtype=np.float64)
    if pose.ndim != 2 or pose.shape[1] != 3 or pose.shape != velocity.shape:
        raise BadInput(f"slide_to_rest: pose {pose.shape} and velocity {velocity.shape} must both be (n, 3)")
    if not (np.isfinite(pose).all() and np.isfinite(velocity).all()):
        raise BadInput("slide_to_rest: a pose or a velocity is not finite")
    slide = slide or SlideConfig()
    law = _friction(config, len(pose), friction, torsional_friction)
    p, v, seconds = pose.T.copy(), velocity.T.copy(), np.zeros(len(pose))
    for _ in range(slide.steps):
        a1 = law.acceleration(p[2], v)
        dt = slide.share * _time_left(law, v, a1)
        v2 = v + dt / 2 * a1
        a2 = law.acceleration(p[2] + dt / 2 * v[2], v2)
        v3 = v + dt / 2 * a2
        a3 = law.acceleration(p[2] + dt / 2 * v2[2], v3)
        v4 = v + dt * a3
        a4 = law.acceleration(p[2] + dt * v3[2], v4)
        p = p + dt / 6 * (v + 2 * v2 + 2 * v3 + v4)
        v = v + dt / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        seconds += dt
    left = _time_left(law, v, law.acceleration(p[2], v))
    return (p + left / 2 * v).T, seconds + left


def _time_left(law: _Friction, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Until rest, if the deceleration along the present direction stayed as it is [s]."""
    k = law.gyration**2
    square = v[0] ** 2 + v[1] ** 2 + k * v[2] ** 2
    power = -(v[0] * a[0] + v[1] * a[1] + k * v[2] * a[2])
    return square / np.maximum(power, _TINY)


def _friction(
    config: PushingConfig,
    n: int,
    friction: float | np.ndarray | None,
    torsional_friction: float | np.ndarray | None,
) -> _Friction:
    mu = np.asarray(config.table_friction if friction is None else friction, dtype=np.float64)
    mu_t = np.asarray(config.torsional_friction if torsional_friction is None else torsional_friction, dtype=np.float64)
    for name, value in (("friction", mu), ("torsional_friction", mu_t)):
        if value.shape not in ((), (n,)):
            raise BadInput(f"{name} has shape {value.shape}, expected () or ({n},)")
    if mu.size and not (mu.min() > 0 and mu.max() <= config.tipping_friction):
        raise BadInput(
            f"friction in [{mu.min():g}, {mu.max():g}] must lie in (0, {config.tipping_friction:.3f}], above which "
            "this object tips over"
        )
    if mu_t.size and not (mu_t.min() >= 0 and np.isfinite(mu_t).all()):
        raise BadInput(f"torsional_friction {mu_t.min():g} m must not be negative")
    x, y = config.footprint.supports.T
    basis = np.stack([np.ones_like(x), x, y])
    return _Friction(x[:, None], y[:, None], basis, config.height / 2, config.footprint.gyration, mu, mu_t)
