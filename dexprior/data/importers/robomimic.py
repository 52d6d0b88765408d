"""robomimic's HDF5 demonstrations of robots (Mandlekar et al. 2021, "What Matters in Learning from Offline Human
Demonstrations for Robot Manipulation").

Layout from https://robomimic.github.io/docs/datasets/overview.html and `datasets/robosuite.html`:

FILE.hdf5   data (attrs: total, env_args as JSON)
              demo_0 (attrs: num_samples, model_file)   actions, states, rewards, dones, obs/KEY, next_obs/KEY
            mask/train, mask/valid                      names of demonstrations

A robot acts and no human hand is seen, so these become video and signals: every camera (`obs/*_image`, uint8 RGB) a
view, the rest of `obs` and the actions a channel each. robosuite's quaternions are [qx qy qz qw]; here they become
scalar first. The rate is `control_freq` of env_args.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.data.importers.base import ImportContext, Imported, Importer, View
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
        views, signals = [], {}
        streams = {"action": hdf5_dataset(group, "actions", name)}
        if "obs" in group:
            seen = hdf5_group(group, "obs", name)
            streams |= {f"obs.{key}": hdf5_dataset(seen, key, name) for key in seen}
        for key, data in streams.items():
            if len(data) != n:
                raise BadInput(f"{name}: {key} has {len(data)} rows for {n} actions")
            if key.endswith("_image"):
                views.append(_view(path, data.name, key, data.shape, rate))
                continue
            value = np.asarray(data, dtype=np.float64).reshape(n, -1)
            if not measured(value).all():
                problems.append(f"{key} holds values that are not finite and is left out")
                continue
            suffix = key.rpartition("_")[2]
            if suffix == "quat" and value.shape[1] == 4:
                value = value[:, [3, 0, 1, 2]]
            kind: ChannelKind = "commanded" if key == "action" else "measured"
            unit = _UNITS.get(suffix, "1")
            signals[key] = Channel(t=t, t_host=t, value=value, unit=unit, frame="-", kind=kind)
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


def _view(path: Path, dataset: str, key: str, shape: tuple[int, ...], rate: float) -> View:
    if len(shape) != 4 or shape[-1] != 3:
        raise BadInput(f"{path}: {dataset} has shape {shape}, expected (frame, height, width, 3)")

    def read(size: tuple[int, int] | None, start: int, stop: int) -> Frames:
        from PIL import Image

        with _opened(path) as file:
            frames = np.asarray(hdf5_dataset(file, dataset.strip("/"), path)[start:stop], dtype=np.uint8)
        if size is None or size == frames.shape[1:3]:
            return frames
        return np.stack([np.asarray(Image.fromarray(f).resize(size[::-1], Image.Resampling.BOX)) for f in frames])

    camera = key.removeprefix("obs.").removesuffix("_image")
    return View(name=camera, fps=rate, frames=shape[0], height=shape[1], width=shape[2], read=read, lens="unknown")


ROBOMIMIC = Importer(
    title="robomimic: robot demonstrations in HDF5",
    licence="as stated by the user",
    episodes=_episodes,
    read=_read,
)
