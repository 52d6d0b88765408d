"""The built-in hand: a right hand of capsules with 20 joints, to follow people with no package installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dexprior.robots.machines import MANO_ON_FLANGE, EndEffector, Fingers
from dexprior.robots.sensors import add_touch_sensor, add_wrist_sensors
from dexprior.types.hand import FINGERS

if TYPE_CHECKING:
    import mujoco

__all__ = ["CAPSULE_HAND", "build_capsule_hand"]

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
_SLEEVE, _SLEEVE_RADIUS = (0.015, 0.045), 0.022  # of the forearm, from where to where along x [m]
_TCP = (-0.10, -0.07, 0.03)  # between thumb and fingers [m]
_THUMB_JOINTS = {
    "rotation": ((1.0, 0.0, 0.0), (-0.50, 2.30)),  # opposition: from beside the palm to in front of it
    "cmc": ((0.0, -1.0, 0.0), (-0.70, 0.90)),
    "mcp": ((0.0, -1.0, 0.0), (-0.20, 1.20)),
    "ip": ((0.0, -1.0, 0.0), (-0.40, 1.50)),
}


def build_capsule_hand() -> mujoco.MjSpec:
    """Position-controlled joints, and a touch sensor in each fingertip; fingers touch each other as well as things."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.modelname = "builtin-hand"
    spec.compiler.degree = False
    base = spec.worldbody.add_body(name="palm", pos=[0.0, 0.0, _SLEEVE[1] + _SLEEVE_RADIUS], quat=MANO_ON_FLANGE)
    base.gravcomp = 1.0
    base.add_site(name="wrist", size=[0.004] * 3, group=4)
    base.add_site(name="tcp", pos=_TCP, quat=[MANO_ON_FLANGE[0], *(-part for part in MANO_ON_FLANGE[1:])])
    add_wrist_sensors(spec)
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
    capsule(base, (_SLEEVE[0], 0.0, 0.0), (_SLEEVE[1], 0.0, 0.0), shell, _SLEEVE_RADIUS)

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
            body.gravcomp = 1.0
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
        add_touch_sensor(spec, f"{finger}_touch", site=f"{finger}_tip")
        for segment in ("proximal", "middle"):  # neighbours overlap by construction
            spec.add_exclude(bodyname1="palm", bodyname2=f"{finger}_{segment}")
    for a, b in (("index", "middle"), ("middle", "ring"), ("ring", "little"), ("thumb", "index")):
        spec.add_exclude(bodyname1=f"{a}_proximal", bodyname2=f"{b}_proximal")
    return spec


def _control() -> dict[str, tuple[float, float]]:
    """Joint -> its position closed and open [rad]; the sides that fingers are spread to are no closing."""
    spans = {}
    for finger in FINGERS:
        for joint, (_, (low, high)) in (_THUMB_JOINTS if finger == "thumb" else _FINGER_JOINTS).items():
            spans[f"{finger}_{joint}"] = (low, high) if joint == "abduction" else (high, low)
    return spans


CAPSULE_HAND = EndEffector(
    name="builtin-hand",
    kind="hand",
    build=build_capsule_hand,
    actuators=tuple(_control()),
    control=np.array(list(_control().values())),
    start=np.zeros(len(_control())),
    touch=tuple(f"{finger}_touch" for finger in FINGERS),
    fingers=Fingers(side="right", wrist="wrist", tips={finger: f"{finger}_tip" for finger in FINGERS}),
    licence="Apache-2.0, part of dexprior",
    source="built in",
)
