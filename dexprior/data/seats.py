"""Where an object that is brought to a part that stands still comes to rest, by the clips that ended there."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dexprior.data.stacks import Stack
from dexprior.geometry.rotations import matrix_from_quat
from dexprior.geometry.sampling import farthest_points
from dexprior.geometry.torch_rotations import axis_angle_from_quat, quat_multiply
from dexprior.geometry.torch_rotations import matrix_from_quat as torch_matrix_from_quat
from dexprior.geometry.transforms import fit_rigid, invert_pose, pose_multiply

__all__ = ["Seat", "brought"]

_ALIKE = 0.17  # [rad] orientations at the end that are as near count as one
_ENDS = 64  # orientations at the end that are kept


class Seat(nn.Module):
    """The place in the part's frame where clips ended, and the orientations in which they did.

    Why: docs/decisions/0031.
    """

    learned: Tensor
    seat: Tensor
    ends: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("learned", torch.tensor(False))
        self.register_buffer("seat", torch.zeros(3))
        self.register_buffer("ends", torch.tensor([1.0, 0.0, 0.0, 0.0]).repeat(_ENDS, 1))

    def knows(self, condition: dict[str, Tensor]) -> Bool[Tensor, " batch"]:
        """Whether the end of a condition is known: of one that is `brought` to a part, after training on some."""
        return condition["brought"] & self.learned

    def end(self, condition: dict[str, Tensor]) -> tuple[Float[Tensor, "batch 3"], Float[Tensor, "batch 3"]]:
        """Where the object comes to rest [m], and its turn until then as axis-angle [rad].

        Of all orientations that clips ended in it takes the one with the least turn: nobody has to say which of them
        look alike, and an object that may lie as it likes is not turned at all.

        Args:
            condition: with the `pose` of the object at the start and the `goal` of the part (batch, 7).
        """
        goal, start = condition["goal"], condition["pose"]
        end = goal[:, :3] + torch.einsum("bij,j->bi", torch_matrix_from_quat(goal[:, 3:]), self.seat)
        back = start[:, None, 3:] * start.new_tensor([1.0, -1.0, -1.0, -1.0])
        turns = quat_multiply(quat_multiply(goal[:, None, 3:], self.ends), back)
        least = turns[..., 0].abs().argmax(dim=1)
        return end, axis_angle_from_quat(turns[torch.arange(len(turns), device=turns.device), least])

    def fit(self, stack: Stack) -> None:
        """Learn from the clips that show an object on its way to such a part; without any of them nothing changes."""
        kept, pose = brought(stack)
        if not len(kept):
            return
        known = stack.object_known[kept]
        last = known.shape[1] - 1 - known[:, ::-1].argmax(axis=1)
        goal = np.stack([_pose(stack.conditions[k].goal) for k in kept])
        ends = pose_multiply(invert_pose(goal), pose[np.arange(len(kept)), last])
        self._keep("seat", np.median(ends[:, :3], axis=0))
        self._keep("ends", _orientations(ends[:, 3:]))
        self.learned.fill_(True)

    def _keep(self, name: str, value: np.ndarray) -> None:
        getattr(self, name).copy_(torch.from_numpy(np.ascontiguousarray(value)))


def brought(stack: Stack) -> tuple[np.ndarray, Float[np.ndarray, "clip time 7"]]:
    """Clips that show a rigid object on its way to a part whose pose is known, and its pose in each of their frames."""
    ids = [k for k, c in enumerate(stack.conditions) if c.pose is not None and c.goal is not None]
    kept = np.array([k for k in ids if stack.object_known[k].any()], dtype=np.int64)
    if not len(kept):
        return kept, np.zeros((0, stack.valid.shape[1], 7))
    first = np.stack([stack.conditions[k].points for k in kept])[:, None]
    start = np.stack([_pose(stack.conditions[k].pose) for k in kept])[:, None]
    return kept, pose_multiply(fit_rigid(first, stack.points[kept]), start)


def _pose(value: np.ndarray | None) -> Float[np.ndarray, 7]:
    assert value is not None  # of a clip that `brought` keeps
    return value


def _orientations(quat: Float[np.ndarray, "clip 4"]) -> Float[np.ndarray, "end 4"]:
    """The most different ones, each the mean of those that are alike."""
    chosen = farthest_points(matrix_from_quat(quat).reshape(-1, 9), min(_ENDS, len(quat)))
    along = quat[chosen] @ quat.T
    alike = np.where(2.0 * np.arccos(np.minimum(np.abs(along), 1.0)) < _ALIKE, np.sign(along), 0.0)
    mean = alike @ quat
    return np.resize(mean / np.linalg.norm(mean, axis=1, keepdims=True), (_ENDS, 4))
