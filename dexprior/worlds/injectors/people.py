"""Human injectors: switches of a task with a person in it, under the names that its configuration has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from dexprior.errors import BadInput
from dexprior.worlds.injectors.base import Injector

__all__ = ["Hesitation", "OddReach", "Regrip"]


class _Habit(Injector):
    """A habit of the person; what it is like is said by the field of the task's configuration."""

    def configure(self, settings: Any) -> Any:
        """The field set to the strength."""
        if not hasattr(settings, self.name):
            raise BadInput(f"injector {self.name!r}: there is no person in this task; use the task 'handover'")
        return replace(settings, **{self.name: self.strength})


class OddReach(_Habit):
    """The object is offered elsewhere, turned and tilted."""

    name: ClassVar[str] = "odd_reach"


class Hesitation(_Habit):
    """The reach starts late, stops, and is drawn back."""

    name: ClassVar[str] = "hesitation"


class Regrip(_Habit):
    """The fingers loosen and close again."""

    name: ClassVar[str] = "regrip"
