"""Which number of a command belongs to which number of a measurement: names decide, wherever there are any.

Recorders write joints in orders of their own (ROS' joint_states in that of the alphabet, a gripper beside the arm's),
so that a position says nothing where a name is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dexprior.errors import BadInput
from dexprior.reading import time_column
from dexprior.types import Trace

__all__ = ["JointPairs", "MotionColumns", "motion_columns", "pair_joints"]


@dataclass(frozen=True, kw_only=True)
class JointPairs:
    """Joints that are commanded and measured."""

    joints: tuple[str, ...]
    command: list[int]
    """Number of the command that is each joint's."""
    measured: list[int]
    """Number of the measurement that is each joint's."""
    notes: tuple[str, ...]
    """What has no other half, or no name."""


@dataclass(frozen=True, kw_only=True)
class MotionColumns:
    """Which columns of a table are what of an arm's motion."""

    t: str
    seconds: float
    """Seconds in one unit of `t`."""
    joints: dict[str, tuple[str, str]]
    """Columns of command and measurement by joint."""
    notes: tuple[str, ...]
    """Joints that have one of both only."""


def pair_joints(trace: Trace, command: str, measured: str, where: object) -> JointPairs:
    """Pair the joints of a commanded and a measured channel.

    Args:
        trace: holds both, and the names of their numbers.
        command: name of the commanded channel.
        measured: name of the measured channel.
        where: names the source.

    Raises:
        BadInput: no name that both have, names that do not suit the numbers, or numbers without names of which one has
            more.
    """
    sent, seen = trace.names(command), trace.names(measured)
    widths = trace[command].value.shape[1], trace[measured].value.shape[1]
    hint = "`names` in a layout says which is which (docs/traces.md)"
    for channel, found, width in ((command, sent, widths[0]), (measured, seen, widths[1])):
        given = trace.info.get("names", {}).get(channel) or trace.info.get("joints")
        if given and found is None:
            raise BadInput(
                f"{where}: {len(given)} joint names for {width} joints of {channel!r}, or one twice: {', '.join(given)}"
            )
    if sent is None or seen is None:
        if widths[0] != widths[1]:
            raise BadInput(
                f"{where}: the command has {widths[0]} joints, the measurement {widths[1]}, and not both have names: "
                f"{hint}"
            )
        joints = sent or seen or tuple(f"joint{k}" for k in range(widths[0]))
        nameless = command if sent is None else measured
        note = f"the numbers of {nameless!r} have no names and are taken in the order {', '.join(joints)}; {hint}"
        every = list(range(widths[0]))
        return JointPairs(joints=joints, command=every, measured=every, notes=() if sent is seen else (note,))
    joints = tuple(joint for joint in sent if joint in seen)
    if not joints:
        raise BadInput(
            f"{where}: no joint is both commanded ({', '.join(sent)}) and measured ({', '.join(seen)}): {hint}"
        )
    return JointPairs(
        joints=joints,
        command=[sent.index(joint) for joint in joints],
        measured=[seen.index(joint) for joint in joints],
        notes=_alone(sent, seen),
    )


def motion_columns(columns: Sequence[str]) -> MotionColumns | None:
    """What a table's columns are of an arm's motion; None where they are of something else.

    Read are `JOINT_command` and `JOINT_measured`, and LeRobot's `action.JOINT` and `observation.state.JOINT` (or
    `observation.JOINT`), with or without `.pos` at the end; the time is `t`, or `timestamp`, `time_ms` and the like.
    """
    sent: dict[str, str] = {}
    seen: dict[str, str] = {}
    for column in (column for column in columns if column != "t_measured"):
        for part, found in ((sent, _joint(column, "_command", "action.")), (seen, _seen(column))):
            if found is not None:
                part.setdefault(found, column)
    time = time_column(columns)
    if time is None or not sent:
        return None
    joints = {joint: (column, seen[joint]) for joint, column in sent.items() if joint in seen}
    return MotionColumns(t=time[0], seconds=time[1], joints=joints, notes=_alone(tuple(sent), tuple(seen)))


def _joint(column: str, ending: str, beginning: str) -> str | None:
    if column.startswith(beginning):
        return column.removeprefix(beginning).removesuffix(".pos") or None
    return column.removesuffix(ending) or None if column.endswith(ending) else None


def _seen(column: str) -> str | None:
    state = _joint(column, "_measured", "observation.state.")
    return state if state is not None else _joint(column, "_measured", "observation.")


def _alone(sent: Sequence[str], seen: Sequence[str]) -> tuple[str, ...]:
    unseen = [joint for joint in sent if joint not in seen]
    unsent = [joint for joint in seen if joint not in sent]
    notes = [f"commanded, but not measured, and left out: {', '.join(unseen)}"] if unseen else []
    return (*notes, *([f"measured, but not commanded, and left out: {', '.join(unsent)}"] if unsent else []))
