"""Traces as CSV: a folder that holds everything, or one table.

FOLDER/trace.json      schema, panel_hash, info, unit, frame, kind and width of every channel, and rows of every file
FOLDER/NAME.csv        `t` and `t_host` [s], `v0`, `v1`, ... in the channel's unit; a row a sample, at its own rate
FOLDER/events.csv      `t`, `t_host`, `name`

One table, FILE.csv, has one row a time and comes in two forms:

- An arm's motion, as `dexprior ledger report` reads it: `t`, `JOINT_command` and `JOINT_measured` [rad], optionally
  `t_measured`; it becomes the channels `command` and `measured`.
- Anything else: `t`, optionally `t_host`, and `CHANNEL` or `CHANNEL.COMPONENT`. What a channel means is said by its
  name (`dexprior.data.traces.channels.KNOWN`) or by a layout. A row in which a channel's cells are all empty holds no
  sample of it.

Numbers are written in the shortest form that reads back as the same double. Half a last line is left out, with a note.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import write_atomic, write_json
from dexprior.config import config, validate
from dexprior.data.traces.channels import ChannelLayout, meaning_of, rename
from dexprior.data.traces.events import events_of
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
    if "t" not in columns:
        raise BadInput(f"{path}: no column 't' [s]; it has: {', '.join(columns)}")
    if any(c.endswith("_command") for c in columns):
        return _read_motion(path, columns, table, notes, layout)
    t = table[:, columns.index("t")]
    host = table[:, columns.index("t_host")] if "t_host" in columns else t
    groups: dict[str, list[int]] = {}
    for k, column in enumerate(columns):
        if column not in ("t", "t_host"):
            groups.setdefault(column.partition(".")[0], []).append(k)
    sources = {said.source or name: name for name, said in layout.items()}
    if unknown := sorted(set(sources) - set(groups)):
        raise BadInput(f"{path} holds no {', '.join(unknown)} that the layout names; it has: {', '.join(groups)}")
    channels: dict[str, Channel] = {}
    names: dict[str, list[str]] = {}
    for source, places in groups.items():
        name = sources.get(source, source)
        unit, frame, kind = meaning_of(name, layout)
        value = table[:, places]
        there = ~np.isnan(value).all(axis=1)
        channels[name] = _made(
            path, name, t=t[there], t_host=host[there], value=value[there], unit=unit, frame=frame, kind=kind
        )
        parts = [columns[k].partition(".")[2] for k in places]
        names |= {name: parts} if all(parts) else {}
    if not channels:
        raise BadInput(f"{path}: no column CHANNEL beside the clocks; it has: {', '.join(columns)}")
    return Trace(channels=channels, panel_hash="", info=_info(notes, names))


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
    return Trace(channels=rename(channels, layout, folder), panel_hash=about.panel_hash, info=info)


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
    if sent.value.shape != seen.value.shape:
        raise BadInput(
            f"command has {sent.value.shape}, measured {seen.value.shape} samples and joints: one table has a row for "
            "both; give a folder (out=NAME without .csv)"
        )
    check_free(out)
    joints = trace.info.get("joints") or [f"joint{k}" for k in range(sent.value.shape[1])]
    columns = ["t", *(f"{joint}_command" for joint in joints), *(f"{joint}_measured" for joint in joints), "t_measured"]
    write_atomic(out, _text(columns, [sent.t, *sent.value.T, *seen.value.T, seen.t]).encode())
    lost = ["t_host, frames, panel_hash and info are left out: one table of a motion has no place for them"]
    return lost + (["the events are left out"] if events_of(trace.info) else [])


def _read_motion(
    path: Path,
    columns: list[str],
    table: Float[np.ndarray, "row column"],
    notes: list[str],
    layout: Mapping[str, ChannelLayout],
) -> Trace:
    joints = [c.removesuffix("_command") for c in columns if c.endswith("_command")]
    if lacking := [f"{joint}_measured" for joint in joints if f"{joint}_measured" not in columns]:
        raise BadInput(f"{path}: no column {', '.join(lacking)}; it has: {', '.join(columns)}")
    clocks = {"command": "t", "measured": "t_measured" if "t_measured" in columns else "t"}
    channels = {}
    for name, clock in clocks.items():
        t, value = table[:, columns.index(clock)], table[:, [columns.index(f"{joint}_{name}") for joint in joints]]
        unit, frame, kind = meaning_of(name, {})
        channels[name] = _made(path, name, t=t, t_host=t, value=value, unit=unit, frame=frame, kind=kind)
    info = {"joints": joints} | ({"notes": notes} if notes else {})
    return Trace(channels=rename(channels, layout, path), panel_hash="", info=info)


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
