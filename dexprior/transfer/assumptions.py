"""What a simulator assumed of four things that robots fail on, as a person states it: value, range, provenance."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal

from dexprior.config import config, to_plain
from dexprior.errors import BadInput

__all__ = ["MEANINGS", "UNITS", "Assumption", "Assumptions"]

UNITS = {"friction": "1", "delay": "s", "compliance": "m/N", "tactile_noise": "N"}
"""Unit of each assumption."""

MEANINGS = {
    "friction": "Coulomb coefficient between fingers and object [1]",
    "delay": "from a command to the motion [s]",
    "compliance": "how far the contact gives under a force [m/N]",
    "tactile_noise": "standard deviation of a touch reading [N]",
}
"""Meaning of each assumption, for whoever fills them in."""


@config
class Assumption:
    """One number of the simulator."""

    value: float
    """Value in the unit of `UNITS`."""
    range: tuple[float, float]
    """What the simulator drew it from, or how well it is known; both ends alike where it is fixed."""
    provenance: Literal["measured", "fitted", "assumed"]
    """Measured on the robot, fitted to its logs, or assumed."""

    def __post_init__(self) -> None:
        low, high = self.range
        if not 0.0 <= low <= self.value <= high:
            raise BadInput(f"value = {self.value:g}, range = [{low:g}, {high:g}]: 0 <= low <= value <= high must hold")


@config
class Assumptions:
    """All four; None is "not stated"."""

    friction: Assumption | None = None
    """Coulomb coefficient between fingers and object [1]."""
    delay: Assumption | None = None
    """Time from a command to the motion [s]."""
    compliance: Assumption | None = None
    """How far the contact gives under a force [m/N]."""
    tactile_noise: Assumption | None = None
    """Standard deviation of a touch reading [N]."""

    def to_json(self) -> dict[str, dict[str, Any] | None]:
        """Plain data by name; None is "not stated"."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: None if one is None else to_plain(one) | {"unit": UNITS[name]} for name, one in found.items()}
