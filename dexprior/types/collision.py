"""The interface of a learned (or analytic) collision model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from dexprior.types.check import Checker

__all__ = ["CollisionModel", "ContactGeometry", "MeasuredImpacts"]


@dataclass(frozen=True, kw_only=True)
class ContactGeometry:
    """How a batch of contacts couples to the generalised velocity v: contact velocity u = J v.

    For a free planar body v = [vx vy omega]; for a mechanism v = qvel.
    """

    schema: ClassVar[str] = "dexprior.contact_geometry/1"

    jacobian: Float[np.ndarray, "batch contact dof"]
    """Rows: contact normal (separating velocity is positive), tangent, and in space a second tangent."""
    inverse_inertia: Float[np.ndarray, "batch dof dof"]
    """Inverse of the generalised inertia [1/kg, ...]."""
    context: Float[np.ndarray, "batch context"] | None = None
    """What else is known about each impact, in columns that the measured set fixes; None where nothing is."""

    def __post_init__(self) -> None:
        check = Checker(self)
        check.array("jacobian", "batch", "contact", "dof")
        check.array("inverse_inertia", "batch", "dof", "dof")
        if self.context is not None:
            check.array("context", "batch", "context")

    @cached_property
    def delassus(self) -> Float[np.ndarray, "batch contact contact"]:
        """A = J M^-1 J^T: contact velocity per contact impulse [1/kg]."""
        return self.jacobian @ self.inverse_inertia @ self.jacobian.transpose(0, 2, 1)


class MeasuredImpacts(Protocol):
    """Impacts whose velocities before and after are known, to fit a model to."""

    @property
    def pre(self) -> Float[np.ndarray, "impact dof"]:
        """Generalised velocity before."""
        ...

    @property
    def post(self) -> Float[np.ndarray, "impact dof"]:
        """And after."""
        ...

    @property
    def geometry(self) -> ContactGeometry:
        """How the contacts couple to it, with a context."""
        ...

    def __len__(self) -> int: ...


@runtime_checkable
class CollisionModel(Protocol):
    """Maps the velocity before an impact to the velocity after it."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the columns of `phi`."""
        ...

    @property
    def rows(self) -> int:
        """Rows of the contact Jacobian that it reads: 2 in a plane, 3 in space."""
        ...

    def predict(
        self,
        pre: Float[np.ndarray, "batch dof"],
        geometry: ContactGeometry,
        phi: Float[np.ndarray, "batch parameter"],
    ) -> tuple[Float[np.ndarray, "batch dof"], Float[np.ndarray, "batch dof"]]:
        """Velocity after the impact, and its standard deviation, both in the units of `pre`."""
        ...
