"""Names, units, frames and kinds of channels that a format cannot say by itself: defaults by name, and the user's word.

A layout is a YAML file that the user writes for a foreign recording:

    force:   {unit: N, frame: sensor, kind: measured}
    joints:  {unit: rad, frame: joint, kind: measured, source: /joint_states, field: position}
    goal:    {unit: rad, frame: joint, kind: commanded, source: action}

`source` is what the format calls it (a ROS topic, a LeRobot feature, a robomimic data set), `field` the part of a ROS
message. What is left out of an entry keeps its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dexprior.config import config, validate
from dexprior.errors import BadInput
from dexprior.reading import mapping, read_yaml
from dexprior.types import Channel, ChannelKind

__all__ = ["KNOWN", "ChannelLayout", "Meaning", "meaning_of", "read_channel_layout", "rename"]


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


@config
class ChannelLayout:
    """One channel, as the user describes it."""

    unit: str | None = None
    """SI unit; `1` for pure numbers."""
    frame: str | None = None
    """Frame of the value; `-` where none applies."""
    kind: ChannelKind | None = None
    """Commanded, measured, or known in simulation only."""
    source: str | None = None
    """What the format calls it; by default the channel's own name."""
    field: str | None = None
    """Part of a ROS message, e.g. `position` of a JointState; all of it when omitted."""


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


def rename(
    channels: Mapping[str, Channel], layout: Mapping[str, ChannelLayout], where: str | Path
) -> dict[str, Channel]:
    """Channels under the user's names and with the user's meanings; those that the layout does not name stay.

    Raises:
        BadInput: a source that is not there.
    """
    found = dict(channels)
    for name, said in layout.items():
        source = said.source or name
        if source not in channels:
            raise BadInput(f"{where} holds no {source!r} for channel {name!r}; it has: {', '.join(channels)}")
        channel = found.pop(source)
        unit, frame, kind = meaning_of(name, layout, Meaning(channel.unit, channel.frame, channel.kind))
        found[name] = replace(channel, unit=unit, frame=frame, kind=kind)
    return found
