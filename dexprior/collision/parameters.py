"""Contact parameters phi = (friction, damping ratio, time constant): their ranges and a common scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import config
from dexprior.data.impacts import CONTACT_PARAMETERS
from dexprior.errors import ConfigError

__all__ = ["ContactRanges"]


@config
class ContactRanges:
    """Where contact parameters are sampled, log-uniformly, and where identification may look for them."""

    friction: tuple[float, float] = (0.02, 1.0)
    """Coulomb coefficient."""
    damping_ratio: tuple[float, float] = (0.05, 1.0)
    """Of the contact's spring and damper; 1 does not bounce, 0.2 has a restitution of about 0.5."""
    time_constant: tuple[float, float] = (0.0005, 0.008)
    """[s]; an impact lasts about pi * damping_ratio * time_constant, and beyond 5 ms it is a push."""

    def __post_init__(self) -> None:
        for name in CONTACT_PARAMETERS:
            low, high = getattr(self, name)
            if not 0 < low < high:
                raise ConfigError(f"ranges.{name} = ({low}, {high}): needs 0 < low < high")

    @property
    def bounds(self) -> Float[np.ndarray, "parameter 2"]:
        """Low and high of each parameter, in the order of `CONTACT_PARAMETERS`."""
        return np.array([getattr(self, name) for name in CONTACT_PARAMETERS])

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "n parameter"]:
        """Log-uniform draws."""
        return self.from_unit(np, rng.uniform(-1.0, 1.0, (n, len(CONTACT_PARAMETERS))))

    def to_unit(self, xp: Any, phi: Any) -> Any:
        """Logarithmic scale on which the range is [-1, 1]; `xp` is `numpy` or `torch`."""
        middle, half = self._scale(xp, phi)
        return (xp.log(phi) - middle) / half

    def from_unit(self, xp: Any, unit: Any) -> Any:
        """Inverse of `to_unit`."""
        middle, half = self._scale(xp, unit)
        return xp.exp(middle + half * unit)

    def contains(self, phi: Float[np.ndarray, "batch parameter"]) -> Bool[np.ndarray, " batch"]:
        """Whether every parameter lies in its range (with a tolerance for rounding)."""
        low, high = self.bounds.T
        return ((phi >= low * (1 - 1e-9)) & (phi <= high * (1 + 1e-9))).all(axis=-1)

    def _scale(self, xp: Any, like: Any) -> tuple[Any, Any]:
        low, high = np.log(self.bounds).T
        middle, half = (high + low) / 2, (high - low) / 2
        if xp is np:
            return middle, half
        return tuple(xp.as_tensor(x, dtype=like.dtype, device=like.device) for x in (middle, half))
