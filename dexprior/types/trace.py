"""What was commanded, measured and (in simulation) known, over time, with both clocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput, UnknownName
from dexprior.types.check import Checker

__all__ = ["Channel", "ChannelKind", "Trace"]

ChannelKind = Literal["commanded", "measured", "privileged"]


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One signal at its own rate."""

    schema: ClassVar[str] = "dexprior.channel/1"

    t: Float[np.ndarray, " time"]
    """Seconds on the source's clock (simulator or device), strictly increasing."""
    t_host: Float[np.ndarray, " time"]
    """Monotonic seconds on the host that recorded it; equal to `t` in simulation."""
    value: Float[np.ndarray, "time n"]
    unit: str
    """SI unit, e.g. `m`, `N`, `rad/s`; `1` for pure numbers."""
    frame: str
    """Frame of the value, e.g. `base`, `tcp`, `sensor`; `-` where none applies."""
    kind: ChannelKind
    """`privileged` channels exist in simulation only: no policy and no diagnosis may read them."""

    def __post_init__(self) -> None:
        check = Checker(self)
        check.times("t", "time")
        check.array("t_host", "time")
        check.array("value", "time", "n")
        check.one_of("kind", ("commanded", "measured", "privileged"))


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Channels of one episode."""

    schema: ClassVar[str] = "dexprior.trace/1"

    channels: dict[str, Channel]
    panel_hash: str
    """Which panel of task instances it belongs to: traces of different panels are not compared."""
    info: dict[str, Any] = field(default_factory=dict)
    """Plain data: instance, seed, backend, success; `events` are rows [t, t_host, name], `names` the names of a
    channel's numbers by channel, `joints` those of every other channel of joints; see docs/traces.md."""

    def __post_init__(self) -> None:
        if not self.channels:
            raise BadInput("Trace holds no channels")
        for name in ("joints", "notes"):
            found = self.info.get(name, [])
            if not _texts(found):
                raise BadInput(f"Trace.info[{name!r}] = {str(found)[:60]!r}: expected a list of texts")
        names = self.info.get("names", {})
        if not isinstance(names, dict) or not all(map(_texts, names.values())):
            raise BadInput(f"Trace.info['names'] = {str(names)[:60]!r}: expected lists of texts by channel")

    def __getitem__(self, name: str) -> Channel:
        if name not in self.channels:
            raise UnknownName("channel", name, sorted(self.channels))
        return self.channels[name]

    def names(self, channel: str) -> tuple[str, ...] | None:
        """Names of a channel's numbers, e.g. joints; None where nothing names each of them."""
        numbers = self[channel]
        found = self.info.get("names", {}).get(channel)
        if found is None and (numbers.frame == "joint" or numbers.unit == "rad"):
            found = self.info.get("joints")
        width = numbers.value.shape[1]
        return tuple(found) if found and len(found) == len(set(found)) == width else None


def _texts(found: Any) -> bool:
    return isinstance(found, (list, tuple)) and all(isinstance(item, str) for item in found)
