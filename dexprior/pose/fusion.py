"""Two opinions about one clip: the estimator's, from pixels, and the prior's own motion stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from dexprior.data.objects import followed_object
from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_slerp
from dexprior.hands.skeleton import forward
from dexprior.pose.estimator import PoseEstimator, estimate
from dexprior.types import HandTrajectory, ObjectTrajectory, PriorCondition, VideoSample
from dexprior.types.episode import View

__all__ = ["Source", "fuse_hands", "fuse_objects", "read_sample"]

Source = Literal["motion", "pixels", "fused"]
"""Where the motion of a sample is taken from: the prior's motion stream, what the estimator reads, or both."""


def read_sample(
    sample: VideoSample,
    condition: PriorCondition,
    reader: PoseEstimator | None,
    source: Source,
    views: Sequence[View] = (),
) -> tuple[HandTrajectory, ObjectTrajectory]:
    """Hand and object of a sample, from one source.

    Args:
        sample: of the prior.
        condition: that it was sampled for.
        reader: of the hand of its side; None where the source is the motion of the sample's only hand.
        source: see `Source`.
        views: the same motion as further cameras see it, which the reader sees as well.

    Raises:
        BadInput: the sample shows no hand of the reader's side, or there is no reader and it is needed.
    """
    own = sample.of_side(None if reader is None else reader.config.side)
    if source == "motion":
        return own, sample.object
    if reader is None:
        raise BadInput(f"source {source!r}: a pose estimator reads the pixels; without one there is 'motion' only")
    hand, thing = estimate(reader, sample.frames, sample.camera, sample.fps, condition, views)
    if source == "pixels":
        return hand, thing
    own = replace(own, sigma=np.full_like(own.sigma, float(reader.motion_sigma)))
    return fuse_hands(hand, own), fuse_objects(thing, sample.object, _share(hand, own), condition)


def fuse_hands(a: HandTrajectory, b: HandTrajectory) -> HandTrajectory:
    """Average of two trajectories of one hand over the same frames, weighted by inverse variance.

    Raises:
        BadInput: different lengths, times or sides.
    """
    if len(a) != len(b) or a.side != b.side or not np.allclose(a.t, b.t):
        raise BadInput(f"cannot fuse a {a.side} hand of {len(a)} frames with a {b.side} hand of {len(b)} frames")
    w = _share(a, b)[:, None]
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
        sigma=1.0 / np.sqrt(1.0 / (np.square(a.spread) + _TINY) + 1.0 / (np.square(b.spread) + _TINY)),
        scale_known=a.scale_known and b.scale_known,
    )


def fuse_objects(
    a: ObjectTrajectory, b: ObjectTrajectory, share: np.ndarray, condition: PriorCondition
) -> ObjectTrajectory:
    """Average of two trajectories of one object, of which the second counts for a `share` in each frame.

    Args:
        a, b: over the same frames.
        share: (time,), in [0, 1].
        condition: with the object's points at the start, and its pose unless it deforms.
    """
    w = share[:, None, None]
    return followed_object(a.t, (1 - w) * a.points + w * b.points, condition)


_TINY = 1e-8  # [m^2]


def _share(a: HandTrajectory, b: HandTrajectory) -> np.ndarray:
    """The second's weight in each frame."""
    va, vb = (np.square(h.spread.mean(axis=(1, 2))) + _TINY for h in (a, b))
    return va / (va + vb)
