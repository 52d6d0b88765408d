"""Everything that a folder of an arm's logs says about it, as plain numbers with intervals and reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import make_header
from dexprior.config import to_plain
from dexprior.errors import BadInput
from dexprior.families import ACTUATOR_DELAY, BACKLASH, Parameter, ParameterFamily, by_joint
from dexprior.stats.robust import MAD_TO_STD
from dexprior.transfer.arm.alignment import Estimate, LagFit, fit_lag, precedes
from dexprior.transfer.arm.backlash import BacklashFit, fit_backlash
from dexprior.transfer.arm.departure import Departure, first_departure
from dexprior.transfer.arm.logs import Angle, ArmLog, read_arm_logs
from dexprior.transfer.arm.repeats import NoiseFloor, block_length, noise_floor
from dexprior.transfer.arm.settings import ArmReportConfig

__all__ = ["ArmLedger", "JointRecord", "MotionRecord", "measure_arm"]

SCHEMA = "dexprior.arm-ledger/1"
Span = tuple[float, float, float]
"""A number and the ends of its interval."""

_ECHO = 1e-6  # [rad] below which a measurement is its command, which no servo reaches
_TURNED = (40.0, 80.0)  # gains between which command and measurement are radians and degrees (57.3)


@dataclass(frozen=True, kw_only=True)
class JointRecord:
    """One joint in one motion."""

    joint: str
    lag: LagFit
    backlash: BacklashFit
    floor: NoiseFloor
    departure: Departure
    raw: float
    """Root mean square of measurement minus command [rad]."""
    left: float
    """The same of measurement minus prediction [rad]."""
    impossible: str = ""
    """Why no arm can have done this, so that neither its lag nor its backlash is one; empty where one can."""

    @property
    def mostly_dead_band(self) -> bool:
        """Whether less than half of the lag is left as a delay beside the backlash."""
        lag, delay = self.lag.lag, self.backlash.delay
        return lag is not None and delay is not None and delay.high < lag.value / 2

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        lag, backlash, floor = self.lag, self.backlash, self.floor
        return {
            "lag_s": lag.lag.as_dict() if lag.lag else None,
            "lag_reason": lag.reason,
            "lag_mostly_dead_band": self.mostly_dead_band,
            "impossible": self.impossible,
            "lag_halves_s": list(lag.halves) if lag.halves else None,
            "gain": lag.gain.as_dict() if lag.gain else None,
            "static_error_rad": lag.offset,
            "explained": lag.explained,
            "rms_error_rad": self.raw,
            "rms_residual_rad": self.left,
            "backlash_rad": backlash.width.as_dict() if backlash.width else None,
            "delay_beside_backlash_s": backlash.delay.as_dict() if backlash.delay else None,
            "backlash_reason": backlash.reason,
            "reversals": backlash.reversals,
            "repeats": floor.repeats,
            "period_s": floor.period,
            "noise_floor_rad": floor.scale.as_dict() if floor.scale else None,
            "noise_floor_worst_rad": floor.worst,
            "noise_floor_reason": floor.reason,
            "first_departure": asdict(self.departure),
        }


@dataclass(frozen=True, kw_only=True)
class MotionRecord:
    """One motion."""

    log: ArmLog
    t: Float[np.ndarray, " time"]
    """Even time [s] of what follows."""
    command: Float[np.ndarray, "time joint"]
    measured: Float[np.ndarray, "time joint"]
    joints: tuple[JointRecord, ...]

    @property
    def earliest(self) -> Departure | None:
        """The joint that departs first, if any does."""
        seen = [r.departure for r in self.joints if r.departure.t is not None]
        return min(seen, key=lambda d: d.t if d.t is not None else np.inf) if seen else None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        first = self.earliest
        return {
            "seconds": self.log.seconds,
            "dt_s": self.log.dt,
            "notes": list(self.log.notes),
            "events": [list(e) for e in self.log.events],
            "joints": {r.joint: r.to_json() for r in self.joints},
            "first_departure": {"joint": first.joint, "t": first.t} if first else None,
        }


@dataclass(frozen=True, kw_only=True)
class ArmLedger:
    """All motions of a folder."""

    motions: tuple[MotionRecord, ...]
    refused: dict[str, str]
    """Motions that could not be used, and why."""
    settings: ArmReportConfig
    seed: int

    @property
    def joints(self) -> tuple[str, ...]:
        """Joints in the order in which they first appear."""
        return tuple(dict.fromkeys(r.joint for m in self.motions for r in m.joints))

    def cells(self, joint: str) -> list[tuple[str, JointRecord]]:
        """Motion and record of a joint."""
        return [(m.log.name, r) for m in self.motions for r in m.joints if r.joint == joint]

    def pooled(self, joint: str) -> dict[str, Any]:
        """A joint over all motions: medians with an interval and the span of the motions' intervals, and what is
        left."""
        records = [r for _, r in self.cells(joint)]
        lags = [r.lag.lag for r in records if r.lag.lag]
        widths = [r.backlash.width for r in records if r.backlash.width]
        floors = [r.floor.scale.value for r in records if r.floor.scale]
        return {
            "motions": len(records),
            "lag_s": self._span(lags),
            "lag_differs": bool(lags) and max(e.low for e in lags) > min(e.high for e in lags),
            "backlash_rad": self._span(widths),
            "gain": self._span([r.lag.gain for r in records if r.lag.gain]),
            "noise_floor_rad": float(np.median(floors)) if floors else None,
            "rms_error_rad": float(np.sqrt(np.mean([r.raw**2 for r in records]))),
            "rms_residual_rad": float(np.sqrt(np.mean([r.left**2 for r in records]))),
        }

    def _span(self, estimates: Sequence[Estimate]) -> dict[str, Any] | None:
        """Median with its interval, which fewer than six motions do not give at 95 %, and the whole span."""
        from scipy.stats import binom

        if not estimates:
            return None
        lows, highs = sorted(e.low for e in estimates), sorted(e.high for e in estimates)
        # order statistics (the sign test turned around), with each motion's own interval instead of its value
        rank = int(binom.ppf((1 - self.settings.level) / 2, len(lows), 0.5))
        interval = [lows[rank - 1], highs[-rank]] if rank else None
        middle = float(np.median([e.value for e in estimates]))
        return {
            "median": middle,
            "interval": interval,
            "lowest": min(e.low for e in estimates),
            "highest": max(e.high for e in estimates),
            "motions": len(estimates),
        }

    def family(self) -> ParameterFamily:
        """Delay and backlash as a parameter family: normal, with median and robust spread over motions, cut at the 5th
        percentile of all lower ends of intervals and the 95th of all upper ones.

        One for all joints where they are alike, else one a joint (`families.by_joint`). The delay is the one beside the
        backlash where both are identifiable, as the family applies both. What no arm can have done says nothing.
        """
        delays: dict[str, list[Span]] = {}
        widths: dict[str, list[Span]] = {}
        for r in (r for m in self.motions for r in m.joints if not r.impossible):
            for spans, found in ((delays, r.backlash.delay or r.lag.lag), (widths, r.backlash.width)):
                if found is not None:
                    spans.setdefault(r.joint, []).append((found.value, found.low, found.high))
        return ParameterFamily(
            "arm-logs",
            tuple(
                _parameter(name, target, unit, spans)
                for kind, unit, measured in ((ACTUATOR_DELAY, "s", delays), (BACKLASH, "rad", widths))
                for (name, target), spans in by_joint(kind, measured, self.settings.joints).items()
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "header": asdict(make_header(SCHEMA, producer="transfer", seed=self.seed)),
            "settings": to_plain(self.settings),
            "joints": {joint: self.pooled(joint) for joint in self.joints},
            "motions": {m.log.name: m.to_json() for m in self.motions},
            "left_out": dict(self.refused),
            "family": self.family().to_json(),
        }


def _parameter(name: str, target: str, unit: str, spans: list[Span]) -> Parameter:
    values, lows, highs = np.array(spans).T
    low = max(float(np.quantile(lows, 0.05, method="lower")), 0.0)
    high = max(float(np.quantile(highs, 0.95, method="higher")), low + 1e-6)
    middle = float(np.clip(np.median(values), low, high))
    spread = float(np.median(np.abs(values - middle))) * MAD_TO_STD
    return Parameter(
        name=name, unit=unit, low=low, high=high, distribution="normal", mean=middle,
        std=max(spread, (high - low) / 12), target=target, provenance="measured", identifiable=True,
    )  # fmt: skip


def measure_arm(
    folder: str | Path, settings: ArmReportConfig | None = None, *, units: Angle = "rad", seed: int = 0
) -> ArmLedger:
    """Read and measure every motion of a folder.

    Args:
        folder: of logs.
        settings: how.
        units: of the angles in CSVs.
        seed: of the bootstrap.

    Raises:
        BadInput: the folder holds nothing that can be used, or settings that contradict each other.
    """
    settings = settings or ArmReportConfig()
    if not settings.earliest < settings.latest:
        raise BadInput(f"lags from {settings.earliest} to {settings.latest} s: the first must be the smaller")
    if not 0 < settings.level < 1:
        raise BadInput(f"level = {settings.level} must lie between 0 and 1")
    logs, refused = read_arm_logs(folder, units)
    motions = []
    for log in logs:
        try:
            motions.append(_measure(log, settings, seed))
        except BadInput as error:
            refused[log.name] = str(error)
    if not motions:
        raise BadInput(f"{folder}: no log can be used. " + " ".join(refused.values()))
    return ArmLedger(motions=tuple(motions), refused=refused, settings=settings, seed=seed)


def _measure(log: ArmLog, settings: ArmReportConfig, seed: int) -> MotionRecord:
    needed = settings.settle + settings.latest - min(settings.earliest, 0.0) + 2.0
    if log.seconds < needed:
        raise BadInput(f"{log.name}: {log.seconds:.2f} s long; lags up to {settings.latest} s need {needed:.1f} s")
    t, command, measured = log.even()
    resolution = log.resolution()
    records = [
        _joint(name, t, command[:, k], measured[:, k], float(resolution[k]), settings, (seed + k))
        for k, name in enumerate(log.joints)
    ]
    for record in records:
        gain = record.lag.gain.value if record.lag.gain else 1.0
        if _TURNED[0] < abs(gain) < _TURNED[1] or _TURNED[0] < 1 / max(abs(gain), 1e-9) < _TURNED[1]:
            raise BadInput(
                f"{log.name}: {record.joint} is measured at {gain:.3g} times the command; one of them is in degrees"
            )
    return MotionRecord(log=log, t=t, command=command, measured=measured, joints=tuple(records))


def _joint(
    name: str,
    t: Float[np.ndarray, " time"],
    command: Float[np.ndarray, " time"],
    measured: Float[np.ndarray, " time"],
    resolution: float,
    settings: ArmReportConfig,
    seed: int,
) -> JointRecord:
    floor = noise_floor(t, command, measured, settings, resolution=resolution, seed=seed)
    block = block_length(floor, t, settings)
    lag = fit_lag(t, command, measured, settings, block=block, resolution=resolution, period=floor.period, seed=seed)
    backlash = fit_backlash(
        t, command, measured, lag, settings, block=block, resolution=resolution, period=floor.period, seed=seed
    )  # fmt: skip
    kept = t >= t[0] + settings.settle
    residual = measured - lag.prediction
    raw = float(np.sqrt(np.mean((measured - command)[kept] ** 2)))
    impossible = ""
    if precedes(float(t[1] - t[0]), lag.lag, backlash.delay):
        impossible = "it moves before it is told"
    elif raw < _ECHO and lag.lag is not None:
        impossible = "its measurement is its command"
    return JointRecord(
        joint=name, lag=lag, backlash=backlash, floor=floor,
        departure=first_departure(name, t, residual, settings, resolution=resolution),
        raw=raw,
        left=float(np.sqrt(np.mean(residual[kept] ** 2))),
        impossible=impossible,
    )  # fmt: skip
