"""What travels between a reality server and its client; see docs/reality-server.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dexprior.envs.base import ActionSpec, Reading, RobotCommand, RobotReading
from dexprior.envs.messages import truth_from_plain, truth_to_plain
from dexprior.envs.wire import array_from
from dexprior.errors import BadInput
from dexprior.reading import listed, mapping

__all__ = [
    "PROTOCOL",
    "VERSION",
    "commands_from_plain",
    "commands_to_plain",
    "reading_from_plain",
    "reading_to_plain",
    "shapes_of",
]

PROTOCOL, VERSION = "dexprior.reality", 3

_ROBOT = ("q", "qd", "tcp", "end", "wrench", "touch")
_FAST = 100.0  # [m/s, rad/s], and controls beyond their own range by this factor: no command of a robot's
Shapes = Sequence[Mapping[str, tuple[int, ...]]]


def shapes_of(actions: ActionSpec) -> list[dict[str, tuple[int, ...]]]:
    """What each robot reads, without the leading axis: declared by a server, known to its client from the task."""
    return [
        {
            "q": (len(rig.arm.joints),), "qd": (len(rig.arm.joints),), "tcp": (7,), "end": (len(rig.end.joints),),
            "wrench": (6,), "touch": (len(rig.end.touch),),
        }
        for rig in actions.rigs
    ]  # fmt: skip


def reading_to_plain(reading: Reading, *, tracker: bool) -> dict[str, Any]:
    """The reading of one world; the truth travels only where a tracker sees it."""
    robots = [{name: getattr(robot, name)[0] for name in _ROBOT} for robot in reading.robots]
    plain = {"t": reading.t[0], "robots": robots, "cloud": reading.cloud[0]}
    return plain | {"truth": truth_to_plain(reading.truth) if tracker else None}


def reading_from_plain(data: Mapping[str, Any], shapes: Shapes, points: int) -> Reading:
    """Inverse of `reading_to_plain`, with the leading axis of one world.

    Raises:
        BadInput: a field is missing or has another shape.
    """
    told = listed(data.get("robots"), "field 'robots'")
    if len(told) != len(shapes):
        raise BadInput(f"field 'robots' holds {len(told)}, expected {len(shapes)}")
    robots = [
        RobotReading(**{name: array_from(mapping(one, "robot"), name, *shape)[None] for name, shape in known.items()})
        for one, known in zip(told, shapes)
    ]
    return Reading(
        t=array_from(data, "t")[None],
        robots=tuple(robots),
        cloud=array_from(data, "cloud", points, 3)[None].astype(np.float32),
        truth=truth_from_plain(data.get("truth")),
    )


def commands_to_plain(commands: Sequence[RobotCommand]) -> dict[str, Any]:
    """The commands of one world's robots."""
    return {"commands": [{"arm": command.arm[0], "end": command.end[0]} for command in commands]}


def commands_from_plain(message: Mapping[str, Any], actions: ActionSpec) -> list[RobotCommand]:
    """The commands of a step request.

    Raises:
        BadInput: a field is missing, has another shape, or holds what no robot does.
    """
    told = listed(message.get("commands"), "field 'commands'")
    if len(told) != len(actions.rigs):
        raise BadInput(f"field 'commands' holds {len(told)}, expected {len(actions.rigs)}, one a robot")
    found = []
    for one, rest in zip(told, actions.commands(np.zeros((1, actions.size)))):
        plain = mapping(one, "command")
        widest = _FAST * max(1.0, float(np.abs(rest.end).max(initial=0.0)))
        arm = array_from(plain, "arm", rest.arm.shape[1], limit=_FAST)
        found.append(RobotCommand(arm[None], array_from(plain, "end", rest.end.shape[1], limit=widest)[None]))
    return found
