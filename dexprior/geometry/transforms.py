"""Rigid transforms as 7-vectors [x y z qw qx qy qz] and as 4x4 matrices; batched over leading axes.

Names read `T_parent_child`, "the child's pose seen from the parent": `T_world_tip = T_world_wrist @ T_wrist_tip`.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import (
    matrix_from_quat,
    quat_conjugate,
    quat_from_matrix,
    quat_multiply,
    quat_rotate,
    quat_slerp,
)

__all__ = [
    "IDENTITY_POSE",
    "fit_rigid",
    "interpolate_poses",
    "into_camera",
    "invert_pose",
    "look_at",
    "matrix_from_pose",
    "pose_from_matrix",
    "pose_multiply",
    "project",
    "transform_points",
]

Array = np.ndarray
IDENTITY_POSE = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])


def pose_multiply(a: Float[Array, "*batch 7"], b: Float[Array, "*batch 7"]) -> Float[Array, "*batch 7"]:
    """a @ b: pose b, given in a's frame, seen from a's parent."""
    a, b = np.asarray(a), np.asarray(b)
    position = a[..., :3] + quat_rotate(a[..., 3:], b[..., :3])
    quat = quat_multiply(a[..., 3:], b[..., 3:])
    return np.concatenate([position, np.broadcast_to(quat, (*position.shape[:-1], 4))], axis=-1)


def invert_pose(a: Float[Array, "*batch 7"]) -> Float[Array, "*batch 7"]:
    """The parent's pose seen from the child."""
    q = quat_conjugate(np.asarray(a)[..., 3:])
    return np.concatenate([-quat_rotate(q, np.asarray(a)[..., :3]), q], axis=-1)


def transform_points(pose: Float[Array, "*batch 7"], points: Float[Array, "*batch n 3"]) -> Float[Array, "*batch n 3"]:
    """Points given in the child frame, seen from the parent."""
    pose = np.asarray(pose)
    return quat_rotate(pose[..., None, 3:], points) + pose[..., None, :3]


def matrix_from_pose(pose: Float[Array, "*batch 7"]) -> Float[Array, "*batch 4 4"]:
    """Homogeneous matrices."""
    pose = np.asarray(pose, dtype=np.float64)
    T = np.zeros((*pose.shape[:-1], 4, 4))
    T[..., :3, :3] = matrix_from_quat(pose[..., 3:])
    T[..., :3, 3] = pose[..., :3]
    T[..., 3, 3] = 1.0
    return T


def pose_from_matrix(T: Float[Array, "*batch 4 4"]) -> Float[Array, "*batch 7"]:
    """Poses of homogeneous matrices."""
    T = np.asarray(T)
    return np.concatenate([T[..., :3, 3], quat_from_matrix(T[..., :3, :3])], axis=-1)


def fit_rigid(a: Float[Array, "*batch n 3"], b: Float[Array, "*batch n 3"]) -> Float[Array, "*batch 7"]:
    """Pose that carries points a to points b with the least squared error.

    The rotation is that of the points about their centres, by singular values; points on one line leave it open.
    Kabsch 1976, "A solution for the best rotation to relate two sets of vectors".
    """
    a, b = np.broadcast_arrays(a, b)
    centre_a, centre_b = a.mean(axis=-2), b.mean(axis=-2)
    covariance = np.swapaxes(a - centre_a[..., None, :], -1, -2) @ (b - centre_b[..., None, :])
    u, _, vt = np.linalg.svd(covariance)
    sign = np.ones((*u.shape[:-2], 3))
    sign[..., 2] = np.sign(np.linalg.det(u) * np.linalg.det(vt))
    R = np.swapaxes(u * sign[..., None, :] @ vt, -1, -2)
    position = centre_b - np.einsum("...ij,...j->...i", R, centre_a)
    return np.concatenate([position, quat_from_matrix(R)], axis=-1)


def interpolate_poses(
    t: Float[Array, " n"], t_known: Float[Array, " m"], poses: Float[Array, "m 7"]
) -> Float[Array, "n 7"]:
    """Poses at times t: linear in position, shortest rotation; constant beyond both ends."""
    t_known, poses = np.asarray(t_known), np.asarray(poses)
    t = np.clip(t, t_known[0], t_known[-1])
    right = np.clip(np.searchsorted(t_known, t, side="right"), 1, max(len(t_known) - 1, 1))
    right = np.minimum(right, len(t_known) - 1)
    left = np.maximum(right - 1, 0)
    width = t_known[right] - t_known[left]
    u = np.where(width > 0, (t - t_known[left]) / np.where(width > 0, width, 1.0), 0.0)
    position = poses[left, :3] + u[:, None] * (poses[right, :3] - poses[left, :3])
    return np.concatenate([position, quat_slerp(poses[left, 3:], poses[right, 3:], u)], axis=-1)


def look_at(
    eye: Float[Array, 3], target: Float[Array, 3], up: tuple[float, float, float] = (0.0, 0.0, 1.0)
) -> Float[Array, "4 4"]:
    """T_base_cam of a camera at `eye` that looks at `target`: x right, y down, z forward."""
    eye, target = np.asarray(eye, dtype=np.float64), np.asarray(target, dtype=np.float64)
    z = (target - eye) / np.linalg.norm(target - eye)
    x = np.cross(z, np.asarray(up))
    x /= np.linalg.norm(x)
    T = np.eye(4)
    T[:3, :3] = np.stack([x, np.cross(z, x), z], axis=1)
    T[:3, 3] = eye
    return T


def into_camera(T_base_cam: Float[Array, "*time 4 4"], points: Float[Array, "*batch 3"]) -> Float[Array, "*batch 3"]:
    """Points in the base frame, seen from a camera: x right, y down, z forward.

    With a pose a frame, points are (time, n, 3), and those of frame k are seen from pose k.
    """
    T = np.asarray(T_base_cam)
    eye = T[:3, 3] if T.ndim == 2 else T[:, None, :3, 3]
    return (np.asarray(points) - eye) @ T[..., :3, :3]


def project(
    K: Float[Array, "3 3"], T_base_cam: Float[Array, "*time 4 4"], points: Float[Array, "*batch 3"]
) -> Float[Array, "*batch 2"]:
    """Pixels (column, row) of points in the base frame; points behind the camera give NaN.

    A camera that moves sees points (time, n, 3), those of frame k from pose k.
    """
    local = into_camera(T_base_cam, points)
    depth = local[..., 2:]
    with np.errstate(divide="ignore", invalid="ignore"):
        pixels = (local @ K.T)[..., :2] / depth
    return np.where(depth > 1e-6, pixels, np.nan)
