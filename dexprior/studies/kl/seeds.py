"""Differences over seeds, paired, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dexprior.stats import student_mean

__all__ = ["over_seeds", "shown"]


def over_seeds(first: Sequence[float], second: Sequence[float] | None = None) -> dict[str, Any]:
    """Mean of numbers, or of their paired differences, with a 95 % interval by Student's t; none for a single seed."""
    values = np.asarray(first, dtype=np.float64)
    if second is not None:
        values = values - np.asarray(second, dtype=np.float64)
    found: dict[str, Any] = {"n": len(values), "each": values.tolist(), "mean": float(values.mean())}
    if len(values) > 1:
        _, low, high = student_mean(values)
        found |= {"low": low, "high": high}
    return found


def shown(found: dict[str, Any]) -> str:
    """As text: the mean with its interval and the number of seeds."""
    if "low" not in found:
        return f"{found['mean']:+.3f} (one seed)"
    return f"{found['mean']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}], {found['n']} seeds"
