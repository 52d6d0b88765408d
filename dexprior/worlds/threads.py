"""Meshes of an external and an internal screw thread, for collision by signed distance."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from jaxtyping import Float, Int

from dexprior.config import Ge, Gt, config
from dexprior.errors import BadInput

__all__ = ["ThreadConfig", "bolt_mesh", "lead", "nut_mesh"]

_TIP_SLOPE, _MOUTH_SLOPE = 1.5, 2.0  # of the chamfers: radius over height
Mesh = tuple[Float[np.ndarray, "vertex 3"], Int[np.ndarray, "face 3"]]


@config
class ThreadConfig:
    """A right-handed single-start thread with a sinusoidal profile [m]."""

    radius: Annotated[float, Gt(0)] = 0.0115
    """Mean radius of the bolt's thread."""
    pitch: Annotated[float, Gt(0)] = 0.004
    """Advance in one turn."""
    depth: Annotated[float, Gt(0)] = 0.002
    """Depth from crest to root."""
    clearance: Annotated[float, Gt(0)] = 0.0003
    """How much wider in radius the nut's thread is."""
    bolt_length: Annotated[float, Gt(0)] = 0.035
    """Height of the bolt."""
    nut_height: Annotated[float, Gt(0)] = 0.012
    """Height of the nut."""
    across_flats: Annotated[float, Gt(0)] = 0.038
    """Width of the hexagon."""
    sectors: Annotated[int, Ge(12)] = 36
    """Vertices around."""
    slices: Annotated[int, Ge(6)] = 10
    """Vertices along one pitch."""

    def __post_init__(self) -> None:
        if self.radius <= self.depth or self.across_flats / 2 <= self.radius + self.depth:
            raise BadInput(
                f"thread: depth {self.depth} < radius {self.radius} and radius + depth < across_flats / 2 = "
                f"{self.across_flats / 2} must hold"
            )


def lead(config: ThreadConfig) -> float:
    """How far nut and bolt must overlap before their threads are engaged [m].

    Both chamfers, and half a pitch: as far as that a nut can sink that was never turned (measured: 0.35 of a pitch).
    """
    return 1.1 * config.depth * (1.0 / _TIP_SLOPE + 1.0 / _MOUTH_SLOPE) + 0.5 * config.pitch


def bolt_mesh(config: ThreadConfig) -> Mesh:
    """A bolt that stands on z = 0 with its axis along z and a chamfer at its tip; closed, outward-facing."""
    z, angle = _grid(config, 0.0, config.bolt_length)
    crest = config.radius + config.depth / 2 * _profile(config, z, angle)
    tip = config.radius - 0.6 * config.depth + _TIP_SLOPE * (config.bolt_length - z)
    vertices = _cylindrical(np.minimum(crest, tip), angle, z)
    rows, n = z.shape
    faces = _wall(rows, n)
    bottom, top = rows * n, rows * n + 1
    around = np.arange(n)
    after = (around + 1) % n
    last = (rows - 1) * n
    caps = [
        np.column_stack([np.full(n, bottom), after, around]),
        np.column_stack([np.full(n, top), last + around, last + after]),
    ]
    ends = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, config.bolt_length]])
    return np.concatenate([vertices, ends]), np.concatenate([faces, *caps])


def nut_mesh(config: ThreadConfig) -> Mesh:
    """A hexagonal nut about the origin with its axis along z, chamfered at both ends; closed, outward-facing.

    Its thread meets that of `bolt_mesh` in phase when its centre is a whole number of pitches above z = 0.
    """
    half = config.nut_height / 2
    z, angle = _grid(config, -half, half)
    root = config.radius + config.clearance + config.depth / 2 * _profile(config, z, angle)
    mouth = config.radius + config.clearance + 0.6 * config.depth - _MOUTH_SLOPE * (half - np.abs(z))
    inner = _cylindrical(np.maximum(root, mouth), angle, z)
    flat = (angle + np.pi / 6) % (np.pi / 3) - np.pi / 6
    outer = _cylindrical(config.across_flats / 2 / np.cos(flat), angle, z)
    rows, n = z.shape
    wall, shift = _wall(rows, n), rows * n
    around = np.arange(n)
    after = (around + 1) % n
    last = (rows - 1) * n
    rings = [
        np.column_stack([around, after, shift + after]),
        np.column_stack([around, shift + after, shift + around]),
        np.column_stack([last + around, shift + last + after, last + after]),
        np.column_stack([last + around, shift + last + around, shift + last + after]),
    ]
    return np.concatenate([inner, outer]), np.concatenate([wall[:, ::-1], wall + shift, *rings])


def _grid(config: ThreadConfig, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    rows = round((high - low) / config.pitch * config.slices) + 1
    z, angle = np.meshgrid(
        np.linspace(low, high, rows), np.arange(config.sectors) / config.sectors * 2 * np.pi, indexing="ij"
    )
    return z, angle


def _profile(config: ThreadConfig, z: np.ndarray, angle: np.ndarray) -> np.ndarray:
    return np.cos(2 * np.pi * z / config.pitch - angle)


def _cylindrical(r: np.ndarray, angle: np.ndarray, z: np.ndarray) -> Float[np.ndarray, "vertex 3"]:
    return np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=-1).reshape(-1, 3)


def _wall(rows: int, n: int) -> Int[np.ndarray, "face 3"]:
    """Two triangles between neighbours on a grid that closes around; seen from outside, counter-clockwise."""
    i, j = np.meshgrid(np.arange(rows - 1), np.arange(n), indexing="ij")
    a, b = (i * n + j).ravel(), (i * n + (j + 1) % n).ravel()
    return np.concatenate([np.column_stack([a, b, b + n]), np.column_stack([a, b + n, a + n])])
