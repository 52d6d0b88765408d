"""Sensor models fitted to real logs: every parameter with an interval, or with the reason why the log hides it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.config import validate
from dexprior.errors import BadInput
from dexprior.families import BACKLASH, Parameter, ParameterFamily, SensorModels, by_joint
from dexprior.families.sensors import EncoderConfig, ForceTorqueConfig, TransportConfig
from dexprior.transfer.arm import Angle, ArmLog, ArmReportConfig, read_arm_log
from dexprior.transfer.noise.estimates import Fitted, hidden
from dexprior.transfer.noise.joints import fit_joint, fit_play
from dexprior.transfer.noise.logs import Kind, find_logs, read_still_log
from dexprior.transfer.noise.settings import NoiseFitConfig
from dexprior.transfer.noise.stamps import fit_stamps, unbroken
from dexprior.transfer.noise.still import fit_still
from dexprior.transfer.servo import read_servo_entries

__all__ = ["LogNoise", "NoiseFit", "fit_noise"]


@dataclass(frozen=True, kw_only=True)
class LogNoise:
    """One log."""

    name: str
    kind: Kind
    links: dict[str, tuple[Fitted, ...]]
    """Clock -> rate, latency, jitter, loop_jitter, start, stop."""
    channels: dict[str, tuple[Fitted, ...]]
    """Joint or column -> its parameters."""
    seconds: float
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class NoiseFit:
    """All logs of a folder, or the one that was given."""

    logs: tuple[LogNoise, ...]
    refused: dict[str, str]
    """Logs that cannot be used -> why."""
    level: float
    joints: dict[str, str] = field(default_factory=dict)
    """Names of the simulator's joints by the logs', where they differ."""

    def median(self, name: str, kinds: tuple[Kind, ...], *, links: bool = False) -> tuple[float, float, float] | None:
        """Median value over channels (or clocks) of all logs that identify it, and the span of their intervals."""
        spans = [
            p.span
            for log in self.logs
            if log.kind in kinds
            for fits in (log.links if links else log.channels).values()
            for p in fits
            if p.name == name and p.span is not None
        ]
        return _over(spans) if spans else None

    def family(self) -> ParameterFamily:
        """What task worlds take as parameters: backlash, of all joints where they are alike and else of each, and the
        force sensor's noise in a reading."""
        widths: dict[str, list[tuple[float, float, float]]] = {}
        for log in (log for log in self.logs if log.kind == "arm"):
            for joint, fits in log.channels.items():
                widths.setdefault(joint, []).extend(p.span for p in fits if p.name == "backlash" and p.span is not None)
        parameters = [
            _parameter(name, "rad", _over(spans), target)
            for (name, target), spans in by_joint(BACKLASH, widths, self.joints).items()
        ]
        readings = [
            [x * np.sqrt(_rate(log)) for x in (p.value, p.low, p.high) if x is not None]
            for log in self.logs
            if log.kind == "force_torque" and _rate(log) > 0
            for column in ("fx", "fy", "fz")
            for p in log.channels[column]
            if p.name == "white" and p.identifiable
        ]
        if readings:
            value, low, high = np.array(readings).T
            spread = (float(np.median(value)), float(low.min()), float(high.max()))
            parameters.append(_parameter("wrench_noise", "N", spread, "world/-/wrench_noise"))
        return ParameterFamily("fitted-noise", tuple(parameters))

    def models(self) -> SensorModels:
        """What task worlds take as sensor models; what no log identifies is off."""

        def of(name: str, *kinds: Kind) -> float:
            found = self.median(name, kinds)
            return 0.0 if found is None else found[0]

        kinds = {log.kind for log in self.logs}
        encoder = EncoderConfig(step=of("step", "arm", "servo"), noise=of("noise", "arm", "servo"))
        link = {name: self.median(name, ("arm", "servo", "force_torque", "imu"), links=True) for name in _LINK}
        known = {name: v[0] for name, v in link.items() if v is not None}
        return SensorModels(
            encoder=encoder if kinds & {"arm", "servo"} and (encoder.step or encoder.noise) else None,
            force_torque=self._force_torque() if "force_torque" in kinds else None,
            observation=validate(TransportConfig, known, where="link") if any(known.values()) else None,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "level": self.level,
            "logs": {
                log.name: {
                    "kind": log.kind,
                    "seconds": log.seconds,
                    "links": {clock: _plain(fits) for clock, fits in log.links.items()},
                    "channels": {channel: _plain(fits) for channel, fits in log.channels.items()},
                    "notes": list(log.notes),
                }
                for log in self.logs
            },
            "refused": self.refused,
        }

    def _force_torque(self) -> ForceTorqueConfig:
        """Axis by axis, of the first log of a force sensor; play is not seen at rest."""
        log = next(log for log in self.logs if log.kind == "force_torque")
        by_axis = [{p.name: p.value or 0.0 for p in fits} for fits in log.channels.values()]
        six: Callable[[str], Any] = lambda name: tuple(row[name] for row in by_axis)  # noqa: E731
        times = [row["drift_time"] for row in by_axis if row["drift_time"] > 0]
        return ForceTorqueConfig(
            white=six("white"), walk=six("walk"), step=six("step"), warmup=six("drift"), hysteresis=(), radius=(),
            warmup_time=float(np.median(times)) if times else ForceTorqueConfig().warmup_time,
        )  # fmt: skip


_LINK = ("jitter", "start", "stop")


def fit_noise(
    path: str | Path,
    settings: NoiseFitConfig | None = None,
    arm: ArmReportConfig | None = None,
    *,
    units: Angle = "rad",
    seed: int = 0,
) -> NoiseFit:
    """Fit every log at a path.

    Args:
        path: a log, or a folder of logs; see `transfer.noise.logs`.
        settings: how.
        arm: how backlash is measured.
        units: of the angles in CSVs of arms.
        seed: of the bootstrap of backlash.

    Raises:
        BadInput: no log there, or none that can be used.
    """
    settings, arm = settings or NoiseFitConfig(), arm or ArmReportConfig()
    fits: list[LogNoise] = []
    refused, paths = {}, find_logs(path)
    for kind, log in paths:
        try:
            fit = _fit(kind, log, settings, arm, units, seed)
            taken = any(other.name == fit.name for other in fits)
            fits.append(replace(fit, name=log.name) if taken else fit)  # run.csv beside run.mcap
        except BadInput as error:
            if len(paths) == 1:
                raise
            refused[log.name] = str(error)
    if not fits:
        raise BadInput(f"{path}: no log can be used. {' '.join(refused.values())}")
    return NoiseFit(logs=tuple(fits), refused=refused, level=settings.level, joints=arm.joints)


def _fit(kind: Kind, path: Path, settings: NoiseFitConfig, arm: ArmReportConfig, units: Angle, seed: int) -> LogNoise:
    if kind == "arm":
        return _fit_arm(read_arm_log(path, units), settings, arm, seed)
    if kind == "servo":
        return _fit_servo(path, settings)
    log = read_still_log(path, kind)
    whole, notes = unbroken(log.t), list(log.notes)
    t = log.t[whole]
    if len(t) < len(log.t):
        notes.append(
            f"packets are missing: noise is of the longest stretch without a gap, {len(t)} of {len(log.t)} samples"
        )
    dt = float(t[-1] - t[0]) / (len(t) - 1)
    channels = {}
    for k, (column, unit) in enumerate(zip(log.columns, log.units)):
        try:
            channels[column] = fit_still(log.values[whole, k], dt, unit, settings)
        except BadInput as error:
            raise BadInput(f"{path}: {column}: {error}") from None
    links = {"log": fit_stamps(log.t, settings)}
    return LogNoise(
        name=log.name, kind=kind, links=links, channels=channels, seconds=float(log.t[-1]), notes=tuple(notes)
    )


def _fit_arm(log: ArmLog, settings: NoiseFitConfig, arm: ArmReportConfig, seed: int) -> LogNoise:
    t, command, measured = log.even()
    resolution = log.resolution()
    channels: dict[str, tuple[Fitted, ...]] = {}
    for k, joint in enumerate(log.joints):
        step, noise = fit_joint(log.t_command, log.command[:, k], log.t_measured, log.measured[:, k], settings)
        play = fit_play(t, command[:, k], measured[:, k], float(resolution[k]), arm, seed=seed)
        channels[joint] = (step, noise, play)
    links, notes = {"measured": fit_stamps(log.t_measured, settings)}, log.notes
    if np.array_equal(log.t_command, log.t_measured):
        notes = (*notes, "commands and measurements share their time stamps: one clock, one link")
    else:
        links["command"] = fit_stamps(log.t_command, settings)
    return LogNoise(name=log.name, kind="arm", links=links, channels=channels, seconds=log.seconds, notes=notes)


def _fit_servo(path: Path, settings: NoiseFitConfig) -> LogNoise:
    columns = read_servo_entries(path)
    t = columns["timestamp"]
    step, noise = fit_joint(t, columns["goal_position"], t, columns["position"], settings)
    links = {"log": fit_stamps(t, settings)}
    if not links["log"][0].identifiable:
        reason = "the log was resampled: between its readings lie interpolated ones"
        step, noise = hidden("step", "rad", reason), hidden("noise", "rad", reason)
    play = hidden("backlash", "rad", "the pendulum's weight keeps the gears at one side or the other of their play")
    return LogNoise(
        name=path.name.removesuffix(".gz").removesuffix(".json"), kind="servo", links=links,
        channels={"position": (step, noise, play)}, seconds=float(t[-1]), notes=(),
    )  # fmt: skip


def _rate(log: LogNoise) -> float:
    return next((p.value or 0.0 for p in log.links["log"] if p.name == "rate"), 0.0)


def _over(spans: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Median value and the span of all intervals."""
    values, lows, highs = np.array(spans).T
    return float(np.median(values)), float(lows.min()), float(highs.max())


def _parameter(name: str, unit: str, found: tuple[float, float, float], target: str) -> Parameter:
    value, low, high = found
    low = max(low, 0.0)
    if high <= low:
        high = low
    spread = max((high - low) / 4, 1e-12)
    return Parameter(
        name=name, unit=unit, low=low, high=high, distribution="normal", mean=value, std=spread,
        target=target, provenance="fitted", identifiable=True,
    )  # fmt: skip


def _plain(fits: tuple[Fitted, ...]) -> dict[str, Any]:
    return {p.name: p.as_dict() for p in fits}
