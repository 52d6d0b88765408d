"""What the catalog holds of a machine: an arm, or an end effector (a gripper or a hand).

An entry is light: it says what nobody could read off the model, and the model is built when asked for. What can be read
off is read off: the joints of an end effector, which of them slide, how far it reaches, and of a hand that can follow a
human one its last joints and how thick its fingertips are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput, UnknownName
from dexprior.types.hand import FINGERS, Side

if TYPE_CHECKING:
    import mujoco

__all__ = ["MANO_ON_FLANGE", "ArmModel", "EndEffector", "EndKind", "Fingers", "Motion"]

EndKind = Literal["gripper", "tendon", "hand"]
MANO_ON_FLANGE = (0.5, -0.5, 0.5, 0.5)
"""Turn of a right hand's wrist in MANO's convention on a flange: fingers along its z axis, palm facing its x axis."""


@dataclass(frozen=True, kw_only=True)
class Motion:
    """How an arm moves and stops, and what it may meet: what a safety gate has to know of it."""

    linear_speed: float
    """Largest of the tool [m/s]."""
    angular_speed: float
    """Largest of the tool [rad/s]."""
    deceleration: float
    """Deceleration of the tool when it is stopped, or when commands stop coming [m/s^2]."""
    angular_deceleration: float
    """Deceleration of the tool's rotation [rad/s^2]."""
    lag: float
    """Time by which the tool follows its commands [s]."""
    contact_speed: float
    """Largest at which it may meet something rigid [m/s]."""
    press_force: float
    """Force on the tool from which nothing is pressed further [N]."""
    max_force: float
    """Force on the tool at which it is stopped [N]."""


@dataclass(frozen=True, kw_only=True)
class ArmModel:
    """An arm of the catalog."""

    name: str
    build: Callable[[], mujoco.MjSpec]
    """Makes a fresh spec in radians, with a position actuator of each joint's own name and the site `flange`."""
    joints: tuple[str, ...]
    """Joints from the base outwards."""
    home: Float[np.ndarray, " joint"]
    """A posture with the flange pointing down over the work area, or up where it holds a palm [rad, m]."""
    limits: Float[np.ndarray, "joint 2"]
    """[rad, m]"""
    motion: Motion | None = None
    """None where nobody has said: such an arm does not go behind a safety gate."""
    licence: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Fingers:
    """What of a hand follows a human hand."""

    side: Side
    """Which hand."""
    wrist: str
    """Site in MANO's convention: origin near the wrist, fingers along -x, palm facing -y, the index finger's side
    towards +z on a right hand."""
    tips: Mapping[str, str]
    """Human finger -> fingertip site; fingers that the hand lacks are absent."""
    tip_radius: float | None = None
    """Radius of every fingertip [m]: two fingers touch when their sites are two radii apart. None: each as its
    shape."""

    def __post_init__(self) -> None:
        for finger in self.tips:
            if finger not in FINGERS:
                raise UnknownName("finger", finger, FINGERS)
        if "thumb" not in self.tips or len(self.tips) < 2:
            raise BadInput(f"fingers {', '.join(self.tips) or '(none)'}: a hand that follows has a thumb and another")

    @property
    def names(self) -> tuple[str, ...]:
        """Human fingers that the hand has, in the order of `FINGERS`."""
        return tuple(finger for finger in FINGERS if finger in self.tips)


@dataclass(frozen=True, kw_only=True)
class EndEffector:
    """A gripper or hand of the catalog (not to be confused with the human hands of `dexprior.hands`)."""

    name: str
    kind: EndKind
    build: Callable[[], mujoco.MjSpec]
    """Makes a fresh spec in radians with one root body, the sites `wrist` and `tcp`, and force and torque sensors
    `wrench_force`, `wrench_torque` at `wrist`."""
    actuators: tuple[str, ...]
    """What an action commands; others of the spec are left at their defaults."""
    control: Float[np.ndarray, "actuator 2"]
    """Control at an action of -1 (closed, or tight) and of +1 (open, or slack)."""
    start: Float[np.ndarray, " actuator"] | None = None
    """Control at reset; that of an action of +1 by default."""
    couples: tuple[tuple[int, ...], ...] | None = None
    """Groups of actuators that share one number of the action; None gives each its own."""
    reset: Mapping[str, float] | None = None
    """Its joints, in the order in which they are read, and where they are at reset [rad, m]. None: all of the model's,
    at zero or as near as their ranges allow."""
    touch: tuple[str, ...]
    """Touch sensors [N], one a fingertip."""
    fingers: Fingers | None = None
    """How it follows a human hand; None where it cannot."""
    licence: str
    source: str

    @property
    def action_size(self) -> int:
        """Numbers in an action."""
        return len(self.actuators) if self.couples is None else len(self.couples)

    @cached_property
    def model(self) -> mujoco.MjModel:
        """Compiled alone, its root at the origin; not to be changed.

        Raises:
            MissingExtra: the package that holds it is not installed.
        """
        spec = self.build()
        spec.compiler.degree = False
        return spec.compile()

    @cached_property
    def root(self) -> str:
        """The body that sits on the flange."""
        return str(self.model.body(1).name)

    @cached_property
    def joints(self) -> tuple[str, ...]:
        """Names, in the order in which they are read."""
        if self.reset is not None:
            return tuple(self.reset)
        return tuple(self.model.joint(k).name for k in range(self.model.njnt))

    @cached_property
    def rest(self) -> Float[np.ndarray, " joint"]:
        """Positions at reset [rad, m]."""
        if self.reset is not None:
            return np.array(list(self.reset.values()))
        low, high = self.model.jnt_range.T
        return np.where(self.model.jnt_limited, np.clip(0.0, low, high), 0.0)

    @cached_property
    def slides(self) -> tuple[bool, ...]:
        """Whether each joint slides [m] or turns [rad]."""
        import mujoco

        return tuple(self.model.joint(name).type[0] == mujoco.mjtJoint.mjJNT_SLIDE for name in self.joints)

    @cached_property
    def depth(self) -> float:
        """How far its solid parts reach beyond the tool centre point at rest, along the tool [m]."""
        import mujoco

        model = self.model
        data = mujoco.MjData(model)
        for name, rest in zip(self.joints, self.rest):
            data.joint(name).qpos[:] = rest
        mujoco.mj_kinematics(model, data)
        tool = data.site("tcp")
        signs = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
        deepest = 0.0
        for geom in np.flatnonzero((model.geom_contype | model.geom_conaffinity) != 0):
            centre, half = model.geom_aabb[geom].reshape(2, 3)
            corners = data.geom_xpos[geom] + (centre + signs * half) @ data.geom_xmat[geom].reshape(3, 3).T
            deepest = max(deepest, float(((corners - tool.xpos) @ tool.xmat.reshape(3, 3)[:, 2]).max()))
        return deepest
