"""What happened at one moment, in words: rows `[t, t_host, name]` of `Trace.info["events"]`.

Not to be confused with `dexprior.families.Event`, which is what a panel makes happen; this is what a recorder saw.
docs/decisions/0014-traces-on-disk.md says why they are no `Channel`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dexprior.errors import BadInput

__all__ = ["TraceEvent", "events_of"]


class TraceEvent(NamedTuple):
    """A moment with a name."""

    t: float
    """Seconds on the source's clock."""
    t_host: float
    """Seconds on the host's clock."""
    name: str


def events_of(info: Mapping[str, Any]) -> tuple[TraceEvent, ...]:
    """The events of a trace's info, checked; none where it holds none.

    Raises:
        BadInput: a row that is not `[t, t_host, name]` of two finite numbers and a text.
    """
    rows = info.get("events", ())
    if not isinstance(rows, (list, tuple)):
        raise BadInput(f"Trace.info['events'] = {rows!r}: expected rows [t, t_host, name]")
    return tuple(_event(k, row) for k, row in enumerate(rows))


def _event(k: int, row: Iterable[Any]) -> TraceEvent:
    try:
        t, t_host, name = row
        event = TraceEvent(float(t), float(t_host), name)
    except (TypeError, ValueError):
        raise BadInput(f"event {k} is {row!r}, expected [t, t_host, name]") from None
    if not (math.isfinite(event.t) and math.isfinite(event.t_host)) or not isinstance(name, str):
        raise BadInput(f"event {k} is {row!r}, expected two finite times [s] and a text")
    return event
