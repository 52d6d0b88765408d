"""Motion as numbers for a network: hand, object and contact of one frame in one vector, and back."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from dexprior.data.stacks import Stack
from dexprior.errors import BadInput
from dexprior.geometry.rotations import (
    matrix_from_quat,
    matrix_from_rot6d,
    quat_from_matrix,
    rot6d_from_matrix,
)
from dexprior.geometry.torch_rotations import matrix_from_axis_angle
from dexprior.geometry.torch_rotations import matrix_from_rot6d as torch_matrix_from_rot6d
from dexprior.hands.skeleton import forward_torch
from dexprior.types import TRACKS

__all__ = ["MOTION_SIZE", "decode_motion", "encode_motion", "joints_of", "known_motion", "points_of", "standardise"]

WRIST, WRIST_ROT, FINGERS = slice(0, 3), slice(3, 9), slice(9, 54)
POINTS = slice(54, 54 + 3 * TRACKS)
CONTACT, FORCE = slice(POINTS.stop, POINTS.stop + 5), slice(POINTS.stop + 5, POINTS.stop + 10)
MOTION_SIZE = FORCE.stop
"""Wrist 3 + 6, finger axis-angles 45, points of the object 16 x 3, contact 5, log(1 + force) 5."""


def encode_motion(stack: Stack) -> Float[np.ndarray, "clip time 112"]:
    """Motion vectors of recorded clips: metres, radians, and the wrist's rotation by its first two columns.

    Raises:
        BadInput: objects that are followed by another number of points.
    """
    if stack.points.shape[2] != TRACKS:
        raise BadInput(f"objects followed by {stack.points.shape[2]} points: the prior's motion has {TRACKS}")
    return np.concatenate(
        [
            stack.wrist_pose[..., :3],
            rot6d_from_matrix(matrix_from_quat(stack.wrist_pose[..., 3:])),
            stack.finger_pose,
            stack.points.reshape(*stack.points.shape[:2], -1),
            stack.contact,
            np.log1p(stack.force),
        ],
        axis=-1,
    )


def known_motion(stack: Stack) -> Bool[np.ndarray, "clip time 112"]:
    """Which of those numbers were measured."""
    known = np.zeros((*stack.valid.shape, MOTION_SIZE), dtype=bool)
    known[..., : FINGERS.stop] = stack.hand_known[..., None]
    known[..., POINTS] = stack.object_known[..., None]
    known[..., CONTACT.start :] = (stack.valid & stack.touch_known[:, None])[..., None]
    return known


def decode_motion(motion: Float[np.ndarray, "*batch 112"]) -> dict[str, np.ndarray]:
    """Poses, points, contact probabilities and forces of motion vectors; inverse of `encode_motion`."""
    motion = np.asarray(motion, dtype=np.float64)
    quat = quat_from_matrix(matrix_from_rot6d(motion[..., WRIST_ROT]))
    return {
        "wrist_pose": np.concatenate([motion[..., WRIST], quat], axis=-1),
        "finger_pose": motion[..., FINGERS],
        "points": motion[..., POINTS].reshape(*motion.shape[:-1], TRACKS, 3),
        "contact": np.clip(motion[..., CONTACT], 0.0, 1.0),
        "force": np.maximum(np.expm1(np.clip(motion[..., FORCE], 0.0, 6.0)), 0.0),
    }


def standardise(
    motion: Float[np.ndarray, "clip time 112"], known: Bool[np.ndarray, "clip time 112"]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of every number over the frames that know it, with one spread within each group.

    Numbers that hardly change would otherwise be blown up to unit variance, and their noise with them. What no frame
    knows has mean zero and spread one.
    """
    flat, seen = motion.reshape(-1, MOTION_SIZE), known.reshape(-1, MOTION_SIZE)
    count = np.maximum(seen.sum(axis=0), 1)
    mean = (flat * seen).sum(axis=0) / count
    variance = ((flat - mean) ** 2 * seen).sum(axis=0) / count
    spread = np.ones(MOTION_SIZE)
    for group in (WRIST, WRIST_ROT, FINGERS, POINTS, CONTACT, FORCE):
        if seen[:, group].any():
            spread[group] = max(float(np.sqrt(variance[group].mean())), 1e-3)
    return mean, spread


def joints_of(motion: Float[Tensor, "*batch 112"]) -> Float[Tensor, "*batch 21 3"]:
    """Joint positions in the base frame, differentiable [m]."""
    fingers = matrix_from_axis_angle(motion[..., FINGERS].unflatten(-1, (15, 3)))
    return forward_torch(motion[..., WRIST], torch_matrix_from_rot6d(motion[..., WRIST_ROT]), fingers)


def points_of(motion: Float[Tensor, "*batch 112"]) -> Float[Tensor, "*batch 16 3"]:
    """Points of the object in the base frame [m]."""
    return motion[..., POINTS].unflatten(-1, (TRACKS, 3))
