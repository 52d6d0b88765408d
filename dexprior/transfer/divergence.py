"""When does a trace of the other world leave the range of the simulator's own traces, and in which channel first?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dexprior.errors import BadInput
from dexprior.geometry.timing import resample
from dexprior.stats.robust import MAD_TO_STD, first_run
from dexprior.types import Trace

__all__ = ["Divergence", "first_divergence"]

_FEWEST = 8
_RESOLUTION = {"m": 1e-4, "N": 0.02, "m/s": 1e-3, "rad": 1e-3, "N m": 1e-3}
"""Smallest spread of a channel by its unit: differences below it are no divergence."""


@dataclass(frozen=True)
class Divergence:
    """First divergence of one channel."""

    channel: str
    t: float | None
    """Seconds; None when it was not seen before `seen_until`: a censored value, not an agreement for ever."""
    seen_until: float
    score: float
    """Largest robust z score."""


def first_divergence(
    simulated: Sequence[Trace], real: Trace, channels: Sequence[str], *, threshold: float = 6.0, run: int = 3
) -> list[Divergence]:
    """First time at which each channel leaves the simulated band for `run` samples in a row; earliest first.

    The band at each time is the median of the simulated traces plus or minus `threshold` robust standard deviations
    (from the median absolute deviation, not below a tenth of its own median over time, nor below what the channel's
    unit resolves: a band may not vanish). With eight traces, one of a hundred null comparisons of two channels gave an
    alarm; with three nearly all did.

    Args:
        simulated: at least eight traces over the parameter family, of one task instance.
        real: one trace of the same instance.
        channels: names; a privileged channel is refused, since no diagnosis may rest on it.

    Raises:
        BadInput: fewer than eight simulated traces, traces of different panels, or a privileged channel.
    """
    if len(simulated) < _FEWEST:
        raise BadInput(f"first_divergence needs at least {_FEWEST} simulated traces, got {len(simulated)}")
    panels = {trace.panel_hash for trace in (*simulated, real)}
    if len(panels) != 1:
        raise BadInput(f"traces of different panels cannot be compared: {', '.join(sorted(panels))}")
    found = []
    for name in channels:
        if real[name].kind == "privileged":
            raise BadInput(f"channel {name!r} is privileged: a diagnosis may rest on measured channels only")
        t = real[name].t
        band = np.stack([resample(t, s[name].t, s[name].value) for s in simulated])
        centre = np.median(band, axis=0)
        spread = MAD_TO_STD * np.median(np.abs(band - centre), axis=0)
        floor = np.maximum(0.1 * np.median(spread, axis=0), _RESOLUTION.get(real[name].unit, 1e-6))
        z = (np.abs(real[name].value - centre) / np.maximum(spread, floor)).max(axis=1)
        first = first_run(z > threshold, run)
        onset = None if first is None else float(t[first])
        found.append(Divergence(name, onset, float(t[-1]), float(z.max())))
    return sorted(found, key=lambda d: (d.t is None, d.t if d.t is not None else d.seen_until))
