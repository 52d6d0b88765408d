"""Robots put together by name: an arm, and an end effector on its flange, attached to a scene with a prefix.

    rig = add_rig(spec, "arm7", "parallel", prefix="left/", position=(0, 0.3, 0))

An arm is a spec with a chain of position-controlled joints, or with none, that ends in the site `flange`, whose z axis
points out of the arm. An end effector is a spec whose root body sits on the flange, with the sites `wrist` and `tcp`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.geometry.rotations import axis_angle_from_matrix, quat_from_matrix
from dexprior.robots import catalog
from dexprior.robots.kinematics import ChainKinematics
from dexprior.robots.machines import ArmModel, EndEffector

if TYPE_CHECKING:
    import mujoco

__all__ = ["Rig", "add_rig", "home_pose", "posture", "rig_chain", "rig_model", "rig_spec", "turn_range"]


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
    model, effector = catalog.arm(arm), catalog.end_effector(end)
    frame = spec.worldbody.add_frame(pos=list(position), quat=[np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])
    spec.attach(model.build(), prefix=prefix, frame=frame)
    spec.attach(effector.build(), prefix=prefix, site=spec.site(prefix + "flange"))
    return Rig(arm=model, end=effector, prefix=prefix, home=np.asarray(model.home if home is None else home))


def rig_spec(arm: str, end: str) -> tuple[Rig, mujoco.MjSpec]:
    """A fresh spec of an arm that moves with an end effector and nothing else: its base at the origin.

    Raises:
        UnknownName, MissingExtra: as `add_rig`.
        BadInput: the arm has no joints.
    """
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    rig = add_rig(spec, arm, end)
    if not rig.arm_joints:
        able = ", ".join(name for name in catalog.arms() if catalog.arm(name).joints)
        raise BadInput(f"arm {arm!r} has no joints and cannot move its tool; arms that move: {able}")
    return rig, spec


@functools.cache
def rig_model(arm: str, end: str) -> tuple[Rig, mujoco.MjModel]:
    """The same compiled; not to be changed. Errors as in `rig_spec`."""
    rig, spec = rig_spec(arm, end)
    return rig, spec.compile()


@functools.cache
def rig_chain(arm: str, end: str) -> tuple[Rig, ChainKinematics]:
    """The same, and the chain of its joints to the tool centre point. Errors as in `rig_spec`."""
    rig, model = rig_model(arm, end)
    return rig, ChainKinematics(model, rig.arm_joints, rig.name("tcp"))


def home_pose(arm: str, end: str, home: Float[np.ndarray, " joint"] | None = None) -> Float[np.ndarray, 7]:
    """Tool pose of an arm at the origin in a home posture, by default its own."""
    rig, chain = rig_chain(arm, end)
    p, R, _ = chain.forward(np.asarray(rig.home if home is None else home)[None])
    return np.concatenate([p[0], quat_from_matrix(R[0])])


def turn_range(arm: str, end: str, home: Float[np.ndarray, " joint"] | None = None) -> tuple[float, float]:
    """How far an arm turns its tool about the vertical from a home posture with the outermost joint that does so alone,
    by default its own: least and most [rad]; no turn at all where none does.

    Raises:
        UnknownName, MissingExtra: as `add_rig`.
        BadInput: the arm has no joints.
    """
    rig, chain = rig_chain(arm, end)
    q = np.asarray(rig.home if home is None else home)
    about = chain.forward(q[None])[2][0, 5]
    upright = np.flatnonzero(np.abs(about) > 1.0 - 1e-6)
    if not len(upright):
        return 0.0, 0.0
    joint = int(upright[-1])
    low, high = np.sort((rig.arm.limits[joint] - q[joint]) * np.sign(about[joint]))
    return float(low), float(high)


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
