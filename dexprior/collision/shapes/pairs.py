"""What one impact of two bodies did: the record that networks learn from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from dexprior.types.check import Checker

__all__ = ["ShapePairs", "kinetic_energy_of"]

_ARRAYS = ("before", "after", "pose", "point", "frame", "delassus", "impulse", "parameters")


@dataclass(frozen=True, kw_only=True)
class ShapePairs:
    """Impacts in the object's body frame at the first touch; its origin is the centre of mass."""

    schema: ClassVar[str] = "dexprior.shape_pairs/1"

    before: Float[np.ndarray, "pair 2 6"]
    """[v omega] of the object and of the other side, each at its own centre of mass [m/s, rad/s]."""
    after: Float[np.ndarray, "pair 2 6"]
    """The same after separation, in the same frame: not turned on with the object during the contact."""
    pose: Float[np.ndarray, "pair 7"]
    """Pose of the other side [x y z qw qx qy qz]."""
    point: Float[np.ndarray, "pair 3"]
    """Where they touch [m]."""
    frame: Float[np.ndarray, "pair 3 3"]
    """Rows: normal, from the other side into the object; tangent, along which the object slides on the other side; and
    their cross product."""
    delassus: Float[np.ndarray, "pair 3 3"]
    """Contact velocity per contact impulse, in `frame` [1/kg]; zero rows for what a planar motion leaves out."""
    impulse: Float[np.ndarray, "pair 4"]
    """Impulse on the object, in `frame` [N s], and about the normal [N m s]; explains the change of velocity best."""
    parameters: Float[np.ndarray, "pair parameter"]
    """Contact parameters, in the order of the scene's `parameters`; the damping ratio is that at 1 m/s."""
    names: tuple[str, ...]
    """Names of the columns of `parameters`."""
    inverse_inertia: Float[np.ndarray, "2 6 6"]
    """Inverse inertia for [v omega] of both sides, in their own body frames; zero for what cannot move."""
    cloud: Float[np.ndarray, "point 6"]
    """Points on the object's surface and their outward normals, body frame [m]."""
    counts: dict[str, int]
    """Impacts that were simulated, and that were rejected, by reason."""

    def __post_init__(self) -> None:
        check = Checker(self)
        check.array("before", "pair", 2, 6)
        check.array("after", "pair", 2, 6)
        check.poses("pose", "pair")
        check.array("point", "pair", 3)
        check.array("frame", "pair", 3, 3)
        check.array("delassus", "pair", 3, 3)
        check.array("impulse", "pair", 4)
        check.array("parameters", "pair", len(self.names))
        check.array("inverse_inertia", 2, 6, 6)
        check.array("cloud", "point", 6)

    def __len__(self) -> int:
        return len(self.before)

    @property
    def approach(self) -> Float[np.ndarray, "pair 3"]:
        """Object's velocity relative to the other side at the contact, in `frame`; the normal one is negative [m/s]."""
        v, omega = self.before[..., :3], self.before[..., 3:]
        at_object = v[:, 0] + np.cross(omega[:, 0], self.point)
        at_other = v[:, 1] + np.cross(omega[:, 1], self.point - self.pose[:, :3])
        return np.einsum("bij,bj->bi", self.frame, at_object - at_other)

    @property
    def gyration(self) -> float:
        """Radius of gyration of the object about the axes that it can turn about [m], their root mean square."""
        inverse = self.inverse_inertia[0]
        moving = inverse.diagonal()[3:] > 0
        inertia = np.linalg.pinv(inverse[3:, 3:], hermitian=True).diagonal()[moving]
        return float(np.sqrt(inertia.mean() * inverse[0, 0]))

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays with one row per impact, by name."""
        return {name: getattr(self, name) for name in _ARRAYS}

    def take(self, rows: Int[np.ndarray, " chosen"]) -> ShapePairs:
        """The chosen impacts, in the given order."""
        return replace(self, **{name: value[rows] for name, value in self.arrays().items()})


def kinetic_energy_of(
    twist: Float[np.ndarray, "pair 6"], inverse_inertia: Float[np.ndarray, "*pair 6 6"]
) -> Float[np.ndarray, " pair"]:
    """Kinetic energy of [v omega] [J]; what cannot move has none."""
    inertia = np.linalg.pinv(inverse_inertia, rcond=1e-12, hermitian=True)
    return 0.5 * np.einsum("...i,...ij,...j->...", twist, inertia, twist)
