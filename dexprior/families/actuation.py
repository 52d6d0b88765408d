"""Parameters of what lies between a command and a joint: a delay, and the play of gears.

Every task takes them, because the command path applies them and no scene does:

    worlds = TaskWorlds(task, n, family=task.family.extended(*actuation()))
"""

from __future__ import annotations

from dexprior.errors import BadInput
from dexprior.families.family import Parameter

__all__ = ["ACTUATOR_DELAY", "BACKLASH", "actuation"]

ACTUATOR_DELAY = "actuator_delay"
"""Seconds between a command and the moment at which servos see it."""
BACKLASH = "backlash"
"""Width of the dead band between a commanded and a transmitted joint angle [rad]."""

Range = tuple[float, float]


def actuation(*, delay: Range = (0.0, 0.06), backlash: Range = (0.0, 0.01)) -> tuple[Parameter, ...]:
    """Delay [s] and backlash [rad] of the robots' servos.

    The defaults span what is reported for arms behind a network driver and for small geared joints; both are assumed.

    Raises:
        BadInput: a negative bound.
    """
    for name, (low, _) in (("delay", delay), ("backlash", backlash)):
        if low < 0:
            raise BadInput(f"actuation: {name} starts at {low}; it cannot be negative")
    return (
        Parameter(name=ACTUATOR_DELAY, unit="s", low=delay[0], high=delay[1], target=f"world/-/{ACTUATOR_DELAY}"),
        Parameter(name=BACKLASH, unit="rad", low=backlash[0], high=backlash[1], target=f"world/-/{BACKLASH}"),
    )
