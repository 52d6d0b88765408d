"""The robots that dexprior knows by name: what their joints and fingertips are called, and how to build them.

An entry is light: its MuJoCo model is built when asked for. Hands are defined here; arms are registered by
the code that builds their worlds. Every hand carries a site in MANO's convention (origin near the wrist,
fingers along -x, palm facing -y, thumb towards +z for a right hand): one retargeting serves them all.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dexprior import extras
from dexprior.errors import BadInput, UnknownName
from dexprior.types import FINGERS, Side

if TYPE_CHECKING:
    import mujoco

__all__ = ["Kind", "Robot", "load", "model_hash", "names", "register"]

Kind = Literal["hand", "arm"]


@dataclass(frozen=True, kw_only=True)
class Robot:
    """A robot of the catalog (not to be confused with the human hands of `skeleton` and `mano`)."""

    name: str
    kind: Kind
    side: Side | None
    """Which hand; None for an arm or a symmetric gripper."""
    joints: tuple[str, ...]
    """Joint names, in the order of a `JointTrajectory`'s columns."""
    fixed: Mapping[str, float] = field(default_factory=dict)
    """Joints that retargeting leaves at a value [rad], e.g. a wrist that the end-effector pose stands for."""
    base: str
    """Root body; it has no joint, so that a world can attach it."""
    tool: str
    """Site whose pose is `JointTrajectory.ee_pose`: the wrist of a hand, the tool centre point of an arm."""
    tips: Mapping[str, str]
    """Human finger -> fingertip site; fingers that the robot lacks are absent."""
    distals: Mapping[str, str]
    """Human finger -> body of its last segment, whose origin is the last joint."""
    tip_radius: float
    """Radius of a fingertip [m]: two fingers touch when their sites are two radii apart."""
    licence: str
    source: str
    build: Callable[[], mujoco.MjSpec]
    """Makes a fresh, editable model; the base sits at the origin."""

    def __post_init__(self) -> None:
        for finger in (*self.tips, *self.distals):
            if finger not in FINGERS:
                raise UnknownName("finger", finger, FINGERS)
        for joint in self.fixed:
            if joint not in self.joints:
                raise UnknownName(f"joint of {self.name!r}", joint, self.joints)

    @property
    def fingers(self) -> tuple[str, ...]:
        """Human fingers that the robot has, in the order of `FINGERS`."""
        return tuple(f for f in FINGERS if f in self.tips)

    def compile(self) -> mujoco.MjModel:
        """The robot alone, compiled afresh."""
        return self.build().compile()


_REGISTRY: dict[str, Robot] = {}


def register(robot: Robot) -> Robot:
    """Add an entry.

    Raises:
        BadInput: another entry has the name.
    """
    if _REGISTRY.setdefault(robot.name, robot) is not robot:
        raise BadInput(f"a robot {robot.name!r} is registered already; choose another name")
    return robot


def names(kind: Kind | None = None) -> tuple[str, ...]:
    """Names in the catalog, of one kind or of all."""
    return tuple(name for name, robot in _REGISTRY.items() if kind in (None, robot.kind))


def load(name: str) -> Robot:
    """An entry by name.

    Raises:
        UnknownName: lists the names.
    """
    if name not in _REGISTRY:
        raise UnknownName("robot", name, names())
    return _REGISTRY[name]


def model_hash(model: mujoco.MjModel) -> str:
    """Sixteen hex digits that identify a compiled model; another MuJoCo version gives another hash.

    It covers the names and arrays that decide motion and contact, not what is only drawn.
    """
    import mujoco
    import numpy as np

    digest = hashlib.sha256(mujoco.__version__.encode())
    for kind, count in _NAMED.items():
        for index in range(getattr(model, count)):
            name = mujoco.mj_id2name(model, getattr(mujoco.mjtObj, kind), index)
            digest.update(f"{kind} {index} {name}\n".encode())
    for prefix in _HASHED:
        for attribute in sorted(a for a in dir(model) if a.startswith(prefix) and not a.endswith(_DRAWN)):
            value = getattr(model, attribute)
            if isinstance(value, np.ndarray):
                digest.update(f"{attribute} {value.shape} {value.dtype}\n".encode())
                digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]


_NAMED = {"mjOBJ_BODY": "nbody", "mjOBJ_JOINT": "njnt", "mjOBJ_SITE": "nsite", "mjOBJ_ACTUATOR": "nu"}
_DRAWN = ("_rgba", "_matid", "_group")
_HASHED = ("actuator_", "body_", "dof_", "eq_", "geom_", "jnt_", "qpos", "site_", "tendon_")


# --- the built-in hand ------------------------------------------------------------------------------------

_BASES = {  # finger -> origin of its first joint in the wrist frame [m]
    "index": (-0.092, -0.002, 0.031),
    "middle": (-0.096, 0.0, 0.008),
    "ring": (-0.091, -0.003, -0.014),
    "little": (-0.081, -0.010, -0.034),
}
_PHALANGES = {  # finger -> lengths of its three segments [m]
    "index": (0.037, 0.026, 0.025),
    "middle": (0.039, 0.028, 0.026),
    "ring": (0.037, 0.027, 0.025),
    "little": (0.029, 0.021, 0.021),
}
_THUMB_BASE = (-0.024, -0.012, 0.027)
_THUMB_DIRECTION = (-0.72, 0.0, 0.69)  # at zero the thumb lies in the plane of the palm
_THUMB_SEGMENTS = (0.036, 0.036, 0.030)
_RADIUS = 0.009  # of every finger segment [m]
_FINGER_JOINTS = {  # joint -> axis in the wrist frame, range [rad]
    "abduction": ((0.0, 1.0, 0.0), (-0.40, 0.40)),
    "mcp": ((0.0, 0.0, 1.0), (-0.35, 1.65)),
    "pip": ((0.0, 0.0, 1.0), (0.0, 1.85)),
    "dip": ((0.0, 0.0, 1.0), (0.0, 1.40)),
}
_THUMB_JOINTS = {
    "rotation": ((1.0, 0.0, 0.0), (-0.50, 2.30)),  # opposition: from beside the palm to in front of it
    "cmc": ((0.0, -1.0, 0.0), (-0.70, 0.90)),
    "mcp": ((0.0, -1.0, 0.0), (-0.20, 1.20)),
    "ip": ((0.0, -1.0, 0.0), (-0.40, 1.50)),
}


def _builtin_joints() -> tuple[str, ...]:
    return tuple(
        f"{finger}_{joint}" for finger in FINGERS for joint in (_THUMB_JOINTS if finger == "thumb" else _FINGER_JOINTS)
    )


def _build_builtin_hand() -> mujoco.MjSpec:
    """A right hand of capsules with 20 position-controlled joints and a touch sensor in each fingertip."""
    import mujoco
    import numpy as np

    spec = mujoco.MjSpec()
    spec.modelname = "builtin-hand"
    spec.compiler.degree = False
    base = spec.worldbody.add_body(name="palm")
    base.add_site(name="wrist", size=[0.004] * 3, group=4)
    shell, joint_colour, pad = [0.32, 0.34, 0.38, 1.0], [0.78, 0.79, 0.82, 1.0], [0.95, 0.55, 0.25, 1.0]

    def capsule(body: mujoco.MjsBody, start: object, end: object, rgba: list[float], radius: float) -> None:
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CAPSULE,
            fromto=[*start, *end],  # type: ignore[misc]
            size=[radius, 0, 0],
            rgba=rgba,
            density=600,
            friction=[1.0, 0.005, 0.0001],
        )

    for finger, (x, y, z) in _BASES.items():  # the palm: one metacarpal for each finger
        capsule(base, (-0.012, 0.0, 0.45 * z), (x + 0.008, y, z), shell, 0.011 if finger != "little" else 0.010)
    capsule(base, (0.015, 0.0, 0.0), (0.045, 0.0, 0.0), shell, 0.022)

    for finger in FINGERS:
        if finger == "thumb":
            origin, direction = _THUMB_BASE, np.array(_THUMB_DIRECTION) / np.linalg.norm(_THUMB_DIRECTION)
            lengths, joints, shared = _THUMB_SEGMENTS, _THUMB_JOINTS, ("rotation", "cmc")
        else:
            origin, direction = _BASES[finger], np.array([-1.0, 0.0, 0.0])
            lengths, joints, shared = _PHALANGES[finger], _FINGER_JOINTS, ("abduction", "mcp")
        body, at = base, np.array(origin)
        rest = [j for j in joints if j not in shared]
        for k, (segment, length) in enumerate(zip(("proximal", "middle", "distal"), lengths)):
            body = body.add_body(name=f"{finger}_{segment}", pos=at)
            for joint in shared if k == 0 else (rest[k - 1],):
                axis, limits = joints[joint]
                name = f"{finger}_{joint}"
                body.add_joint(name=name, axis=axis, range=limits, limited=True, damping=0.02, armature=5e-4)
                actuator = spec.add_actuator(name=name, target=name)
                actuator.trntype = mujoco.mjtTrn.mjTRN_JOINT
                actuator.set_to_position(kp=2.0)
                actuator.ctrlrange, actuator.forcerange = limits, [-0.8, 0.8]
            at = length * direction
            capsule(body, (0, 0, 0), at, pad if segment == "distal" else joint_colour, _RADIUS)
        body.add_site(name=f"{finger}_tip", pos=at, size=[1.3 * _RADIUS] * 3, group=4)
        touch = spec.add_sensor(name=f"{finger}_touch", type=mujoco.mjtSensor.mjSENS_TOUCH)
        touch.objtype, touch.objname = mujoco.mjtObj.mjOBJ_SITE, f"{finger}_tip"
        for segment in ("proximal", "middle"):  # neighbours overlap by construction
            spec.add_exclude(bodyname1="palm", bodyname2=f"{finger}_{segment}")
    for a, b in (("index", "middle"), ("middle", "ring"), ("ring", "little"), ("thumb", "index")):
        spec.add_exclude(bodyname1=f"{a}_proximal", bodyname2=f"{b}_proximal")
    return spec


register(
    Robot(
        name="builtin-hand",
        kind="hand",
        side="right",
        joints=_builtin_joints(),
        base="palm",
        tool="wrist",
        tips={f: f"{f}_tip" for f in FINGERS},
        distals={f: f"{f}_distal" for f in FINGERS},
        tip_radius=_RADIUS,
        licence="Apache-2.0 (this project)",
        source="built by dexprior.hands.catalog",
        build=_build_builtin_hand,
    )
)


# --- the Shadow hand --------------------------------------------------------------------------------------

_SHADOW_FINGERS = {"thumb": "TH", "index": "FF", "middle": "MF", "ring": "RF", "little": "LF"}


def _shadow_joints() -> tuple[str, ...]:
    counts = {"FF": range(3, -1, -1), "MF": range(3, -1, -1), "RF": range(3, -1, -1)}
    counts |= {"LF": range(4, -1, -1), "TH": range(4, -1, -1)}
    fingers = tuple(f"robot0:{f}J{k}" for f, numbers in counts.items() for k in numbers)
    return ("robot0:WRJ1", "robot0:WRJ0", *fingers)


def _build_shadow() -> mujoco.MjSpec:
    """The Shadow hand of gymnasium-robotics, without its table, targets and ropes.

    Raises:
        MissingExtra: gymnasium-robotics is not installed.
    """
    import mujoco

    found = importlib.util.find_spec("gymnasium_robotics")  # found, not imported: it would register environments
    if found is None or found.origin is None:
        extras.require("gymnasium_robotics", purpose="the robot 'shadow'")
        raise BadInput("gymnasium_robotics has no files on disk: install it from a wheel")
    xml = Path(found.origin).parent / "envs/assets/hand/reach.xml"
    spec = mujoco.MjSpec.from_file(str(xml))
    spec.modelname = "shadow"
    spec.delete(spec.body("floor0"))
    for geom in [g for g in spec.worldbody.geoms if g.name == "floor0"]:
        spec.delete(geom)
    for light in list(spec.worldbody.lights):
        spec.delete(light)
    base = spec.body("robot0:hand mount")
    base.pos, base.quat = [0, 0, 0], [1, 0, 0, 0]
    base.alt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT  # the file gave Euler angles, which would win
    # The palm has its fingers along +z, faces -y, and the thumb is at +x; MANO's x, y, z are its -z, y, x.
    half = 0.5**0.5
    spec.body("robot0:palm").add_site(name="wrist", pos=[0, 0, 0.004], quat=[half, 0, half, 0], group=4)
    return spec


register(
    Robot(
        name="shadow",
        kind="hand",
        side="right",
        joints=_shadow_joints(),
        fixed={"robot0:WRJ1": 0.0, "robot0:WRJ0": 0.0},
        base="robot0:hand mount",
        tool="wrist",
        tips={f: f"robot0:S_{s.lower()}tip" for f, s in _SHADOW_FINGERS.items()},
        distals={f: f"robot0:{s.lower()}distal" for f, s in _SHADOW_FINGERS.items()},
        tip_radius=0.007,
        licence="Apache-2.0 (Shadow Robot Company; OpenAI), in an MIT package",
        source="gymnasium-robotics, envs/assets/hand",
        build=_build_shadow,
    )
)
