"""HOT3D-Clips (Banerjee et al. 2024, "HOT3D: Hand and Object Tracking in 3D from Egocentric Multi-View Videos").

Layout and conventions from https://github.com/facebookresearch/hot3d (`hot3d/clips/README.md`, `clip_util.py`,
`hot3d/data_loaders/mano_layer.py`); the VRS recordings of the full set need Meta's own tools and are not read.

ROOT/train_aria/clip-001849.tar, one archive a clip of 150 frames:
    000000.image_214-1.jpg, 000000.cameras.json, 000000.hands.json, 000000.objects.json, 000000.info.json
    __hand_shapes.json__
ROOT/object_models_eval/obj_000001.glb

Quaternions are scalar first, positions in metres in a world that stands still while the cameras on the head move.
MANO: the first 15 PCA coefficients on top of the mean pose; rotation and translation in `wrist_xform`; one shape
for both hands, the left model's shape directions mirrored (smplx issue 48). The cameras are fisheyes (FISHEYE624):
their pictures are straightened to those of a pinhole with the fisheye's focal length in its middle.
"""

from __future__ import annotations

import tarfile
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
from jaxtyping import Float

from dexprior.data.importers.base import ImportContext, Imported, Importer, Mesh, View
from dexprior.data.importers.files import decode_picture, opencv_camera, picture_view
from dexprior.data.importers.lenses import fisheye624_lens, straightened
from dexprior.data.importers.mano_parameters import ManoRecord, mano_hand
from dexprior.data.importers.tracks import most_moved, object_track
from dexprior.errors import BadInput
from dexprior.geometry.transforms import matrix_from_pose
from dexprior.reading import entries, numbers, parse_json
from dexprior.types import Side

__all__ = ["HOT3D"]

_FPS = 30.0
_COEFFICIENTS = 15


def _episodes(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in sorted(folder.glob("**/clip-*.tar"))]


class _Clip:
    """One archive; members are read by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with tarfile.open(path, "r:") as archive:  # members are read where they lie in the file
                self.members = {m.name: (m.offset_data, m.size) for m in archive.getmembers() if m.isfile()}
        except (tarfile.TarError, OSError, EOFError) as error:
            raise BadInput(f"{path} is not a tar archive, or it is truncated: {error}") from None

    def bytes(self, name: str) -> bytes:
        if name not in self.members:
            raise BadInput(f"{self.path} holds no {name}")
        offset, size = self.members[name]
        with self.path.open("rb") as stream:
            stream.seek(offset)
            data = stream.read(size)
        if len(data) < size:
            raise BadInput(f"{self.path} is truncated inside {name}")
        return data

    def json(self, name: str) -> Any:
        return parse_json(self.bytes(name), f"{self.path}: {name}")


def _read(folder: Path, name: str, context: ImportContext) -> Imported:
    clip = _Clip(folder / name)
    keys = sorted(m.removesuffix(".info.json") for m in clip.members if m.endswith(".info.json"))
    if len(keys) < 2:
        raise BadInput(f"{clip.path} holds {len(keys)} frames (files *.info.json)")
    n, t = len(keys), np.arange(len(keys)) / _FPS
    views = _views(clip, keys)
    problems = [
        f"camera {v.name} has a {v.lens} lens: pictures come without a pinhole calibration"
        for v in views
        if v.camera is None
    ]
    hands, notes = _hands(clip, keys, t, context)
    problems += notes
    tracks: dict[str, np.ndarray] = {}
    for k, key in enumerate(keys):
        if f"{key}.objects.json" in clip.members:
            for label, instance in _instances(clip.json(f"{key}.objects.json")):
                rows = tracks.setdefault(label, np.full((n, 7), np.nan))
                (T,) = entries(instance, ("T_world_from_object",), f"{key}.objects.json")
                rows[k] = _pose(T, f"{key}.objects.json: {label}")
    if not tracks:
        problems.append("object poses are not published for this split")
    objects = [object_track(label, t, rows, np.ones(n, dtype=bool)) for label, rows in sorted(tracks.items())]
    found = [thing for thing in objects if thing is not None]
    meshes = {thing.object: _mesh(folder, thing.object) for thing in found}
    info = clip.json(f"{keys[0]}.info.json")
    return Imported(
        kind="hot3d",
        episode=name,
        licence=HOT3D.licence,
        source="https://facebookresearch.github.io/hot3d",
        views=tuple(views),
        hands=hands,
        objects=tuple(found),
        meshes={label: Mesh(path=path) for label, path in meshes.items() if path is not None},
        target=most_moved(found),
        ids={k: info[k] for k in ("participant_id", "sequence_id", "device") if k in info},
        problems=tuple(problems),
    )


def _pose(T: Any, where: str) -> Float[np.ndarray, " 7"]:
    quaternion, translation = entries(T, ("quaternion_wxyz", "translation_xyz"), where)
    quat = numbers(quaternion, where, 4)
    return np.concatenate([numbers(translation, where, 3), quat / np.linalg.norm(quat)])


def _views(clip: _Clip, keys: list[str]) -> list[View]:
    cameras = [clip.json(f"{key}.cameras.json") for key in keys]
    views = []
    for stream in sorted(cameras[0]):
        names = [f"{key}.image_{stream}.jpg" for key in keys]
        if missing := [name for name in names if name not in clip.members]:
            raise BadInput(
                f"{clip.path}: {len(missing)} pictures of camera {stream} are missing, the first is {missing[0]}"
            )
        records = [entries(c, (stream,), f"{clip.path}: cameras.json")[0] for c in cameras]
        poses = [
            _pose(entries(r, ("T_world_from_camera",), f"camera {stream}")[0], f"camera {stream}") for r in records
        ]
        (calibration,) = entries(records[0], ("calibration",), f"camera {stream}")
        where = f"camera {stream}: calibration"
        model, numbers_of = entries(calibration, ("projection_model_type", "projection_params"), where)
        lens = str(model).rpartition(".")[2]

        def load(k: int, size: tuple[int, int] | None, names: list[str] = names) -> np.ndarray:
            import io

            return decode_picture(io.BytesIO(clip.bytes(names[k])), f"{clip.path}: {names[k]}", size)

        if lens != "FISHEYE624":
            views.append(picture_view(stream, len(keys), load, fps=_FPS, lens=lens))
            continue
        parameters = numbers(numbers_of, f"{where}: projection_params", 15)
        if not parameters[0] > 0:
            raise BadInput(f"{where}: projection_params begin with a focal length of {parameters[0]:g}")
        T_base_cam = matrix_from_pose(np.stack(poses))
        K = np.array([[parameters[0], 0, parameters[1]], [0, parameters[0], parameters[2]], [0, 0, 1.0]])
        height, width = load(0, None).shape[:2]
        camera = opencv_camera(K, T_base_cam, height, width)
        straight = straightened(load, fisheye624_lens(parameters), camera.K, height, width)
        views.append(
            picture_view(
                stream, len(keys), straight, fps=_FPS, camera=partial(opencv_camera, K, T_base_cam),
                lens=f"{lens}, straightened",
            )
        )  # fmt: skip
    return views


def _hands(
    clip: _Clip, keys: list[str], t: Float[np.ndarray, " time"], context: ImportContext
) -> tuple[tuple[Any, ...], list[str]]:
    if "__hand_shapes.json__" not in clip.members:
        return (), ["hand shapes are not published for this split"]
    (shape,) = entries(clip.json("__hand_shapes.json__"), ("mano",), "__hand_shapes.json__")
    betas = numbers(shape, "__hand_shapes.json__: mano", 10)
    n = len(keys)
    rows = {side: np.full((n, _COEFFICIENTS + 6), np.nan) for side in get_args(Side)}
    for k, key in enumerate(keys):
        found = clip.json(f"{key}.hands.json") if f"{key}.hands.json" in clip.members else {}
        for side in rows:
            if side in found:
                where = f"{key}.hands.json: {side}"
                (mano,) = entries(found[side], ("mano_pose",), where)
                thetas, wrist = entries(mano, ("thetas", "wrist_xform"), where)
                # a NaN here marks the frame, and not the clip, as not measured
                values = np.concatenate([np.asarray(v, dtype=np.float64).ravel() for v in (thetas, wrist)])
                if values.shape != rows[side][k].shape:
                    raise BadInput(
                        f"{where}: {values.size} numbers, expected {_COEFFICIENTS} thetas and 6 of wrist_xform"
                    )
                rows[side][k] = values
    hands: list[Any] = []
    problems: list[str] = []
    sides: tuple[Side, ...] = get_args(Side)
    for side in sides:
        valid = np.isfinite(rows[side]).all(axis=1)
        if not valid.any():
            continue
        record = ManoRecord(
            side=side,
            t=t,
            rotation=rows[side][:, _COEFFICIENTS : _COEFFICIENTS + 3],
            fingers=rows[side][:, :_COEFFICIENTS],
            pca=True,
            flat_hand_mean=False,
            translation=rows[side][:, _COEFFICIENTS + 3 :],
            betas=betas,
            valid=valid,
            mirrored_left_shape=True,
        )
        hand, notes = mano_hand(record, context)
        problems += notes
        hands += [] if hand is None else [hand]
    return tuple(hands), problems


def _instances(objects: Any) -> list[tuple[str, Any]]:
    """(name, record) of every object of a frame; a second instance of one object is numbered."""
    found = []
    for label, records in objects.items():
        for k, record in enumerate(records if isinstance(records, list) else [records]):
            found.append((f"obj_{int(label):06d}" + (f"_{k + 1}" if k else ""), record))
    return found


def _mesh(folder: Path, label: str) -> Path | None:
    name = "_".join(label.split("_")[:2])
    for models in (folder, folder.parent):
        for kind in ("object_models_eval", "object_models"):
            if (models / kind / f"{name}.glb").is_file():
                return models / kind / f"{name}.glb"
    return None


HOT3D = Importer(
    title="HOT3D-Clips: two hands and household objects seen by head-worn fisheye cameras",
    licence="CC-BY-SA-4.0 (recordings), CC-BY-NC-SA-4.0 (hands), CC-BY-SA without sale (object models)",
    episodes=_episodes,
    read=_read,
)
