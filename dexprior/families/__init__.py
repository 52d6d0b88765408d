"""Parameter families p(Phi): what a simulator assumes, as distributions with provenance; and what else may be wrong."""

from dexprior.families.actuation import ACTUATOR_DELAY, BACKLASH, actuation
from dexprior.families.events import DROPOUTS, Event, EventFamily, EventPrior, Events, gap_of_event
from dexprior.families.family import Parameter, ParameterFamily, fixed_outside
from dexprior.families.gaps import GAPS, Gap, gap_of

__all__ = [
    "ACTUATOR_DELAY",
    "BACKLASH",
    "DROPOUTS",
    "GAPS",
    "Event",
    "EventFamily",
    "EventPrior",
    "Events",
    "Gap",
    "Parameter",
    "ParameterFamily",
    "actuation",
    "fixed_outside",
    "gap_of",
    "gap_of_event",
]
