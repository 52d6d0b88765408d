"""What a scene is made of beside robots and table, and surfaces of simple parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

__all__ = ["Part", "Surface", "box_surface", "ellipsoid_surface", "turned_surface"]

Surface = tuple[Float[np.ndarray, "vertex 3"], Int[np.ndarray, "triangle 3"]]
"""Vertices in the part's own frame [m] and triangles that face outwards."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One thing in a scene that hands or robots have to do with."""

    name: str
    """What people call it; it says nothing of size or shape."""
    body: str | None
    """Its body in the model; None for one that is made of many."""
    moves: bool
    """Whether it is what is manipulated; a task's `object` in `measure` is the pose of this part."""
    surface: Callable[[], Surface] | None
    """Its surface at rest; None for a sheet, whose points are those of `Task.cloud`."""
    soft: bool = False
    """Whether it deforms: it then has no pose, and its matter is followed by the points of `Task.cloud`."""


def box_surface(x: float, y: float, z: float) -> Surface:
    """A box by half its edges [m]."""
    corners = np.array([[i, j, k] for i in (-x, x) for j in (-y, y) for k in (-z, z)])
    faces = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return corners, np.array([triangle for a, b, c, d in faces for triangle in ((a, b, c), (a, c, d))])


def ellipsoid_surface(x: float, y: float, z: float, *, rings: int = 24) -> Surface:
    """An ellipsoid by half its axes [m]."""
    polar, around = np.linspace(0.0, np.pi, rings + 1), np.arange(2 * rings) * np.pi / rings
    unit = np.stack(
        [np.outer(np.sin(polar), f(around)) for f in (np.cos, np.sin)] + [np.outer(np.cos(polar), np.ones(2 * rings))],
        axis=-1,
    )
    low = np.arange(rings)[:, None] * 2 * rings
    here, beside = np.arange(2 * rings), np.roll(np.arange(2 * rings), -1)
    a, b, c, d = low + here, low + 2 * rings + here, low + 2 * rings + beside, low + beside
    return unit.reshape(-1, 3) * [x, y, z], np.stack([a, b, c, a, c, d], axis=-1).reshape(-1, 3)


def turned_surface(section: tuple[tuple[float, float], tuple[float, float]], *, sides: int = 32) -> Surface:
    """A ring, or with an inner radius of zero a cylinder, about z.

    Args:
        section: inner and outer radius, lower and upper height [m].
        sides: of the polygon.
    """
    (inner, outer), (low, high) = section
    corners = [(inner, low), (outer, low), (outer, high), (inner, high)]
    angle = np.arange(sides) * 2 * np.pi / sides
    vertices = np.concatenate(
        [np.column_stack([r * np.cos(angle), r * np.sin(angle), np.full(sides, z)]) for r, z in corners]
    )
    here, beside = np.arange(sides), np.roll(np.arange(sides), -1)
    triangles = []
    for k in range(4):
        a, b = k * sides, (k + 1) % 4 * sides
        triangles += [np.stack([a + here, a + beside, b + beside], -1), np.stack([a + here, b + beside, b + here], -1)]
    return vertices, np.concatenate(triangles)
