"""Helpers for the parameter families of tasks."""

from __future__ import annotations

from dataclasses import replace

from dexprior.errors import BadInput, UnknownName
from dexprior.families import Parameter, ParameterFamily

__all__ = ["reality_of"]


def reality_of(training: ParameterFamily, *extra: Parameter, **values: float) -> ParameterFamily:
    """The other world of a task: every parameter fixed to a value outside the training family's support.

    Args:
        training: the family.
        extra: fixed parameters that training does not vary.
        values: one for each of the family's parameters.

    Raises:
        UnknownName: a value for no parameter.
        BadInput: a parameter without a value, or a value that training covers.
    """
    unknown = set(values) - set(training.names)
    if unknown:
        raise UnknownName(f"parameter of {training.name!r}", sorted(unknown)[0], training.names)
    fixed = []
    for p in training.parameters:
        if p.name not in values:
            raise BadInput(f"the other world of {training.name!r} has no value for {p.name!r}")
        value = values[p.name]
        if p.low <= value <= p.high:
            raise BadInput(f"{p.name!r} = {value} lies inside the training family's [{p.low}, {p.high}]")
        fixed.append(replace(p, low=value, high=value, distribution="uniform", mean=None, std=None))
    return ParameterFamily(training.name.replace("training", "reality"), (*fixed, *extra))
