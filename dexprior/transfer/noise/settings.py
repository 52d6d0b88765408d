"""Choices of the fit of noise: made before a log is looked at, and the same for every log."""

from __future__ import annotations

from typing import Annotated

from dexprior.config import Ge, Gt, Le, Lt, config

__all__ = ["NoiseFitConfig"]


@config
class NoiseFitConfig:
    """How noise, drift, steps and timing are estimated."""

    level: Annotated[float, Gt(0), Lt(1)] = 0.95
    """Level of all intervals."""
    points: Annotated[int, Ge(2)] = 6
    """Averaging times a decade."""
    longest: Annotated[float, Gt(0), Le(0.5)] = 0.2
    """Longest averaging time, as a share of the log."""
    distinct: Annotated[float, Gt(0)] = 3.0
    """Standard errors by which a term of the Allan variance, or a jitter's, must exceed zero to be identifiable."""
    evidence: Annotated[float, Gt(0)] = 16.0
    """Twice the log likelihood ratio from which a drift is one and no random walk."""
    rest: Annotated[float, Gt(0)] = 1.0
    """Shortest time for which a joint must be commanded to stay to count as resting [s]."""
    settle: Annotated[float, Ge(0)] = 0.5
    """Start of each rest that is left out [s]."""
    steady: Annotated[float, Gt(0)] = 0.15
    """Standard deviation of the clock's step, as a share of it, above which gaps cannot be counted in packets."""
