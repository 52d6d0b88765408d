"""The human hand as an end effector: MANO's tree of capsules with a servo at each hinge and a sensor in each fingertip.

Carried by an arm it makes demonstrations rollouts of the same tasks that robots do. Each finger has anatomical hinges,
a subset of MANO's three numbers per joint, so that every posture converts to MANO's 45 pose parameters without loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import axis_angle_from_matrix, matrix_from_axis_angle, quat_from_matrix
from dexprior.hands.skeleton import FINGER_RADIUS, OFFSETS, PARENTS, TIP_OFFSETS
from dexprior.robots.machines import EndEffector, Fingers
from dexprior.robots.sensors import add_touch_sensor, add_wrist_sensors
from dexprior.types.hand import FINGERS, MANO_JOINTS

if TYPE_CHECKING:
    import mujoco

__all__ = [
    "HINGES",
    "HINGE_LIMITS",
    "HINGE_NAMES",
    "HUMAN_HAND",
    "NOMINAL",
    "PINCH_POINT",
    "REST",
    "end_action",
    "finger_pose_from_hinges",
    "wrist_rotation",
]

_THUMB_FLEXION = np.cross(TIP_OFFSETS[4] / np.linalg.norm(TIP_OFFSETS[4]), [-0.3, -0.8, -0.5])
_THUMB_FLEXION = _THUMB_FLEXION / np.linalg.norm(_THUMB_FLEXION)


def _hinges() -> tuple[tuple[str, int, tuple[float, float, float], float, float], ...]:
    rows: list[tuple[str, int, tuple[float, float, float], float, float]] = []
    for joint, name in enumerate(MANO_JOINTS[1:13], start=1):
        if name.endswith("1"):
            rows.append((f"{name}_abduction", joint, (0.0, 1.0, 0.0), -0.35, 0.35))
        rows.append((f"{name}_flexion", joint, (0.0, 0.0, 1.0), -0.2, 1.7))
    flexion = (float(_THUMB_FLEXION[0]), float(_THUMB_FLEXION[1]), float(_THUMB_FLEXION[2]))
    rows.append(("thumb1_x", 13, (1.0, 0.0, 0.0), -1.2, 1.2))
    rows.append(("thumb1_y", 13, (0.0, 1.0, 0.0), -0.8, 0.8))
    rows.append(("thumb1_z", 13, (0.0, 0.0, 1.0), -0.8, 1.2))
    rows.append(("thumb2_flexion", 14, flexion, -0.3, 1.0))
    rows.append(("thumb3_flexion", 15, flexion, -0.3, 1.3))
    return tuple(rows)


HINGES = _hinges()
"""(name, MANO joint, axis in the joint's frame, lower and upper limit [rad]); within a joint the first turns first."""

HINGE_NAMES = tuple(name for name, *_ in HINGES)
"""Names of the hinges and of their servos, in order."""

HINGE_LIMITS = np.array([[low, high] for *_, low, high in HINGES])
REST = np.array([0.25 if name.endswith("flexion") else 0.0 for name in HINGE_NAMES])
"""A relaxed open hand [rad]."""
PINCH_POINT = np.array([-0.125, -0.070, 0.030])
"""About where thumb and fingers meet, in the wrist frame [m]."""
_STIFFNESS = 2.5  # [N m/rad]
_DAMPING = 0.06  # [N m s/rad] of a finger joint
_LIMIT = 0.9  # [N m] a finger joint
_SLEEVE = (0.16, 0.024, 100)  # length and radius [m], density [kg/m3]
_SKIN = [0.87, 0.67, 0.55, 1.0]
_DRAWN: dict[str, Any] = {"contype": 0, "conaffinity": 0, "density": 900}


def finger_pose_from_hinges(angles: Float[np.ndarray, "*batch hinge"]) -> Float[np.ndarray, "*batch 45"]:
    """MANO finger pose (axis-angle, 15 joints) of hinge angles [rad]."""
    angles = np.asarray(angles, dtype=np.float64)
    rotations = np.broadcast_to(np.eye(3), (*angles.shape[:-1], 15, 3, 3)).copy()
    for k, (_, joint, axis, _, _) in enumerate(HINGES):
        step = matrix_from_axis_angle(angles[..., k, None] * np.asarray(axis))
        rotations[..., joint - 1, :, :] = rotations[..., joint - 1, :, :] @ step
    return axis_angle_from_matrix(rotations).reshape(*angles.shape[:-1], 45)


def end_action(hinges: Float[np.ndarray, "*batch hinge"]) -> Float[np.ndarray, "*batch hinge"]:
    """Actions of the hand that command hinge angles [rad]."""
    low, high = HINGE_LIMITS.T
    return 1.0 - 2.0 * (hinges - low) / (high - low)


def wrist_rotation(fingers: tuple[float, float, float], palm: tuple[float, float, float]) -> Float[np.ndarray, "3 3"]:
    """Rotation of the wrist whose fingers point one way while the palm faces another."""
    x = -np.asarray(fingers) / np.linalg.norm(fingers)
    y = -np.asarray(palm) - (-np.asarray(palm) @ x) * x
    y /= np.linalg.norm(y)
    return np.stack([x, y, np.cross(x, y)], axis=1)


NOMINAL = wrist_rotation((0.5, 0.0, -0.86), (-0.86, 0.0, -0.5))
"""Rotation of the wrist with an arm at rest: fingers forward and down, palm towards the person."""
_FLANGE = np.diag([1.0, -1.0, -1.0])  # the gantry's flange at rest: z points down


def _build_human_hand() -> mujoco.MjSpec:
    """The right hand of `dexprior.hands.skeleton` with zero betas.

    Fingertips (last segments) touch things; the rest is only drawn. The hinge damping stands in the joints, where the
    Euler integrator is implicit, so that steps of 4 ms are stable.
    """
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    wrist = spec.worldbody.add_body(name="wrist", quat=quat_from_matrix(_FLANGE.T @ NOMINAL))
    wrist.gravcomp = 1.0
    _add_palm(wrist)
    wrist.add_site(name="wrist")
    wrist.add_site(name="tcp", pos=PINCH_POINT, quat=quat_from_matrix(NOMINAL.T @ _FLANGE))
    _add_fingers(spec, wrist)
    add_wrist_sensors(spec)
    for name in HINGE_NAMES:
        _add_servo(spec, name)
    return spec


def _add_palm(wrist: Any) -> None:
    """Capsules of the palm and of a sleeve along the forearm; they do not collide: only fingers do."""
    import mujoco

    capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
    for end in (OFFSETS[1], OFFSETS[4], OFFSETS[10], OFFSETS[7]):
        wrist.add_geom(type=capsule, fromto=[0, 0, 0, *end], size=[0.011, 0, 0], rgba=_SKIN, **_DRAWN)
    length, radius, density = _SLEEVE
    wrist.add_geom(
        type=capsule, fromto=[0.01, 0, 0, length, 0, 0], size=[radius, 0, 0], rgba=[0.25, 0.35, 0.6, 1],
        **{**_DRAWN, "density": density},
    )  # fmt: skip


def _add_fingers(spec: mujoco.MjSpec, wrist: Any) -> None:
    """MANO's tree on a wrist, with zero betas: hinges, capsules, and a touch sensor in each fingertip.

    Only the last segments touch things; the rest is drawn.
    """
    import mujoco

    capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
    bodies = {0: wrist}
    for joint in range(1, 16):
        body = bodies[PARENTS[joint]].add_body(name=MANO_JOINTS[joint], pos=OFFSETS[joint])
        body.gravcomp = 1.0
        bodies[joint] = body
        for name, owner, axis, low, high in HINGES:
            if owner == joint:
                body.add_joint(
                    name=name, axis=axis, range=[low, high], limited=True, armature=2e-4, damping=[_DAMPING, 0, 0]
                )
        finger, last = MANO_JOINTS[joint].rstrip("123"), joint % 3 == 0
        end = TIP_OFFSETS[joint // 3 - 1] if last else OFFSETS[joint + 1]
        if joint == 13:  # the ball of the thumb
            body.add_geom(
                type=capsule, fromto=[*(-OFFSETS[13] * 0.6), 0, 0, 0], size=[0.011, 0, 0], rgba=_SKIN, **_DRAWN
            )
        touching = {"name": f"pad_{finger}", "density": 900, "contype": 2, "conaffinity": 1} if last else _DRAWN
        body.add_geom(
            type=capsule, fromto=[0, 0, 0, *end], size=[FINGER_RADIUS, 0, 0], rgba=_SKIN, condim=4, priority=1,
            friction=[0.9, 0.01, 0.0001], solref=[0.01, 1.0], **touching,
        )  # fmt: skip
        if last:
            body.add_site(name=f"tip_{finger}", pos=end)
            body.add_site(
                name=f"touch_{finger}", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.03, 0, 0], pos=np.asarray(end) * 0.5,
                rgba=[0, 0, 0, 0],
            )  # fmt: skip
    for finger in FINGERS:
        add_touch_sensor(spec, f"touch_{finger}")


def _add_servo(spec: mujoco.MjSpec, hinge: str) -> None:
    """A position servo of a hinge, as strong as a finger."""
    import mujoco

    servo = spec.add_actuator(name=hinge, target=hinge, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    servo.set_to_position(kp=_STIFFNESS, kv=0.0)
    servo.forcelimited = True
    servo.forcerange = [-_LIMIT, _LIMIT]


HUMAN_HAND = EndEffector(
    name="human_hand",
    kind="hand",
    build=_build_human_hand,
    actuators=HINGE_NAMES,
    control=HINGE_LIMITS[:, ::-1].copy(),
    reset=dict(zip(HINGE_NAMES, REST.tolist())),
    touch=tuple(f"touch_{finger}" for finger in FINGERS),
    fingers=Fingers(side="right", wrist="wrist", tips={finger: f"tip_{finger}" for finger in FINGERS}),
    licence="Apache-2.0, part of dexprior",
    source="built in; bone lengths are rounded measurements of one adult hand",
)
"""Action -1 bends a hinge to its upper limit, +1 stretches it to its lower one."""
