"""A parallel gripper's pads as one opening, which is what commands to a robot and its states carry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dexprior.envs.base import ActionSpec
from dexprior.errors import BadInput
from dexprior.robots.rigs import Rig

__all__ = ["Gripper", "gripper_of", "require_gripper"]


@dataclass(frozen=True)
class Gripper:
    """Pads that slide together."""

    rig: Rig
    """The robot that it is on."""
    pads: int
    widest: float
    """Largest opening [m]."""

    def controls(self, opening: float) -> Float[np.ndarray, "1 pad"]:
        """Each pad's share of an opening [m]."""
        return np.full((1, self.pads), opening / self.pads)

    def opening(self, controls: Float[np.ndarray, "1 pad"]) -> float:
        """Inverse of `controls`."""
        return float(controls.sum())


def gripper_of(rig: Rig) -> Gripper | None:
    """The gripper of a robot; None for another end effector."""
    end = rig.end
    coupled = end.couples == (tuple(range(len(end.actuators))),)
    if not coupled or end.actuators != end.joints or not all(end.slides):
        return None
    return Gripper(rig, len(end.actuators), float(end.control.max(axis=1).sum()))


def require_gripper(actions: ActionSpec) -> Gripper:
    """The gripper of the one robot that commands to hardware move.

    Raises:
        BadInput: several robots, or another end effector.
    """
    found = gripper_of(actions.rigs[0]) if len(actions.rigs) == 1 else None
    if found is None:
        robots = " and ".join(f"{rig.arm.name} with {rig.end.name}" for rig in actions.rigs)
        raise BadInput(f"hardware is one arm with a parallel gripper, not {robots}")
    return found
