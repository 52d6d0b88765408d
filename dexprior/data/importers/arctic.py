"""ARCTIC (Fan et al. 2023, "ARCTIC: A Dataset for Dexterous Bimanual Hand-Object Manipulation").

Layout and conventions from https://github.com/zc-alexfan/arctic (`docs/data/data_doc.md`,
`src/arctic/preprocess_dataset.py`, `src/arctic/processing.py`, `common/body_models.py`, `common/object_tensors.py`):

ROOT/raw_seqs/s01/box_grab_01.mano.npy     pickled {left, right: {rot, pose, trans, shape, fitting_err}}
                  box_grab_01.object.npy   (frame, 7): articulation [rad], axis-angle, translation in millimetres
                  box_grab_01.egocam.dist.npy  pickled {R_k_cam_np, T_k_cam_np, intrinsics, dist8}: camera 0 (optional)
ROOT/processed_seqs/s01/box_grab_01.npy    pickled; its world_coord holds the joints (optional)
ROOT/images/s01/box_grab_01/1/00001.jpg    one folder a camera; 1 to 8 stand still, 0 is worn (optional)
ROOT/meta/misc.json                        per subject: intris_mat (8), world2cam (8), image_size (9), ioi_offset
ROOT/meta/object_vtemplates/box/mesh.obj   in millimetres

MANO: 45 axis-angle numbers on top of the mean pose, metres, in the motion capture's frame, which is the base frame
here. Picture number k shows frame k - ioi_offset. An object's pose is its bottom part's; the top turns about -z by
the articulation. The worn camera moves, and its lens distorts by OpenCV's rational model: its pictures are
straightened. It is called `worn` and comes last, so that a still one is taken where the user names none.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
from jaxtyping import Float

from dexprior.data.importers.base import ImportContext, Imported, Importer, Mesh, View
from dexprior.data.importers.files import opencv_camera, path_view, picture_view, rigid, subfolders
from dexprior.data.importers.lenses import rational_lens, straightened
from dexprior.data.importers.mano_parameters import MANO_TO_MEDIAPIPE, ManoRecord, mano_hand
from dexprior.data.importers.tracks import object_track
from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_from_axis_angle
from dexprior.reading import entries, integer, numbers, read_json, read_pickled_npy
from dexprior.types import Channel, Side

__all__ = ["ARCTIC"]

_FPS = 30.0


def _episodes(folder: Path) -> list[str]:
    return [
        f"{subject.name}/{path.name.removesuffix('.mano.npy')}"
        for subject in subfolders(folder / "raw_seqs")
        for path in sorted(subject.glob("*.mano.npy"))
    ]


def _read(folder: Path, name: str, context: ImportContext) -> Imported:
    subject, _, sequence = name.partition("/")
    raw = folder / "raw_seqs" / subject
    mano = read_pickled_npy(raw / f"{sequence}.mano.npy")
    params = numbers(read_pickled_npy(raw / f"{sequence}.object.npy"), f"{sequence}.object.npy", finite=False)
    if params.ndim != 2 or params.shape[1] != 7:
        raise BadInput(f"{sequence}.object.npy has shape {params.shape}, expected (frame, 7)")
    n = len(params)
    t = np.arange(n) / _FPS
    problems = ["which axis of the motion capture's frame points up is not stated"]
    joints = _stored_joints(folder / "processed_seqs" / subject / f"{sequence}.npy", n)
    hands = []
    for side in get_args(Side):
        record = _record(entries(mano, (side,), f"{sequence}.mano.npy")[0], side, t, joints.get(side))
        hand, notes = mano_hand(record, context)
        problems += notes
        hands += [] if hand is None else [hand]

    label = sequence.split("_")[0]
    pose = np.concatenate([params[:, 4:] / 1000, quat_from_axis_angle(params[:, 1:4])], axis=1)
    thing = object_track(label, t, pose, np.ones(n, dtype=bool))
    mesh = folder / "meta" / "object_vtemplates" / label / "mesh.obj"
    signals = {}
    if np.isfinite(params[:, 0]).all():
        signals["articulation"] = Channel(
            t=t, t_host=t, value=params[:, :1], unit="rad", frame=f"object {label}", kind="measured"
        )
    views, missing = _views(folder, subject, sequence, n)
    return Imported(
        kind="arctic",
        episode=name,
        licence=ARCTIC.licence,
        source="https://arctic.is.tue.mpg.de",
        views=tuple(views),
        hands=tuple(hands),
        objects=() if thing is None else (thing,),
        meshes={label: Mesh(path=mesh, scale=0.001)} if mesh.is_file() else {},
        target=None if thing is None else label,
        signals=signals,
        ids={"subject": subject, "action": sequence.split("_")[1] if "_" in sequence else ""},
        problems=(*problems, *missing),
    )


def _record(mano: Any, side: Side, t: np.ndarray, joints: np.ndarray | None) -> ManoRecord:
    n, where = len(t), f"the {side} hand"
    rotation, pose, translation, shape = entries(mano, ("rot", "pose", "trans", "shape"), where)
    shapes = numbers(shape, f"{where}: shape", -1, 10, finite=False)
    arrays = [numbers(a, where, finite=False) for a in (rotation, pose, translation)]
    for label, array, width in zip(("rot", "pose", "trans"), arrays, (3, 45, 3)):
        if array.shape != (n, width):
            raise BadInput(f"{where}: {label} has shape {array.shape}, expected ({n}, {width})")
    return ManoRecord(
        side=side,
        t=t,
        rotation=arrays[0],
        fingers=arrays[1],
        pca=False,
        flat_hand_mean=False,
        translation=arrays[2],
        betas=numbers(np.median(shapes, axis=0), f"{where}: shape", 10),
        valid=np.ones(n, dtype=bool),
        joints=joints,
    )


def _stored_joints(path: Path, n: int) -> dict[str, Float[np.ndarray, "time 21 3"]]:
    if not path.is_file():
        return {}
    (world,) = entries(read_pickled_npy(path), ("world_coord",), path)
    joints = entries(world, [f"joints.{side}" for side in get_args(Side)], path)
    found = {side: numbers(stored, path, finite=False) for side, stored in zip(get_args(Side), joints)}
    for side, stored in found.items():
        if stored.shape != (n, 21, 3):
            raise BadInput(f"{path}: joints.{side} has shape {stored.shape}, expected ({n}, 21, 3)")
    return {side: stored[:, MANO_TO_MEDIAPIPE] for side, stored in found.items()}


def _views(folder: Path, subject: str, sequence: str, n: int) -> tuple[list[View], list[str]]:
    root = folder / "images" / subject / sequence
    if not root.is_dir():
        return [], [f"no pictures at {root}"]
    where = folder / "meta" / "misc.json"
    (misc,) = entries(read_json(where), (subject,), where)
    K, T_cam_world, offset = entries(misc, ("intris_mat", "world2cam", "ioi_offset"), where)
    K, T_cam_world = numbers(K, f"{where}: intris_mat", 8, 3, 3), numbers(T_cam_world, f"{where}: world2cam", 8, 4, 4)
    offset = integer(offset, f"{where}: ioi_offset")
    views: list[View] = []
    problems = []
    for k in range(8):
        pictures = root / str(k + 1)
        try:
            T_base_cam = np.linalg.inv(rigid(T_cam_world[k]))
            paths = [pictures / f"{i + offset:05d}.jpg" for i in range(n)]
            views.append(path_view(str(k + 1), paths, fps=_FPS, camera=partial(opencv_camera, K[k], T_base_cam)))
        except BadInput as error:
            problems.append(f"camera {k + 1} is left out: {error}")
    try:
        ego = folder / "raw_seqs" / subject / f"{sequence}.egocam.dist.npy"
        views.append(_worn(ego, [root / "0" / f"{i + offset:05d}.jpg" for i in range(n)]))
    except BadInput as error:
        problems.append(f"the worn camera is left out: {error}")
    return views, problems


def _worn(path: Path, pictures: list[Path]) -> View:
    """The camera on the head."""
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    names = ("R_k_cam_np", "T_k_cam_np", "intrinsics", "dist8")
    R, T, K, d = entries(read_pickled_npy(path), names, path)
    n = len(pictures)
    K, d = numbers(K, f"{path}: intrinsics", 3, 3), numbers(np.ravel(d), f"{path}: dist8", 8)
    T_cam_world = np.tile(np.eye(4), (n, 1, 1))
    T_cam_world[:, :3, :3] = numbers(R, f"{path}: R_k_cam_np", n, 3, 3)
    T_cam_world[:, :3, 3] = numbers(T, f"{path}: T_k_cam_np").reshape(n, 3)
    camera = partial(opencv_camera, K, np.linalg.inv(rigid(T_cam_world)))
    through = path_view("worn", pictures, fps=_FPS, camera=camera)
    assert through.camera is not None

    def load(k: int, size: tuple[int, int] | None) -> np.ndarray:
        return through.read(size, k, k + 1)[0]

    straight = straightened(load, rational_lens(K, d), through.camera.K, through.height, through.width)
    return picture_view("worn", n, straight, fps=_FPS, camera=camera, lens="rational, straightened")


ARCTIC = Importer(
    title="ARCTIC: two hands use articulated objects, motion capture, eight still cameras and one on the head",
    licence="ARCTIC licence: non-commercial scientific research, no redistribution",
    episodes=_episodes,
    read=_read,
)
