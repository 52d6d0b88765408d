"""The built-in arm `arm7`, seven joints with the Franka FR3's link lengths, low-poly, and its gripper `parallel`.

It exists so that everything runs with no robot package installed. Link lengths and joint limits are the published
ones of the FR3 (Franka Robotics, "Robot and interface specifications"); shapes and servo gains are ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from dexprior.robots.machines import ArmModel, EndEffector, Motion
from dexprior.robots.sensors import add_touch_sensor, add_wrist_sensors

if TYPE_CHECKING:
    import mujoco

__all__ = [
    "ARM7",
    "ARM_JOINTS",
    "GRIPPER_JOINTS",
    "HOME",
    "JOINT_LIMITS",
    "MAX_OPENING",
    "PAD_STIFFNESS",
    "PARALLEL",
    "ArmKinematics",
    "build_arm",
    "build_gripper",
]

ARM_JOINTS = tuple(f"joint{k}" for k in range(1, 8))
GRIPPER_JOINTS = ("pad_left", "pad_right")
MAX_OPENING = 0.08
"""Largest distance between the pads [m]."""

JOINT_LIMITS = np.array(
    [
        [-2.7437, 2.7437], [-1.7837, 1.7837], [-2.9007, 2.9007], [-3.0421, -0.1518],
        [-2.8065, 2.8065], [0.5445, 4.5169], [-3.0159, 3.0159],
    ]
)  # fmt: skip
"""[rad]"""

PAD_STIFFNESS = 3000.0
"""Stiffness of each pad's position servo [N/m]."""

HOME = np.array([0.0, 0.1, 0.0, -2.2, 0.0, 2.3, np.pi / 4])
"""A posture with the gripper pointing down over the work area [rad]."""

_LINKS = (  # (position in the parent [m], rotation about the parent's x [rad])
    ((0.0, 0.0, 0.333), 0.0),
    ((0.0, 0.0, 0.0), -np.pi / 2),
    ((0.0, -0.316, 0.0), np.pi / 2),
    ((0.0825, 0.0, 0.0), np.pi / 2),
    ((-0.0825, 0.384, 0.0), -np.pi / 2),
    ((0.0, 0.0, 0.0), np.pi / 2),
    ((0.088, 0.0, 0.0), np.pi / 2),
)
_SHAPES = (  # capsule from, to, radius; each in its link's frame
    ((0, 0, -0.2), (0, 0, 0.0), 0.06),
    ((0, 0, 0), (0, -0.2, 0), 0.055),
    ((0, 0, -0.1), (0.0825, 0, 0), 0.05),
    ((0, 0, 0), (-0.0825, 0.1, 0), 0.05),
    ((0, 0, -0.26), (0, 0, 0), 0.05),
    ((0, 0, 0), (0.088, 0, 0), 0.045),
    ((0, 0, 0), (0, 0, 0.09), 0.04),
)
_FLANGE = 0.107
_MOUNT = (np.cos(np.pi / 8), 0.0, 0.0, -np.sin(np.pi / 8))  # of the gripper on the flange
_TCP = 0.1034  # from the flange to the middle of the pads
_STIFFNESS = np.array([900.0, 900.0, 900.0, 900.0, 300.0, 300.0, 200.0])  # [N m/rad]
_ARMATURE = np.array([0.2, 0.2, 0.2, 0.2, 0.05, 0.05, 0.05])  # reflected rotor inertia [kg m2]
_PAD_HALF = (0.010, 0.004, 0.010)
_GRIP_FORCE = 30.0  # [N] a pad


def build_arm() -> mujoco.MjSpec:
    """The arm alone, with the site `flange` at its end."""
    spec = _empty()
    flange = _add_links(spec)
    flange.add_site(name="flange", pos=[0, 0, _FLANGE], quat=_MOUNT)
    _add_arm_servos(spec)
    return spec


def build_gripper() -> mujoco.MjSpec:
    """The gripper alone, its root body `hand` at the origin."""
    spec = _empty()
    _add_gripper(spec)
    _add_gripper_servos(spec)
    return spec


def _empty() -> mujoco.MjSpec:
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    return spec


def _add_arm_servos(spec: mujoco.MjSpec) -> None:
    for k, name in enumerate(ARM_JOINTS):
        _servo(spec, name, _STIFFNESS[k], 2 * np.sqrt(_STIFFNESS[k] * (_ARMATURE[k] + 0.3 * _ARMATURE[k])), None)


def _add_gripper_servos(spec: mujoco.MjSpec) -> None:
    for name in GRIPPER_JOINTS:
        _servo(spec, name, PAD_STIFFNESS, 60.0, _GRIP_FORCE)


def _add_links(spec: mujoco.MjSpec) -> Any:
    """The chain of links; returns the last one."""
    import mujoco

    body = spec.worldbody.add_body(name="base")
    body.add_geom(
        name="base",
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        size=[0.08, 0.07, 0],
        pos=[0, 0, 0.07],
        **_visual((0.9,) * 3),
    )
    for k, ((position, twist), (start, end, radius)) in enumerate(zip(_LINKS, _SHAPES)):
        body = body.add_body(name=f"link{k + 1}", pos=position, quat=[np.cos(twist / 2), np.sin(twist / 2), 0, 0])
        body.gravcomp = 1.0
        body.add_joint(name=ARM_JOINTS[k], axis=[0, 0, 1], range=JOINT_LIMITS[k], limited=True, armature=_ARMATURE[k])
        shade = (0.92, 0.93, 0.95) if k % 2 else (0.55, 0.6, 0.68)
        body.add_geom(
            name=f"link{k + 1}",
            type=mujoco.mjtGeom.mjGEOM_CAPSULE,
            fromto=[*start, *end],
            size=[radius, 0, 0],
            density=600,
            **_visual(shade),
        )
    return body


def _add_gripper(spec: mujoco.MjSpec) -> None:
    import mujoco

    hand = spec.worldbody.add_body(name="hand")
    hand.gravcomp = 1.0
    hand.add_geom(
        name="hand",
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=[0.02, 0.1, 0.025],
        pos=[0, 0, 0.03],
        density=400,
        **_visual((0.3, 0.32, 0.36)),
    )
    hand.add_site(name="wrist", pos=[0, 0, 0])
    hand.add_site(name="tcp", pos=[0, 0, _TCP])
    for name, sign in (("left", 1.0), ("right", -1.0)):
        pad = hand.add_body(name=f"pad_{name}", pos=[0, 0, _TCP])
        pad.gravcomp = 1.0
        pad.add_joint(
            name=f"pad_{name}",
            type=mujoco.mjtJoint.mjJNT_SLIDE,
            axis=[0, sign, 0],
            range=[0, MAX_OPENING / 2],
            limited=True,
            armature=0.2,
        )
        pad.add_geom(
            name=f"pad_{name}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=_PAD_HALF,
            pos=[0, sign * _PAD_HALF[1], 0],
            mass=0.02,
            rgba=[0.15, 0.16, 0.18, 1],
            friction=[1.0, 0.01, 0.0001],
            contype=2,
            conaffinity=1,
            condim=4,
            priority=1,
        )
        pad.add_geom(
            name=f"finger_{name}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[0.009, 0.006, 0.022],
            pos=[0, sign * 0.014, -0.03],
            mass=0.03,
            **_visual((0.4, 0.42, 0.46)),
        )
        pad.add_site(
            name=f"touch_{name}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[0.011, 0.006, 0.011],
            rgba=[0, 0, 0, 0],
        )
        add_touch_sensor(spec, f"touch_{name}")
    add_wrist_sensors(spec)


def _servo(spec: mujoco.MjSpec, joint: str, kp: float, kv: float, limit: float | None) -> None:
    import mujoco

    actuator = spec.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    actuator.set_to_position(kp=kp, kv=kv)
    if limit is not None:
        actuator.forcelimited = True
        actuator.forcerange = [-limit, limit]


def _visual(rgb: tuple[float, ...]) -> dict[str, Any]:
    return {"rgba": [*rgb, 1.0], "contype": 0, "conaffinity": 0, "group": 2}


ARM7 = ArmModel(
    name="arm7",
    build=build_arm,
    joints=ARM_JOINTS,
    home=HOME,
    limits=JOINT_LIMITS,
    motion=Motion(
        linear_speed=0.9,  # three axes at an action's limit of 0.5 m/s need 0.87
        angular_speed=3.5,  # the same of 2 rad/s needs 3.46
        deceleration=6.0,  # an FR3 allows 9
        angular_deceleration=12.0,  # and 17
        lag=0.04,  # .030 to .035 was measured
        contact_speed=0.03,  # the pads meet a rigid table with 37 to 53 N, and with 69 to 85 N at 0.05
        press_force=30.0,
        max_force=60.0,
    ),
    licence="Apache-2.0, part of dexprior",
    source="built in; link lengths and joint limits as published for the Franka FR3",
)
PARALLEL = EndEffector(
    name="parallel",
    kind="gripper",
    build=build_gripper,
    actuators=GRIPPER_JOINTS,
    control=np.array([[0.0, MAX_OPENING / 2]] * 2),
    couples=((0, 1),),
    reset=dict.fromkeys(GRIPPER_JOINTS, MAX_OPENING / 2),
    touch=("touch_left", "touch_right"),
    licence="Apache-2.0, part of dexprior",
    source="built in",
)


class ArmKinematics:
    """Forward kinematics and Jacobian of the built-in arm for many postures at once, in NumPy.

    The simulator gives the same for one posture; training needs hundreds per step.
    """

    def forward(
        self, q: Float[np.ndarray, "batch 7"]
    ) -> tuple[Float[np.ndarray, "batch 3"], Float[np.ndarray, "batch 3 3"], Float[np.ndarray, "batch 6 7"]]:
        """Position and rotation of the tool centre point in the base frame, and its geometric Jacobian.

        The Jacobian maps joint velocities to the twist [v, w] at the tool centre point in base axes.
        """
        q = np.asarray(q, dtype=np.float64)
        n = len(q)
        R = np.broadcast_to(np.eye(3), (n, 3, 3))
        p = np.zeros((n, 3))
        axes, origins = np.empty((n, 7, 3)), np.empty((n, 7, 3))
        for k, (position, twist) in enumerate(_LINKS):
            p = p + R @ np.asarray(position)
            R = R @ _rot_x(twist)
            axes[:, k], origins[:, k] = R[:, :, 2], p
            c, s = np.cos(q[:, k]), np.sin(q[:, k])
            x, y = R[:, :, 0], R[:, :, 1]
            R = np.stack([c[:, None] * x + s[:, None] * y, c[:, None] * y - s[:, None] * x, R[:, :, 2]], axis=-1)
        p = p + R[:, :, 2] * (_FLANGE + _TCP)
        R = R @ _rot_z(-np.pi / 4)
        linear = np.cross(axes, p[:, None] - origins)
        return p, R, np.concatenate([linear, axes], axis=-1).transpose(0, 2, 1)


def _rot_x(angle: float) -> Float[np.ndarray, "3 3"]:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def _rot_z(angle: float) -> Float[np.ndarray, "3 3"]:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
