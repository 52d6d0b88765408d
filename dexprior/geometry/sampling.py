"""Choices of points."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

__all__ = ["farthest_points"]


def farthest_points(points: Float[np.ndarray, "m d"], n: int) -> Int[np.ndarray, " n"]:
    """Indices of n points, each the farthest from those before it; the first point is the first choice.

    Farthest-point sampling (Gonzalez 1985).
    """
    chosen = [0]
    distance = np.linalg.norm(points - points[0], axis=1)
    for _ in range(n - 1):
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return np.array(chosen)
