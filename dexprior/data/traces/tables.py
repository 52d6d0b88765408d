"""Traces as CSV: a folder that holds everything, or one table.

FOLDER/trace.json      schema, panel_hash, info, unit, frame, kind and width of every channel, and rows of every file
FOLDER/NAME.csv        `t` and `t_host` [s], `v0`, `v1`, ... in the channel's unit; a row a sample, at its own rate
FOLDER/events.csv      `t`, `t_host`, `name`

One table, FILE.csv, has one row a time and comes in two forms:

- An arm's motion, as `dexprior ledger report` reads it: `t`, `JOINT_command` and `JOINT_measured` [rad], optionally
  `t_measured`; it becomes the channels `command` and `measured`.
- Anything else: a time (`t`, `timestamp`, `time_ms` and the like), optionally `t_host`, and `CHANNEL` or
  `CHANNEL.COMPONENT`. What a channel means is said by its
  name (`dexprior.data.traces.channels.KNOWN`) or by a layout. A row in which a channel's cells are all empty holds no
  sample of it.

Numbers are written in the shortest form that reads back as the same double. Half a last line is left out, with a note.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import write_atomic, write_json
from dexprior.config import config, validate
from dexprior.data.traces.channels import ChannelLayout, Made, in_si, laid_out, meaning_of, names_of, salvaged, usable
from dexprior.data.traces.events import events_of
from dexprior.data.traces.joints import motion_columns, pair_joints
from dexprior.data.traces.staging import check_free, staged
from dexprior.data.traces.writer import ChannelSpec, plain_info
from dexprior.errors import BadInput, ConfigError
from dexprior.reading import (
    as_described,
    entries,
    mapping,
    parse_csv,
    read_bytes,
    read_json_object,
    read_text,
    shown,
    text_of,
    time_column,
    to_number,
)
from dexprior.types import Channel, Trace

__all__ = ["read_csv", "write_csv"]

_SCHEMA = "dexprior.trace_csv/1"
_ABOUT = "trace.json"


def write_csv(trace: Trace, out: Path) -> list[str]:
    """Write a folder, or one table where `out` ends in `.csv`; returns what the form cannot hold.

    Raises:
        BadInput: `out` exists, or a name that no file can have; for one table: other channels than `command` and
            `measured` in rad, or of different length.
    """
    if out.suffix == ".csv":
        return _write_motion(trace, out)
    _check_names(list(trace.channels))
    info = {k: v for k, v in plain_info(trace.info).items() if k != "events"}
    rows = {name: len(channel.t) for name, channel in trace.channels.items()}
    about = {"schema": _SCHEMA, "panel_hash": trace.panel_hash, "info": info}
    about |= {"channels": {n: ChannelSpec.of(c) for n, c in trace.channels.items()}}
    with staged(out) as partial:
        partial.mkdir()
        for name, channel in trace.channels.items():
            columns = ["t", "t_host", *(f"v{k}" for k in range(channel.value.shape[1]))]
            text = _text(columns, [channel.t, channel.t_host, *channel.value.T])
            (partial / f"{name}.csv").write_text(text, encoding="utf-8")
        _write_events(partial / "events.csv", trace)
        write_json(partial / _ABOUT, about | {"rows": rows | {"events": len(events_of(trace.info))}})
    return []


def _check_names(names: list[str]) -> None:
    for name in names:
        if Path(name).name != name or "\0" in name or name == "events":
            raise BadInput(f"channel {name!r}: its name cannot be a file's")
    lower = [name.lower() for name in names]
    if twice := [name for name in names if lower.count(name.lower()) > 1]:
        raise BadInput(f"channels {', '.join(twice)}: one file on a disk that does not tell capitals apart")


def read_csv(path: Path, layout: Mapping[str, ChannelLayout]) -> Trace:
    """Read a folder that `write_csv` wrote, or one table.

    Raises:
        BadInput: a file or column that is missing, a cell that is no number, a line of another width, a folder of
            another schema, or a channel whose unit nothing says.
    """
    if path.is_dir():
        return _read_folder(path, layout)
    columns, table, notes = _table(path)
    time = time_column(columns)
    if time is None:
        raise BadInput(f"{path}: no column 't' [s]; it has: {', '.join(columns)}")
    if any(c.endswith("_command") for c in columns):
        return _read_motion(path, columns, table, notes, layout)
    t = table[:, columns.index(time[0])] * time[1]
    host = table[:, columns.index("t_host")] if "t_host" in columns else t
    groups: dict[str, list[int]] = {}
    for k, column in enumerate(columns):
        if column not in (time[0], "t_host"):
            groups.setdefault(_group(column)[0], []).append(k)
    sources = {said.source or name: name for name, said in layout.items()}
    if unknown := sorted(set(sources) - set(groups)):
        raise BadInput(f"{path} holds no {', '.join(unknown)} that the layout names; it has: {', '.join(groups)}")
    made = {}
    for source, places in groups.items():
        name = sources.get(source, source)
        said = layout.get(name, ChannelLayout())
        parts = [_group(columns[k])[1] for k in places]
        names = names_of(name, len(places), said, parts if all(parts) else ())
        made[name] = partial(_channel, name, t, host, table[:, places], said, names)
    if not made:
        raise BadInput(f"{path}: no column CHANNEL beside the clocks; it has: {', '.join(columns)}")
    for name in made:
        meaning_of(name, layout)  # a unit that nobody says is asked for, and no channel is left out for it
    channels, named = usable(made, layout, notes, path)
    return Trace(channels=channels, panel_hash="", info=_info(notes, named))


def _group(column: str) -> tuple[str, str]:
    """Channel and component of a column; LeRobot's observations are channels each."""
    channel, _, part = column.partition(".")
    if channel == "observation" and "." in part:
        inner, _, part = part.partition(".")
        channel = f"observation.{inner}"
    return channel, part


def _channel(
    name: str,
    t: np.ndarray,
    host: np.ndarray,
    value: np.ndarray,
    said: ChannelLayout,
    names: Sequence[str],
    notes: list[str],
) -> Made:
    """A channel of the rows in which its cells are not all empty."""
    there = ~np.isnan(value).all(axis=1)
    meaning = meaning_of(name, {name: said})
    channel, names = salvaged(name, t[there], host[there], value[there], meaning, names, notes)
    return in_si(name, channel, said), tuple(names)


def _info(notes: list[str], names: Mapping[str, list[str]]) -> dict[str, Any]:
    return ({"names": dict(names)} if names else {}) | ({"notes": notes} if notes else {})


def _made(path: Path, name: str, **fields: Any) -> Channel:
    try:
        return Channel(**fields)
    except BadInput as error:
        raise BadInput(f"{path}: channel {name!r}: {error}") from None


def _read_folder(folder: Path, layout: Mapping[str, ChannelLayout]) -> Trace:
    path = folder / _ABOUT
    if not path.is_file():
        raise BadInput(f"{folder} holds no {_ABOUT}; a folder of CSVs needs it, one table is read as FILE.csv")
    about, info = _about(path)
    rows = about.rows
    channels, notes = {}, list(info.get("notes", []))
    for name, spec in about.channels.items():
        columns, table, cut = _table(folder / f"{name}.csv", empty=True)
        expected = ["t", "t_host", *(f"v{k}" for k in range(spec.width))]
        if columns != expected:
            raise BadInput(f"{folder / name}.csv has the columns {', '.join(columns)}, expected {', '.join(expected)}")
        notes += cut + _short(f"{name}.csv", len(table), rows.get(name))
        channels[name] = _made(
            folder / f"{name}.csv", name, t=table[:, 0], t_host=table[:, 1], value=table[:, 2:], unit=spec.unit,
            frame=spec.frame, kind=spec.kind,
        )  # fmt: skip
    events = _read_events(folder / "events.csv")
    notes += _short("events.csv", len(events), rows.get("events"))
    if events:
        info["events"] = events
    if notes:
        info["notes"] = notes
    return laid_out(Trace(channels=channels, panel_hash=about.panel_hash, info=info), layout, folder)


@config
class _About:
    schema: str
    panel_hash: str
    channels: dict[str, ChannelSpec]
    rows: dict[str, int]


def _about(path: Path) -> tuple[_About, dict[str, Any]]:
    """What the description says, and the trace's info."""
    try:
        plain = read_json_object(path)
        (schema,) = entries(plain, ("schema",), path)
        if schema == _SCHEMA:
            info = mapping(plain.pop("info", None), f"{path}: info")
            return validate(_About, plain, where=str(path)), info
    except ConfigError as error:
        raise BadInput(f"{path} is no description of a trace: {' '.join(str(error).split())}") from None
    raise BadInput(f"{path} holds {schema!r}, this version reads {_SCHEMA!r}")


def _short(file: str, found: int, written: int | None) -> list[str]:
    """A file that was cut between two lines looks whole: only the count that was written tells."""
    if written is None or found == written:
        return []
    return [f"{file}: {found} rows of {written} that were written"]


def _read_events(path: Path) -> list[list[Any]]:
    text = read_text(path)
    whole = text[: text.rindex("\n") + 1] if "\n" in text else text  # half a last line
    table = parse_csv(whole, path)
    t, host = table.numbers("t"), table.numbers("t_host")
    with as_described("a table of events", path):
        rows = [list(row) for row in zip(t.tolist(), host.tolist(), table.column("name"))]
        return [list(event) for event in events_of({"events": rows})]


def _write_events(path: Path, trace: Trace) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["t", "t_host", "name"])
        writer.writerows([repr(e.t), repr(e.t_host), e.name] for e in events_of(trace.info))


def _write_motion(trace: Trace, out: Path) -> list[str]:
    if set(trace.channels) != {"command", "measured"}:
        raise BadInput(
            f"one CSV table holds the channels command and measured, this trace has {', '.join(trace.channels)}: "
            "give a folder (out=NAME without .csv)"
        )
    sent, seen = trace["command"], trace["measured"]
    for name, channel in trace.channels.items():
        if channel.unit != "rad":
            raise BadInput(f"channel {name!r} is in {channel.unit!r}: a motion's table is in rad; give a folder")
    if len(sent.t) != len(seen.t):
        raise BadInput(
            f"command has {len(sent.t)} samples, measured {len(seen.t)}: one table has a row for both; give a folder "
            "(out=NAME without .csv)"
        )
    check_free(out)
    pairs = pair_joints(trace, "command", "measured", out)
    joints = pairs.joints
    columns = ["t", *(f"{joint}_command" for joint in joints), *(f"{joint}_measured" for joint in joints), "t_measured"]
    sent, seen = (
        replace(channel, value=channel.value[:, of]) for channel, of in ((sent, pairs.command), (seen, pairs.measured))
    )
    write_atomic(out, _text(columns, [sent.t, *sent.value.T, *seen.value.T, seen.t]).encode())
    lost = ["t_host, frames, panel_hash and info are left out: one table of a motion has no place for them"]
    lost += pairs.notes
    return lost + (["the events are left out"] if events_of(trace.info) else [])


def _read_motion(
    path: Path,
    columns: list[str],
    table: Float[np.ndarray, "row column"],
    notes: list[str],
    layout: Mapping[str, ChannelLayout],
) -> Trace:
    motion = motion_columns(columns)
    if motion is None or not motion.joints:
        raise BadInput(f"{path}: no joint has both JOINT_command and JOINT_measured; it has: {', '.join(columns)}")
    notes += motion.notes
    made = {}
    for k, name in enumerate(("command", "measured")):
        clock = "t_measured" if k and "t_measured" in columns else motion.t
        t = table[:, columns.index(clock)] * (1.0 if clock == "t_measured" else motion.seconds)
        value = table[:, [columns.index(pair[k]) for pair in motion.joints.values()]]
        made[name] = partial(salvaged, name, t, t, value, meaning_of(name, {}), list(motion.joints))
    channels, names = usable(made, made, notes, path)
    whole = all(found == list(motion.joints) for found in names.values())
    info = {"joints": list(motion.joints)} if whole else {"names": names}
    return laid_out(Trace(channels=channels, panel_hash="", info=info | _info(notes, {})), layout, path)


def _text(columns: list[str], arrays: list[np.ndarray]) -> str:
    lists = [array.tolist() for array in arrays]
    lines = [",".join(map(repr, row)) for row in zip(*lists)]
    return "\n".join([",".join(columns), *lines]) + "\n"


def _table(path: Path, *, empty: bool = False) -> tuple[list[str], Float[np.ndarray, "row column"], list[str]]:
    """Columns and numbers (NaN for empty cells), and a note where the last line is cut."""
    text = text_of(read_bytes(path).rstrip(b"\0"), path)  # a disk that lost its power leaves zeros
    whole, end, rest = text.rpartition("\n")
    notes = [f"{path.name}: its last line is cut ({rest[:40]!r}) and is left out"] if rest.strip() and end else []
    lines = [line for line in (whole or text).splitlines() if line.strip()]
    if not lines or (len(lines) < 2 and not empty):
        raise BadInput(f"{path} holds no rows, only {lines[0] if lines else 'nothing'}")
    columns = [name.strip() for name in lines[0].split(",")]
    if len(columns) == 1 and ";" in columns[0]:
        raise BadInput(f"{path}: its columns are separated by semicolons, expected commas: {shown(columns[0])}")
    if len(set(columns)) != len(columns):
        raise BadInput(f"{path}: a column twice among {', '.join(columns)}")
    commas = np.array([line.count(",") for line in lines[1:]], dtype=np.int64)
    if (commas != len(columns) - 1).any():
        k = int(np.argmax(commas != len(columns) - 1))
        raise BadInput(
            f"{path}: row {k + 1} has {commas[k] + 1} cells for {len(columns)} columns: {lines[k + 1][:60]!r}"
        )
    if len(lines) == 1:
        return columns, np.empty((0, len(columns))), notes
    body = "\n".join(lines[1:])
    empty_cells = re.search(r"(^|,)\s*(,|$)", body, re.MULTILINE) is not None
    try:
        table = np.loadtxt(io.StringIO(body), delimiter=",", ndmin=2, converters=_cell if empty_cells else None)
    except ValueError as error:
        raise BadInput(f"{path}: a cell that is no number: {' '.join(str(error).split())}") from None
    return columns, table, notes


def _cell(text: str) -> float:
    return to_number(text) if text.strip() else np.nan
