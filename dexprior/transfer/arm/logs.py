"""Logs of a position-controlled arm: what was commanded and what was measured, each with its own clock.

Four forms are read.

- A folder a motion, as the SO-101 recordings of isaac-sim2real/sage (Apache-2.0) have it: `joint_list.txt` (a name a
  line), `control.csv` and `state_motor.csv` with the columns `timestamp` [microseconds] and `positions`, a JSON list
  [rad] in the order of the joints; optionally `event.csv` with `timestamp` and `event`.
- A file a motion, `NAME.csv`: `t` [s] (or `timestamp`, `time_ms` and the like), and `JOINT_command` and
  `JOINT_measured` [rad] for every joint, or LeRobot's `action.JOINT` and `observation.state.JOINT`; optionally
  `t_measured` [s], where the measurements have a clock of their own.
- A trace a motion, `NAME.mcap` (docs/traces.md), with one commanded and one measured channel in rad, called `command`
  and `measured` where there are several; their numbers are paired by their names (`Trace.names`).
- A JSON file a motion, `NAME.json`, of one servo on a test bench (`dexprior.transfer.servo.logs`); its joint is
  called `servo`, and only what comes before the motor is switched off is used.

Angles of CSVs may be degrees, where that is said. Any CSV or JSON may be gzipped. A CSV that was cut off (a gzip stream
without its end, half a last record) is read as far as it is whole; single records that are not finite or whose stamp
is not after the one before are left out, and so is a joint that is never finite. `ArmLog.notes` says so; anything else
that is wrong is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from dexprior.data.traces import events_of, increasing, motion_columns, pair_joints, read_trace
from dexprior.errors import ArtifactError, BadInput
from dexprior.reading import (
    gunzipped,
    listed,
    numbers,
    parse_csv,
    parse_json,
    read_bytes,
    read_text,
    text_of,
    time_column,
    to_number,
)
from dexprior.transfer.servo.logs import read_servo_entries
from dexprior.types import Channel, ChannelKind, Trace

__all__ = ["Angle", "ArmLog", "is_arm_log", "read_arm_log", "read_arm_logs", "read_table"]

Angle = Literal["rad", "deg"]
"""What the angles of a log may be in."""

_RADIANS: dict[str, float] = {"rad": 1.0, "deg": np.pi / 180}
_LOST = 0.1  # share of the records that may be left out...
_OUT_OF_ORDER = 2  # ...and how many in a row by their stamps: more is a clock that was set
_FEWEST = 100  # samples; below, neither a lag nor an interval means anything
_GAP = 0.25  # [s] longest pause between two records: a longer one is a lost connection or a clock that jumped
_SHORTEST = 100.0  # [us] between two records
_FASTEST = 0.01  # [s] of the even grid: lags are found far below one step, and servos are slower than this
_DRIFT = 0.02  # relative change of the clock's median step from the first to the last tenth of a log: noted...
_DRIFT_WORST = 0.1  # ...and refused
_APART = 0.1  # [s] by which two clocks of one log may have parted, or the two files may begin and end apart
_SHARED = 1e-3  # [s] within which two channels' clocks have one offset to the host's: they are one clock
_ANGLE = 4 * np.pi  # [rad] beyond it an angle is no joint's: degrees, or encoder ticks
_SPEED = 40.0  # [rad/s] 99th percentile; faster than any geared joint: degrees, or encoder ticks
_SETTLE = 5  # records of a cut log's end that may be broken


@dataclass(frozen=True, kw_only=True)
class ArmLog:
    """One motion."""

    name: str
    joints: tuple[str, ...]
    t_command: Float[np.ndarray, " sent"]
    """[s], from the log's first record."""
    command: Float[np.ndarray, "sent joint"]
    """Commanded positions [rad]."""
    t_measured: Float[np.ndarray, " time"]
    """[s], same zero as `t_command`."""
    measured: Float[np.ndarray, "time joint"]
    """Measured positions [rad]."""
    events: tuple[tuple[float, str], ...] = ()
    """[s] and name."""
    notes: tuple[str, ...] = ()
    """What is not whole about it."""

    @property
    def seconds(self) -> float:
        """Time for which both signals are known."""
        return float(self._ends()[1] - self._ends()[0])

    @property
    def dt(self) -> float:
        """Median step of the measurements [s]."""
        return float(np.median(np.diff(self.t_measured)))

    def even(
        self,
    ) -> tuple[Float[np.ndarray, " time"], Float[np.ndarray, "time joint"], Float[np.ndarray, "time joint"]]:
        """Time [s], command and measurement [rad] at the measurements' median step, or 100 Hz if that is less often;
        interpolated linearly.
        """
        first, last = self._ends()
        step = max(self.dt, _FASTEST)
        t = first + np.arange(int((last - first) / step + 1e-9) + 1) * step
        return t, _interpolate(t, self.t_command, self.command), _interpolate(t, self.t_measured, self.measured)

    def resolution(self) -> Float[np.ndarray, " joint"]:
        """Smallest step of each joint's measurement [rad]; 0 where it never changes."""
        steps = np.abs(np.diff(self.measured, axis=0))
        return np.array([s[s > 1e-9].min() if (s > 1e-9).any() else 0.0 for s in steps.T])

    def trace(self) -> Trace:
        """The log as a trace with one channel for commands and one for measurements."""
        sent = Channel(
            t=self.t_command, t_host=self.t_command, value=self.command, unit="rad", frame="joint", kind="commanded"
        )
        seen = Channel(
            t=self.t_measured, t_host=self.t_measured, value=self.measured, unit="rad", frame="joint", kind="measured"
        )
        return Trace(
            channels={"command": sent, "measured": seen},
            panel_hash=self.name,
            info={
                "joints": list(self.joints),
                "events": [[t, t, event] for t, event in self.events],
                "notes": list(self.notes),
            },
        )

    @classmethod
    def from_trace(cls, trace: Trace, name: str) -> ArmLog:
        """Inverse of `trace`: the joint command and the joint measurement of any trace.

        Times are the source's where both channels have one clock, else the host's, which they share.

        Raises:
            BadInput: no such channel, several of which none is called `command` or `measured`, one of no angles,
                or joints that cannot be paired.
        """
        sent_name, sent = _joint_channel(trace, name, "command", "commanded")
        seen_name, seen = _joint_channel(trace, name, "measured", "measured")
        pairs = pair_joints(trace, sent_name, seen_name, name)
        for channel, label in ((sent, "command"), (seen, "measured")):
            if len(channel.t) < _FEWEST:
                raise BadInput(f"{name}: {len(channel.t)} samples of {label}; at least {_FEWEST} are needed")
        notes = [*trace.info.get("notes", ()), *pairs.notes]
        offsets = [float(np.median(channel.t_host - channel.t)) for channel in (sent, seen)]
        shared = abs(offsets[0] - offsets[1]) <= _SHARED
        if not shared:
            notes.append("command and measurement have clocks of their own: the host's is used")
        clocks = [channel.t if shared else channel.t_host for channel in (sent, seen)]
        zero = min(float(clock[0]) for clock in clocks)
        return cls(
            name=name, joints=pairs.joints, t_command=clocks[0] - zero, command=sent.value[:, pairs.command],
            t_measured=clocks[1] - zero, measured=seen.value[:, pairs.measured], notes=tuple(notes),
            events=tuple(((e.t if shared else e.t_host) - zero, e.name) for e in events_of(trace.info)),
        )  # fmt: skip

    def _ends(self) -> tuple[float, float]:
        return (
            float(max(self.t_command[0], self.t_measured[0])),
            float(min(self.t_command[-1], self.t_measured[-1])),
        )


def read_arm_logs(folder: str | Path, units: Angle = "rad") -> tuple[list[ArmLog], dict[str, str]]:
    """All motions of a folder, each under a name of its own, and those that cannot be used with the reason.

    Args:
        folder: of logs.
        units: of the angles in CSVs.

    Raises:
        BadInput: no such folder, no log in it, or none that can be used.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder of logs")
    paths = sorted(p for p in folder.iterdir() if is_arm_log(p))
    if not paths:
        below = [p.name for p in sorted(folder.iterdir()) if p.is_dir() and any(map(is_arm_log, p.iterdir()))]
        raise BadInput(
            f"{folder} holds no log: neither folders with control.csv and state_motor.csv, nor files NAME.csv or "
            f"NAME.json (also .gz), nor traces NAME.mcap{'; there are some in ' + ', '.join(below) if below else ''}"
        )
    logs, refused, stems = [], {}, [_stem(path) for path in paths]
    for path, stem in zip(paths, stems):
        name = stem if stems.count(stem) == 1 else path.name  # run.csv beside run.mcap
        try:
            logs.append(replace(read_arm_log(path, units), name=name))
        except BadInput as error:
            refused[name] = str(error)
    if not logs:
        raise BadInput(f"{folder}: no log can be used. " + " ".join(refused.values()))
    return logs, refused


def read_arm_log(path: str | Path, units: Angle = "rad") -> ArmLog:
    """One motion: a folder, a CSV or JSON file, or a trace.

    Args:
        path: of the log.
        units: of the angles in a CSV; a trace states its own.

    Raises:
        BadInput: a file, column or joint that is missing, many values that are not finite, values that are not
            radians, a clock that jumps, drifts or disagrees with the other one, or too little that is whole.
    """
    path = Path(path)
    if not path.exists():
        raise BadInput(f"no log at {path}")
    if path.suffix == ".mcap" and not path.is_dir():
        log = _read_mcap(path)
    elif path.name.endswith((".json", ".json.gz")) and not path.is_dir():
        log = _read_servo(path)
    else:
        log = _read_folder(path) if path.is_dir() else _read_file(path)
        factor = _RADIANS[units]
        log = replace(log, command=log.command * factor, measured=log.measured * factor)
    log = _mended(log)
    for label, t, value in (("command", log.t_command, log.command), ("measured", log.t_measured, log.measured)):
        _check_clock(path, label, t)
        _check_values(path, label, t, value, log.joints)
    notes = [_pace(label, t) for label, t in (("command", log.t_command), ("measured", log.t_measured))]
    log = replace(log, notes=(*log.notes, *(note for note in notes if note)))
    starts, ends = abs(log.t_command[0] - log.t_measured[0]), abs(log.t_command[-1] - log.t_measured[-1])
    same_loop = abs(len(log.t_command) - len(log.t_measured)) <= 2
    if ends - starts > _APART and same_loop:
        raise BadInput(
            f"{path}: the clocks of command and measurement part by {ends - starts:.3f} s until the end "
            f"({log.t_command[-1]:.3f} and {log.t_measured[-1]:.3f} s): one of them drifts, since both have as many "
            "records"
        )
    if max(starts, ends) > _APART:
        text = f"command and measurement overlap from {max(log.t_command[0], log.t_measured[0]):.3f} s for "
        log = replace(log, notes=(*log.notes, f"{text}{log.seconds:.3f} s; only that is used"))
    if log.seconds < _FEWEST * log.dt:
        raise BadInput(f"{path}: command and measurement overlap for {log.seconds:.3f} s only; are they one motion?")
    return log


def is_arm_log(path: Path) -> bool:
    """Whether a path looks like one: a folder with one of its two files, or a file with the ending of one."""
    if path.is_dir():
        return any((path / f"{name}.csv{end}").exists() for name in ("control", "state_motor") for end in ("", ".gz"))
    return path.name.endswith((".csv", ".csv.gz", ".json", ".json.gz", ".mcap"))


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".json").removesuffix(".mcap")


def _read_folder(folder: Path) -> ArmLog:
    names = folder / "joint_list.txt"
    if not names.is_file():
        raise BadInput(f"{folder}: no joint_list.txt, so that nobody knows which joint is which")
    joints = tuple(line.strip() for line in read_text(names).splitlines() if line.strip())
    if not joints or len(set(joints)) != len(joints):
        raise BadInput(f"{names}: needs a name a line, each once; found {', '.join(joints) or 'none'}")
    notes: list[str] = []
    times, values = {}, {}
    for part in ("control", "state_motor"):
        path = _part(folder, part)
        rows, columns, cut = _rows(path)
        for column in ("timestamp", "positions"):
            if column not in columns:
                raise BadInput(f"{path}: no column {column!r}; it has {', '.join(columns)}")
        times[part], values[part], dropped = _parse(path, rows, columns, joints)
        notes += [f"{path.name}: {text}" for text in (cut, dropped) if text]
    step = float(np.median(np.diff(times["state_motor"])))
    if step < _SHORTEST:
        raise BadInput(
            f"{folder}: timestamps are {step:g} apart, which are no microseconds (milliseconds? seconds?): no arm is "
            f"read every {step:g} us"
        )
    zero = min(float(times["control"][0]), float(times["state_motor"][0]))
    return ArmLog(
        name=folder.name, joints=joints, t_command=(times["control"] - zero) * 1e-6, command=values["control"],
        t_measured=(times["state_motor"] - zero) * 1e-6, measured=values["state_motor"],
        events=_events(folder, zero), notes=tuple(notes),
    )  # fmt: skip


def _read_mcap(path: Path) -> ArmLog:
    try:
        return ArmLog.from_trace(read_trace(path, check=False), _stem(path))  # clocks are looked at as for every log
    except ArtifactError as error:
        raise BadInput(str(error)) from None


def _read_servo(path: Path) -> ArmLog:
    entries = read_servo_entries(path)
    off = entries["torque_enable"] < 0.5
    driven = int(off.argmax()) if off.any() else len(off)
    t = entries["timestamp"][:driven]
    if driven < _FEWEST:
        raise BadInput(f"{path}: the motor is driven in its first {driven} entries; at least {_FEWEST} are needed")
    notes = () if driven == len(off) else (f"the motor is switched off at {entries['timestamp'][driven]:.3f} s",)
    return ArmLog(
        name=_stem(path), joints=("servo",), t_command=t, command=entries["goal_position"][:driven, None],
        t_measured=t, measured=entries["position"][:driven, None], notes=notes,
    )  # fmt: skip


def _joint_channel(trace: Trace, where: str, name: str, kind: ChannelKind) -> tuple[str, Channel]:
    found = {n: c for n, c in trace.channels.items() if c.kind == kind}
    angles = {n: c for n, c in found.items() if c.unit in _RADIANS}
    if name in found:
        angles = {name: found[name]}
    if len(angles) != 1:
        has = ", ".join(f"{n} ({c.kind}, {c.unit})" for n, c in trace.channels.items())
        raise BadInput(
            f"{where}: {len(angles)} {kind} channels in rad, one is needed, or one called {name!r}; it has {has}. A "
            f"layout says units and names, e.g. {name}: {{unit: deg, source: ...}} (docs/traces.md)"
        )
    chosen, channel = next(iter(angles.items()))
    if channel.unit not in _RADIANS:
        raise BadInput(f"{where}: channel {chosen!r} is in {channel.unit!r}; joints are read in {', '.join(_RADIANS)}")
    return chosen, replace(channel, value=channel.value * _RADIANS[channel.unit])


def _parse(
    path: Path, rows: list[list[str]], columns: list[str], joints: tuple[str, ...]
) -> tuple[Float[np.ndarray, " time"], Float[np.ndarray, "time joint"], str]:
    at_t, at_q = columns.index("timestamp"), columns.index("positions")
    t: list[float] = []
    q: list[list[float]] = []
    for k, row in enumerate(rows):
        try:
            found = listed(parse_json(row[at_q], path, nan=True), path, empty=True)
            position = numbers([np.nan if v is None else v for v in found], path, finite=False).tolist()
            time = to_number(row[at_t])
        except (IndexError, ValueError):
            if k < len(rows) - _SETTLE:
                raise BadInput(f"{path}: record {k + 1} of {len(rows)} is broken: {','.join(row)[:60]!r}") from None
            return *_enough(path, t, q), f"cut in the middle of record {k + 1}; the {k} before it are used"
        if len(position) != len(joints):
            raise BadInput(
                f"{path}: record {k + 1} has {len(position)} positions, joint_list.txt names {len(joints)} joints "
                f"({', '.join(joints)})"
            )
        q.append(position)
        t.append(time)
    return *_enough(path, t, q), ""


def _read_file(path: Path) -> ArmLog:
    columns, numbers, notes = read_table(path)
    motion = motion_columns(columns)
    if motion is None:
        lacking = "'t' [s]" if time_column(columns) is None else "JOINT_command [rad]"
        raise BadInput(f"{path}: no column {lacking}; it has {', '.join(columns)}")
    if not motion.joints:
        raise BadInput(f"{path}: {'; '.join(motion.notes)}: no joint is both; it has {', '.join(columns)}")
    t, table = _enough(path, [motion.seconds * row[columns.index(motion.t)] for row in numbers], numbers)
    t_measured = table[:, columns.index("t_measured")] if "t_measured" in columns else t
    zero = float(np.nanmin([t[0], t_measured[0]]))
    command, measured = (table[:, [columns.index(pair[k]) for pair in motion.joints.values()]] for k in (0, 1))
    return ArmLog(
        name=_stem(path), joints=tuple(motion.joints), t_command=t - zero, t_measured=t_measured - zero,
        command=command, measured=measured, notes=(*notes, *motion.notes),
    )  # fmt: skip


def _mended(log: ArmLog) -> ArmLog:
    """A log without the few records that cannot be used, and without joints of which nothing can; notes say which."""
    notes = list(log.notes)
    known = np.isfinite(log.command).any(axis=0) & np.isfinite(log.measured).any(axis=0)
    if known.any() and not known.all():
        notes.append(f"never finite, and left out: {', '.join(np.array(log.joints)[~known])}")
        log = replace(
            log, joints=tuple(np.array(log.joints)[known].tolist()), command=log.command[:, known],
            measured=log.measured[:, known],
        )  # fmt: skip
    parts: dict[str, Any] = {}
    for label in ("command", "measured"):
        t, value = getattr(log, f"t_{label}"), getattr(log, label)
        whole = np.isfinite(t) & np.isfinite(value).all(axis=1)
        kept = whole.copy()
        kept[whole] = increasing(t[whole])
        if _runs(whole & ~kept) > _OUT_OF_ORDER:
            kept = whole
        lost = int((~kept).sum())
        if not 0 < lost <= _LOST * len(t):
            continue
        notes.append(
            f"{lost} of {len(t)} records of {label} are not finite, or their stamp is not after the one before: left "
            "out"
        )
        parts |= {f"t_{label}": t[kept], label: value[kept]}
    return replace(log, **parts, notes=tuple(notes))


def _runs(flags: Bool[np.ndarray, " time"]) -> int:
    """The longest run of what is true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return int(np.diff(edges)[::2].max(initial=0))


def read_table(path: Path) -> tuple[list[str], list[list[float]], list[str]]:
    """Columns, records and notes of a CSV of numbers, plain or gzipped; empty cells are NaN.

    Raises:
        BadInput: empty, without records, or broken before its end.
    """
    rows, columns, cut = _rows(path)
    notes = [f"{path.name}: {cut}"] if cut else []
    numbers: list[list[float]] = []
    for k, row in enumerate(rows):
        try:
            if len(row) != len(columns):
                raise ValueError
            numbers.append([to_number(cell) if cell else np.nan for cell in row])
        except ValueError:
            if k < len(rows) - _SETTLE:
                raise BadInput(f"{path}: record {k + 1} of {len(rows)} is broken: {','.join(row)[:60]!r}") from None
            notes.append(f"{path.name}: cut in the middle of record {k + 1}; the {k} before it are used")
            break
    return columns, numbers, notes


def _enough(
    path: Path, t: list[float], values: list[list[float]]
) -> tuple[Float[np.ndarray, " time"], Float[np.ndarray, "time column"]]:
    if len(t) < _FEWEST:
        raise BadInput(f"{path}: {len(t)} whole records; at least {_FEWEST} are needed")
    return np.array(t, dtype=np.float64), np.array(values, dtype=np.float64)


def _part(folder: Path, part: str) -> Path:
    for end in (".csv.gz", ".csv"):
        if (folder / f"{part}{end}").is_file():
            return folder / f"{part}{end}"
    missing = "what was commanded" if part == "control" else "what was measured"
    raise BadInput(f"{folder}: no {part}.csv (or .csv.gz): {missing} is missing")


def _rows(path: Path) -> tuple[list[list[str]], list[str], str]:
    """Records, names of columns, and a sentence where the gzip stream breaks off."""
    raw, cut = read_bytes(path), ""
    if not raw:
        raise BadInput(f"{path} is empty")
    if path.suffix == ".gz":
        raw, cut = gunzipped(raw, path)
        if not raw:
            raise BadInput(f"{path}: {cut or 'is empty'}; nothing of it can be read")
    raw = raw.rstrip(b"\0")  # a disk that lost its power leaves zeros
    table = parse_csv(text_of(raw, path), path, ragged=True)
    columns, rows = table.columns, [table.columns, *table.rows]
    if len(rows) < 2:
        raise BadInput(f"{path} holds no records, only {', '.join(columns) or 'nothing'}")
    if not cut and not raw.endswith((b"\n", b'"')):
        rows = rows[:-1]
        cut = f"cut in record {len(rows)}, which has no line end; the {len(rows) - 1} before it are used"
    elif cut:
        rows = rows[:-1]  # the last one may be cut inside a number, which nothing shows
        cut += f"; the {len(rows) - 1} records before the damage are used"
    return rows[1:], columns, cut


def _events(folder: Path, zero: float) -> tuple[tuple[float, str], ...]:
    try:
        rows, columns, _ = _rows(_part(folder, "event"))
        at = columns.index("timestamp"), columns.index("event")
        return tuple(((to_number(row[at[0]]) - zero) * 1e-6, row[at[1]]) for row in rows)
    except (BadInput, ValueError, IndexError):
        return ()  # events are shown only; nothing rests on them


def _check_clock(path: Path, label: str, t: Float[np.ndarray, " time"]) -> None:
    if not np.isfinite(t).all():
        raise BadInput(f"{path}: the {label} clock is not finite at record {int(np.argmin(np.isfinite(t))) + 1}")
    steps = np.diff(t)
    if (steps <= 0).any():
        k = int(np.argmax(steps <= 0))
        raise BadInput(f"{path}: the {label} clock jumps back or stands still at record {k + 2} ({steps[k]:+.6f} s)")
    if steps.max() > _GAP:
        k = int(np.argmax(steps))
        raise BadInput(
            f"{path}: the {label} clock jumps by {steps[k]:.3f} s at record {k + 2} (a lost connection? timestamps "
            "that are in another unit?)"
        )
    change, text = _drift(t)
    if change > _DRIFT_WORST:
        raise BadInput(f"{path}: the {label} clock drifts: {text}")


def _drift(t: Float[np.ndarray, " time"]) -> tuple[float, str]:
    steps = np.diff(t)
    tenth = max(len(steps) // 10, 20)
    early, late = float(np.median(steps[:tenth])), float(np.median(steps[-tenth:]))
    return abs(late / early - 1), f"a step takes {early * 1e3:.3f} ms at the start and {late * 1e3:.3f} ms at the end"


def _pace(label: str, t: Float[np.ndarray, " time"]) -> str:
    """A sentence where a clock's step changes slowly: it drifts, or the loop that it stamps became slower."""
    change, text = _drift(t)
    return f"the {label} clock drifts, or its loop does: {text}" if change > _DRIFT else ""


def _check_values(
    path: Path,
    label: str,
    t: Float[np.ndarray, " time"],
    value: Float[np.ndarray, "time joint"],
    joints: tuple[str, ...],
) -> None:
    bad = ~np.isfinite(value)
    if bad.any():
        row, joint = np.argwhere(bad)[0]
        raise BadInput(f"{path}: {label} of {joints[joint]} is not finite at record {row + 1} ({bad.sum()} in all)")
    speed = np.quantile(np.abs(np.diff(value, axis=0)) / np.diff(t)[:, None], 0.99, axis=0)
    for k, joint in enumerate(joints):
        if np.abs(value[:, k]).max() > _ANGLE or speed[k] > _SPEED:
            raise BadInput(
                f"{path}: {label} of {joint} reaches {np.abs(value[:, k]).max():.1f} at {speed[k]:.1f} a second, which "
                "are no radians (degrees, then give units=deg? encoder ticks?)"
            )


def _interpolate(
    t: Float[np.ndarray, " time"], known: Float[np.ndarray, " n"], value: Float[np.ndarray, "n joint"]
) -> Float[np.ndarray, "time joint"]:
    return np.stack([np.interp(t, known, column) for column in value.T], axis=1)
