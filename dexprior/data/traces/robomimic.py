"""Traces as robomimic's HDF5, and the numbers of anyone's.

FILE.hdf5   data (attrs: total, env_args)
              demo_0 (attrs: num_samples)   actions, obs/NAME            rows of one rate, as in `grid`
                trace (attrs: panel_hash, info)                          what robomimic does not read:
                  NAME (attrs: unit, frame, kind)   t, t_host, value     every channel as it is

`actions` is the commanded channels side by side, in the order of their names; robomimic's own scaling to [-1, 1] is not
applied. Quaternions stay scalar first in `obs`. Foreign files are read by `dexprior.data.importers.robomimic`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.data.importers import ImportContext, ImportSettings
from dexprior.data.importers.robomimic import ROBOMIMIC
from dexprior.data.traces.channels import ChannelLayout, laid_out
from dexprior.data.traces.grid import rows_at
from dexprior.data.traces.staging import staged
from dexprior.data.traces.writer import plain_info
from dexprior.errors import BadInput, UnknownName
from dexprior.reading import as_described, hdf5_array, hdf5_group, hdf5_text, opened_hdf5, parse_json_object
from dexprior.types import Channel, Trace

__all__ = ["read_robomimic", "robomimic_episodes", "write_robomimic"]

_GROUP = "trace"


def write_robomimic(traces: Sequence[Trace], out: Path, fps: float | None = None) -> list[str]:
    """Write one demonstration a trace; returns what the rows cannot hold.

    Raises:
        BadInput: the file exists, a trace without a commanded channel, or rows that cannot be made.
    """
    import h5py

    for name in (name for trace in traces for name in trace.channels):
        if "/" in name or "\0" in name or name in (".", ".."):
            raise BadInput(f"channel {name!r}: its name cannot be a data set's")
    with staged(out) as partial:
        total = 0
        with h5py.File(partial, "w") as file:
            data = file.create_group("data")
            for k, trace in enumerate(traces):
                fps, _, rows = rows_at(trace, fps)
                sent = [name for name in sorted(rows) if trace[name].kind == "commanded"]
                if not sent:
                    raise BadInput(
                        f"trace {k} has no commanded channel: robomimic needs actions; it has {', '.join(rows)}"
                    )
                demo = data.create_group(f"demo_{k}")
                demo["actions"] = np.concatenate([rows[name] for name in sent], axis=1)
                demo.attrs["num_samples"] = len(demo["actions"])
                total += len(demo["actions"])
                for name, value in rows.items():
                    if name not in sent:
                        demo[f"obs/{name}"] = value
                whole = demo.create_group(_GROUP, track_order=True)
                whole.attrs["panel_hash"] = trace.panel_hash
                whole.attrs["info"] = json.dumps(plain_info(trace.info))
                for name, channel in trace.channels.items():
                    group = whole.create_group(name)
                    group.attrs.update({"unit": channel.unit, "frame": channel.frame, "kind": channel.kind})
                    for part in ("t", "t_host", "value"):
                        array = getattr(channel, part)
                        # HDF5 checks nothing by itself; without a sample there is no chunk to have a checksum
                        group.create_dataset(part, data=array, fletcher32=True if array.size else None)
            data.attrs["total"] = total
            data.attrs["env_args"] = json.dumps(
                {"env_name": "dexprior", "type": 1, "env_kwargs": {"control_freq": fps}}
            )
    return [
        f"obs and actions are the last samples at {fps:g} a second; clocks, rates, events and info are in the group "
        f"data/demo_N/{_GROUP}"
    ]


def robomimic_episodes(path: Path) -> list[str]:
    """Names of the demonstrations, `FILE/demo_N`."""
    if not path.exists():
        raise BadInput(f"{path}: no such file")
    return ROBOMIMIC.episodes(path)


def read_robomimic(path: Path, name: str, channels: Mapping[str, ChannelLayout]) -> Trace:
    """Read one demonstration: exactly where it is one of ours, else actions and observations at `control_freq`.

    Raises:
        UnknownName: no such demonstration.
        BadInput: damaged, or what no channel can hold.
    """
    names = robomimic_episodes(path)
    if name not in names:
        raise UnknownName("demonstration", name, names)
    file = path if path.is_file() else path / name.partition("/")[0]
    exact = _exact(file, name.partition("/")[2])
    if exact is None:
        found = ROBOMIMIC.read(path, name, ImportContext(settings=ImportSettings()))
        if not found.signals:
            raise BadInput(f"{file}, {name}: no numbers but pictures only. " + " ".join(found.problems))
        notes = [*found.problems]
        if found.views:
            notes.append(f"pictures are left out: {', '.join(view.name for view in found.views)}")
        info: dict[str, Any] = {"notes": notes} if notes else {}
        exact = Trace(channels=dict(found.signals), panel_hash="", info=info)
    return laid_out(exact, channels, file)


def _exact(path: Path, demo: str) -> Trace | None:
    with opened_hdf5(path, kind="a file of traces") as file:
        demonstration = hdf5_group(file, f"data/{demo}", path)
        if _GROUP not in demonstration:
            return None
        group = hdf5_group(demonstration, _GROUP, f"{path}, {demo}")
        info = parse_json_object(hdf5_text(group, "info", path), f"{path}, {demo}: info")
        channels = {}
        for name in group:
            where = f"{path}, {demo}: channel {name!r}"
            part = hdf5_group(group, name, where)
            arrays: Any = {p: hdf5_array(part, p, where) for p in ("t", "t_host", "value")}
            meaning: Any = {key: hdf5_text(part, key, where) for key in ("unit", "frame", "kind")}
            with as_described("a channel", where):
                channels[name] = Channel(**arrays, **meaning)
        return Trace(channels=channels, panel_hash=hdf5_text(group, "panel_hash", path), info=info)
