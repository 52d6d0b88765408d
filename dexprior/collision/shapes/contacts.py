"""Many worlds of one scene: bring the bodies to their first touch, and run MuJoCo through the contact."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from dexprior.collision.shapes.scene import (
    Body,
    CollisionScene,
    bodies,
    build_spec,
    table_sink,
    table_solref,
)
from dexprior.data.simulated_impacts import CONTACT_PARAMETERS
from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat

if TYPE_CHECKING:
    from mujoco.batch import Batch

__all__ = ["CUT_OFF", "MISSED", "NOT_FINITE", "SEPARATED", "ContactWorlds", "Touch"]

SEPARATED, CUT_OFF, MISSED, NOT_FINITE = range(4)
"""How a contact ended: apart again; still in contact at the time-out; never touched; diverged."""

_GAP = 1e-6  # [m] between bodies that "just touch"
_OVERLAP = 1e-5  # [m] from which on a start counts as interpenetrating
_NEWTON = 30  # steps along the ray; 6 are usual
_COMPONENTS = {"planar": [0, 1, 5], "sliding": [0, 1]}  # of [v omega], in the order of the joints
_CHUNK = 4  # substeps between two looks at the contacts; a body that left needs longer than that to return


@dataclass(frozen=True, kw_only=True)
class Touch:
    """Two bodies that just touch, in the world."""

    pose: Float[np.ndarray, "2 world 7"]
    """[x y z qw qx qy qz] of the object and of the other side."""
    point: Float[np.ndarray, "world 3"]
    """[m]"""
    normal: Float[np.ndarray, "world 3"]
    """Normal from the other side into the object."""
    found: Bool[np.ndarray, " world"]
    """False where the ray missed."""


class ContactWorlds:
    """`n` worlds of a scene; every call starts them afresh, so that a result depends on its arguments alone.

    Args:
        scene: the two bodies.
        n: worlds.
        threads: of MuJoCo's pool; no result depends on it.
    """

    def __init__(self, scene: CollisionScene, n: int, *, threads: int = 1) -> None:
        self.scene, self.n, self._threads = scene, n, threads
        self._distances = self._batch(distance=True)
        self._sensor = self._distances.bind("sensordata")  # holds zeros of what was computed before it was bound
        self.bodies: tuple[Body, Body] = bodies(scene, self._distances.model)

    def _batch(self, *, distance: bool) -> Batch:
        from mujoco.batch import Batch

        return Batch(build_spec(self.scene, distance=distance).compile(), nsim=self.n, nthread=self._threads)

    @cached_property
    def _contacts(self) -> Batch:
        return self._batch(distance=False)

    @property
    def target(self) -> int:
        """Which side the other one is moved to: 0 the object, 1 a fixed other side."""
        return 1 if self.bodies[1].motion == "fixed" else 0

    def touch(
        self,
        quat: Float[np.ndarray, "2 world 4"],
        aim: Float[np.ndarray, "world 3"],
        direction: Float[np.ndarray, "world 3"],
    ) -> Touch:
        """Move one body along a ray until the two just touch.

        The distance of convex bodies is convex along the ray, so that Newton's method comes to the touch from outside.

        Args:
            quat: orientation of both sides.
            aim: point inside the side `target`, whose centre is the origin, that the other's centre moves towards [m].
            direction: of that motion, unit vectors.
        """
        batch, sensor, target = self._distances, self._sensor, self.target
        mover = 1 - target
        pose = np.zeros((2, self.n, 7))
        pose[..., 3:] = quat
        away = np.full(self.n, 2.0 * self.bodies[target].radius + 2.0 * self.bodies[mover].radius)
        sign = 1.0 if mover == 0 else -1.0  # the normal points from the object to the other side, while they are apart
        todo = np.arange(self.n)
        gap: np.ndarray = np.full(self.n, np.inf)
        pose[mover, :, :3] = aim - away[:, None] * direction
        self._write_pose(batch, pose)
        for _ in range(_NEWTON):
            batch.forward(ids=todo)
            found = np.array(sensor[todo])
            gap[todo] = found[:, 0]
            apart = np.where(found[:, 0] < 0, -sign, sign)
            closing = np.maximum(apart * (found[:, 1:4] * direction[todo]).sum(axis=1), 1e-3)
            ahead = found[:, 0] - _GAP
            away[todo] -= ahead / closing
            todo = todo[(np.abs(ahead) > 0.01 * _GAP) & (away[todo] > -2.0 * self.bodies[target].radius)]
            if not len(todo):
                break
            pose[mover, todo, :3] = aim[todo] - away[todo, None] * direction[todo]
            self._write_pose(batch, pose)
        final = np.array(sensor)
        return Touch(
            pose=pose,
            point=(final[:, 4:7] + final[:, 7:10]) / 2,
            normal=-final[:, 1:4],
            found=np.abs(gap - _GAP) < 0.5 * _GAP,
        )

    def run(
        self,
        pose: Float[np.ndarray, "2 world 7"],
        twist: Float[np.ndarray, "2 world 6"],
        parameters: dict[str, Float[np.ndarray, " world"]],
        *,
        impedance: float | None,
        resolution: int = 12,
        timeout: float = 10.0,
    ) -> tuple[Float[np.ndarray, "2 world 6"], Int[np.ndarray, " world"]]:
        """Run MuJoCo from the touch to separation.

        Args:
            pose: of both sides, touching or up to some micrometres apart.
            twist: [v omega] of both sides at their centres of mass, world axes.
            parameters: one column per name of the scene's `parameters`, but for the damping exponent: `damping_ratio`
                is the one at the speed of the impact.
            impedance: of the contact, constant in depth; None leaves MuJoCo's default `solimp`.
            resolution: time steps per damping_ratio * time_constant.
            timeout: contacts that still hold after that many damping_ratio * time_constant are cut off.

        Returns:
            twist: after separation, or at the time-out; world axes.
            end: one of `SEPARATED`, `CUT_OFF`, `MISSED`, `NOT_FINITE`.

        Raises:
            BadInput: bodies that overlap at the start, or wrong shapes.
        """
        if pose.shape != (2, self.n, 7) or twist.shape != (2, self.n, 6):
            raise BadInput(
                f"pose {pose.shape} and twist {twist.shape}: expected (2, {self.n}, 7) and (2, {self.n}, 6), for "
                "object and other side"
            )
        self._refuse_overlap(pose)
        batch = self._contacts
        batch.reset()
        self._write_parameters(batch, parameters, impedance, resolution)
        pose = pose.copy()
        if self.scene.resting:
            pose[0, :, 2] -= table_sink(self.scene, parameters["ground_damping_ratio"])
        self._write_pose(batch, pose)
        self._write_twist(batch, pose, twist)
        touch = batch.bind("sensordata")
        touched, active = np.zeros(self.n, dtype=bool), np.ones(self.n, dtype=bool)
        for _ in range(int(np.ceil(timeout * resolution / _CHUNK))):
            ids = np.flatnonzero(active)
            batch.step(ids=ids, nstep=_CHUNK)
            touching = touch[ids, 0] > 0
            active[ids] = touching | ~touched[ids]
            touched[ids] |= touching
            if not active.any():
                break
        after = self._read_twist(batch)
        end = np.where(active, np.where(touched, CUT_OFF, MISSED), SEPARATED)
        end[~np.isfinite(after).all(axis=(0, 2))] = NOT_FINITE
        return after, end

    def _refuse_overlap(self, pose: np.ndarray) -> None:
        self._write_pose(self._distances, pose)
        self._distances.forward()
        distance = np.array(self._sensor)[:, 0]
        inside = distance < -_OVERLAP
        if inside.any():
            k = int(distance.argmin())
            raise BadInput(
                f"{int(inside.sum())} of {self.n} starts interpenetrate; in world {k} object and other side overlap by "
                f"{-distance[k] * 1000:.3g} mm. Move them apart to their first touch, e.g. with `touch`."
            )

    def _write_parameters(
        self, batch: Batch, parameters: dict[str, np.ndarray], impedance: float | None, resolution: int
    ) -> None:
        friction, damping, time_constant, impratio = (parameters[name] for name in CONTACT_PARAMETERS)
        pair = batch.model.pair("contact").id
        batch.expand("opt.timestep")[:] = damping * time_constant / resolution
        batch.expand("opt.impratio")[:] = impratio
        slip, solref = batch.expand("pair_friction"), batch.expand("pair_solref")
        slip[:, pair, :2] = friction[:, None]
        solref[:, pair] = np.stack([time_constant, damping], axis=1)
        if "torsional_friction" in parameters:
            slip[:, pair, 2] = parameters["torsional_friction"]
        if impedance is not None:
            batch.expand("pair_solimp")[:, pair] = [impedance, impedance, 1e-5, 0.5, 2.0]
        if self.scene.resting:
            table = batch.model.pair("table").id
            slip[:, table, :2] = parameters["ground_friction"][:, None]
            slip[:, table, 2] = parameters["ground_torsional_friction"]
            solref[:, table] = table_solref(parameters["ground_damping_ratio"])

    def _write_pose(self, batch: Batch, pose: np.ndarray) -> None:
        for body, value in zip(self.bodies, pose):
            if body.motion == "planar":
                yaw = 2.0 * np.arctan2(value[:, 6], value[:, 3])
                batch.qpos[:, body.qpos] = np.column_stack([value[:, :2], yaw])
            elif body.motion == "sliding":
                batch.qpos[:, body.qpos] = value[:, :2]
            elif body.motion != "fixed":
                batch.qpos[:, body.qpos] = value

    def _write_twist(self, batch: Batch, pose: np.ndarray, twist: np.ndarray) -> None:
        for body, value, at in zip(self.bodies, twist, pose):
            if body.motion in _COMPONENTS:
                batch.qvel[:, body.qvel] = value[:, _COMPONENTS[body.motion]]
            elif body.motion != "fixed":
                turn = matrix_from_quat(at[:, 3:])
                local = np.einsum("nji,nj->ni", turn, value[:, 3:])
                batch.qvel[:, body.qvel] = np.concatenate([value[:, :3], local], axis=1)

    def _read_twist(self, batch: Batch) -> np.ndarray:
        twist = np.zeros((2, self.n, 6))
        for body, value in zip(self.bodies, twist):
            if body.motion in _COMPONENTS:
                value[:, _COMPONENTS[body.motion]] = batch.qvel[:, body.qvel]
            elif body.motion != "fixed":
                turn = matrix_from_quat(np.array(batch.qpos[:, body.qpos][:, 3:7]))
                velocity = np.array(batch.qvel[:, body.qvel])
                value[:, :3] = velocity[:, :3]
                value[:, 3:] = np.einsum("nij,nj->ni", turn, velocity[:, 3:])
        return twist
