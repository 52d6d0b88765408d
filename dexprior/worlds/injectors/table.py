"""Injectors by name."""

from __future__ import annotations

from dexprior.families import Injectors
from dexprior.worlds.injectors.base import Injector
from dexprior.worlds.injectors.environment import Cables, Clutter, Occlusion, Reflections
from dexprior.worlds.injectors.objects import Directional, Ripeness, UnevenFriction, UnevenMass
from dexprior.worlds.injectors.people import Hesitation, OddReach, Regrip
from dexprior.worlds.injectors.visual import Background, Blur, Lens, Light, Textures

__all__ = ["KINDS", "make_injectors"]

KINDS: dict[str, type[Injector]] = {
    kind.name: kind
    for kind in (
        Textures, Light, Background, Blur, Lens, Clutter, Occlusion, Cables, Reflections, UnevenMass, UnevenFriction,
        Ripeness, Directional, OddReach, Hesitation, Regrip,
    )
}  # fmt: skip
"""One for each name of `dexprior.families.INJECTORS`, in its order: textures are chosen before they are made glossy."""


def make_injectors(values: Injectors) -> tuple[Injector, ...]:
    """Those that are on."""
    return tuple(KINDS[name](strength, values.seed) for name, strength in values.strengths)
