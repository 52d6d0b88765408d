"""Parameters of what lies between a command and a joint: a delay, the play of gears, how stiff a servo is.

Every task takes them, because the command path applies them and no scene does:

    worlds = TaskWorlds(task, n, family=task.family.extended(*actuation()))
"""

from __future__ import annotations

from dexprior.errors import BadInput
from dexprior.families.parameter import Parameter

__all__ = ["ACTUATOR_DELAY", "BACKLASH", "SERVO_DAMPING", "SERVO_STIFFNESS", "actuation", "servos"]

ACTUATOR_DELAY = "actuator_delay"
"""Seconds between a command and the moment at which servos see it."""
BACKLASH = "backlash"
"""Width of the dead band between a commanded and a transmitted joint angle [rad]."""
SERVO_STIFFNESS = "servo_stiffness"
"""Factor of a position servo's gain."""
SERVO_DAMPING = "servo_damping"
"""Factor of a position servo's own damping."""

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


def servos(*, stiffness: Range = (0.7, 1.4), damping: Range = (0.7, 1.4)) -> tuple[Parameter, ...]:
    """Gain and damping of the robots' position servos, as factors; assumed.

    Raises:
        BadInput: a bound that is not positive.
    """
    for name, (low, _) in (("stiffness", stiffness), ("damping", damping)):
        if low <= 0:
            raise BadInput(f"servos: {name} starts at {low}; a factor must be positive")
    return tuple(
        Parameter(name=name, unit="1", low=low, high=high, distribution="log_uniform", target=f"world/-/{name}")
        for name, (low, high) in ((SERVO_STIFFNESS, stiffness), (SERVO_DAMPING, damping))
    )
