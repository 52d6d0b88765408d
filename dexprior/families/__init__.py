"""Parameter families p(Phi): what a simulator assumes, as distributions with provenance."""

from dexprior.families.actuation import ACTUATOR_DELAY, BACKLASH, actuation
from dexprior.families.family import Parameter, ParameterFamily, fixed_outside

__all__ = ["ACTUATOR_DELAY", "BACKLASH", "Parameter", "ParameterFamily", "actuation", "fixed_outside"]
