"""Motion as numbers for a network: hand, object and contact of one frame in one vector, and back."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from torch import Tensor

from dexprior.data.stacks import Stack
from dexprior.geometry.rotations import (
    matrix_from_quat,
    matrix_from_rot6d,
    quat_from_matrix,
    rot6d_from_matrix,
)
from dexprior.geometry.torch_rotations import matrix_from_axis_angle
from dexprior.geometry.torch_rotations import matrix_from_rot6d as torch_matrix_from_rot6d
from dexprior.hands.skeleton import forward_torch

__all__ = ["MOTION_SIZE", "decode_motion", "encode_motion", "joints_of", "object_pose_of", "standardise"]

WRIST, WRIST_ROT, FINGERS = slice(0, 3), slice(3, 9), slice(9, 54)
OBJECT, OBJECT_ROT, CONTACT, FORCE = slice(54, 57), slice(57, 63), slice(63, 68), slice(68, 73)
MOTION_SIZE = 73
"""Wrist 3 + 6, finger axis-angles 45, object 3 + 6, contact 5, log(1 + force) 5."""


def encode_motion(stack: Stack) -> Float[np.ndarray, "clip time 73"]:
    """Motion vectors of recorded clips: metres, radians, and rotations by their first two columns."""
    return np.concatenate(
        [
            stack.wrist_pose[..., :3],
            rot6d_from_matrix(matrix_from_quat(stack.wrist_pose[..., 3:])),
            stack.finger_pose,
            stack.object_pose[..., :3],
            rot6d_from_matrix(matrix_from_quat(stack.object_pose[..., 3:])),
            stack.contact,
            np.log1p(stack.force),
        ],
        axis=-1,
    )


def decode_motion(motion: Float[np.ndarray, "*batch 73"]) -> dict[str, np.ndarray]:
    """Poses, contact probabilities and forces of motion vectors; inverse of `encode_motion`."""
    motion = np.asarray(motion, dtype=np.float64)

    def pose(position: slice, rotation: slice) -> np.ndarray:
        quat = quat_from_matrix(matrix_from_rot6d(motion[..., rotation]))
        return np.concatenate([motion[..., position], quat], axis=-1)

    return {
        "wrist_pose": pose(WRIST, WRIST_ROT),
        "finger_pose": motion[..., FINGERS],
        "object_pose": pose(OBJECT, OBJECT_ROT),
        "contact": np.clip(motion[..., CONTACT], 0.0, 1.0),
        "force": np.maximum(np.expm1(np.clip(motion[..., FORCE], 0.0, 6.0)), 0.0),
    }


def standardise(motion: Float[np.ndarray, "clip time 73"]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of every number, with one spread within each group so that their relative sizes stay.

    Numbers that hardly change would otherwise be blown up to unit variance, and their noise with them.
    """
    flat = motion.reshape(-1, motion.shape[-1])
    spread = np.empty(MOTION_SIZE)
    for group in (WRIST, WRIST_ROT, FINGERS, OBJECT, OBJECT_ROT, CONTACT, FORCE):
        spread[group] = max(float(np.sqrt(flat[:, group].var(axis=0).mean())), 1e-3)
    return flat.mean(axis=0), spread


def joints_of(motion: Float[Tensor, "*batch 73"]) -> Float[Tensor, "*batch 21 3"]:
    """Joint positions in the base frame, differentiable [m]."""
    fingers = matrix_from_axis_angle(motion[..., FINGERS].unflatten(-1, (15, 3)))
    return forward_torch(motion[..., WRIST], torch_matrix_from_rot6d(motion[..., WRIST_ROT]), fingers)


def object_pose_of(
    motion: Float[Tensor, "*batch 73"],
) -> tuple[Float[Tensor, "*batch 3"], Float[Tensor, "*batch 3 3"]]:
    """Position [m] and rotation of the object in the base frame."""
    return motion[..., OBJECT], torch_matrix_from_rot6d(motion[..., OBJECT_ROT])
