"""Closed-loop simulation of a servo on a pendulum, for many parameter sets and logs at once.

The firmware turns the error e = goal(t - delay) - q into a duty d = clip(gain kp k_P e, -1, 1), where k_P is the
encoder's 4096 ticks a turn over 256 and the full scale of 885. A DC motor behind it gives, with supply V,

    tau_m = (k_t d V (1 - sag |d|) - k_t^2 v) / R,        R = R_30 (1 + a (T - 30 deg C)),

gravity gives tau_g = -m g l sin(q + offset), and dry friction in the gears is at most

    F = (base + |load_motor tau_m - load_external tau_g|) (1 + stribeck exp(-|v| / v_s)) + viscous |v|.

Friction first stops what moves: within a step it takes the torque that would bring the joint to rest, up to F. The
load-dependent terms follow the models M3 to M6 of Duclusaud et al., "Extended Friction Models for the Physics
Simulation of Servo Actuators", arXiv 2410.08650; delay, sag and temperature are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput
from dexprior.families import Parameter, ParameterFamily
from dexprior.reading import mapping, number
from dexprior.transfer.servo.logs import ServoLog

__all__ = ["SERVO_FAMILY", "ServoBatch", "published_friction", "simulate"]

_GRAVITY = 9.81  # [m/s2]
_DUTY = 4096 / (2 * np.pi) / 256 / 885  # duty a radian of error and a unit of kp
_REFERENCE = 30.0  # [deg C] at which the resistance is given


def _parameter(name: str, unit: str, low: float, high: float) -> Parameter:
    return Parameter(name=name, unit=unit, low=low, high=high, target=f"world/-/{name}")


SERVO_FAMILY = ParameterFamily(
    "servo",
    (
        _parameter("torque_constant", "N m/A", 0.15, 0.8),
        _parameter("resistance", "ohm", 1.0, 9.0),
        _parameter("armature", "kg m2", 1e-4, 6e-3),
        _parameter("offset", "rad", -0.1, 0.1),
        _parameter("base", "N m", 0.0, 0.06),
        _parameter("load_motor", "1", 0.0, 0.9),
        _parameter("load_external", "1", 0.0, 0.9),
        _parameter("stribeck", "1", 0.0, 4.0),
        _parameter("stribeck_speed", "rad/s", 0.02, 5.0),
        _parameter("viscous", "N m s/rad", 0.0, 0.03),
        _parameter("gain", "1", 0.8, 1.25),
        _parameter("delay", "s", 0.0, 0.05),
        _parameter("heating", "1/K", -0.01, 0.03),
        _parameter("sag", "1", 0.0, 0.4),
    ),
)
"""What is believed before any log is seen; uniform."""


@dataclass(frozen=True)
class ServoBatch:
    """Logs side by side, the shorter ones held at their last value."""

    goal: Float[np.ndarray, "log time"]
    enabled: Bool[np.ndarray, "log time"]
    volts: Float[np.ndarray, "log time"]
    temperature: Float[np.ndarray, "log time"]
    position: Float[np.ndarray, "log time"]
    valid: Bool[np.ndarray, "log time"]
    start: Float[np.ndarray, "log 2"]
    """Position and velocity at the first entry."""
    kp: Float[np.ndarray, " log"]
    mass: Float[np.ndarray, " log"]
    length: Float[np.ndarray, " log"]
    dt: float

    @classmethod
    def of(cls, logs: Sequence[ServoLog], *, nominal: bool = False) -> ServoBatch:
        """Put logs of one rate together.

        Args:
            logs: at least one.
            nominal: take the nominal supply in place of the measured one.

        Raises:
            BadInput: no log, or logs of different rates.
        """
        rates = {log.dt for log in logs}
        if len(rates) != 1:
            raise BadInput(f"logs with time steps of {sorted(rates)} s cannot be simulated together")
        longest = max(len(log) for log in logs)

        def held(name: str) -> np.ndarray:
            columns = (getattr(log, name) for log in logs)
            return np.stack([np.pad(column, (0, longest - len(column)), mode="edge") for column in columns])

        volts = held("volts")
        return cls(
            goal=held("goal"), enabled=held("enabled"), temperature=held("temperature"), position=held("position"),
            volts=np.broadcast_to([[log.supply] for log in logs], volts.shape) if nominal else volts,
            valid=np.stack([np.arange(longest) < len(log) for log in logs]),
            start=np.array([[log.position[0], log.velocity[0]] for log in logs]),
            kp=np.array([log.kp for log in logs]), mass=np.array([log.mass for log in logs]),
            length=np.array([log.length for log in logs]), dt=rates.pop(),
        )  # fmt: skip


def simulate(
    parameters: Float[np.ndarray, "candidate parameter"], batch: ServoBatch, *, substeps: int = 2
) -> Float[np.ndarray, "candidate log time"]:
    """Positions [rad] under the logs' commands, from their first entries on; the columns are `SERVO_FAMILY.names`.

    Semi-implicit Euler; what is not finite becomes a right angle, so that a search turns away from it.
    """
    p = {name: column[:, None] for name, column in zip(SERVO_FAMILY.names, np.asarray(parameters, float).T)}
    candidates, (logs, time) = len(parameters), batch.goal.shape
    q, v = (np.broadcast_to(column, (candidates, logs)).copy() for column in batch.start.T)
    inertia = batch.mass * batch.length**2 + p["armature"]
    weight = batch.mass * _GRAVITY * batch.length
    proportional = _DUTY * batch.kp * p["gain"]
    rows, h, kt = np.arange(logs), batch.dt / substeps, p["torque_constant"]
    out = np.empty((time, candidates, logs))
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(time):
            out[k] = q
            resistance = p["resistance"] * (1 + p["heating"] * (batch.temperature[:, k] - _REFERENCE))
            volts = batch.volts[:, k]
            for s in range(substeps):
                at = k + s / substeps - p["delay"] / batch.dt
                before = np.clip(np.floor(at).astype(int), 0, time - 1)
                after = np.minimum(before + 1, time - 1)
                part = np.clip(at - before, 0.0, 1.0)
                goal = (1 - part) * batch.goal[rows, before] + part * batch.goal[rows, after]
                duty = np.clip(proportional * (goal - q), -1.0, 1.0)
                driven = (kt * duty * volts * (1 - p["sag"] * np.abs(duty)) - kt * kt * v) / resistance
                motor = np.where(batch.enabled[rows, before], driven, 0.0)
                gravity = -weight * np.sin(q + p["offset"])
                loaded = p["base"] + np.abs(p["load_motor"] * motor - p["load_external"] * gravity)
                speed = np.abs(v)
                most = loaded * (1 + p["stribeck"] * np.exp(-speed / p["stribeck_speed"])) + p["viscous"] * speed
                stopping = motor + gravity + inertia * v / h
                v = (stopping - np.clip(stopping, -most, most)) * h / inertia
                q = q + v * h
    return np.where(np.isfinite(out), out, np.pi / 2).transpose(1, 2, 0)


def published_friction(values: Mapping[str, float]) -> Float[np.ndarray, " parameter"]:
    """Parameters of the published model M1 (Coulomb and viscous friction) in `SERVO_FAMILY`'s order.

    Args:
        values: `kt`, `R`, `armature`, `q_offset`, `friction_base`, `friction_viscous`, as the BAM project's JSON files.

    Raises:
        BadInput: a value is missing, or the file is of another model.
    """
    names = {
        "torque_constant": "kt", "resistance": "R", "armature": "armature", "offset": "q_offset",
        "base": "friction_base", "viscous": "friction_viscous",
    }  # fmt: skip
    mapping(values, "a friction model")
    missing = [theirs for theirs in names.values() if theirs not in values]
    if missing or values.get("model", "m1") != "m1":
        raise BadInput(f"not a friction model M1: it lacks {missing}, and says model = {values.get('model')!r}")
    ours = dict.fromkeys(SERVO_FAMILY.names, 0.0) | {"stribeck_speed": 1.0, "gain": 1.0}
    ours |= {name: number(values[theirs], theirs) for name, theirs in names.items()}
    return np.array([ours[name] for name in SERVO_FAMILY.names])
