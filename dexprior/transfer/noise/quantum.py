"""The smallest step of a reading: found where all values lie on one grid."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from dexprior.transfer.noise.estimates import Fitted, found, hidden

__all__ = ["fit_step"]

_FEWEST = 4  # levels of the grid
_TWICE = 3  # neighbouring levels that are one step apart
_OFF = 0.05  # [steps] root mean square by which values may miss the grid


def fit_step(values: Float[np.ndarray, " time"], unit: str, *, level: float, name: str = "step") -> Fitted:
    """Spacing of the grid that all readings lie on; the file's own digits are such a grid, too.

    The grid's spacing is the slope of a line through levels over their numbers; its interval follows from how far they
    miss it.
    """
    levels = np.unique(values)
    if len(levels) < _FEWEST:
        return hidden(name, unit, f"only {len(levels)} different reading(s); {_FEWEST} are needed")
    apart = np.diff(levels)
    apart = apart[apart > 1e-9 * max(float(np.ptp(levels)), 1e-12)]
    rough = float(apart.min())
    close = apart[apart < 1.5 * rough]
    step = float(np.mean(close))
    if len(close) < _TWICE:
        return hidden(name, unit, f"only {len(close)} pair(s) of readings lie as close as {rough:.3g} {unit}")
    numbers = np.concatenate([[0.0], np.cumsum(np.round(np.diff(levels) / step))])
    if numbers[-1] < 1:
        return hidden(name, unit, "readings lie on no grid")
    slope, _ = np.polyfit(numbers, levels, 1)
    miss = (levels - levels[0]) / slope - numbers
    miss = miss - miss.mean()
    if np.sqrt(np.mean(miss**2)) > _OFF:
        return hidden(name, unit, "readings lie on no grid")
    spread = float(np.sum((numbers - numbers.mean()) ** 2))
    half = norm.ppf(0.5 + level / 2) * abs(slope) * np.sqrt(np.mean(miss**2) / spread)
    half = max(half, 1e-12 * abs(slope))  # what sums of floats can tell
    return found(name, unit, slope, slope - half, slope + half)
