"""Events: what changes in a world while an episode runs, as values that a panel can hold.

Event(kind="set", time=1.2, target="cube_friction", value=(0.2,))      a parameter of the family takes a value
Event(kind="scale", time=1.2, target="cube_mass", value=(2.0,))        ... or is multiplied
Event(kind="push", time=0.8, target="cube", value=(0.05, 0.0, 0.0))    an impulse on a body [N s]
Event(kind="dropout", time=1.0, target="wrench", duration=0.4)         a sensor keeps its last reading
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from dexprior.config import Ge, Le, config
from dexprior.errors import BadInput, UnknownName
from dexprior.families.family import ParameterFamily
from dexprior.families.gaps import Gap, gap_of

__all__ = ["DROPOUTS", "Event", "EventFamily", "EventPrior", "Events", "gap_of_event"]

Kind = Literal["set", "scale", "push", "dropout"]
DROPOUTS = ("proprio", "wrench", "touch", "cloud")
"""Streams that can drop out."""
_NUMBERS: dict[str, int] = {"set": 1, "scale": 1, "push": 3, "dropout": 0}


@config
class Event:
    """One thing that happens in one world."""

    kind: Kind
    """What happens; see the module."""
    time: Annotated[float, Ge(0)]
    """Seconds since reset; it takes effect with the first command at or after it."""
    target: str
    """Name of a parameter, glob over bodies, or name of a sensor stream."""
    value: tuple[float, ...] = ()
    """One number of a parameter, or an impulse in world axes [N s] that its bodies share evenly; empty for dropouts."""
    duration: Annotated[float, Ge(0)] = 0.0
    """Seconds that it lasts. 0: a change stays, a push takes one control period, a dropout lasts to the end."""

    def __post_init__(self) -> None:
        if len(self.value) != _NUMBERS[self.kind]:
            raise BadInput(
                f"event {self.kind!r} on {self.target!r}: {len(self.value)} numbers, expected {_NUMBERS[self.kind]}"
            )
        if self.kind == "dropout" and self.target not in DROPOUTS:
            raise UnknownName("sensor stream for a dropout", self.target, DROPOUTS)


Events = tuple[tuple[Event, ...], ...]
"""Events of each world, in the order in which they are applied."""


@config
class EventPrior:
    """How likely an event is, when, and how strong; numbers are uniform within their bounds."""

    kind: Kind
    """Kind of the event."""
    target: str
    """Target of the event."""
    probability: Annotated[float, Ge(0), Le(1)] = 1.0
    """That it happens in a world."""
    time: tuple[float, float]
    """Earliest and latest [s]."""
    low: tuple[float, ...] = ()
    """Smallest numbers of its value."""
    high: tuple[float, ...] = ()
    """Largest ones."""
    duration: tuple[float, float] = (0.0, 0.0)
    """Shortest and longest [s]."""

    def __post_init__(self) -> None:
        for name in ("time", "duration"):
            low, high = getattr(self, name)
            if not 0.0 <= low <= high:
                raise BadInput(f"event {self.kind!r} on {self.target!r}: {name} from {low} to {high}")
        if len(self.low) != len(self.high) or any(a > b for a, b in zip(self.low, self.high)):
            raise BadInput(f"event {self.kind!r} on {self.target!r}: values from {self.low} to {self.high}")
        Event(kind=self.kind, time=0.0, target=self.target, value=self.low)  # the same checks


@dataclass(frozen=True)
class EventFamily:
    """What may happen in a world, independently of each other."""

    name: str
    priors: tuple[EventPrior, ...]

    def sample(self, rng: np.random.Generator, n: int) -> Events:
        """Draw the events of n worlds; as many random numbers are used whether or not they happen."""
        worlds: list[list[Event]] = [[] for _ in range(n)]
        for prior in self.priors:
            u = rng.random((n, 3 + len(prior.low)))
            for world, row in zip(worlds, u):
                if row[0] < prior.probability:
                    time, duration = (
                        low + x * (high - low) for x, (low, high) in zip(row[1:3], (prior.time, prior.duration))
                    )
                    value = tuple(float(a + x * (b - a)) for x, a, b in zip(row[3:], prior.low, prior.high))
                    world.append(
                        Event(
                            kind=prior.kind,
                            time=float(time),
                            target=prior.target,
                            value=value,
                            duration=float(duration),
                        )
                    )
        return tuple(map(tuple, worlds))


def gap_of_event(event: Event, family: ParameterFamily) -> Gap:
    """The gap that an event stands for: its parameter's; environment for a push; sensor for a dropout.

    Raises:
        UnknownName: the family has no such parameter.
    """
    if event.kind == "push":
        return "environment"
    if event.kind == "dropout":
        return "sensor"
    if event.target not in family.names:
        raise UnknownName("parameter for an event", event.target, family.names)
    return gap_of(family.parameters[family.names.index(event.target)])
