"""Which way of doing a task a motion shows, read by a classifier that was fitted to demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dexprior.data.stacks import Stack
from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat, rot6d_from_matrix
from dexprior.types import VideoSample

__all__ = ["WayReader", "way_of"]

_MOMENTS = 20  # of the longest clip at which motions are looked at
_KINDS = (3, 6, 45, 5, 3)  # numbers of a moment: wrist's place and rotation, fingers, contact, the object's way
_RIDGE = 0.1  # of the features' number, under the least squares


def way_of(stack: Stack, k: int) -> str:
    """Name of the way in which a clip was demonstrated: task and strategy; empty where nobody noted it."""
    info = stack.info[k]
    return f"{info['task']}/{info['strategy']}" if info.get("task") and info.get("strategy") else ""


@dataclass(frozen=True)
class WayReader:
    """Ridge regression of the ways' indicators on where the hand is seen from the object, and on the object's way.

    It looks at the same moments of all motions, at each of which one that has ended is still where it ended. So it is
    told how fast a motion is, and nothing of how long its clip is.
    """

    ways: tuple[str, ...]
    """What it tells apart, in order."""
    moments: Float[np.ndarray, " moment"]
    """When it looks [s]."""
    mean: Float[np.ndarray, " feature"]
    spread: Float[np.ndarray, " feature"]
    weights: Float[np.ndarray, "feature way"]
    offset: Float[np.ndarray, " way"]

    @classmethod
    def fit(cls, stack: Stack) -> WayReader:
        """Fit to demonstrations with one hand.

        Raises:
            BadInput: they show fewer than two ways.
        """
        names = [way_of(stack, k) for k in range(len(stack))]
        ways = tuple(sorted({name for name in names if name}))
        if len(ways) < 2:
            raise BadInput(f"demonstrations of {len(ways)} ways of doing something: there is nothing to tell apart")
        kept = [k for k, name in enumerate(names) if name]
        moments = np.linspace(0.0, (stack.length.max() - 1) / stack.fps, _MOMENTS)
        rows = np.stack([_features(*_recorded(stack, k), stack.fps, moments) for k in kept])
        wanted = np.array([[way == names[k] for way in ways] for k in kept], dtype=np.float64)
        mean, spread = rows.mean(axis=0), _spread(rows)
        z, offset = (rows - mean) / spread, wanted.mean(axis=0)
        inner = z @ z.T + _RIDGE * z.shape[1] * np.eye(len(z))
        return cls(ways, moments, mean, spread, z.T @ np.linalg.solve(inner, wanted - offset), offset)

    def of_clips(self, stack: Stack) -> list[str]:
        """The way that each clip shows."""
        return [self._read(_features(*_recorded(stack, k), stack.fps, self.moments)) for k in range(len(stack))]

    def of_samples(self, samples: Sequence[VideoSample]) -> list[str]:
        """The way that each sample's first hand shows."""
        found = []
        for sample in samples:
            hand, points = sample.hands[0], sample.object.points
            motion = (hand.wrist_pose, hand.finger_pose, hand.contact, points)
            found.append(self._read(_features(*motion, sample.fps, self.moments)))
        return found

    def _read(self, features: Float[np.ndarray, " feature"]) -> str:
        z = (features - self.mean) / self.spread
        return self.ways[int((z @ self.weights + self.offset).argmax())]


def _spread(rows: Float[np.ndarray, "clip feature"]) -> Float[np.ndarray, " feature"]:
    """One for all numbers of a kind: what hardly differs among demonstrations would else be heard loudest."""
    variance = rows.var(axis=0)
    ends = np.cumsum([_MOMENTS * size for size in _KINDS])
    return np.concatenate([np.full(len(v), np.sqrt(v.mean()) + 1e-6) for v in np.split(variance, ends[:-1])])


def _recorded(stack: Stack, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A clip's first hand: wrist, fingers and contact, and the object's points."""
    n, h = stack.length[k], int(stack.shows[k].argmax())
    return stack.wrist_pose[k, :n, h], stack.finger_pose[k, :n, h], stack.contact[k, :n, h], stack.points[k, :n]


def _features(
    wrist_pose: Float[np.ndarray, "time 7"],
    finger_pose: Float[np.ndarray, "time 45"],
    contact: Float[np.ndarray, "time 5"],
    points: Float[np.ndarray, "time track 3"],
    fps: float,
    moments: Float[np.ndarray, " moment"],
) -> Float[np.ndarray, " feature"]:
    """Wrist and fingers, contact, and how far the object is from its start, at each moment."""
    at = np.minimum((moments * fps).round().astype(int), len(wrist_pose) - 1)
    centre = points.mean(axis=1)
    turned = rot6d_from_matrix(matrix_from_quat(wrist_pose[:, 3:]))
    parts = (wrist_pose[:, :3] - centre[0], turned, finger_pose, contact > 0.5, centre - centre[0])
    return np.concatenate([part[at].ravel() for part in parts])
