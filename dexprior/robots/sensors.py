"""What every end effector feels with: force and torque at its wrist, and the normal force on each fingertip."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mujoco

    from dexprior.robots.rigs import Rig

__all__ = ["SOFT_WRENCH", "add_soft_wrench", "add_touch_sensor", "add_wrist_sensors"]

SOFT_WRENCH = "wrench_soft"
"""Sensor of `add_soft_wrench`, by the end effector's own name."""


def add_wrist_sensors(spec: mujoco.MjSpec) -> None:
    """Force and torque at the site `wrist`: `wrench_force` and `wrench_torque`."""
    import mujoco

    for name, kind in (("force", mujoco.mjtSensor.mjSENS_FORCE), ("torque", mujoco.mjtSensor.mjSENS_TORQUE)):
        spec.add_sensor(name=f"wrench_{name}", type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="wrist")


def add_soft_wrench(spec: mujoco.MjSpec, rig: Rig, body: str) -> None:
    """What a rig's tool does to a flex whose nodes hang from a body: force [N], torque [N m] about a point, and that
    point [m], in the world's axes.

    MuJoCo's force and torque sensors leave the contacts of flexes out; `dexprior.worlds.tasks.drives.Drive` adds this.
    """
    import mujoco

    tree = mujoco.mjtObj.mjOBJ_XBODY
    spec.add_sensor(
        name=rig.name(SOFT_WRENCH), type=mujoco.mjtSensor.mjSENS_CONTACT, objtype=tree,
        objname=spec.site(rig.name("wrist")).parent.name, reftype=tree, refname=body,
        intprm=[_FORCE_TORQUE_PLACE, _NET, 1],
    )  # fmt: skip


_FORCE_TORQUE_PLACE, _NET = 1 << 1 | 1 << 2 | 1 << 4, 3  # what a contact sensor tells, and how: all contacts as one


def add_touch_sensor(spec: mujoco.MjSpec, name: str, *, site: str | None = None) -> None:
    """Normal force on what touches inside a site, by default the one of the sensor's name [N]."""
    import mujoco

    kind, place = mujoco.mjtSensor.mjSENS_TOUCH, mujoco.mjtObj.mjOBJ_SITE
    spec.add_sensor(name=name, type=kind, objtype=place, objname=name if site is None else site)
