"""What holds while two bodies collide: the ground under a struck object, a joint at its limit, a closed loop.

An impulse f = J^T p is answered by the bodies together with the contacts that hold at that moment. Equality
constraints E hold both ways, so the inverse inertia is first projected onto E v = const. A contact or limit g only
pushes: among the rows G, those pressed by the impulse solve

    0 <= lambda  complementary to  G (P f + P G^T lambda) >= 0,        P = M^-1 - M^-1 E^T (E M^-1 E^T)^+ E M^-1

and the response with those rows G_a held is that of the inverse inertia

    P_a = P - P G_a^T (G_a P G_a^T)^+ G_a P

whose Delassus operator J P_a J^T is what a collision model sees. Held contacts do not rebound. They rub: each opposes
the sliding that the blow leaves, by at most its friction coefficient times lambda, as the friction that takes most
energy does (Moreau's principle of maximum dissipation). Brogliato 2016, "Nonsmooth Mechanics", chapters 4 and 5.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import mujoco
import numpy as np
from jaxtyping import Bool, Float, Int

from dexprior.collision.hybrid.lcp import solve_lcp

__all__ = ["Holding", "constraint_jacobian", "contact_rows", "read_holding"]

_RIDGE = 1e-9  # relative; shares the load of redundant rows
_ITERATIONS = 300  # of the friction's projected gradient, at most
_CONVERGED = 1e-10  # largest change of an impulse in one iteration, relative to the largest bound


@dataclass(frozen=True)
class Holding:
    """The rows that hold at one moment, and the inverse inertia with equality constraints held."""

    free: Float[np.ndarray, "dof dof"]
    """M^-1."""
    inverse: Float[np.ndarray, "dof dof"]
    """P."""
    rows: Float[np.ndarray, "hold dof"]
    """G: separating speed of each contact, or of each limit, that may hold."""
    tangents: Float[np.ndarray, "hold 2 dof"]
    """Sliding velocity of each row; zero for limits and contacts without friction."""
    friction: Float[np.ndarray, " hold"]
    """Coefficient of sliding friction."""

    def pressed(self, impulse: Float[np.ndarray, " dof"]) -> Float[np.ndarray, " hold"]:
        """Impulse lambda >= 0 with which each row answers a generalised impulse; none pulls."""
        if len(self.rows) == 0:
            return np.zeros(0)
        answer = solve_lcp(self._delassus, self._response.T @ impulse, ridge=_RIDGE)
        assert answer is not None  # symmetric and, with the ridge, positive definite
        return answer

    def projected(self, active: Bool[np.ndarray, " hold"]) -> Float[np.ndarray, "dof dof"]:
        """P_a: inverse inertia with some rows held."""
        key = active.tobytes()
        if key not in self._projections:
            self._projections[key] = _project(self.inverse, self.rows[active])
        return self._projections[key]

    def response(
        self, impulse: Float[np.ndarray, " dof"], pressed: Float[np.ndarray, " hold"]
    ) -> Float[np.ndarray, " dof"]:
        """Change of velocity by an impulse and the rows that answer it."""
        return self.inverse @ impulse + self._response @ pressed

    def rubbed(
        self, velocity: Float[np.ndarray, " dof"], pressed: Float[np.ndarray, " hold"]
    ) -> Float[np.ndarray, " dof"]:
        """Change of velocity by the friction of pressed rows, which meanwhile hold.

        Minimises the kinetic energy over tangential impulses f with |f_i| <= friction_i pressed_i, by accelerated
        projected gradient (Nesterov 1983); the velocity is unique, whatever the order of contacts.

        Args:
            velocity: with which the blow leaves the bodies.
            pressed: normal impulse of each row.
        """
        bound = self.friction * pressed
        rubs = bound > 0
        if not rubs.any():
            return np.zeros_like(velocity)
        bound, tangents = bound[rubs], self.tangents[rubs].reshape(-1, len(velocity))
        response = self.projected(pressed > 0) @ tangents.T
        curvature, slope = tangents @ response, tangents @ velocity
        stiffest = float(np.linalg.eigvalsh(curvature)[-1])
        if stiffest <= 0:
            return np.zeros_like(velocity)
        impulse = ahead = np.zeros(len(slope))
        momentum = 1.0
        for _ in range(_ITERATIONS):
            stepped = (ahead - (slope + curvature @ ahead) / stiffest).reshape(-1, 2)
            size = np.linalg.norm(stepped, axis=1)
            previous, impulse = impulse, (stepped * np.minimum(1.0, bound / np.maximum(size, 1e-300))[:, None]).ravel()
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            ahead = impulse + (momentum - 1.0) / following * (impulse - previous)
            momentum = following
            if np.abs(impulse - previous).max() <= _CONVERGED * bound.max():
                break
        return response @ impulse

    @cached_property
    def _response(self) -> Float[np.ndarray, "dof hold"]:
        return self.inverse @ self.rows.T

    @cached_property
    def _delassus(self) -> Float[np.ndarray, "hold hold"]:
        return self.rows @ self._response

    @cached_property
    def _projections(self) -> dict[bytes, Float[np.ndarray, "dof dof"]]:
        return {}


def read_holding(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    velocity: Float[np.ndarray, " dof"],
    *,
    without: Collection[int],
    closing: float,
) -> Holding:
    """Everything that MuJoCo constrains at this moment, but friction in joints and tendons.

    Args:
        model, data: after the position stage.
        velocity: qvel.
        without: rows of `data.contact` that do not hold.
        closing: rows that separate faster do not hold [m/s, rad/s].
    """
    free = np.zeros((model.nv, model.nv))
    mujoco.mj_solveM(model, data, free, np.eye(model.nv))
    if data.nefc == 0:
        return Holding(free, free, np.zeros((0, model.nv)), np.zeros((0, 2, model.nv)), np.zeros(0))
    jacobian, kind = constraint_jacobian(model, data), data.efc_type
    stops = jacobian[
        (kind == mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT) | (kind == mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON)
    ]
    points = data.contact
    used = points.efc_address >= 0
    used[list(without)] = False
    normals, tangents, rough = contact_rows(model, data, jacobian, np.flatnonzero(used))
    rows = np.concatenate([stops, normals])
    tangents = np.concatenate([np.zeros((len(stops), 2, model.nv)), tangents])
    friction = np.concatenate([np.zeros(len(stops)), np.where(rough, points.friction[used, 0], 0.0)])
    holds = (rows @ velocity <= closing) & rows.any(axis=1)
    equality = jacobian[kind == mujoco.mjtConstraint.mjCNSTR_EQUALITY]
    return Holding(free, _project(free, equality), rows[holds], tangents[holds], friction[holds])


def constraint_jacobian(model: mujoco.MjModel, data: mujoco.MjData) -> Float[np.ndarray, "constraint dof"]:
    """`efc_J`, however MuJoCo stores it."""
    if not mujoco.mj_isSparse(model):
        return data.efc_J.reshape(data.nefc, model.nv)
    dense = np.zeros((data.nefc, model.nv))
    mujoco.mju_sparse2dense(dense, data.efc_J, data.efc_J_rownnz, data.efc_J_rowadr, data.efc_J_colind)
    return dense


def contact_rows(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    jacobian: Float[np.ndarray, "constraint dof"],
    contacts: Int[np.ndarray, " contact"],
) -> tuple[Float[np.ndarray, "contact dof"], Float[np.ndarray, "contact 2 dof"], Bool[np.ndarray, " contact"]]:
    """Separating and sliding velocity of contacts as rows over qvel, and which of them rub at all.

    Args:
        model, data: after the position stage.
        jacobian: see `constraint_jacobian`.
        contacts: rows of `data.contact` with constraints.
    """
    points = data.contact
    start, rough = points.efc_address[contacts], points.dim[contacts] >= 3
    normals, tangents = jacobian[start], np.zeros((len(start), 2, model.nv))
    first, coefficient = start[rough], points.friction[contacts][rough]
    if model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL:  # edges are normal +- friction x tangent
        normals[rough] = 0.5 * (jacobian[first] + jacobian[first + 1])
        for k in range(2):
            edges = jacobian[first + 2 * k] - jacobian[first + 2 * k + 1]
            tangents[rough, k] = edges / (2.0 * coefficient[:, k])[:, None]
    else:
        tangents[rough] = np.stack([jacobian[first + 1], jacobian[first + 2]], axis=1)
    return normals, tangents, rough


def _project(inverse: np.ndarray, rows: np.ndarray) -> np.ndarray:
    if len(rows) == 0:
        return inverse
    response = inverse @ rows.T
    delassus = rows @ response
    ridge = _RIDGE * float(delassus.diagonal().max())  # in place of a pseudo-inverse: redundant rows share
    if ridge <= 0:
        return inverse
    return inverse - response @ np.linalg.solve(delassus + ridge * np.eye(len(rows)), response.T)
