"""Retargeting of hands: ours, a clip at once and frame by frame, beside dex-retargeting 0.5.0, on the same streams.

    python benchmarks/retarget.py [PEER_PYTHON]

PEER_PYTHON is an interpreter with `dex-retargeting==0.5.0`, torch and six; without it only ours is measured. Prints
JSON lines. Streams are those of `headset.py`; the peer's scales are chosen on its tuning streams, and everything that
is printed is of its scoring streams, but for the two real clips of $DEXPRIOR_DATA at the end, where contact is not
known. The peer gets the same joints in the same wrist frame and the same robots, written as URDF from the catalog's
models, with its own settings as shipped (scale 1.2 for Shadow, 1.6 for LEAP, filter .2), and mended: no filter, the
best of four scales by the vector form's error of held pinches, and for DexPilot a pinch that ends where tips touch.

What is measured, all in the wrist frame:
    held_mm       in frames in which a pinch is held: the size of (robot's tips apart - their radii) - (human's tips
                  apart - her distance at contact, or 0 if that is negative): the gap between surfaces, human to robot
    distance_mm   in the same frames: the distance of the robot's two tips less that of the human's landmarks
    overlap_mm    in the same frames: how far tips sink into each other; `overlap95_mm` its 95th percentile
    direction_deg angle between the directions from wrist to tip, human and robot: mean over all fingers and frames
    onset         F1 of closings matched within one frame. The human closes when her tips are within 3 mm of contact,
                  and again after 8 mm; the robot when its surfaces are (`onset`), or, which says when it closes
                  whatever it closes to, when they are within 3 mm of its own median while a pinch is held
                  (`onset_own`). Closings shorter than .1 s do not count, on either side
    ms, ms99      processor time a frame: median and 99th percentile; of a whole clip, the mean
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from headset import SCORING, TUNING, Stream, make_stream

from dexprior.data.dexmv import read_dexmv
from dexprior.geometry.rotations import matrix_from_quat
from dexprior.geometry.timing import hysteresis
from dexprior.pose.landmark_streams import read_landmarks
from dexprior.pose.landmarks import hand_from_landmarks
from dexprior.retarget.hand_kinematic import HandRetargeter, retarget_hand
from dexprior.robots import catalog
from dexprior.robots.hand_kinematics import HandKinematics
from dexprior.robots.machines import EndEffector
from dexprior.types import FINGERS, HandTrajectory

ROBOTS = ("shadow", "leap", "allegro")
SHIPPED = {"shadow": 1.2, "leap": 1.6}
SCALES = (0.9, 1.0, 1.2, 1.4)
KINDS = ("vector", "dexpilot")
_BESIDE = (201, 202, 204)  # scoring streams that the peer gets as well: it takes long
_ON, _OFF, _SHORTEST = 0.003, 0.008, 0.1  # [m], [m], [s]

Followed = tuple[np.ndarray, np.ndarray]  # tips (time, finger, 3) in the wrist frame, processor seconds a frame


def main(peer: str | None) -> None:
    """Measure and print."""
    scoring = {seed: make_stream(seed) for seed in SCORING}
    note: dict[str, Any] = {"date": datetime.date.today().isoformat(), "seeds": list(SCORING), "beside": list(_BESIDE)}
    note |= {"frames": sum(len(s.hand) for s in scoring.values())}
    note |= {package: version(package) for package in ("numpy", "mujoco")}
    print(json.dumps(note), flush=True)
    if peer is not None:
        _beside(peer, {seed: scoring[seed] for seed in _BESIDE})
    for name in ROBOTS:
        robot = catalog.end_effector(name)
        _print(robot, "ours, a clip", scoring, {k: _clip(s.hand, robot) for k, s in scoring.items()})
        _print(robot, "ours, frame by frame", scoring, {k: _frames(s.hand, robot) for k, s in scoring.items()})
    for what, hand in _real().items():
        for name in ROBOTS:
            robot = catalog.end_effector(name)
            for method, follow in (("ours, a clip", _clip), ("ours, frame by frame", _frames)):
                tips, spent = follow(hand, robot)
                row = {"clip": what, "robot": name, "method": method, "frames": len(hand)}
                row |= {"direction_deg": float(np.degrees(_astray(hand, robot, tips).mean()))}
                print(json.dumps(row | _times(spent)), flush=True)


def _beside(peer: str, streams: Mapping[int, Stream]) -> None:
    """Ours and theirs on the same streams."""
    tuning = {seed: _thinned(make_stream(seed)) for seed in TUNING}
    for name, scale in SHIPPED.items():
        robot = catalog.end_effector(name)
        for method, follow in (("ours, a clip", _clip), ("ours, frame by frame", _frames)):
            _print(robot, method, streams, {k: follow(s.hand, robot) for k, s in streams.items()})
        theirs = Peer(peer, robot)
        runs = {f"{kind} as shipped": (kind, scale, False, streams) for kind in KINDS}
        runs |= {f"at {other}": ("vector", other, True, tuning) for other in SCALES}
        found = theirs.follow(runs)
        best = min(SCALES, key=lambda other: _measured(robot, tuning, found[f"at {other}"])["held_mm"])
        mended = {f"{kind} mended, scale {best}": (kind, best, True, streams) for kind in KINDS}
        found |= theirs.follow(mended)
        for method in (*(f"{kind} as shipped" for kind in KINDS), *mended):
            _print(robot, method, streams, found[method])


def _thinned(stream: Stream) -> Stream:
    """The first 300 frames at about 30 Hz, which is what the choice of a scale needs."""
    every = slice(0, 300 * round(stream.rate / 30), round(stream.rate / 30))
    per_frame = ("t", "wrist_pose", "finger_pose", "joints", "contact", "force", "valid", "sigma")
    hand = replace(stream.hand, **{name: getattr(stream.hand, name)[every] for name in per_frame})
    return replace(stream, hand=hand, headset=stream.headset[every], held=stream.held[every], rate=30.0)


def _real() -> dict[str, HandTrajectory]:
    data = Path(os.environ["DEXPRIOR_DATA"])
    file = read_landmarks(data / "hand_clip" / "human_joint_right.npz")
    webcam = hand_from_landmarks(file.joints, np.arange(len(file.joints)) / file.fps, file.side)
    return {"hand_clip": webcam, "dexmv_mustard": read_dexmv(data / "hand_object" / "dexmv_mustard.npz")[0]}


def _clip(hand: HandTrajectory, robot: EndEffector) -> Followed:
    begin = time.process_time()
    result = retarget_hand(hand, robot)
    spent = (time.process_time() - begin) / len(hand)
    kinematics = HandKinematics.of(robot)
    return kinematics.forward(result.trajectory.q)[0][:, list(kinematics.tips)], np.full(len(hand), spent)


def _frames(hand: HandTrajectory, robot: EndEffector) -> Followed:
    follower, kinematics = HandRetargeter(robot), HandKinematics.of(robot)
    q, spent = np.empty((len(hand), len(robot.joints))), np.empty(len(hand))
    for k in range(len(hand)):
        joints = hand.joints[k] if hand.valid[k] else np.full((21, 3), np.nan)
        begin = time.process_time()
        q[k] = follower.step(joints, hand.wrist_pose[k], hand.contact[k])
        spent[k] = time.process_time() - begin
    return kinematics.forward(q)[0][:, list(kinematics.tips)], spent


class Peer:
    """dex-retargeting with a robot of the catalog."""

    def __init__(self, python: str, robot: EndEffector) -> None:
        self._python, self._robot = python, robot

    def follow(
        self, runs: Mapping[str, tuple[str, float, bool, Mapping[int, Stream]]]
    ) -> dict[str, dict[int, Followed]]:
        """Fingertips in the wrist frame of each stream of runs (kind, scale, mended, streams) by name."""
        assert self._robot.fingers is not None
        with tempfile.TemporaryDirectory() as folder:
            urdf, out = Path(folder) / "robot.urdf", Path(folder) / "out.npz"
            urdf.write_text(_urdf(self._robot))
            asked: list[dict[str, Any]] = []
            for name, (kind, scale, mended, streams) in runs.items():
                files = {}
                for seed, stream in streams.items():
                    files[str(seed)] = str(Path(folder) / f"{seed}.npy")
                    np.save(files[str(seed)], _local(stream.hand))
                eta = float(2 * HandKinematics.of(self._robot).tip_radii.mean())
                asked.append(
                    {
                        "name": name, "streams": files, "config": self._config(kind, scale, 1.0 if mended else 0.2),
                        "eta": eta if mended and kind == "dexpilot" else None,
                    }
                )  # fmt: skip
            subprocess.run(
                [self._python, str(Path(__file__).with_name("retarget_peer.py")), str(out)],
                input=json.dumps({"urdf": str(urdf), "fingers": self._robot.fingers.names, "runs": asked}),
                text=True, check=True, env={**os.environ, "PYTHONPATH": ""}, stdout=sys.stderr,
            )  # fmt: skip
            with np.load(out) as found:
                return {
                    name: {seed: (found[f"{name}/{seed}/tips"], found[f"{name}/{seed}/seconds"]) for seed in run[3]}
                    for name, run in runs.items()
                }

    def _config(self, kind: str, scale: float, alpha: float) -> dict[str, Any]:
        assert self._robot.fingers is not None
        names = self._robot.fingers.names
        tips = [f"tip_{finger}" for finger in names]
        config: dict[str, Any] = {"type": kind, "scaling_factor": scale, "low_pass_alpha": alpha}
        if kind == "dexpilot":
            return config | {"wrist_link_name": "wrist", "finger_tip_link_names": tips}
        human = [4 * FINGERS.index(finger) + 4 for finger in names]
        if self._robot.name == "shadow":  # as shipped, it also follows the middle joints
            tips += [f"middle_{finger}" for finger in names]
            human += [joint - 2 for joint in human]
        config |= {"target_origin_link_names": ["wrist"] * len(tips), "target_task_link_names": tips}
        return config | {"target_link_human_indices": [[0] * len(tips), human]}


def _urdf(robot: EndEffector) -> str:
    """A robot's links and joints below its wrist, whose frame is MANO's; fingertips and middle joints by name."""
    import mujoco

    assert robot.fingers is not None
    model, fingers = robot.model, robot.fingers
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    wrist = model.site(fingers.wrist)
    root = int(model.site_bodyid[wrist.id])
    R_wrist = data.site_xmat[wrist.id].reshape(3, 3)

    def joint(name: str, kind: str, parent: str, child: str, R: np.ndarray, p: np.ndarray, more: str = "") -> str:
        roll, pitch = np.arctan2(R[2, 1], R[2, 2]), np.arctan2(-R[2, 0], np.hypot(R[2, 1], R[2, 2]))
        rpy = f"{roll:.9f} {pitch:.9f} {np.arctan2(R[1, 0], R[0, 0]):.9f}"
        origin = f'<origin xyz="{p[0]:.9f} {p[1]:.9f} {p[2]:.9f}" rpy="{rpy}"/>'
        return (
            f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{origin}{more}</joint>'
            f'<link name="{child}"/>'
        )

    parts, links = ['<link name="wrist"/>'], {root: ("wrist", R_wrist, data.site_xpos[wrist.id])}
    for body in range(root + 1, model.nbody):
        parent = int(model.body_parentid[body])
        if parent not in links:
            continue
        name, R_parent, p_parent = links[parent]
        R, p = data.xmat[body].reshape(3, 3), data.xpos[body]
        first = model.body_jntadr[body]
        for index in range(first, first + model.body_jntnum[body]):
            axis, (low, high) = model.jnt_axis[index], model.jnt_range[index]
            assert not model.jnt_pos[index].any(), "joints through the origins of their bodies"
            more = f'<axis xyz="{axis[0]} {axis[1]} {axis[2]}"/>'
            more += f'<limit lower="{low}" upper="{high}" effort="1" velocity="10"/>'
            own = f"b{body}_{index}"
            parts.append(joint(f"j{index}", "revolute", name, own, R_parent.T @ R, R_parent.T @ (p - p_parent), more))
            name, R_parent, p_parent = own, R, p
        if not model.body_jntnum[body]:
            parts.append(joint(f"f{body}", "fixed", name, f"b{body}", R_parent.T @ R, R_parent.T @ (p - p_parent)))
            name = f"b{body}"
        links[body] = (name, R, p)
    for finger in fingers.names:
        site = model.site(fingers.tips[finger])
        body = int(model.site_bodyid[site.id])
        parts.append(joint(f"t_{finger}", "fixed", links[body][0], f"tip_{finger}", np.eye(3), site.pos))
        middle = int(model.body_parentid[body])  # of a hand whose last body carries the tip
        parts.append(joint(f"m_{finger}", "fixed", links[middle][0], f"middle_{finger}", np.eye(3), np.zeros(3)))
    return f'<robot name="{robot.name}">{"".join(parts)}</robot>'


def _local(hand: HandTrajectory) -> np.ndarray:
    return (hand.joints - hand.wrist_pose[:, None, :3]) @ matrix_from_quat(hand.wrist_pose[:, 3:])


def _fingers(robot: EndEffector) -> list[int]:
    assert robot.fingers is not None
    return [FINGERS.index(finger) for finger in robot.fingers.names]


def _astray(hand: HandTrajectory, robot: EndEffector, tips: np.ndarray) -> np.ndarray:
    human = _local(hand)[:, 4::4][:, _fingers(robot)]
    cosine = (human * tips).sum(-1) / (np.linalg.norm(human, axis=-1) * np.linalg.norm(tips, axis=-1))
    return np.arccos(np.clip(cosine, -1, 1))


def _times(spent: np.ndarray) -> dict[str, float]:
    return {"ms": 1000 * float(np.median(spent)), "ms99": 1000 * float(np.percentile(spent, 99))}


def _closings(gap: np.ndarray, at: float, rate: float) -> list[int]:
    """Frames in which a gap closes to within `_ON` of a level."""
    on = np.diff(hysteresis(at - gap, -_ON, -_OFF).astype(int), prepend=0, append=0)
    begins, ends = np.flatnonzero(on > 0), np.flatnonzero(on < 0)
    return [int(a) for a, b in zip(begins, ends) if a > 0 and (b - a) / rate >= _SHORTEST]


def _matches(found: list[int], true: list[int]) -> int:
    left, hits = list(found), 0
    for frame in true:
        near = [k for k in left if abs(k - frame) <= 1]
        if near:
            left.remove(min(near, key=lambda k: abs(k - frame)))
            hits += 1
    return hits


def _measured(robot: EndEffector, streams: Mapping[int, Stream], followed: Mapping[int, Followed]) -> dict[str, float]:
    kinematics, fingers = HandKinematics.of(robot), _fingers(robot)
    touching = kinematics.tip_radii + kinematics.tip_radii[0]
    held_all, distance, overlap, angles, spent = [], [], [], [], []
    counts = {"onset": np.zeros(3), "onset_own": np.zeros(3)}
    for seed, stream in streams.items():
        tips, seconds = followed[seed]
        human = stream.hand.joints[:, 4::4][:, fingers]
        theirs = np.linalg.norm(human - human[:, :1], axis=-1)
        robots = np.linalg.norm(tips - tips[:, :1], axis=-1)
        held, contact = stream.held[:, fingers], stream.touch[fingers]
        surface = robots - touching
        held_all.append(np.abs(surface - np.maximum(theirs - contact, 0))[held])
        distance.append(np.abs(robots - theirs)[held])
        overlap.append(np.maximum(-surface, 0)[held])
        angles.append(_astray(stream.hand, robot, tips).ravel())
        spent.append(seconds)
        for f in range(1, len(fingers)):
            true = _closings(theirs[:, f], contact[f], stream.rate)
            for name, level in (("onset", 0.0), ("onset_own", float(np.median(surface[held[:, f], f])))):
                found = _closings(surface[:, f], level, stream.rate)
                counts[name] += [_matches(found, true), len(found), len(true)]
    overlaps = np.concatenate(overlap)
    row = {
        "held_mm": 1000 * float(np.concatenate(held_all).mean()),
        "distance_mm": 1000 * float(np.concatenate(distance).mean()),
        "overlap_mm": 1000 * float(overlaps.mean()),
        "overlap95_mm": 1000 * float(np.percentile(overlaps, 95)),
        "direction_deg": float(np.degrees(np.concatenate(angles).mean())),
    }
    row |= {name: float(2 * hits / max(found + true, 1)) for name, (hits, found, true) in counts.items()}
    row["pinches"] = float(counts["onset"][2])
    return row | _times(np.concatenate(spent))


def _print(robot: EndEffector, method: str, streams: Mapping[int, Stream], followed: Mapping[int, Followed]) -> None:
    row: dict[str, Any] = {"robot": robot.name, "method": method, "streams": list(streams)}
    print(json.dumps(row | {k: round(v, 3) for k, v in _measured(robot, streams, followed).items()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
