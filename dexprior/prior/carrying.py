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
from jaxtyping import Float
from torch import Tensor

from dexprior.data.seats import Seat, brought
from dexprior.data.stacks import Stack
from dexprior.geometry.rotations import axis_angle_from_quat, quat_conjugate, quat_multiply
from dexprior.geometry.torch_rotations import matrix_from_axis_angle
from dexprior.prior.conditioning import condition_tensors, frame_of_target

__all__ = ["Carrying"]

_AFTER = 0.3  # [1/s] by which the phase grows behind the target
_DOUBT = 0.01  # of a frame, that the spread over the whole clip counts at each node
_LAST = 1.25  # phase of the last node
_LEAST = 3e-4  # [m] smallest spread
_NODES = 41
_RIDGE = np.diag([1.0, 1e-6])  # of lift and slope: a frame that was not lifted, and a millimetre over a metre
_STEP = _LAST / (_NODES - 1)
_STRAIGHT = np.minimum(np.linspace(0.0, _LAST, _NODES), 1.0)


class Carrying(Seat):
    """The mean way of the object, and how far clips depart from it, at nodes of the phase.

    The phase is the share of the time to the target, where it is one; behind it grows more slowly.
    """

    lift: Tensor
    slope: Tensor
    turned: Tensor
    spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        still = torch.from_numpy(_STRAIGHT).float()
        self.register_buffer("lift", torch.zeros(_NODES, 3))
        self.register_buffer("slope", still[:, None].repeat(1, 3))
        self.register_buffer("turned", still[:, None].clone())
        self.register_buffer("spread", torch.ones(_NODES, 3))

    def forward(
        self, condition: dict[str, Tensor], frames: int, fps: float
    ) -> tuple[Float[Tensor, "batch time 16 3"], Float[Tensor, "batch time 1 3"]]:
        """The object's points on their way, and how far clips depart from it along each axis of the base frame [m]."""
        phase, start = _phase(condition, frames, fps), condition["pose"][:, None, :3]
        end, turn = self.end(condition)
        centre = start + _at(phase, self.lift) + _at(phase, self.slope) * (end[:, None] - start)
        R = matrix_from_axis_angle(_at(phase, self.turned) * turn[:, None])
        points = torch.einsum("btij,bpj->btpi", R, condition["points"] - start) + centre[:, :, None]
        return points, _at(phase, self.spread)[:, :, None]

    def fit(self, stack: Stack) -> None:
        """Learn from the clips that show an object on its way to a goal; without any of them nothing changes."""
        super().fit(stack)
        kept, pose = brought(stack)
        if not len(kept):
            return
        whole = condition_tensors(stack.conditions, sides=stack.sides)
        condition = {name: value[kept] for name, value in whole.items()}
        points, known = stack.points[kept], stack.object_known[kept]
        start = condition["pose"].double().numpy()[:, None]
        phase = _phase(condition, points.shape[1], stack.fps).double().numpy()
        near = np.maximum(1.0 - np.abs(phase[..., None] / _STEP - np.arange(_NODES)), 0.0) * known[..., None]
        end, turn = (value.double().numpy() for value in self.end(condition))
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
