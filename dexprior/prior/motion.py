"""Motion as numbers for a network: hands, object and contact of one frame in one vector, and back.

one hand    | wrist 3 + 6, fingers 45 | points 48 | contact 5, force 5 |
two hands   | the same, of the right hand                              | wrist, fingers, contact, force of the left |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
from dexprior.types import TRACKS, Side, VideoSample

__all__ = [
    "HANDS",
    "POINTS",
    "Places",
    "decode_motion",
    "encode_clip",
    "encode_motion",
    "joints_of",
    "known_motion",
    "motion_size",
    "points_of",
    "standardise",
]


class Places(NamedTuple):
    """Where the numbers of one hand stand."""

    wrist: slice
    rotation: slice
    """Rotation of the wrist: the first two columns of its matrix."""
    fingers: slice
    contact: slice
    force: slice
    """log(1 + N)."""

    @property
    def pose(self) -> slice:
        """Wrist, rotation and fingers."""
        return slice(self.wrist.start, self.fingers.stop)


POINTS = slice(54, 54 + 3 * TRACKS)
HANDS = (
    Places(slice(0, 3), slice(3, 9), slice(9, 54), slice(102, 107), slice(107, 112)),
    Places(slice(112, 115), slice(115, 121), slice(121, 166), slice(166, 171), slice(171, 176)),
)
"""Slices of the first hand, and of the second one where there are two."""


def motion_size(hands: int) -> int:
    """Numbers of a frame with so many hands."""
    return HANDS[hands - 1].force.stop


def encode_motion(stack: Stack) -> Float[np.ndarray, "clip time motion"]:
    """Motion vectors of recorded clips: metres, radians, and the wrist's rotation by its first two columns.

    Raises:
        BadInput: objects that are followed by another number of points.
    """
    if stack.points.shape[2] != TRACKS:
        raise BadInput(f"objects followed by {stack.points.shape[2]} points: the prior's motion has {TRACKS}")
    motion = np.zeros((*stack.valid.shape, motion_size(len(stack.sides))))
    motion[..., POINTS] = stack.points.reshape(*stack.points.shape[:2], -1)
    for k, places in enumerate(HANDS[: len(stack.sides)]):
        parts = (stack.wrist_pose, stack.finger_pose, stack.contact, stack.force)
        _put_hand(motion, places, *(part[:, :, k] for part in parts))
    return motion


def encode_clip(clip: VideoSample, sides: Sequence[Side]) -> Float[np.ndarray, "time motion"]:
    """Motion vectors of one clip; zeros for a hand of these sides that it does not show."""
    motion = np.zeros((len(clip.frames), motion_size(len(sides))))
    motion[:, POINTS] = clip.object.points.reshape(len(motion), -1)
    for hand in clip.hands:
        places = HANDS[sides.index(hand.side)]
        _put_hand(motion, places, hand.wrist_pose, hand.finger_pose, hand.contact, hand.force)
    return motion


def _put_hand(
    motion: Float[np.ndarray, "*batch motion"],
    places: Places,
    wrist_pose: Float[np.ndarray, "*batch 7"],
    finger_pose: Float[np.ndarray, "*batch 45"],
    contact: Float[np.ndarray, "*batch 5"],
    force: Float[np.ndarray, "*batch 5"],
) -> None:
    motion[..., places.wrist] = wrist_pose[..., :3]
    motion[..., places.rotation] = rot6d_from_matrix(matrix_from_quat(wrist_pose[..., 3:]))
    motion[..., places.fingers] = finger_pose
    motion[..., places.contact] = contact
    motion[..., places.force] = np.log1p(force)


def known_motion(stack: Stack) -> Bool[np.ndarray, "clip time motion"]:
    """Which of those numbers were measured."""
    known = np.zeros((*stack.valid.shape, motion_size(len(stack.sides))), dtype=bool)
    known[..., POINTS] = stack.object_known[..., None]
    for k, places in enumerate(HANDS[: len(stack.sides)]):
        known[..., places.pose] = stack.hand_known[:, :, k, None]
        touch = stack.touch_known & stack.shows[:, k]
        known[..., places.contact.start : places.force.stop] = (stack.valid & touch[:, None])[..., None]
    return known


def decode_motion(motion: Float[np.ndarray, "*batch motion"], hand: int = 0) -> dict[str, np.ndarray]:
    """Pose, contact probabilities and forces of one hand, and the object's points; inverse of `encode_motion`."""
    motion, places = np.asarray(motion, dtype=np.float64), HANDS[hand]
    quat = quat_from_matrix(matrix_from_rot6d(motion[..., places.rotation]))
    return {
        "wrist_pose": np.concatenate([motion[..., places.wrist], quat], axis=-1),
        "finger_pose": motion[..., places.fingers],
        "points": motion[..., POINTS].reshape(*motion.shape[:-1], TRACKS, 3),
        "contact": np.clip(motion[..., places.contact], 0.0, 1.0),
        "force": np.maximum(np.expm1(np.clip(motion[..., places.force], 0.0, 6.0)), 0.0),
    }


def standardise(
    motion: Float[np.ndarray, "clip time motion"], known: Bool[np.ndarray, "clip time motion"]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of every number over the frames that know it, with one spread within each group.

    Numbers that hardly change would otherwise be blown up to unit variance, and their noise with them. What no frame
    knows has mean zero and spread one.
    """
    size = motion.shape[-1]
    flat, seen = motion.reshape(-1, size), known.reshape(-1, size)
    count = np.maximum(seen.sum(axis=0), 1)
    mean = (flat * seen).sum(axis=0) / count
    variance = ((flat - mean) ** 2 * seen).sum(axis=0) / count
    spread = np.ones(size)
    for group in (POINTS, *(place for places in HANDS for place in places if place.stop <= size)):
        if seen[:, group].any():
            spread[group] = max(float(np.sqrt(variance[group].mean())), 1e-3)
    return mean, spread


def joints_of(motion: Float[Tensor, "*batch motion"], side: Side, hand: int = 0) -> Float[Tensor, "*batch 21 3"]:
    """Joint positions of one hand in the base frame, differentiable [m].

    Args:
        motion: in metres.
        side: of the hand.
        hand: its place.
    """
    places = HANDS[hand]
    fingers = matrix_from_axis_angle(motion[..., places.fingers].unflatten(-1, (15, 3)))
    return forward_torch(
        motion[..., places.wrist], torch_matrix_from_rot6d(motion[..., places.rotation]), fingers, side
    )


def points_of(motion: Float[Tensor, "*batch motion"]) -> Float[Tensor, "*batch 16 3"]:
    """Points of the object in the base frame [m]."""
    return motion[..., POINTS].unflatten(-1, (TRACKS, 3))
