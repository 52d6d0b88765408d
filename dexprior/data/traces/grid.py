"""Channels of several rates as rows of one rate, for formats that have no other."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.types import Trace

__all__ = ["rows_at"]


def rows_at(
    trace: Trace, fps: float | None = None
) -> tuple[float, Float[np.ndarray, " row"], dict[str, Float[np.ndarray, "row n"]]]:
    """A row holds the last sample of every channel that the host had at its time; nothing is interpolated.

    Rows span the time in which all channels are known, on the host's clock, which they share. Channels without a
    sample are left out.

    Args:
        trace: at least one channel with two samples.
        fps: rows a second; by default the median rate of the slowest commanded channel, or of the slowest channel.

    Returns:
        fps, host time of the rows [s], and the rows by channel.

    Raises:
        BadInput: no samples, fps that is no rate, or channels that do not overlap.
    """
    full = {name: channel for name, channel in trace.channels.items() if len(channel.t) > 1}
    if not full:
        raise BadInput("no channel of the trace has two samples: there are no rows to write")
    if fps is None:
        sent = [c for c in full.values() if c.kind == "commanded"] or list(full.values())
        fps = round(min(1 / float(np.median(np.diff(c.t))) for c in sent), 3)
    if not (np.isfinite(fps) and fps > 0):
        raise BadInput(f"fps = {fps}: expected rows a second, above 0")
    first = max(c.t_host[0] for c in full.values())
    last = min(c.t_host[-1] for c in full.values())
    if last <= first:
        spans = ", ".join(f"{name} {c.t_host[0]:.3f} to {c.t_host[-1]:.3f} s" for name, c in full.items())
        raise BadInput(f"the channels do not overlap on the host's clock: {spans}")
    t = first + np.arange(int((last - first) * fps + 1e-6) + 1) / fps
    slack = 1e-9 * max(abs(first), abs(last), 1.0)  # a sample at the row's own time counts, whatever the rounding
    return fps, t, {n: c.value[np.searchsorted(c.t_host, t + slack, side="right") - 1] for n, c in full.items()}
