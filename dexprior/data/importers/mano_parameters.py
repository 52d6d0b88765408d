"""MANO parameters in the conventions of five data sets, turned into one hand.

The conventions differ in four ways, and each mistake looks plausible: whether the 45 finger numbers are angles or
coefficients of the principal components in the MANO file; whether the file's mean pose is added to them
(`flat_hand_mean=False`) or not; what the translation means; and in which frame it is. Everywhere below the
translation is smplx's and manopth's: it is added to the model, so that the wrist joint is at

    wrist = J_0(betas) + translation,    J_0 = (J_regressor (v_template + shapedirs betas))_0

and the global rotation turns the hand about that joint. J_0 is in the user's MANO file only. Where a data set
stores joints as well, the wrist is read from them and no MANO file is needed for the position.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from dexprior.data.importers.base import ImportContext
from dexprior.data.importers.checks import last_measured, measured
from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_from_axis_angle
from dexprior.geometry.transforms import IDENTITY_POSE, pose_multiply, transform_points
from dexprior.types import HandTrajectory, Side

__all__ = ["MANO_TO_MEDIAPIPE", "ManoRecord", "mano_hand", "rest_wrist"]

MANO_TO_MEDIAPIPE = (0, 13, 14, 15, 16, 1, 2, 3, 17, 4, 5, 6, 18, 10, 11, 12, 19, 7, 8, 9, 20)
"""MANO's 16 joints followed by the tips of thumb, index, middle, ring, little (smplx, HO-3D, ARCTIC) -> MediaPipe."""

_DISAGREE = 0.008  # [m] distance of the file's wrist from the stored one that is more than rounding


@dataclass(frozen=True, kw_only=True)
class ManoRecord:
    """MANO parameters as one data set stores them, in its own frame."""

    side: Side
    t: Float[np.ndarray, " time"]
    rotation: Float[np.ndarray, "time 3"]
    """Global rotation, axis-angle [rad]."""
    fingers: Float[np.ndarray, "time n"]
    """45 axis-angle numbers in MANO's order, or coefficients of the first n principal components."""
    pca: bool
    """Whether `fingers` are coefficients."""
    flat_hand_mean: bool
    """Whether zero is a flat hand; otherwise zero is the mean pose in the MANO file."""
    translation: Float[np.ndarray, "time 3"]
    """Added to the model [m]."""
    betas: Float[np.ndarray, " 10"]
    valid: Bool[np.ndarray, " time"]
    joints: Float[np.ndarray, "time 21 3"] | None = None
    """Stored joints, MediaPipe order, same frame [m]."""
    mirrored_left_shape: bool = False
    """Whether the left model's shape directions are mirrored before use, as HOT3D does (smplx issue 48)."""


def rest_wrist(arrays: dict[str, np.ndarray], betas: Float[np.ndarray, " 10"]) -> Float[np.ndarray, " 3"]:
    """The wrist joint J_0 of a MANO file's unposed hand of one shape [m]."""
    vertices = arrays["v_template"] + arrays["shapedirs"] @ np.asarray(betas, dtype=np.float64)
    return arrays["J_regressor"][0] @ vertices


def mano_hand(
    record: ManoRecord, context: ImportContext, *, base_pose: Float[np.ndarray, "*time 7"] = IDENTITY_POSE
) -> tuple[HandTrajectory | None, tuple[str, ...]]:
    """A hand in the base frame, and what is uncertain about it; None where too little was recorded.

    With the user's MANO file: angles from it, joints as stored or from the model (which needs `smplx`). Without it:
    stored joints give the wrist, and the angles are the data set's own where they are plain angles of a flat hand,
    else fitted to the joints by `context.fit`.

    Args:
        record: the parameters.
        context: MANO files and the fit.
        base_pose: pose of the record's frame in the base frame, one or one a frame.

    Raises:
        BadInput: no valid frame, wrong shapes, or MANO files that cannot be read.
    """
    side, problems = record.side, []
    streams = [record.rotation, record.fingers, record.translation]
    streams += [] if record.joints is None else [record.joints]
    finite = measured(*streams)
    if lost := int((record.valid & ~finite).sum()):
        problems.append(f"{lost} frames of the {side} hand are not finite and count as not measured")
    valid = record.valid & finite
    held = last_measured(valid, f"the {side} hand")
    base_pose = np.broadcast_to(base_pose, (len(record.t), 7))
    arrays = context.mano(side)
    joints = None if record.joints is None else transform_points(base_pose, record.joints[held])
    if arrays is None and joints is None:
        problems.append(f"the {side} hand is left out: its joints need the user's MANO file (mano_{side})")
        return None, tuple(problems)
    if arrays is None and joints is not None and (record.pca or not record.flat_hand_mean):
        if context.fit is None:
            problems.append(f"the {side} hand is left out: its finger angles need the user's MANO file (mano_{side})")
            return None, tuple(problems)
        problems.append(f"finger angles of the {side} hand were fitted to its joints, for want of a MANO file")
        fitted = context.fit(joints, record.t, side, scale_known=True, valid=valid, sigma=0.005)
        return fitted, tuple(problems)

    fingers = record.fingers[held]
    if arrays is not None:
        if record.pca:
            fingers = fingers @ arrays["hands_components"][: fingers.shape[1]]
        if not record.flat_hand_mean:
            fingers = fingers + arrays["hands_mean"]
    if fingers.shape[1] != 45:
        raise BadInput(f"the {side} hand has {fingers.shape[1]} finger numbers, expected 45 angles")
    if arrays is not None:
        shapes = dict(arrays)
        if record.mirrored_left_shape and side == "left":
            shapes["shapedirs"], note = _mirrored(arrays, context)
            problems += note
        wrist = rest_wrist(shapes, record.betas) + record.translation[held]
        wrist = transform_points(base_pose, wrist[:, None])[:, 0]
        if joints is not None and (gap := float(np.median(np.linalg.norm(wrist - joints[:, 0], axis=1)))) > _DISAGREE:
            problems.append(
                f"the {side} wrist of the MANO file is {1000 * gap:.0f} mm from the stored one: another MANO version?"
            )
    if joints is not None:
        wrist = joints[:, 0]
    turn = np.concatenate([np.zeros((len(record.t), 3)), quat_from_axis_angle(record.rotation[held])], axis=1)
    wrist_pose = np.concatenate([wrist, pose_multiply(base_pose, turn)[:, 3:]], axis=1)
    if joints is None:
        joints = _forward(record, context, wrist_pose, fingers, shapes["shapedirs"])
    n = len(record.t)
    hand = HandTrajectory(
        t=record.t,
        side=side,
        wrist_pose=wrist_pose,
        finger_pose=fingers,
        betas=record.betas,
        joints=joints,
        contact=np.zeros((n, 5)),
        force=np.zeros((n, 5)),
        valid=valid,
        sigma=np.full((n, 21), 0.005),
        scale_known=True,
    )
    return hand, tuple(problems)


def _mirrored(arrays: dict[str, np.ndarray], context: ImportContext) -> tuple[np.ndarray, list[str]]:
    """Shape directions of the left hand, mirrored where the file has the right hand's."""
    right = context.mano("right")
    if right is None:
        return arrays["shapedirs"], ["the left hand's shape was not checked against mano_right (smplx issue 48)"]
    directions = arrays["shapedirs"].copy()
    if np.abs(directions[:, 0] - right["shapedirs"][:, 0]).sum() < 1:
        directions[:, 0] *= -1
    return directions, []


def _forward(
    record: ManoRecord,
    context: ImportContext,
    wrist_pose: Float[np.ndarray, "time 7"],
    fingers: Float[np.ndarray, "time 45"],
    shapedirs: np.ndarray,
) -> Float[np.ndarray, "time 21 3"]:
    import torch

    from dexprior.hands.mano import ManoHand

    path = context.mano_path(record.side)
    assert path is not None  # its arrays were read
    hand = ManoHand(path, record.side)
    hand.layer.shapedirs.copy_(torch.as_tensor(shapedirs))
    return hand.forward(wrist_pose, fingers, record.betas)
