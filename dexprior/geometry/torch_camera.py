"""Cameras for networks: their numbers as one row, where they see points, and points drawn as small Gaussians."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dexprior.types import Camera

__all__ = ["CAMERA_SIZE", "camera_rows", "in_camera", "project", "rays", "splat"]

CAMERA_SIZE = 4 + 12
_NEAREST = 0.05  # [m] of depth; what is nearer is drawn as if it were there


def camera_rows(camera: Camera, frames: int) -> Float[np.ndarray, "frames 16"]:
    """Focal lengths and centre as shares of the image, then T_base_cam's upper 3x4 block, row by row; of each frame."""
    K = camera.K / np.array([[camera.width], [camera.height], [1.0]])
    intrinsics = [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]
    return np.concatenate([np.tile(intrinsics, (frames, 1)), camera.poses(frames)[:, :3].reshape(frames, 12)], axis=1)


def in_camera(camera: Float[Tensor, "batch *time 16"], points: Float[Tensor, "batch *n 3"]) -> Tensor:
    """Points of the base frame in the camera's frame [m].

    Args:
        camera: as `camera_rows` gives it; one, or one for each frame of points (batch, time, n, 3).
        points: in the base frame [m].
    """
    T = camera[..., 4:].reshape(*_places(camera, points), 3, 4)
    return torch.einsum("...ji,...j->...i", T[..., :3], points - T[..., 3])


def project(
    camera: Float[Tensor, "batch *time 16"], points: Float[Tensor, "batch *n 3"]
) -> Float[Tensor, "batch *n 2"]:
    """Image coordinates in [0, 1] of points in the base frame; arguments as of `in_camera`."""
    shape, local = _places(camera, points), in_camera(camera, points)
    depth = local[..., 2].clamp(min=_NEAREST)
    focal, centre = camera[..., 0:2].reshape(*shape, 2), camera[..., 2:4].reshape(*shape, 2)
    return focal * local[..., :2] / depth[..., None] + centre


def rays(camera: Float[Tensor, "*batch 16"], size: int) -> Float[Tensor, "*batch 3 size size"]:
    """Where each pixel looks, in the camera's frame: x and y at a depth of one, and one."""
    grid = (torch.arange(size, device=camera.device, dtype=camera.dtype) + 0.5) / size
    x = ((grid - camera[..., 2:3]) / camera[..., 0:1])[..., None, :].expand(*camera.shape[:-1], size, size)
    y = ((grid - camera[..., 3:4]) / camera[..., 1:2])[..., None].expand_as(x)
    return torch.stack([x, y, torch.ones_like(x)], dim=-3)


def splat(
    pixels: Float[Tensor, "batch time n 2"],
    size: int,
    width: float,
    drawn: Bool[Tensor, "batch time n"] | None = None,
) -> Float[Tensor, "batch time size size"]:
    """One map a frame in [0, 1] with a Gaussian at each point that is `drawn`.

    Args:
        pixels: image coordinates in [0, 1].
        size: of the map [px].
        width: standard deviation, as a share of the image.
        drawn: which points are; all when omitted.
    """
    grid = (torch.arange(size, device=pixels.device, dtype=pixels.dtype) + 0.5) / size
    gauss = torch.exp(-0.5 * ((grid - pixels[..., None]) / width) ** 2)
    x, y = gauss[..., 0, :], gauss[..., 1, :]
    if drawn is not None:
        y = y * drawn[..., None].to(y)
    return (y.transpose(-1, -2) @ x).clamp(max=1.0)


def _places(camera: Tensor, points: Tensor) -> tuple[int, ...]:
    return (*camera.shape[:-1], *([1] * (points.ndim - camera.ndim)))
