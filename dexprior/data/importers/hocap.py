"""HO-Cap (Wang et al. 2024, "HO-Cap: A Capture System and Dataset for 3D Reconstruction and Pose Tracking of
Hand-Object Interaction").

Layout and conventions from the toolkit, https://github.com/IRVLUTD/HO-Cap (`README.md`,
`hocap_toolkit/loaders/sequence_loader.py`, `layers/mano_layer.py`, `renderers/sequence_renderer.py`):

ROOT/subject_1/20231025_165502/meta.yaml     num_frames, object_ids, mano_sides, task_id, subject_id, realsense, ...
                               poses_pv.npy  (frame, 7) of the HoloLens' camera: qx qy qz qw x y z (optional)
                               poses_m.npy   (hand, frame, 51), right first: rotation, 45 PCA coefficients, translation
                               poses_o.npy   (object, frame, 7): qx qy qz qw x y z
                               SERIAL/color_000000.jpg, label_000000.npz (hand_joints_3d in that camera's frame)
ROOT/calibration/intrinsics/SERIAL.yaml, extrinsics/NAME, mano/subject_1.yaml
ROOT/models/G01_1/textured_mesh.obj

Everything is in metres in the frame of AprilTag 1, whose z points up from the table: the base frame. MANO's mean
pose is added to the coefficients. The HoloLens is the last camera, and moves; it is left out where a frame lacks its
pose.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float

from dexprior.data.importers.base import ImportContext, Imported, Importer, View
from dexprior.data.importers.files import LONGEST, pose_from_xyzw, realsense_view, rigid, sequences
from dexprior.data.importers.mano_parameters import ManoRecord, mano_hand
from dexprior.data.importers.tracks import most_moved, objects_with_meshes
from dexprior.errors import BadInput
from dexprior.geometry.transforms import matrix_from_pose
from dexprior.reading import entries, inside, integer, listed, numbers, read_npy, read_npz, read_yaml, text

__all__ = ["HOCAP"]

_FPS = 30.0
_HANDS = ("right", "left")  # order of poses_m


def _read(folder: Path, name: str, context: ImportContext) -> Imported:
    sequence = folder / name
    where = sequence / "meta.yaml"
    meta = read_yaml(where)
    count, ids, sides, subject, realsense, extrinsics_name = entries(
        meta, ("num_frames", "object_ids", "mano_sides", "subject_id", "realsense", "extrinsics"), where
    )
    (serials,) = entries(realsense, ("serials",), where)
    count, serials = integer(count, f"{where}: num_frames", low=1, high=LONGEST), listed(serials, f"{where}: serials")
    ids = [text(label, f"{where}: object_ids") for label in listed(ids, f"{where}: object_ids")]
    sides = listed(sides, f"{where}: mano_sides", choices=_HANDS)
    where = inside(folder, f"calibration/extrinsics/{extrinsics_name}", where)
    (extrinsics,) = entries(read_yaml(where), ("extrinsics",), where)

    def T_master(key: str) -> Float[np.ndarray, "4 4"]:
        (values,) = entries(extrinsics, (key,), where)
        return rigid(numbers(listed(values, f"{where}: {key}")[:12], f"{where}: {key}", 3, 4))

    T_base_master = np.linalg.inv(T_master("tag_1"))
    problems: list[str] = []
    views: list[View] = []
    joints: dict[str, np.ndarray] = {}
    for serial in serials:
        try:
            T_base_cam = T_base_master @ T_master(serial)
            intrinsics = inside(folder, f"calibration/intrinsics/{serial}.yaml", sequence / "meta.yaml")
            pictures = inside(sequence, serial, sequence / "meta.yaml")
            views.append(realsense_view(intrinsics, pictures, count, T_base_cam, fps=_FPS))
            joints = joints or _joints(pictures, count, sides, T_base_cam)
        except BadInput as error:
            problems.append(f"camera {serial} is left out: {error}")
    if isinstance(worn := meta.get("hololens"), dict):
        where = sequence / "meta.yaml"
        serial = text(entries(worn, ("serial",), where)[0], f"{where}: hololens")
        try:
            path = _worn(sequence / "poses_pv.npy", count)
            intrinsics = inside(folder, f"calibration/intrinsics/{serial}.yaml", where)
            views.append(realsense_view(intrinsics, inside(sequence, serial, where), count, path, fps=_FPS))
        except BadInput as error:
            problems.append(f"camera {serial} is left out: {error}")
    if not views:
        raise BadInput("no camera can be used: " + "; ".join(problems))

    t = np.arange(count) / _FPS
    where = inside(folder, f"calibration/mano/{subject}.yaml", sequence / "meta.yaml")
    (betas,) = entries(read_yaml(where), ("betas",), where)
    poses_m = _read_poses(sequence / "poses_m.npy", len(_HANDS), count, 51)
    hands = []
    for side in sides:
        m = poses_m[_HANDS.index(side)]
        record = ManoRecord(
            side=side,
            t=t,
            rotation=m[:, :3],
            fingers=m[:, 3:48],
            pca=True,
            flat_hand_mean=False,
            translation=m[:, 48:],
            betas=numbers(betas, f"{where}: betas", 10),
            valid=~_blank(m),
            joints=joints.get(side),
        )
        hand, notes = mano_hand(record, context)
        problems += notes
        hands += [] if hand is None else [hand]
    poses_o = _read_poses(sequence / "poses_o.npy", len(ids), count, 7)
    objects, meshes, unseen = objects_with_meshes(
        t,
        [(label, pose_from_xyzw(pose), ~_blank(pose)) for label, pose in zip(ids, poses_o)],
        lambda label: inside(folder, f"models/{label}/textured_mesh.obj", sequence / "meta.yaml"),
    )
    return Imported(
        kind="hocap",
        episode=name,
        licence=HOCAP.licence,
        source="https://irvlutd.github.io/HOCap",
        views=tuple(views),
        hands=tuple(hands),
        objects=tuple(objects),
        meshes=meshes,
        target=most_moved(objects),
        ids={"subject": subject, "task": meta.get("task_id")},
        problems=(*problems, *unseen),
    )


def _read_poses(path: Path, *axes: int) -> np.ndarray:
    return numbers(read_npy(path, *axes), path, finite=False)


def _worn(path: Path, count: int) -> Float[np.ndarray, "time 4 4"]:
    """Poses of the camera on the head."""
    rows = _read_poses(path, count, 7)
    unknown = _blank(rows) | ~np.isfinite(rows).all(axis=1)
    if unknown.any():
        raise BadInput(f"{path.name} lacks its pose in {int(unknown.sum())} of {count} frames")
    return matrix_from_pose(pose_from_xyzw(rows))


def _blank(rows: Float[np.ndarray, "time n"]) -> np.ndarray:
    """Frames that hold one filler value instead of a pose."""
    return (rows == 0).all(axis=1) | (rows == -1).all(axis=1)


def _joints(
    labels: Path, count: int, sides: list[str], T_base_cam: Float[np.ndarray, "4 4"]
) -> dict[str, Float[np.ndarray, "time 21 3"]]:
    """Joints of each hand in the base frame, NaN where a frame has no label; empty where none has."""
    paths = [labels / f"label_{k:06d}.npz" for k in range(count)]
    if not any(path.is_file() for path in paths):
        return {}
    joints = np.full((len(sides), count, 21, 3), np.nan)
    for k, path in enumerate(paths):
        if path.is_file():
            found = read_npz(path, ("hand_joints_3d",))["hand_joints_3d"]
            if found.shape != (len(sides), 21, 3):
                raise BadInput(f"{path}: hand_joints_3d has shape {found.shape} for {len(sides)} hands")
            unseen = (found == -1).all(axis=(1, 2), keepdims=True)
            joints[:, k] = np.where(unseen, np.nan, found) @ T_base_cam[:3, :3].T + T_base_cam[:3, 3]
    return dict(zip(sides, joints))


HOCAP = Importer(
    title="HO-Cap: one or two hands use household objects, eight still cameras and one on the head",
    licence="as stated at https://irvlutd.github.io/HOCap (the toolkit's code is GPL-3.0)",
    episodes=partial(sequences, marker="meta.yaml"),
    read=_read,
)
