"""Which gaps two worlds differ in: the switches between them, sorted by gap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from dexprior.families.events import Event, Events, gap_of_event
from dexprior.families.family import ParameterFamily
from dexprior.families.gaps import GAPS, Gap, gap_of
from dexprior.families.injectors import INJECTORS, Injectors
from dexprior.families.phenomena import PHENOMENA, Phenomena
from dexprior.families.sensors.models import SENSORS, SensorModels

__all__ = ["switches_by_gap"]


def switches_by_gap(
    *,
    family: ParameterFamily | None = None,
    reference: ParameterFamily | None = None,
    events: Events = (),
    phenomena: Phenomena | None = None,
    injectors: Injectors | None = None,
    sensors: SensorModels | None = None,
) -> dict[Gap, tuple[str, ...]]:
    """Names of the switches that are on, by the gap that they belong to; what a ledger attributes a loss to.

    Args:
        family: of a world's parameters.
        reference: of the world that it is compared with; parameters that both have alike are left out.
        events: of its instances; they change parameters of `family`.
        phenomena: of its contacts.
        injectors: of its task.
        sensors: models of its sensors and links.

    Raises:
        BadInput: a parameter whose gap is not known.
        UnknownName: an event of a parameter that the family does not have.
    """
    on: defaultdict[Gap, set[str]] = defaultdict(set)
    alike = set() if reference is None else set(reference.parameters)
    for parameter in () if family is None else family.parameters:
        if parameter not in alike:
            on[gap_of(parameter)].add(parameter.name)
    for event in _all(events):
        on[gap_of_event(event, family or ParameterFamily("none", ()))].add(f"{event.kind}:{event.target}")
    for name in () if phenomena is None else phenomena.active:
        on[PHENOMENA[name]].add(name)
    for name in () if sensors is None else sensors.active:
        on[SENSORS[name]].add(name)
    for name, _ in () if injectors is None else injectors.strengths:
        on[INJECTORS[name]].add(name)
    return {gap: tuple(sorted(on[gap])) for gap in GAPS if gap in on}


def _all(events: Events) -> Iterable[Event]:
    return (event for row in events for event in row)
