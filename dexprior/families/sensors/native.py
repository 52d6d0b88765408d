"""Latency as MuJoCo's own history buffers apply it: at every simulation step, inside the engine (since MuJoCo 3.5)."""

from __future__ import annotations

import fnmatch
import math
from typing import Any

from dexprior.errors import BadInput, UnknownName
from dexprior.families.sensors.transport import TransportConfig

__all__ = ["write_latency"]


def write_latency(
    spec: Any, link: TransportConfig, *, actuators: str | None = None, sensors: str | None = None, smooth: bool = False
) -> tuple[str, ...]:
    """Give actuators or sensors of a `mujoco.MjSpec` a delay, in place.

    Histories start with zeros; `mj_initCtrlHistory` and `mj_initSensorHistory` fill in others.

    The engine rounds a latency up to simulation steps, unless it interpolates (`smooth`). It knows no jitter, no loss
    and no overtaking: those need `Transport`.

    Args:
        spec: not yet compiled.
        link: of which the latency is written.
        actuators: glob over names.
        sensors: glob over names.
        smooth: interpolate linearly between samples instead of holding them.

    Returns:
        Names of what was written to.

    Raises:
        BadInput: a link with jitter or loss, or neither glob.
        UnknownName: a glob that matches nothing.
    """
    if link.jitter > 0 or link.start > 0 or link.lost_good > 0:
        raise BadInput(
            f"MuJoCo's delays are fixed: jitter {link.jitter} s, start {link.start} and lost_good {link.lost_good} "
            "must be 0; use Transport for them"
        )
    if actuators is None and sensors is None:
        raise BadInput("write_latency: give a glob for actuators, for sensors, or for both")
    found = []
    for kind, pattern, items in (("actuator", actuators, spec.actuators), ("sensor", sensors, spec.sensors)):
        if pattern is None:
            continue
        matching = [item for item in items if fnmatch.fnmatchcase(item.name, pattern)]
        if not matching:
            raise UnknownName(f"{kind} for a latency", pattern, [item.name for item in items if item.name])
        for item in matching:
            item.delay = link.latency
            # one sample more than the delay spans: a shorter buffer shortens the delay, silently
            item.nsample = math.ceil(link.latency / spec.option.timestep - 1e-9) + 1 if link.latency > 0 else 0
            item.interp = int(smooth)
            found.append(item.name)
    return tuple(found)
