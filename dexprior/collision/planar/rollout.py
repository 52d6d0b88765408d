"""Strikes answered by a collision model, and the slide that follows: thousands at once, without an engine.

The rod is part of the contact: with the velocity of the object relative to the rod, w = (v - v_rod, omega), an impulse
at the contact changes w by (M_object^-1 + M_rod^-1) J^T p. The model sees w and that sum; what it answers is shared
between the two by their masses. The table's friction during the contact is left to the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dexprior.collision.planar.sliding import SlideConfig, slide_to_rest
from dexprior.errors import BadInput
from dexprior.types.collision import CollisionModel, ContactGeometry
from dexprior.worlds.pushing import PushingConfig, Strikes, rod_at_touch

__all__ = ["PlanarStriker", "SlidingStriker", "object_velocity", "rest_after", "strike_contact"]


def strike_contact(
    config: PushingConfig, pose: Float[np.ndarray, "strike 3"], strikes: Strikes
) -> tuple[Float[np.ndarray, "strike 3"], ContactGeometry]:
    """Velocity of the object relative to the rod just before the touch, and how the contact couples to it.

    Returns:
        relative: [vx vy omega] of the object at rest, seen from the rod.
        geometry: rows normal (from the rod into the object) and tangent (the normal turned counter-clockwise); the
            inverse inertia is the object's plus the rod's.
    """
    axis, velocity, outward = rod_at_touch(config, pose, strikes)
    normal = -outward
    tangent = np.stack([-normal[:, 1], normal[:, 0]], axis=1)
    arm = axis + config.rod_radius * normal - np.asarray(pose)[:, :2]  # from the centre of mass to the contact

    def row(direction: np.ndarray) -> np.ndarray:
        return np.column_stack([direction, arm[:, 0] * direction[:, 1] - arm[:, 1] * direction[:, 0]])

    light = 1.0 / config.mass + 1.0 / config.rod_mass
    inverse = np.diag([light, light, 1.0 / config.inertia])
    geometry = ContactGeometry(
        jacobian=np.stack([row(normal), row(tangent)], axis=1),
        inverse_inertia=np.broadcast_to(inverse, (len(strikes), 3, 3)),
    )
    return np.column_stack([-velocity, np.zeros(len(strikes))]), geometry


def object_velocity(
    config: PushingConfig, before: Float[np.ndarray, "strike 3"], after: Float[np.ndarray, "strike 3"]
) -> Float[np.ndarray, "strike 3"]:
    """The struck object's [vx vy omega] from its velocities relative to the rod before and after the contact."""
    share = config.rod_mass / (config.mass + config.rod_mass)
    return (after - before) * np.array([share, share, 1.0])


@dataclass(frozen=True, kw_only=True)
class SlidingStriker(ABC):
    """Strikes objects at rest, then lets them slide to rest; a `StrikeSimulator`."""

    config: PushingConfig
    table_friction: float | None = None
    """Coulomb coefficient on the table, where it is not the world's."""
    torsional_friction: float | None = None
    """[m], where it is not the world's."""
    contact_time: float | None = None
    """How long the rod touches [s], during which the object moves at half its final velocity; None estimates it as
    pi * damping ratio * time constant."""
    slide: SlideConfig | None = None
    """Step sizes; None takes the defaults."""

    @abstractmethod
    def velocity_after(self, pose: Float[np.ndarray, "strike 3"], strikes: Strikes) -> Float[np.ndarray, "strike 3"]:
        """Object's [vx vy omega] right after it left the rod."""

    def __call__(self, pose: Float[np.ndarray, "strike 3"], strikes: Strikes) -> Float[np.ndarray, "strike 3"]:
        """Poses [x y yaw] at which the struck objects come to rest."""
        return rest_after(
            self.config,
            pose,
            self.velocity_after(pose, strikes),
            table_friction=self.table_friction,
            torsional_friction=self.torsional_friction,
            contact_time=self.contact_time,
            slide=self.slide,
        )


@dataclass(frozen=True, kw_only=True)
class PlanarStriker(SlidingStriker):
    """Its collision model answers the impact."""

    model: CollisionModel
    """Reads two contact rows."""
    phi: Float[np.ndarray, " parameter"]
    """Its parameters, shared by all strikes."""

    def __post_init__(self) -> None:
        phi = np.asarray(self.phi, dtype=np.float64)
        names = self.model.parameters
        if phi.shape != (len(names),):
            raise BadInput(f"PlanarStriker: phi has shape {phi.shape}, expected ({len(names)},): {', '.join(names)}")
        if self.model.rows != 2:
            raise BadInput(f"PlanarStriker: the model reads {self.model.rows} contact rows, a plane has 2")
        object.__setattr__(self, "phi", phi)

    def velocity_after(self, pose: Float[np.ndarray, "strike 3"], strikes: Strikes) -> Float[np.ndarray, "strike 3"]:
        """Object's [vx vy omega] right after it left the rod."""
        before, geometry = strike_contact(self.config, pose, strikes)
        after, _ = self.model.predict(before, geometry, np.tile(self.phi, (len(strikes), 1)))
        return object_velocity(self.config, before, after)


def rest_after(
    world: PushingConfig,
    pose: Float[np.ndarray, "strike 3"],
    velocity: Float[np.ndarray, "strike 3"],
    *,
    table_friction: float | None,
    torsional_friction: float | None,
    contact_time: float | None,
    slide: SlideConfig | None = None,
) -> Float[np.ndarray, "strike 3"]:
    """Poses [x y yaw] at which objects come to rest that a strike at `pose` gave a velocity; None as in the striker."""
    touch = np.pi * world.rod_damping_ratio * world.time_constant if contact_time is None else contact_time
    final, _ = slide_to_rest(
        world,
        np.asarray(pose) + touch / 2 * velocity,
        velocity,
        friction=table_friction,
        torsional_friction=torsional_friction,
        slide=slide,
    )
    return final
