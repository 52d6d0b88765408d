"""A user's own recordings: a video, the hand's landmarks, and whatever else was measured.

FOLDER/NAME/video.mp4       the pictures
            landmarks.npz   joints (time, 21, 3) in MediaPipe order, fps, hand ("left" or "right"); optional: valid
                            (time), contact (time, 5), force (time, 5) [N]
            episode.yaml    optional: text, licence, unit of the landmarks, what the wrench needs; see `EpisodeNotes`
            camera.yaml     optional: fx, fy, cx, cy in OpenCV's convention, T_base_cam (4 x 4)
            camera.npz      optional: pose (time, 7) [x y z qw qx qy qz] of a camera that moves, in place of T_base_cam
            object.npz      optional: pose (time, 7) [x y z qw qx qy qz] in the base frame, name; optional valid (time)
            mesh.obj        optional: the object's mesh in metres
            wrench.csv      optional: see `dexprior.data.importers.force_torque`

or, for a video with landmarks and nothing else, FOLDER/NAME.mp4 beside FOLDER/NAME.npz.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dexprior.config import config, validate
from dexprior.data.importers.base import ImportContext, Imported, Importer, Mesh
from dexprior.data.importers.checks import measured
from dexprior.data.importers.files import opencv_camera, subfolders
from dexprior.data.importers.force_torque import SynchronisationConfig, find_lag, onto_clock, read_force_torque
from dexprior.data.importers.tracks import object_track
from dexprior.data.importers.videos import video_view
from dexprior.errors import BadInput
from dexprior.geometry.transforms import matrix_from_pose
from dexprior.reading import entries, mapping, number, numbers, read_npz, read_yaml
from dexprior.types import Camera, HandTrajectory, ObjectTrajectory, WrenchTrack

__all__ = ["RECORDING", "EpisodeNotes", "WrenchNotes"]


@config
class WrenchNotes:
    """How `wrench.csv` belongs to the video."""

    synchronise: Literal["clock", "force", "acceleration"] = "clock"
    """`clock`: both share one, up to `offset`. `force`: by the landmarks file's fingertip forces. `acceleration`: by
    how hard the wrist is accelerated."""
    offset: float = 0.0
    """Seconds from the sensor's clock to the video's, whose first frame is at zero."""
    tared: bool = False
    """Whether the reading without load was subtracted."""
    gravity_compensated: bool = False
    """Whether the tool's weight was subtracted."""
    search: SynchronisationConfig = SynchronisationConfig()
    """When a lag is believed."""


@config
class EpisodeNotes:
    """What `episode.yaml` may say."""

    text: str | None = None
    """Sentence that names the task."""
    licence: str | None = None
    """Licence of this recording."""
    unit: Literal["m", "mm"] = "m"
    """Unit of the landmarks."""
    scale_known: bool = True
    """False for landmarks of an average hand, as a single camera gives."""
    wrench: WrenchNotes = WrenchNotes()
    """How the force-torque recording belongs to the video."""


_CAMERA = ("fx", "fy", "cx", "cy", "T_base_cam")


def _episodes(folder: Path) -> list[str]:
    nested = [p.name for p in subfolders(folder) if (p / "landmarks.npz").is_file() or (p / "video.mp4").is_file()]
    alone = [path.name if path.stem in nested else path.stem for path in folder.glob("*.mp4")]
    return sorted([*nested, *alone])  # NAME.mp4 where a folder is called NAME, too


def _read(folder: Path, name: str, context: ImportContext) -> Imported:
    root = folder / name
    nested = root.is_dir()
    video, landmarks = (root / "video.mp4", root / "landmarks.npz") if nested else (
        folder / f"{name.removesuffix('.mp4')}.mp4", folder / f"{name.removesuffix('.mp4')}.npz"
    )  # fmt: skip
    where = root / "episode.yaml"
    notes = EpisodeNotes()
    if where.exists() and (said := read_yaml(where)) is not None:
        notes = validate(EpisodeNotes, mapping(said, where), where=str(where))
    problems: list[str] = []
    camera = None
    if (root / "camera.yaml").exists():
        camera = _camera(root / "camera.yaml", root / "camera.npz")
    else:
        problems.append("no camera.yaml: the camera is not calibrated")
    view = video_view("video", video, camera=camera, lens="unknown" if camera is None else "pinhole")
    raw = read_npz(landmarks, absent="Landmarks stand beside the video.")
    joints, fps, side = entries(raw, ("joints", "fps", "hand"), landmarks)
    fps = number(numbers(fps, f"{landmarks}: fps", 1)[0], f"{landmarks}: fps", low=0.1, high=10_000)
    joints = numbers(joints, f"{landmarks}: joints", finite=False, most=1e5)
    n = len(joints)
    if joints.ndim != 3 or joints.shape[1:] != (21, 3):
        raise BadInput(f"{landmarks}: joints have shape {joints.shape}, expected (time, 21, 3)")
    if abs(fps - view.fps) > 0.01 * view.fps:
        raise BadInput(f"{landmarks} has {fps:g} frames a second, {video.name} has {view.fps:g}")
    t = np.arange(n) / fps
    hand, why = _hand(raw, joints * (0.001 if notes.unit == "mm" else 1.0), t, str(side).lower(), notes, context)
    problems += why
    things, meshes = _object(root, t)
    wrench = None
    if (root / "wrench.csv").exists():
        wrench, why = _wrench(root / "wrench.csv", t, hand, "force" in raw, notes.wrench)
        problems += why
    text = notes.text or context.settings.text
    return Imported(
        kind="recording",
        episode=name,
        licence=notes.licence or context.settings.licence or "not stated",
        source=str(root if nested else video),
        views=(view,),
        hands=() if hand is None else (hand,),
        objects=tuple(things),
        meshes=meshes,
        target=things[0].object if things else None,
        wrench=wrench,
        touch="contact" in raw and "force" in raw,
        text=(text,) if text else (),
        problems=tuple(problems),
    )


def _camera(path: Path, motion: Path) -> Callable[[int, int], Camera]:
    values = mapping(read_yaml(path), path)
    if unknown := sorted(set(values) - set(_CAMERA)):
        raise BadInput(f"{path}: unknown key {unknown[0]!r}; choices: {', '.join(_CAMERA)}")
    fx, fy, cx, cy = numbers(entries(values, ("fx", "fy", "cx", "cy"), path), str(path), 4)
    if not motion.exists():
        T = numbers(values.get("T_base_cam", np.eye(4)), f"{path}: T_base_cam", 4, 4)
    elif "T_base_cam" in values:
        raise BadInput(
            f"{path} holds T_base_cam of a camera that stands still, and {motion.name} poses of one that moves"
        )
    else:
        (pose,) = entries(read_npz(motion, absent=""), ("pose",), motion)
        pose = numbers(pose, f"{motion}: pose", most=1e5)
        if pose.ndim != 2 or pose.shape[1] != 7:
            raise BadInput(f"{motion}: pose has shape {pose.shape}, expected (time, 7)")
        T = matrix_from_pose(pose)
    return partial(opencv_camera, np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1.0]]), T)


def _hand(
    raw: dict[str, np.ndarray],
    joints: np.ndarray,
    t: np.ndarray,
    side: str,
    notes: EpisodeNotes,
    context: ImportContext,
) -> tuple[HandTrajectory | None, list[str]]:
    if side not in ("left", "right"):
        raise BadInput(f"landmarks.npz: hand = {side!r}; choices: left, right")
    valid = measured(joints)
    problems = []
    if "valid" in raw:
        given = np.asarray(raw["valid"], dtype=bool)
        if given.shape != valid.shape:
            raise BadInput(f"landmarks.npz: valid has shape {given.shape} for {len(joints)} frames")
        if lost := int((given & ~valid).sum()):
            problems.append(f"{lost} frames of landmarks are not finite and count as not measured")
        valid &= given
    elif not valid.all():
        problems.append(f"{int((~valid).sum())} frames of landmarks are not finite and count as not measured")
    if not valid.any():
        raise BadInput("no frame of the landmarks is finite and valid")
    if context.fit is None:
        return None, [*problems, "the hand is left out: nothing was given that fits a hand to landmarks"]
    hand = context.fit(
        joints, t, "left" if side == "left" else "right", scale_known=notes.scale_known, valid=valid, sigma=0.005
    )
    touch: dict[str, Any] = {}
    for key in ("contact", "force"):
        if key in raw:
            rows = numbers(raw[key], f"landmarks.npz: {key}", finite=False)
            if rows.shape != (len(joints), 5) or not np.isfinite(rows).all():
                raise BadInput(f"landmarks.npz: {key} has shape {rows.shape}, expected finite ({len(joints)}, 5)")
            touch[key] = rows
    return dataclasses.replace(hand, **touch), problems


def _object(root: Path, t: np.ndarray) -> tuple[list[ObjectTrajectory], dict[str, Mesh]]:
    path = root / "object.npz"
    if not path.exists():
        return [], {}
    raw = read_npz(path, absent="")
    (pose,) = entries(raw, ("pose",), path)
    pose = numbers(pose, f"{path}: pose", finite=False, most=1e5)
    if pose.shape != (len(t), 7):
        raise BadInput(f"{path}: pose has shape {pose.shape}, expected ({len(t)}, 7)")
    name = str(raw.get("name", "object"))
    valid = np.asarray(raw.get("valid", np.ones(len(t))), dtype=bool)
    if valid.shape != (len(t),):
        raise BadInput(f"{path}: valid has shape {valid.shape}, expected ({len(t)},)")
    thing = object_track(name, t, pose, valid)
    if thing is None:
        raise BadInput(f"{path}: the object's pose is finite in no frame")
    mesh = root / "mesh.obj"
    return [thing], {name: Mesh(path=mesh)} if mesh.is_file() else {}


def _wrench(
    path: Path, t: np.ndarray, hand: HandTrajectory | None, has_force: bool, notes: WrenchNotes
) -> tuple[WrenchTrack | None, list[str]]:
    samples = read_force_torque(path)
    problems = list(samples.problems)
    offset = notes.offset
    if notes.synchronise != "clock":
        if hand is None or (notes.synchronise == "force" and not has_force):
            raise BadInput(f"{path.name} is synchronised by {notes.synchronise}, which this recording has not")
        if notes.synchronise == "force":
            reference = hand.force.sum(axis=1)
        else:
            velocity = np.gradient(hand.joints[:, 0], t, axis=0)
            reference = np.linalg.norm(np.gradient(velocity, t, axis=0), axis=1)
        strength = np.linalg.norm(samples.wrench[:, :3] - np.median(samples.wrench[:, :3], axis=0), axis=1)
        lag = find_lag(samples.t + offset, strength, t, reference, notes.search)
        offset += lag.seconds
        problems.append(
            f"forces were shifted by {lag.seconds:+.3f} s by cross-correlation (peak {lag.peak:.2f}, "
            f"{min(lag.sharpness, 99.0):.1f} times the second best)"
        )
    wrench = onto_clock(samples, t, offset, tared=notes.tared, compensated=notes.gravity_compensated)
    return wrench, problems


RECORDING = Importer(
    title="video with hand landmarks, and optionally camera, object and force-torque recording",
    licence="as stated by the user",
    episodes=_episodes,
    read=_read,
)
