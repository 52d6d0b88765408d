"""robomimic's HDF5 demonstrations of robots (Mandlekar et al. 2021, "What Matters in Learning from Offline Human
Demonstrations for Robot Manipulation").

Layout from https://robomimic.github.io/docs/datasets/overview.html and `datasets/robosuite.html`:

FILE.hdf5   data (attrs: total, env_args as JSON)
              demo_0 (attrs: num_samples, model_file)   actions, states, rewards, dones, obs/KEY, next_obs/KEY
            mask/train, mask/valid                      names of demonstrations

A robot acts and no human hand is seen, so these become video and signals: whatever in `obs` is pictures by its shape
and type (uint8, of 1, 3 or 4 channels), a view; the rest of `obs`, groups within it included, and the actions a channel
each. What is neither, or has another number of rows, is left out with a note. Quaternions become scalar first:
robosuite's are [qx qy qz qw], others' are as the user says. The rate is `control_freq` of env_args.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.data.importers.base import ImportContext, Imported, Importer, ImportSettings, View
from dexprior.data.importers.checks import measured
from dexprior.data.readers import Frames
from dexprior.errors import BadInput
from dexprior.reading import (
    hdf5_array,
    hdf5_dataset,
    hdf5_group,
    hdf5_text,
    integer,
    mapping,
    number,
    opened_hdf5,
    parse_json_object,
)
from dexprior.types import Channel, ChannelKind

__all__ = ["ROBOMIMIC"]

_UNITS = {"pos": "m", "quat": "1", "qpos": "rad", "qvel": "rad/s", "force": "N", "torque": "N m"}
_UNREADABLE = "unreadable"
_ROBOSUITE = 1  # `type` of robomimic's env_args
_SMALLEST_PICTURE = 16  # [px] of a side
_DEEPEST = 8  # groups within each other


def _opened(path: Path) -> AbstractContextManager[Any]:
    return opened_hdf5(path, kind="robomimic's")


def _files(folder: Path) -> list[Path]:
    return [folder] if folder.is_file() else sorted([*folder.glob("*.hdf5"), *folder.glob("*.h5")])


def _episodes(folder: Path) -> list[str]:
    names = []
    for path in _files(folder):
        try:
            with _opened(path) as file:
                demos = sorted(
                    hdf5_group(file, "data", path), key=lambda demo: (len(demo), demo)
                )  # demo_2 before demo_10
        except BadInput:
            demos = [_UNREADABLE]  # reading it tells why
        names += [f"{path.name}/{demo}" for demo in demos]
    return names


def _read(folder: Path, name: str, context: ImportContext) -> Imported:
    file_name, _, demo = name.partition("/")
    path = folder if folder.is_file() else folder / file_name
    problems: list[str] = []
    with _opened(path) as file:
        where = f"{path}: env_args"
        arguments = parse_json_object(hdf5_text(hdf5_group(file, "data", path), "env_args", path, "{}"), where)
        rate = mapping(arguments.get("env_kwargs", {}), f"{where}: env_kwargs").get("control_freq")
        if rate is None:
            rate = 20.0
            problems.append("env_args state no control_freq: robosuite's 20 a second is assumed")
        rate = number(rate, f"{where}: control_freq", low=1e-3, high=1e5)
        group = hdf5_group(file, f"data/{demo}", path)
        n = len(hdf5_dataset(group, "actions", name))
        if (promised := integer(group.attrs.get("num_samples", n), f"{name}: num_samples")) != n:
            raise BadInput(f"{name}: num_samples = {promised}, but there are {n} actions: the file is damaged")
        t = np.arange(n) / rate
        pictures: dict[str, Any] = {}
        signals = {}
        streams = {"action": hdf5_dataset(group, "actions", name)}
        if "obs" in group:
            streams |= dict(_streams(hdf5_group(group, "obs", name), "obs", name, problems))
        order, unsaid = _quaternions(arguments, context.settings), []
        for key, data in streams.items():
            if len(data) != n:
                problems.append(f"{key} has {len(data)} rows for {n} actions and is left out")
            elif _is_picture(data):
                pictures[key] = data
            elif data.ndim > 2 and min(sorted(data.shape[1:])[-2:]) >= _SMALLEST_PICTURE:
                problems.append(f"{key} holds {data.dtype} of shape {data.shape[1:]}, no pictures in uint8: left out")
            elif not measured(value := np.asarray(data, dtype=np.float64).reshape(n, -1)).all():
                problems.append(f"{key} holds values that are not finite and is left out")
            else:
                suffix = re.split(r"[._]", key)[-1]
                if suffix == "quat" and value.shape[1] == 4:
                    value = value[:, [3, 0, 1, 2]] if order == "xyzw" else value
                    unsaid += [key] if order is None else []
                kind: ChannelKind = "commanded" if key == "action" else "measured"
                unit = _UNITS.get(suffix, "1")
                signals[key] = Channel(t=t, t_host=t, value=value, unit=unit, frame="-", kind=kind)
        if unsaid:
            problems.append(
                f"{', '.join(unsaid)}: whether quaternions are wxyz or xyzw is not stated, they are kept as they are: "
                "give imports.quaternions (for traces: quaternion in a layout)"
            )
        views = [_view(path, data.name, camera, data.shape, rate) for camera, data in _cameras(pictures).items()]
        splits = [s for s, demos in file.get("mask", {}).items() if demo in {d.decode() for d in demos[:]}]
        rewards = float(np.sum(hdf5_array(group, "rewards", name))) if "rewards" in group else None
    return Imported(
        kind="robomimic",
        episode=name,
        licence=context.settings.licence or "not stated",
        source="https://robomimic.github.io",
        views=tuple(views),
        signals=signals,
        text=(),
        ids={"environment": arguments.get("env_name"), "splits": splits, "reward": rewards},
        problems=tuple(problems),
    )


def _streams(group: Any, prefix: str, name: str, problems: list[str], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Data sets of numbers of a group and of those within it, by their path."""
    if depth > _DEEPEST:
        problems.append(f"{prefix} nests more than {_DEEPEST} groups and is left out")
        return
    for key in group:
        try:
            inner = hdf5_group(group, key, name)
        except BadInput:
            try:
                yield f"{prefix}.{key}", hdf5_dataset(group, key, name)
            except BadInput as error:
                problems.append(f"{error}: left out")
        else:
            yield from _streams(inner, f"{prefix}.{key}", name, problems, depth + 1)


def _quaternions(arguments: Mapping[str, Any], settings: ImportSettings) -> str | None:
    """Order of the file's quaternions; None where nothing says it."""
    if settings.quaternions is not None:
        return settings.quaternions
    if arguments.get("env_name") == "dexprior":  # a trace that was exported
        return "wxyz"
    return "xyzw" if arguments.get("type") == _ROBOSUITE else None


def _is_picture(data: Any) -> bool:
    """(frame, height, width, channel) in uint8, or with the three channels before height and width."""
    if data.ndim != 4 or data.dtype != np.uint8:
        return False
    last, first = sorted(data.shape[1:3]), sorted(data.shape[2:])
    return (data.shape[-1] in (1, 3, 4) and last[0] >= _SMALLEST_PICTURE) or (
        data.shape[1] == 3 and first[0] >= _SMALLEST_PICTURE
    )


def _cameras(pictures: Mapping[str, Any]) -> dict[str, Any]:
    """Cameras by name: the stream's, without `_image` unless two would be called alike."""
    names = [key.removeprefix("obs.") for key in pictures]
    short = [name.removesuffix("_image") for name in names]
    return {(a if short.count(a) == 1 else b): data for a, b, data in zip(short, names, pictures.values())}


def _view(path: Path, dataset: str, camera: str, shape: tuple[int, ...], rate: float) -> View:
    channels_first = shape[-1] not in (1, 3, 4)
    height, width = shape[2:] if channels_first else shape[1:3]

    def read(size: tuple[int, int] | None, start: int, stop: int) -> Frames:
        from PIL import Image

        with _opened(path) as file:
            frames = np.asarray(hdf5_dataset(file, dataset.strip("/"), path)[start:stop], dtype=np.uint8)
        frames = np.moveaxis(frames, 1, -1) if channels_first else frames[..., :3]
        frames = np.repeat(frames, 3, axis=-1) if frames.shape[-1] == 1 else frames
        if size is None or size == (height, width):
            return frames
        return np.stack([np.asarray(Image.fromarray(f).resize(size[::-1], Image.Resampling.BOX)) for f in frames])

    return View(name=camera, fps=rate, frames=shape[0], height=height, width=width, read=read, lens="unknown")


ROBOMIMIC = Importer(
    title="robomimic: robot demonstrations in HDF5",
    licence="as stated by the user",
    episodes=_episodes,
    read=_read,
)
