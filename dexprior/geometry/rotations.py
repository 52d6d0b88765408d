"""Rotations: quaternions (scalar first), matrices, axis-angle and the continuous six numbers of networks.

Every function is batched over leading axes and works on NumPy arrays; the ones that networks need exist for torch
under the same names in `dexprior.geometry.torch_rotations`.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

__all__ = [
    "axis_angle_from_matrix",
    "axis_angle_from_quat",
    "matrix_from_axis_angle",
    "matrix_from_quat",
    "matrix_from_rot6d",
    "quat_conjugate",
    "quat_from_axis_angle",
    "quat_from_matrix",
    "quat_from_yaw",
    "quat_multiply",
    "quat_rotate",
    "quat_slerp",
    "rot6d_from_matrix",
    "rotation_angle",
    "wrap_angle",
    "yaw_of",
]

Array = np.ndarray


def quat_multiply(a: Float[Array, "*batch 4"], b: Float[Array, "*batch 4"]) -> Float[Array, "*batch 4"]:
    """Hamilton product: the rotation b followed by a."""
    aw, ax, ay, az = np.moveaxis(np.asarray(a), -1, 0)
    bw, bx, by, bz = np.moveaxis(np.asarray(b), -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def quat_conjugate(q: Float[Array, "*batch 4"]) -> Float[Array, "*batch 4"]:
    """Inverse of a unit quaternion."""
    return np.asarray(q) * np.array([1.0, -1.0, -1.0, -1.0])


def quat_rotate(q: Float[Array, "*batch 4"], v: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3"]:
    """Rotate vectors."""
    q, v = np.asarray(q), np.asarray(v)
    w, u = q[..., :1], q[..., 1:]
    cross = 2.0 * np.cross(u, v)
    return v + w * cross + np.cross(u, cross)


def matrix_from_quat(q: Float[Array, "*batch 4"]) -> Float[Array, "*batch 3 3"]:
    """Rotation matrices."""
    q = np.asarray(q, dtype=np.float64)
    w, x, y, z = np.moveaxis(q / np.linalg.norm(q, axis=-1, keepdims=True), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quat_from_matrix(R: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 4"]:
    """Unit quaternions with a non-negative scalar part.

    Takes, among the four ways to divide, the one with the largest divisor (Shepperd 1978).
    """
    R = np.asarray(R, dtype=np.float64)
    xx, yy, zz = R[..., 0, 0], R[..., 1, 1], R[..., 2, 2]
    sums = np.stack([xx + yy + zz, xx - yy - zz, yy - xx - zz, zz - xx - yy], axis=-1)
    a = R[..., 2, 1] - R[..., 1, 2]
    b = R[..., 0, 2] - R[..., 2, 0]
    c = R[..., 1, 0] - R[..., 0, 1]
    d = R[..., 0, 1] + R[..., 1, 0]
    e = R[..., 0, 2] + R[..., 2, 0]
    f = R[..., 1, 2] + R[..., 2, 1]
    candidates = np.stack(
        [
            np.stack([1 + sums[..., 0], a, b, c], axis=-1),
            np.stack([a, 1 + sums[..., 1], d, e], axis=-1),
            np.stack([b, d, 1 + sums[..., 2], f], axis=-1),
            np.stack([c, e, f, 1 + sums[..., 3]], axis=-1),
        ],
        axis=-2,
    )
    pick = sums.argmax(axis=-1)[..., None, None]
    q = np.take_along_axis(candidates, np.broadcast_to(pick, (*pick.shape[:-1], 4)), axis=-2)[..., 0, :]
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    return np.where(q[..., :1] < 0, -q, q)


def quat_from_axis_angle(v: Float[Array, "*batch 3"]) -> Float[Array, "*batch 4"]:
    """Exponential map: rotation by |v| about v."""
    v = np.asarray(v, dtype=np.float64)
    angle = np.linalg.norm(v, axis=-1, keepdims=True)
    return np.concatenate([np.cos(angle / 2), 0.5 * np.sinc(angle / (2 * np.pi)) * v], axis=-1)


def axis_angle_from_quat(q: Float[Array, "*batch 4"]) -> Float[Array, "*batch 3"]:
    """Logarithm, with the angle in [0, pi]."""
    q = np.asarray(q, dtype=np.float64)
    q = np.where(q[..., :1] < 0, -q, q)
    sine = np.linalg.norm(q[..., 1:], axis=-1, keepdims=True)
    angle = 2 * np.arctan2(sine, q[..., :1])
    safe = np.where(sine > 1e-12, sine, 1.0)
    return q[..., 1:] * np.where(sine > 1e-12, angle / safe, 2.0)


def matrix_from_axis_angle(v: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3 3"]:
    """Rodrigues' formula."""
    return matrix_from_quat(quat_from_axis_angle(v))


def axis_angle_from_matrix(R: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 3"]:
    """Logarithm of rotation matrices."""
    return axis_angle_from_quat(quat_from_matrix(R))


def rot6d_from_matrix(R: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 6"]:
    """First two columns of R: a continuous representation (Zhou et al. 2019, "On the Continuity of...")."""
    R = np.asarray(R)
    return np.concatenate([R[..., :, 0], R[..., :, 1]], axis=-1)


def matrix_from_rot6d(d: Float[Array, "*batch 6"]) -> Float[Array, "*batch 3 3"]:
    """Gram-Schmidt of two columns (Zhou et al. 2019, eq. 15)."""
    d = np.asarray(d, dtype=np.float64)
    x = d[..., :3] / np.linalg.norm(d[..., :3], axis=-1, keepdims=True)
    y = d[..., 3:] - (x * d[..., 3:]).sum(-1, keepdims=True) * x
    y = y / np.linalg.norm(y, axis=-1, keepdims=True)
    return np.stack([x, y, np.cross(x, y)], axis=-1)


def rotation_angle(a: Float[Array, "*batch 4"], b: Float[Array, "*batch 4"]) -> Float[Array, " *batch"]:
    """Angle between two orientations [rad], in [0, pi]."""
    dot = np.abs((np.asarray(a) * np.asarray(b)).sum(-1))
    return 2 * np.arccos(np.clip(dot, 0.0, 1.0))


def quat_from_yaw(yaw: float | Float[Array, " *batch"]) -> Float[Array, "*batch 4"]:
    """Unit quaternions of turns about the vertical [rad]."""
    half = np.asarray(yaw, dtype=np.float64) / 2
    zero = np.zeros_like(half)
    return np.stack([np.cos(half), zero, zero, np.sin(half)], axis=-1)


def wrap_angle(angle: Float[Array, " *batch"], period: float = 2 * np.pi) -> Float[Array, " *batch"]:
    """The smallest equivalent angle, in [-period / 2, period / 2) [rad]; a shorter period is a rotational symmetry."""
    return (np.asarray(angle) + period / 2) % period - period / 2


def yaw_of(q: Float[Array, "*batch 4"]) -> Float[Array, " *batch"]:
    """Direction of a rotation's x axis in the horizontal plane, from the world's x axis [rad]."""
    w, x, y, z = np.moveaxis(np.asarray(q), -1, 0)
    return np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def quat_slerp(
    a: Float[Array, "*batch 4"], b: Float[Array, "*batch 4"], u: Float[Array, " *batch"]
) -> Float[Array, "*batch 4"]:
    """Shortest constant-speed rotation from a (u = 0) to b (u = 1)."""
    step = axis_angle_from_quat(quat_multiply(quat_conjugate(a), b))
    return quat_multiply(a, quat_from_axis_angle(step * np.asarray(u)[..., None]))
