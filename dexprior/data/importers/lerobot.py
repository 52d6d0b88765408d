"""LeRobotDatasets v3.0 and v2.1: our own exports, human-hand sets, and any other as video and signals.

Layout in `dexprior.data.lerobot.layout`. What a feature means is not part of the format, so:

- an export of ours is read back as the episode that it was (`meta/dexprior/`), or, where that folder was lost, from its
  columns, which have our names;
- glove sets with `observation.state.hand_joints` of two hands with 25 joints each, such as
  OpenGraphLabs-Research/manus-egocentric-sample (Apache-2.0, 1920 x 1080 egocentric video, v2.1 layout), give hands
  where the user says which hand comes first (`hand_order`), as the data set's card does not. The joints are taken to be
  Manus' raw skeleton: wrist, four of the thumb, five of each finger, of which the first is the metacarpal's base;
- everything else numeric becomes a signal under its own name, and every camera a view, whether its pictures are a video
  or stand in the rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import from_tensors, read_tensors
from dexprior.data.episodes import check_schema
from dexprior.data.importers.base import ImportContext, Imported, Importer, View
from dexprior.data.importers.checks import last_measured, measured
from dexprior.data.importers.files import decode_picture, picture_view
from dexprior.data.importers.tracks import object_track
from dexprior.data.importers.videos import read_span, video_view
from dexprior.data.lerobot import layout
from dexprior.data.lerobot.reader import LeRobotFolder, names_of
from dexprior.data.lerobot.writer import IMAGES, SIDECAR, STATE_NAMES, VIDEO_KEY
from dexprior.errors import BadInput
from dexprior.types import Camera, Channel, ChannelKind, Episode, HandTrajectory, ObjectTrajectory, WrenchTrack
from dexprior.types.episode import View as EpisodeView

__all__ = ["GLOVE_TO_MEDIAPIPE", "LEROBOT"]

GLOVE_TO_MEDIAPIPE = (0, 1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 18, 19, 21, 22, 23, 24)
"""Manus' 25 joints -> MediaPipe's 21: without the base of each finger's metacarpal."""

_GLOVES = "observation.state.hand_joints"


def _episodes(folder: Path) -> list[str]:
    return [f"episode-{int(row['episode_index']):06d}" for row in LeRobotFolder(folder).episodes]


def _read(folder: Path, name: str, context: ImportContext) -> Imported:
    data = LeRobotFolder(folder)
    index = int(name.rpartition("-")[2])
    episode = next(row for row in data.episodes if int(row["episode_index"]) == index)
    path = folder / SIDECAR.format(episode_index=index)
    views, problems = _views(data, episode)
    text = data.task_of(episode)
    about: dict[str, Any] = {
        "kind": "lerobot",
        "episode": name,
        "licence": context.settings.licence or _licence(folder),
        "source": str(folder),
        "views": tuple(views),
        "text": text,
        "ids": {
            "robot_type": data.info.get("robot_type"),
            "codebase_version": data.info["codebase_version"],
            "names": {key: names for key, f in data.features.items() if (names := names_of(f))},
        },
    }
    if path.is_file():
        return Imported(**about, problems=tuple(problems), exact=partial(_exact, data, episode, path))
    rows = data.rows(episode)
    n = len(next(iter(rows.values())))
    t = np.arange(n) / data.fps
    problems += _clock(rows, data.fps)
    hands: list[HandTrajectory] = []
    objects: list[ObjectTrajectory] = []
    wrench = None
    ours = tuple(data.features.get("observation.state", {}).get("names") or ()) == STATE_NAMES
    if ours:
        hands, objects, wrench = _ours(rows, t)
        problems.append("exported without its meta/dexprior folder: shape, camera and cloud are lost")
    elif _GLOVES in rows:
        hands, notes = _gloves(rows[_GLOVES], t, context)
        problems += notes
    signals = {}
    for key, value in rows.items():
        if key in layout.INDEX_FEATURES or (ours and key.startswith(("observation.", "action"))):
            continue
        value = value.reshape(n, -1)
        if not measured(value).all():
            problems.append(f"{key} holds values that are not finite and is left out")
            continue
        kind: ChannelKind = "commanded" if key.split(".")[0] == "action" else "measured"
        signals[key] = Channel(t=t, t_host=t, value=value, unit="1", frame="-", kind=kind)
    return Imported(
        **about,
        hands=tuple(hands),
        objects=tuple(objects),
        target=objects[0].object if objects else None,
        wrench=wrench,
        touch=ours,
        signals=signals,
        problems=tuple(problems),
    )


def _views(data: LeRobotFolder, episode: Mapping[str, Any]) -> tuple[list[View], list[str]]:
    views, problems = [], []
    for key in data.video_keys:
        span = data.video(episode, key)
        view = video_view(key.removeprefix("observation.images."), span.path, start=span.start, stop=span.stop)
        length = int(episode.get("length", view.frames))
        if view.frames != length:
            raise BadInput(f"{view.frames} pictures of {key} for {length} rows")
        if abs(view.fps - data.fps) > 0.01 * data.fps:
            problems.append(f"{key} says {view.fps:g} frames a second, info.json {data.fps:g}")
        views.append(view)
    for key in data.image_keys:
        pictures = data.pictures(episode, key)
        load = partial(_picture, pictures, f"{data.root}, episode {int(episode['episode_index'])}: {key}")
        name = key.removeprefix("observation.images.")
        views.append(picture_view(name, len(pictures), load, fps=data.fps, lens="unknown"))
    if data.depth_keys:
        problems.append(f"depth maps are left out: {', '.join(data.depth_keys)}")
    return views, problems


def _picture(pictures: list[bytes | Path], where: str, k: int, size: tuple[int, int] | None) -> np.ndarray:
    source = pictures[k]
    return decode_picture(BytesIO(source) if isinstance(source, bytes) else source, f"{where}, row {k}", size)


def _clock(rows: Mapping[str, np.ndarray], fps: float) -> list[str]:
    """LeRobot's readers refuse time stamps that stray from frame_index / fps."""
    if "timestamp" not in rows or "frame_index" not in rows:
        return []
    stray = float(np.abs(rows["timestamp"].ravel() - rows["frame_index"].ravel() / fps).max())
    return [f"time stamps stray {1000 * stray:.1f} ms from a constant rate"] if stray > 1e-3 else []


def _exact(data: LeRobotFolder, episode: Mapping[str, Any], path: Path) -> Episode:
    tensors, meta = read_tensors(path)
    check_schema(meta.get("header", {}).get("schema"), path)

    def frames(key: str) -> np.ndarray:
        span = data.video(episode, key)
        return read_span(span.path, span.start, span.start + int(episode["length"]))

    tensors["0.sample.frames"] = frames(VIDEO_KEY)
    views = []
    for row in meta["views"]:
        camera = row["camera"] | {name: np.array(row["camera"][name]) for name in ("K", "T_base_cam")}
        views.append(EpisodeView(name=row["name"], camera=Camera(**camera), frames=frames(IMAGES + row["name"])))
    return dataclasses.replace(from_tensors(meta["tree"][0], tensors), views=tuple(views))


def _ours(
    rows: Mapping[str, np.ndarray], t: Float[np.ndarray, " time"]
) -> tuple[list[HandTrajectory], list[ObjectTrajectory], WrenchTrack]:
    n, state = len(t), rows["observation.state"]
    hand = HandTrajectory(
        t=t,
        side="right",
        wrist_pose=np.concatenate([state[:, :3], _unit(state[:, 3:7])], axis=1),
        finger_pose=state[:, 7:],
        betas=np.zeros(10),
        joints=rows["observation.hand.joints"].reshape(n, 21, 3),
        contact=np.clip(rows["observation.hand.contact"], 0, 1),
        force=np.maximum(rows["observation.hand.force"], 0),
        valid=rows["observation.hand.valid"].astype(bool),
        sigma=np.zeros((n, 21)),
        scale_known=True,
    )
    pose = rows["observation.object.pose"]
    pose = np.concatenate([pose[:, :3], _unit(pose[:, 3:])], axis=1)
    thing = object_track("object", t, pose, rows["observation.object.valid"].astype(bool))
    wrench = WrenchTrack(t=t, wrench=rows["observation.wrench"], tared=False, gravity_compensated=False)
    return [hand], [] if thing is None else [thing], wrench


def _unit(quat: np.ndarray) -> np.ndarray:
    return quat / np.linalg.norm(quat, axis=-1, keepdims=True)


def _gloves(
    values: Float[np.ndarray, "time n"], t: Float[np.ndarray, " time"], context: ImportContext
) -> tuple[list[HandTrajectory], list[str]]:
    if values.shape[1:] != (150,):
        return [], [f"{_GLOVES} has shape {values.shape}: not two hands of 25 joints, kept as a signal"]
    order = context.settings.hand_order
    if order is None:
        return [], [
            f"{_GLOVES}: which hand comes first is not documented; give imports.hand_order=[left,right] or "
            "[right,left], else it stays a signal"
        ]
    if context.fit is None:
        return [], [f"{_GLOVES}: nothing was given that fits a hand to joints"]
    hands, problems = [], []
    for side, block in zip(order, np.moveaxis(values.reshape(len(t), 2, 25, 3), 1, 0)):
        joints = block[:, GLOVE_TO_MEDIAPIPE]
        seen = measured(joints) & (np.ptp(joints, axis=1).max(axis=-1) > 0)  # an absent glove is all zeros
        if not seen.any():
            problems.append(f"the {side} glove was not recorded")
            continue
        if lost := int((~seen).sum()):
            problems.append(f"{lost} frames of the {side} glove count as not measured")
        held = joints[last_measured(seen, f"the {side} glove")]
        hands.append(context.fit(held, t, side, scale_known=True, valid=seen, sigma=0.005))
    if hands:
        problems.append(
            "gloves measure each hand in a frame of its own: the hands are not in the camera's or the base frame"
        )
    return hands, problems


def _licence(folder: Path) -> str:
    """The licence in the front matter of the data set's README, as the Hugging Face hub has it."""
    readme = folder / "README.md"
    if readme.is_file():
        head = readme.read_text(encoding="utf-8", errors="replace").split("---")
        for line in head[1].splitlines() if len(head) > 2 else ():
            if line.strip().startswith("license:"):
                return line.partition(":")[2].strip()
    return "not stated"


LEROBOT = Importer(
    title="LeRobotDataset v3.0 and v2.1: exports of ours, human-hand sets, robots",
    licence="as stated by the data set",
    episodes=_episodes,
    read=_read,
)
