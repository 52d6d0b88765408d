"""The human hand on the gantry: which joints bring its wrist to a pose, and its grasps of things."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.geometry.rotations import (
    axis_angle_from_matrix,
    matrix_from_axis_angle,
    matrix_from_quat,
    quat_from_axis_angle,
    quat_from_matrix,
)
from dexprior.hands.skeleton import FINGER_RADIUS, forward
from dexprior.robots.human_hand import (
    HINGE_LIMITS,
    HINGE_NAMES,
    NOMINAL,
    PINCH_POINT,
    finger_pose_from_hinges,
    wrist_rotation,
)
from dexprior.types.hand import FINGERS

__all__ = [
    "Contact",
    "HandGrasp",
    "REACHED",
    "gantry_from_wrist",
    "solve_grasp",
    "wrist_from_gantry",
]

# --- the gantry carries the wrist -------------------------------------------------------------------------------


def gantry_from_wrist(pose: Float[np.ndarray, "*batch 7"]) -> Float[np.ndarray, "*batch 6"]:
    """Joint positions of the `gantry` arm (x, y, z, yaw, pitch, roll) that bring the wrist to a pose [m, rad].

    R_wrist = Rz(yaw) Ry(pitch) Rx(roll) R_nominal; the pitch is taken in [-pi/2, pi/2].
    """
    pose = np.asarray(pose, dtype=np.float64)
    R = matrix_from_quat(pose[..., 3:]) @ NOMINAL.T
    yaw, roll = np.arctan2(R[..., 1, 0], R[..., 0, 0]), np.arctan2(R[..., 2, 1], R[..., 2, 2])
    pitch = np.arcsin(np.clip(-R[..., 2, 0], -1.0, 1.0))
    return np.concatenate([pose[..., :3], np.stack([yaw, pitch, roll], axis=-1)], axis=-1)


def wrist_from_gantry(q: Float[np.ndarray, "*batch 6"]) -> Float[np.ndarray, "*batch 7"]:
    """Inverse of `gantry_from_wrist`: the pose of MANO's wrist frame."""
    q = np.asarray(q, dtype=np.float64)
    turns = [matrix_from_axis_angle(q[..., k, None] * axis) for k, axis in ((3, _Z), (4, _Y), (5, _X))]
    R = turns[0] @ turns[1] @ turns[2] @ NOMINAL
    return np.concatenate([q[..., :3], quat_from_matrix(R)], axis=-1)


_X, _Y, _Z = np.eye(3)


# --- grasps -----------------------------------------------------------------------------------------------------

Vector = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Contact:
    """Where one fingertip meets the object, in the object's frame."""

    finger: str
    point: Vector
    """Point on the surface [m]."""
    normal: Vector
    """Out of the object, of length one."""


@dataclass(frozen=True, kw_only=True)
class HandGrasp:
    """A grasp relative to an upright object at the origin."""

    wrist_pose: Float[np.ndarray, 7]
    fingers: tuple[str, ...]
    """Those that touch."""
    open: Float[np.ndarray, " hinge"]
    """Fingertips well clear of the object [rad]."""
    touch: Float[np.ndarray, " hinge"]
    """Fingertips on the surface [rad]."""
    squeeze: Float[np.ndarray, " hinge"]
    """Fingertips commanded into the object: the servos turn the distance into force [rad]."""
    error: float
    """Largest distance of a touching fingertip from where it should be [m]."""


REACHED = 0.004
"""Largest distance of a fingertip from its contact in a posture that counts as reaching it [m]."""


@functools.cache
def solve_grasp(
    contacts: tuple[Contact, ...],
    *,
    fingers: Vector = (0.5, 0.0, -0.86),
    palm: Vector = (-0.86, 0.0, -0.5),
    floor: float = -1.0,
    depth: float = 0.012,
    clear: float = 0.018,
    outside: bool = False,
    within: float = REACHED,
) -> HandGrasp:
    """Fit wrist and fingers so that fingertips meet their contacts; its `error` says how nearly.

    Nonlinear least squares on fingertip positions, with a preference for a natural posture; idle fingers stay above
    the table.

    Args:
        contacts: one for each finger that takes part.
        fingers, palm: wanted directions of the stretched fingers and of the palm's normal.
        floor: height of the table in the object's frame [m].
        depth: how far inside the surface the squeezing fingertips are commanded [m].
        clear: how far outside it the open ones stay [m].
        outside: keep every segment of a touching finger on the outer side of the plane that its contact lies in, and
            idle fingers on that of their neighbour's; the thumb's contact comes first, then.
        within: largest error of a posture that counts [m]; infinity takes the nearest one.

    Raises:
        BadInput: an unknown finger, or no posture comes so near to the contacts.
    """
    from scipy.optimize import least_squares

    names = [contact.finger for contact in contacts]
    for name in names:
        if name not in FINGERS:
            raise BadInput(f"contact of finger {name!r}; choices: {', '.join(FINGERS)}")
    tips = [4 * (FINGERS.index(name) + 1) for name in names]
    idle = [4 * (k + 1) for k, name in enumerate(FINGERS) if name not in names]
    points, normals = (np.array([getattr(c, part) for c in contacts]) for part in ("point", "normal"))
    rest = np.array([_rest_angle(name, idle) for name in HINGE_NAMES])
    low, high = HINGE_LIMITS.T
    wanted = wrist_rotation(fingers, palm)

    def target(distance: float) -> np.ndarray:
        return points + normals * (FINGER_RADIUS + distance)

    def joints(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pose = np.concatenate([x[..., :3], quat_from_axis_angle(x[..., 3:6])], axis=-1)
        return forward(pose, finger_pose_from_hinges(x[..., 6:])), matrix_from_axis_angle(x[..., 3:6])

    # which landmark stays outside of which contact's plane: an idle finger of that of its neighbour
    kept = [(joint, k) for k, tip in enumerate(tips) for joint in (tip - 2, tip - 1)]
    for tip in idle if len(tips) > 1 else []:
        beside = min(range(1, len(tips)), key=lambda k: abs(tips[k] - tip))
        kept += [(joint, beside) for joint in (tip - 2, tip - 1, tip)]
    watched, planes = np.array(kept).T

    def behind(at: np.ndarray, distance: float) -> list[np.ndarray]:
        if not outside:
            return []
        height = np.einsum("...jk,jk->...j", at[..., watched, :] - points[planes], normals[planes])
        return [50 * np.minimum(height - FINGER_RADIUS - min(distance, 0.0), 0.0)]

    def whole(x: np.ndarray) -> np.ndarray:
        at, R = joints(x)
        batch = x.shape[:-1]
        low_points = np.minimum(at[..., 1:, 2] - floor - FINGER_RADIUS - 0.002, 0.0)
        low_idle = np.minimum(at[..., idle, 2] - floor - 0.03, 0.0)
        return np.concatenate(
            [
                100 * (at[..., tips, :] - target(0.0)).reshape(*batch, -1),
                0.7 * (R[..., :2] - wanted[:, :2]).reshape(*batch, -1),
                0.15 * (x[..., 6:] - rest), 50 * low_points, 50 * low_idle, *behind(at, 0.0),
            ],
            axis=-1,
        )  # fmt: skip

    def only_fingers(h: np.ndarray, fixed: np.ndarray, distance: float) -> np.ndarray:
        wrist = np.broadcast_to(fixed[:6], (*h.shape[:-1], 6))
        at, _ = joints(np.concatenate([wrist, h], axis=-1))
        reach = 100 * (at[..., tips, :] - target(distance)).reshape(*h.shape[:-1], -1)
        return np.concatenate([reach, 0.1 * (h - fixed[6:]), *behind(at, distance)], axis=-1)

    def fit(f: Callable[..., np.ndarray], start: np.ndarray, bounds: tuple, *args: Any) -> np.ndarray:
        def jacobian(x: np.ndarray, *args: Any) -> np.ndarray:  # all differences in one call
            step = 1e-7
            return ((f(x + step * np.eye(len(x)), *args) - f(x, *args)) / step).T

        start = np.clip(start, bounds[0] + 1e-6, bounds[1] - 1e-6)
        return least_squares(f, start, jac=jacobian, bounds=bounds, args=args, max_nfev=60, ftol=1e-5).x

    start = np.concatenate([points.mean(axis=0) - wanted @ PINCH_POINT, axis_angle_from_matrix(wanted), rest])
    bounds = (np.concatenate([[-0.5] * 3, [-7.0] * 3, low]), np.concatenate([[0.5] * 3, [7.0] * 3, high]))
    x = fit(whole, start, bounds)
    poses = [fit(only_fingers, x[6:], (low, high), x, distance) for distance in (clear, 0.0, -depth)]
    error = np.linalg.norm(joints(np.concatenate([x[:6], poses[1]]))[0][tips] - target(0.0), axis=1).max()
    if error > within:
        raise BadInput(f"no posture of the hand reaches the contacts {contacts}: {error * 1000:.0f} mm are left")
    pose = np.concatenate([x[:3], quat_from_axis_angle(x[3:6])])
    return HandGrasp(
        wrist_pose=pose, fingers=tuple(names), open=poses[0], touch=poses[1], squeeze=poses[2], error=float(error)
    )


def _rest_angle(name: str, idle: list[int]) -> float:
    curled = {f for k, f in enumerate(FINGERS) if 4 * (k + 1) in idle}
    if name.removesuffix("_flexion").rstrip("123") in curled and name.endswith("flexion"):
        return 0.9
    return {"thumb2_flexion": 0.2, "thumb3_flexion": 0.2}.get(name, 0.5 if name.endswith("flexion") else 0.0)
