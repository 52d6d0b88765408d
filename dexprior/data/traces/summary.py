"""A trace at a glance: a line a channel."""

from __future__ import annotations

import numpy as np

from dexprior.data.traces.clocks import check_clocks, find_gaps
from dexprior.data.traces.events import events_of
from dexprior.errors import BadInput
from dexprior.types import Trace

__all__ = ["summarize"]

_HEAD = ("channel", "kind", "unit", "frame", "numbers", "samples", "rate", "from", "to", "gaps", "longest")


def summarize(trace: Trace) -> str:
    """Channels with rate [Hz], span on the host's clock [s] and gaps [s]; events, notes, and what is wrong, as text."""
    rows: list[tuple[str, ...]] = [_HEAD]
    for name, channel in trace.channels.items():
        gaps, n = find_gaps(channel), len(channel.t)
        rate = f"{1 / np.median(np.diff(channel.t)):.1f} Hz" if n > 1 else "-"
        ends = [f"{channel.t_host[k]:.3f} s" for k in (0, -1)] if n else ["-", "-"]
        wide = f"{gaps.longest:.3f} s" if gaps.count else "-"
        rows.append((
            name, channel.kind, channel.unit, channel.frame, str(channel.value.shape[1]), str(n), rate, *ends,
            str(gaps.count), wide,
        ))  # fmt: skip
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    lines += [f"event at {event.t:.3f} s: {event.name}" for event in events_of(trace.info)]
    notes = [str(note) for note in trace.info.get("notes", [])]
    try:
        notes += [note for note in check_clocks(trace.channels) if note not in notes]
        wrong = []
    except BadInput as error:
        wrong = [f"refused: {error}"]
    return "\n".join([*lines, *(f"note: {note}" for note in notes), *wrong])
