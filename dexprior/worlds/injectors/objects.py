"""Object injectors: what is manipulated is not as even as assumed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.geometry.rotations import matrix_from_quat
from dexprior.worlds.injectors.base import Injector, Stage

if TYPE_CHECKING:
    import mujoco

__all__ = ["Directional", "Ripeness", "UnevenFriction", "UnevenMass", "lopsided"]


def lopsided(
    inertia: Float[np.ndarray, "3 3"], mass: float, offset: Float[np.ndarray, " 3"], fraction: float
) -> tuple[Float[np.ndarray, " 3"], Float[np.ndarray, "3 3"]]:
    """Centre of mass and inertia about it, once a fraction of a body's mass was moved into one point.

    Parallel axes: I' = (1 - f) I + f (1 - f) m (|p|^2 E - p p^T), at f p from the old centre.

    Args:
        inertia: about the old centre [kg m2].
        mass: of the body, kept [kg].
        offset: p, of the point from the old centre [m].
        fraction: f.
    """
    spread = offset @ offset * np.eye(3) - np.outer(offset, offset)
    return fraction * offset, (1 - fraction) * inertia + fraction * (1 - fraction) * mass * spread


class UnevenMass(Injector):
    """Half of an object's mass sits in one point up to 0.8 of the way to its surface; mass and shape stay."""

    name: ClassVar[str] = "uneven_mass"

    def build(self, stage: Stage) -> None:
        """Every object, each in a direction of its own."""
        objects = _objects(stage, self.name)
        whole = _quickly(stage.spec)
        for body, rng in zip(objects, self.rng().spawn(len(objects))):
            known = whole.body(body.name)
            mass, moments = float(known.mass[0]), np.array(known.inertia)
            R = matrix_from_quat(np.array(known.iquat))
            half = np.sqrt(np.maximum(1.5 * (moments.sum() - 2 * moments) / mass, 1e-8))  # of the box with this inertia
            direction = rng.normal(size=3)
            direction /= np.linalg.norm(direction)
            offset = R @ (0.8 * self.strength * half * direction)
            shift, inertia = lopsided(R @ np.diag(moments) @ R.T, mass, offset, 0.5)
            body.explicitinertial, body.mass = True, mass
            body.ipos, body.iquat = np.array(known.ipos) + shift, [1, 0, 0, 0]
            body.fullinertia = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]


class UnevenFriction(Injector):
    """One half of a box is slippery, for fingers too: its coefficient falls by up to 80 %."""

    name: ClassVar[str] = "uneven_friction"

    def build(self, stage: Stage) -> None:
        """Cut each object's box in two along one of its axes."""
        import mujoco

        rng, cut = self.rng(), 0
        above = max(geom.priority for geom in stage.spec.geoms) + 1
        for body in _objects(stage, self.name):
            for geom in [geom for geom in body.geoms if geom.type == mujoco.mjtGeom.mjGEOM_BOX and geom.contype]:
                axis, side = int(rng.integers(3)), float(rng.choice([-1.0, 1.0]))
                along = matrix_from_quat(np.array(geom.quat))[:, axis]
                size, centre = np.array(geom.size), np.array(geom.pos)
                size[axis] /= 2
                geom.size, geom.pos = size, centre + side * size[axis] * along
                weight = {"mass": geom.mass / 2} if np.isfinite(geom.mass) else {"density": geom.density}
                if np.isfinite(geom.mass):
                    geom.mass /= 2
                body.add_geom(
                    name=f"{geom.name}_slick", type=geom.type, size=size, pos=centre - side * size[axis] * along,
                    quat=geom.quat, friction=[(1 - 0.8 * self.strength) * geom.friction[0], *geom.friction[1:]],
                    priority=above, condim=geom.condim, contype=geom.contype, conaffinity=geom.conaffinity,
                    solref=geom.solref, solimp=geom.solimp, margin=geom.margin, gap=geom.gap,
                    rgba=[*np.array(geom.rgba)[:3] * 0.8, geom.rgba[3]], **weight,
                )  # fmt: skip
                cut += 1
        if not cut:
            raise BadInput("injector 'uneven_friction': no object of this task is a box")


class Ripeness(Injector):
    """A riper fruit: its stiffness falls by up to 60 %, the pressure at which it bruises by up to 40 %."""

    name: ClassVar[str] = "ripeness"
    _FALLS: ClassVar[dict[str, float]] = {"stiffness": 0.6, "ripeness": 0.4}

    def parameters(self, family: ParameterFamily) -> ParameterFamily:
        """The same family with scaled supports."""
        if not set(self._FALLS) <= set(family.names):
            raise BadInput(
                f"injector 'ripeness': family {family.name!r} has no stiffness and ripeness; it is for soft_grasp"
            )

        def riper(p: Any) -> Any:
            factor = 1.0 - self.strength * self._FALLS.get(p.name, 0.0)
            return replace(p, low=p.low * factor, high=p.high * factor) if factor < 1 else p

        return replace(family, parameters=tuple(map(riper, family.parameters)))


class Directional(Injector):
    """A woven fabric: up to five times as stiff in bending along its grain as across it, at an angle that is drawn."""

    name: ClassVar[str] = "directional"

    def configure(self, settings: Any) -> Any:
        """The cloth's grain."""
        if not hasattr(settings, "grain"):
            raise BadInput("injector 'directional': this task has no fabric; it is for folding")
        return replace(settings, grain=5.0**self.strength, grain_angle=float(self.rng().uniform(0.0, np.pi)))


def _objects(stage: Stage, name: str) -> list[Any]:
    if not stage.objects:
        raise BadInput(f"injector {name!r}: this task has no rigid object that moves freely")
    return stage.objects


def _quickly(spec: mujoco.MjSpec) -> mujoco.MjModel:
    """A compiled copy for its inertias, without the signed distances of its meshes."""
    import mujoco

    copy = spec.copy()
    for mesh in copy.meshes:
        mesh.needsdf = False
    for geom in copy.geoms:
        if geom.type == mujoco.mjtGeom.mjGEOM_SDF:
            geom.type = mujoco.mjtGeom.mjGEOM_MESH
    return copy.compile()
