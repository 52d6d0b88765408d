"""The textbook collision: Newton restitution and Coulomb friction, in the contact frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dexprior.collision.surrogate import apply_impulse, contact_velocity
from dexprior.errors import BadInput
from dexprior.types.collision import ContactGeometry

__all__ = ["RestitutionFriction"]


@dataclass(frozen=True)
class RestitutionFriction:
    """Sticks if the friction cone allows it, else slips; the contact separates at e |u_n|. phi = (e, mu).

    Newton's law of restitution with friction can gain energy in oblique impacts (Kane 1984); it is kept as
    published, since it is here to be compared with.
    """

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the columns of `phi`."""
        return ("restitution", "friction")

    @property
    def rows(self) -> int:
        """Normal and tangent."""
        return 2

    def predict(
        self,
        pre: Float[np.ndarray, "batch dof"],
        geometry: ContactGeometry,
        phi: Float[np.ndarray, "batch 2"],
    ) -> tuple[Float[np.ndarray, "batch dof"], Float[np.ndarray, "batch dof"]]:
        """Velocity after the impact; the standard deviation is zero, as the model has none.

        Raises:
            BadInput: `phi` does not hold two columns.
        """
        phi = np.asarray(phi, dtype=np.float64)
        if phi.ndim != 2 or phi.shape[1] != 2:
            raise BadInput(f"predict: phi has shape {phi.shape}, expected (batch, 2): restitution, friction")
        a = geometry.delassus
        u = contact_velocity(pre, geometry)
        rebound = np.maximum(-u[:, 0], 0.0) * (1.0 + phi[:, 0])  # change of the normal velocity
        # the pseudo-inverse serves mechanisms of one degree of freedom, whose contact moves along one line only
        stick = (np.linalg.pinv(a, hermitian=True) @ np.stack([rebound, -u[:, 1]], axis=1)[..., None])[..., 0]
        side = np.sign(stick[:, 1]) * phi[:, 1]
        normal = rebound / np.maximum(a[:, 0, 0] + side * a[:, 0, 1], 1e-12)
        slip = np.stack([normal, side * normal], axis=1)
        sticks = (stick[:, 0] >= 0) & (np.abs(stick[:, 1]) <= phi[:, 1] * stick[:, 0])
        impulse = np.where(sticks[:, None], stick, slip) * (u[:, :1] < 0)
        return apply_impulse(pre, geometry, impulse, np.zeros_like(impulse))
