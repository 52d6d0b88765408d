"""How a rigid object gets from where it lies to the part that it is brought to: what its motion departs from.

Where a condition says where that part is (`PriorCondition.goal`), the end is known up to what differs from clip to
clip: demonstrations end at one place in that part's frame. So is much of the way: the object is lifted first, and
lowered when it is over its goal. Both are found by least squares; the network adds the rest, in units of what they
leave.
Why: docs/decisions/0031.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dexprior.data.stacks import Stack
from dexprior.geometry.rotations import axis_angle_from_quat, matrix_from_quat, quat_conjugate, quat_multiply
from dexprior.geometry.sampling import farthest_points
from dexprior.geometry.torch_rotations import axis_angle_from_quat as torch_axis_angle_from_quat
from dexprior.geometry.torch_rotations import matrix_from_axis_angle
from dexprior.geometry.torch_rotations import matrix_from_quat as torch_matrix_from_quat
from dexprior.geometry.torch_rotations import quat_multiply as torch_quat_multiply
from dexprior.geometry.transforms import fit_rigid, invert_pose, pose_multiply
from dexprior.prior.conditioning import condition_tensors, frame_of_target

__all__ = ["Carrying"]

_AFTER = 0.3  # [1/s] by which the phase grows behind the target
_ALIKE = 0.17  # [rad] orientations at the end that are as near count as one
_DOUBT = 0.01  # of a frame, that the spread over the whole clip counts at each node
_ENDS = 64  # orientations at the end that are kept
_LAST = 1.25  # phase of the last node
_LEAST = 3e-4  # [m] smallest spread
_NODES = 41
_RIDGE = np.diag([1.0, 1e-6])  # of lift and slope: a frame that was not lifted, and a millimetre over a metre
_STEP = _LAST / (_NODES - 1)
_STRAIGHT = np.minimum(np.linspace(0.0, _LAST, _NODES), 1.0)


class Carrying(nn.Module):
    """The mean way of the object, and how far clips depart from it, at nodes of the phase.

    The phase is the share of the time to the target, where it is one; behind it grows more slowly.
    """

    learned: Tensor
    seat: Tensor
    ends: Tensor
    lift: Tensor
    slope: Tensor
    turned: Tensor
    spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        still = torch.from_numpy(_STRAIGHT).float()
        self.register_buffer("learned", torch.tensor(False))
        self.register_buffer("seat", torch.zeros(3))
        self.register_buffer("ends", torch.tensor([1.0, 0.0, 0.0, 0.0]).repeat(_ENDS, 1))
        self.register_buffer("lift", torch.zeros(_NODES, 3))
        self.register_buffer("slope", still[:, None].repeat(1, 3))
        self.register_buffer("turned", still[:, None].clone())
        self.register_buffer("spread", torch.ones(_NODES, 3))

    def knows(self, condition: dict[str, Tensor]) -> Bool[Tensor, " batch"]:
        """Whether the way says something of a condition: one with a goal, after training on some."""
        return condition["brought"] & self.learned

    def forward(
        self, condition: dict[str, Tensor], frames: int, fps: float
    ) -> tuple[Float[Tensor, "batch time 16 3"], Float[Tensor, "batch time 1 3"]]:
        """The object's points on their way, and how far clips depart from it along each axis of the base frame [m]."""
        phase, start = _phase(condition, frames, fps), condition["pose"][:, None, :3]
        end, turn = self._end(condition)
        centre = start + _at(phase, self.lift) + _at(phase, self.slope) * (end[:, None] - start)
        R = matrix_from_axis_angle(_at(phase, self.turned) * turn[:, None])
        points = torch.einsum("btij,bpj->btpi", R, condition["points"] - start) + centre[:, :, None]
        return points, _at(phase, self.spread)[:, :, None]

    def fit(self, stack: Stack) -> None:
        """Learn from the clips that show an object on its way to a goal; without any of them nothing changes."""
        whole = condition_tensors(stack.conditions, sides=stack.sides)
        kept = np.flatnonzero(whole["brought"].numpy() & stack.object_known.any(axis=1))
        if not len(kept):
            return
        condition = {name: value[kept] for name, value in whole.items()}
        points, known = stack.points[kept], stack.object_known[kept]
        first, start, goal = (condition[name].double().numpy()[:, None] for name in ("points", "pose", "goal"))
        pose = pose_multiply(fit_rigid(first, points), start)
        last = known.shape[1] - 1 - known[:, ::-1].argmax(axis=1)
        ends = pose_multiply(invert_pose(goal), pose)[np.arange(len(kept)), last]
        self._keep("seat", np.median(ends[:, :3], axis=0))
        self._keep("ends", _orientations(ends[:, 3:]))
        phase = _phase(condition, points.shape[1], stack.fps).double().numpy()
        near = np.maximum(1.0 - np.abs(phase[..., None] / _STEP - np.arange(_NODES)), 0.0) * known[..., None]
        end, turn = (value.double().numpy() for value in self._end(condition))
        lift, slope = _fit_shift(near, pose[..., :3] - start[..., :3], end - start[:, 0, :3])
        self._keep("lift", lift)
        self._keep("slope", slope)
        since = axis_angle_from_quat(quat_multiply(pose[..., 3:], quat_conjugate(start[..., 3:])))
        self._keep("turned", _fit_turn(near, since, turn))
        apart = ((points - self(condition, points.shape[1], stack.fps)[0].double().numpy()) ** 2).mean(axis=2)
        overall = (apart * known[..., None]).sum(axis=(0, 1)) / known.sum()
        count = near.sum(axis=(0, 1))[:, None]
        mean = (np.einsum("ctn,ctx->nx", near, apart) + _DOUBT * overall) / (count + _DOUBT)
        self._keep("spread", np.maximum(np.sqrt(mean), _LEAST))
        self.learned.fill_(True)

    def _end(self, condition: dict[str, Tensor]) -> tuple[Float[Tensor, "batch 3"], Float[Tensor, "batch 3"]]:
        """Where the object comes to rest [m], and its turn until then as axis-angle [rad].

        Of all orientations that clips ended in it takes the one with the least turn: nobody has to say which of them
        look alike, and an object that may lie as it likes is not turned at all.
        """
        goal, start = condition["goal"], condition["pose"]
        end = goal[:, :3] + torch.einsum("bij,j->bi", torch_matrix_from_quat(goal[:, 3:]), self.seat)
        back = start[:, None, 3:] * start.new_tensor([1.0, -1.0, -1.0, -1.0])
        turns = torch_quat_multiply(torch_quat_multiply(goal[:, None, 3:], self.ends), back)
        least = turns[..., 0].abs().argmax(dim=1)
        return end, torch_axis_angle_from_quat(turns[torch.arange(len(turns), device=turns.device), least])

    def _keep(self, name: str, value: np.ndarray) -> None:
        getattr(self, name).copy_(torch.from_numpy(np.ascontiguousarray(value)))


def _phase(condition: dict[str, Tensor], frames: int, fps: float) -> Float[Tensor, "batch time"]:
    target = frame_of_target(condition, fps)[:, None]
    frame = torch.arange(frames, device=target.device, dtype=target.dtype)
    share = (frame / target.clamp(min=1.0)).clamp(max=1.0)
    return (share + _AFTER * ((frame - target) / fps).clamp(min=0.0)).clamp(max=_LAST)


def _at(phase: Float[Tensor, "batch time"], nodes: Float[Tensor, "node d"]) -> Float[Tensor, "batch time d"]:
    """Between two nodes."""
    low = (phase / _STEP).floor().clamp(max=_NODES - 2)
    u, k = (phase / _STEP - low)[..., None], low.long()
    return nodes[k] * (1.0 - u) + nodes[k + 1] * u


def _orientations(quat: Float[np.ndarray, "clip 4"]) -> Float[np.ndarray, "end 4"]:
    """The most different ones, each the mean of those that are alike."""
    chosen = farthest_points(matrix_from_quat(quat).reshape(-1, 9), min(_ENDS, len(quat)))
    along = quat[chosen] @ quat.T
    alike = np.where(2.0 * np.arccos(np.minimum(np.abs(along), 1.0)) < _ALIKE, np.sign(along), 0.0)
    mean = alike @ quat
    return np.resize(mean / np.linalg.norm(mean, axis=1, keepdims=True), (_ENDS, 4))


def _fit_shift(
    near: Float[np.ndarray, "clip time node"],
    since: Float[np.ndarray, "clip time 3"],
    way: Float[np.ndarray, "clip 3"],
) -> tuple[Float[np.ndarray, "node 3"], Float[np.ndarray, "node 3"]]:
    """Regress the shift since the start on the whole way, node by node and axis by axis: (constant, slope).

    What clips leave open is a straight line at constant speed; nothing is shifted at the start.
    """
    lift, slope = np.zeros((2, _NODES, 3))
    for axis in range(3):
        d, count = way[:, axis], near.sum(axis=1)
        terms = np.stack([np.ones_like(d), d], axis=1)
        rest = np.einsum("ctn,ct->cn", near, since[..., axis]) - count * _STRAIGHT * d[:, None]
        normal = np.einsum("cn,ci,cj->nij", count, terms, terms) + _RIDGE
        found = np.linalg.solve(normal, np.einsum("cn,ci->ni", rest, terms)[..., None])[..., 0]
        lift[1:, axis], slope[1:, axis] = found[1:, 0], found[1:, 1] + _STRAIGHT[1:]
    return lift, slope


def _fit_turn(
    near: Float[np.ndarray, "clip time node"],
    since: Float[np.ndarray, "clip time 3"],
    turn: Float[np.ndarray, "clip 3"],
) -> Float[np.ndarray, "node 1"]:
    """Share of the whole turn that is done at each node, likewise."""
    doubt = 1e-3  # [rad^2]
    done = np.einsum("ctn,ctx,cx->n", near, since, turn) + doubt * _STRAIGHT
    turned = done / (np.einsum("ctn,cx->n", near, turn**2) + doubt)
    turned[0] = 0.0
    return turned[:, None]
