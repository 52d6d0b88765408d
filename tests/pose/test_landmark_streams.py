"""Landmark streams of trackers and headsets: every layout gives the same hand, and what is wrong is named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.geometry.transforms import IDENTITY_POSE
from dexprior.hands import skeleton
from dexprior.pose.landmark_streams import hand_from_stream, read_stream
from dexprior.types.hand import FINGERS, HAND_JOINTS

N = 4
T = np.arange(N) / 72
_PARTS = ("metacarpal", "proximal", "intermediate", "distal", "tip")
OPENXR = [
    "palm",
    "wrist",
    *(f"thumb_{part}" for part in ("metacarpal", "proximal", "distal", "tip")),
    *(f"{finger}_{part}" for finger in FINGERS[1:] for part in _PARTS),
]
_ARKIT = ("Metacarpal", "Knuckle", "IntermediateBase", "IntermediateTip", "Tip")
NAMES = {
    "MediaPipe": [
        "WRIST",
        *(f"THUMB_{part}" for part in ("CMC", "MCP", "IP", "TIP")),
        *(f"{f}_FINGER_{part}" for f in ("INDEX", "MIDDLE", "RING") for part in ("MCP", "PIP", "DIP", "TIP")),
        *(f"PINKY_{part}" for part in ("MCP", "PIP", "DIP", "TIP")),
    ],
    "ours": list(HAND_JOINTS),
    "OpenXR": [f"XR_HAND_JOINT_{name.upper()}_EXT" for name in OPENXR],
    "WebXR": [
        "wrist",
        *(f"thumb-{part}" for part in ("metacarpal", "phalanx-proximal", "phalanx-distal", "tip")),
        *(
            f"{finger}-finger-{part if part in ('metacarpal', 'tip') else 'phalanx-' + part}"
            for finger in ("index", "middle", "ring", "pinky")
            for part in _PARTS
        ),
    ],
    "Unity": [name.replace("_", " ").title().replace(" ", "") for name in OPENXR],
    "ARKit": [
        "wrist",
        *(f"thumb{part}" for part in _ARKIT[1:]),
        *(f"{finger}Finger{part}" for finger in FINGERS[1:] for part in _ARKIT),
        "forearmWrist",
        "forearmArm",
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def hand():
    """A right hand (time, 21, 3) that bends a little."""
    pose = np.zeros((N, 15, 3))
    pose[:, :12, 2] = 0.2 + 0.1 * np.arange(N)[:, None]
    return skeleton.forward(np.tile(IDENTITY_POSE, (N, 1)), pose.reshape(N, 45))


def _laid_out(hand, count):
    """The same hand with the joints of a headset, those that do not matter far away."""
    if count == 21:
        return hand
    first = {25: 0, 26: 1, 27: 0}[count]
    joints = np.full((len(hand), count, 3), 9.0)
    joints[:, first : first + 5] = hand[:, :5]
    for f in range(1, 5):
        joints[:, first + 5 * f + 1 : first + 5 * f + 5] = hand[:, 4 * f + 1 : 4 * f + 5]
    return joints


def _csv(path, names, joints, **more):
    columns = {
        **more,
        **{f"{name}_{axis}": joints[:, k, a] for k, name in enumerate(names) for a, axis in enumerate("xyz")},
    }
    rows = [",".join(columns), *(",".join(str(c[k]) for c in columns.values()) for k in range(len(joints)))]
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("source", NAMES)
def test_names_decide_in_any_order(tmp_path, hand, source):
    names = NAMES[source]
    joints = _laid_out(hand, len(names))
    order = np.random.default_rng(0).permutation(len(names))
    path = _csv(tmp_path / "s.csv", [names[k] for k in order], joints[:, order], t=T)
    stream = read_stream(path, side="right")
    np.testing.assert_allclose(stream.joints, hand)
    np.testing.assert_allclose(stream.t, T)
    np.savez(tmp_path / "s.npz", landmarks=joints[:, order], names=[names[k] for k in order], t=T, hand="right")
    np.testing.assert_allclose(read_stream(tmp_path / "s.npz").joints, hand)


@pytest.mark.parametrize("count", [21, 25, 26, 27])
def test_without_names_the_number_of_joints_decides(tmp_path, hand, count):
    joints = _laid_out(hand, count)
    np.savez(tmp_path / "s.npz", joints=joints, fps=72.0, hand="right")
    np.testing.assert_allclose(read_stream(tmp_path / "s.npz").joints, hand)
    path = _csv(tmp_path / "s.csv", [str(k) for k in range(count)], joints, time_ms=1000 * T)
    np.testing.assert_allclose(read_stream(path, side="right").joints, hand)
    lines = [{"t": t, "hand": "right", "joints": frame.tolist()} for t, frame in zip(T.tolist(), joints)]
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, lines)))
    np.testing.assert_allclose(read_stream(tmp_path / "s.jsonl").joints, hand)


def test_json_lines_as_browsers_write_them(tmp_path, hand):
    """Named positions with x, y, z; both hands take turns; a lost hand is null."""
    names, joints, lines = NAMES["WebXR"], _laid_out(hand, 25), []
    for k, t in enumerate(T.tolist()):
        named = {n: {"position": dict(zip("xyz", p))} for n, p in zip(names, joints[k].tolist())}
        lines.append({"timestamp_ms": 1000 * t, "handedness": "left", "joints": None})
        lines.append({"timestamp_ms": 1000 * t, "handedness": "right", "joints": named if k != 2 else None})
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, lines)))
    stream = read_stream(tmp_path / "s.jsonl", side="right")
    assert stream.valid.tolist() == [True, True, False, True]
    np.testing.assert_allclose(stream.joints[[0, 1, 3]], hand[[0, 1, 3]])
    with pytest.raises(BadInput, match="holds both hands: give side=left or side=right"):
        read_stream(tmp_path / "s.jsonl")


def test_both_hands_in_a_row(tmp_path, hand):
    names = [f"{side}_{name}" for side in ("left", "right") for name in HAND_JOINTS]
    path = _csv(tmp_path / "s.csv", names, np.concatenate([hand * [-1, 1, 1], hand], axis=1), t=T)
    for side, sign in (("right", 1.0), ("left", -1.0)):
        stream = read_stream(path, side=side)
        assert stream.side == side
        np.testing.assert_allclose(stream.joints, hand * [sign, 1, 1])


def test_gaps_are_marked_and_repeat_the_last_frame(tmp_path, hand):
    """Empty cells, a mark, and the one point that drivers write for a hand out of view."""
    joints = np.repeat(hand[:1], 5, axis=0) + 0.001 * np.arange(5)[:, None, None]
    joints[1], joints[3] = np.nan, 0.0
    path = _csv(tmp_path / "s.csv", HAND_JOINTS, joints, t=np.arange(5) / 30, valid=np.array([1, 1, 0, 1, 1]))
    path.write_text(path.read_text().replace("nan", ""))
    stream = read_stream(path, side="right")
    assert stream.valid.tolist() == [True, False, False, False, True]
    followed = hand_from_stream(stream)
    assert followed.valid.tolist() == stream.valid.tolist()
    np.testing.assert_allclose(followed.joints[1:4], np.repeat(joints[:1], 3, axis=0))


@pytest.mark.parametrize(("unit", "size"), [("mm", 1000.0), ("cm", 100.0)])
def test_units_are_said_not_guessed(tmp_path, hand, unit, size):
    np.savez(tmp_path / "s.npz", joints=size * hand, t=T, hand="right")
    np.testing.assert_allclose(read_stream(tmp_path / "s.npz", unit=unit).joints, hand)
    with pytest.raises(BadInput, match=f"no hand's; give unit={unit}"):
        read_stream(tmp_path / "s.npz")


def _npz(tmp_path, **fields):
    np.savez(tmp_path / "s.npz", **fields)
    return tmp_path / "s.npz"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"joints": np.zeros((N, 22, 3))}, r"joints has shape \(4, 22, 3\), expected \(time, 21, 3\), or 25, 26 or 27"),
        ({"joints": np.zeros((N, 21, 3))}, "no hand in any of 4 frames"),
        ({"hand": "both"}, "hand = 'both'; choices: left, right"),
        ({"hand": None}, "does not say which hand it is: give side=left or side=right"),
        ({"t": None}, "holds no times .*: give fps="),
        ({"t": np.array([0.0, 0.01, 0.01, 0.02])}, "times do not increase, the first is frame 2"),
        ({"t": 1000 * T}, "13.8889 s between two frames; name the column by its unit: time_ms"),
        ({"names": np.array(["wrist", "nose", *["x"] * 19])}, "no joint is called 'nose'"),
        ({"names": np.array([*HAND_JOINTS[:20], "index_tip"])}, "'index_tip' and 'index_tip' are the same joint"),
        ({"names": np.array([*HAND_JOINTS[:20], "palm"])}, "1 of 21 joints are missing: little_tip"),
        ({"joints": np.full((N, 21, 3), np.inf)}, "frame 0 holds a joint inf m away"),
        ({"valid": np.ones(3, bool)}, r"valid has shape \(3,\) for 4 frames"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, hand, change, message):
    fields = {"joints": hand, "t": T, "hand": "right", **change}
    with pytest.raises(BadInput, match=message):
        read_stream(_npz(tmp_path, **{name: value for name, value in fields.items() if value is not None}))


def test_half_a_frame_is_named(tmp_path, hand):
    joints = hand.copy()
    joints[2, 6] = np.nan
    with pytest.raises(BadInput, match="frame 2 has no index_pip, but other joints: mark it as not valid"):
        read_stream(_npz(tmp_path, joints=joints, t=T, hand="right"))
    marked = read_stream(_npz(tmp_path, joints=joints, t=T, hand="right", valid=np.arange(N) != 2))
    assert marked.valid.tolist() == [True, True, False, True]


def test_wrong_tables_are_named(tmp_path, hand):
    path = tmp_path / "s.csv"
    path.write_text("t,a,b\n0,1,2\n")
    with pytest.raises(BadInput, match="no column is a joint's"):
        read_stream(path, side="right")
    path.write_text("t,wrist_x,wrist_y\n0,1,2\n")
    with pytest.raises(BadInput, match="the joint wrist has no column for z"):
        read_stream(path, side="right")
    with pytest.raises(BadInput, match=r"landmark streams are .csv, .jsonl, .npz files"):
        read_stream(tmp_path / "s.bvh")
    (tmp_path / "s.jsonl").write_text('{"t": 0, "hand": "right", "joints": 3}\n')
    with pytest.raises(BadInput, match="frame 0: joints = 3: expected positions, in a list or by name"):
        read_stream(tmp_path / "s.jsonl")
    (tmp_path / "s.jsonl").write_text('{"t": 0, "hand": "right"}\n')
    with pytest.raises(BadInput, match="frame 0 holds no joints, landmarks, positions; it has: t, hand"):
        read_stream(tmp_path / "s.jsonl")


def test_columns_of_something_else_are_left_alone(tmp_path, hand):
    """Rotations and confidences stand beside positions in headsets' files."""
    more = {"t": T, "wrist_qx": np.zeros(N), "index_tip_rotation_x": np.zeros(N), "head_x": np.zeros(N)}
    path = _csv(tmp_path / "s.csv", HAND_JOINTS, hand, **more)
    np.testing.assert_allclose(read_stream(path, side="right").joints, hand)
