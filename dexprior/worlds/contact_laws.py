"""Laws of contact as plain functions of what is measured at a contact; batched, without a simulator."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

__all__ = ["bouc_wen", "capstan", "ellipse_radius", "stribeck", "tendon_tension", "toe_secant"]

Array = np.ndarray


def ellipse_radius(
    force: Float[Array, "*n 3"], axis: Float[Array, "*n 3"], normal: Float[Array, "*n 3"], ratio: float
) -> Float[Array, "*n"]:
    """Friction coefficient in the direction of a tangential force, over that across the axis.

    (cos^2 / ratio^2 + sin^2)^(-1/2), an ellipse; 1 without a force, or where the axis is along the normal.

    Args:
        force: tangential; its sign does not matter.
        axis: along which things slide easily.
        normal: unit normal of the contact.
        ratio: coefficient along the axis over that across it.
    """
    along = axis - np.sum(axis * normal, axis=-1, keepdims=True) * normal
    scale = np.linalg.norm(along, axis=-1) * np.linalg.norm(force, axis=-1)
    known = scale > 1e-9
    cosine = np.sum(along * force, axis=-1) / np.where(known, scale, 1.0)
    square = np.minimum(cosine**2, 1.0)
    return np.where(known, 1.0 / np.sqrt(square / ratio**2 + 1.0 - square), 1.0)


def stribeck(speed: Float[Array, "*n"], kinetic: float, scale: float, viscous: float) -> Float[Array, "*n"]:
    """Friction coefficient at a speed of sliding [m/s], over the static one."""
    return kinetic + (1.0 - kinetic) * np.exp(-speed / scale) + viscous * speed


def toe_secant(load: Float[Array, "*n"], ratio: float, toe: float) -> Float[Array, "*n"]:
    """Secant stiffness at a load [N] over the highest: x / ln(1 + x) / ratio with x = load / toe, at most 1."""
    x = np.maximum(load, 0.0) / toe
    small = x < 1e-6
    secant = np.where(small, 1.0, x / np.where(small, 1.0, np.log1p(x)))
    return np.minimum(secant / ratio, 1.0)


def bouc_wen(z: Float[Array, "*n"], change: Float[Array, "*n"], scale: float) -> Float[Array, "*n"]:
    """The hysteretic variable after a change of depth [m]: exact for dz/dr = (sign(dr) - z) / scale."""
    side = np.sign(change)
    return side + (z - side) * np.exp(-np.abs(change) / scale)


def capstan(
    tension: Float[Array, "*n"], friction: float, angle: Float[Array, "*n"], slide: Float[Array, "*n"]
) -> Float[Array, "*n"]:
    """Tension behind bends, T exp(mu theta s): less where the cable runs towards the motor, more where it runs back.

    Args:
        tension: at the motor [N].
        friction: mu of the bends.
        angle: theta, of all bends [rad].
        slide: s in [-1, 1], the direction in which the cable slides or would, -1 towards the motor; see `bouc_wen`.
    """
    return tension * np.exp(friction * angle * slide)


def tendon_tension(
    tension: Float[Array, "*n"],
    wanted: Float[Array, "*n"],
    stretch: Float[Array, "*n"],
    *,
    stiffness: float,
    stiffening: float,
    reel: float,
) -> Float[Array, "*n"]:
    """Tension of a tendon after it was stretched and its motor reeled towards the wanted tension [N].

    Args:
        tension: before [N].
        wanted: by the command [N].
        stretch: by which its far end moved away [m].
        stiffness: without a load [N/m].
        stiffening: tension that doubles it [N].
        reel: the longest that the motor can wind in this time [m].
    """
    k = stiffness * (1.0 + tension / stiffening)
    pulled = tension + k * stretch
    return np.maximum(pulled + np.clip(wanted - pulled, -k * reel, k * reel), 0.0)
