"""When a joint first leaves the band around what lag, gain and offset predict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dexprior.stats.robust import MAD_TO_STD, first_run
from dexprior.transfer.arm.settings import ArmReportConfig

__all__ = ["Departure", "first_departure"]

_RESOLUTION = 1e-3  # [rad] smallest scale of the band, where the encoder does not say a coarser one


@dataclass(frozen=True, kw_only=True)
class Departure:
    """One joint in one motion."""

    joint: str
    t: float | None
    """[s]; None when it was not seen before `seen_until`: a censored value, not an agreement for ever."""
    seen_until: float
    """[s]"""
    centre: float
    """Median of the residual [rad]."""
    half_width: float
    """Half the width of the band [rad]."""
    score: float
    """Largest distance from the centre, in robust standard deviations."""


def first_departure(
    joint: str,
    t: Float[np.ndarray, " time"],
    residual: Float[np.ndarray, " time"],
    settings: ArmReportConfig,
    *,
    resolution: float,
) -> Departure:
    """First time at which a residual [rad] leaves median +- threshold x robust scale for `settings.run` seconds.

    The first `settings.settle` seconds are left out.
    """
    kept = t >= t[0] + settings.settle
    t, residual = t[kept], residual[kept]
    centre = float(np.median(residual))
    scale = max(MAD_TO_STD * float(np.median(np.abs(residual - centre))), resolution, _RESOLUTION)
    distance = np.abs(residual - centre) / scale
    run = max(round(settings.run / float(t[1] - t[0])), 1)
    first = first_run(distance > settings.threshold, run)
    return Departure(
        joint=joint, t=None if first is None else float(t[first]), seen_until=float(t[-1]),
        centre=centre, half_width=settings.threshold * scale, score=float(distance.max()),
    )  # fmt: skip
