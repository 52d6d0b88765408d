"""Traces of one task instance as arrays: an even clock that starts with the command, a value a channel and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput, UnknownName
from dexprior.geometry.timing import resample
from dexprior.types import Channel, Trace

__all__ = ["Signals", "distance", "signals_of"]

_FEWEST = 20  # samples
_GAP = 5.0  # steps: a longer pause is a lost stretch or a clock that jumped
_LATEST = 0.5  # [s] of the command that one log may have before another begins
_STEP = 0.002  # [s] of the search for it
_ALIKE = 0.02  # share of the command's variance that may be left once it is shifted


@dataclass(frozen=True, kw_only=True)
class Signals:
    """Groups of repeats; all repeats of a group are of one robot or one simulated world."""

    t: Float[np.ndarray, " time"]
    """[s], even."""
    values: dict[str, Float[np.ndarray, "group repeat time n"]]
    """Values by channel."""
    units: dict[str, str]
    panel_hash: str
    shifts: Float[np.ndarray, "group repeat"]
    """How much each log's clock was moved to bring its command into phase [s]."""
    until: Float[np.ndarray, " group"]
    """Up to when each group is known [s]: a log may have been cut."""
    notes: tuple[str, ...] = ()
    """What was not as it should be."""

    @property
    def groups(self) -> int:
        """How many."""
        return len(self.shifts)

    @property
    def repeats(self) -> int:
        """Repeats in each group."""
        return self.shifts.shape[1]

    @classmethod
    def joined(cls, parts: Sequence[Signals]) -> Signals:
        """Groups of several, in their order; the first ones' clock, channels and notes."""
        first = parts[0]
        return replace(
            first,
            values={name: np.concatenate([part.values[name] for part in parts]) for name in first.values},
            shifts=np.concatenate([part.shifts for part in parts]),
            until=np.concatenate([part.until for part in parts]),
        )

    def only(self, channels: Sequence[str]) -> Signals:
        """Some of the channels.

        Raises:
            UnknownName: one that is not there.
        """
        for name in channels:
            if name not in self.values:
                raise UnknownName("channel", name, tuple(self.values))
        return replace(
            self,
            values={name: self.values[name] for name in channels},
            units={name: self.units[name] for name in channels},
        )

    def take(self, groups: slice | np.ndarray) -> Signals:
        """Some of the groups."""
        values = {name: value[groups] for name, value in self.values.items()}
        return replace(self, values=values, shifts=self.shifts[groups], until=self.until[groups])


def signals_of(
    groups: Sequence[Sequence[Trace]],
    channels: Sequence[str],
    *,
    command: str = "command",
    like: Signals | None = None,
    reference: Channel | None = None,
) -> Signals:
    """Bring traces onto one clock.

    Logs begin when somebody presses a button. If all of them hold the same command, each clock is moved so that the
    commands agree, and everything else is compared in the command's phase; nothing is stretched. If the commands differ
    (a policy that reacts), clocks are left as they are.

    Args:
        groups: repeats of each robot or world, as many in each.
        channels: names of measured channels.
        command: name of the channel that holds the command; it may be missing.
        like: signals whose times and channels are to be used.
        reference: the command that phases refer to; that of the first trace by default.

    Raises:
        UnknownName: a channel that a trace does not have.
        BadInput: no trace, groups of different sizes, traces of different panels, a privileged channel, different
            units or sizes of one channel, a clock with a gap, a start that was cut off, or too little time in common.
    """
    traces = [trace for group in groups for trace in group]
    if not traces or len({len(group) for group in groups}) != 1:
        raise BadInput(f"groups of {sorted({len(g) for g in groups})} repeats; at least one, and as many in each")
    panels = sorted({trace.panel_hash for trace in traces} | ({like.panel_hash} if like is not None else set()))
    if len(panels) != 1:
        raise BadInput(f"traces of different panels cannot be compared: {', '.join(panels)}")
    names = tuple(channels)
    for name in names:
        _check_alike(name, [trace[name] for trace in traces], None if like is None else like.units[name])
    shifts, notes = _phases(traces, command, reference)
    t = _common_clock(traces, names, shifts) if like is None else like.t
    late = [(float(x[name].t[0] - s - t[0]), name) for x, s in zip(traces, shifts) for name in names]
    if max(late)[0] > _GAP * (t[1] - t[0]):
        raise BadInput(
            f"channel {max(late)[1]!r} begins {max(late)[0]:.3f} s after what it is compared with: its start is missing"
        )
    ends = np.array([min(x[name].t[-1] - s for name in names) for x, s in zip(traces, shifts)])
    until = np.minimum(ends.reshape(len(groups), -1).min(axis=1), t[-1])
    if (until < t[_FEWEST - 1]).any():
        raise BadInput(f"a log ends at {until.min():.3f} s, before {_FEWEST} samples can be compared")
    if (cut := until < t[-1] - _GAP * (t[1] - t[0])).any():
        notes += (
            f"{int(cut.sum())} of {len(groups)} groups end early, the first at {until.min():.2f} s of {t[-1]:.2f}",
        )
    shape = (len(groups), len(groups[0]), len(t))
    values = {
        name: np.stack([resample(t, c.t - s, c.value) for c, s in zip((x[name] for x in traces), shifts)]).reshape(
            *shape, -1
        )
        for name in names
    }
    units = {name: traces[0][name].unit for name in names}
    return Signals(
        t=t, values=values, units=units, panel_hash=panels[0], shifts=shifts.reshape(shape[:2]), until=until,
        notes=notes,
    )  # fmt: skip


def distance(real: Signals, simulated: Signals) -> dict[str, float]:
    """d(tau_real, tau_sim) by channel: how far the real mean is from the simulated median, in the simulated groups' own
    standard deviations (over groups and times), root mean square over times and components.

    About 1 is what members of the family are apart; a component that never varies in simulation is left out.
    """
    found = {}
    for name, x in simulated.values.items():
        means = x.mean(axis=1)
        centre = np.median(means, axis=0)
        spread = np.sqrt(((means - centre) ** 2).mean(axis=(0, 1)))
        last = int(np.searchsorted(simulated.t, real.until.min() + 1e-9))
        apart = real.values[name].mean(axis=(0, 1))[:last] - centre[:last]
        varies = spread > 0
        found[name] = float(np.sqrt(np.mean((apart[:, varies] / spread[varies]) ** 2))) if varies.any() else 0.0
    return found


def _check_alike(name: str, channels: Sequence[Channel], unit: str | None) -> None:
    if any(c.kind == "privileged" for c in channels):
        raise BadInput(f"channel {name!r} is privileged: a diagnosis may rest on measured channels only")
    units = sorted({c.unit for c in channels} | ({unit} if unit is not None else set()))
    if len(units) > 1:
        raise BadInput(f"channel {name!r} is in {' and in '.join(units)}: bring all traces to one unit")
    sizes = {c.value.shape[1] for c in channels}
    if len(sizes) > 1:
        raise BadInput(f"channel {name!r} has {sorted(sizes)} values a sample: they must be as many in every trace")
    for c in channels:
        steps = np.diff(c.t)
        if len(c.t) < _FEWEST:
            raise BadInput(f"channel {name!r} has {len(c.t)} samples; at least {_FEWEST} are needed")
        if steps.max() > _GAP * np.median(steps):
            k = int(steps.argmax())
            raise BadInput(
                f"channel {name!r}: no sample between {c.t[k]:.3f} and {c.t[k + 1]:.3f} s, though one is due every "
                f"{np.median(steps) * 1e3:.1f} ms: a lost stretch, or a clock that jumped"
            )


def _common_clock(
    traces: Sequence[Trace], names: Sequence[str], shifts: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " time"]:
    """As fine as the finest channel, over the time that all of them share."""
    step = min(float(np.median(np.diff(traces[0][name].t))) for name in names)
    first = max(trace[name].t[0] - s for trace, s in zip(traces, shifts) for name in names)
    last = min(trace[name].t[-1] - s for trace, s in zip(traces, shifts) for name in names)
    count = int((last - first) / step + 1e-6) + 1
    if count < _FEWEST:
        raise BadInput(f"the traces share {max(last - first, 0.0):.3f} s only: {_FEWEST} samples are needed")
    return first + step * np.arange(count)


def _phases(
    traces: Sequence[Trace], command: str, reference: Channel | None
) -> tuple[Float[np.ndarray, " n"], tuple[str, ...]]:
    """How far each clock is ahead of the first one's, by the command."""
    still = np.zeros(len(traces))
    if any(command not in trace.channels for trace in traces):
        return still, (f"no channel {command!r}: clocks are taken as they are",)
    ours = reference if reference is not None else traces[0][command]
    shifts = np.zeros(len(traces))
    known: dict[bytes, float] = {}
    for k, trace in enumerate(traces):
        c = trace[command]
        key = c.t.tobytes() + c.value.tobytes()
        if key not in known:
            same = np.array_equal(c.t, ours.t) and np.array_equal(c.value, ours.value)
            shift = 0.0 if same else _shift(ours, c)
            if shift is None:
                return still, ("commands differ between traces: clocks are taken as they are",)
            known[key] = shift
        shifts[k] = known[key]
    return shifts, ()


def _shift(ours: Channel, theirs: Channel) -> float | None:
    """Seconds by which the other command is late; None where it is another command."""
    if ours.value.shape[1] != theirs.value.shape[1]:
        return None
    t = ours.t
    span = np.ptp(ours.value, axis=0)
    if not (span > 0).any():
        return float(theirs.t[0] - t[0])
    lags = theirs.t[0] - t[0] + np.arange(-_LATEST, _LATEST + _STEP / 2, _STEP)
    inner = t[(t >= t[0] + _LATEST) & (t <= t[-1] - _LATEST)]
    if len(inner) < _FEWEST:
        inner = t
    scale = np.where(span > 0, ours.value.std(axis=0), 1.0)
    wanted = resample(inner, ours.t, ours.value) / scale
    seen = resample((inner + lags[:, None]).ravel(), theirs.t, theirs.value).reshape(len(lags), len(inner), -1) / scale
    left = ((seen - wanted) ** 2).sum(axis=(1, 2))
    k = int(left.argmin())
    total = ((wanted - wanted.mean(axis=0)) ** 2).sum()
    if left[k] > _ALIKE * max(total, 1e-12):
        return None
    if k in (0, len(lags) - 1):
        return float(lags[k])
    bend = left[k - 1] - 2 * left[k] + left[k + 1]
    return float(lags[k] + (0.5 * _STEP * (left[k - 1] - left[k + 1]) / bend if bend > 0 else 0.0))
