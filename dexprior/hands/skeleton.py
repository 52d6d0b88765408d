"""A licence-free hand with MANO's kinematic tree: 16 joints, 45 pose parameters, five fingertips, capsules.

Frame of the right hand as in MANO: origin at the wrist, fingers along -x, palm facing -y, thumb towards +z; a flat
hand is zero, and flexion of the four fingers is a positive rotation about z. The bone offsets below are rounded
measurements of one adult hand, so nothing of MANO's data is in them. `betas` here are this skeleton's own:
betas[0] scales the hand by 4 % and betas[1] the fingers by 4 % for each unit; the others have no effect.

A left hand is its mirror image in x, as in MANO: fingers along +x, and a rotation vector's y and z change their sign.

Not to be confused with the robot's hands (`dexprior.robots`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_axis_angle, matrix_from_quat
from dexprior.types import Side

if TYPE_CHECKING:
    import torch

__all__ = [
    "BONES",
    "FINGER_RADIUS",
    "MANO_FROM_MEDIAPIPE",
    "OFFSETS",
    "PARENTS",
    "TIP_OFFSETS",
    "forward",
    "forward_torch",
    "rest_offsets",
]

PARENTS = (-1, 0, 1, 2, 0, 4, 5, 0, 7, 8, 0, 10, 11, 0, 13, 14)
"""Parent of each of the 16 joints, in MANO's order (wrist, index, middle, little, ring, thumb)."""

OFFSETS = np.array(
    [
        [0.0, 0.0, 0.0],
        [-0.088, -0.001, 0.022], [-0.034, 0.0, 0.0], [-0.023, 0.0, 0.0],
        [-0.092, 0.0, 0.0], [-0.034, 0.0, 0.0], [-0.025, 0.0, 0.0],
        [-0.070, -0.006, -0.040], [-0.024, 0.0, 0.0], [-0.019, 0.0, 0.0],
        [-0.082, -0.002, -0.021], [-0.031, 0.0, 0.0], [-0.025, 0.0, 0.0],
        [-0.022, -0.012, 0.026], [-0.026, -0.010, 0.022], [-0.025, -0.006, 0.018],
    ]
)  # fmt: skip
"""Joint positions in the parent's frame, flat hand [m]."""

TIP_OFFSETS = np.array(
    [[-0.024, 0.0, 0.0], [-0.026, 0.0, 0.0], [-0.019, 0.0, 0.0], [-0.025, 0.0, 0.0], [-0.022, -0.004, 0.016]]
)
"""Fingertips in the frame of each finger's last joint: index, middle, little, ring, thumb [m]."""

FINGER_RADIUS = 0.008
"""Radius of the finger capsules [m]."""

_MIRROR = np.array([-1.0, 1.0, 1.0])  # of places; rotation vectors are axial, and are mirrored by its negative
_TIP_PARENTS = (3, 6, 9, 12, 15)
MANO_FROM_MEDIAPIPE = (0, 13, 14, 15, 20, 1, 2, 3, 16, 4, 5, 6, 17, 10, 11, 12, 19, 7, 8, 9, 18)
"""Index of each of the 21 landmarks, in MediaPipe's order, among the 16 joints followed by the five tips."""

BONES = tuple((0 if k % 4 == 1 else k - 1, k) for k in range(1, 21))
"""Pairs of landmarks that a bone connects, MediaPipe order."""


def rest_offsets(betas: Float[np.ndarray, "*batch 10"]) -> Float[np.ndarray, "*batch 21 3"]:
    """Offsets of the 16 joints and five tips in their parents' frames [m]."""
    betas = np.asarray(betas, dtype=np.float64)
    offsets = np.concatenate([OFFSETS, TIP_OFFSETS])
    size = 1.0 + 0.04 * betas[..., 0, None, None]
    finger = 1.0 + 0.04 * betas[..., 1, None, None]
    grows = np.array([0 if k in (0, 1, 4, 7, 10, 13) else 1 for k in range(21)])[:, None]
    return size * np.where(grows, finger, 1.0) * offsets


def forward(
    wrist_pose: Float[np.ndarray, "*batch 7"],
    finger_pose: Float[np.ndarray, "*batch 45"],
    betas: Float[np.ndarray, 10] | None = None,
    side: Side = "right",
) -> Float[np.ndarray, "*batch 21 3"]:
    """Joint positions of a hand in the base frame, MediaPipe order [m].

    Args:
        wrist_pose: pose of the wrist frame [m, unit quaternion].
        finger_pose: axis-angle of the 15 finger joints, MANO's order [rad].
        betas: shape; zero when omitted.
        side: which hand.

    Raises:
        BadInput: wrong shapes.
    """
    wrist_pose, finger_pose = np.asarray(wrist_pose), np.asarray(finger_pose)
    if wrist_pose.shape[-1:] != (7,) or finger_pose.shape[-1:] != (45,):
        raise BadInput(
            f"wrist_pose {wrist_pose.shape} and finger_pose {finger_pose.shape}: expected (..., 7), (..., 45)"
        )
    offsets = rest_offsets(np.zeros(10) if betas is None else betas)
    if side == "left":
        offsets = offsets * _MIRROR
    local = matrix_from_axis_angle(finger_pose.reshape(*finger_pose.shape[:-1], 15, 3))
    rotations = [matrix_from_quat(wrist_pose[..., 3:])]
    positions = [wrist_pose[..., :3]]
    for k in range(1, 16):
        parent = PARENTS[k]
        positions.append(positions[parent] + rotations[parent] @ offsets[..., k, :])
        rotations.append(rotations[parent] @ local[..., k - 1, :, :])
    for k, parent in enumerate(_TIP_PARENTS):
        positions.append(positions[parent] + rotations[parent] @ offsets[..., 16 + k, :])
    return np.stack([positions[k] for k in MANO_FROM_MEDIAPIPE], axis=-2)


def forward_torch(
    wrist_position: Float[torch.Tensor, "*batch 3"],
    wrist_rotation: Float[torch.Tensor, "*batch 3 3"],
    finger_rotation: Float[torch.Tensor, "*batch 15 3 3"],
    side: Side = "right",
) -> Float[torch.Tensor, "*batch 21 3"]:
    """`forward` for networks, differentiable, zero betas, from rotation matrices."""
    import torch

    rest = rest_offsets(np.zeros(10)) * (_MIRROR if side == "left" else 1.0)
    offsets = torch.as_tensor(rest, dtype=wrist_position.dtype, device=wrist_position.device)
    rotations, positions = [wrist_rotation], [wrist_position]
    for k in range(1, 16):
        parent = PARENTS[k]
        positions.append(positions[parent] + rotations[parent] @ offsets[k])
        rotations.append(rotations[parent] @ finger_rotation[..., k - 1, :, :])
    for k, parent in enumerate(_TIP_PARENTS):
        positions.append(positions[parent] + rotations[parent] @ offsets[16 + k])
    return torch.stack([positions[k] for k in MANO_FROM_MEDIAPIPE], dim=-2)
