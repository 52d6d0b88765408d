"""Names, units, frames and kinds of channels that a format cannot say by itself: defaults by name, and the user's word.

A layout is a YAML file that the user writes for a foreign recording:

    force:   {unit: N, frame: sensor, kind: measured}
    joints:  {unit: rad, frame: joint, kind: measured, source: /joint_states, field: position}
    goal:    {unit: deg, frame: joint, kind: commanded, source: action, names: [shoulder, elbow]}

`source` is what the format calls it (a ROS topic, a LeRobot feature, a robomimic data set), `field` the part of a ROS
message, `names` what its numbers are called. Numbers in degrees and millimetres come in as radians and metres. What is
left out of an entry keeps its default.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import config, validate
from dexprior.errors import BadInput
from dexprior.reading import mapping, read_yaml
from dexprior.types import Channel, ChannelKind, Trace

__all__ = [
    "KNOWN",
    "ChannelLayout",
    "Made",
    "Meaning",
    "in_si",
    "increasing",
    "laid_out",
    "meaning_of",
    "names_of",
    "read_channel_layout",
    "salvaged",
    "usable",
]


class Meaning(NamedTuple):
    """What the numbers of a channel are."""

    unit: str
    frame: str
    kind: ChannelKind


KNOWN: dict[str, Meaning] = {
    "tool_pose": Meaning("m, 1", "base", "measured"),
    "tool_position": Meaning("m", "base", "measured"),
    "twist": Meaning("m/s, rad/s", "base", "measured"),
    "force": Meaning("N", "sensor", "measured"),
    "torque": Meaning("N m", "sensor", "measured"),
    "wrench": Meaning("N, N m", "sensor", "measured"),
    "touch": Meaning("N", "pads", "measured"),
    "slip": Meaning("m/s", "tcp", "privileged"),
    "object": Meaning("m", "base", "privileged"),
    "opening": Meaning("m", "-", "measured"),
    "timing": Meaning("s", "-", "measured"),
    "joints": Meaning("rad", "joint", "measured"),
    "command": Meaning("rad", "joint", "commanded"),
    "measured": Meaning("rad", "joint", "measured"),
}
"""Channels with a name of ours, where a format says nothing else: `timing` is what a step of the loop took."""

_SI = {
    "deg": ("rad", np.pi / 180),
    "deg/s": ("rad/s", np.pi / 180),
    "mm": ("m", 1e-3),
    "cm": ("m", 1e-2),
    "mm/s": ("m/s", 1e-3),
    "ms": ("s", 1e-3),
}
"""Units that a layout may say, and what they become."""


@config
class ChannelLayout:
    """One channel, as the user describes it."""

    unit: str | None = None
    """SI unit, or deg, deg/s, mm, cm, mm/s, ms, which become one; `1` for pure numbers."""
    frame: str | None = None
    """Frame of the value; `-` where none applies."""
    kind: ChannelKind | None = None
    """Commanded, measured, or known in simulation only."""
    source: str | None = None
    """What the format calls it; by default the channel's own name."""
    field: str | None = None
    """Part of a ROS message, e.g. `position` of a JointState; all of it when omitted."""
    names: tuple[str, ...] | None = None
    """Names of its numbers in their order, e.g. joints, where the format has none or others."""
    quaternion: Literal["wxyz", "xyzw"] | None = None
    """Order of its last four numbers, where they are a quaternion whose order the format does not say; they become
    scalar first."""


@config
class _Layout:
    channels: dict[str, ChannelLayout]


def read_channel_layout(path: str | Path) -> dict[str, ChannelLayout]:
    """Read a layout by channel name.

    Raises:
        BadInput: no such file, or not YAML.
        ConfigError: an unknown key or kind.
    """
    plain = read_yaml(path)
    return validate(_Layout, {"channels": {} if plain is None else mapping(plain, path)}, where=str(path)).channels


def meaning_of(name: str, layout: Mapping[str, ChannelLayout], default: Meaning | None = None) -> Meaning:
    """What a channel's numbers are: what the layout says, else `default`, else what the name says.

    Raises:
        BadInput: nothing says its unit.
    """
    known = default or KNOWN.get(name)
    said = layout.get(name, ChannelLayout())
    if known is None and said.unit is None:
        raise BadInput(
            f"channel {name!r}: nothing says its unit; name it in a layout ({name}: {{unit: ..., frame: ..., kind: "
            f"measured}}), or use a known name: {', '.join(KNOWN)}"
        )
    base = known or Meaning("1", "-", "measured")
    return Meaning(said.unit or base.unit, said.frame or base.frame, said.kind or base.kind)


def laid_out(trace: Trace, layout: Mapping[str, ChannelLayout], where: str | Path) -> Trace:
    """A trace under the user's names and with the user's meanings; channels that the layout does not name stay.

    Raises:
        BadInput: a source that is not there, or names or a quaternion that do not suit its numbers.
    """
    if not layout:
        return trace
    found, names = dict(trace.channels), dict(trace.info.get("names", {}))
    for source in {said.source or name for name, said in layout.items()}:
        found.pop(source, None)
    for name, said in layout.items():
        source = said.source or name
        if source not in trace.channels:
            raise BadInput(f"{where} holds no {source!r} for channel {name!r}; it has: {', '.join(trace.channels)}")
        channel = trace.channels[source]
        unit, frame, kind = meaning_of(name, layout, Meaning(channel.unit, channel.frame, channel.kind))
        found[name] = in_si(name, replace(channel, unit=unit, frame=frame, kind=kind), said)
        if given := names_of(name, channel.value.shape[1], said, trace.info.get("names", {}).get(source, ())):
            names[name] = list(given)
    names = {name: each for name, each in names.items() if name in found}
    info = {key: value for key, value in trace.info.items() if key != "names"} | ({"names": names} if names else {})
    return Trace(channels=found, panel_hash=trace.panel_hash, info=info)


def names_of(name: str, width: int, said: ChannelLayout, known: Sequence[str] = ()) -> Sequence[str]:
    """Names of a channel's numbers: what the layout says, else those that are known.

    Raises:
        BadInput: the layout's are not one for each number.
    """
    if said.names is not None and not len(said.names) == len(set(said.names)) == width:
        raise BadInput(
            f"channel {name!r} holds {width} numbers; the layout gives {len(said.names)} names, or one twice: "
            f"{', '.join(said.names)}"
        )
    return said.names or known


def in_si(name: str, channel: Channel, said: ChannelLayout) -> Channel:
    """A channel in SI units and with its quaternion scalar first, by what a layout says that it is in.

    Raises:
        BadInput: fewer numbers than a quaternion has.
    """
    value, unit = channel.value, channel.unit
    if said.quaternion is not None and value.shape[1] < 4:
        raise BadInput(f"channel {name!r} holds {value.shape[1]} numbers: no quaternion is among them")
    if said.quaternion == "xyzw":
        value = np.concatenate([value[:, :-4], value[:, -1:], value[:, -4:-1]], axis=1)
    if said.unit in _SI:
        unit, factor = _SI[said.unit]
        value = value * factor
    return channel if value is channel.value else replace(channel, value=value, unit=unit)


Made = tuple[Channel, tuple[str, ...]]
"""A channel and the names of its numbers, if they have any."""


def usable(
    made: Mapping[str, Callable[[list[str]], Made]], wanted: Collection[str], notes: list[str], where: str | Path
) -> tuple[dict[str, Channel], dict[str, list[str]]]:
    """Channels and the names of their numbers; one that cannot be made is left out with a note.

    Args:
        made: makes each channel, and appends to the notes what it leaves out.
        wanted: channels that must be there.
        notes: for what is left out.
        where: names the source.

    Raises:
        BadInput: one that is wanted cannot be made, or none can.
    """
    channels: dict[str, Channel] = {}
    names: dict[str, list[str]] = {}
    wrong: list[str] = []
    for name, make in made.items():
        try:
            channels[name], found = make(notes)
        except BadInput as error:
            if name in wanted:
                raise BadInput(f"{where}: {error}") from None
            wrong.append(str(error))
            continue
        names |= {name: list(found)} if found else {}
    if wrong and not channels:
        raise BadInput(f"{where}: {wrong[0]}")
    notes += [f"{reason}: left out" for reason in wrong]
    return channels, names


def salvaged(
    name: str,
    t: Float[np.ndarray, " time"],
    t_host: Float[np.ndarray, " time"],
    value: Float[np.ndarray, "time n"],
    meaning: Meaning,
    names: Sequence[str],
    notes: list[str],
) -> Made:
    """A channel of the samples that can be believed, and the names of its numbers; appends what is left out to `notes`.

    Left out are named numbers that are never finite, samples that are not finite, and the fewest samples without which
    the source's clock increases strictly.

    Raises:
        BadInput: no sample is left.
    """
    finite = np.isfinite(value)
    never = ~finite.any(axis=0)
    if len(value) and names and never.any() and not never.all():
        notes.append(f"channel {name!r}: {', '.join(np.array(names)[never])}: never finite, left out")
        value, finite = value[:, ~never], finite[:, ~never]
        names = [part for part, gone in zip(names, never) if not gone]
    whole = finite.all(axis=1) & np.isfinite(t) & np.isfinite(t_host)
    if len(value) and not whole.any():
        raise BadInput(f"channel {name!r}: values that are not finite in every sample")
    if lost := int((~whole).sum()):
        notes.append(f"channel {name!r}: {lost} sample(s) of {len(whole)} are not finite and are left out")
    t, t_host, value = t[whole], t_host[whole], value[whole]
    later = increasing(t)
    if lost := int((~later).sum()):
        notes.append(
            f"channel {name!r}: {lost} sample(s) of {len(later)} whose stamp is not after the one before are left out"
        )
    try:
        channel = Channel(t=t[later], t_host=t_host[later], value=value[later], **meaning._asdict())
    except BadInput as error:
        raise BadInput(f"channel {name!r}: {error}") from None
    return channel, tuple(names)


def increasing(t: Float[np.ndarray, " time"]) -> Bool[np.ndarray, " time"]:
    """The longest part of a sequence that increases strictly (patience sorting); where it is as long, all that is after
    everything before it.
    """
    record = np.concatenate([[True], t[1:] > np.maximum.accumulate(t)[:-1]])[: len(t)]
    if record.all():
        return record
    ends: list[float] = []  # the smallest end of an increasing part of each length...
    at: list[int] = []  # ...and where it is
    before = np.full(len(t), -1)
    for k, time in enumerate(t.tolist()):
        length = bisect_left(ends, time)
        if length < len(ends) and ends[length] == time:
            continue
        before[k] = at[length - 1] if length else -1
        ends[length : length + 1], at[length : length + 1] = [time], [k]
    if record.sum() == len(ends):
        return record
    kept = np.zeros(len(t), dtype=bool)
    k = at[-1]
    while k >= 0:
        kept[k] = True
        k = before[k]
    return kept
