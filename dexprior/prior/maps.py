"""Control maps: where hand and object are in each frame, drawn as small Gaussians for the video stage."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from dexprior.data.clouds import NUT_POINTS
from dexprior.prior.motion import WRIST, WRIST_ROT, joints_of, object_pose_of

__all__ = ["MAP_CHANNELS", "control_maps", "project"]

MAP_CHANNELS = 10
"""Wrist and palm, five fingers, forearm, object centre, object points, the scene's other points."""

_FOREARM = torch.tensor([0.03, 0.06, 0.09])  # along the wrist's x [m]


def project(camera: Float[Tensor, "batch 16"], points: Float[Tensor, "batch *n 3"]) -> Float[Tensor, "batch *n 2"]:
    """Image coordinates in [0, 1] of points in the base frame.

    Args:
        camera: focal lengths and centre as shares of the image, then T_base_cam's upper 3x4 block, row by row.
    """
    shape = (len(camera), *([1] * (points.ndim - 2)))
    T = camera[:, 4:].reshape(*shape, 3, 4)
    local = torch.einsum("...ji,...j->...i", T[..., :3], points - T[..., 3])
    depth = local[..., 2].clamp(min=0.05)
    focal, centre = camera[:, 0:2].reshape(*shape, 2), camera[:, 2:4].reshape(*shape, 2)
    return focal * local[..., :2] / depth[..., None] + centre


def control_maps(
    motion: Float[Tensor, "batch time 73"],
    cloud: Float[Tensor, "batch point 6"],
    camera: Float[Tensor, "batch 16"],
    size: int,
) -> Float[Tensor, "batch time channel size size"]:
    """Ten maps a frame in [0, 1].

    The object's points move rigidly with its pose: the cloud shows it at the pose of the first frame.
    """
    time = motion.shape[1]
    joints = joints_of(motion)
    position, rotation = object_pose_of(motion)
    start = cloud[:, :NUT_POINTS, :3] - position[:, :1]
    local = torch.einsum("bji,bnj->bni", rotation[:, 0], start)
    moved = torch.einsum("btij,bnj->btni", rotation, local) + position[:, :, None]
    rest = cloud[:, None, NUT_POINTS:, :3].expand(-1, time, -1, -1)
    forward = motion[..., WRIST_ROT][..., :3]  # the wrist's x axis: away from the fingers
    arm = motion[..., None, WRIST] + _FOREARM.to(motion)[:, None] * forward[..., None, :]
    palm = joints[:, :, [0, 1, 5, 9, 13, 17]]
    groups = [
        palm,
        *(joints[:, :, 1 + 4 * f : 5 + 4 * f] for f in range(5)),
        arm,
        position[:, :, None],
        moved,
        rest,
    ]
    widths = [0.03] * 6 + [0.05, 0.02, 0.015, 0.015]
    return torch.stack([_splat(project(camera, g), size, w) for g, w in zip(groups, widths)], dim=2)


def _splat(pixels: Float[Tensor, "batch time n 2"], size: int, width: float) -> Float[Tensor, "batch time size size"]:
    grid = (torch.arange(size, device=pixels.device, dtype=pixels.dtype) + 0.5) / size
    gauss = torch.exp(-0.5 * ((grid - pixels[..., None]) / width) ** 2)
    x, y = gauss[..., 0, :], gauss[..., 1, :]
    return (y.transpose(-1, -2) @ x).clamp(max=1.0)
