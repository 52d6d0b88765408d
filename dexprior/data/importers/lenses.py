"""Lenses that distort: where rays land in a picture, and the picture that a pinhole would have taken."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from jaxtyping import Float, UInt8

__all__ = ["Lens", "Load", "fisheye624_lens", "rational_lens", "straightened"]

Lens = Callable[[Float[np.ndarray, "*n 2"]], Float[np.ndarray, "*n 2"]]
"""(x / z, y / z) of a ray -> (column, row) in the picture, pixel centres at half-integers."""

Load = Callable[[int, tuple[int, int] | None], UInt8[np.ndarray, "height width 3"]]
"""(index of the picture, height and width to scale to) -> RGB."""


def rational_lens(K: Float[np.ndarray, "3 3"], d: Float[np.ndarray, 8]) -> Lens:
    """OpenCV's rational model: k1, k2, p1, p2, k3, k4, k5, k6 (its K has pixel centres at integers)."""
    k1, k2, p1, p2, k3, k4, k5, k6 = d

    def lens(ray: Float[np.ndarray, "*n 2"]) -> Float[np.ndarray, "*n 2"]:
        x, y = np.moveaxis(ray, -1, 0)
        r2 = x * x + y * y
        radial = (1 + r2 * (k1 + r2 * (k2 + r2 * k3))) / (1 + r2 * (k4 + r2 * (k5 + r2 * k6)))
        u = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
        v = y * radial + 2 * p2 * x * y + p1 * (r2 + 2 * y * y)
        return np.stack([K[0, 0] * u + K[0, 1] * v + K[0, 2], K[1, 1] * v + K[1, 2]], axis=-1) + 0.5

    return lens


def fisheye624_lens(parameters: Float[np.ndarray, 15]) -> Lens:
    """Project Aria's FISHEYE624: f, cx, cy, six radial numbers, two tangential ones, four of a thin prism.

    A ray at the angle a lands at f a (1 + k1 a^2 + ... + k6 a^12) from the centre, and is shifted by the other six
    (`FisheyeRadTanThinPrism.h` of projectaria_tools; its pixel centres are at integers).
    """
    f, centre, k, p, s = parameters[0], parameters[1:3], parameters[3:9], parameters[9:11], parameters[11:15]

    def lens(ray: Float[np.ndarray, "*n 2"]) -> Float[np.ndarray, "*n 2"]:
        r = np.linalg.norm(ray, axis=-1, keepdims=True)
        angle = np.arctan(r)
        radial = 1 + sum(k[i] * angle ** (2 * i + 2) for i in range(6))
        at = ray * radial * np.divide(angle, r, out=np.ones_like(r), where=r > 1e-12)
        r2 = (at * at).sum(axis=-1, keepdims=True)
        at = at + 2 * (at @ p)[..., None] * at + r2 * p + r2 * s[[0, 2]] + r2 * r2 * s[[1, 3]]
        return f * at + centre + 0.5

    return lens


def straightened(load: Load, lens: Lens, K: Float[np.ndarray, "3 3"], height: int, width: int) -> Load:
    """Pictures as a pinhole with calibration K would have taken them; black where the lens saw nothing.

    Args:
        load: pictures through the lens.
        lens: for pictures of height x width.
        K: of the pinhole, likewise, with pixel centres at half-integers.
        height, width: [px]
    """

    @lru_cache(maxsize=2)
    def corners(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
        """The four places that each pixel lies between, in a flat picture, and their weights."""
        place = np.stack(np.meshgrid(np.arange(columns) + 0.5, np.arange(rows) + 0.5), axis=-1)
        scale = np.array([width / columns, height / rows])
        ray = (place * scale - K[:2, 2]) / K[[0, 1], [0, 1]]
        at = lens(ray) / scale - 0.5
        low = np.floor(at).astype(np.int64)
        flat, weight = [], []
        for step in np.ndindex(2, 2):
            column, row = np.moveaxis(low + step, -1, 0)
            seen = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
            flat.append(np.where(seen, row * columns + column, 0))
            weight.append(np.where(seen, (1 - np.abs(at - (low + step))).prod(axis=-1), 0.0))
        return np.stack(flat), np.stack(weight)[..., None]

    def straight(k: int, size: tuple[int, int] | None) -> UInt8[np.ndarray, "height width 3"]:
        picture = load(k, size)
        flat, weight = corners(*picture.shape[:2])
        mixed = (picture.reshape(-1, 3)[flat] * weight).sum(axis=0)
        return mixed.round().clip(0, 255).astype(np.uint8)

    return straight
