"""Robots put together by name: an arm, and an end effector on its flange, attached to a scene with a prefix.

    rig = add_rig(spec, "arm7", "parallel", prefix="left/", position=(0, 0.3, 0))

An arm is a spec with a chain of position-controlled joints, or with none, that ends in the site `flange`, whose z axis
points out of the arm. An end effector is a spec whose root body sits on the flange, with the sites `wrist` and `tcp`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput, UnknownName
from dexprior.geometry.rotations import axis_angle_from_matrix
from dexprior.worlds.arm import ARM_JOINTS, HOME, JOINT_LIMITS, MAX_OPENING, build_arm, build_gripper
from dexprior.worlds.kinematics import ChainKinematics

if TYPE_CHECKING:
    import mujoco

__all__ = [
    "ArmModel",
    "EndEffector",
    "Rig",
    "add_rig",
    "arms",
    "end_effector",
    "end_effectors",
    "joint_slides",
    "posture",
    "register_arm",
    "register_end_effector",
    "rig_chain",
]

EndKind = Literal["gripper", "tendon", "hand"]


@dataclass(frozen=True, kw_only=True)
class ArmModel:
    """An arm of the catalog."""

    name: str
    build: Callable[[], mujoco.MjSpec]
    """Makes a fresh spec in radians, with a position actuator of each joint's own name and the site `flange`."""
    joints: tuple[str, ...]
    """From the base outwards."""
    home: Float[np.ndarray, " joint"]
    """A posture with the flange pointing down over the work area, or up where it holds a palm [rad, m]."""
    limits: Float[np.ndarray, "joint 2"]
    """[rad, m]"""
    licence: str
    source: str


@dataclass(frozen=True, kw_only=True)
class EndEffector:
    """A gripper or hand of the catalog."""

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
    joints: tuple[str, ...]
    """Joints of the end effector."""
    rest: Float[np.ndarray, " joint"]
    """Their positions at reset."""
    touch: tuple[str, ...]
    """Touch sensors [N], one a fingertip."""
    licence: str
    source: str

    @property
    def action_size(self) -> int:
        """Numbers in an action."""
        return len(self.actuators) if self.couples is None else len(self.couples)


@dataclass(frozen=True, kw_only=True)
class Rig:
    """An arm with its end effector inside a scene: names with the scene's prefix."""

    arm: ArmModel
    end: EndEffector
    prefix: str
    home: Float[np.ndarray, " joint"]
    """Posture at reset; a task may move it [rad, m]."""

    def name(self, own: str) -> str:
        """A name of the arm's or the end effector's inside the scene."""
        return self.prefix + own

    @property
    def arm_joints(self) -> tuple[str, ...]:
        """Joints (and actuators) of the arm."""
        return tuple(map(self.name, self.arm.joints))

    @property
    def end_joints(self) -> tuple[str, ...]:
        """Joints of the end effector."""
        return tuple(map(self.name, self.end.joints))

    @property
    def end_actuators(self) -> tuple[str, ...]:
        """Actuators of the end effector."""
        return tuple(map(self.name, self.end.actuators))

    @property
    def touch(self) -> tuple[str, ...]:
        """Touch sensors."""
        return tuple(map(self.name, self.end.touch))

    @property
    def end_start(self) -> Float[np.ndarray, " actuator"]:
        """Control of the end effector at reset."""
        return self.end_control(np.ones((1, self.end.action_size)))[0] if self.end.start is None else self.end.start

    def end_control(self, action: Float[np.ndarray, "n end"]) -> Float[np.ndarray, "n actuator"]:
        """Controls of the end effector for actions in [-1, 1]."""
        if self.end.couples is not None:
            spread = np.empty((len(action), len(self.end.actuators)))
            for k, group in enumerate(self.end.couples):
                spread[:, list(group)] = action[:, k, None]
            action = spread
        low, high = self.end.control.T
        return low + (action + 1.0) / 2.0 * (high - low)


_ARMS: dict[str, ArmModel] = {}
_ENDS: dict[str, EndEffector] = {}


def register_arm(arm: ArmModel) -> ArmModel:
    """Add an arm to the catalog.

    Raises:
        BadInput: another one has its name.
    """
    if _ARMS.setdefault(arm.name, arm) is not arm:
        raise BadInput(f"an arm {arm.name!r} is registered already; choose another name")
    return arm


def register_end_effector(end: EndEffector) -> EndEffector:
    """Add a gripper or hand to the catalog.

    Raises:
        BadInput: another one has its name.
    """
    if _ENDS.setdefault(end.name, end) is not end:
        raise BadInput(f"an end effector {end.name!r} is registered already; choose another name")
    return end


def arms() -> tuple[str, ...]:
    """Names of arms."""
    return tuple(_ARMS)


def end_effectors() -> tuple[str, ...]:
    """Names of grippers and hands."""
    return tuple(_ENDS)


def end_effector(name: str) -> EndEffector:
    """A gripper or hand by name.

    Raises:
        UnknownName: no such end effector.
    """
    if name not in _ENDS:
        raise UnknownName("end effector", name, end_effectors())
    return _ENDS[name]


@functools.cache
def joint_slides(end: str) -> tuple[bool, ...]:
    """For each joint of an end effector whether it slides [m] or turns [rad].

    Raises:
        UnknownName, MissingExtra: as `add_rig`.
    """
    import mujoco

    effector = end_effector(end)
    spec = effector.build()
    return tuple(spec.joint(name).type == mujoco.mjtJoint.mjJNT_SLIDE for name in effector.joints)


def add_rig(
    spec: mujoco.MjSpec,
    arm: str,
    end: str,
    *,
    prefix: str = "robot/",
    position: Sequence[float] = (0.0, 0.0, 0.0),
    yaw: float = 0.0,
    home: Float[np.ndarray, " joint"] | None = None,
) -> Rig:
    """Attach an arm with an end effector to a scene.

    Args:
        spec: in radians (`compiler.degree` off); changed in place.
        arm, end: names in the catalog.
        prefix: of every name; its own for each robot of a scene.
        position, yaw: of the base in the world [m, rad].
        home: posture at reset, where it is not the arm's own.

    Raises:
        UnknownName: no such arm or end effector.
        MissingExtra: the package that holds it is not installed.
    """
    if arm not in _ARMS:
        raise UnknownName("arm", arm, arms())
    if end not in _ENDS:
        raise UnknownName("end effector", end, end_effectors())
    model, effector = _ARMS[arm], _ENDS[end]
    frame = spec.worldbody.add_frame(pos=list(position), quat=[np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])
    spec.attach(model.build(), prefix=prefix, frame=frame)
    spec.attach(effector.build(), prefix=prefix, site=spec.site(prefix + "flange"))
    return Rig(arm=model, end=effector, prefix=prefix, home=np.asarray(model.home if home is None else home))


@functools.cache
def rig_chain(arm: str, end: str) -> tuple[Rig, ChainKinematics]:
    """An arm with an end effector, its base at the origin, and the chain of its joints to the tool centre point.

    Raises:
        UnknownName, MissingExtra: as `add_rig`.
        BadInput: the arm has no joints.
    """
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    rig = add_rig(spec, arm, end)
    if not rig.arm_joints:
        able = ", ".join(name for name, model in _ARMS.items() if model.joints)
        raise BadInput(f"arm {arm!r} has no joints and cannot move its tool; arms that move: {able}")
    return rig, ChainKinematics(spec.compile(), rig.arm_joints, rig.name("tcp"))


@functools.cache
def posture(arm: str, end: str, position: tuple[float, float, float], yaw: float = 0.0) -> Float[np.ndarray, " joint"]:
    """Joint positions that bring the tool centre point of an arm at the origin over a place, pointing down.

    Damped least squares from the arm's home posture.

    Args:
        arm, end: names in the catalog.
        position: of the tool centre point [m].
        yaw: about the vertical, from the tool's direction at home [rad].

    Raises:
        BadInput: the arm does not reach it, or has no joints.
    """
    rig, chain = rig_chain(arm, end)
    q = np.array(rig.home, dtype=np.float64)
    _, R, _ = chain.forward(q[None])
    axis = np.array([R[0, 0, 0], R[0, 1, 0], 0.0]) / np.hypot(R[0, 0, 0], R[0, 1, 0])
    c, s = np.cos(yaw), np.sin(yaw)
    x = np.array([c * axis[0] - s * axis[1], s * axis[0] + c * axis[1], 0.0])
    down = np.array([0.0, 0.0, -1.0])
    wanted = np.stack([x, np.cross(down, x), down], axis=1)
    # turning the last joint alone is the nearest way to turn the tool
    starts = np.array([q, q, q])
    starts[1:, -1] += [yaw, -yaw]
    apart = [np.linalg.norm(axis_angle_from_matrix(wanted @ R.T)) for R in chain.forward(starts)[1]]
    q = np.clip(starts[int(np.argmin(apart))], rig.arm.limits[:, 0], rig.arm.limits[:, 1])
    for _ in range(300):
        p, R, J = (part[0] for part in chain.forward(q[None]))
        turn = axis_angle_from_matrix(wanted @ R.T)
        error = np.concatenate([np.asarray(position) - p, turn])
        if np.abs(error).max() < 1e-9:
            break
        step = J.T @ np.linalg.solve(J @ J.T + 1e-6 * np.eye(6), error)
        q = np.clip(q + np.clip(step, -0.2, 0.2), rig.arm.limits[:, 0], rig.arm.limits[:, 1])
    if np.abs(error).max() > 1e-4:
        raise BadInput(f"arm {arm!r} with {end!r} does not reach {position} at a yaw of {yaw:.2f} rad")
    q.setflags(write=False)
    return q


# --- built in -----------------------------------------------------------------------------------------------

_GANTRY = ("x", "y", "z", "yaw", "pitch", "roll")
_GANTRY_RANGE = 1.0  # [m]
_STAND = (0.45, 0.0, 0.10)  # [m] of the stand's flange


def _build_gantry() -> mujoco.MjSpec:
    """Three slides and three hinges that carry a flange pointing down: an arm without singularities."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    body = spec.worldbody
    for name, axis in zip(_GANTRY, [*np.eye(3), np.eye(3)[2], np.eye(3)[1], np.eye(3)[0]]):
        body = body.add_body(name=f"gantry_{name}")
        body.gravcomp, body.explicitinertial, body.mass, body.inertia = 1.0, True, 0.1, [1e-4] * 3
        slide = name in "xyz"
        body.add_joint(
            name=name,
            type=mujoco.mjtJoint.mjJNT_SLIDE if slide else mujoco.mjtJoint.mjJNT_HINGE,
            axis=axis,
            range=[-_GANTRY_RANGE, _GANTRY_RANGE] if slide else [-np.pi, np.pi],
            limited=True,
            armature=2.0 if slide else 0.05,
        )
        stiffness, inertia = (4000.0, 3.0) if slide else (150.0, 0.07)
        servo = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        servo.set_to_position(kp=stiffness, kv=2 * np.sqrt(stiffness * inertia))
    body.add_site(name="flange", quat=[0.0, 1.0, 0.0, 0.0])
    return spec


def _build_stand() -> mujoco.MjSpec:
    """A fixed post whose flange points up: what a hand has that holds its palm still."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    body = spec.worldbody.add_body(name="stand")
    body.add_geom(
        name="stand", type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[0.03, _STAND[2] / 2, 0],
        pos=[_STAND[0], _STAND[1], _STAND[2] / 2], rgba=[0.55, 0.6, 0.68, 1], contype=0, conaffinity=0, group=2,
    )  # fmt: skip
    body.add_site(name="flange", pos=_STAND)
    return spec


register_arm(
    ArmModel(
        name="arm7",
        build=build_arm,
        joints=ARM_JOINTS,
        home=HOME,
        limits=JOINT_LIMITS,
        licence="Apache-2.0, part of dexprior",
        source="built in; link lengths and joint limits as published for the Franka FR3",
    )
)
register_arm(
    ArmModel(
        name="gantry",
        build=_build_gantry,
        joints=_GANTRY,
        home=np.array([0.45, 0.0, 0.30, 0.0, 0.0, 0.0]),
        limits=np.array([[-_GANTRY_RANGE, _GANTRY_RANGE]] * 3 + [[-np.pi, np.pi]] * 3),
        licence="Apache-2.0, part of dexprior",
        source="built in",
    )
)
register_arm(
    ArmModel(
        name="stand",
        build=_build_stand,
        joints=(),
        home=np.zeros(0),
        limits=np.zeros((0, 2)),
        licence="Apache-2.0, part of dexprior",
        source="built in",
    )
)
register_end_effector(
    EndEffector(
        name="parallel",
        kind="gripper",
        build=build_gripper,
        actuators=("pad_left", "pad_right"),
        control=np.array([[0.0, MAX_OPENING / 2]] * 2),
        couples=((0, 1),),
        joints=("pad_left", "pad_right"),
        rest=np.full(2, MAX_OPENING / 2),
        touch=("touch_left", "touch_right"),
        licence="Apache-2.0, part of dexprior",
        source="built in",
    )
)
