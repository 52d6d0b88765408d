"""What MuJoCo's contact list says about watched pairs: patches of touching points, and frames within them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from jaxtyping import Float

from dexprior.collision.hybrid.pairs import WatchedPairs
from dexprior.types.collision import ContactGeometry

__all__ = ["Contact", "Frame", "Patch", "read_patch", "touching"]

_SLIDING = 1e-9  # [m/s] slower than that, the sliding direction means nothing
_ALIGNED = 0.5  # mean normals shorter than that (60 degrees to each side) are not one direction


@dataclass(frozen=True)
class Contact:
    """One pair's touch, as one point."""

    geometry: ContactGeometry
    """Batch of one; velocities are MuJoCo's `qvel`, and the inverse inertia knows what holds (see `holding.py`)."""
    velocity: Float[np.ndarray, " contact"]
    """[normal, tangential, (second tangential)] contact velocity; the normal one is negative when the pair
    approaches."""


@dataclass(frozen=True)
class Frame:
    """Where and along what a patch approaches, at one velocity."""

    jacobian: Float[np.ndarray, "contact dof"]
    """Rows: normal, tangent along the sliding, and in space the second tangent."""
    velocity: Float[np.ndarray, " contact"]
    """Contact velocity [m/s]."""


@dataclass(frozen=True)
class Patch:
    """The touching points of one watched pair."""

    normal: Float[np.ndarray, "point 3"]
    """World axes, from the pair's first side to its second."""
    relative: Float[np.ndarray, "point 3 dof"]
    """Jacobian of the second side's velocity relative to the first's, at each point."""

    @property
    def normal_rows(self) -> Float[np.ndarray, "point dof"]:
        """Jacobian of each point's separating speed."""
        return np.einsum("pa,pad->pd", self.normal, self.relative)

    def frame(
        self,
        velocity: Float[np.ndarray, " dof"],
        *,
        rows: int,
        inverse: Float[np.ndarray, "dof dof"] | None = None,
    ) -> Frame:
        """The patch as one point: the mean of its points, each weighted by how fast it approaches.

        A face that lands flat is struck at its centre, one that lands tilted at the edge or corner that goes in. Points
        whose normals have no common direction (a pin in a hole) are not averaged: the fastest one counts.

        Args:
            velocity: of the world (qvel).
            rows: 2 or 3.
            inverse: inverse inertia; gives a tangent to points that do not slide yet: the direction in which a normal
                impulse would make them slide.
        """
        speed = self.normal_rows @ velocity
        weight = np.maximum(-speed, 0.0)
        weight = weight / weight.sum() if weight.any() else np.full(len(speed), 1.0 / len(speed))
        normal = weight @ self.normal
        length = float(np.linalg.norm(normal))
        if length < _ALIGNED:
            fastest = int(speed.argmin())
            normal, relative = self.normal[fastest], self.relative[fastest]
        else:
            normal, relative = normal / length, np.tensordot(weight, self.relative, axes=1)
        tangent = _tangent(normal, relative, velocity, inverse)
        axes = [normal, tangent] if rows == 2 else [normal, tangent, np.cross(normal, tangent)]
        jacobian = np.stack(axes) @ relative
        return Frame(jacobian, jacobian @ velocity)


def touching(data: mujoco.MjData, watched: WatchedPairs) -> dict[int, list[int]]:
    """Rows of `data.contact` that MuJoCo would answer, by watched pair in ascending order."""
    if data.ncon == 0:
        return {}
    points = data.contact
    geoms = points.geom
    pair = watched.of[geoms[:, 0], geoms[:, 1]]
    rows = np.flatnonzero((pair >= 0) & (points.exclude == 0) & (geoms >= 0).all(axis=1))  # -1: a flex, not a geom
    if len(rows) == 0:
        return {}
    members: dict[int, list[int]] = {}
    for row in rows[np.argsort(pair[rows], kind="stable")].tolist():
        members.setdefault(int(pair[row]), []).append(row)
    return members


def read_patch(
    model: mujoco.MjModel, data: mujoco.MjData, watched: WatchedPairs, pair: int, rows: Sequence[int]
) -> Patch:
    """The patch of one pair from its rows of `data.contact`."""
    points = data.contact
    geoms, position = points.geom[rows], points.pos[rows]
    # MuJoCo's normal points from the first geom of the row to the second, whichever side that one is on
    sign = np.where(watched.first[pair, geoms[:, 0]], 1.0, -1.0)
    normal = points.frame[rows][:, :3] * sign[:, None]
    bodies = model.geom_bodyid[geoms]
    relative = np.zeros((len(rows), 3, model.nv))
    first, second = np.zeros((3, model.nv)), np.zeros((3, model.nv))
    for k in range(len(rows)):
        mujoco.mj_jac(model, data, first, None, position[k], bodies[k, 0])
        mujoco.mj_jac(model, data, second, None, position[k], bodies[k, 1])
        relative[k] = sign[k] * (second - first)
    return Patch(normal, relative)


def _tangent(normal: np.ndarray, relative: np.ndarray, velocity: np.ndarray, inverse: np.ndarray | None) -> np.ndarray:
    candidates = [relative @ velocity]
    if inverse is not None:
        pushed = relative @ (inverse @ (normal @ relative))
        speed = float(np.linalg.norm(pushed))
        candidates.append(pushed / speed if speed > 0 else pushed)
    for candidate in candidates:
        along = candidate - normal * (normal @ candidate)
        length = float(np.linalg.norm(along))
        if length > _SLIDING:
            return along / length
    axis = np.zeros(3)
    axis[int(np.abs(normal).argmin())] = 1.0
    along = axis - normal * (normal @ axis)
    return along / np.linalg.norm(along)
