"""The rotations that networks need, in torch; the same names and conventions as `dexprior.geometry.rotations`."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = [
    "axis_angle_from_quat",
    "matrix_from_axis_angle",
    "matrix_from_quat",
    "matrix_from_rot6d",
    "quat_multiply",
    "rot6d_from_matrix",
]


def quat_multiply(a: Float[Tensor, "*batch 4"], b: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 4"]:
    """Hamilton product of scalar-first quaternions; batches are broadcast."""
    w, x, y, z = a.unbind(-1)
    s, i, j, k = b.unbind(-1)
    return torch.stack(
        [
            w * s - x * i - y * j - z * k, w * i + x * s + y * k - z * j,
            w * j - x * k + y * s + z * i, w * k + x * j - y * i + z * s,
        ],
        -1,
    )  # fmt: skip


def axis_angle_from_quat(q: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 3"]:
    """Shortest axis-angle of unit quaternions [rad]."""
    q = torch.where(q[..., :1] < 0, -q, q)
    size = q[..., 1:].norm(dim=-1, keepdim=True)
    angle = 2.0 * torch.atan2(size, q[..., :1])
    return torch.where(size > 1e-9, angle / size.clamp(min=1e-9), 2.0) * q[..., 1:]


def matrix_from_axis_angle(v: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 3 3"]:
    """Rodrigues' formula, differentiable at zero."""
    angle = (v.square().sum(-1, keepdim=True) + 1e-16).sqrt()
    a = torch.sin(angle) / angle
    b = (1 - torch.cos(angle)) / angle.square()
    x, y, z = v.unbind(-1)
    zero = torch.zeros_like(x)
    K = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).unflatten(-1, (3, 3))
    eye = torch.eye(3, dtype=v.dtype, device=v.device)
    return eye + a[..., None] * K + b[..., None] * (K @ K)


def matrix_from_quat(q: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 3 3"]:
    """Rotation matrices of scalar-first quaternions."""
    w, x, y, z = torch.nn.functional.normalize(q, dim=-1).unbind(-1)
    return torch.stack(
        [
            1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
            2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
            2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
        ],
        -1,
    ).unflatten(-1, (3, 3))  # fmt: skip


def rot6d_from_matrix(R: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch 6"]:
    """First two columns of R (Zhou et al. 2019)."""
    return torch.cat([R[..., :, 0], R[..., :, 1]], -1)


def matrix_from_rot6d(d: Float[Tensor, "*batch 6"]) -> Float[Tensor, "*batch 3 3"]:
    """Gram-Schmidt of two columns (Zhou et al. 2019, eq. 15)."""
    x = torch.nn.functional.normalize(d[..., :3], dim=-1)
    y = torch.nn.functional.normalize(d[..., 3:] - (x * d[..., 3:]).sum(-1, keepdim=True) * x, dim=-1)
    return torch.stack([x, y, torch.cross(x, y, dim=-1)], -1)
