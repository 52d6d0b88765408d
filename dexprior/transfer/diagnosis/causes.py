"""What may be wrong, one at a time: causes that can be injected into a simulated world, each with its gap.

A cause acts on whatever the task has: friction means every friction coefficient of its family, mass every body of it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput, UnknownName
from dexprior.families import (
    ACTUATOR_DELAY,
    BACKLASH,
    SERVO_DAMPING,
    SERVO_STIFFNESS,
    Gap,
    Parameter,
    ParameterFamily,
    actuation,
    joint_of,
    servos,
)
from dexprior.transfer.divergence import Signals
from dexprior.transfer.replay import Probe, replay
from dexprior.worlds.tasks import Recording, Task, inject

__all__ = ["CAUSES", "Cause", "cause_of", "completed", "identified", "inject_cause", "injectable"]

Kind = Literal["scale", "add", "injector", "sensor"]


@dataclass(frozen=True)
class Cause:
    """One thing that may be wrong, with a magnitude."""

    name: str
    gap: Gap
    kind: Kind
    """Whether it scales parameters, adds to them, is an injector of the task, or acts on what sensors read."""
    target: str
    """Glob over the targets of parameters, name of an injector, or name of what happens to a sensor."""
    low: float
    """Smallest magnitude that is injected: a factor, a sum in the parameter's unit, a strength, or N/s, 1, rad."""
    high: float
    inverse: bool = False
    """Whether the factor's inverse is as likely."""

    def draw(
        self, rng: np.random.Generator, n: int, *, within: tuple[float, float] = (0.0, 1.0)
    ) -> Float[np.ndarray, " n"]:
        """Magnitudes, uniform in the logarithm over a part of the range."""
        u = rng.uniform(*within, n)
        size = self.low * (self.high / self.low) ** u
        if self.inverse:
            size = np.where(rng.random(n) < 0.5, size, 1.0 / size)
        return size


CAUSES: dict[str, Cause] = {
    cause.name: cause
    for cause in (
        Cause("friction", "contact", "scale", "*/friction/0", 1.3, 2.2, inverse=True),
        Cause("contact_give", "contact", "scale", "*/solref/0", 1.6, 3.5),
        Cause("delay", "sensor", "add", f"*/{ACTUATOR_DELAY}", 0.004, 0.03),
        Cause("backlash", "sensor", "add", f"*/{BACKLASH}", 0.004, 0.03),
        Cause("servo_gain", "sensor", "scale", f"*/{SERVO_STIFFNESS}", 1.2, 2.0, inverse=True),
        Cause("force_drift", "sensor", "sensor", "drift", 0.5, 4.0),
        Cause("mass", "object", "scale", "body/*/mass", 1.4, 3.0, inverse=True),
        Cause("uneven_mass", "object", "injector", "uneven_mass", 0.35, 1.0),
        Cause("cables", "environment", "injector", "cables", 0.3, 1.0),
        Cause("servo_damping", "sensor", "scale", f"*/{SERVO_DAMPING}", 1.4, 2.5, inverse=True),
        Cause("force_gain", "sensor", "sensor", "gain", 0.1, 0.4),
        Cause("joint_offset", "sensor", "sensor", "offset", 0.002, 0.015),
    )
}  # fmt: skip
"""Causes by name."""

_WIDEST = {ACTUATOR_DELAY: (0.0, 0.08), BACKLASH: (0.0, 0.06)}


def cause_of(name: str) -> Cause:
    """A cause by name.

    Raises:
        UnknownName: no such cause.
    """
    if name not in CAUSES:
        raise UnknownName("cause", name, tuple(CAUSES))
    return CAUSES[name]


def identified(task: Task, *, width: float = 0.05, delay: float = 0.010) -> ParameterFamily:
    """What a simulator assumes of a task after its parameters were identified: the middle of its family, give or take.

    Args:
        task: with a family.
        width: half the width of every parameter over its middle.
        delay: of the actuators [s], known to a millisecond.
    """

    def narrow(p: Parameter) -> Parameter:
        if p.name == ACTUATOR_DELAY:
            return replace(p, low=delay - 0.001, high=delay + 0.001)
        if p.name == BACKLASH:
            return replace(p, low=0.0, high=0.0)
        middle = float(p.ppf(np.array([0.5]))[0])
        return replace(
            p, low=middle * (1 - width), high=middle * (1 + width), distribution="uniform", mean=None, std=None
        )

    return ParameterFamily(f"{task.name}-identified", tuple(narrow(p) for p in everything(task).parameters))


def completed(task: Task, family: ParameterFamily | None) -> ParameterFamily:
    """A round's family with whatever else a cause may act on, which is taken as `identified`; in the latter's order.

    Args:
        task: of the round.
        family: what the simulator assumed; None for `identified` itself.

    Raises:
        UnknownName: a parameter that the task does not have.
        BadInput: one that goes elsewhere than the task's, is applied in another way, or is one joint's.
    """
    known = identified(task)
    if family is None:
        return known
    mine = {p.name: p for p in family.parameters}
    for p in family.parameters:
        if joint_of(p) not in (None, "-"):
            raise BadInput(
                f"parameter {p.name!r} of the family {family.name!r} is one joint's; a round is diagnosed with one "
                "delay and one backlash for all joints: leave it out of the round's family"
            )
        if p.name not in known.names:
            raise UnknownName(f"parameter of the task {task.name!r} in the family {family.name!r}", p.name, known.names)
        other = known.parameters[known.names.index(p.name)]
        if (p.target, p.operation) != (other.target, other.operation):
            raise BadInput(
                f"parameter {p.name!r} of the family {family.name!r} is {p.operation} at {p.target!r}; the task "
                f"{task.name!r} has it {other.operation} at {other.target!r}"
            )
    return ParameterFamily(family.name, tuple(mine.get(p.name, p) for p in known.parameters), family.density)


def everything(task: Task) -> ParameterFamily:
    """A task's family and all that lies between its commands and its joints, as wide as any cause needs it."""
    return task.family.extended(*actuation(delay=_WIDEST[ACTUATOR_DELAY], backlash=_WIDEST[BACKLASH]), *servos())


def injectable(cause: Cause, task: Task) -> bool:
    """Whether a task has what a cause acts on."""
    if cause.kind == "injector":
        try:
            inject(task, {cause.target: 1.0}).layout()  # what an injector acts on is looked for in the scene
        except BadInput:
            return False
    return cause.kind in ("injector", "sensor") or bool(_columns(cause, everything(task)))


def inject_cause(
    probe: Probe,
    cause: Cause | None,
    values: Float[np.ndarray, "group parameter"],
    magnitudes: Float[np.ndarray, " group"],
    *,
    repeats: int,
    seed: int,
    noisy: bool = True,
) -> Signals:
    """Replay a probe in worlds of a family in which one thing is wrong.

    Args:
        probe: what is replayed.
        cause: what is wrong; None for nothing.
        values: of the parameters of `everything`, one row a group.
        magnitudes: of the cause, one a group; injectors have one for all, their mean.
        repeats: worlds in each group.
        seed: of noise.
        noisy: whether sensors have noise.

    Raises:
        BadInput: the task has nothing that the cause acts on.
    """
    family, values = everything(probe.task), np.array(values, dtype=np.float64)
    whole = probe.panel_hash
    disturb: Callable[[Recording], Mapping[str, np.ndarray]] | None = None
    if cause is not None and not injectable(cause, probe.task):
        raise BadInput(f"cause {cause.name!r}: task {probe.task.name!r} has nothing for it to act on")
    if cause is not None and cause.kind in ("scale", "add"):
        columns = _columns(cause, family)
        change = magnitudes[:, None]
        values[:, columns] = values[:, columns] * change if cause.kind == "scale" else values[:, columns] + change
    elif cause is not None and cause.kind == "injector":
        probe = replace(probe, task=inject(probe.task, {cause.target: float(np.mean(magnitudes))}))
    elif cause is not None:
        disturb = _Sensor(cause.target, np.repeat(magnitudes, repeats), repeats, seed)
    logged = replay(
        probe, _unbounded(family), values, repeats=repeats, seed=seed, disturb=disturb, noisy=noisy, threads=0
    )  # fmt: skip
    return replace(logged, panel_hash=whole)  # an injector makes it another task, which the robot does not know


def _columns(cause: Cause, family: ParameterFamily) -> list[int]:
    return [k for k, p in enumerate(family.parameters) if fnmatch.fnmatchcase(p.target, cause.target)]


def _unbounded(family: ParameterFamily) -> ParameterFamily:
    """The same parameters, far beyond their supports: a cause may lie outside."""
    wide = tuple(
        replace(p, low=0.0 if p.low >= 0 else 5 * p.low, high=5 * p.high, distribution="uniform", mean=None, std=None)
        for p in family.parameters
    )
    return ParameterFamily(family.name, wide)


@dataclass(frozen=True)
class _Sensor:
    """What a sensor adds; directions are those of each group."""

    what: str
    magnitude: Float[np.ndarray, " world"]
    repeats: int
    seed: int

    def __call__(self, recording: Recording) -> dict[str, np.ndarray]:
        rng = np.random.default_rng([self.seed, 99])
        groups = len(self.magnitude) // self.repeats
        size = self.magnitude[:, None, None]

        def direction(n: int) -> np.ndarray:
            d = rng.standard_normal((groups, n))
            return np.repeat(d / np.linalg.norm(d, axis=1, keepdims=True), self.repeats, axis=0)[:, None]

        if self.what == "drift":
            force = np.zeros_like(recording.wrench)
            force[..., :3] = size * direction(3) * recording.t[:, None]
            return {"force": force}
        if self.what == "gain":
            return {"force": size * recording.wrench * direction(1)}
        if self.what == "offset":
            return {"joints": size * direction(recording.q.shape[-1]) * np.ones_like(recording.q)}
        raise UnknownName("sensor effect", self.what, ("drift", "gain", "offset"))
