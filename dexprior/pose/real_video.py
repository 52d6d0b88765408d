"""A hand trajectory from a real clip: by landmarks that come with it, or found in its frames."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from dexprior.data.clips import probe_clip, read_clip
from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_from_matrix
from dexprior.pose.detection import DetectedLandmarks, detect_landmarks
from dexprior.pose.landmark_streams import read_landmarks
from dexprior.pose.landmarks import hand_from_landmarks
from dexprior.types import HandTrajectory, Side

__all__ = ["FACING_CAMERA", "ClipEstimate", "estimate_from_clip", "locate_wrist"]

FACING_CAMERA = np.concatenate(
    [np.zeros(3), quat_from_matrix(np.array([[0.0, 0.0, -1.0], [1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]))]
)
"""Camera axes (x right, y down, z forward) in a base frame with z up, seen by a viewer on its +x axis."""

_RATES = 0.01  # share by which the rates of a clip and of its landmarks may differ
_ROWS = 360  # [pixel] enough for a hand at arm's length, and a quarter of the memory of 720


@dataclass(frozen=True)
class ClipEstimate:
    """What was estimated from a clip."""

    hand: HandTrajectory
    fps: float
    image: Float[np.ndarray, "time 21 2"] | None
    """Landmarks as (column, row) fractions of the frame; None when they came from a file."""


def estimate_from_clip(
    video: str | Path,
    landmarks: str | Path | None = None,
    *,
    side: Side = "right",
    models_dir: str | Path | None = None,
    base_pose: Float[np.ndarray, " 7"] | None = None,
    focal: float | None = None,
    start: int = 0,
    stop: int | None = None,
) -> ClipEstimate:
    """The hand in a clip.

    Args:
        video: the clip.
        landmarks: a landmark file for it (see `read_landmarks`), which also says the side; without one, the
            landmarks are found in the frames.
        side: which hand it is, when landmarks are found in the frames.
        models_dir: see `find_landmark_models`.
        base_pose: pose of the landmarks' frame in the base frame. When omitted, identity for a file, and
            `FACING_CAMERA` for landmarks that were found.
        focal: focal length over the image's width. With it the wrist moves as an average hand's would under
            that camera; without it the wrist stays at the origin. Not used with a landmark file.
        start: first frame.
        stop: frame after the last one.

    Raises:
        MissingExtra, BadInput: see `read_clip`, `read_landmarks`, `detect_landmarks`, `hand_from_landmarks`;
            also when the file's frames are not the clip's, or of another rate.
    """
    info = probe_clip(video)
    if landmarks is not None:
        file = read_landmarks(landmarks)
        if info.frames != len(file.joints):
            raise BadInput(f"{video} has {info.frames} frames, {landmarks} has landmarks for {len(file.joints)}")
        if abs(file.fps - info.fps) > _RATES * info.fps:
            raise BadInput(
                f"{video} shows {info.fps:g} frames a second, {landmarks} has {file.fps:g}: landmarks are of each "
                "frame of the clip, in its rate"
            )
        joints = file.joints[start:stop]
        if len(joints) == 0:
            raise BadInput(f"no frame in [{start}, {stop}): {landmarks} has {len(file.joints)}")
        times = np.arange(start, start + len(joints)) / file.fps
        valid = file.valid[start:stop]
        hand = hand_from_landmarks(joints, times, file.side, base_pose=base_pose, valid=valid)
        return ClipEstimate(hand, file.fps, None)

    size = _working_size(info.height, info.width)
    frames, fps = read_clip(video, size=size, start=start, stop=stop)
    found = detect_landmarks(frames, models_dir)
    valid = found.confidence > 0
    joints = found.joints.copy()
    if focal is not None and valid.any():
        joints[valid] += locate_wrist(found, focal, size[1] / size[0])[valid, None]
    hand = hand_from_landmarks(
        joints,
        np.arange(start, start + len(frames)) / fps,
        side,
        base_pose=FACING_CAMERA if base_pose is None else base_pose,
        valid=valid,
    )
    return ClipEstimate(hand, fps, found.image)


def locate_wrist(found: DetectedLandmarks, focal: float, aspect: float) -> Float[np.ndarray, "time 3"]:
    """Where the wrist must be for an average hand's landmarks to be seen where they were seen.

    With joints (X_k, Y_k, Z_k) about the wrist w and normalised image points (u_k, v_k), each landmark gives
    two equations that are linear in w,  w_x - u_k w_z = u_k Z_k - X_k  and  w_y - v_k w_z = v_k Z_k - Y_k;
    least squares over all 21.

    Args:
        found: landmarks; frames without a hand give NaN.
        focal: focal length over the image's width; 0.9 is a usual webcam.
        aspect: width over height.

    Returns:
        The wrist in the camera's frame [m of an average hand].
    """
    if not focal > 0:
        raise BadInput(f"focal = {focal}: expected the focal length over the image's width, e.g. 0.9")
    image = (found.image - 0.5) / focal * [1.0, 1.0 / aspect]
    n = len(image)
    A = np.zeros((n, 42, 3))
    A[:, :21, 0] = A[:, 21:, 1] = 1.0
    A[:, :21, 2], A[:, 21:, 2] = -image[..., 0], -image[..., 1]
    depth = found.joints[..., 2:]
    b = (image * depth - found.joints[..., :2]).transpose(0, 2, 1).reshape(n, 42)
    wrist = np.full((n, 3), np.nan)
    seen = np.isfinite(b).all(axis=1)
    wrist[seen] = (np.linalg.pinv(A[seen]) @ b[seen, :, None])[..., 0]
    return wrist


def _working_size(height: int, width: int) -> tuple[int, int]:
    """Rows, at most 360, and a width that decord can scale to."""
    rows = min(height, _ROWS)
    return rows, max(round(width * rows / height / 32) * 32, 32)
