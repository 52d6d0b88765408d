"""Landmark streams as trackers and headsets write them: CSV, JSON lines or NPZ, 21 joints or a headset's 25 and more.

Names decide where there are any: those of MediaPipe (`INDEX_FINGER_MCP`), OpenXR (`XR_HAND_JOINT_INDEX_PROXIMAL_EXT`),
WebXR (`index-finger-phalanx-proximal`), Unity (`IndexProximal`), ARKit (`indexFingerKnuckle`), MANO (`index1`) and our
own (`index_mcp`); case and separators do not matter, and joints that a hand has not here (palm, finger metacarpals,
forearm) are left out. Without names, the number of joints decides:

    21  MediaPipe: wrist, then thumb (CMC, MCP, IP, tip) and index, middle, ring, little (MCP, PIP, DIP, tip)
    25  WebXR: wrist, thumb (metacarpal, proximal, distal, tip), each finger (metacarpal, proximal, intermediate,
        distal, tip); ARKit's order too
    26  OpenXR: the palm, then as WebXR
    27  ARKit: as 25, then forearm wrist and forearm arm

Positions are in any right-handed frame, in metres unless a unit is given; times are seconds, or in the unit that the
name of their column ends with. Left-handed frames (Unity's) are mirror images: negate an axis before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput
from dexprior.pose.landmarks import hand_from_landmarks
from dexprior.reading import TIMES, Table, number, numbers, read_csv, read_lines, read_npz, shown
from dexprior.types import HandTrajectory, Side
from dexprior.types.hand import FINGERS, HAND_JOINTS, SIDES

__all__ = ["LandmarkFile", "LandmarkStream", "Unit", "hand_from_stream", "read_landmarks", "read_stream"]

Unit = Literal["m", "cm", "mm"]
_METRES = {"m": 1.0, "cm": 0.01, "mm": 0.001}
_ORDERS = {
    21: list(range(21)),
    25: [0, *range(1, 5), *(5 * f + k for f in range(1, 5) for k in range(1, 5))],
    26: [1, *range(2, 6), *(5 * f + k + 1 for f in range(1, 5) for k in range(1, 5))],
    27: [0, *range(1, 5), *(5 * f + k for f in range(1, 5) for k in range(1, 5))],
}
_SIDE_NAMES = ("hand", "side", "handedness")
_JOINTS_NAMES = ("joints", "landmarks", "positions")
_THUMB = {
    **dict.fromkeys(("cmc", "metacarpal", "knuckle", "1"), 1),
    **dict.fromkeys(("mcp", "proximal", "intermediatebase", "2"), 2),
    **dict.fromkeys(("ip", "distal", "intermediatetip", "3"), 3),
    "tip": 4,
}
_FINGER = {
    **dict.fromkeys(("mcp", "proximal", "knuckle", "1"), 1),
    **dict.fromkeys(("pip", "intermediate", "intermediatebase", "2"), 2),
    **dict.fromkeys(("dip", "distal", "intermediatetip", "3"), 3),
    "tip": 4,
}
_PALM = (0.04, 0.16)  # [m] from the wrist to the middle finger's knuckle, of a small child and of a very large hand
_FARTHEST = 1e4  # [m]
_FARTHEST_OF_ANY = 1e5  # of a coordinate, in whatever unit
_STEP = (1e-3, 1.0)  # [s] between two frames
_SHAPE = "expected (time, 21, 3), or 25, 26 or 27 joints of a headset"


@dataclass(frozen=True)
class LandmarkStream:
    """What a tracker sent of one hand."""

    joints: Float[np.ndarray, "time 21 3"]
    """MediaPipe order [m]; NaN where the hand was lost."""
    t: Float[np.ndarray, " time"]
    """Seconds, strictly increasing."""
    side: Side
    valid: Bool[np.ndarray, " time"]
    """Whether the hand was tracked."""


def read_stream(
    path: str | Path, *, side: Side | None = None, fps: float | None = None, unit: Unit = "m"
) -> LandmarkStream:
    """Read a landmark stream.

    CSV: a row a frame; columns `t` (or `time_ms` and the like) and, for each joint, `NAME_x`, `NAME_y`, `NAME_z`
    (`left_` or `right_` before the name where both hands stand in a row), or numbered ones, `0_x` or `x0`; a column
    `hand` where rows are of both hands. JSON lines: an object a frame with `t` and `joints` (or `landmarks`), a list of
    positions or an object of them by name, each [x, y, z] or {"x": .., "y": .., "z": ..}, and `hand`. NPZ: `joints`
    (time, joint, 3), `t` or `fps`, `hand`, and if need be `names` and `valid`.

    A gap is a frame whose joints are all empty, null or NaN, one that is marked as not valid, or one whose joints all
    lie in one point, as drivers write it.

    Args:
        path: the file: .csv, .jsonl or .npz.
        side: which hand; needed where the file does not say, or holds both.
        fps: frames a second; needed where the file holds no times.
        unit: of the positions.

    Raises:
        BadInput: no such file, another format, a joint that is missing, no or both sides, no times, times that do not
            increase or are in another unit, or a hand of an impossible size, which is another unit.
    """
    path = Path(path)
    kinds = {".csv": _from_csv, ".jsonl": _from_lines, ".npz": _from_npz}
    if path.suffix.lower() not in kinds:
        raise BadInput(f"{path}: landmark streams are {', '.join(kinds)} files")
    found = kinds[path.suffix.lower()](path, side)
    joints = np.where(found.valid[:, None, None], found.joints, np.nan) * _METRES[unit]
    _check(joints, path)
    spread = np.ptp(joints, axis=1).max(axis=1)
    valid: np.ndarray = np.isfinite(spread) & (spread > 1e-6)
    if not valid.any():
        raise BadInput(f"{path}: no hand in any of {len(joints)} frames")
    t = _times(found, fps, path)
    palm = float(np.median(np.linalg.norm(joints[valid, 9] - joints[valid, 0], axis=-1)))
    if not _PALM[0] <= palm <= _PALM[1]:
        fits = [other for other, metres in _METRES.items() if _PALM[0] <= palm / _METRES[unit] * metres <= _PALM[1]]
        hint = f"give unit={fits[0]}" if fits else "are they positions in an image?"
        raise BadInput(f"{path}: a palm of {1000 * palm:.4g} mm from wrist to middle knuckle is no hand's; {hint}")
    return LandmarkStream(np.where(valid[:, None, None], joints, np.nan), t, found.side, valid)


@dataclass(frozen=True)
class LandmarkFile:
    """Landmarks that another program found in a clip."""

    joints: Float[np.ndarray, "time 21 3"]
    """MediaPipe order, wrist at the origin; of any size. NaN where no hand was seen."""
    fps: float
    side: Side
    valid: Bool[np.ndarray, " time"]
    """Whether a hand was seen."""


def read_landmarks(path: str | Path) -> LandmarkFile:
    """Read an `.npz` with `joints` (time, 21, 3), `fps` and `hand` ("left" or "right") for a clip.

    A frame without a hand is NaN, or is marked in `valid` (time). `names` of the joints, and headsets' numbers of them,
    are understood as in `read_stream`.

    Raises:
        BadInput: no such file, another format, a missing or misshapen field, or no hand in any frame.
    """
    path = Path(path)
    found = _from_npz(path, None)
    if found.fps is None:
        raise BadInput(f"{path} holds no 'fps': landmarks of a clip are joints, fps and hand, and if need be valid")
    fps = number(found.fps, f"{path}: fps", low=0.1, high=10_000)
    joints = numbers(found.joints, f"{path}: joints", finite=False, most=_FARTHEST_OF_ANY)
    valid = found.valid & np.isfinite(joints).all(axis=(1, 2))
    if not valid.any():
        raise BadInput(f"{path}: no hand in any of {len(joints)} frames")
    return LandmarkFile(np.where(valid[:, None, None], joints, np.nan), fps, found.side, valid)


def hand_from_stream(stream: LandmarkStream) -> HandTrajectory:
    """The hand of a stream; frames in which it was lost repeat the last measured ones and are not valid.

    Raises:
        BadInput: see `hand_from_landmarks`.
    """
    return hand_from_landmarks(stream.joints, stream.t, stream.side, scale_known=True, valid=stream.valid)


@dataclass(frozen=True)
class _Found:
    """A stream as its file has it: lengths in the file's unit, and times if there are any."""

    joints: np.ndarray
    t: np.ndarray | None
    fps: float | None
    side: Side
    valid: np.ndarray


def _check(joints: np.ndarray, path: Path) -> None:
    """A frame is measured or a gap, not half of each, and within a room."""
    absent = np.isnan(joints).any(axis=2)
    half = absent.any(axis=1) & ~absent.all(axis=1)
    if half.any():
        frame = int(half.argmax())
        name = HAND_JOINTS[int(absent[frame].argmax())]
        raise BadInput(
            f"{path}: frame {frame} has no {name}, but other joints: mark it as not valid (a column valid, 0 or 1)"
        )
    far = np.where(np.isnan(joints), 0.0, np.abs(joints)).max(axis=(1, 2))
    if (far > _FARTHEST).any():
        k = int((far > _FARTHEST).argmax())
        raise BadInput(f"{path}: frame {k} holds a joint {far[k]:.3g} m away, at most {_FARTHEST:g} m can be")


def _times(found: _Found, fps: float | None, path: Path) -> np.ndarray:
    n = len(found.joints)
    if found.t is None:
        rate = found.fps if fps is None else fps
        if rate is None:
            raise BadInput(f"{path} holds no times ({', '.join(TIMES)}): give fps=")
        if not 1 / _STEP[1] <= rate <= 1 / _STEP[0]:
            raise BadInput(f"{path}: fps = {rate:g}: expected {1 / _STEP[1]:g} to {1 / _STEP[0]:g}")
        return np.arange(n) / rate
    if not np.isfinite(found.t).all():
        raise BadInput(f"{path}: the time of frame {int((~np.isfinite(found.t)).argmax())} is not a number")
    steps = np.diff(found.t)
    if (steps <= 0).any():
        k = int((steps <= 0).argmax()) + 1
        raise BadInput(
            f"{path}: times do not increase, the first is frame {k}: {found.t[k]:g} s after {found.t[k - 1]:g} s"
        )
    if n > 1 and not _STEP[0] <= float(np.median(steps)) <= _STEP[1]:
        raise BadInput(
            f"{path}: {np.median(steps):g} s between two frames; name the column by its unit: time_ms, time_us, time_ns"
        )
    return found.t - found.t[0]


def _joint_of(name: str) -> int | None:
    """MediaPipe's index of a joint by its name in any of the vocabularies; None for joints that a hand has not here.

    Raises:
        KeyError: no joint has this name.
    """
    word = re.sub(r"[^a-z0-9]", "", name.lower())
    word = re.sub(r"^(xr)?hand(joint|landmark)|^xrhand|ext$", "", word)
    if word == "wrist":
        return 0
    if word in ("palm", "forearmwrist", "forearmarm"):
        return None
    for f, finger in enumerate(FINGERS):
        for alias in (finger, *(("pinky",) if finger == "little" else ())):
            if word.startswith(alias):
                part = re.sub(r"^finger|phalanx", "", word[len(alias) :])
                if f and part == "metacarpal":
                    return None
                return 4 * f + (_FINGER if f else _THUMB)[part]
    raise KeyError(name)


def _arranged(positions: Mapping[int, np.ndarray], where: object) -> np.ndarray:
    """(time, 21, 3) of joints by index."""
    if missing := [k for k in range(21) if k not in positions]:
        names = ", ".join(HAND_JOINTS[k] for k in missing[:5])
        raise BadInput(f"{where}: {len(missing)} of 21 joints are missing: {names}{', ...' if missing[5:] else ''}")
    return np.stack([positions[k] for k in range(21)], axis=1)


def _ordered(joints: np.ndarray, where: object, names: Sequence[str] | None = None) -> np.ndarray:
    """(time, 21, 3) of an array, by names or by the number of its joints."""
    if joints.ndim != 3 or joints.shape[2] != 3 or (names is None and joints.shape[1] not in _ORDERS):
        raise BadInput(f"{where} has shape {joints.shape}, {_SHAPE}")
    if names is None:
        return joints[:, _ORDERS[joints.shape[1]]]
    if len(names) != joints.shape[1]:
        raise BadInput(f"{where} has {joints.shape[1]} joints and {len(names)} names")
    return _arranged({k: joints[:, i] for i, k in enumerate(_indices(names, where)) if k is not None}, where)


def _indices(names: Sequence[str], where: object) -> list[int | None]:
    found: list[int | None] = []
    for name in names:
        try:
            found.append(_joint_of(name))
        except KeyError:
            raise BadInput(
                f"{where}: no joint is called {shown(name)}; e.g. wrist, thumb-tip, INDEX_FINGER_PIP"
            ) from None
        if found[-1] is not None and found[-1] in found[:-1]:
            raise BadInput(f"{where}: {shown(names[found.index(found[-1])])} and {shown(name)} are the same joint")
    return found


def _one_side(said: set[str], side: Side | None, where: object) -> Side:
    """The side asked for, or the only one that the file speaks of."""
    if other := said - set(SIDES):
        raise BadInput(f"{where}: hand = {shown(sorted(other)[0])}; choices: left, right")
    if side is not None:
        if said and side not in said:
            raise BadInput(f"{where} holds no {side} hand; it has: {', '.join(sorted(said))}")
        return side
    if len(said) != 1:
        holds = "holds both hands" if said else "does not say which hand it is"
        raise BadInput(f"{where} {holds}: give side=left or side=right")
    return "left" if said == {"left"} else "right"


def _from_npz(path: Path, side: Side | None) -> _Found:
    raw = read_npz(path, absent="Landmarks are a .csv, .jsonl or .npz file.")
    key = next((name for name in _JOINTS_NAMES if name in raw), None)
    if key is None:
        raise BadInput(f"{path} holds no {', '.join(_JOINTS_NAMES)}; it has: {', '.join(raw) or 'nothing'}")
    joints = numbers(raw[key], f"{path}: {key}", finite=False)
    names = [str(name) for name in raw["names"].reshape(-1)] if "names" in raw else None
    joints = _ordered(joints, f"{path}: {key}", names)
    time = next((name for name in TIMES if name in raw), None)
    t = None if time is None else TIMES[time] * numbers(raw[time], f"{path}: {time}", len(joints), finite=False)
    fps = float(numbers(raw["fps"], f"{path}: fps", 1)[0]) if "fps" in raw else None
    said = {str(raw[name]).lower() for name in _SIDE_NAMES if name in raw}
    valid = np.ones(len(joints), dtype=bool)
    if "valid" in raw:
        if raw["valid"].shape != valid.shape:
            raise BadInput(f"{path}: valid has shape {raw['valid'].shape} for {len(joints)} frames")
        valid = raw["valid"].astype(bool)
    return _Found(joints, t, fps, _one_side(said, side, path), valid)


_NUMBERED = re.compile(r"^(?:(?:joint|landmark|lm|point)?[_.\- ]?(\d+)[_.\- ]([xyz])|([xyz])[_.\- ]?(\d+))$")
_AXIS = re.compile(r"^(.*?)[_.:\- ]?(?:(?:pos|position|translation)[_.:\- ])?([xyz])$")
_SIDED = re.compile(r"^(left|right)[_.:\- ]?(.*)$")


def _from_csv(path: Path, side: Side | None) -> _Found:
    table = read_csv(path, absent="Landmarks are a .csv, .jsonl or .npz file.")
    lower = {name.lower(): name for name in table.columns}
    column = next((lower[name] for name in _SIDE_NAMES if name in lower), None)
    said = set() if column is None else {cell.lower() for cell in table.column(column)}
    places: dict[str, dict[str, dict[str, str]]] = {}  # side or "" -> joint -> axis -> column
    for name in table.columns:
        bare = name.lower()
        sided = _SIDED.match(bare)
        which, rest = (sided[1], sided[2]) if sided else ("", bare)
        numbered, named = _NUMBERED.match(rest), _AXIS.match(rest)
        if numbered:
            joint, axis = numbered[1] or numbered[4], numbered[2] or numbered[3]
        elif named and named[1]:
            joint, axis = named[1], named[2]
            if not joint[0].isalpha() or not _is_joint(joint):
                continue  # a column of something else, e.g. a rotation
        else:
            continue
        places.setdefault(which, {}).setdefault(joint, {})[axis] = name
    said |= {which for which in places if which}
    chosen = _one_side(said, side, path)
    mine = places.get(chosen) or places.get("") or {}
    if not mine:
        raise BadInput(
            f"{path}: no column is a joint's, e.g. wrist_x, thumb-tip_y, INDEX_FINGER_PIP_z or 0_x; "
            f"it has: {', '.join(table.columns[:8])}"
        )
    for joint, axes in mine.items():
        if absent := [axis for axis in "xyz" if axis not in axes]:
            raise BadInput(f"{path}: the joint {joint} has no column for {', '.join(absent)}")
    rows = [k for k in range(len(table.rows)) if column is None or table.column(column)[k].lower() == chosen]
    if not rows:
        raise BadInput(f"{path} holds no row of a {chosen} hand")
    joints = np.stack(
        [np.stack([table.numbers(axes[axis], empty=np.nan) for axis in "xyz"], axis=-1) for axes in mine.values()],
        axis=1,
    )[rows]
    if all(joint.isdigit() for joint in mine):
        order = np.argsort([int(joint) for joint in mine])
        joints = _ordered(joints[:, order], f"{path}: its numbered joints")
    else:
        joints = _ordered(joints, path, list(mine))
    time = next((name for name in TIMES if name in lower), None)
    t = None if time is None else TIMES[time] * table.numbers(lower[time])[rows]
    return _Found(joints, t, None, chosen, _marks(table, lower)[rows])


def _is_joint(name: str) -> bool:
    try:
        _joint_of(name)
    except KeyError:
        return False
    return True


def _marks(table: Table, lower: Mapping[str, str]) -> np.ndarray:
    """Frames that a column `valid` (1 or 0, true or false) does not exclude."""
    name = next((lower[n] for n in ("valid", "tracked") if n in lower), None)
    if name is None:
        return np.ones(len(table.rows), dtype=bool)
    meaning = {"1": True, "true": True, "0": False, "false": False}
    cells = [cell.lower() for cell in table.column(name)]
    for cell, line in zip(cells, table.lines):
        if cell not in meaning:
            raise BadInput(f"{table.where}, line {line}: {name} is {shown(cell)}; choices: {', '.join(meaning)}")
    return np.array([meaning[cell] for cell in cells])


def _from_lines(path: Path, side: Side | None) -> _Found:
    frames = read_lines(path, absent="Landmarks are a .csv, .jsonl or .npz file.")
    said = {str(frame[name]).lower() for frame in frames for name in _SIDE_NAMES if name in frame}
    chosen = _one_side(said, side, path)
    mine = [f for f in frames if str(next((f[n] for n in _SIDE_NAMES if n in f), chosen)).lower() == chosen]
    joints, times = np.full((len(mine), 21, 3), np.nan), []
    valid = np.ones(len(mine), dtype=bool)
    for k, frame in enumerate(mine):
        where = f"{path}, frame {k}"
        key = next((name for name in _JOINTS_NAMES if name in frame), None)
        if key is None:
            raise BadInput(f"{where} holds no {', '.join(_JOINTS_NAMES)}; it has: {', '.join(frame) or 'nothing'}")
        time = next((name for name in TIMES if name in frame), None)
        if time is not None:
            times.append(TIMES[time] * float(numbers(frame[time], f"{where}: {time}", 1)[0]))
        valid[k] = frame.get("valid", frame.get("tracked", True)) not in (False, 0)
        given = frame[key]
        if given is None or (not given and isinstance(given, (list, dict))):
            continue
        if isinstance(given, dict):
            place = np.stack([_position(value, f"{where}: {name}") for name, value in given.items()])
            joints[k] = _ordered(place[None], where, list(given))[0]
        elif isinstance(given, list):
            joints[k] = _ordered(np.stack([_position(value, where) for value in given])[None], where)[0]
        else:
            raise BadInput(f"{where}: {key} = {shown(given)}: expected positions, in a list or by name")
    if times and len(times) < len(mine):
        raise BadInput(f"{path}: {len(mine) - len(times)} of {len(mine)} frames have no time")
    return _Found(joints, np.array(times) if times else None, None, chosen, valid)


def _position(value: Any, where: str) -> np.ndarray:
    """[x, y, z], {"x": .., "y": .., "z": ..} or {"position": either}; null is a gap."""
    while isinstance(value, dict) and "position" in value:
        value = value["position"]
    if isinstance(value, dict):
        value = [value.get(axis) for axis in "xyz"]
    if value is None or (isinstance(value, list) and len(value) == 3 and None in value):
        return np.full(3, np.nan)
    return numbers(value, where, 3, finite=False)
