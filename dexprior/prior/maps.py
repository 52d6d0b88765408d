"""Control maps: where hand and object are in each frame, drawn as small Gaussians for the video stage."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dexprior.geometry.torch_camera import project, rays, splat
from dexprior.prior.motion import HANDS, joints_of, points_of
from dexprior.types import Side

__all__ = ["control_maps", "fixed_map", "map_channels"]

_OF_HAND, _OF_SCENE = 7, 3 + 5
_WIDTHS = ([0.03] * 6 + [0.05], [0.02, 0.015])
_FAR = 3.0  # [m] beyond which nothing is told apart
_FOREARM = torch.tensor([0.03, 0.06, 0.09])  # along the wrist's x [m]


def map_channels(hands: int) -> int:
    """Wrist and palm, five fingers and forearm of the first hand; object centre, object points, the scene's other
    points, and where each pixel looks; then the same seven of a second hand."""
    return _OF_HAND * hands + _OF_SCENE


def control_maps(
    motion: Float[Tensor, "batch time motion"],
    condition: dict[str, Tensor],
    size: int,
    *,
    sides: Sequence[Side] = ("right",),
    known: Bool[Tensor, "batch time part"] | None = None,
) -> Float[Tensor, "batch time channel size size"]:
    """Fifteen maps a frame in [0, 1], and seven more for a second hand; a hand that is not there is not drawn.

    Args:
        motion: in metres.
        condition: `cloud`, `moves` and `camera`, of these very frames where it moves; of the cloud, what does not move
            is drawn.
        size: of the maps [px].
        sides: of the hands.
        known: whether the first hand, the object, and the second hand are known; what is not is not drawn. All is known
            when omitted.
    """
    points = points_of(motion)
    groups = [_hand(motion, sides[0], 0), [points.mean(dim=2, keepdim=True), points]]
    groups += [_hand(motion, side, k) for k, side in enumerate(sides) if k]
    widths = [*_WIDTHS, *[_WIDTHS[0]] * (len(sides) - 1)]
    if len(sides) > 1:
        shows = condition["shows"][:, None].expand(-1, motion.shape[1], -1)
        shown = torch.stack([shows[..., 0], torch.ones_like(shows[..., 0]), shows[..., 1]], dim=-1)
        known = shown if known is None else known & shown
    drawn = []
    for part, (group, width) in enumerate(zip(groups, widths)):
        maps = torch.stack([splat(project(condition["camera"], g), size, w) for g, w in zip(group, width)], dim=2)
        drawn.append(maps if known is None else maps * known[..., part, None, None, None].to(maps))
    scene = torch.cat([fixed_map(condition, size)[:, :, None], _looks(condition["camera"], size)], dim=2)
    return torch.cat([*drawn[:2], scene.expand(-1, motion.shape[1], -1, -1, -1), *drawn[2:]], dim=2)


def _looks(camera: Float[Tensor, "batch *time 16"], size: int) -> Float[Tensor, "batch time 5 size size"]:
    """Where each pixel looks in the base frame, and x and y of where that meets the table, told apart up to a metre or
    two from the base; a pixel that looks up is given what lies far ahead."""
    camera = camera if camera.ndim == 3 else camera[:, None]
    T = camera[..., 4:].unflatten(-1, (3, 4))
    way = torch.nn.functional.normalize(torch.einsum("btij,btjyx->btiyx", T[..., :3], rays(camera, size)), dim=2)
    eye = T[..., 3, None, None]
    far = (eye[:, :, 2] / (-way[:, :, 2]).clamp(min=0.05)).clamp(0.0, _FAR)
    floor = eye[:, :, :2] + far[:, :, None] * way[:, :, :2]
    return torch.cat([0.5 + 0.5 * way, torch.sigmoid(2.0 * floor)], dim=2)


def _hand(motion: Float[Tensor, "batch time motion"], side: Side, hand: int) -> list[Float[Tensor, "batch time n 3"]]:
    """Palm, fingers and forearm."""
    joints, places = joints_of(motion, side, hand), HANDS[hand]
    away = motion[..., places.rotation][..., :3] * (1.0 if side == "right" else -1.0)  # from the fingers, along x
    arm = motion[..., None, places.wrist] + _FOREARM.to(motion)[:, None] * away[..., None, :]
    return [joints[:, :, [0, 1, 5, 9, 13, 17]], *(joints[:, :, 1 + 4 * f : 5 + 4 * f] for f in range(5)), arm]


def fixed_map(condition: dict[str, Tensor], size: int) -> Float[Tensor, "batch time size size"]:
    """The cloud's points that do not move, as one map; as one a frame where the camera does."""
    pixels = project(condition["camera"], condition["cloud"][:, None, :, :3])
    return splat(pixels, size, 0.015, ~condition["moves"][:, None])
