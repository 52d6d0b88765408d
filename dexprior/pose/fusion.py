"""Two opinions about one hand: the estimator's, from pixels, and the prior's own motion stream."""

from __future__ import annotations

import numpy as np

from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_slerp
from dexprior.hands.skeleton import forward
from dexprior.types import HandTrajectory

__all__ = ["fuse_hands"]


def fuse_hands(a: HandTrajectory, b: HandTrajectory) -> HandTrajectory:
    """Average of two trajectories of one hand over the same frames, weighted by inverse variance.

    Raises:
        BadInput: different lengths, times or sides.
    """
    if len(a) != len(b) or a.side != b.side or not np.allclose(a.t, b.t):
        raise BadInput(f"cannot fuse a {a.side} hand of {len(a)} frames with a {b.side} hand of {len(b)} frames")
    va, vb = (np.square(h.sigma.mean(axis=1)) + 1e-8 for h in (a, b))
    w = (va / (va + vb))[:, None]  # weight of b
    position = (1 - w) * a.wrist_pose[:, :3] + w * b.wrist_pose[:, :3]
    wrist = np.concatenate([position, quat_slerp(a.wrist_pose[:, 3:], b.wrist_pose[:, 3:], w[:, 0])], axis=1)
    fingers = (1 - w) * a.finger_pose + w * b.finger_pose
    return HandTrajectory(
        t=a.t,
        side=a.side,
        wrist_pose=wrist,
        finger_pose=fingers,
        betas=a.betas,
        joints=forward(wrist, fingers, a.betas, a.side),
        contact=(1 - w) * a.contact + w * b.contact,
        force=(1 - w) * a.force + w * b.force,
        valid=a.valid & b.valid,
        sigma=np.repeat(np.sqrt(va * vb / (va + vb))[:, None], 21, axis=1),
        scale_known=a.scale_known and b.scale_known,
    )
