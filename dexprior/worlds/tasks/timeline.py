"""Applies each world's events at the right control period."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from dexprior.errors import BadInput, UnknownName
from dexprior.families import Event, ParameterFamily
from dexprior.worlds.tasks.models import ParametersOfWorlds

if TYPE_CHECKING:
    import mujoco

    from dexprior.worlds.tasks.view import View

__all__ = ["Timeline"]

_NEVER = np.iinfo(np.int64).max


class Timeline:
    """The events of n worlds.

    What holds at a moment follows from the events and the world's clock alone, so that a snapshot needs no more than
    the same events to go on. Worlds without an event cost nothing; the others cost where something changes.

    Args:
        model: compiled.
        family: of the parameters that events change.
        parameters: what writes them.
        view: of the worlds.
        control_dt: seconds in a control period.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        family: ParameterFamily,
        parameters: ParametersOfWorlds,
        view: View,
        *,
        control_dt: float,
    ) -> None:
        self._model, self._family, self._parameters, self._view, self._dt = model, family, parameters, view, control_dt
        self._events: list[tuple[Event, ...]] = [()] * view.n
        self._start: list[Mapping[str, float]] = [{}] * view.n
        self._next = np.full(view.n, _NEVER)
        self._dropouts: dict[str, list[tuple[int, Event]]] = {}

    def check(self, events: Sequence[Sequence[Event]], worlds: int) -> None:
        """Whether events can be applied.

        Raises:
            BadInput: not one list a world, or a push on bodies that cannot move.
            UnknownName: a parameter or body that is not there.
        """
        if len(events) not in (0, worlds):
            raise BadInput(f"events of {len(events)} worlds, expected {worlds}")
        for event in {event for row in events for event in row}:
            if event.kind in ("set", "scale") and event.target not in self._family.names:
                raise UnknownName("parameter for an event", event.target, self._family.names)
            if event.kind == "push":
                self._bodies(event.target)

    def reset(self, ids: np.ndarray, values: Sequence[Mapping[str, float]], events: Sequence[Sequence[Event]]) -> None:
        """Give some worlds their events; `values` are the parameters that they begin with."""
        for k, i in enumerate(ids):
            self._events[i] = tuple(events[k]) if len(events) else ()
            self._start[i] = values[k]
            self._next[i] = 0 if self._events[i] else _NEVER
        self._dropouts = {}
        for i, event in ((i, event) for i, row in enumerate(self._events) for event in row):
            if event.kind == "dropout":
                self._dropouts.setdefault(event.target, []).append((i, event))

    def apply(self) -> Int[np.ndarray, " changed"]:
        """Bring every world to what holds in the control period that begins now.

        Returns:
            Worlds whose parameters were written.
        """
        if self._next.min() == _NEVER:
            return np.zeros(0, dtype=int)
        step = self._step()
        due = np.flatnonzero(self._next <= step)
        changed = [i for i in due if self._bring(int(i), int(step[i]))]
        return np.array(changed, dtype=int)

    def dropped(self, stream: str) -> Bool[np.ndarray, " n"] | None:
        """Worlds in which a sensor stream is stale at this moment; None where no world has such an event."""
        rows = self._dropouts.get(stream)
        if not rows:
            return None
        stale, step = np.zeros(self._view.n, dtype=bool), self._step()
        for i, event in rows:
            stale[i] |= self._holds(event, int(step[i]))
        return stale

    def _step(self) -> Int[np.ndarray, " n"]:
        return np.rint(self._view.time / self._dt).astype(np.int64)

    def _span(self, event: Event) -> tuple[int, int]:
        first = int(np.ceil(event.time / self._dt - 1e-9))
        if event.duration > 0:
            return first, first + max(1, round(event.duration / self._dt))
        return first, first + 1 if event.kind == "push" else _NEVER

    def _holds(self, event: Event, step: int) -> bool:
        first, last = self._span(event)
        return first <= step < last

    def _bring(self, world: int, step: int) -> bool:
        """Write what holds in one world; whether parameters changed."""
        events = self._events[world]
        edges = [edge for event in events for edge in self._span(event) if edge > step]
        self._next[world] = min(edges, default=_NEVER)
        self._push(world, [e for e in events if e.kind == "push"], step)
        values = dict(self._start[world])
        for event in events:
            if event.kind in ("set", "scale") and self._holds(event, step):
                old = values[event.target] if event.kind == "scale" else 1.0
                values[event.target] = old * event.value[0]
        if values == dict(self._view.parameters[world]):
            return False
        self._parameters.write(world, values)
        self._view.parameters[world] = values
        return True

    def _push(self, world: int, pushes: list[Event], step: int) -> None:
        for event in pushes:
            self._forces()[world, self._bodies(event.target), :3] = 0.0
        for event in pushes:
            first, last = self._span(event)
            if first <= step < last:
                bodies = self._bodies(event.target)
                force = np.array(event.value) / ((last - first) * self._dt * len(bodies))
                self._forces()[world, bodies, :3] += force

    def _forces(self) -> Float[np.ndarray, "n body 6"]:
        return self._view.state_field("xfrc_applied")

    def _bodies(self, pattern: str) -> list[int]:
        model = self._model
        names = {model.body(k).name: k for k in range(1, model.nbody)}
        found = [k for name, k in names.items() if fnmatch.fnmatchcase(name, pattern)]
        if not found:
            raise UnknownName("body for a push", pattern, tuple(names))
        fixed = [model.body(k).name for k in found if model.body_treeid[k] < 0]
        if fixed:
            raise BadInput(f"event push on {pattern!r}: body {fixed[0]!r} does not move")
        return found
