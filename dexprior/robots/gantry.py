"""Built-in arms that are none: a gantry without singularities, and a stand that holds a palm still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dexprior.robots.machines import ArmModel

if TYPE_CHECKING:
    import mujoco

__all__ = ["GANTRY", "STAND"]

_GANTRY = ("x", "y", "z", "yaw", "pitch", "roll")
_GANTRY_RANGE = 1.0  # [m]
_STAND = (0.45, 0.0, 0.10)  # [m] of the stand's flange


def _build_gantry() -> mujoco.MjSpec:
    """Three slides and three hinges that carry a flange pointing down: an arm without singularities."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    body = spec.worldbody
    for name, axis in zip(_GANTRY, [*np.eye(3), np.eye(3)[2], np.eye(3)[1], np.eye(3)[0]]):
        body = body.add_body(name=f"gantry_{name}")
        body.gravcomp, body.explicitinertial, body.mass, body.inertia = 1.0, True, 0.1, [1e-4] * 3
        slide = name in "xyz"
        body.add_joint(
            name=name,
            type=mujoco.mjtJoint.mjJNT_SLIDE if slide else mujoco.mjtJoint.mjJNT_HINGE,
            axis=axis,
            range=[-_GANTRY_RANGE, _GANTRY_RANGE] if slide else [-np.pi, np.pi],
            limited=True,
            armature=2.0 if slide else 0.05,
        )
        stiffness, inertia = (4000.0, 3.0) if slide else (150.0, 0.07)
        servo = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        servo.set_to_position(kp=stiffness, kv=2 * np.sqrt(stiffness * inertia))
    body.add_site(name="flange", quat=[0.0, 1.0, 0.0, 0.0])
    return spec


def _build_stand() -> mujoco.MjSpec:
    """A fixed post whose flange points up: what a hand has that holds its palm still."""
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    body = spec.worldbody.add_body(name="stand")
    body.add_geom(
        name="stand", type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[0.03, _STAND[2] / 2, 0],
        pos=[_STAND[0], _STAND[1], _STAND[2] / 2], rgba=[0.55, 0.6, 0.68, 1], contype=0, conaffinity=0, group=2,
    )  # fmt: skip
    body.add_site(name="flange", pos=_STAND)
    return spec


GANTRY = ArmModel(
    name="gantry",
    build=_build_gantry,
    joints=_GANTRY,
    home=np.array([0.45, 0.0, 0.30, 0.0, 0.0, 0.0]),
    limits=np.array([[-_GANTRY_RANGE, _GANTRY_RANGE]] * 3 + [[-np.pi, np.pi]] * 3),
    licence="Apache-2.0, part of dexprior",
    source="built in",
)
STAND = ArmModel(
    name="stand",
    build=_build_stand,
    joints=(),
    home=np.zeros(0),
    limits=np.zeros((0, 2)),
    licence="Apache-2.0, part of dexprior",
    source="built in",
)
