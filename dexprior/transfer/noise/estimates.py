"""A parameter as a log tells it: a number with its interval, or the reason why the log cannot tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dexprior.errors import BadInput

__all__ = ["Fitted", "found", "hidden"]


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """One parameter of one channel; without an interval where the log cannot identify it."""

    name: str
    unit: str
    value: float | None
    """None where it is not identifiable."""
    low: float | None = None
    high: float | None = None
    identifiable: bool
    reason: str = ""
    """Why it is not; empty where it is."""

    def __post_init__(self) -> None:
        numbers = (self.value, self.low, self.high)
        if self.identifiable != all(x is not None and math.isfinite(x) for x in numbers) or (
            not self.identifiable and (any(x is not None for x in numbers) or not self.reason)
        ):
            raise BadInput(f"{self.name}: {numbers}, identifiable {self.identifiable}, reason {self.reason!r}")

    @property
    def span(self) -> tuple[float, float, float] | None:
        """Value and interval; None where it is not identifiable."""
        value, low, high = self.value, self.low, self.high
        return None if value is None or low is None or high is None else (value, low, high)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        interval = [self.low, self.high] if self.identifiable else None
        plain = {"value": self.value, "interval": interval, "unit": self.unit, "identifiable": self.identifiable}
        return plain if self.identifiable else plain | {"reason": self.reason}


def found(name: str, unit: str, value: float, low: float, high: float) -> Fitted:
    """One that the log tells."""
    return Fitted(name=name, unit=unit, value=float(value), low=float(low), high=float(high), identifiable=True)


def hidden(name: str, unit: str, reason: str) -> Fitted:
    """One that it does not tell."""
    return Fitted(name=name, unit=unit, value=None, identifiable=False, reason=reason)
