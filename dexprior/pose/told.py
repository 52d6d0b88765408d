"""What a pose estimator is told of a clip beside its pixels: where the object is at the start, where an object that is
brought to a part comes to rest, and how the hand starts and how it is about to let go. All of it is known when a sample
is asked for; of what nobody knows it is told nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dexprior.data.seats import Seat, brought
from dexprior.data.stacks import Stack
from dexprior.geometry.torch_rotations import matrix_from_axis_angle, matrix_from_quat
from dexprior.geometry.transforms import IDENTITY_POSE
from dexprior.types import ContactConfiguration, PriorCondition, Side

__all__ = ["Rest", "single", "untold", "what_is_told"]


def what_is_told(conditions: Sequence[PriorCondition], side: Side) -> dict[str, Tensor]:
    """What is known of n conditions: the object's `points` (n, 16, 3) and `pose` at the start and the `goal` (n, 7) of
    those that are `brought` (n,) to a part whose pose is known, and have one; at the start and when it is about to let
    go, of the hand of a side, the `wrist` (n, 2, 3) [m], its `matrix` (n, 2, 3, 3) and the `fingers` (n, 2, 45), and
    whether these are `shown` (n, 2)."""
    hands = [[_of_side(ends, side) for ends in (c.start, c.target)] for c in conditions]
    wrist = single([[IDENTITY_POSE if one is None else one.wrist_pose for one in two] for two in hands])
    return {
        "points": single([c.points for c in conditions]),
        "pose": single([IDENTITY_POSE if c.pose is None else c.pose for c in conditions]),
        "goal": single([IDENTITY_POSE if c.goal is None else c.goal for c in conditions]),
        "brought": torch.tensor([c.pose is not None and c.goal is not None for c in conditions]),
        "wrist": wrist[..., :3],
        "matrix": matrix_from_quat(wrist[..., 3:]),
        "fingers": single([[np.zeros(45) if one is None else one.finger_pose for one in two] for two in hands]),
        "shown": torch.tensor([[one is not None for one in two] for two in hands]),
    }


def untold(told: dict[str, Tensor], share: float, generator: torch.Generator) -> dict[str, Tensor]:
    """The same without one thing or another for a share of the clips: the object's end, the hand's start, its
    target."""
    kept = torch.rand(len(told["brought"]), 3, generator=generator) >= share
    return {**told, "brought": told["brought"] & kept[:, 0], "shown": told["shown"] & kept[:, 1:]}


class Rest(Seat):
    """Where the points of an object come to rest that is brought to a part.

    Objects that are higher or lower than those of the clips that it learned from stand on the same height.
    """

    low: Tensor
    """Height of an object's lowest followed point above the part's frame [m]."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("low", torch.zeros(()))

    def forward(self, told: dict[str, Tensor]) -> tuple[Float[Tensor, "batch 16 3"], Float[Tensor, "batch 3 3"]]:
        """The points there, in the base frame [m], and their turn until then."""
        end, turn = self.end(told)
        R = matrix_from_axis_angle(turn)
        points = torch.einsum("bij,bpj->bpi", R, told["points"] - told["pose"][:, None, :3]) + end[:, None]
        above = points[..., 2].amin(dim=1) - told["goal"][:, 2]
        rise = torch.stack([torch.zeros_like(above), torch.zeros_like(above), self.low - above], dim=-1)
        return points + rise[:, None], R

    def fit(self, stack: Stack) -> None:
        """Learn from the clips that show an object on its way to such a part; without any of them nothing changes."""
        super().fit(stack)
        kept, _ = brought(stack)
        if not len(kept):
            return
        ends = [stack.points[k][stack.object_known[k]][-1] for k in kept]
        above = [end[:, 2].min() - stack.conditions[k].goal[2] for k, end in zip(kept, ends)]
        self.low.fill_(float(np.median(above)))


def single(rows: object) -> Tensor:
    """Numbers, or arrays of one shape, in single precision."""
    return torch.from_numpy(np.array(rows, dtype=np.float32))


def _of_side(hands: Sequence[ContactConfiguration], side: Side) -> ContactConfiguration | None:
    return next((hand for hand in hands if hand.side == side), None)
