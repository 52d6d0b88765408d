"""Robust scale, and when a signal has stayed outside of a band."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

__all__ = ["MAD_TO_STD", "first_run"]

MAD_TO_STD = 1.4826
"""Median absolute deviation -> standard deviation of a normal."""


def first_run(outside: Bool[np.ndarray, " time"], length: int) -> int | None:
    """First index from which `length` values in a row are outside; None where there is no such run."""
    if len(outside) < length:
        return None
    streak = np.convolve(outside, np.ones(length), mode="valid") >= length
    return int(streak.argmax()) if streak.any() else None
