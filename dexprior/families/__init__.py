"""Parameter families p(Phi): what a simulator assumes, as distributions with provenance."""

from dexprior.families.family import Parameter, ParameterFamily, fixed_outside

__all__ = ["Parameter", "ParameterFamily", "fixed_outside"]
