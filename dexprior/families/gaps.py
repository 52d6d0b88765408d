"""The six gaps between a simulator and the world, and to which of them a parameter belongs.

A transfer ledger attributes what was lost in a transfer to gaps; so every switch of a world names its own.
"""

from __future__ import annotations

from typing import Literal

from dexprior.errors import BadInput
from dexprior.families.parameter import Parameter

__all__ = ["GAPS", "Gap", "gap_of"]

Gap = Literal["contact", "visual", "sensor", "object", "environment", "human"]

GAPS: dict[Gap, str] = {
    "contact": "what happens where things touch: friction, stiffness, dissipation, hysteresis",
    "visual": "what a camera sees: textures, light, background, blur, lens",
    "sensor": "what the robot's own sensors and servos do: noise, dropouts, delays, backlash",
    "object": "what is manipulated: mass and where it lies, friction of its own, ripeness, cloth",
    "environment": "what else is there and acts: clutter, occlusion, cables, reflections, pushes",
    "human": "what a person does: reaches oddly, hesitates, regrips",
}
"""Name -> what belongs to it."""

_ELEMENT_GAPS: dict[str, Gap] = {
    "geom": "contact", "pair": "contact", "option": "contact", "body": "object", "joint": "sensor",
    "actuator": "sensor",
}  # fmt: skip
_WORLD_GAPS: dict[str, Gap] = {
    "wrench_noise": "sensor", "cloud_noise": "sensor", "actuator_delay": "sensor", "backlash": "sensor",
    "servo_stiffness": "sensor", "servo_damping": "sensor",
    "stiffness": "object", "ripeness": "object",
}  # fmt: skip


def gap_of(parameter: Parameter) -> Gap:
    """The gap that a parameter stands for, by what it writes to.

    Contact: geoms, pairs, options of the solver. Object: bodies. Sensor: joints and actuators of the robot.

    Raises:
        BadInput: a `world/-/NAME` that is not known here.
    """
    element, _, name = parameter.target.split("/")[:3]
    if element != "world":
        return _ELEMENT_GAPS[element]
    if name not in _WORLD_GAPS:
        raise BadInput(f"parameter {parameter.name!r}: no gap is known for {parameter.target!r}; add it to _WORLD_GAPS")
    return _WORLD_GAPS[name]
