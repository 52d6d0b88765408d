"""A hand from 21 measured landmarks: wrist pose by Kabsch, finger rotations in closed form.

The palm is one rigid body, so its six landmarks give the wrist's rotation. Along each finger, every joint
turns the rest direction of its bone onto the measured one by the shortest rotation. That leaves no choice of
twist: the fit has no iterations and no local minima, and the twist about a straight bone, which three points
cannot show, is zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput
from dexprior.geometry.rotations import (
    matrix_from_axis_angle,
    matrix_from_quat,
    quat_from_matrix,
)
from dexprior.hands.skeleton import BONES, MANO_FROM_MEDIAPIPE, OFFSETS, PARENTS, rest_offsets
from dexprior.types import HandTrajectory, Side

__all__ = [
    "CLIP_TO_WRIST",
    "fit_betas",
    "fit_finger_pose",
    "fit_wrist_rotation",
    "hand_from_landmarks",
    "wrist_pose_of",
]

CLIP_TO_WRIST = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
"""Rotation from the axes of the hand clip's file (fingers +z, thumb +y, palm facing +x) to MANO's."""

_PALM = np.array([0, 1, 5, 9, 13, 17])  # landmarks that do not move with respect to the wrist
_PALM_WEIGHT = np.array([0.0, 0.3, 1.0, 1.0, 1.0, 1.0])  # the thumb's base is the least certain of them
_MIRROR = np.array([-1.0, 1.0, 1.0])  # turns a left hand into a right one
_SHORTER = 0.97  # length of all bones, over that of another order of joints, below which the joints are in that order
_MANO_ORDERS = (
    MANO_FROM_MEDIAPIPE,  # MANO's 16 joints and the tips of its fingers in their order, or with the thumb's tip first
    (0, 13, 14, 15, 16, 1, 2, 3, 17, 4, 5, 6, 18, 10, 11, 12, 19, 7, 8, 9, 20),
)
_BACKWARDS = -0.015  # [m] mean fingertip height over the palm below which a hand cannot be what it claims


def hand_from_landmarks(
    joints: Float[np.ndarray, "time 21 3"],
    t: Float[np.ndarray, " time"],
    side: Side,
    *,
    base_pose: Float[np.ndarray, "*time 7"] | None = None,
    betas: Float[np.ndarray, " 10"] | None = None,
    scale_known: bool = False,
    valid: Bool[np.ndarray, " time"] | None = None,
    contact: Float[np.ndarray, "time 5"] | None = None,
    sigma: float = 0.005,
) -> HandTrajectory:
    """Fit a hand to landmarks.

    The trajectory's `joints` are the measured ones; `skeleton.forward` of its wrist and finger pose comes
    close to them, and equals them where the landmarks are a skeleton hand's.

    Args:
        joints: landmarks in MediaPipe order, in any right-handed frame [m].
        t: seconds.
        side: which hand it is. A left hand's wrist frame is the mirror image of a right one's (fingers along
            +x), as in MANO.
        base_pose: pose of the landmarks' frame in the base frame, one or one a frame; identity when omitted.
        betas: the hand's shape; fitted to the bone lengths when omitted.
        scale_known: whether the landmarks are metric (a monocular file's are those of an average hand).
        valid: measured frames; the others may hold NaN, and repeat the last measured one.
        contact: probability that each finger touches; zero when omitted.
        sigma: standard deviation of a landmark's position [m].

    Raises:
        BadInput: wrong shapes, a value that is not finite in a valid frame, no valid frame, an unknown side, joints in
            MANO's order, or fingers that bend to the back of the hand (a hand of the other side).
    """
    if side not in ("left", "right"):
        raise BadInput(f"side = {side!r}; choices: left, right")
    joints = _checked(joints, valid)
    n = len(joints)
    valid = np.ones(n, dtype=bool) if valid is None else np.asarray(valid, dtype=bool)
    joints = joints[_last_measured(valid)]
    if base_pose is not None:
        base_pose = np.asarray(base_pose, dtype=np.float64)
        if base_pose.shape not in ((7,), (n, 7)):
            raise BadInput(f"base_pose has shape {base_pose.shape}, expected (7,) or ({n}, 7)")
        R = matrix_from_quat(base_pose[..., 3:])
        joints = np.einsum("...ij,...kj->...ki", R, joints) + base_pose[..., None, :3]

    mirror = _MIRROR if side == "left" else np.ones(3)
    as_right = joints * mirror
    _check_order(joints[valid])
    _check_side(as_right[valid], side)
    shape = fit_betas(as_right[valid]) if betas is None else np.asarray(betas, dtype=np.float64)
    R_base_wrist = fit_wrist_rotation(as_right, shape)
    finger_pose = fit_finger_pose(as_right, R_base_wrist, shape)

    twist_mirror = mirror * np.prod(mirror)  # a rotation vector is axial
    return HandTrajectory(
        t=t,
        side=side,
        wrist_pose=wrist_pose_of(joints, side),
        finger_pose=(finger_pose * twist_mirror).reshape(n, 45),
        betas=shape,
        joints=joints,
        contact=np.zeros((n, 5)) if contact is None else contact,
        force=np.zeros((n, 5)),
        valid=valid,
        sigma=np.full((n, 21), sigma),
        scale_known=scale_known,
    )


def wrist_pose_of(joints: Float[np.ndarray, "*time 21 3"], side: Side) -> Float[np.ndarray, "*time 7"]:
    """Pose of MANO's wrist frame in the landmarks' frame, of one frame or many: that of `hand_from_landmarks`.

    Frames that are not finite give poses that are not.

    Args:
        joints: landmarks in MediaPipe order, in any right-handed frame [m].
        side: which hand it is.
    """
    mirror = _MIRROR if side == "left" else np.ones(3)
    measured = np.asarray(joints, dtype=np.float64).reshape(-1, 21, 3)
    pose, seen = np.full((len(measured), 7), np.nan), np.isfinite(measured).all(axis=(1, 2))
    if seen.any():
        R = mirror[:, None] * fit_wrist_rotation(measured[seen] * mirror, np.zeros(10)) * mirror
        pose[seen] = np.concatenate([measured[seen, 0], quat_from_matrix(R)], axis=1)
    return pose.reshape(*np.shape(joints)[:-2], 7)


def fit_betas(joints: Float[np.ndarray, "time 21 3"]) -> Float[np.ndarray, " 10"]:
    """The skeleton's size and finger length (betas[0], betas[1]) from median bone lengths."""
    a, b = np.array(BONES).T
    measured = np.median(np.linalg.norm(joints[:, b] - joints[:, a], axis=-1), axis=0)
    rest = np.linalg.norm(rest_offsets(np.zeros(10))[list(MANO_FROM_MEDIAPIPE)][1:], axis=-1)
    palm = a == 0
    size = (measured[palm] @ rest[palm]) / (rest[palm] @ rest[palm])
    finger = (measured[~palm] @ rest[~palm]) / (rest[~palm] @ rest[~palm])
    betas = np.zeros(10)
    betas[0], betas[1] = (size - 1) / 0.04, (finger / size - 1) / 0.04
    return betas


def fit_wrist_rotation(
    joints: Float[np.ndarray, "time 21 3"], betas: Float[np.ndarray, " 10"]
) -> Float[np.ndarray, "time 3 3"]:
    """R_base_wrist that turns the rest palm onto the measured one, wrist on wrist.

    Kabsch 1976: with H = sum_k w_k a_k b_k^T = U S V^T,  R = V diag(1, 1, det V U^T) U^T.
    """
    rest = rest_offsets(betas)[list(MANO_FROM_MEDIAPIPE)][_PALM]  # palm joints are children of the wrist
    measured = joints[:, _PALM] - joints[:, :1]
    H = np.einsum("k,ki,tkj->tij", _PALM_WEIGHT, rest, measured)
    U, _, Vt = np.linalg.svd(H)
    V = np.swapaxes(Vt, -1, -2)
    V[..., 2] *= np.sign(np.linalg.det(V @ np.swapaxes(U, -1, -2)))[:, None]
    return V @ np.swapaxes(U, -1, -2)


def fit_finger_pose(
    joints: Float[np.ndarray, "time 21 3"],
    R_base_wrist: Float[np.ndarray, "time 3 3"],
    betas: Float[np.ndarray, " 10"],
) -> Float[np.ndarray, "time 15 3"]:
    """Axis-angle of MANO's finger joints that points every bone of `skeleton.forward` as measured [rad]."""
    offsets = rest_offsets(betas)
    places = joints[:, np.argsort(MANO_FROM_MEDIAPIPE)]  # MANO's joints, then the tips of its five fingers
    R_base_joint = [R_base_wrist] + [np.empty(0)] * 15
    pose = np.empty((len(joints), 15, 3))
    for k in range(1, 16):
        child = 15 + k // 3 if k % 3 == 0 else k + 1
        R_base_parent = R_base_joint[PARENTS[k]]
        bone = np.einsum("tji,tj->ti", R_base_parent, places[:, child] - places[:, k])
        pose[:, k - 1] = _swing(offsets[child], bone)
        R_base_joint[k] = R_base_parent @ matrix_from_axis_angle(pose[:, k - 1])
    return pose


def _swing(rest: Float[np.ndarray, " 3"], measured: Float[np.ndarray, "time 3"]) -> Float[np.ndarray, "time 3"]:
    """The shortest rotation vectors that turn one direction onto others."""
    a = rest / np.linalg.norm(rest)
    length = np.linalg.norm(measured, axis=-1, keepdims=True)
    b = np.where(length > 1e-9, measured / np.where(length > 1e-9, length, 1.0), a)
    cross, dot = np.cross(a, b), b @ a
    sine = np.linalg.norm(cross, axis=-1, keepdims=True)
    fallback = np.array([0.0, 0.0, 1.0])  # a bone that points straight back: bend it as fingers bend
    axis = np.where(sine > 1e-9, cross / np.where(sine > 1e-9, sine, 1.0), fallback)
    return axis * np.arctan2(sine[..., 0], dot)[..., None]


def _checked(joints: np.ndarray, valid: np.ndarray | None) -> np.ndarray:
    joints = np.asarray(joints)
    if joints.ndim != 3 or joints.shape[1:] != (21, 3) or len(joints) == 0:
        raise BadInput(f"landmarks have shape {joints.shape}, expected (time, 21, 3) in MediaPipe order")
    if valid is not None and np.shape(valid) != (len(joints),):
        raise BadInput(f"valid has shape {np.shape(valid)} for {len(joints)} frames of landmarks")
    bad = ~np.isfinite(joints).all(axis=(1, 2))
    if valid is not None:
        bad &= np.asarray(valid, dtype=bool)
    if bad.any():
        raise BadInput(
            f"{int(bad.sum())} of {len(joints)} frames of landmarks are not finite, the first is frame "
            f"{int(bad.argmax())}: mark frames without a hand as not valid (`valid`)"
        )
    return joints.astype(np.float64)


def _last_measured(valid: np.ndarray) -> np.ndarray:
    """The last valid frame before each (the first one for the frames that come before any)."""
    if not valid.any():
        raise BadInput("no frame of the landmarks is valid: no hand was found")
    index = np.maximum.accumulate(np.where(valid, np.arange(len(valid)), -1))
    return np.where(index < 0, int(valid.argmax()), index)


def _check_order(joints: np.ndarray) -> None:
    """Joints that are read in another order than theirs join fingers by bones: a hand's own bones are the shortest.

    Of 1,600 hands from flat to fists, bones of another order were at least 1.05 times as long, 1.17 for MediaPipe's.
    """
    a, b = np.array(BONES).T

    def length(order: Sequence[int]) -> float:
        placed = joints[:, list(order)]
        return float(np.linalg.norm(placed[:, b] - placed[:, a], axis=-1).sum(axis=1).mean())

    mine = length(range(21))
    for order in _MANO_ORDERS:
        if length(order) < _SHORTER * mine:
            raise BadInput(
                "the joints are in MANO's order (wrist, index, middle, little, ring, thumb, tips), expected "
                f"MediaPipe's: give joints[:, {list(order)}]"
            )


def _check_side(joints: np.ndarray, side: Side) -> None:
    """Fingers bend to the palm: which way they bend tells a left hand from a right one."""
    wrist = joints[:, 0]
    palm_normal = np.cross(joints[:, 5] - wrist, joints[:, 17] - wrist)
    palm_normal /= np.linalg.norm(palm_normal, axis=-1, keepdims=True) + 1e-12
    tips = joints[:, [8, 12, 16, 20]].mean(axis=1) - joints[:, [5, 9, 13, 17]].mean(axis=1)
    scale = np.linalg.norm(OFFSETS[4]) / (np.linalg.norm(joints[:, 9] - wrist, axis=-1).mean() + 1e-12)
    height = scale * float((palm_normal * tips).sum(-1).mean())
    if height < _BACKWARDS:
        other = "left" if side == "right" else "right"
        raise BadInput(
            f"fingers of this {side!r} hand bend {-1000 * height:.0f} mm to the back of the hand on "
            f"average: the landmarks are a {other} hand's, or mirrored; give side={other!r} "
            "(`hand` in a landmark file) or negate an axis"
        )
