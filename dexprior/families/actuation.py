"""Parameters of what lies between a command and a joint: a delay, the play of gears, how stiff a servo is.

Every task takes them, because the command path applies them and no scene does:

    worlds = TaskWorlds(task, n, family=task.family.extended(*actuation()))

A delay and a backlash may be all joints' (`world/-/backlash`) or one joint's (`world/JOINT/backlash`, by the name of
the joint or its actuator without the robot's prefix), which has precedence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from dexprior.errors import BadInput
from dexprior.families.parameter import Parameter

__all__ = [
    "ACTUATOR_DELAY",
    "BACKLASH",
    "SERVO_DAMPING",
    "SERVO_STIFFNESS",
    "actuation",
    "by_joint",
    "joint_of",
    "servos",
]

ACTUATOR_DELAY = "actuator_delay"
"""Seconds between a command and the moment at which servos see it."""
BACKLASH = "backlash"
"""Width of the dead band between a commanded and a transmitted joint angle [rad]."""
SERVO_STIFFNESS = "servo_stiffness"
"""Factor of a position servo's gain."""
SERVO_DAMPING = "servo_damping"
"""Factor of a position servo's own damping."""

Range = tuple[float, float]
Span = TypeVar("Span", bound=tuple[float, float, float])
_ALIKE = 0.05  # share of the largest value by which joints may differ and still count as alike


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


def joint_of(parameter: Parameter) -> str | None:
    """The joint that a delay or a backlash is of, `-` for all of them; None for another parameter."""
    element, joint, *rest = parameter.target.split("/")
    return joint if element == "world" and rest in ([ACTUATOR_DELAY], [BACKLASH]) else None


def by_joint(
    name: str, spans: Mapping[str, Sequence[Span]], names: Mapping[str, str] | None = None
) -> dict[tuple[str, str], list[Span]]:
    """What was measured of each joint, put together where the joints are alike, else joint by joint.

    Joints are alike where all their intervals share a value, or nearly: by a twentieth of the largest.

    Args:
        name: of the parameter, e.g. `backlash`.
        spans: value and the ends of its interval by joint, at least one of each.
        names: of the simulator's joints by those of `spans`, where they differ.

    Returns:
        Spans by the name and the target of the parameter that they make.
    """
    found = {joint: list(each) for joint, each in spans.items() if each}
    if not found:
        return {}
    apart = max(min(s[1] for s in each) for each in found.values()) - min(
        max(s[2] for s in each) for each in found.values()
    )
    largest = max(abs(s[0]) for each in found.values() for s in each)
    if apart <= _ALIKE * largest:
        return {(name, f"world/-/{name}"): [span for each in found.values() for span in each]}
    simulated = {joint: (names or {}).get(joint, joint).replace("/", "*") for joint in found}
    return {(f"{name}.{joint}", f"world/{simulated[joint]}/{name}"): each for joint, each in found.items()}
