"""HO-3D version 2 and 3 (Hampali et al. 2020, "HOnnotate: A Method for 3D Annotation of Hand and Object Poses").

Layout and conventions from https://github.com/shreyashampali/ho3d (`README.md`, `vis_HO3D.py`):

ROOT/train/ABF10/rgb/0000.png (version 2) or .jpg (version 3), meta/0000.pkl
ROOT/models/010_potted_meat_can/textured_simple.obj        (YCB-Video models, a separate download, put here)

A meta file is a pickled dict: handPose (48 axis-angle numbers, a flat hand is zero), handTrans, handBeta,
handJoints3D (MANO's 16 joints, then the tips of thumb to little finger), objRot (axis-angle), objTrans, objName,
camMat. Positions are in metres in OpenGL's camera frame (x right, y up, z backward). The hand is a right one.

The camera is all the frame that there is: the base frame is at the camera with z along the picture's up and y forward,
so gravity points along -z only as far as the camera was level. The frame rate is not stated; 30 is RealSense's.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.data.importers.base import ImportContext, Imported, Importer, Mesh
from dexprior.data.importers.files import opencv_camera, path_view, subfolders
from dexprior.data.importers.mano_parameters import MANO_TO_MEDIAPIPE, ManoRecord, mano_hand
from dexprior.data.importers.tracks import object_track
from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_from_axis_angle
from dexprior.geometry.transforms import pose_from_matrix
from dexprior.reading import entries, inside, numbers, read_pickle

__all__ = ["HO3D"]

_FPS = 30.0
_T_BASE_OPENGL = np.array([[1.0, 0, 0, 0], [0, 0, -1.0, 0], [0, 1.0, 0, 0], [0, 0, 0, 1.0]])  # y up -> z up
_T_OPENGL_OPENCV = np.diag([1.0, -1.0, -1.0, 1.0])


def _episodes(folder: Path) -> list[str]:
    return [
        f"{split}/{sequence.name}"
        for split in ("train", "evaluation")
        for sequence in subfolders(folder / split)
        if (sequence / "meta").is_dir()
    ]


def _read(folder: Path, name: str, context: ImportContext) -> Imported:
    sequence = folder / name
    files = sorted((sequence / "meta").glob("*.pkl"))
    if not files:
        raise BadInput(f"{sequence / 'meta'} holds no .pkl file")
    metas = [_meta(path) for path in files]
    n = len(files)
    t = np.arange(n) / _FPS
    problems = ["the frame rate is not stated: 30 a second is assumed", "the direction of gravity is not recorded"]
    numbered = [int(path.stem) for path in files if path.stem.isdigit()]
    if len(numbered) == n and (gaps := numbered[-1] - numbered[0] + 1 - n):
        problems.append(f"{gaps} frames are missing between the first and the last: the motion jumps there")
    base = pose_from_matrix(_T_BASE_OPENGL)
    K = next((meta["camMat"] for meta in metas if meta.get("camMat") is not None), None)
    if K is None:
        raise BadInput(f"{sequence}: no frame holds camMat, so the camera is not calibrated")
    camera = partial(opencv_camera, numbers(K, f"{sequence}: camMat", 3, 3), _T_BASE_OPENGL @ _T_OPENGL_OPENCV)
    view = path_view("rgb", [_picture(sequence / "rgb", path.stem) for path in files], fps=_FPS, camera=camera)

    def stack(key: str, *shape: int) -> np.ndarray:
        """One row a frame; NaN where the frame is not annotated."""
        rows = np.full((n, *shape), np.nan)
        for k, meta in enumerate(metas):
            value = meta.get(key)
            if value is not None and np.size(value) == int(np.prod(shape)):
                rows[k] = np.reshape(value, shape)
        return rows

    hands = []
    if any(meta.get("handPose") is not None for meta in metas):
        pose, joints = stack("handPose", 48), stack("handJoints3D", 21, 3)[:, MANO_TO_MEDIAPIPE]
        betas = np.nanmedian(stack("handBeta", 10), axis=0)
        record = ManoRecord(
            side="right",
            t=t,
            rotation=pose[:, :3],
            fingers=pose[:, 3:],
            pca=False,
            flat_hand_mean=True,
            translation=stack("handTrans", 3),
            betas=betas,
            valid=np.isfinite(pose).all(axis=1),
            joints=joints,
        )
        hand, notes = mano_hand(record, context, base_pose=base)
        problems += notes
        hands += [] if hand is None else [hand]
    else:
        problems.append("the hand's pose is not published for this split: only its root is")

    objects, meshes = [], {}
    label = next((str(meta["objName"]) for meta in metas if meta.get("objName") is not None), None)
    if label is not None:
        rotation = stack("objRot", 3)
        pose = np.concatenate([stack("objTrans", 3), quat_from_axis_angle(np.nan_to_num(rotation))], axis=1)
        thing = object_track(label, t, pose, np.isfinite(rotation).all(axis=1), base_pose=base)
        objects += [] if thing is None else [thing]
        mesh = inside(folder, f"models/{label}/textured_simple.obj", f"{sequence.name}: objName")
        if mesh.is_file():
            meshes[label] = Mesh(path=mesh)
    return Imported(
        kind="ho3d",
        episode=name,
        licence=HO3D.licence,
        source="https://github.com/shreyashampali/ho3d",
        views=(view,),
        hands=tuple(hands),
        objects=tuple(objects),
        meshes=meshes,
        target=label if objects else None,
        ids={"split": name.split("/")[0], "sequence": sequence.name},
        problems=tuple(problems),
    )


def _meta(path: Path) -> dict[str, Any]:
    meta = read_pickle(path)
    entries(meta, ("camMat",), path)
    return meta


def _picture(folder: Path, stem: str) -> Path:
    png = folder / f"{stem}.png"
    return png if png.is_file() else folder / f"{stem}.jpg"


HO3D = Importer(
    title="HO-3D v2 and v3: a right hand holds a YCB object",
    licence="academic research only, no redistribution",
    episodes=_episodes,
    read=_read,
)
