"""Logs of sensors at rest, and of which kind a log is.

A CSV of a force-torque sensor has the columns `t` [s] (or `timestamp`, `time_ms` and the like), `fx`, `fy`, `fz` [N],
`tx`, `ty`, `tz` [N m]; one of an inertial sensor `t`, `gx`, `gy`, `gz` [rad/s], `ax`, `ay`, `az` [m/s^2]. Further
columns are left alone; any CSV may be
gzipped. Logs of arms and servos are those of `transfer.arm` and `transfer.servo`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float

from dexprior.data.traces import motion_columns
from dexprior.errors import BadInput
from dexprior.reading import time_column
from dexprior.transfer.arm import is_arm_log, read_table

__all__ = ["COLUMNS", "Kind", "StillLog", "find_logs", "kind_of", "read_still_log"]

Kind = Literal["arm", "servo", "force_torque", "imu"]
COLUMNS: dict[Kind, dict[str, str]] = {
    "force_torque": {"fx": "N", "fy": "N", "fz": "N", "tx": "N m", "ty": "N m", "tz": "N m"},
    "imu": {"gx": "rad/s", "gy": "rad/s", "gz": "rad/s", "ax": "m/s^2", "ay": "m/s^2", "az": "m/s^2"},
}
"""Columns and units of logs of sensors at rest."""
_FEWEST = 1000  # samples
_GAP = 0.25  # [s] longest pause, as of the other readers, or...
_GAP_STEPS = 20  # ...so many of the log's steps
_SLOW, _FAST = 2.0, 1e-5  # [s] between two samples: beyond, stamps are in another unit
_LARGEST = {"N": 5e3, "N m": 5e2, "rad/s": 1.0, "m/s^2": 20.0}  # of a sensor at rest
_GRAVITY = (9.0, 10.6)  # [m/s^2] of an accelerometer at rest, its bias included


@dataclass(frozen=True, kw_only=True)
class StillLog:
    """One log of a sensor at rest."""

    name: str
    kind: Kind
    columns: tuple[str, ...]
    units: tuple[str, ...]
    t: Float[np.ndarray, " time"]
    """Time stamps, from the first on [s]."""
    values: Float[np.ndarray, "time column"]
    notes: tuple[str, ...] = ()
    """What is not whole about it."""


def find_logs(path: str | Path) -> list[tuple[Kind, Path]]:
    """The log at a path, or all logs of a folder by name, with their kinds.

    Raises:
        BadInput: nothing there, or a log that is of no kind.
    """
    path = Path(path)
    if not path.exists():
        raise BadInput(f"no log at {path}")
    if not path.is_dir() or is_arm_log(path):
        return [(kind_of(path), path)]
    paths = sorted(p for p in path.iterdir() if is_arm_log(p) or p.name.endswith((".json", ".json.gz")))
    if not paths:
        raise BadInput(
            f"{path} holds no log: no folder of a motion, no trace (.mcap), no CSV, no JSON of a servo (these may be "
            "gzipped)"
        )
    return [(kind_of(p), p) for p in paths]


def kind_of(path: Path) -> Kind:
    """What a log is of, by its form and its columns.

    Raises:
        BadInput: none that is known.
    """
    if path.is_dir() or path.suffix == ".mcap":
        return "arm"
    if path.name.endswith((".json", ".json.gz")):
        return "servo"
    columns, _, _ = read_table(path)
    if motion_columns(columns) is not None or any(c.endswith("_measured") for c in columns):
        return "arm"
    near = [(sum(c in columns for c in known), kind) for kind, known in COLUMNS.items()]
    most, kind = max(near)
    if most == 0:
        choices = "; ".join(f"{kind}: t, {', '.join(known)}" for kind, known in COLUMNS.items())
        raise BadInput(
            f"{path}: columns {', '.join(columns)} are of no known log. {choices}; arm: t, JOINT_command, ..."
        )
    return kind


def read_still_log(path: str | Path, kind: Kind) -> StillLog:
    """A log of a sensor at rest.

    Raises:
        BadInput: a missing column, a value that is not finite or that no sensor at rest gives in the column's unit, a
            clock that jumps or counts in another unit, or too few samples.
    """
    path = Path(path)
    columns, numbers, notes = read_table(path)
    units = COLUMNS[kind]
    time = time_column(columns)
    missing = [*(() if time else ("t",)), *(c for c in units if c not in columns)]
    if missing or time is None:
        raise BadInput(f"{path}: no column {', '.join(missing)}; a log of {kind} needs t, {', '.join(units)}")
    if len(numbers) < _FEWEST:
        raise BadInput(f"{path}: {len(numbers)} samples; noise needs at least {_FEWEST}")
    table = np.array(numbers, dtype=np.float64)
    for name in (time[0], *units):
        bad = ~np.isfinite(table[:, columns.index(name)])
        if bad.any():
            raise BadInput(f"{path}: {name} is not finite at record {int(bad.argmax()) + 1} ({bad.sum()} in all)")
    t = time[1] * table[:, columns.index(time[0])]
    _check_clock(path, t)
    values = table[:, [columns.index(name) for name in units]]
    _check_units(path, kind, values)
    return StillLog(
        name=path.name.removesuffix(".gz").removesuffix(".csv"), kind=kind, columns=tuple(units),
        units=tuple(units.values()), t=t - t[0], values=values, notes=tuple(notes),
    )  # fmt: skip


def _check_clock(path: Path, t: Float[np.ndarray, " time"]) -> None:
    steps = np.diff(t)
    usual = float(np.median(steps))
    if (steps <= 0).any():
        k = int(np.argmax(steps <= 0))
        raise BadInput(f"{path}: the clock jumps back or stands still at record {k + 2} ({steps[k]:+.6f} s)")
    if not _FAST <= usual <= _SLOW:
        raise BadInput(f"{path}: samples are {usual:g} apart, which are no seconds (milliseconds? microseconds?)")
    if steps.max() > max(_GAP, _GAP_STEPS * usual):
        k = int(np.argmax(steps))
        raise BadInput(f"{path}: the clock jumps by {steps[k]:.3f} s at record {k + 2} (a lost connection?)")


def _check_units(path: Path, kind: Kind, values: Float[np.ndarray, "time column"]) -> None:
    for k, (name, unit) in enumerate(COLUMNS[kind].items()):
        largest = float(np.abs(values[:, k]).max())
        if largest > _LARGEST[unit]:
            raise BadInput(
                f"{path}: {name} reaches {largest:.4g}, which no sensor at rest reads in {unit} (raw counts? another "
                "unit?)"
            )
    if kind == "imu":
        g = float(np.linalg.norm(values[:, 3:].mean(axis=0)))
        if not _GRAVITY[0] <= g <= _GRAVITY[1]:
            hint = " (in units of g?)" if 0.9 < g < 1.1 else " (no gravity, or not at rest?)"
            raise BadInput(f"{path}: ax, ay, az have a mean of {g:.4g} m/s^2, gravity is 9.81{hint}")
