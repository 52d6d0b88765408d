"""DexYCB (Chao et al. 2021, "DexYCB: A Benchmark for Capturing Hand Grasping of Objects").

Layout and conventions from the toolkit, https://github.com/NVlabs/dex-ycb-toolkit (`dex_ycb_toolkit/dex_ycb.py`,
`sequence_loader.py`, `layers/mano_layer.py`):

ROOT/20200709-subject-01/20200709_141754/meta.yml      serials, ycb_ids, ycb_grasp_ind, mano_sides, mano_calib, ...
                                         pose.npz      pose_y (frame, object, 7), pose_m (frame, hand, 51)
                                         SERIAL/color_000000.jpg, labels_000000.npz (joint_3d in that camera's frame)
ROOT/calibration/intrinsics/SERIAL_640x480.yml, extrinsics_ID/extrinsics.yml, mano_ID/mano.yml
ROOT/models/006_mustard_bottle/textured_simple.obj

Poses are [qx qy qz qw x y z] in the master camera's frame; the base frame here is the AprilTag's, whose z points up
from the table. MANO: 45 PCA coefficients on top of the mean pose, metres. An unannotated object is the identity, an
unseen hand all zeros, and its joints -1.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float

from dexprior.data.importers.base import ImportContext, Imported, Importer, View
from dexprior.data.importers.files import LONGEST, pose_from_xyzw, realsense_view, rigid, sequences
from dexprior.data.importers.mano_parameters import ManoRecord, mano_hand
from dexprior.data.importers.tracks import objects_with_meshes
from dexprior.errors import BadInput
from dexprior.geometry.transforms import pose_from_matrix
from dexprior.reading import entries, inside, integer, listed, numbers, read_npz, read_yaml

__all__ = ["DEXYCB", "YCB"]

YCB = (
    "002_master_chef_can", "003_cracker_box", "004_sugar_box", "005_tomato_soup_can", "006_mustard_bottle",
    "007_tuna_fish_can", "008_pudding_box", "009_gelatin_box", "010_potted_meat_can", "011_banana",
    "019_pitcher_base", "021_bleach_cleanser", "024_bowl", "025_mug", "035_power_drill", "036_wood_block",
    "037_scissors", "040_large_marker", "051_large_clamp", "052_extra_large_clamp", "061_foam_brick",
)  # fmt: skip
"""Objects by `ycb_ids`, from 1."""

_FPS = 30.0
_IDENTITY = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])


def _read(folder: Path, name: str, context: ImportContext) -> Imported:
    sequence = folder / name
    where = sequence / "meta.yml"
    serials, ids, grasped, sides, calibrations, extrinsics_id, count = entries(
        read_yaml(where),
        ("serials", "ycb_ids", "ycb_grasp_ind", "mano_sides", "mano_calib", "extrinsics", "num_frames"),
        where,
    )
    count = integer(count, f"{where}: num_frames", low=1, high=LONGEST)
    serials, calibrations = listed(serials, f"{where}: serials"), listed(calibrations, f"{where}: mano_calib")
    sides = listed(sides, f"{where}: mano_sides", choices=("left", "right"))
    ids = [integer(k, f"{where}: ycb_ids", low=1, high=len(YCB)) for k in listed(ids, f"{where}: ycb_ids")]
    grasped = integer(grasped, f"{where}: ycb_grasp_ind", high=len(ids) - 1)
    where = inside(folder, f"calibration/extrinsics_{extrinsics_id}/extrinsics.yml", where)
    (extrinsics,) = entries(read_yaml(where), ("extrinsics",), where)

    def T_world(key: str) -> Float[np.ndarray, "4 4"]:
        (values,) = entries(extrinsics, (key,), where)
        return rigid(numbers(values, f"{where}: {key}", 3, 4))

    T_base_world = np.linalg.inv(T_world("apriltag"))
    base = pose_from_matrix(T_base_world)
    problems: list[str] = []
    views: list[View] = []
    joints = None
    for serial in serials:
        try:
            intrinsics = inside(folder, f"calibration/intrinsics/{serial}_640x480.yml", sequence / "meta.yml")
            pictures, T_base_cam = inside(sequence, serial, sequence / "meta.yml"), T_base_world @ T_world(serial)
            views.append(realsense_view(intrinsics, pictures, count, T_base_cam, fps=_FPS))
            if joints is None:
                joints = _joints(pictures, count, T_world(serial))
        except BadInput as error:
            problems.append(f"camera {serial} is left out: {error}")
    if not views:
        raise BadInput("no camera can be used: " + "; ".join(problems))

    pose_y, pose_m = read_npz(sequence / "pose.npz", ("pose_y", "pose_m")).values()
    pose_y, pose_m = (numbers(pose, f"{sequence / 'pose.npz'}", finite=False) for pose in (pose_y, pose_m))
    if pose_y.shape != (count, len(ids), 7) or pose_m.shape != (count, len(sides), 51):
        raise BadInput(f"{sequence / 'pose.npz'}: pose_y {pose_y.shape}, pose_m {pose_m.shape} for {count} frames")
    t = np.arange(count) / _FPS
    m = pose_m[:, 0].astype(np.float64)
    where = inside(folder, f"calibration/mano_{calibrations[0]}/mano.yml", sequence / "meta.yml")
    (betas,) = entries(read_yaml(where), ("betas",), where)
    record = ManoRecord(
        side=sides[0],
        t=t,
        rotation=m[:, :3],
        fingers=m[:, 3:48],
        pca=True,
        flat_hand_mean=False,
        translation=m[:, 48:],
        betas=numbers(betas, f"{where}: betas", 10),
        valid=(m != 0).any(axis=1),
        joints=joints,
    )
    hand, notes = mano_hand(record, context, base_pose=base)
    objects, meshes, unseen = objects_with_meshes(
        t,
        [
            (YCB[ycb - 1], pose_from_xyzw(pose_y[:, k]), (pose_y[:, k] != _IDENTITY).any(axis=1))
            for k, ycb in enumerate(ids)
        ],
        lambda label: folder / "models" / label / "textured_simple.obj",
        base_pose=base,
    )
    target = YCB[ids[grasped] - 1]
    return Imported(
        kind="dexycb",
        episode=name,
        licence=DEXYCB.licence,
        source="https://dex-ycb.github.io",
        views=tuple(views),
        hands=() if hand is None else (hand,),
        objects=tuple(objects),
        meshes=meshes,
        target=target if any(thing.object == target for thing in objects) else None,
        ids={"subject": name.split("/")[0]},
        problems=(*problems, *unseen, *notes),
    )


def _joints(labels: Path, count: int, T_world_cam: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "time 21 3"]:
    """Joints in the world frame; NaN where the hand is not seen."""
    joints = np.stack([read_npz(labels / f"labels_{k:06d}.npz", ("joint_3d",))["joint_3d"][0] for k in range(count)])
    joints = numbers(joints, f"{labels}: joint_3d", finite=False)
    joints = np.where((joints == -1).all(axis=(1, 2), keepdims=True), np.nan, joints).astype(np.float64)
    return joints @ T_world_cam[:3, :3].T + T_world_cam[:3, 3]


DEXYCB = Importer(
    title="DexYCB: one hand grasps a YCB object, eight calibrated cameras",
    licence="CC-BY-NC-4.0",
    episodes=partial(sequences, marker="meta.yml"),
    read=_read,
)
