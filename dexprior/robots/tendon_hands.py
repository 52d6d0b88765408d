"""Tendon-driven hands: a gripper of three fingers, and a hand of four fingers and a thumb.

Their actuators pull with a force, not towards a position: what a finger does then depends on what it meets. Springs
open the fingers when the tendons are slack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from dexprior.robots.machines import MANO_ON_FLANGE, EndEffector, Fingers
from dexprior.robots.sensors import add_touch_sensor, add_wrist_sensors

if TYPE_CHECKING:
    import mujoco

__all__ = ["HAND_FINGERS", "MAX_TENSION", "TENDON_HAND", "THREE_FINGER", "build_tendon_hand", "preshape"]

MAX_TENSION = 25.0
"""What an action of -1 stands for [N]."""
_SHELL, _LINK, _PAD = [0.3, 0.32, 0.36, 1.0], [0.5, 0.52, 0.56, 1.0], [0.95, 0.55, 0.25, 1.0]
_TENDON = [0.8, 0.2, 0.2, 1.0]
_TOUCHES: dict[str, Any] = {"contype": 2, "conaffinity": 1}


def _pull(spec: mujoco.MjSpec, name: str) -> None:
    """An actuator that pulls on the tendon of the same name."""
    import mujoco

    motor = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_TENDON)
    motor.gainprm[0] = -1.0
    motor.ctrlrange, motor.ctrllimited = [0.0, MAX_TENSION], True


def build_three_finger() -> mujoco.MjSpec:
    """Three fingers at 120 degrees, two joints each, one spatial tendon a finger along its inner side."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    palm = spec.worldbody.add_body(name="palm")
    palm.gravcomp = 1.0
    palm.add_geom(
        name="palm", type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[0.036, 0.015, 0], pos=[0, 0, 0.015], density=300,
        rgba=_SHELL, contype=0, conaffinity=0,
    )  # fmt: skip
    palm.add_site(name="wrist")
    palm.add_site(name="tcp", pos=[0, 0, 0.095])
    for k in range(3):
        angle = k * 2 * np.pi / 3
        out = np.array([np.cos(angle), np.sin(angle)])
        proximal = palm.add_body(
            name=f"proximal{k}", pos=[*(0.034 * out), 0.03], quat=[np.cos(angle / 2), 0, 0, np.sin(angle / 2)]
        )
        proximal.gravcomp = 1.0
        # in a finger's frame x points outwards; a positive angle closes it
        proximal.add_joint(
            name=f"proximal{k}", axis=[0, -1, 0], range=[-0.6, 1.2], limited=True, stiffness=[0.15, 0, 0],
            springref=-0.35, damping=[0.01, 0, 0], armature=2e-4,
        )  # fmt: skip
        proximal.add_geom(
            name=f"finger_link{k}", type=mujoco.mjtGeom.mjGEOM_CAPSULE, fromto=[0, 0, 0, 0, 0, 0.035],
            size=[0.007, 0, 0], density=600, rgba=_LINK, **_TOUCHES,
        )  # fmt: skip
        distal = proximal.add_body(name=f"distal{k}", pos=[0, 0, 0.04])
        distal.gravcomp = 1.0
        distal.add_joint(
            name=f"distal{k}", axis=[0, -1, 0], range=[-0.2, 1.3], limited=True, stiffness=[0.10, 0, 0],
            springref=-0.1, damping=[0.006, 0, 0], armature=1e-4,
        )  # fmt: skip
        distal.add_geom(
            name=f"pad_{k}", type=mujoco.mjtGeom.mjGEOM_CAPSULE, fromto=[0, 0, 0, 0, 0, 0.034], size=[0.008, 0, 0],
            density=600, rgba=_PAD, condim=4, priority=1, friction=[0.9, 0.01, 0.0001], solref=[0.006, 1.0],
            **_TOUCHES,
        )  # fmt: skip
        distal.add_site(
            name=f"touch{k}", type=mujoco.mjtGeom.mjGEOM_CAPSULE, size=[0.010, 0.019, 0], pos=[0, 0, 0.017],
            rgba=[0, 0, 0, 0],
        )  # fmt: skip
        path = (
            (palm, [*(0.020 * out), 0.030]), (proximal, [-0.011, 0, 0.020]), (distal, [-0.010, 0, 0.008]),
            (distal, [-0.004, 0, 0.030]),
        )  # fmt: skip
        tendon = spec.add_tendon(name=f"tendon{k}", width=0.001, rgba=[0.8, 0.2, 0.2, 1])
        for j, (body, position) in enumerate(path):
            body.add_site(name=f"guide{k}{j}", pos=position, size=[0.0015] * 3, rgba=[0.8, 0.2, 0.2, 1])
            tendon.wrap_site(f"guide{k}{j}")
        _pull(spec, f"tendon{k}")
        add_touch_sensor(spec, f"touch{k}")
    add_wrist_sensors(spec)
    return spec


_FINGERS = {  # finger -> place of its first joint (y, z) [m], yaw of its plane [rad], lengths of its phalanges [m]
    "index": ((0.0285, 0.030), -0.35, (0.032, 0.022, 0.020)),
    "middle": ((0.0095, 0.032), -0.12, (0.033, 0.023, 0.020)),
    "ring": ((-0.0095, 0.030), 0.12, (0.032, 0.022, 0.020)),
    "little": ((-0.0285, 0.026), 0.35, (0.028, 0.020, 0.018)),
}
HAND_FINGERS = ("thumb", *_FINGERS)
"""Fingers of the tendon-driven hand, in the order of its tendons."""
_BACK = -0.034  # x of the fingers' first joints [m]
_KNUCKLES, _HUMAN_KNUCKLES = 0.030, 0.092  # about how far first joints are from this wrist, and from a human one [m]
_THUMB_AT = (0.036, 0.0, 0.034)  # its first joint [m]: the metacarpal holds it opposite the fingers
_THUMB = (0.034, 0.030)
_TIP_RADIUS = 0.008  # [m]


def preshape(width: float | Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Tension of every tendon that leaves 6 mm on each side of a thing between thumb and fingers [N].

    A line through where the free fingertips come to rest: 31 mm apart at 5.0 N, 49 mm at 4.0 N.

    Args:
        width: of the thing [m].
    """
    return 5.9 - 50.0 * np.asarray(width)


def build_tendon_hand() -> mujoco.MjSpec:
    """Four fingers of three joints and a thumb of two that faces them; one flexor tendon each, springs open them.

    The fingers' moment arms fall from the knuckle outwards, so that a finger sweeps in before it curls. The thumb
    closes onto a stop: what the fingers press against it then bears on its joint, not on its tendon.
    """
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    palm = spec.worldbody.add_body(name="palm")
    palm.gravcomp = 1.0
    drawn: dict[str, Any] = {"density": 300, "rgba": _SHELL, "contype": 0, "conaffinity": 0}
    palm.add_geom(
        name="palm", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.010, 0.040, 0.020], pos=[_BACK, 0, 0.014], **drawn
    )
    palm.add_geom(
        name="wrist", type=mujoco.mjtGeom.mjGEOM_CAPSULE, fromto=[0, 0, 0.004, _BACK, 0, 0.010], size=[0.014, 0, 0],
        **drawn,
    )  # fmt: skip
    palm.add_geom(
        name="metacarpal", type=mujoco.mjtGeom.mjGEOM_CAPSULE, fromto=[_BACK, 0.034, 0.008, *_THUMB_AT],
        size=[0.010, 0, 0], **drawn,
    )  # fmt: skip
    palm.add_site(name="wrist")
    palm.add_site(name="tcp", pos=[0, 0, 0.095])
    palm.add_site(name="mano", pos=[_BACK, 0, _KNUCKLES - _HUMAN_KNUCKLES], quat=MANO_ON_FLANGE)
    for finger, ((y, z), yaw, lengths) in _FINGERS.items():
        _add_finger(
            spec, palm, finger, [_BACK, y, z], np.pi + yaw, lengths,
            ranges=((-0.5, 1.3), (-0.1, 1.4), (0.0, 1.0)), arms=(0.012, 0.008, 0.006), stiffness=(0.15, 0.10, 0.08),
        )  # fmt: skip
    _add_finger(
        spec, palm, "thumb", _THUMB_AT, 0.0, _THUMB,
        ranges=((-0.5, 0.22), (-0.2, 0.25)), arms=(0.016, 0.010), stiffness=(0.15, 0.10),
    )  # fmt: skip
    add_wrist_sensors(spec)
    return spec


def _add_finger(
    spec: mujoco.MjSpec,
    palm: mujoco.MjsBody,
    finger: str,
    at: Sequence[float],
    yaw: float,
    lengths: Sequence[float],
    *,
    ranges: Sequence[tuple[float, float]],
    arms: Sequence[float],
    stiffness: Sequence[float],
) -> None:
    """A finger that hangs along z and closes against its own x axis, with a tendon along its inner side.

    Args:
        spec, palm: what it is added to.
        finger: its name.
        at: its first joint in the palm's frame [m].
        yaw: of its plane about z [rad].
        lengths: of its phalanges [m].
        ranges: of its joints, from open to closed [rad].
        arms: moment arm of the tendon at each joint [m].
        stiffness: of the springs that open them [N m/rad].
    """
    import mujoco

    tendon = spec.add_tendon(name=f"tendon_{finger}", width=0.001, rgba=_TENDON)

    def guide(body: mujoco.MjsBody, position: Any) -> None:
        name = f"guide_{finger}{len(tendon.path)}"
        body.add_site(name=name, pos=position, size=[0.0015] * 3, rgba=_TENDON)
        tendon.wrap_site(name)

    c, s = np.cos(yaw), np.sin(yaw)
    guide(palm, [at[0] - arms[0] * c, at[1] - arms[0] * s, at[2] - 0.006])
    body, below = palm, np.array(at)
    for k, length in enumerate(lengths):
        quat = [np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)] if k == 0 else [1, 0, 0, 0]
        body = body.add_body(name=f"{finger}{k}", pos=below, quat=quat)
        body.gravcomp = 1.0
        body.add_joint(
            name=f"{finger}{k}", axis=[0, -1, 0], range=ranges[k], limited=True, stiffness=[stiffness[k], 0, 0],
            springref=ranges[k][0], damping=[0.01 if k == 0 else 0.006, 0, 0], armature=2e-4 if k == 0 else 1e-4,
        )  # fmt: skip
        tip = k == len(lengths) - 1
        surface = {"friction": [0.9, 0.01, 0.0001], "solref": [0.006, 1.0], "condim": 4, "priority": 1} if tip else {}
        body.add_geom(
            name=f"pad_{finger}" if tip else f"{finger}{k}", type=mujoco.mjtGeom.mjGEOM_CAPSULE,
            fromto=[0, 0, 0, 0, 0, length], size=[_TIP_RADIUS if tip else 0.007, 0, 0], density=600,
            rgba=_PAD if tip else _LINK, **surface, **_TOUCHES,
        )  # fmt: skip
        guide(body, [-arms[k], 0, 0.008])
        if tip:
            guide(body, [-0.004, 0, length])
        else:
            guide(body, [-arms[k + 1], 0, length - 0.006])
        below = np.array([0.0, 0.0, length])
    body.add_site(name=f"tip_{finger}", pos=[0, 0, lengths[-1]])
    body.add_site(
        name=f"touch_{finger}", type=mujoco.mjtGeom.mjGEOM_CAPSULE, size=[0.010, lengths[-1] / 2, 0],
        pos=[0, 0, lengths[-1] / 2], rgba=[0, 0, 0, 0],
    )  # fmt: skip
    _pull(spec, f"tendon_{finger}")
    add_touch_sensor(spec, f"touch_{finger}")


THREE_FINGER = EndEffector(
    name="three_finger",
    kind="tendon",
    build=build_three_finger,
    actuators=("tendon0", "tendon1", "tendon2"),
    control=np.array([[MAX_TENSION, 0.0]] * 3),
    reset={f"{part}{k}": rest for k in range(3) for part, rest in (("proximal", -0.30), ("distal", -0.10))},
    touch=("touch0", "touch1", "touch2"),
    licence="Apache-2.0, part of dexprior",
    source="built in",
)
TENDON_HAND = EndEffector(
    name="tendon_hand",
    kind="tendon",
    build=build_tendon_hand,
    actuators=tuple(f"tendon_{finger}" for finger in HAND_FINGERS),
    control=np.array([[MAX_TENSION, 0.0]] * len(HAND_FINGERS)),
    reset={
        f"{finger}{k}": -0.30 if k == 0 else 0.0
        for finger in HAND_FINGERS
        for k in range(2 if finger == "thumb" else 3)
    },
    touch=tuple(f"touch_{finger}" for finger in HAND_FINGERS),
    fingers=Fingers(side="right", wrist="mano", tips={finger: f"tip_{finger}" for finger in HAND_FINGERS}),
    licence="Apache-2.0, part of dexprior",
    source="built in",
)
