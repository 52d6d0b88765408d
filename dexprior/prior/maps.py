"""Control maps: where hand and object are in each frame, drawn as small Gaussians for the video stage."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dexprior.prior.motion import WRIST, WRIST_ROT, joints_of, points_of

__all__ = ["MAP_CHANNELS", "control_maps", "fixed_map", "project"]

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
    motion: Float[Tensor, "batch time 112"],
    condition: dict[str, Tensor],
    size: int,
    *,
    known: Bool[Tensor, "batch time 2"] | None = None,
) -> Float[Tensor, "batch time channel size size"]:
    """Ten maps a frame in [0, 1].

    Args:
        motion: in metres.
        condition: `cloud`, `moves` and `camera`; of the cloud, what does not move is drawn.
        size: of the maps [px].
        known: whether the hand, and the object, is known; what is not is not drawn. All is known when omitted.
    """
    joints, points = joints_of(motion), points_of(motion)
    forward = motion[..., WRIST_ROT][..., :3]  # the wrist's x axis: away from the fingers
    arm = motion[..., None, WRIST] + _FOREARM.to(motion)[:, None] * forward[..., None, :]
    camera = condition["camera"]
    hand = [joints[:, :, [0, 1, 5, 9, 13, 17]], *(joints[:, :, 1 + 4 * f : 5 + 4 * f] for f in range(5)), arm]
    moving = [points.mean(dim=2, keepdim=True), points]
    widths = [0.03] * 6 + [0.05, 0.02, 0.015]
    maps = torch.stack([_splat(project(camera, g), size, w) for g, w in zip([*hand, *moving], widths)], dim=2)
    if known is not None:
        drawn = known[..., [0] * len(hand) + [1] * len(moving), None, None]
        maps = maps * drawn.to(maps)
    return torch.cat([maps, fixed_map(condition, size)[:, None].expand(-1, maps.shape[1], -1, -1, -1)], dim=2)


def fixed_map(condition: dict[str, Tensor], size: int) -> Float[Tensor, "batch 1 size size"]:
    """The cloud's points that do not move, as one map."""
    pixels = project(condition["camera"], condition["cloud"][:, None, :, :3])
    return _splat(pixels, size, 0.015, ~condition["moves"][:, None])


def _splat(
    pixels: Float[Tensor, "batch time n 2"],
    size: int,
    width: float,
    drawn: Bool[Tensor, "batch time n"] | None = None,
) -> Float[Tensor, "batch time size size"]:
    grid = (torch.arange(size, device=pixels.device, dtype=pixels.dtype) + 0.5) / size
    gauss = torch.exp(-0.5 * ((grid - pixels[..., None]) / width) ** 2)
    x, y = gauss[..., 0, :], gauss[..., 1, :]
    if drawn is not None:
        y = y * drawn[..., None].to(y)
    return (y.transpose(-1, -2) @ x).clamp(max=1.0)
