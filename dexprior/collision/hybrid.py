"""A drop-in for `mj_step` that hands short impacts to a collision model and leaves all else to MuJoCo.

When a watched pair of geoms touches for the first time with an approach speed above a threshold, the
generalised velocity jumps by the model's impulse, v+ = v- + M^-1 J^T p. Until the pair separates, its
contacts are excluded from MuJoCo's constraints, so that the impact is not answered twice; the exclusion acts
on that pair alone, by `mjContact.exclude` and a rebuild of the constraints of that step. Pushing and resting
stay MuJoCo's: a touch below the threshold is never taken, and one that closes again or lasts is handed back.

The impulse of one pair is computed with the bodies otherwise free: contacts that hold at the same moment (an
object struck while it stands on a table) answer in MuJoCo's same step, after the jump, and not with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol, runtime_checkable

import mujoco
import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, config
from dexprior.errors import BadInput, UnknownName
from dexprior.types.collision import CollisionModel, ContactGeometry

__all__ = ["Contact", "HybridConfig", "HybridStepper", "RangedCollisionModel"]

_ENERGY_TOLERANCE = 1e-9  # relative gain of kinetic energy that is still rounding
_SLIDING = 1e-9  # [m/s] slower than that, the sliding direction means nothing
_EXCLUDED = 1  # any non-zero mjContact.exclude keeps a contact out of the constraints


@config
class HybridConfig:
    """When the collision model is asked, and for how long MuJoCo's answer stays off."""

    min_approach: Annotated[float, Gt(0)] = 0.1
    """Approach speed that makes a first touch an impact [m/s]; slower ones are MuJoCo's."""
    closing: Annotated[float, Ge(0)] = 1e-3
    """Approach speed after the impact that gives the pair back to MuJoCo [m/s]."""
    max_steps: Annotated[int, Ge(1)] = 20
    """Steps after which a pair that still touches is given back to MuJoCo."""


@runtime_checkable
class RangedCollisionModel(CollisionModel, Protocol):
    """A collision model that knows where it was trained."""

    def inside(
        self,
        pre: Float[np.ndarray, "batch dof"],
        geometry: ContactGeometry,
        phi: Float[np.ndarray, "batch parameter"],
    ) -> Bool[np.ndarray, " batch"]:
        """Whether each impact lies in the range of its training."""
        ...


@dataclass(frozen=True)
class Contact:
    """One pair's touch, as one point: all of its contact points averaged."""

    geometry: ContactGeometry
    """Batch of one; velocities are MuJoCo's `qvel`."""
    velocity: Float[np.ndarray, " 2"]
    """[normal, tangential] contact velocity; the normal one is negative when the geoms approach."""


class HybridStepper:
    """Steps one world; keeps which pairs are in an impact, and counts what it did.

    counts: `impacts` answered by the model; `energy`, `not_finite`, `out_of_range`, `penetrating`: impacts
    that a guard gave to MuJoCo instead; `handed_back`: pairs that closed again, or touched for too long.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        pairs: Sequence[tuple[str, str]],
        collision_model: CollisionModel,
        phi: Float[np.ndarray, "*pair parameter"],
        config: HybridConfig | None = None,
    ) -> None:
        """Watch pairs of geoms.

        Args:
            model: the world.
            data: its state; the stepper writes `qvel` at an impact.
            pairs: names of the geoms whose impacts are the collision model's.
            collision_model: e.g. a `Surrogate`.
            phi: its parameters, (parameter,) for all pairs or (pair, parameter).
            config: thresholds.

        Raises:
            UnknownName: a geom that the world does not have.
            BadInput: phi of the wrong shape, or an integrator that cannot be split (RK4).
        """
        if model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4:
            raise BadInput(
                "HybridStepper: RK4 evaluates contacts four times a step and cannot be split; "
                "use Euler, implicit or implicitfast"
            )
        columns = len(collision_model.parameters)
        rows = np.atleast_2d(np.asarray(phi, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != columns or len(rows) not in (1, len(pairs)):
            raise BadInput(
                f"HybridStepper: phi has shape {np.shape(phi)}, expected ({columns},) or "
                f"({len(pairs)}, {columns}) for {', '.join(collision_model.parameters)}"
            )
        self.model, self.data, self.collision_model = model, data, collision_model
        self.config = config or HybridConfig()
        self.phi = np.broadcast_to(rows, (len(pairs), columns))
        ids = np.array([[_geom_id(model, name) for name in pair] for pair in pairs], dtype=np.int64)
        ids = ids.reshape(len(pairs), 2)
        self._pair_of = np.full((model.ngeom, model.ngeom), -1)  # watched pair of two geoms, -1: none
        self._pair_of[ids[:, 0], ids[:, 1]] = self._pair_of[ids[:, 1], ids[:, 0]] = np.arange(len(ids))
        self.counts = dict.fromkeys(
            ("impacts", "energy", "not_finite", "out_of_range", "penetrating", "handed_back"), 0
        )
        self.reset()

    def reset(self) -> None:
        """Forget which pairs touch; call it after the world's state was set from outside. Counts stay."""
        self._touching: set[int] = set()
        self._impact_age: dict[int, int] = {}  # pair in an impact -> steps since the model's answer

    def step(self) -> None:
        """Advance the world by one time step, like `mj_step`."""
        mujoco.mj_step1(self.model, self.data)
        members = self._contacts_by_pair()
        self._impact_age = {k: age + 1 for k, age in self._impact_age.items() if k in members}
        self._hand_back(members)
        fresh = members.keys() - self._touching
        jumped = [k for k in sorted(fresh) if self._answer(k, members[k])]
        if jumped:
            mujoco.mj_step1(self.model, self.data)  # same positions and contacts, new velocity
            self._impact_age |= dict.fromkeys(jumped, 0)
        if self._impact_age:
            self._exclude([row for k in self._impact_age for row in members[k]])
        mujoco.mj_step2(self.model, self.data)
        self._touching = set(members)

    def contact(self, ids: Sequence[int]) -> Contact:
        """How the touch of one pair couples to the generalised velocity.

        The tangent lies along the sliding velocity, so that planar friction is the whole of it.

        Args:
            ids: the pair's rows of `data.contact`.
        """
        model, data = self.model, self.data
        points = data.contact
        geoms = points.geom[ids[0]]
        position = points.pos[ids].mean(axis=0)
        # MuJoCo's normal points from the first geom to the second, whichever way round a row stores the pair
        flips = np.where(points.geom[ids][:, 0] == geoms[0], 1.0, -1.0)
        normal = (points.frame[ids][:, :3] * flips[:, None]).mean(axis=0)
        normal /= np.linalg.norm(normal)
        first, second = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        mujoco.mj_jac(model, data, first, None, position, model.geom_bodyid[geoms[0]])
        mujoco.mj_jac(model, data, second, None, position, model.geom_bodyid[geoms[1]])
        relative = second - first
        velocity = relative @ data.qvel
        sliding = velocity - normal * (normal @ velocity)
        speed = np.linalg.norm(sliding)
        tangent = sliding / speed if speed > _SLIDING else _any_tangent(normal)
        jacobian = np.stack([normal, tangent]) @ relative
        inverse = np.zeros((model.nv, model.nv))
        mujoco.mj_solveM(model, data, inverse, np.eye(model.nv))
        geometry = ContactGeometry(jacobian=jacobian[None], inverse_inertia=inverse[None])
        return Contact(geometry, jacobian @ data.qvel)

    def _contacts_by_pair(self) -> dict[int, list[int]]:
        """Rows of `data.contact` that touch, by watched pair."""
        if self.data.ncon == 0:
            return {}
        points = self.data.contact
        pair = self._pair_of[points.geom[:, 0], points.geom[:, 1]]
        members: dict[int, list[int]] = {}
        for row in np.flatnonzero((pair >= 0) & (points.dist <= 0)).tolist():
            members.setdefault(int(pair[row]), []).append(row)
        return members

    def _answer(self, pair: int, ids: list[int]) -> bool:
        """Ask the collision model about a first touch; write its velocity unless a guard objects."""
        contact = self.contact(ids)
        if contact.velocity[0] > -self.config.min_approach:
            return False
        pre, phi = self.data.qvel[None].copy(), self.phi[[pair]]
        objection = self._ranged(pre, contact, phi)
        if objection is None:
            post = self.collision_model.predict(pre, contact.geometry, phi)[0][0]
            objection = self._objection(pre[0], post, contact)
        if objection is not None:
            self.counts[objection] += 1
            return False
        self.data.qvel[:] = post
        self.counts["impacts"] += 1
        return True

    def _ranged(self, pre: np.ndarray, contact: Contact, phi: np.ndarray) -> str | None:
        model = self.collision_model
        if isinstance(model, RangedCollisionModel) and not model.inside(pre, contact.geometry, phi)[0]:
            return "out_of_range"
        return None

    def _objection(self, pre: np.ndarray, post: np.ndarray, contact: Contact) -> str | None:
        if not np.isfinite(post).all():
            return "not_finite"
        if self._kinetic_energy(post) > self._kinetic_energy(pre) * (1.0 + _ENERGY_TOLERANCE):
            return "energy"
        if float(contact.geometry.jacobian[0, 0] @ post) < -self.config.closing:
            return "penetrating"
        return None

    def _kinetic_energy(self, velocity: np.ndarray) -> float:
        momentum = np.zeros(self.model.nv)
        mujoco.mj_mulM(self.model, self.data, momentum, velocity)
        return 0.5 * float(velocity @ momentum)

    def _hand_back(self, members: dict[int, list[int]]) -> None:
        """Give a pair back to MuJoCo if it closes again or has touched for too long after its impact."""
        for k, age in list(self._impact_age.items()):
            closing = self.contact(members[k]).velocity[0] < -self.config.closing
            if closing or age > self.config.max_steps:
                del self._impact_age[k]
                self.counts["handed_back"] += 1

    def _exclude(self, rows: list[int]) -> None:
        """Take contacts of pairs in an impact out of this step's constraints."""
        for row in rows:
            self.data.contact[row].exclude = _EXCLUDED
        # what mj_fwdPosition does after collision detection, and mj_fwdVelocity with the constraints
        mujoco.mj_makeConstraint(self.model, self.data)
        mujoco.mj_island(self.model, self.data)
        mujoco.mj_projectConstraint(self.model, self.data)
        mujoco.mj_fwdVelocity(self.model, self.data)


def _geom_id(model: mujoco.MjModel, name: str) -> int:
    found = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, name)
    if found < 0:
        names = [model.geom(k).name for k in range(model.ngeom)]
        raise UnknownName("geom", name, [n for n in names if n])
    return found


def _any_tangent(normal: np.ndarray) -> np.ndarray:
    axis = np.zeros(3)
    axis[int(np.abs(normal).argmin())] = 1.0
    tangent = axis - normal * (normal @ axis)
    return tangent / np.linalg.norm(tangent)
