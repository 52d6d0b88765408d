"""Injectors: separate switches for the gaps that are not contact, each with a strength from 0 (off) to 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dexprior.errors import BadInput, UnknownName
from dexprior.families.gaps import Gap

__all__ = ["INJECTORS", "Injectors"]

INJECTORS: dict[str, Gap] = {
    "textures": "visual", "light": "visual", "background": "visual", "blur": "visual", "lens": "visual",
    "clutter": "environment", "occlusion": "environment", "cables": "environment", "reflections": "environment",
    "uneven_mass": "object", "uneven_friction": "object", "ripeness": "object", "directional": "object",
    "odd_reach": "human", "hesitation": "human", "regrip": "human",
}  # fmt: skip
"""Name -> the gap that it belongs to. What each does: `dexprior.worlds.injectors`."""


@dataclass(frozen=True)
class Injectors:
    """Which are on, and how strong; a value that can be compared and hashed."""

    strengths: tuple[tuple[str, float], ...] = ()
    """Strengths in the table's order; those of strength 0 are left out."""
    seed: int = 0
    """Seed of what they draw."""

    @classmethod
    def of(cls, strengths: Mapping[str, float], seed: int = 0) -> Injectors:
        """Injectors by plain numbers and names, e.g. `{"light": 0.7}`.

        Raises:
            UnknownName: no such injector.
            BadInput: no mapping, a strength that is no number in [0, 1], or a seed that is negative or no integer.
        """
        if not isinstance(strengths, Mapping):
            raise BadInput(f"injectors = {strengths!r}: expected strengths by name, as in {{'light': 0.7}}")
        for name, strength in strengths.items():
            if name not in INJECTORS:
                raise UnknownName("injector", name, tuple(INJECTORS))
            if isinstance(strength, bool) or not isinstance(strength, (int, float, np.number)):
                raise BadInput(f"injector {name!r}: strength {strength!r} is no number; expected one in [0, 1]")
            if not 0.0 <= float(strength) <= 1.0:
                raise BadInput(f"injector {name!r}: strength {strength} is outside [0, 1]")
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise BadInput(f"injectors: seed {seed!r} is no integer")
        if seed < 0:
            raise BadInput(f"injectors: seed {seed} is negative")
        return cls(tuple((name, float(strengths[name])) for name in INJECTORS if strengths.get(name, 0.0) > 0), seed)

    def as_dict(self) -> dict[str, float]:
        """Inverse of `of`, but for the seed."""
        return dict(self.strengths)
