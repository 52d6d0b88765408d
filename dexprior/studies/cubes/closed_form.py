"""The textbook impact of a corner: Newton restitution and a Coulomb cone, in space."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dexprior.studies.cubes.segmentation import CornerImpacts

__all__ = ["corner_impact", "fit_corner_impact"]


def corner_impact(
    impacts: CornerImpacts, restitution: float | np.ndarray, friction: float | np.ndarray
) -> Float[np.ndarray, "*candidate impact 6"]:
    """Velocity after: the corner sticks if the cone allows it, else slips against its sliding before.

    Args:
        impacts: states and geometry before.
        restitution: u_n after / -u_n before; a number, or one per candidate.
        friction: Coulomb coefficient, shaped as `restitution`.
    """
    e, mu = (np.asarray(x, dtype=np.float64)[..., None] for x in (restitution, friction))
    geometry = impacts.geometry
    a = geometry.delassus
    u = np.einsum("bcd,bd->bc", geometry.jacobian, impacts.pre)
    rebound = np.maximum(-u[:, 0], 0.0) * (1.0 + e)
    slide = np.broadcast_to(-u[:, 1:], (*rebound.shape, 2))
    stick = np.linalg.solve(a, np.concatenate([rebound[..., None], slide], axis=-1)[..., None])[..., 0]
    normal = rebound / np.maximum(a[:, 0, 0] - mu * a[:, 0, 1], 1e-12)
    slip = np.stack([normal, -mu * normal, np.zeros_like(normal)], axis=-1)
    sticks = (stick[..., 0] >= 0) & (np.linalg.norm(stick[..., 1:], axis=-1) <= mu * stick[..., 0])
    impulse = np.where(sticks[..., None], stick, slip)
    response = np.einsum("bde,bce->bdc", geometry.inverse_inertia, geometry.jacobian)
    return impacts.pre + np.einsum("bdc,...bc->...bd", response, impulse)


def fit_corner_impact(impacts: CornerImpacts, *, values: int = 61) -> tuple[float, float]:
    """(restitution, friction) in [0, 1] by grid search: smallest mean relative error in the kinetic-energy norm."""
    from dexprior.studies.cubes.metrics import relative_error

    ticks = np.linspace(0.0, 1.0, values)
    e, mu = np.meshgrid(ticks, ticks, indexing="ij")
    errors = relative_error(corner_impact(impacts, e.ravel(), mu.ravel()), impacts).mean(axis=-1)
    best = int(errors.argmin())
    return float(e.ravel()[best]), float(mu.ravel()[best])
