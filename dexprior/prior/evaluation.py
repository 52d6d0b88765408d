"""What a sample must get right: the goal, the laws of contact, and when contact starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from dexprior.data.stacks import Stack
from dexprior.stats import bootstrap_mean
from dexprior.types import VideoSample
from dexprior.worlds.insertion import InsertionConfig

__all__ = ["contact_law_violations", "evaluate_samples", "rank_samples"]

_MOVES = 0.08  # [m/s] an object faster than this moves
_NEAR = 0.015  # [m] from fingertip centre line to the surface, beyond the finger's own radius


def contact_law_violations(sample: VideoSample, world: InsertionConfig) -> dict[str, float]:
    """Shares of frames that break a law of contact.

    `moves_alone`: the object moves although no fingertip is near it. `touches_air`: a finger is said to touch although
    its tip is not near the object.
    """
    tips = sample.hand.joints[:, 4::4]
    offset = tips - sample.object.pose[:, None, :3]
    radial = np.linalg.norm(offset[..., :2], axis=-1) - world.outer_radius
    vertical = np.abs(offset[..., 2]) - world.height / 2
    gap = np.maximum(np.maximum(radial, vertical), 0.0) - 0.008
    near = gap < _NEAR
    speed = np.linalg.norm(np.gradient(sample.object.pose[:, :3], sample.object.t, axis=0), axis=1)
    alone = (speed > _MOVES) & ~near.any(axis=1)
    touching = sample.hand.contact > 0.5
    air = (touching & ~near).any(axis=1)
    return {"moves_alone": float(alone.mean()), "touches_air": float(air.mean())}


def evaluate_samples(samples: list[VideoSample], truth: Stack, world: InsertionConfig) -> dict[str, Any]:
    """Samples for the conditions of held-out clips, against those clips."""
    goal = _distance([s.object.pose[-1, :3] for s in samples], truth.object_pose[:, -1, :3])
    wrist = _distance([s.hand.wrist_pose[-1, :3] for s in samples], truth.wrist_pose[:, -1, :3])
    start = _distance([s.hand.wrist_pose[0, :3] for s in samples], truth.wrist_pose[:, 0, :3])
    laws = [contact_law_violations(s, world) for s in samples]
    onset = [
        1000.0 * (a - b)
        for a, b in ((_onset(s.hand.contact[:, 0]), _onset(c[:, 0])) for s, c in zip(samples, truth.contact))
        if a is not None and b is not None
    ]
    onset = [o / truth.fps for o in onset]
    pixels = np.mean([np.abs(s.frames.astype(float) - f).mean() for s, f in zip(samples, truth.frames)])
    return {
        "n": len(samples),
        "goal_error_mm": _summary(1000 * goal),
        "target_wrist_error_mm": _summary(1000 * wrist),
        "start_wrist_error_mm": _summary(1000 * start),
        "moves_alone_share": _summary(np.array([v["moves_alone"] for v in laws])),
        "touches_air_share": _summary(np.array([v["touches_air"] for v in laws])),
        "contact_onset_error_ms": _summary(np.abs(np.array(onset))) if onset else None,
        "pixel_error": float(pixels),
    }


def rank_samples(samples: list[VideoSample], world: InsertionConfig) -> list[int]:
    """Indices from the sample that breaks the fewest laws of contact to the one that breaks most."""
    return sorted(range(len(samples)), key=lambda k: sum(contact_law_violations(samples[k], world).values()))


def _distance(a: list[np.ndarray], b: np.ndarray) -> np.ndarray:
    return np.linalg.norm(np.stack(a) - b, axis=1)


def _onset(contact: np.ndarray) -> int | None:
    touching = contact > 0.5
    return int(touching.argmax()) if touching.any() else None


def _summary(values: np.ndarray) -> dict[str, float]:
    mean, low, high = bootstrap_mean(values)
    return {"mean": mean, "low": low, "high": high, "median": float(np.median(values))}
