"""Machines by name: arms, and the grippers and hands that they carry.

A machine is added by a module that describes it and a line in the table below; a program adds one of its own with
`register`.
"""

from __future__ import annotations

from dexprior.errors import BadInput, UnknownName
from dexprior.robots.arm7 import ARM7, PARALLEL
from dexprior.robots.capsule_hand import CAPSULE_HAND
from dexprior.robots.claw import CLAW
from dexprior.robots.gantry import GANTRY, STAND
from dexprior.robots.human_hand import HUMAN_HAND
from dexprior.robots.machines import ArmModel, EndEffector, Fingers
from dexprior.robots.named import NAMED_ARMS, NAMED_ENDS
from dexprior.robots.tendon_hands import TENDON_HAND, THREE_FINGER

__all__ = ["able_to_stop", "arm", "arms", "end_effector", "end_effectors", "fingers_of", "hands", "register"]

Machine = ArmModel | EndEffector

_TABLE: tuple[Machine, ...] = (
    ARM7, GANTRY, STAND, *NAMED_ARMS,
    PARALLEL, THREE_FINGER, TENDON_HAND, CLAW, HUMAN_HAND, CAPSULE_HAND, *NAMED_ENDS,
)  # fmt: skip
_MACHINES: dict[str, Machine] = {machine.name: machine for machine in _TABLE}


def register(machine: Machine) -> None:
    """Add a machine.

    Raises:
        BadInput: another one has its name.
    """
    if _MACHINES.setdefault(machine.name, machine) is not machine:
        raise BadInput(f"a machine {machine.name!r} is registered already; choose another name")


def arms() -> tuple[str, ...]:
    """Names of arms."""
    return tuple(name for name, machine in _MACHINES.items() if isinstance(machine, ArmModel))


def able_to_stop() -> tuple[str, ...]:
    """Names of arms whose motion is known."""
    return tuple(name for name in arms() if arm(name).motion is not None)


def end_effectors() -> tuple[str, ...]:
    """Names of grippers and hands."""
    return tuple(name for name, machine in _MACHINES.items() if isinstance(machine, EndEffector))


def hands() -> tuple[str, ...]:
    """Names of hands that can follow a human one."""
    return tuple(name for name in end_effectors() if end_effector(name).fingers is not None)


def arm(name: str) -> ArmModel:
    """An arm by name.

    Raises:
        UnknownName: no such arm.
    """
    found = _MACHINES.get(name)
    if not isinstance(found, ArmModel):
        raise UnknownName("arm", name, arms())
    return found


def end_effector(name: str) -> EndEffector:
    """A gripper or hand by name.

    Raises:
        UnknownName: no such end effector.
    """
    found = _MACHINES.get(name)
    if not isinstance(found, EndEffector):
        raise UnknownName("end effector", name, end_effectors())
    return found


def fingers_of(end: EndEffector) -> Fingers:
    """How an end effector follows a human hand.

    Raises:
        BadInput: it cannot; names those that can.
    """
    if end.fingers is None:
        raise BadInput(f"{end.name!r} has no fingers that follow a human hand's; choices: {', '.join(hands())}")
    return end.fingers
