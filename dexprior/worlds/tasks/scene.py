"""The stage that every task is set on: a table at z = 0 in front of the robot's base, light, two cameras, friction."""

from __future__ import annotations

import fnmatch
import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from dexprior.errors import UnknownName
from dexprior.geometry.rotations import matrix_from_quat, quat_from_yaw
from dexprior.types import Camera
from dexprior.worlds.studio import Cone, add_camera, square_camera, studio

if TYPE_CHECKING:
    import mujoco

__all__ = ["CAMERAS", "SURFACE", "VISUAL", "box_points", "camera", "place_points", "stage", "stiffen", "upright"]

CAMERAS: dict[str, tuple[tuple[float, float, float], tuple[float, float, float], float]] = {
    "front": ((1.05, -0.25, 0.45), (0.45, 0.0, 0.06), 38.0),
    "side": ((0.45, -0.75, 0.40), (0.45, 0.0, 0.06), 38.0),
}
"""Name -> where it is, what it looks at [m], vertical field of view [degrees]."""

SURFACE: dict[str, Any] = {"contype": 1, "conaffinity": 3}
"""What fixed and manipulated things collide with: each other, and fingers (contype 2)."""
VISUAL: dict[str, Any] = {"contype": 0, "conaffinity": 0, "group": 2, "mass": 0.0}
"""Only drawn."""


def stage(name: str, *, timestep: float, cone: Cone = "elliptic") -> mujoco.MjSpec:
    """An empty table with cameras, in radians, whose friction is stiff: a held object creeps less."""
    spec = studio(name, timestep=timestep, cone=cone)
    spec.option.impratio = 10.0
    for label, place in CAMERAS.items():
        add_camera(spec, label, *place)
    return spec


def stiffen(spec: mujoco.MjSpec, pattern: str, *, timeconst: float, impedance: float) -> None:
    """Give geoms stiffer contacts: fingers hold a light object with less give, so that it creeps less.

    Args:
        pattern: glob over names of geoms.
        timeconst: of `solref` [s]; at least two timesteps.
        impedance: of `solimp` at first touch.

    Raises:
        UnknownName: no geom has such a name.
    """
    found = [geom for geom in spec.geoms if fnmatch.fnmatchcase(geom.name, pattern)]
    if not found:
        raise UnknownName("geom", pattern, [geom.name for geom in spec.geoms if geom.name])
    for geom in found:
        geom.solref = [timeconst, 1.0]
        geom.solimp = [impedance, max(impedance, 0.995), 0.001, 0.5, 2.0]


def camera(name: str, size: int) -> Camera:
    """Calibration of one of `CAMERAS` for square images of `size` pixels.

    Raises:
        UnknownName: no such camera.
    """
    if name not in CAMERAS:
        raise UnknownName("camera", name, CAMERAS)
    return square_camera(*CAMERAS[name], size)


def upright(position: Float[np.ndarray, "n 3"], yaw: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 7"]:
    """Poses of upright things."""
    return np.column_stack([position, quat_from_yaw(yaw)])


def place_points(
    points: Float[np.ndarray, "point 3"], pose: Float[np.ndarray, "n 7"]
) -> Float[np.ndarray, "n point 3"]:
    """Points of a body's frame at each pose."""
    return points @ matrix_from_quat(pose[:, 3:]).transpose(0, 2, 1) + pose[:, None, :3]


def box_points(half: Float[np.ndarray, " 3"], n: int) -> Float[np.ndarray, "n 3"]:
    """Points on the faces of a box, face by face; always the same."""
    return _box_points(*(float(h) for h in half), n)


@functools.lru_cache(maxsize=16)
def _box_points(x: float, y: float, z: float, n: int) -> Float[np.ndarray, "n 3"]:
    half = np.array([x, y, z])
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (n, 3)) * half
    face = np.arange(n) % 6
    points[np.arange(n), face // 2] = np.where(face % 2, 1.0, -1.0) * half[face // 2]
    points.setflags(write=False)
    return points
