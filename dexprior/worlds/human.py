"""The human hand as a MuJoCo body: the skeleton hand with capsules, finger servos and fingertip touch sensors.

The wrist is a free body pulled by a weld to a mocap body (a soft arm); each finger has anatomical hinges, a subset of
MANO's three numbers per joint, so that every posture converts to MANO's 45 pose parameters without loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import axis_angle_from_matrix, matrix_from_axis_angle
from dexprior.hands.skeleton import FINGER_RADIUS, OFFSETS, PARENTS, TIP_OFFSETS
from dexprior.types.hand import FINGERS, MANO_JOINTS

if TYPE_CHECKING:
    import mujoco

__all__ = [
    "HINGES",
    "HINGE_LIMITS",
    "HINGE_NAMES",
    "add_finger_servo",
    "add_fingers",
    "add_hand",
    "add_palm",
    "finger_pose_from_hinges",
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
"""Of the hinges and of their servos, in order."""

HINGE_LIMITS = np.array([[low, high] for *_, low, high in HINGES])
_STIFFNESS = 2.5  # [N m/rad]
_DAMPING = 0.05
_LIMIT = 0.9  # [N m] a finger joint
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


def add_hand(spec: mujoco.MjSpec) -> None:
    """Add the hand to a scene in radians (`compiler.degree` off).

    Free joint `wrist`, mocap body `arm` that pulls it, the hinges of `HINGES` with servos, sensors `touch_FINGER`.
    """
    import mujoco

    target = spec.worldbody.add_body(name="arm", mocap=True, pos=[0.3, -0.2, 0.3])
    wrist = spec.worldbody.add_body(name="wrist", pos=[0.3, -0.2, 0.3])
    wrist.gravcomp = 1.0
    wrist.add_freejoint(name="wrist")
    add_palm(wrist, sleeve=0.09, sleeve_radius=0.022, sleeve_density=900)
    add_fingers(spec, wrist, damping=0.01)
    for name in HINGE_NAMES:
        add_finger_servo(spec, name, damping=_DAMPING)
    weld = spec.add_equality(
        name="arm", type=mujoco.mjtEq.mjEQ_WELD, objtype=mujoco.mjtObj.mjOBJ_BODY, name1="arm", name2="wrist"
    )
    weld.data = np.array([0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0.0])  # anchor, relative pose, torque scale [m/rad]
    weld.solref = [0.02, 1.0]
    target.gravcomp = 1.0


def add_palm(wrist: Any, *, sleeve: float, sleeve_radius: float, sleeve_density: float) -> None:
    """Capsules of the palm and of a sleeve along the forearm [m, kg/m3]; they do not collide: only fingers do."""
    import mujoco

    capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
    for end in (OFFSETS[1], OFFSETS[4], OFFSETS[10], OFFSETS[7]):
        wrist.add_geom(type=capsule, fromto=[0, 0, 0, *end], size=[0.011, 0, 0], rgba=_SKIN, **_DRAWN)
    wrist.add_geom(
        type=capsule, fromto=[0.01, 0, 0, sleeve, 0, 0], size=[sleeve_radius, 0, 0], rgba=[0.25, 0.35, 0.6, 1],
        **{**_DRAWN, "density": sleeve_density},
    )  # fmt: skip


def add_fingers(spec: mujoco.MjSpec, wrist: Any, *, damping: float) -> None:
    """MANO's tree on a wrist, with zero betas: hinges, capsules, and a touch sensor in each fingertip.

    Only the last segments touch things; the rest is drawn.

    Args:
        spec: of the wrist.
        wrist: the body.
        damping: of each hinge [N m s/rad].
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
                    name=name, axis=axis, range=[low, high], limited=True, armature=2e-4, damping=[damping, 0, 0]
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
        spec.add_sensor(
            name=f"touch_{finger}", type=mujoco.mjtSensor.mjSENS_TOUCH, objtype=mujoco.mjtObj.mjOBJ_SITE,
            objname=f"touch_{finger}",
        )  # fmt: skip


def add_finger_servo(spec: mujoco.MjSpec, hinge: str, *, damping: float = 0.0) -> None:
    """A position servo of a hinge, as strong as a finger; damping is its own [N m s/rad]."""
    import mujoco

    servo = spec.add_actuator(name=hinge, target=hinge, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    servo.set_to_position(kp=_STIFFNESS, kv=damping)
    servo.forcelimited = True
    servo.forcerange = [-_LIMIT, _LIMIT]
