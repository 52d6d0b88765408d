"""Which contacts, limits and closed loops bore an impact, so that what reads MuJoCo's forces sees it.

The jump dv of an event is explained by impulses f of the rows R that took part: normals and tangents of the answered
pairs' points and of whatever held, limits, and equality constraints. They minimise

    0.5 (R^T f - M dv)^T M^-1 (R^T f - M dv) + 0.5 f^T W f,        f >= 0 for normals and limits,

the kinetic energy that they leave unexplained, whatever sweeps led to dv. The small W decides where more than one f
explains it: redundant points share (the four corners of a box), and friction bears as little as it can. What no push
explains is in no contact's force: contacts that rub while they are held (`Holding.rubbed`) may do so by a pull.
"""

from __future__ import annotations

from collections.abc import Collection

import mujoco
import numpy as np
from jaxtyping import Float

from dexprior.collision.hybrid.holding import constraint_jacobian, contact_rows
from dexprior.collision.hybrid.lcp import solve_lcp

__all__ = ["bearing_impulses", "row_count"]

_RIDGE = 1e-9  # relative to what a row's own impulse moves
_FRICTION = 1e3  # times as much for tangents
_EQUALITY = mujoco.mjtConstraint.mjCNSTR_EQUALITY.value
_STOP_OF_JOINT = mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT.value
_STOP_OF_TENDON = mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON.value


def bearing_impulses(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    change: Float[np.ndarray, " dof"],
    *,
    struck: Collection[int],
    closing: float,
) -> Float[np.ndarray, " constraint"]:
    """Impulse of each of MuJoCo's constraint rows, in the units and the order of `efc_force` times seconds.

    Args:
        model, data: with the constraints of the struck contacts among the others, and qvel after the jump.
        change: the jump.
        struck: rows of `data.contact` that the model answered.
        closing: other contacts and limits that separated faster bear nothing [m/s, rad/s].
    """
    impulses = np.zeros(data.nefc)
    if data.nefc == 0:
        return impulses
    jacobian, kind, before = constraint_jacobian(model, data), data.efc_type, data.qvel - change
    loops = np.flatnonzero(kind == _EQUALITY)
    stops = np.flatnonzero((kind == _STOP_OF_JOINT) | (kind == _STOP_OF_TENDON))
    stops = stops[jacobian[stops] @ before <= closing]
    address, friction = data.contact.efc_address, data.contact.friction
    contacts = np.flatnonzero(address >= 0)
    normals, tangents, rough = contact_rows(model, data, jacobian, contacts)
    answered = np.zeros(len(address), dtype=bool)
    answered[list(struck)] = True
    bears = answered[contacts] | (normals @ before <= closing)
    contacts, normals, tangents, rough = contacts[bears], normals[bears], tangents[bears], rough[bears]
    pushing, sliding = np.concatenate([jacobian[stops], normals]), tangents[rough].reshape(-1, model.nv)
    push, pull = _explain(model, data, change, pushing, sliding, jacobian[loops])
    impulses[stops], normal = push[: len(stops)], push[len(stops) :]
    tangent, impulses[loops] = pull[: len(sliding)].reshape(-1, 2), pull[len(sliding) :]
    first = address[contacts]
    impulses[first[~rough]] = normal[~rough]
    if model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL:  # what mj_contactForce sums: edges are normal +- tangent / mu
        edge = tangent / (2.0 * friction[contacts[rough], :2])
        values = normal[rough, None] / 4.0 + np.stack([edge, -edge], axis=2).reshape(-1, 4)
    else:
        values = np.column_stack([normal[rough], tangent])
    impulses[first[rough, None] + np.arange(values.shape[1])] = values
    return impulses


def row_count(model: mujoco.MjModel, dim: int) -> int:
    """Constraint rows of a contact of some dimension."""
    return 2 * (dim - 1) if dim > 1 and model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL else dim


def _explain(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    change: Float[np.ndarray, " dof"],
    pushing: Float[np.ndarray, "push dof"],
    sliding: Float[np.ndarray, "slide dof"],
    loops: Float[np.ndarray, "loop dof"],
) -> tuple[Float[np.ndarray, " push"], Float[np.ndarray, " slide+loop"]]:
    """Impulses of rows that only push, and of rows that go both ways."""
    rows = np.concatenate([pushing, sliding, loops])
    response = np.zeros_like(rows)
    mujoco.mj_solveM(model, data, response, rows)
    delassus = rows @ response.T
    own = delassus.diagonal()
    scale = np.where(own > 0, 1.0 / np.sqrt(np.maximum(own, np.finfo(float).tiny)), 0.0)
    delassus = scale[:, None] * delassus * scale
    ridge = np.full(len(rows), _RIDGE)
    ridge[len(pushing) : len(pushing) + len(sliding)] *= _FRICTION
    delassus[np.diag_indices(len(rows))] += ridge
    wanted = scale * (rows @ change)
    n = len(pushing)
    free = np.linalg.solve(delassus[n:, n:], np.column_stack([delassus[n:, :n], wanted[n:]]))
    push = solve_lcp(delassus[:n, :n] - delassus[:n, n:] @ free[:, :n], delassus[:n, n:] @ free[:, n] - wanted[:n])
    assert push is not None  # symmetric and, with the ridge, positive definite
    both = free[:, n] - free[:, :n] @ push
    return scale[:n] * push, scale[n:] * both
