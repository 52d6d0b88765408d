"""Choices of the arm's ledger: to be made before a log is looked at, and the same for every log."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from dexprior.config import Ge, config

__all__ = ["ArmReportConfig"]


@config
class ArmReportConfig:
    """How lag, backlash, noise floor and divergence are estimated."""

    earliest: float = -0.1
    """Smallest lag that is looked for [s]; negative, so that clocks set apart are seen and not hidden."""
    latest: float = 0.5
    """Largest lag that is looked for [s]."""
    settle: Annotated[float, Ge(0)] = 1.0
    """Start of each motion that is left out [s]: a limp arm is first drawn to where the command begins."""
    widest: float = 0.2
    """Largest backlash that is looked for [rad]; never more than 0.9 of what a joint is commanded to do."""
    moving: float = 0.01
    """Range of the command below which a joint counts as held [rad]."""
    explained: float = 0.5
    """Share of a measurement's variance that the delayed command must explain for its lag to mean anything."""
    block: float = 2.0
    """Length of the bootstrap's blocks [s]; a whole period where the command repeats at least eight times."""
    draws: Annotated[int, Ge(50)] = 400
    """Draws of the bootstrap."""
    level: float = 0.95
    """Level of all intervals."""
    threshold: float = 6.0
    """Half width of the band around the prediction, in robust standard deviations of the residual."""
    run: float = 0.1
    """Time for which a measurement must stay outside the band [s]."""
    joints: dict[str, str] = field(default_factory=dict)
    """Names of the simulator's joints by the logs' where they differ, as {shoulder: joint2}: a family whose joints
    differ writes to these."""
    alike: float = 0.005
    """A stretch of command is a repeat where it differs from the others by less than this share of the command's range
    (root mean square)."""
