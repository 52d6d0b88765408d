"""What a sample must get right: the demonstrated motion, the goal, the laws of contact, and when contact starts.

Every number stands beside those of predictors that learn nothing or little, and of the demonstrations themselves: a
number that these reach as well says nothing about the prior.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt8

from dexprior.data.stacks import Stack
from dexprior.geometry.transforms import fit_rigid, invert_pose, transform_points
from dexprior.hands.skeleton import FINGER_RADIUS, forward
from dexprior.prior.conditioning import condition_tensors, straight_path
from dexprior.prior.motion import HANDS, POINTS, decode_motion, encode_motion, known_motion, motion_size
from dexprior.prior.text import embed_text
from dexprior.stats import bootstrap_mean
from dexprior.types import PriorCondition, VideoSample

__all__ = [
    "GAPS",
    "Motion",
    "contact_law_violations",
    "evaluate_prior",
    "evaluate_samples",
    "laws_broken",
    "predicted_motions",
    "rank_samples",
    "spread_of",
    "swapped",
]

GAPS = (0.005, 0.010, 0.015, 0.020, 0.030)
"""Distances from fingertip to surface up to which a fingertip counts as near [m]."""
_NEAR = 0.015  # [m] the one of them that samples are ranked by
_MOVES = 0.08  # [m/s] matter faster than this moves
_DEEP, _AROUND = 0.003, 8  # [m] a joint's middle that is so far under the planes of the nearest points sinks in


@dataclass(frozen=True)
class Motion:
    """What is compared of a clip: of the hands that it shows."""

    wrist: Float[np.ndarray, "time hand 3"]
    joints: Float[np.ndarray, "time hand 21 3"]
    points: Float[np.ndarray, "time track 3"]
    contact: Float[np.ndarray, "time hand 5"]
    fps: float
    frames: UInt8[np.ndarray, "time size size 3"] | None = None

    @classmethod
    def of(cls, clip: VideoSample) -> Motion:
        """The motion of a sample or a demonstration."""
        wrist, joints, contact = (
            np.stack([getattr(hand, name) for hand in clip.hands], axis=1)
            for name in ("wrist_pose", "joints", "contact")
        )
        return cls(wrist[..., :3], joints, clip.object.points, contact, clip.fps, clip.frames)


def contact_law_violations(motion: Motion, condition: PriorCondition, *, near: float = _NEAR) -> dict[str, float]:
    """Shares of frames that break a law of contact.

    `moves_alone`: the object's matter moves although no fingertip is near it. `touches_air`: a finger is said to touch
    although its tip is not near the object. `sinks_in`: a joint of a finger is 3 mm or more under the surface of a
    rigid object; what deforms makes way, so that nothing sinks into it.

    Args:
        motion: of the clip.
        condition: its cloud is the object's surface; it is carried by the points that are followed.
        near: distance from the fingertip's skin to the surface up to which it is near [m].
    """
    moves_alone, touches_air = _violations(motion, condition, np.array([near]))
    return {
        "moves_alone": float(moves_alone[0]),
        "touches_air": float(touches_air[0]),
        "sinks_in": _sinking(motion, condition),
    }


def evaluate_prior(samples: Sequence[VideoSample], truth: Stack, train: Stack) -> dict[str, Any]:
    """Samples for the conditions of held-out clips, beside predictors that need no prior.

    `constant`: the mean of the training clips, whatever is asked for. `copy`: the condition's start and target, joined
    by a straight line. `nearest`: the training clip with the nearest condition. `demonstrations`: the held-out clips.

    Args:
        samples: one for each clip of `truth`, in its order.
        truth: held-out clips.
        train: what the prior was trained on.
    """
    mean = _mean_motion(train)
    nearest = _nearest(train, truth)
    predictors = {
        "prior": [Motion.of(sample) for sample in samples],
        "constant": [_decoded(mean[: truth.length[k]], truth, k) for k in range(len(truth))],
        "copy": _copies(truth),
        "nearest": [_fitted(_recorded(train, j, truth.shows[k]), int(truth.length[k])) for k, j in enumerate(nearest)],
        "demonstrations": [_recorded(truth, k) for k in range(len(truth))],
    }
    return {
        "clips": {"train": len(train), "held_out": len(truth), "left_out": train.left_out},
        **{name: evaluate_samples(motions, truth) for name, motions in predictors.items()},
    }


def evaluate_samples(motions: Sequence[Motion], truth: Stack) -> dict[str, Any]:
    """Motions for the conditions of held-out clips, against those clips, over the frames that are known.

    Of the joints there is the mean distance (MPJPE), and `aligned_joints` after the similarity that fits each frame's
    hand best (PA-MPJPE). `contact_f1` is over frames and fingers of a clip that touches anything.
    """
    errors: dict[str, list[float]] = {
        name: [] for name in ("wrist", "joints", "aligned_joints", "object", "goal", "start_wrist", "target_wrist")
    }
    onset, agree, matched, pixels, laws = [], [], [], [], []
    for k, motion in enumerate(motions):
        real, condition = _recorded(truth, k), truth.conditions[k]
        n = len(real.wrist)
        hand, thing = truth.hand_known[k, :n][:, truth.shows[k]], truth.object_known[k, :n]
        at = min(round(condition.target_at * truth.fps), n - 1)
        wrist = np.linalg.norm(motion.wrist - real.wrist, axis=-1)
        joints = np.linalg.norm(motion.joints - real.joints, axis=-1).mean(axis=-1)
        points = np.linalg.norm(motion.points - real.points, axis=-1).mean(axis=-1)
        ends = motion.points[-1].mean(axis=0) - real.points[-1].mean(axis=0)
        for name, value in (
            ("wrist", wrist[hand]), ("joints", joints[hand]), ("object", points[thing]),
            ("aligned_joints", _aligned_distance(motion.joints[hand], real.joints[hand])),
            ("goal", np.linalg.norm(ends[None], axis=-1)[thing[-1:]]),
            ("start_wrist", wrist[:1][hand[:1]]), ("target_wrist", wrist[at : at + 1][hand[at : at + 1]]),
        ):  # fmt: skip
            if len(value):
                errors[name].append(1000.0 * float(value.mean()))
        if motion.frames is not None and real.frames is not None:
            pixels.append(float(np.abs(motion.frames.astype(np.float32) - real.frames).mean()))
        if truth.touch_known[k]:
            touching, wanted = motion.contact > 0.5, real.contact > 0.5
            agree.append(float((touching == wanted).mean()))
            if touching.any() or wanted.any():
                matched.append(2.0 * float((touching & wanted).sum()) / float(touching.sum() + wanted.sum()))
            first, hoped = (int(t.any(axis=(1, 2)).argmax()) if t.any() else None for t in (touching, wanted))
            if first is not None and hoped is not None:
                onset.append(1000.0 * abs(first - hoped) / truth.fps)
        laws.append(_violations(motion, condition, np.array(GAPS)))
    summary: dict[str, Any] = {f"{name}_error_mm": _summary(values) for name, values in errors.items()}
    alone, air = (np.stack([law[k] for law in laws]).mean(axis=0) for k in range(2))
    return summary | {
        "n": len(motions),
        "contact_onset_error_ms": _summary(onset),
        "contact_agreement": _summary(agree),
        "contact_f1": _summary(matched),
        "sinks_in": _summary([_sinking(motion, truth.conditions[k]) for k, motion in enumerate(motions)]),
        "pixel_error": _summary(pixels),
        "laws": {"gap_mm": [1000 * g for g in GAPS], "moves_alone": _rounded(alone), "touches_air": _rounded(air)},
    }


def spread_of(draws: Sequence[Sequence[Motion]], truth: Stack) -> dict[str, Any]:
    """Several samples of each held-out clip's condition, against the clip.

    `diversity_mm` is the mean distance d between two samples of a condition, over joints and frames; `energy_mm` the
    energy score E d(x, y) - E d(x, x') / 2 of samples x for the clip y (Gneiting and Raftery 2007, "Strictly Proper
    Scoring Rules"), which for a predictor of one motion is its distance; `best_mm` the distance of the best sample.

    Args:
        draws: at least two, each with one motion a clip of `truth`, in its order.
        truth: held-out clips.
    """
    diversity, energy, best = [], [], []
    for k in range(len(truth)):
        known = truth.hand_known[k, : truth.length[k]][:, truth.shows[k]]
        if not known.any():
            continue
        made = np.stack([draw[k].joints[known] for draw in draws])
        real = np.linalg.norm(made - _recorded(truth, k).joints[known], axis=-1).mean(axis=(1, 2))
        apart = np.linalg.norm(made[:, None] - made, axis=-1).mean(axis=(2, 3))
        between = float(apart.sum() / (len(made) * (len(made) - 1)))
        diversity.append(1000.0 * between)
        energy.append(1000.0 * (float(real.mean()) - between / 2))
        best.append(1000.0 * float(real.min()))
    return {
        "draws": len(draws), "diversity_mm": _summary(diversity), "energy_mm": _summary(energy),
        "best_mm": _summary(best),
    }  # fmt: skip


def swapped(conditions: Sequence[PriorCondition], name: str, order: Sequence[int]) -> list[PriorCondition]:
    """Conditions of which one part is another's.

    Args:
        conditions: with hands of the same sides as those that they are swapped with.
        name: `cloud` (all that is known of the object and of what it is brought to), `start`, `target` or `text`.
        order: of each condition the one that the part is taken from.
    """
    return [
        replace(one, **{part: getattr(conditions[k], part) for part in _PARTS[name]})
        for one, k in zip(conditions, order)
    ]


_PARTS: Mapping[str, tuple[str, ...]] = {
    "cloud": ("cloud", "moves", "points", "pose", "goal"), "start": ("start",), "target": ("target",),
    "text": ("text",),
}  # fmt: skip


def laws_broken(sample: VideoSample, condition: PriorCondition) -> float:
    """Shares of a sample's frames that break a law of contact, added up; 0 where none does."""
    return sum(contact_law_violations(Motion.of(sample), condition).values())


def rank_samples(samples: Sequence[VideoSample], conditions: Sequence[PriorCondition]) -> list[int]:
    """Indices from the sample that breaks the fewest laws of contact to the one that breaks most."""
    broken = [laws_broken(sample, condition) for sample, condition in zip(samples, conditions)]
    return sorted(range(len(samples)), key=broken.__getitem__)


# --- laws of contact ---


def _violations(
    motion: Motion, condition: PriorCondition, gaps: Float[np.ndarray, " gap"]
) -> tuple[Float[np.ndarray, " gap"], Float[np.ndarray, " gap"]]:
    time = len(motion.joints)
    away = _away(motion.joints[:, :, 4::4].reshape(time, -1, 3), motion.points, condition) - FINGER_RADIUS
    near = away[..., None] < gaps
    speed = np.linalg.norm(np.gradient(motion.points, 1.0 / motion.fps, axis=0), axis=-1).mean(axis=1)
    alone = (speed > _MOVES)[:, None] & ~near.any(axis=1)
    air = ((motion.contact > 0.5).reshape(time, -1, 1) & ~near).any(axis=1)
    return alone.mean(axis=0), air.mean(axis=0)


def _sinking(motion: Motion, condition: PriorCondition) -> float:
    """Share of frames in which a joint of a finger is deep inside what does not deform; 0 for what does."""
    if condition.pose is None:
        return 0.0
    cloud, moved = condition.cloud[condition.moves], fit_rigid(condition.points, motion.points)
    fingers = motion.joints[:, :, 1:].reshape(len(motion.joints), -1, 3)
    offset = transform_points(invert_pose(moved), fingers)[:, :, None] - cloud[:, :3]
    nearest = (offset**2).sum(axis=-1).argsort(axis=-1)[..., :_AROUND]  # beside an edge, one alone may face elsewhere
    above = np.take_along_axis(np.einsum("tjpi,pi->tjp", offset, cloud[:, 3:]), nearest, axis=-1)
    return float((above.max(axis=-1) < -_DEEP).any(axis=1).mean())


def _away(
    tips: Float[np.ndarray, "time finger 3"], points: Float[np.ndarray, "time track 3"], condition: PriorCondition
) -> Float[np.ndarray, "time finger"]:
    """Distance of fingertips to the object's surface [m]; each point of the cloud stands for a disc around it."""
    cloud = condition.cloud[condition.moves]
    surface, normal = cloud[:, :3], cloud[:, 3:]
    apart = np.linalg.norm(surface[:, None] - surface, axis=-1) + np.where(np.eye(len(surface)), np.inf, 0.0)
    radius = 0.7 * float(np.median(apart.min(axis=1))) if len(surface) > 1 else 0.0
    if condition.pose is not None:
        moved = fit_rigid(condition.points, points)
        turned = transform_points(np.concatenate([np.zeros_like(moved[:, :3]), moved[:, 3:]], axis=1), normal)
        at = transform_points(moved, surface)
    else:
        nearest = np.linalg.norm(surface[:, None] - condition.points, axis=-1).argmin(axis=1)
        at = surface + points[:, nearest] - condition.points[nearest]
        turned = np.broadcast_to(normal, at.shape)
    offset = tips[:, :, None] - at[:, None]
    above = np.einsum("tfpi,tpi->tfp", offset, turned)
    aside = np.sqrt(np.maximum((offset**2).sum(axis=-1) - above**2, 0.0))
    # a sheet is met from both sides, a body's surface only from outside
    above = np.abs(above) if condition.pose is None else np.maximum(above, 0.0)
    return np.hypot(above, np.maximum(aside - radius, 0.0)).min(axis=-1)


# --- predictors that learn little ---


def _recorded(stack: Stack, k: int, shown: Bool[np.ndarray, " hand"] | None = None) -> Motion:
    """The hands that a clip shows, or others."""
    n, shown = stack.length[k], stack.shows[k] if shown is None else shown
    wrist, joints, contact = (
        array[k, :n][:, shown] for array in (stack.wrist_pose, stack.joints, stack.contact)
    )  # fmt: skip
    return Motion(wrist[..., :3], joints, stack.points[k, :n], contact, stack.fps, stack.seen(k))


def _decoded(motion: Float[np.ndarray, "time motion"], truth: Stack, k: int) -> Motion:
    """The hands that clip k of the truth shows."""
    shown = [hand for hand in range(len(truth.sides)) if truth.shows[k, hand]]
    parts = [decode_motion(motion, hand) for hand in shown]
    joints = [
        forward(part["wrist_pose"], part["finger_pose"], side=truth.sides[hand]) for part, hand in zip(parts, shown)
    ]
    wrist, contact = (np.stack([part[name] for part in parts], axis=1) for name in ("wrist_pose", "contact"))
    return Motion(wrist[..., :3], np.stack(joints, axis=1), parts[0]["points"], contact, truth.fps)


def predicted_motions(truth: Stack, train: Stack) -> dict[str, Float[np.ndarray, "clip time motion"]]:
    """Motion vectors of the predictors of `evaluate_prior`, by name; as long as the longest clip."""
    time = truth.frames.shape[1]

    def fitted(motion: Float[np.ndarray, "clip time motion"]) -> Float[np.ndarray, "clip time motion"]:
        return motion[:, np.minimum(np.arange(time), motion.shape[1] - 1)]

    constant = np.broadcast_to(_mean_motion(train), (len(truth), *_mean_motion(train).shape))
    return {
        "constant": fitted(constant),
        "copy": _copied(truth),
        "nearest": fitted(encode_motion(train))[_nearest(train, truth)],
    }


def _mean_motion(train: Stack) -> Float[np.ndarray, "time motion"]:
    """Frame by frame; a clip that has ended, or does not know a number, has no say."""
    motion, known = encode_motion(train), known_motion(train)
    overall = (motion * known).sum(axis=(0, 1)) / np.maximum(known.sum(axis=(0, 1)), 1)
    for places in HANDS[: len(train.sides)]:
        if not known[..., places.rotation].any():
            overall[places.rotation] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    count = known.sum(axis=0)
    return np.where(count > 0, (motion * known).sum(axis=0) / np.maximum(count, 1), overall)


def _copied(truth: Stack) -> Float[np.ndarray, "clip time motion"]:
    """The straight path of each condition."""
    time = truth.frames.shape[1]
    asked = condition_tensors(truth.conditions, sides=truth.sides)
    path = straight_path(asked, time, truth.fps).double().numpy()
    motion = np.zeros((*path.shape[:2], motion_size(len(truth.sides))))
    motion[..., : POINTS.stop] = path[..., : POINTS.stop]
    if len(truth.sides) > 1:
        motion[..., HANDS[1].pose] = path[..., POINTS.stop :]
    return motion


def _copies(truth: Stack) -> list[Motion]:
    """The same; the target's fingers touch from half of the way on."""
    motion, copies = _copied(truth), []
    for k, condition in enumerate(truth.conditions):
        made = _decoded(motion[k, : truth.length[k]], truth, k)
        late = np.arange(len(made.wrist)) >= condition.target_at * truth.fps / 2
        touching = np.stack([hand.touching for hand in condition.target])
        copies.append(Motion(made.wrist, made.joints, made.points, late[:, None, None] * touching, made.fps))
    return copies


def _nearest(train: Stack, truth: Stack) -> list[int]:
    """The training clip whose condition is nearest to each held-out one's, in units of the training set's spread.

    Of those that show the same hands; of all where none does.
    """

    def described(stack: Stack) -> tuple[np.ndarray, np.ndarray]:
        rows = [
            np.concatenate(
                [
                    *(np.mean([h.wrist_pose[:3] for h in hands], axis=0) for hands in (c.start, c.target)),
                    c.points.mean(axis=0), [c.target_at / 10, c.seconds / 10],
                ]
            )
            for c in stack.conditions
        ]  # fmt: skip
        return np.array(rows), np.array([embed_text(c.text) for c in stack.conditions])

    (places, texts), (asked, words) = described(train), described(truth)
    scale = max(float(places.std(axis=0).mean()), 1e-6)
    distance = np.linalg.norm((asked[:, None] - places) / scale, axis=-1) + 2.0 * (1.0 - words @ texts.T)
    distance += np.where((truth.shows[:, None] != train.shows).any(axis=-1), 1e6, 0.0)
    return [int(k) for k in distance.argmin(axis=1)]


def _aligned_distance(made: Float[np.ndarray, "n 21 3"], real: Float[np.ndarray, "n 21 3"]) -> Float[np.ndarray, " n"]:
    """Mean distance of joints after the similarity that fits each hand best [m] (Umeyama 1991)."""
    a, b = (joints - joints.mean(axis=1, keepdims=True) for joints in (made, real))
    U, S, Vt = np.linalg.svd(np.einsum("nji,njk->nik", b, a))
    sign = np.ones_like(S)
    sign[:, 2] = np.sign(np.linalg.det(U @ Vt))
    R = (U * sign[:, None]) @ Vt
    scale = (S * sign).sum(axis=1) / np.maximum((a**2).sum(axis=(1, 2)), 1e-12)
    return np.linalg.norm(scale[:, None, None] * np.einsum("nik,njk->nji", R, a) - b, axis=-1).mean(axis=1)


def _fitted(motion: Motion, n: int) -> Motion:
    """Cut to n frames, or its last one repeated."""
    rows = np.minimum(np.arange(n), len(motion.wrist) - 1)
    frames = None if motion.frames is None else motion.frames[rows]
    return Motion(
        motion.wrist[rows], motion.joints[rows], motion.points[rows], motion.contact[rows], motion.fps, frames
    )


def _summary(values: Sequence[float]) -> dict[str, float] | None:
    if not len(values):
        return None
    mean, low, high = bootstrap_mean(np.array(values))
    return {"mean": mean, "low": low, "high": high, "median": float(np.median(values))}


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(v), 4) for v in values]
