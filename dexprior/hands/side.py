"""What tells a left hand from a right one, and what makes one of the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import matrix_from_quat, quat_from_matrix
from dexprior.types import ContactConfiguration, Side

__all__ = ["flexion", "mirrored"]

_ACROSS = np.array([1.0, -1.0, 1.0])  # of the base frame's axes in a mirror


def flexion(joints: Float[np.ndarray, "time 21 3"], side: Side) -> float:
    """Mean height of the four fingertips over the palm, on the palm's side, for a palm of 90 mm [m]."""
    joints = np.asarray(joints, dtype=np.float64)
    index, little = joints[:, 5] - joints[:, 0], joints[:, 17] - joints[:, 0]
    normal = np.cross(index, little) * (1.0 if side == "right" else -1.0)
    length = np.linalg.norm(normal, axis=-1, keepdims=True)
    normal = normal / np.where(length > 0, length, 1.0)
    tips = joints[:, [8, 12, 16, 20]].mean(axis=1) - joints[:, [5, 9, 13, 17]].mean(axis=1)
    palm = np.linalg.norm(joints[:, 9] - joints[:, 0], axis=-1).mean()
    return float((normal * tips).sum(-1).mean() * 0.09 / palm) if palm > 0 else 0.0


def mirrored(hand: ContactConfiguration) -> ContactConfiguration:
    """The other hand doing the same in the mirrored world: y of the base frame changes its sign."""
    R = np.diag(_ACROSS) @ matrix_from_quat(hand.wrist_pose[3:]) @ np.diag([-1.0, 1.0, 1.0])
    return replace(
        hand,
        side="left" if hand.side == "right" else "right",
        wrist_pose=np.concatenate([hand.wrist_pose[:3] * _ACROSS, quat_from_matrix(R)]),
        finger_pose=(hand.finger_pose.reshape(15, 3) * [1.0, -1.0, -1.0]).ravel(),
        points=hand.points * _ACROSS,
    )
