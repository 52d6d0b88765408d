"""Our episodes as a LeRobotDataset v3.0, by pyarrow and PyAV alone."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dexprior.artifacts import file_hash, make_header, read_object, to_tensors, write_json, write_tensors
from dexprior.config import Ge, Gt, Le, config, config_hash, to_plain
from dexprior.data.episodes import EpisodeSet
from dexprior.data.lerobot import layout, statistics
from dexprior.data.lerobot.tables import Tables, table_of, write_tasks
from dexprior.data.objects import object_frame
from dexprior.data.shards import open_episodes
from dexprior.errors import ArtifactError, BadInput
from dexprior.reading import as_described, integer
from dexprior.types import FINGERS, HAND_JOINTS, MANO_JOINTS, Camera, Episode, HandTrajectory, Side

__all__ = ["IMAGES", "SIDECAR", "STATE_NAMES", "VIDEO_KEY", "LeRobotExport", "LeRobotExportConfig", "export_lerobot"]

IMAGES = "observation.images."
VIDEO_KEY = IMAGES + "main"
SIDECAR = "meta/dexprior/episode-{episode_index:06d}.safetensors"
"""All of an episode but its pixels, in double precision: LeRobot's readers ignore it, our importer reads it."""
_MARK = "meta/dexprior/export.json"

_POSE = ("x", "y", "z", "qw", "qx", "qy", "qz")
STATE_NAMES = (*(f"wrist.{a}" for a in _POSE), *(f"{joint}.r{a}" for joint in MANO_JOINTS[1:] for a in "xyz"))
"""`observation.state` and `action`: the wrist's pose [m, quaternion], then axis-angle of MANO's finger joints [rad]."""

_NAMES: dict[str, tuple[str, ...]] = {
    "observation.state": STATE_NAMES,
    "observation.hand.joints": tuple(f"{joint}.{a}" for joint in HAND_JOINTS for a in "xyz"),
    "observation.hand.contact": FINGERS,
    "observation.hand.force": FINGERS,
    "observation.hand.valid": ("valid",),
    "observation.object.pose": _POSE,
    "observation.object.valid": ("valid",),
    "observation.wrench": ("fx", "fy", "fz", "tx", "ty", "tz"),
    "action": STATE_NAMES,
}


@config
class LeRobotExportConfig:
    """How an export is laid out."""

    robot_type: str = "human_hand"
    """What info.json calls the embodiment."""
    data_file_mb: Annotated[float, Gt(0)] = 100.0
    """A parquet file is closed before it grows beyond this."""
    video_file_mb: Annotated[float, Gt(0)] = 200.0
    """A video file is closed before it grows beyond this."""
    crf: Annotated[int, Ge(0), Le(51)] = 18
    """H.264 quality, 0 (lossless) to 51."""
    side: Side | None = None
    """Whose columns an episode with two hands has; without a side such an episode is an error."""
    keyframe_interval: Annotated[int, Ge(1)] = 8
    """Frames from one keyframe to the next: random access decodes at most this many."""


@dataclass(frozen=True, kw_only=True)
class LeRobotExport:
    """What was written."""

    folder: Path
    episodes: int
    frames: int
    tasks: int
    written: bool
    """False where the same export was there already."""


def export_lerobot(folder: Path, out: Path, settings: LeRobotExportConfig | None = None) -> LeRobotExport:
    """Write the kept episodes of a folder as one LeRobotDataset v3.0.

    A row is a frame: one hand (wrist pose and finger angles as state, joints, contact, forces), the object's pose, the
    wrench, and as action the next frame's state. A second hand, camera, cloud, contact configurations and provenance,
    which LeRobot has no place for, go into one safetensors file an episode below `meta/dexprior/`. Depth is left out.

    The folder appears when it is complete: a killed export leaves nothing that looks like one. The same export again
    does nothing.

    Args:
        folder: our episodes.
        out: folder of the data set; it must not exist, unless it holds this very export.
        settings: file sizes and video quality; the defaults when omitted.

    Raises:
        ArtifactError: no kept episode, or an episode that cannot be read.
        BadInput: episodes of different rate or picture size, an episode with two hands and no `side`, or `out` holds
            something else.
    """
    settings = settings or LeRobotExportConfig()
    episodes = open_episodes(folder)
    if not len(episodes):
        raise ArtifactError(f"{folder} holds no kept episode; make some with `dexprior data`")
    mark = config_hash([settings, [_fingerprint(episodes, k) for k in range(len(episodes))]])
    if out.exists():
        return _existing(out, mark)
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        writer = _Writer(partial, settings)
        for k in range(len(episodes)):
            writer.add(episodes.row(k)["id"], episodes.read(k))
        writer.close()
        counts = {"episodes": len(episodes), "frames": writer.frames, "tasks": len(writer.tasks)}
        write_json(partial / _MARK, {"mark": mark, **counts})
        os.replace(partial, out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return LeRobotExport(folder=out, written=True, **counts)


def _fingerprint(episodes: EpisodeSet, k: int) -> list[Any]:
    """What changes when an episode does: its pixels, and its arrays where they are a file of their own."""
    source = episodes.clip(k)
    arrays = source.path.with_suffix(".safetensors")
    return [
        episodes.row(k),
        source.sha256 or hashlib.sha256(source.read_bytes()).hexdigest(),
        file_hash(arrays) if arrays.is_file() else None,
    ]


def _existing(out: Path, mark: str) -> LeRobotExport:
    path = out / _MARK
    summary = read_object(path) if path.is_file() else {}
    if summary.get("mark") != mark:
        raise BadInput(f"{out} exists and is another data set: give another folder, or remove it")
    with as_described("the mark of an export", path, ArtifactError):
        counts = {name: integer(summary[name], f"{path}: {name}") for name in ("episodes", "frames", "tasks")}
    return LeRobotExport(folder=out, written=False, **counts)


class _Writer:
    """Appends episodes; nothing but one episode and the statistics of all is in memory."""

    def __init__(self, root: Path, settings: LeRobotExportConfig) -> None:
        self.root, self.settings = root, settings
        self.tasks: dict[str, int] = {}
        self.frames = 0
        self.statistics: list[dict[str, statistics.Statistics]] = []
        self.fps: float | None = None
        self.sizes: dict[str, tuple[int, ...]] = {}
        self.data = Tables(root, layout.DATA_PATH, settings.data_file_mb)
        self.episodes = Tables(root, layout.EPISODES_PATH, settings.data_file_mb)
        self.videos: dict[str, _Video] = {}

    def add(self, name: str, episode: Episode) -> None:
        """Write one episode."""
        sample, k, n = episode.sample, len(self.statistics), len(episode.sample.frames)
        fps, pictures = sample.fps, _pictures(name, episode)
        sizes = {key: frames.shape[1:3] for key, frames in pictures.items()}
        if self.fps is None:
            self.fps, self.sizes = fps, sizes
            self.videos = {key: _Video(self.root, key, self.settings) for key in pictures}
        if fps != self.fps or sizes != self.sizes:
            raise BadInput(
                f"episode {name} has {fps:g} frames a second of {_shown(sizes)}, the ones before it {self.fps:g} of "
                f"{_shown(self.sizes)}: a LeRobotDataset has one rate and the same cameras; export them apart"
            )
        task = self.tasks.setdefault(episode.condition.text, len(self.tasks))
        columns = _columns(episode, episode.sample.of_side(self.settings.side))
        columns |= {
            "timestamp": (np.arange(n) / fps).astype(np.float32),
            "frame_index": np.arange(n),
            "episode_index": np.full(n, k),
            "index": np.arange(self.frames, self.frames + n),
            "task_index": np.full(n, task),
        }
        found = {key: statistics.of_rows(c.reshape(n, -1)) for key, c in columns.items()}
        found |= {key: statistics.of_frames(frames) for key, frames in pictures.items()}
        place = self.data.write(table_of(columns), n)
        where = {key: self.videos[key].write(frames, fps) for key, frames in pictures.items()}
        row: dict[str, Any] = {
            "episode_index": k,
            "tasks": [episode.condition.text],
            "length": n,
            "data/chunk_index": place[0],
            "data/file_index": place[1],
            "dataset_from_index": self.frames,
            "dataset_to_index": self.frames + n,
            **{f"videos/{key}/{column}": value for key, each in where.items() for column, value in each.items()},
            **{f"stats/{key}/{s}": v.tolist() for key, each in found.items() for s, v in each.items()},
        }
        self.episodes.write_row(row)
        self._sidecar(k, name, episode)
        self.statistics.append(found)
        self.frames += n

    def close(self) -> None:
        """Finish the files, and write what describes them all."""
        parts: list[Tables | _Video] = [self.data, self.episodes, *self.videos.values()]
        for part in parts:
            part.close()
        write_tasks(self.root, self.tasks)
        total = {name: statistics.combine([s[name] for s in self.statistics]) for name in self.statistics[0]}
        plain = {name: {s: v.tolist() for s, v in each.items()} for name, each in total.items()}
        write_json(self.root / layout.STATS_PATH, plain)
        write_json(self.root / layout.INFO_PATH, self._info())

    def _info(self) -> dict[str, Any]:
        assert self.fps is not None
        count = len(self.statistics)
        fps = int(self.fps) if float(self.fps).is_integer() else self.fps
        features = {key: _picture_feature(size, fps) for key, size in self.sizes.items()}
        for name, names in _NAMES.items():
            dtype = "bool" if name.endswith(".valid") else "float32"
            features[name] = {"dtype": dtype, "shape": [len(names)], "names": list(names)}
        return {
            "codebase_version": layout.CODEBASE_VERSION,
            "robot_type": self.settings.robot_type,
            "total_episodes": count,
            "total_frames": self.frames,
            "total_tasks": len(self.tasks),
            "chunks_size": layout.CHUNK_SIZE,
            "data_files_size_in_mb": self.settings.data_file_mb,
            "video_files_size_in_mb": self.settings.video_file_mb,
            "fps": fps,
            "splits": {"train": f"0:{count}"},
            "data_path": layout.DATA_PATH,
            "video_path": layout.VIDEO_PATH,
            "features": features | layout.INDEX_FEATURES,
        }

    def _sidecar(self, k: int, name: str, episode: Episode) -> None:
        tensors, tree = to_tensors(dataclasses.replace(episode, views=()))
        del tensors["0.sample.frames"]
        views = [
            {"name": view.name, "camera": _plain(view.camera)} for view in episode.views if view.frames is not None
        ]
        header = to_plain(make_header(Episode.schema, producer="export"))
        path = self.root / SIDECAR.format(episode_index=k)
        write_tensors(path, tensors, {"header": header, "tree": [tree], "views": views, "name": name})


def _pictures(name: str, episode: Episode) -> dict[str, np.ndarray]:
    """Frames of every camera by feature name, with even sides, as yuv420p needs."""
    found = {VIDEO_KEY: episode.sample.frames}
    for view in episode.views:
        if view.frames is not None:
            if IMAGES + view.name in found:
                raise BadInput(f"episode {name}: a further view is called {view.name!r}, as the first one is here")
            found[IMAGES + view.name] = view.frames
    odd = {key: [(0, 0), *((0, side % 2) for side in frames.shape[1:3]), (0, 0)] for key, frames in found.items()}
    return {key: np.pad(frames, odd[key], mode="edge") for key, frames in found.items()}


def _shown(sizes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{size[1]} x {size[0]} ({key.removeprefix(IMAGES)})" for key, size in sizes.items())


def _plain(camera: Camera) -> dict[str, Any]:
    return {
        "K": camera.K.tolist(),
        "T_base_cam": camera.T_base_cam.tolist(),
        "width": camera.width,
        "height": camera.height,
    }


def _picture_feature(size: tuple[int, ...], fps: float) -> dict[str, Any]:
    return {
        "dtype": "video",
        "shape": [*size, 3],
        "names": ["height", "width", "channels"],
        "info": {
            "video.height": size[0],
            "video.width": size[1],
            "video.codec": "h264",
            "video.pix_fmt": "yuv420p",
            "video.fps": fps,
            "video.channels": 3,
            "is_depth_map": False,
            "has_audio": False,
        },
    }


def _columns(episode: Episode, hand: HandTrajectory) -> dict[str, np.ndarray]:
    thing = episode.sample.object
    state = np.concatenate([hand.wrist_pose, hand.finger_pose], axis=1).astype(np.float32)
    return {
        "observation.state": state,
        "observation.hand.joints": hand.joints.reshape(len(hand), -1).astype(np.float32),
        "observation.hand.contact": hand.contact.astype(np.float32),
        "observation.hand.force": hand.force.astype(np.float32),
        "observation.hand.valid": hand.valid,
        "observation.object.pose": object_frame(thing).astype(np.float32),
        "observation.object.valid": thing.valid,
        "observation.wrench": episode.wrench.wrench.astype(np.float32),
        "action": np.concatenate([state[1:], state[-1:]]),
    }


class _Video:
    """Video files of one camera and many episodes; each episode starts with a keyframe."""

    def __init__(self, root: Path, key: str, settings: LeRobotExportConfig) -> None:
        self.root, self.key, self.settings = root, key, settings
        self.place, self.frames, self.bytes = (0, 0), 0, 0
        self.container: Any = None
        self.stream: Any = None

    def write(self, frames: np.ndarray, fps: float) -> dict[str, Any]:
        """Append an episode; returns its columns: indices of the file, and from when to when it lasts there [s]."""
        import av

        limit = self.settings.video_file_mb * 2**20
        if self.container is not None and self.bytes * (1 + len(frames) / self.frames) >= limit:
            self.close()
            self.place = layout.next_file(*self.place)
        if self.container is None:
            self._open(frames.shape[1:3], Fraction(fps).limit_denominator(1001))
        first = self.frames
        for k, frame in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
            picture.pts = first + k
            picture.time_base = 1 / Fraction(fps).limit_denominator(1001)
            if k == 0:
                picture.pict_type = av.video.frame.PictureType.I
            self._mux(self.stream.encode(picture))
        self.frames += len(frames)
        return {
            "chunk_index": self.place[0],
            "file_index": self.place[1],
            "from_timestamp": first / fps,
            "to_timestamp": self.frames / fps,
        }

    def _open(self, size: tuple[int, ...], rate: Fraction) -> None:
        import av

        path = self.root / layout.VIDEO_PATH.format(
            video_key=self.key, chunk_index=self.place[0], file_index=self.place[1]
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        self.frames = self.bytes = 0
        self.container = av.open(str(path), mode="w", format="mp4", options={"movflags": "faststart"})
        self.stream = self.container.add_stream("libx264", rate=rate)
        self.stream.height, self.stream.width, self.stream.pix_fmt = size[0], size[1], "yuv420p"
        interval = str(self.settings.keyframe_interval)
        self.stream.options = {
            "crf": str(self.settings.crf), "preset": "veryfast", "threads": "1", "g": interval, "bf": "0",
            "x264-params": "mbtree=0",  # the same frames give the same file
        }  # fmt: skip

    def _mux(self, packets: Iterable[Any]) -> None:
        for packet in packets:
            self.bytes += packet.size
            self.container.mux(packet)

    def close(self) -> None:
        """Flush the encoder and write the index."""
        if self.container is not None:
            self._mux(self.stream.encode())
            self.container.close()
            self.container = None
