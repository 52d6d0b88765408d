"""What every table-top scene starts from: light, a table at z = 0, shading cheap in software, square cameras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from dexprior.geometry.rotations import quat_from_matrix
from dexprior.geometry.transforms import look_at
from dexprior.types import Camera

if TYPE_CHECKING:
    import mujoco

__all__ = ["Cone", "add_camera", "square_camera", "studio"]

Cone = Literal["pyramidal", "elliptic"]


def studio(name: str, *, timestep: float, cone: Cone) -> mujoco.MjSpec:
    """A lit table, in radians.

    Args:
        name: of the model.
        timestep: [s]
        cone: friction cone of the solver.
    """
    import mujoco

    spec = mujoco.MjSpec()
    spec.modelname = name
    spec.compiler.degree = False
    spec.option.timestep = timestep
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER  # see docs/decisions/0001
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC if cone == "elliptic" else mujoco.mjtCone.mjCONE_PYRAMIDAL
    spec.option.iterations = 30
    quality = spec.visual.quality
    quality.shadowsize, quality.offsamples, quality.numslices, quality.numstacks = 512, 0, 12, 8
    spec.visual.headlight.ambient = [0.45, 0.45, 0.45]
    spec.visual.headlight.diffuse = [0.5, 0.5, 0.5]
    world = spec.worldbody
    world.add_light(name="lamp", pos=[0.3, -0.4, 1.2], dir=[0.1, 0.3, -1], castshadow=False)
    world.add_geom(
        name="table", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1.0, 1.0, 0.05], rgba=[0.78, 0.72, 0.62, 1],
        contype=1, conaffinity=3, friction=[0.6, 0.005, 0.0001],
    )  # fmt: skip
    return spec


def add_camera(spec: mujoco.MjSpec, name: str, eye: Sequence[float], target: Sequence[float], fovy: float) -> None:
    """A camera that looks from one point at another [m], with a vertical field of view in degrees."""
    R = look_at(np.asarray(eye), np.asarray(target))[:3, :3] @ np.diag([1.0, -1.0, -1.0])
    spec.worldbody.add_camera(name=name, pos=eye, fovy=fovy, quat=quat_from_matrix(R))


def square_camera(eye: Sequence[float], target: Sequence[float], fovy: float, size: int) -> Camera:
    """Calibration of such a camera for square images of `size` pixels."""
    focal = size / 2 / np.tan(np.deg2rad(fovy) / 2)
    K = np.array([[focal, 0, size / 2], [0, focal, size / 2], [0, 0, 1.0]])
    return Camera(K=K, T_base_cam=look_at(np.asarray(eye), np.asarray(target)), width=size, height=size)
