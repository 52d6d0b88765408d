"""Traces as a LeRobotDataset v3.0 without pictures, and the numbers of anyone's.

A row has one rate, one clock and single precision, so a row of ours holds the last sample of every channel at its time
(`dexprior.data.traces.grid`), and the trace itself lies beside it in `meta/dexprior/trace-000000.mcap`, which LeRobot's
readers ignore and ours prefers. Features: `action` for a commanded channel (`action.NAME` where there are several),
`observation.NAME` for a measured one, `privileged.NAME`; unit, frame and kind stand in the feature's `info`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.artifacts import write_json
from dexprior.data.lerobot import LeRobotFolder, layout, statistics
from dexprior.data.lerobot.reader import names_of
from dexprior.data.lerobot.tables import Tables, table_of, write_tasks
from dexprior.data.traces.channels import ChannelLayout, Meaning, laid_out, salvaged, usable
from dexprior.data.traces.grid import rows_at
from dexprior.data.traces.reader import read_trace
from dexprior.data.traces.staging import staged
from dexprior.data.traces.writer import write_trace
from dexprior.errors import BadInput, UnknownName
from dexprior.types import ChannelKind, Trace

__all__ = ["lerobot_episodes", "read_lerobot", "write_lerobot"]

_SIDECAR = "meta/dexprior/trace-{episode_index:06d}.mcap"
_GROUPS: dict[str, ChannelKind] = {"action": "commanded", "observation": "measured", "privileged": "privileged"}
_FILE_MB = 100.0
_STRAY = 1e-3  # [s] beyond which stamps are no constant rate


def write_lerobot(traces: Sequence[Trace], out: Path, fps: float | None = None) -> list[str]:
    """Write one episode a trace; returns what the rows cannot hold.

    `Trace.info["task"]` is the sentence of an episode, where it is there.

    Raises:
        BadInput: the folder exists, or traces whose channels differ.
    """
    with staged(out) as partial:
        fps = _write(traces, partial, fps)
    return [
        f"rows are the last samples at {fps:g} a second in single precision; clocks, rates, events and info are in "
        f"{_SIDECAR.format(episode_index=0)}"
    ]


def _write(traces: Sequence[Trace], partial: Path, fps: float | None) -> float:
    """All of the folder; returns rows a second."""
    data, episodes = Tables(partial, layout.DATA_PATH, _FILE_MB), Tables(partial, layout.EPISODES_PATH, _FILE_MB)
    features: dict[str, Any] = {}
    tasks: dict[str, int] = {}
    found: list[dict[str, statistics.Statistics]] = []
    total = 0
    for k, trace in enumerate(traces):
        fps, _, rows = rows_at(trace, fps)
        described = _features(trace, list(rows))
        if features and described != features:
            raise BadInput(
                f"trace {k} has the features {', '.join(described)}, the ones before it {', '.join(features)}: a "
                "LeRobotDataset has one set of them, with one unit and width each; export them apart"
            )
        features = described
        n = len(next(iter(rows.values())))
        text = str(trace.info.get("task", ""))
        task = tasks.setdefault(text, len(tasks))
        columns: dict[str, np.ndarray] = {
            key: rows[name].astype(np.float32) for name, key in _keys(trace, list(rows)).items()
        }
        columns |= {
            "timestamp": (np.arange(n) / fps).astype(np.float32),
            "frame_index": np.arange(n),
            "episode_index": np.full(n, k),
            "index": np.arange(total, total + n),
            "task_index": np.full(n, task),
        }
        found.append({key: statistics.of_rows(column.reshape(n, -1)) for key, column in columns.items()})
        place = data.write(table_of(columns), n)
        episodes.write_row(
            {
                "episode_index": k,
                "tasks": [text],
                "length": n,
                "data/chunk_index": place[0],
                "data/file_index": place[1],
                "dataset_from_index": total,
                "dataset_to_index": total + n,
                **{f"stats/{key}/{s}": v.tolist() for key, each in found[-1].items() for s, v in each.items()},
            }
        )
        write_trace(trace, partial / _SIDECAR.format(episode_index=k))
        total += n
    data.close()
    episodes.close()
    write_tasks(partial, tasks)
    combined = {key: statistics.combine([s[key] for s in found]) for key in found[0]}
    write_json(
        partial / layout.STATS_PATH, {k: {s: v.tolist() for s, v in each.items()} for k, each in combined.items()}
    )
    write_json(partial / layout.INFO_PATH, _info(features, len(traces), total, len(tasks), fps))
    assert fps is not None
    return fps


def lerobot_episodes(folder: Path) -> list[str]:
    """Names of the episodes."""
    return [f"episode-{int(row['episode_index']):06d}" for row in LeRobotFolder(folder).episodes]


def read_lerobot(folder: Path, name: str, channels: Mapping[str, ChannelLayout]) -> Trace:
    """Read one episode: the trace beside it where it is one of ours, else every feature of numbers as a channel.

    A foreign feature has the unit `1` unless the layout or its `info` says another; the host's clock is the time stamp.

    Raises:
        UnknownName: no such episode.
        BadInput: no feature of numbers, or stamps and values that no channel can hold in one that the layout wants.
    """
    data = LeRobotFolder(folder)
    names = lerobot_episodes(folder)
    if name not in names:
        raise UnknownName("episode", name, names)
    episode = data.episodes[names.index(name)]
    sidecar = folder / _SIDECAR.format(episode_index=int(episode["episode_index"]))
    if sidecar.is_file():
        return laid_out(read_trace(sidecar), channels, sidecar)
    rows = data.rows(episode)
    n = len(next(iter(rows.values()), ()))
    t = np.arange(n) / data.fps  # what the stamps are, before they became single precision
    pictures = [*data.video_keys, *data.image_keys, *data.depth_keys]
    notes = [f"pictures are left out: {', '.join(pictures)}"] if pictures else []
    if "timestamp" in rows and (stray := np.abs(rows["timestamp"].ravel() - t).max(initial=0.0)) > _STRAY:
        t = rows["timestamp"].ravel()
        notes.append(f"time stamps stray {1000 * stray:.1f} ms from a constant rate and are kept as they are")
    made = {}
    for key, value in rows.items():
        if key in layout.INDEX_FEATURES:
            continue
        feature = data.features[key]
        about = feature.get("info") or {}
        kind = about.get("kind", _GROUPS.get(key.split(".")[0], "measured"))
        meaning = Meaning(about.get("unit", "1"), about.get("frame", "-"), kind)
        value, parts = value.reshape(n, -1), names_of(feature)
        parts = parts if len(parts) == value.shape[1] else []
        made[key] = partial(salvaged, key, t, t, value, meaning, parts)
    if not made:
        raise BadInput(f"{folder}, {name}: no feature of numbers beside the indices: {', '.join(data.features)}")
    wanted = {said.source or channel for channel, said in channels.items()}
    found, named = usable(made, wanted, notes, f"{folder}, {name}")
    info: dict[str, Any] = {"names": named}
    if any(task := data.task_of(episode)):
        info["task"] = task[0]
    if notes:
        info["notes"] = notes
    return laid_out(Trace(channels=found, panel_hash="", info=info), channels, folder)


def _keys(trace: Trace, names: Sequence[str]) -> dict[str, str]:
    """Feature of every channel."""
    sent = [name for name in names if trace[name].kind == "commanded"]
    keys = {name: "action" if sent == [name] else _key(name, trace[name].kind) for name in names}
    if twice := [name for name, key in keys.items() if list(keys.values()).count(key) > 1]:
        raise BadInput(f"channels {', '.join(twice)} are one feature, {keys[twice[0]]!r}: call them otherwise")
    return keys


def _key(name: str, kind: ChannelKind) -> str:
    group = next(g for g, k in _GROUPS.items() if k == kind)
    plain = name.replace("/", ".")
    return plain if plain.startswith(f"{group}.") else f"{group}.{plain}"


def _features(trace: Trace, names: Sequence[str]) -> dict[str, Any]:
    described = {}
    for name, key in _keys(trace, names).items():
        channel = trace[name]
        width = channel.value.shape[1]
        described[key] = {
            "dtype": "float32",
            "shape": [width],
            "names": list(trace.names(name) or (f"{name}.{k}" for k in range(width))),
            "info": {"unit": channel.unit, "frame": channel.frame, "kind": channel.kind},
        }
    return described


def _info(features: dict[str, Any], episodes: int, frames: int, tasks: int, fps: float | None) -> dict[str, Any]:
    assert fps is not None
    return {
        "codebase_version": layout.CODEBASE_VERSION,
        "robot_type": "dexprior",
        "total_episodes": episodes,
        "total_frames": frames,
        "total_tasks": tasks,
        "chunks_size": layout.CHUNK_SIZE,
        "data_files_size_in_mb": _FILE_MB,
        "video_files_size_in_mb": _FILE_MB,
        "fps": int(fps) if float(fps).is_integer() else fps,
        "splits": {"train": f"0:{episodes}"},
        "data_path": layout.DATA_PATH,
        "video_path": None,
        "features": features | layout.INDEX_FEATURES,
    }
