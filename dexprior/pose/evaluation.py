"""How well hand and object are read from a clip, against what is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.data.stacks import Stack
from dexprior.geometry.transforms import project
from dexprior.pose.estimator import WITHIN, PoseEstimator, estimate
from dexprior.stats import bootstrap_mean
from dexprior.types import HandTrajectory, ObjectTrajectory, VideoSample

__all__ = ["Pair", "claim_of", "consistency", "motion_sigma", "read_stack", "reading_errors"]

Pair = tuple[HandTrajectory, ObjectTrajectory]


def reading_errors(read: Sequence[Pair], true: Sequence[Pair]) -> dict[str, Any]:
    """Errors of hands and objects, clip by clip over the same frames.

    Returns:
        `joint_error_mm`, `wrist_error_mm`, `object_error_mm` (mean distance of its points) and `pinch_error_mm` (of the
        point between thumb and opposing fingertips, while both sides touch): means over clips with intervals, the last
        one None where nothing is held; `contact_f1` over fingers and frames; `onset_p95_ms`: 95th percentile of how
        far the first touch of a finger is off, over fingers that touch in both; `force_error`: mean error of a touching
        finger's force over its mean; `within_sigma`: share of the joints' errors within one claimed standard deviation,
        along x, y and z of the base.
    """
    rows: dict[str, list[float]] = {name: [] for name in ("joint", "wrist", "object", "pinch")}
    within: list[Float[np.ndarray, " 3"]] = []
    onsets: list[float] = []
    counts = np.zeros(3)
    forces = np.zeros(2)
    for (hand, thing), (own, its) in zip(read, true):
        off = hand.joints - own.joints
        rows["joint"].append(float(np.linalg.norm(off, axis=-1).mean()))
        rows["wrist"].append(float(np.linalg.norm(off[:, 0], axis=-1).mean()))
        rows["object"].append(float(np.linalg.norm(thing.points - its.points, axis=-1).mean()))
        within.append((np.abs(off) < hand.spread).mean(axis=(0, 1)))
        found, touching = hand.contact > 0.5, own.contact > 0.5
        counts += [(found & touching).sum(), (found & ~touching).sum(), (~found & touching).sum()]
        forces += [np.abs(hand.force - own.force)[touching].sum(), own.force[touching].sum()]
        both = found.any(axis=0) & touching.any(axis=0)
        onsets += list(np.abs(own.t[found.argmax(axis=0)] - own.t[touching.argmax(axis=0)])[both])
        held = touching[:, 0] & touching[:, 1:].any(axis=1)
        if held.any():
            rows["pinch"].append(float(np.linalg.norm(_pinch(off, own.contact)[held], axis=-1).mean()))
    return {
        **{f"{name}_error_mm": _mean_mm(row) for name, row in rows.items()},
        "contact_f1": float(2 * counts[0] / max(2 * counts[0] + counts[1] + counts[2], 1)),
        "onset_p95_ms": 1000 * float(np.quantile(onsets, 0.95)) if onsets else None,
        "force_error": float(forces[0] / forces[1]) if forces[1] else None,
        "within_sigma": np.mean(within, axis=0).tolist(),
    }


def consistency(sample: VideoSample, read: Pair) -> dict[str, float]:
    """How well the pixels of a sample agree with its own motion, and with themselves; whatever was meant, none of it
    needs to be known.

    Returns:
        `hand_mm`, `object_mm`: mean distance of joints and of the object's points, read from the pixels, from the
        sample's own; `reprojection_px`: that of the joints in the picture; `drift`: mean standard deviation over time,
        in [0, 255], of the colours of pixels that neither hand nor object comes near.
    """
    hand, thing = read
    own, camera = sample.of_side(hand.side), sample.camera
    seen, meant, matter = (
        project(camera.K, camera.T_base_cam, points) for points in (hand.joints, own.joints, sample.object.points)
    )
    height, width = sample.frames.shape[1:3]
    rows, columns = np.mgrid[:height, :width] + 0.5
    moving = np.concatenate([meant, matter], axis=1).reshape(-1, 2)
    near = np.zeros((height, width), dtype=bool)
    for x, y in moving:
        near |= np.hypot(columns - x, rows - y) < _REACH * width
    still = sample.frames[:, ~near].astype(np.float64)
    return {
        "hand_mm": 1000 * float(np.linalg.norm(hand.joints - own.joints, axis=-1).mean()),
        "object_mm": 1000 * float(np.linalg.norm(thing.points - sample.object.points, axis=-1).mean()),
        "reprojection_px": float(np.nanmean(np.linalg.norm(seen - meant, axis=-1))),
        "drift": float(still.std(axis=0).mean()) if still.size else 0.0,
    }


def claim_of(read: Sequence[Pair], true: Sequence[Pair]) -> Float[np.ndarray, " 3"]:
    """What claimed standard deviations are to be multiplied by, so that `WITHIN` of the joints' errors lie within one:
    along the level, twice, and up and down."""
    off = np.concatenate([np.abs(hand.joints - own.joints) / hand.spread for (hand, _), (own, _) in zip(read, true)])
    level, up = np.quantile(off[..., :2], WITHIN), np.quantile(off[..., 2], WITHIN)
    return np.array([level, level, up])


def motion_sigma(
    samples: Sequence[Pair], own: Sequence[Pair], demonstrations: Sequence[Pair], true: Sequence[Pair]
) -> float:
    """Standard deviation of a coordinate of a prior's motion stream [m]: by how much more samples are misread, held
    against it, than demonstrations, whose truth is known; at least a millimetre, as nothing finer shows.

    Args:
        samples, own: what is read from samples, and their own motion.
        demonstrations, true: what is read from clips on which nothing was trained, and what they show.
    """

    def variance(read: Sequence[Pair], meant: Sequence[Pair]) -> float:
        return float(np.mean([np.square(hand.joints - its.joints).mean() for (hand, _), (its, _) in zip(read, meant)]))

    return float(np.sqrt(max(variance(samples, own) - variance(demonstrations, true), 1e-6)))


def read_stack(model: PoseEstimator, stack: Stack) -> list[Pair]:
    """What an estimator reads from each clip."""
    return [
        estimate(model, stack.seen(k), condition.camera, stack.fps, condition, stack.views_of(k))
        for k, condition in enumerate(stack.conditions)
    ]


_REACH = 0.15  # of the picture's width, within which a moving point may change a pixel


def _pinch(joints: Float[np.ndarray, "time 21 3"], contact: Float[np.ndarray, "time 5"]) -> Float[np.ndarray, "time 3"]:
    """Between the thumb's tip and the mean of the other tips that touch."""
    weight = np.maximum(contact[:, 1:], 1e-6)[..., None]
    return 0.5 * (joints[:, 4] + (joints[:, 8::4] * weight).sum(axis=1) / weight.sum(axis=1))


def _mean_mm(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    mean, low, high = bootstrap_mean(1000 * np.array(values))
    return {"mean": mean, "low": low, "high": high}
