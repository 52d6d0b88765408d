"""Choices of the comparison: to be made before a real trace is looked at."""

from __future__ import annotations

from typing import Annotated

from dexprior.config import Ge, Gt, Lt, config

__all__ = ["DivergenceConfig"]


@config
class DivergenceConfig:
    """How a first divergence is looked for."""

    alpha: Annotated[float, Gt(0), Lt(1)] = 0.05
    """Probability, over all channels, of an alarm for a robot that is one of the family."""
    averages: tuple[float, ...] = (0.0, 0.024, 0.1)
    """Lengths of the running means whose largest deviation is looked at [s]; 0 is a single sample."""
    allowance: Annotated[float, Ge(0)] = 1.0
    """What is taken off each deviation before CUSUM adds it up [standard deviations]."""
    fit: Annotated[float, Gt(0), Lt(1)] = 0.35
    """Share of the reference groups that give centre and scale; the others give the threshold."""
    timing: str = "joints"
    """Channel from whose lag behind the family's centre the timing is read; empty for none."""
    lag_window: Annotated[float, Gt(0)] = 0.1
    """Length over which that lag is averaged [s]."""
    onset_window: Annotated[float, Gt(0)] = 0.5
    """Before an alarm, in which its onset is looked for [s]."""
    onset_samples: Annotated[int, Ge(1)] = 3
    """How many samples are used from when the statistic stays beyond what nine of ten groups reach: later ones would
    tie the onset to the shape of what follows."""
    onset_level: Annotated[float, Gt(0), Lt(1)] = 0.95
    """Level of the onset's interval."""
    draws: Annotated[int, Ge(50)] = 200
    """Draws of its bootstrap."""
