"""Streams of a headset's hand joints with pinches whose contact is known, posed from an openly licensed hand rig.

The rig is `webxr_hand/right.glb` of the measured data: 25 joints in the order of the WebXR Hand Input specification. A
stream is one subject at one frame rate: pinches of the thumb with each finger, a near miss, a fist, pointing and
spreading in a random order, with tremor of the joints, noise of the landmarks, a moving wrist and frames that were
lost. The distance of two tips at contact is a subject's own, as where a headset places a tip differs between headsets.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from dexprior.geometry.rotations import matrix_from_axis_angle, matrix_from_quat
from dexprior.geometry.timing import hysteresis, minimum_jerk
from dexprior.pose.landmarks import hand_from_landmarks
from dexprior.types import FINGERS, HandTrajectory

__all__ = ["SCORING", "TUNING", "Stream", "make_stream"]

TUNING, SCORING = range(100, 106), range(200, 205)
"""Seeds: no setting was chosen by looking at streams of the second."""
_KEPT = [0, *range(1, 5), *(5 * f + k for f in range(1, 5) for k in range(1, 5))]  # the 21 of 25 that a hand has here
_ANGLES = 4  # of a finger: flexion and spreading of its first joint, flexion of the two others


@dataclass(frozen=True)
class Stream:
    """What a headset would have sent, and what the fingers did."""

    hand: HandTrajectory
    headset: np.ndarray
    """All joints (time, 25, 3) in the room, y up [m]; lost frames are NaN."""
    rate: float
    """Frames a second."""
    touch: np.ndarray
    """Distance of each finger's tip from the thumb's at contact [m]; zero for the thumb."""
    held: np.ndarray
    """(time, finger): whether a pinch of that finger is closed."""


def _rig(path: Path) -> tuple[np.ndarray, np.ndarray]:
    raw = path.read_bytes()
    (size,) = struct.unpack("<I", raw[12:16])
    nodes = json.loads(raw[20 : 20 + size])["nodes"][:25]
    turns = np.array([node["rotation"] for node in nodes])[:, [3, 0, 1, 2]]
    return np.array([node["translation"] for node in nodes]), matrix_from_quat(turns)


class _Hand:
    """Forward kinematics of the rig: a finger bends about the x axes of its joints and spreads about a y axis."""

    def __init__(self) -> None:
        self.rest, self.axes = _rig(Path(os.environ["DEXPRIOR_DATA"]) / "webxr_hand" / "right.glb")
        first = [1, *(5 * f + 1 for f in range(1, 5))]
        self.chains = [[k, k + 1, k + 2, k + 3] for k in first]

    def pose(self, angles: np.ndarray) -> np.ndarray:
        """Joints (..., 25, 3) of angles (..., 5 fingers, 4); the thumb's turn its first joint about x, y and z, and
        bend the second; the last one bends with it."""
        joints = np.broadcast_to(self.rest, (*angles.shape[:-2], 25, 3)).copy()
        for f, chain in enumerate(self.chains):
            a, total = angles[..., f, :], np.eye(3)
            for k, joint in enumerate(chain[:3]):
                turn = np.zeros((*a.shape[:-1], 3))
                turn[..., 0] = -a[..., (0, 3, 3)[k] if f == 0 else (0, 2, 3)[k]]
                if k == 0:
                    turn[..., 1:] = a[..., 1:3] if f == 0 else a[..., 1:2] * [1.0, 0.0]
                R = self.axes[joint]
                total = total @ (R @ matrix_from_axis_angle(turn) @ R.T)
                bone = self.rest[chain[k + 1]] - self.rest[joint]
                joints[..., chain[k + 1], :] = joints[..., joint, :] + total @ bone
        return joints

    def pinch(self, finger: int, distance: float) -> np.ndarray:
        """Angles at which a finger's tip is so far from the thumb's, the other fingers half bent."""
        start = np.zeros((5, _ANGLES))
        start[1:, 0], start[1:, 2], start[1:, 3] = 0.35, 0.4, 0.25
        chain = self.chains[finger]

        def residual(x: np.ndarray) -> np.ndarray:
            angles = start.copy()
            angles[0], angles[finger] = x[:4], x[4:]
            joints = self.pose(angles)
            apart = joints[chain[3]] - joints[4]
            # ends of the two fingers meet at an angle, as pads do, instead of passing each other
            bones = [joints[c[3]] - joints[c[2]] for c in (self.chains[0], chain)]
            a, b = (bone / np.linalg.norm(bone) for bone in bones)
            facing = a @ b - 0.3
            along = [apart @ a, apart @ b]
            easy = 0.004 * (x - np.array([0.3, 0.0, 0.0, 0.3, 0.8, 0.0, 0.8, 0.4]))
            return np.array([20 * (np.linalg.norm(apart) - distance), 0.01 * facing, *(0.3 * np.array(along)), *easy])

        low = np.array([-0.8, -0.9, -0.9, -0.3, -0.2, -0.25, 0.0, 0.0])
        high = np.array([1.0, 0.9, 0.9, 1.2, 1.5, 0.25, 1.7, 1.2])
        guess = np.array([0.4, 0.1, 0.1, 0.4, 0.9, 0.0, 0.8, 0.4])
        found = least_squares(residual, guess, bounds=(low, high), max_nfev=60)
        angles = start.copy()
        angles[0], angles[finger] = found.x[:4], found.x[4:]
        return angles


def _open(rng: np.random.Generator) -> np.ndarray:
    angles = np.zeros((5, _ANGLES))
    angles[1:, 0] = rng.uniform(0.05, 0.25, 4)
    angles[1:, 1] = rng.uniform(-0.05, 0.05, 4)
    angles[1:, 2] = rng.uniform(0.05, 0.3, 4)
    angles[1:, 3] = 0.6 * angles[1:, 2]
    angles[0] = rng.uniform([-0.1, -0.1, -0.1, 0.0], [0.15, 0.1, 0.1, 0.2])
    return angles


def make_stream(seed: int) -> Stream:
    """One subject's stream."""
    rng, rig = np.random.default_rng(seed), _Hand()
    rate = float((30, 72, 90)[seed % 3])
    scale = rng.uniform(0.85, 1.15)
    contact = rng.uniform(0.007, 0.014) + rng.uniform(-0.001, 0.001, 5)
    contact[0] = 0.0
    press = 0.001
    plan: list[tuple[str, int]] = [("pinch", f) for f in (1, 1, 1, 2, 2, 3, 4)]
    plan += [("near", 1), ("near", 2), ("fist", 0), ("point", 0), ("spread", 0)]
    plan = [plan[k] for k in rng.permutation(len(plan))]
    keys, spans, holds = [_open(rng)], [0.3], []
    for kind, finger in plan:
        if kind == "pinch":
            goal = rig.pinch(finger, (contact[finger] - press) / scale)
        elif kind == "near":
            goal = rig.pinch(finger, (contact[finger] + rng.uniform(0.018, 0.03)) / scale)
        else:
            goal = _open(rng)
            bent = {"fist": (1, 2, 3, 4), "point": (2, 3, 4), "spread": ()}[kind]
            goal[list(bent)] = [1.3, 0.0, 1.5, 0.8]
            goal[1:, 1] += {"spread": 1.0, "fist": 0.0, "point": 0.0}[kind] * np.array([-0.2, -0.05, 0.1, 0.2])
            goal[0] += {"fist": np.array([0.5, 0.2, 0.0, 0.6]), "spread": np.array([-0.2, 0, 0, -0.1])}.get(kind, 0.0)
        keys += [goal, goal, _open(rng)]
        spans += [rng.uniform(0.25, 0.6), rng.uniform(0.3, 0.7), rng.uniform(0.25, 0.5)]
        holds.append((kind, finger))
    ends = np.cumsum(spans)
    t = np.arange(0.0, ends[-1], 1 / rate)
    angles = np.empty((len(t), 5, _ANGLES))
    for k, at in enumerate(t):
        step = int(np.searchsorted(ends, at, side="right"))
        begin = 0.0 if step == 0 else ends[step - 1]
        a, b = keys[max(step - 1, 0)], keys[step]
        angles[k] = a + (b - a) * minimum_jerk(np.clip((at - begin) / spans[step], 0, 1))
    tremor = rng.uniform(0.002, 0.006) * np.sin(
        2 * np.pi * rng.uniform(7, 12, (1, 5, _ANGLES)) * t[:, None, None] + rng.uniform(0, 6.3, (1, 5, _ANGLES))
    )
    local = scale * rig.pose(angles + tremor)
    tips = local[:, [chain[3] for chain in rig.chains]]
    gap = np.linalg.norm(tips - tips[:, :1], axis=-1)
    held = hysteresis(contact - gap, -0.0015, -0.005)
    held[:, 0] = False
    slow = 2 * np.pi * rng.uniform(0.1, 0.4, (2, 3))
    turn = 0.6 * np.sin(slow[0] * t[:, None] + rng.uniform(0, 6.3, 3))
    place = np.array([0.2, 1.2, -0.3]) + 0.1 * np.sin(slow[1] * t[:, None] + rng.uniform(0, 6.3, 3))
    R = matrix_from_axis_angle(turn)
    noise = rng.normal(scale=rng.uniform(0.0001, 0.0004), size=local.shape)
    room = np.einsum("tij,tkj->tki", R, local + noise) + place[:, None]
    lost = rng.random(len(t)) < 0.01
    lost[1:] |= lost[:-1] & (rng.random(len(t) - 1) < 0.5)
    lost[0] = False
    room[lost] = np.nan
    hand = hand_from_landmarks(room[:, _KEPT], t, "right", scale_known=True, valid=~lost)
    return Stream(hand, room, rate, np.where(np.arange(5) == 0, 0.0, contact), held)


if __name__ == "__main__":
    for seed in (*TUNING, *SCORING):
        stream = make_stream(seed)
        tips = stream.hand.joints[:, 4::4]
        gap = 1000 * np.linalg.norm(tips - tips[:, :1], axis=-1)
        closed = [
            f"{f} {int(np.diff(stream.held[:, k].astype(int), prepend=0).clip(0).sum())}" for k, f in enumerate(FINGERS)
        ]
        print(seed, len(stream.hand), stream.rate, (1000 * stream.touch).round(1), gap.min(axis=0).round(1), closed)
