"""Logs of a servo on a pendulum test bench, as the BAM project records them (Rhoban/bam, Apache-2.0).

A log is JSON, plain or gzipped: `mass` [kg] at `length` [m], firmware gain `kp`, supply `vin` [V], and `entries` with
timestamp [s], position, goal_position [rad], speed [rad/s], torque_enable, input_volts [V], temp [deg C]. `dt` says
that it was resampled evenly; otherwise it is resampled here, to 5 ms. The field `load` wraps around at zero and is not
read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput
from dexprior.reading import gunzipped, number, numbers, parse_json_object, read_bytes

__all__ = ["ServoLog", "read_servo_entries", "read_servo_log", "read_servo_logs"]

_DT = 0.005  # [s] step to which irregular logs are brought
_GAP = 0.05  # [s] longest pause between two entries: a longer one is a lost connection
_SCALARS = ("mass", "length", "kp", "vin")
_COLUMNS = ("timestamp", "position", "goal_position", "speed", "torque_enable", "input_volts", "temp")
_LARGEST = 1e12  # of any number in a log
_TURN = 2.5 * np.pi  # [rad] a position beyond is no angle of this bench: degrees, or encoder ticks


@dataclass(frozen=True, kw_only=True)
class ServoLog:
    """One motion at an even rate."""

    name: str
    dt: float
    """[s]"""
    mass: float
    """Mass at the pendulum's end [kg]."""
    length: float
    """[m]"""
    kp: float
    """Proportional gain of the firmware, in its own unit."""
    supply: float
    """Nominal voltage [V]."""
    position: Float[np.ndarray, " time"]
    """[rad], zero hanging down."""
    velocity: Float[np.ndarray, " time"]
    """[rad/s]"""
    goal: Float[np.ndarray, " time"]
    """Commanded position [rad]."""
    enabled: Bool[np.ndarray, " time"]
    """Whether the motor is driven."""
    volts: Float[np.ndarray, " time"]
    """Measured supply [V]."""
    temperature: Float[np.ndarray, " time"]
    """Temperature of the motor [deg C]."""

    def __len__(self) -> int:
        return len(self.position)


def read_servo_logs(folder: str | Path) -> list[ServoLog]:
    """All logs of a folder (`*.json`, `*.json.gz`), by name.

    Raises:
        BadInput: no such folder, none in it, or a log that cannot be used; it is named.
    """
    folder = Path(folder)
    paths = sorted(p for p in folder.glob("*") if p.name.endswith((".json", ".json.gz")))
    if not paths:
        raise BadInput(f"{folder} holds no log (*.json, *.json.gz)")
    return [read_servo_log(path) for path in paths]


def read_servo_log(path: str | Path) -> ServoLog:
    """One log.

    Raises:
        BadInput: missing, truncated, of another form or unit, with values that are not finite, time that runs
            backwards, or a pause.
    """
    path = Path(path)
    data, scalars, columns = _read(path)
    t = columns["timestamp"] - columns["timestamp"][0]
    steps = np.diff(t)
    dt = number(data["dt"], f"{path}: dt", low=1e-6, high=_GAP) if "dt" in data else _DT
    if "dt" not in data:
        even = np.arange(int(t[-1] / dt) + 1) * dt
        columns = {name: np.interp(even, t, value) for name, value in columns.items()}
    elif np.abs(steps - dt).max() > 0.1 * dt:
        raise BadInput(f"{path}: says dt = {dt} s, but entries are {steps.min():.4f} to {steps.max():.4f} s apart")
    return ServoLog(
        name=path.name.removesuffix(".gz").removesuffix(".json"), dt=dt, mass=scalars["mass"],
        length=scalars["length"], kp=scalars["kp"], supply=scalars["vin"], position=columns["position"],
        velocity=columns["speed"], goal=columns["goal_position"], enabled=columns["torque_enable"] > 0.5,
        volts=columns["input_volts"], temperature=columns["temp"],
    )  # fmt: skip


def read_servo_entries(path: str | Path) -> dict[str, Float[np.ndarray, " time"]]:
    """The columns of one log as they were recorded, whatever their rate; time from its first entry [s].

    Raises:
        BadInput: as `read_servo_log`.
    """
    _, _, columns = _read(Path(path))
    return columns | {"timestamp": columns["timestamp"] - columns["timestamp"][0]}


def _read(path: Path) -> tuple[dict[str, Any], dict[str, float], dict[str, Float[np.ndarray, " time"]]]:
    """All of a log, its scalars, and its columns."""
    data = _load(path)
    missing = [key for key in (*_SCALARS, "entries") if key not in data]
    if missing:
        raise BadInput(f"{path}: no {', '.join(missing)}; a log needs {', '.join((*_SCALARS, 'entries'))}")
    scalars = {key: number(data[key], f"{path}: {key}", low=-_LARGEST, high=_LARGEST) for key in _SCALARS}
    for key, value in scalars.items():
        if not value > 0:
            raise BadInput(f"{path}: {key} = {value} must be positive")
    columns = _columns(data["entries"], path)
    t = columns["timestamp"] - columns["timestamp"][0]
    steps = np.diff(t)
    if (steps <= 0).any():
        raise BadInput(f"{path}: time runs backwards or stands still at entry {int(np.argmin(steps)) + 1}")
    if steps.max() > _GAP:
        raise BadInput(f"{path}: a pause of {steps.max():.3f} s before entry {int(np.argmax(steps)) + 1}")
    if np.abs(columns["position"]).max() > _TURN:
        raise BadInput(f"{path}: positions up to {np.abs(columns['position']).max():.0f} are not radians of a pendulum")
    return data, scalars, columns


def _load(path: Path) -> dict[str, Any]:
    raw, wrong = read_bytes(path), ""
    if path.suffix == ".gz":
        raw, wrong = gunzipped(raw, path)
    if wrong:
        raise BadInput(f"{path} cannot be read, it is truncated or damaged: {wrong}")
    return parse_json_object(raw, path, nan=True)


def _columns(entries: Any, path: Path) -> dict[str, Float[np.ndarray, " time"]]:
    if not isinstance(entries, list) or len(entries) < 10 or not all(isinstance(row, dict) for row in entries):
        raise BadInput(f"{path}: fewer than ten entries, or entries that are no objects")
    columns = {}
    for name in _COLUMNS:
        lacking = next((k for k, row in enumerate(entries) if name not in row), None)
        if lacking is not None:
            raise BadInput(f"{path}: entry {lacking} has no {name}")
        flags = name == "torque_enable"  # a truth value
        column = numbers(
            [float(row[name]) if flags and isinstance(row[name], bool) else row[name] for row in entries],
            f"{path}: {name}",
            len(entries),
            finite=False,
        )
        if not np.isfinite(column).all():
            raise BadInput(f"{path}: {name} is not finite at entry {int(np.argmin(np.isfinite(column)))}")
        if (largest := float(np.abs(column).max())) > _LARGEST:
            raise BadInput(f"{path}: {name} reaches {largest:g} at entry {int(np.abs(column).argmax())}: damaged")
        columns[name] = column
    return columns
