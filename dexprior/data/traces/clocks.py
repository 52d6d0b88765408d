"""Whether the two clocks of a channel can be believed: no step back, no jump of one against the other, no drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dexprior.errors import BadInput
from dexprior.types import Channel

__all__ = ["Gaps", "check_clocks", "find_gaps"]

_JUMP = (
    0.25  # [s] by which one clock may step against the other: more is no delay of a network, but a clock that was set
)
_DRIFT = 1e-3  # relative rate of the two clocks: more than ten times a poor quartz is noted...
_DRIFT_WORST = 0.1  # ...and this is another unit, or another clock altogether
_SHORTEST = 10.0  # [s] of a record below which delays hide any drift
_GAP = 10.0  # median steps without a sample that count as a gap


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """Where a channel pauses."""

    count: int
    longest: float
    """[s]; 0 where it never pauses."""
    at: float
    """[s] on the source's clock, start of the longest."""


def check_clocks(channels: Mapping[str, Channel]) -> list[str]:
    """Look at every channel's clocks; returns what is odd and can be lived with, in sentences.

    Raises:
        BadInput: a host clock that goes back, clocks that jump against each other by more than 0.25 s, or whose rates
            differ by more than a tenth; the message names the channel, the sample and the size.
    """
    return [note for name, channel in channels.items() for note in _check(name, channel)]


def find_gaps(channel: Channel) -> Gaps:
    """Pauses of more than ten median steps, on the source's clock."""
    steps = np.diff(channel.t)
    if len(steps) < 2:
        return Gaps(count=0, longest=0.0, at=0.0)
    wide = steps > _GAP * np.median(steps)
    k = int(np.argmax(np.where(wide, steps, 0.0)))
    return Gaps(
        count=int(wide.sum()),
        longest=float(steps[k]) if wide.any() else 0.0,
        at=float(channel.t[k]) if wide.any() else 0.0,
    )


def _check(name: str, channel: Channel) -> list[str]:
    if len(channel.t) < 2:
        return []
    back = np.diff(channel.t_host) < 0
    if back.any():
        k = int(np.argmax(back))
        raise BadInput(
            f"channel {name!r}: the host's clock goes back from {channel.t_host[k]:.6f} to "
            f"{channel.t_host[k + 1]:.6f} s at sample {k + 1}"
        )
    between = channel.t_host - channel.t
    lasts, passed = (float(clock[-1] - clock[0]) for clock in (channel.t, channel.t_host))
    notes = []
    # the offset drifts slowly and jumps at once: a jump is told from a drift by what one sample changes
    change = np.diff(between)
    if lasts >= _SHORTEST:
        change = change - np.median(change)
        drift = passed / lasts - 1
        k = int(np.abs(change).argmax())
        if abs(change[k]) <= _JUMP:
            if abs(drift) > _DRIFT_WORST:
                raise BadInput(
                    f"channel {name!r}: {lasts:.3f} s pass on the source's clock and {passed:.3f} s on the host's: one "
                    "of them drifts, or is in another unit"
                )
            if abs(drift) > _DRIFT:
                notes.append(f"channel {name!r}: the source's clock drifts against the host's by {1e6 * drift:.0f} ppm")
    k = int(np.abs(change).argmax())
    if abs(change[k]) > _JUMP:
        raise BadInput(
            f"channel {name!r}: the clocks jump against each other by {change[k]:+.3f} s at sample {k + 1} "
            f"(t = {channel.t[k + 1]:.3f} s): one of them was set, or a connection hung"
        )
    gaps = find_gaps(channel)
    if gaps.count:
        notes.append(
            f"channel {name!r}: {gaps.count} gap(s), the longest of {gaps.longest:.3f} s from t = {gaps.at:.3f} s"
        )
    return notes
