"""A claw: four fingers of three position-controlled joints around a palm that a thing can lie on.

The joints of a finger are an abduction about the radius, and two flexions. A fingertip then reaches any point near
the palm's axis, so that four of them can turn what they hold without the wrist's help. Three-fingered claws of this
kind are D'Claw (Ahn et al. 2019, "ROBEL"); the fourth finger is there because a cube has four sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from dexprior.robots.machines import EndEffector
from dexprior.robots.sensors import add_touch_sensor, add_wrist_sensors

if TYPE_CHECKING:
    import mujoco

__all__ = ["CLAW", "PALM_RADIUS", "PALM_TOP", "TIP_RADIUS", "claw_action", "claw_joints"]

PALM_RADIUS = 0.050
"""[m]"""
PALM_TOP = 0.022
"""Height of the palm's surface above the wrist [m]."""
TIP_RADIUS = 0.008
"""Radius of a fingertip [m]."""
_FINGERS = 4
_BASE = np.array([0.062, 0.0, 0.004])  # of a finger's joints, in its own frame: x is the radius, z the palm's normal
_LINKS = (0.048, 0.046)  # [m]
_LIMITS = np.array([[-0.8, 0.8], [-1.2, 1.2], [-2.6, 0.0]])  # abduction, flexion, distal flexion [rad]
_STIFFNESS, _DAMPING, _ARMATURE = 2.5, 0.06, 2e-4  # [N m/rad], [N m s/rad], [kg m2]
_TORQUE = 0.35  # [N m] a joint
_JOINTS = ("abduction", "flexion", "distal")


def claw_joints(tips: Float[np.ndarray, "n finger 3"]) -> Float[np.ndarray, "n 12"]:
    """Joint positions that bring the fingertips' centres to places in the palm's frame, elbows outwards [rad].

    A place out of reach is approached as far as the finger is long; limits of the joints are kept.

    Args:
        tips: one place a finger [m]; the wrist's site is the origin, z the palm's normal.
    """
    angle = np.arange(_FINGERS) * 2 * np.pi / _FINGERS
    c, s = np.cos(angle), np.sin(angle)
    x = c * tips[..., 0] + s * tips[..., 1] - _BASE[0]
    y = c * tips[..., 1] - s * tips[..., 0]
    z = tips[..., 2] - _BASE[2]
    first, second = _LINKS
    height = np.hypot(y, z)
    far = np.clip(np.hypot(x, height), abs(first - second) + 1e-6, first + second - 1e-6)
    inner = np.arccos(np.clip((first**2 + far**2 - second**2) / (2 * first * far), -1.0, 1.0))
    elbow = np.pi - np.arccos(np.clip((first**2 + second**2 - far**2) / (2 * first * second), -1.0, 1.0))
    q = np.stack([np.arctan2(-y, z), np.arctan2(x, height) + inner, -elbow], axis=-1)
    return np.clip(q, _LIMITS[:, 0], _LIMITS[:, 1]).reshape(len(tips), -1)


def claw_action(q: Float[np.ndarray, "n 12"]) -> Float[np.ndarray, "n 12"]:
    """The action in [-1, 1] that commands joint positions [rad]."""
    low, high = np.tile(_LIMITS, (_FINGERS, 1)).T
    return 2.0 * (q - low) / (high - low) - 1.0


def build_claw() -> mujoco.MjSpec:
    """The palm with its fingers, at the wrist's site."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    palm = spec.worldbody.add_body(name="palm")
    palm.gravcomp = 1.0
    palm.add_geom(
        name="palm", type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[PALM_RADIUS, PALM_TOP / 2, 0], pos=[0, 0, PALM_TOP / 2],
        density=300, rgba=[0.30, 0.32, 0.36, 1], friction=[0.4, 0.005, 0.0001], contype=1, conaffinity=3, condim=4,
    )  # fmt: skip
    palm.add_site(name="wrist")
    palm.add_site(name="tcp", pos=[0, 0, PALM_TOP + 0.025])
    for k in range(_FINGERS):
        angle = k * 2 * np.pi / _FINGERS
        c, s = np.cos(angle), np.sin(angle)
        mount = palm.add_body(
            name=f"mount{k}", pos=[_BASE[0] * c, _BASE[0] * s, _BASE[2]],
            quat=[np.cos(angle / 2), 0, 0, np.sin(angle / 2)],
        )  # fmt: skip
        mount.gravcomp = 1.0
        mount.add_geom(
            name=f"mount{k}", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.012, 0.012, 0.006], density=300,
            rgba=[0.30, 0.32, 0.36, 1], contype=0, conaffinity=0,
        )  # fmt: skip
        proximal = mount.add_body(name=f"proximal{k}")
        distal = proximal.add_body(name=f"distal{k}", pos=[0, 0, _LINKS[0]])
        for body, joint, row in ((proximal, "abduction", 0), (proximal, "flexion", 1), (distal, "distal", 2)):
            name = f"{joint}{k}"
            body.add_joint(
                name=name, axis=[1, 0, 0] if row == 0 else [0, 1, 0], range=_LIMITS[row], limited=True,
                damping=[_DAMPING, 0, 0], armature=_ARMATURE,
            )  # fmt: skip
            servo = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            servo.set_to_position(kp=_STIFFNESS)
            servo.forcelimited, servo.forcerange = True, [-_TORQUE, _TORQUE]
        for body, name, length, radius, rgba in (
            (proximal, f"finger_link{k}", _LINKS[0], 0.007, [0.55, 0.58, 0.64, 1]),
            (distal, f"pad_{k}", _LINKS[1], TIP_RADIUS, [0.95, 0.55, 0.25, 1]),
        ):
            body.gravcomp = 1.0
            pad = body is distal
            body.add_geom(
                name=name, type=mujoco.mjtGeom.mjGEOM_CAPSULE, fromto=[0, 0, 0, 0, 0, length], size=[radius, 0, 0],
                density=600, rgba=rgba, contype=2, conaffinity=1, condim=4, priority=1,
                friction=[0.9 if pad else 0.3, 0.01, 0.0001],
            )  # fmt: skip
            spec.add_exclude(bodyname1="palm", bodyname2=body.name)
        distal.add_site(
            name=f"touch{k}", type=mujoco.mjtGeom.mjGEOM_CAPSULE, size=[0.010, _LINKS[1] / 2, 0],
            pos=[0, 0, _LINKS[1] / 2], rgba=[0, 0, 0, 0],
        )  # fmt: skip
        add_touch_sensor(spec, f"touch{k}")
    add_wrist_sensors(spec)
    return spec


_NAMES = tuple(f"{joint}{k}" for k in range(_FINGERS) for joint in _JOINTS)
_OPEN = np.array([[0.052, 0.0], [0.0, 0.052], [-0.052, 0.0], [0.0, -0.052]])  # of the fingertips over the palm [m]
_REST = claw_joints(np.column_stack([_OPEN, np.full(_FINGERS, PALM_TOP + 0.03)])[None])[0]

CLAW = EndEffector(
    name="claw4",
    kind="hand",
    build=build_claw,
    actuators=_NAMES,
    control=np.tile(_LIMITS, (_FINGERS, 1)),
    start=_REST,
    reset=dict(zip(_NAMES, _REST.tolist())),
    touch=tuple(f"touch{k}" for k in range(_FINGERS)),
    licence="Apache-2.0, part of dexprior",
    source="built in",
)
