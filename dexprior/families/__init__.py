"""Parameter families p(Phi): what a simulator assumes, as distributions with provenance; and what else may be wrong."""

from dexprior.families.actuation import (
    ACTUATOR_DELAY,
    BACKLASH,
    SERVO_DAMPING,
    SERVO_STIFFNESS,
    actuation,
    by_joint,
    joint_of,
    servos,
)
from dexprior.families.attribution import switches_by_gap
from dexprior.families.densities import Copula, Density, Flow, Independent, Particles, fit_density
from dexprior.families.events import DROPOUTS, Event, EventFamily, EventPrior, Events, gap_of_event
from dexprior.families.family import ParameterFamily, drawn_outside, fixed_outside
from dexprior.families.gaps import GAPS, Gap, gap_of
from dexprior.families.injectors import INJECTORS, Injectors
from dexprior.families.parameter import Parameter, Transform
from dexprior.families.phenomena import (
    PHENOMENA,
    Anisotropy,
    Dissipation,
    Hysteresis,
    Phenomena,
    Stribeck,
    TendonCompliance,
    ToeStiffness,
)
from dexprior.families.sensors import SENSORS, SensorModels, SightConfig

__all__ = [
    # families
    "Parameter",
    "ParameterFamily",
    "Transform",
    "drawn_outside",
    "fixed_outside",
    "ACTUATOR_DELAY",
    "BACKLASH",
    "SERVO_DAMPING",
    "SERVO_STIFFNESS",
    "actuation",
    "by_joint",
    "joint_of",
    "servos",
    # densities
    "Copula",
    "Density",
    "Flow",
    "Independent",
    "Particles",
    "fit_density",
    # events
    "DROPOUTS",
    "Event",
    "EventFamily",
    "EventPrior",
    "Events",
    "gap_of_event",
    # contact phenomena
    "PHENOMENA",
    "Anisotropy",
    "Dissipation",
    "Hysteresis",
    "Phenomena",
    "Stribeck",
    "TendonCompliance",
    "ToeStiffness",
    # sensor models
    "SENSORS",
    "SightConfig",
    "SensorModels",
    # injectors
    "INJECTORS",
    "Injectors",
    # gaps
    "GAPS",
    "Gap",
    "gap_of",
    "switches_by_gap",
]
