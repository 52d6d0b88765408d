"""Folding a cloth: its geometry, its two engines, and the task."""

from __future__ import annotations

from dexprior.worlds.tasks.folding.cloth import (
    OUTLINES,
    Cloth,
    Outline,
    Place,
    carried,
    flap_coverage,
    mirrored,
    planar_fit,
    turned,
    wrinkle,
)
from dexprior.worlds.tasks.folding.task import Folding, FoldingConfig

__all__ = [
    "OUTLINES",
    "Cloth",
    "Folding",
    "FoldingConfig",
    "Outline",
    "Place",
    "carried",
    "flap_coverage",
    "mirrored",
    "planar_fit",
    "turned",
    "wrinkle",
]
