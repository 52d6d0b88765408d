"""A tendon-driven gripper of three fingers.

Its actuators pull with a force, not towards a position: what a finger does then depends on what it meets. Springs open
the fingers when the tendons are slack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dexprior.worlds.arm import add_wrist_sensors
from dexprior.worlds.rigs import EndEffector, register_end_effector

if TYPE_CHECKING:
    import mujoco

__all__ = ["MAX_TENSION"]

MAX_TENSION = 25.0
"""What an action of -1 stands for [N]."""
_SHELL, _LINK, _PAD = [0.3, 0.32, 0.36, 1.0], [0.5, 0.52, 0.56, 1.0], [0.95, 0.55, 0.25, 1.0]
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
        spec.add_sensor(
            name=f"touch{k}", type=mujoco.mjtSensor.mjSENS_TOUCH, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=f"touch{k}"
        )
    add_wrist_sensors(spec)
    return spec


register_end_effector(
    EndEffector(
        name="three_finger",
        kind="tendon",
        build=build_three_finger,
        actuators=("tendon0", "tendon1", "tendon2"),
        control=np.array([[MAX_TENSION, 0.0]] * 3),
        joints=tuple(f"{part}{k}" for k in range(3) for part in ("proximal", "distal")),
        rest=np.tile([-0.30, -0.10], 3),
        touch=("touch0", "touch1", "touch2"),
        licence="Apache-2.0, part of dexprior",
        source="built in",
    )
)
