"""Contact parameters phi: their ranges, a common scale, and what the simulator is given at an impact's speed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import config
from dexprior.data.simulated_impacts import CONTACT_PARAMETERS
from dexprior.errors import BadInput, ConfigError
from dexprior.families import ParameterFamily

__all__ = ["PARAMETERS", "ContactRanges"]

PARAMETERS = (*CONTACT_PARAMETERS, "damping_exponent")
"""Columns of phi: the simulator's parameters, and how the damping ratio changes with the speed of the impact."""

_SIMULATED = len(CONTACT_PARAMETERS)
_DAMPING = CONTACT_PARAMETERS.index("damping_ratio")


@config
class ContactRanges:
    """Where contact parameters are sampled, log-uniformly, and where identification may look for them."""

    friction: tuple[float, float] = (0.02, 1.0)
    """Coulomb coefficient."""
    damping_ratio: tuple[float, float] = (0.05, 1.0)
    """Damping ratio of the contact's spring and damper at 1 m/s; 1 does not bounce, 0.2 has a restitution of about
    0.5."""
    time_constant: tuple[float, float] = (0.0003, 0.002)
    """[s]; an impact lasts about pi * damping_ratio * time_constant, here at most 6 ms: longer ones are pushes."""
    impratio: tuple[float, float] = (0.2, 20.0)
    """Tangential over normal damping: low values let a contact creep, high ones make it stick."""
    damping_exponent: tuple[float, float] = (-0.5, 0.5)
    """Exponent of the damping ratio in the normal approach speed: positive where fast impacts bounce less; linear
    scale."""

    def __post_init__(self) -> None:
        for name in CONTACT_PARAMETERS:
            low, high = getattr(self, name)
            if not 0 < low < high:
                raise ConfigError(f"ranges.{name} = ({low}, {high}): needs 0 < low < high")
        low, high = self.damping_exponent
        if not low < high:
            raise ConfigError(f"ranges.damping_exponent = ({low}, {high}): needs low < high")

    @property
    def bounds(self) -> Float[np.ndarray, "parameter 2"]:
        """Low and high of each parameter, in the order of `PARAMETERS`."""
        return np.array([getattr(self, name) for name in PARAMETERS])

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "n simulated"]:
        """Log-uniform draws of what the simulator is given."""
        unit = rng.uniform(-1.0, 1.0, (n, _SIMULATED))
        return self.from_unit(np, np.concatenate([unit, np.zeros((n, 1))], axis=1))[:, :_SIMULATED]

    def check_covers(self, family: ParameterFamily) -> None:
        """Whether a family's contact parameters, by their names here, lie within the ranges.

        Raises:
            BadInput: it has none of the simulator's, or one that reaches beyond its range.
        """
        known = [p for p in family.parameters if p.name in CONTACT_PARAMETERS]
        if not known:
            raise BadInput(
                f"family {family.name!r} has no contact parameter of the simulator: {', '.join(CONTACT_PARAMETERS)}"
            )
        for p in known:
            low, high = getattr(self, p.name)
            if not low <= p.low <= p.high <= high:
                raise BadInput(
                    f"family {family.name!r}: {p.name!r} lies in [{p.low:g}, {p.high:g}], beyond the range "
                    f"[{low:g}, {high:g}] that the model is made for"
                )

    def to_unit(self, xp: Any, phi: Any) -> Any:
        """Scale on which the range is [-1, 1], logarithmic but for the exponent; `xp` is `numpy` or `torch`.

        Takes all columns, or the simulator's alone.
        """
        middle, half = self._scale(xp, phi)
        if phi.shape[1] == _SIMULATED:
            return (xp.log(phi) - middle) / half
        columns = [xp.log(phi[:, :_SIMULATED]), phi[:, _SIMULATED:]]
        return (xp.concatenate(columns, -1) - middle) / half

    def from_unit(self, xp: Any, unit: Any) -> Any:
        """Inverse of `to_unit`."""
        middle, half = self._scale(xp, unit)
        scaled = middle + half * unit
        return xp.concatenate([xp.exp(scaled[:, :_SIMULATED]), scaled[:, _SIMULATED:]], -1)

    def at_speed(self, xp: Any, phi: Any, speed: Any) -> Any:
        """What the simulator is given for impacts of `speed` [m/s]: the damping ratio follows the exponent.

        It is held inside its range, which is all that the network has seen.
        """
        low, high = self.damping_ratio
        damping = xp.clip(phi[:, _DAMPING] * xp.exp(phi[:, _SIMULATED] * xp.log(speed)), low, high)
        before, after = phi[:, :_DAMPING], phi[:, _DAMPING + 1 : _SIMULATED]
        return xp.concatenate([before, damping[:, None], after], -1)

    def contains(self, phi: Float[np.ndarray, "batch parameter"]) -> Bool[np.ndarray, " batch"]:
        """Whether every parameter lies in its range (with a tolerance for rounding)."""
        low, high = self.bounds.T
        slack = 1e-9 * (high - low)
        return ((phi >= low - slack) & (phi <= high + slack)).all(axis=-1)

    @cached_property
    def _middle_and_half(self) -> tuple[np.ndarray, np.ndarray]:
        bounds = self.bounds
        bounds[:_SIMULATED] = np.log(bounds[:_SIMULATED])
        low, high = bounds.T
        return (high + low) / 2, (high - low) / 2

    @cached_property
    def simulated_scale(self) -> tuple[Float[np.ndarray, " simulated"], Float[np.ndarray, " simulated"]]:
        """Middle and half of the logarithmic ranges of what the simulator is given."""
        middle, half = self._middle_and_half
        return middle[:_SIMULATED], half[:_SIMULATED]

    def _scale(self, xp: Any, like: Any) -> tuple[Any, Any]:
        middle, half = (x[: like.shape[1]] for x in self._middle_and_half)
        if xp is np:
            return middle, half
        return tuple(xp.as_tensor(x, dtype=like.dtype, device=like.device) for x in (middle, half))
