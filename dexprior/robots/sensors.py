"""What every end effector feels with: force and torque at its wrist, and the normal force on each fingertip."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mujoco

__all__ = ["add_touch_sensor", "add_wrist_sensors"]


def add_wrist_sensors(spec: mujoco.MjSpec) -> None:
    """Force and torque at the site `wrist`: `wrench_force` and `wrench_torque`."""
    import mujoco

    for name, kind in (("force", mujoco.mjtSensor.mjSENS_FORCE), ("torque", mujoco.mjtSensor.mjSENS_TORQUE)):
        spec.add_sensor(name=f"wrench_{name}", type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="wrist")


def add_touch_sensor(spec: mujoco.MjSpec, name: str, *, site: str | None = None) -> None:
    """Normal force on what touches inside a site, by default the one of the sensor's name [N]."""
    import mujoco

    kind, place = mujoco.mjtSensor.mjSENS_TOUCH, mujoco.mjtObj.mjOBJ_SITE
    spec.add_sensor(name=name, type=kind, objtype=place, objname=name if site is None else site)
