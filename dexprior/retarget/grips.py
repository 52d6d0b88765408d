"""How end effectors close by one number, from what is between their fingertips to what an action says; and the robot
that follows a hand with one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.robots.catalog import end_effector
from dexprior.robots.machines import EndEffector
from dexprior.robots.rigs import home_pose, turn_range

if TYPE_CHECKING:
    import mujoco

__all__ = ["Follower", "GripMap", "grip_map"]


@dataclass(frozen=True, kw_only=True)
class GripMap:
    """An end effector's numbers in an action, which are all the same, by what is between its fingertips: -1 closed, 1
    open."""

    opening: Float[np.ndarray, " mark"]
    """Between free fingertips, growing [m]: between two pads, or across the circle that more of them leave free."""
    number: Float[np.ndarray, " mark"]
    """That brings them there."""
    joints: Float[np.ndarray, "mark joint"]
    """Positions of its joints there [rad, m]."""
    give: float
    """How much less a number is that makes each fingertip press with a newton [1/N]."""
    size: int
    """Numbers in an action."""
    depth: float
    """How far the fingertips reach beyond the tool centre point, at most [m]."""
    tips: int = 2
    """Number of fingertips."""

    @classmethod
    def of_pads(cls, *, widest: float, stiffness: float, depth: float) -> GripMap:
        """The map of two pads that slide together by one number.

        Args:
            widest: opening at 1 [m]; it is 0 at -1.
            stiffness: of each pad's servo [N/m].
            depth: see there.
        """
        opening = np.array([0.0, widest])
        return cls(
            opening=opening, number=np.array([-1.0, 1.0]), joints=np.repeat(opening[:, None] / 2, 2, axis=1),
            give=4.0 / (stiffness * widest), size=1, depth=depth,
        )  # fmt: skip

    @property
    def widest(self) -> float:
        """Opening at 1 [m]."""
        return float(self.opening[-1])

    def numbers(self, opening: Float[np.ndarray, "*batch"]) -> Float[np.ndarray, "*batch"]:
        """That bring the fingertips to an opening [m] where nothing is between them."""
        return np.interp(opening, self.opening, self.number)

    def posture(self, opening: Float[np.ndarray, " time"]) -> Float[np.ndarray, "time joint"]:
        """Positions of its joints at an opening [m] where nothing is between its fingertips [rad, m]."""
        return np.stack([np.interp(opening, self.opening, column) for column in self.joints.T], axis=1)


@dataclass(frozen=True, kw_only=True)
class Follower:
    """The robot that follows a hand."""

    start: Float[np.ndarray, 7]
    """Tool pose from which its arm sets out."""
    grip: GripMap
    """How its end effector closes."""
    turns: tuple[float, float]
    """How far it turns its tool about the vertical from there: least and most [rad]."""
    grasp_turn: float = 0.0
    """A grasp is the same after half a turn: of the two that its range allows, the one nearer to this turn [rad]."""
    not_before: float = 0.0
    """Earliest time at which it has grasped [s]."""
    fastest: Callable[[Float[np.ndarray, " 3"], Float[np.ndarray, " 3"]], float] | None = None
    """Position [m] and velocity [m/s] of its tool -> the largest speed in that direction that it is let go at; None
    where nothing limits it."""

    @classmethod
    def of(cls, arm: str, end: str, home: Float[np.ndarray, " joint"] | None = None) -> Follower:
        """An arm at the origin with an end effector, by name, in a home posture, by default the arm's own.

        Raises:
            UnknownName, MissingExtra: as `dexprior.robots.rigs.add_rig`.
            BadInput: the end effector closes by no one number, or the arm has no joints.
        """
        return cls(start=home_pose(arm, end, home), grip=grip_map(end), turns=turn_range(arm, end, home))


@functools.cache
def grip_map(end: str) -> GripMap:
    """The map of an end effector by name, read off its model.

    Pads that slide together press by their servo's stiffness. Fingers on tendons that are told the same number close
    against their springs: where free ones come to rest under each number is measured, and by virtual work a fingertip
    that is kept there presses with the tension beyond, times the tendon's way over the fingertip's.

    Raises:
        UnknownName: no such end effector.
        BadInput: it closes by no one number.
    """
    effector = end_effector(end)
    slides = len(effector.joints) == 2 and all(effector.slides)
    if slides and effector.action_size == 1 and not np.any(effector.control[:, 0]):
        return _of_pads(effector)
    if effector.kind == "tendon":
        return _of_tendons(effector)
    alone = (
        f"; its fingers follow a person's by themselves: `dexprior retarget robot={end}`" if effector.fingers else ""
    )
    raise BadInput(
        f"end effector {end!r}: no map from an opening and a force to its {effector.action_size} number(s); those with "
        f"one are pads that slide together (parallel) and fingers on tendons (three_finger, tendon_hand){alone}"
    )


def _of_pads(effector: EndEffector) -> GripMap:
    return GripMap.of_pads(
        widest=float(effector.control[:, 1].sum()),
        stiffness=float(effector.model.actuator(effector.actuators[0]).gainprm[0]), depth=effector.depth,
    )  # fmt: skip


def _of_tendons(effector: EndEffector) -> GripMap:
    import mujoco

    spec = effector.build()
    spec.compiler.degree = False
    model = spec.compile()
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data = mujoco.MjData(model)
    pads = [geom for geom in range(model.ngeom) if model.geom(geom).name.startswith("pad_")]
    for joint, rest in zip(effector.joints, effector.rest):
        data.joint(joint).qpos[:] = rest
    actuators = [model.actuator(name).id for name in effector.actuators]
    tight, slack = effector.control.T
    number = np.linspace(1.0, -1.0, _MARKS)
    opening, depth = np.zeros(_MARKS), np.zeros(_MARKS)
    length, joints = np.zeros((_MARKS, len(actuators))), np.zeros((_MARKS, len(effector.joints)))
    for k in range(_MARKS):
        data.ctrl[actuators] = tight + 0.5 * (number[k] + 1.0) * (slack - tight)
        mujoco.mj_step(model, data, round(_SETTLING / model.opt.timestep))
        tips = _ends(model, data, pads)
        radius = model.geom_size[pads, 0]
        opening[k] = 2.0 * (np.linalg.norm(tips[..., :2], axis=2).min(axis=1) - radius).mean()
        depth[k] = (tips[..., 2].max(axis=1) + radius).max()
        length[k] = data.actuator_length[actuators]
        joints[k] = [data.joint(joint).qpos[0] for joint in effector.joints]
    # from where fingertips meet they pass each other
    closed = np.flatnonzero((np.diff(opening, append=opening[-1]) >= 0.0) | (opening <= 0.0))
    few = slice(0, int(closed[0]) + 1)
    way = np.ptp(length[few], axis=0) / (0.5 * np.ptp(opening[few]))
    return GripMap(
        opening=np.maximum(opening[few][::-1], 0.0), number=number[few][::-1].copy(),
        joints=joints[few][::-1].copy(), give=float(2.0 / (abs(tight - slack) * way).mean()),
        size=effector.action_size, depth=float(depth[few].max()), tips=len(pads),
    )  # fmt: skip


def _ends(model: mujoco.MjModel, data: mujoco.MjData, geoms: list[int]) -> Float[np.ndarray, "geom 2 3"]:
    """Both ends of capsules' axes, in the tool's frame [m]."""
    tool = data.site("tcp")
    centre = data.geom_xpos[geoms]
    along = data.geom_xmat[geoms].reshape(-1, 3, 3)[:, :, 2] * model.geom_size[geoms, 1][:, None]
    return (np.stack([centre - along, centre + along], axis=1) - tool.xpos) @ tool.xmat.reshape(3, 3)


_MARKS = 81  # tensions
_SETTLING = 0.4  # [s] for which each pulls
