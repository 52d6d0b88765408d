"""The striking world in Bullet: the same bodies, another engine, contact parameters of its own.

Bullet's rigid contacts lose their restitution as the time step falls (a contact is met while a gap is left), so that
rod and object meet through a spring and a damper, which converge. Table and object are rigid bodies in maximal
coordinates: only between those does Bullet lay friction against the slip, whatever the object's orientation. A strike
is simulated from a world that is built afresh, so that its outcome is a function of the request alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from dexprior import extras
from dexprior.config import Gt, config
from dexprior.envs.reality.pushing.recording import CaptureConfig, Recordings
from dexprior.errors import BadInput
from dexprior.worlds.pushing import GRAVITY, PushingConfig, Strikes, rod_at_touch

__all__ = ["SETTINGS", "BulletTable", "TableSetting", "Trajectory"]

_LIP = 2e-3  # [m] height over which the prism narrows to its supports, which alone touch the table
_NO_MASS = 1e-6  # [kg] of a link that Bullet wants a mass for
_MARGIN = 2e-4  # [m] by which Bullet inflates a convex hull; with less, the place of a contact scatters by a millimetre
_GAP = 1e-3  # [m] the rod starts from the object
_SETTLE = 0.02  # [s] that the object stands before it is struck
_AWAY = 50.0  # [m] where a retracted rod is put
_LONGEST_TOUCH = 0.05  # [s] after which the rod is retracted, as in the simulated world
_TIMEOUT = 3.0  # [s]
_AT_REST = 1e-3  # [m/s] of a point at the radius of gyration
_REST_FRAMES = 20  # frames at rest that are averaged
_STILL = 0.02  # [s] below that speed before an object counts as at rest
_ROLLING = 1e-9  # [m] Bullet looks at the friction against spin only where there is some against rolling


@config
class TableSetting:
    """One material on one table."""

    stiffness: Annotated[float, Gt(0)]
    """Stiffness of the contact between rod and object [N/m]."""
    damping: Annotated[float, Gt(0)]
    """Damping of the same contact [N s/m]."""
    rod_friction: Annotated[float, Gt(0)]
    """Coulomb coefficient between rod and object."""
    table_friction: Annotated[float, Gt(0)]
    """Coulomb coefficient between object and table."""
    spinning_friction: float = 0.0
    """Bullet's coefficient of resistance to spin at each support [m]."""
    strike_timestep: Annotated[float, Gt(0)] = 1 / 32000
    """While the rod is there [s]."""
    slide_timestep: Annotated[float, Gt(0)] = 1 / 2000
    """Afterwards [s]."""
    iterations: int = 60
    """Iterations of Bullet's solver, per step."""


def _settings() -> tuple[TableSetting, ...]:
    materials = ((8e4, 110.0, 0.45), (2e5, 90.0, 0.25), (6e5, 70.0, 0.12))
    tables = ((0.22, 0.0), (0.38, 0.003))
    return tuple(
        TableSetting(
            stiffness=stiffness,
            damping=damping,
            rod_friction=rod_friction,
            table_friction=table_friction,
            spinning_friction=spinning_friction,
        )
        for table_friction, spinning_friction in tables
        for stiffness, damping, rod_friction in materials
    )


SETTINGS = _settings()
"""Rubber, wood and steel on a smooth table, then on a rough one. For tables only: whoever fits must not read it."""


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """What happened in one strike, without a camera."""

    velocity: Float[np.ndarray, " 3"]
    """Object's [vx vy omega] at separation."""
    rod_velocity: Float[np.ndarray, " 2"]
    """[m/s] at separation."""
    touch: Float[np.ndarray, " 2"]
    """First and last contact [s]."""
    pose: Float[np.ndarray, "step 3"]
    """Object after each step of the slide and of the strike, yaw counted on."""
    t: Float[np.ndarray, " step"]
    """[s]"""


class BulletTable:
    """A table that takes strikes one at a time; use as a context manager.

    Args:
        world: shapes, sizes and masses; its contact parameters are not read.
        setting: what the contacts are like.
        capture: the motion capture.
        truth: whether recordings hold the velocities at separation, for scoring.
        seed: of the noise.

    Raises:
        MissingExtra: PyBullet is not installed.
        BadInput: a table on which this object tips over.
    """

    def __init__(
        self,
        world: PushingConfig,
        setting: TableSetting,
        *,
        capture: CaptureConfig | None = None,
        truth: bool = False,
        seed: int = 0,
    ) -> None:
        self._bullet = extras.require("pybullet")
        if setting.table_friction > world.tipping_friction:
            raise BadInput(
                f"table: friction {setting.table_friction} is above {world.tipping_friction:.3f}, where this "
                f"{world.shape} tips over instead of sliding"
            )
        self.world, self.setting, self.capture = world, setting, capture or CaptureConfig()
        self.truth, self._seed = truth, seed
        self._client = self._bullet.connect(self._bullet.DIRECT)

    def close(self) -> None:
        """End the engine; again does nothing."""
        if self._client >= 0:
            self._bullet.disconnect(physicsClientId=self._client)
            self._client = -1

    def __enter__(self) -> BulletTable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def record(
        self, pose: Float[np.ndarray, "strike 3"], strikes: Strikes, *, seed: int = 0, first: int = 0
    ) -> Recordings:
        """Strike objects that were placed at rest, and record them with noise.

        Args:
            pose: [x y yaw] of each.
            strikes: one each.
            seed: of the noise, with the table's own and the strike's number.
            first: number of the first strike.

        Raises:
            BadInput: see `rod_at_touch`; a rod that misses.
        """
        pose = np.asarray(pose, dtype=np.float64)
        rod_at_touch(self.world, pose, strikes)
        capture, tracks, touches, finals, told = self.capture, [], [], [], []
        noise = np.array([capture.position_noise, capture.position_noise, capture.angle_noise])
        for k in range(len(strikes)):
            path = self.simulate(pose[k], _one(strikes, k))
            rng = np.random.default_rng([self._seed, seed, first + k])
            frames = np.arange(0.0, path.t[-1], 1.0 / capture.rate)
            track = np.stack([np.interp(frames, path.t, column) for column in path.pose.T], axis=1)
            tracks.append(track + noise * rng.standard_normal(track.shape))
            rest = path.pose[-1] + noise * rng.standard_normal((_REST_FRAMES, 3))
            touches.append(path.touch)
            finals.append(rest.mean(axis=0))
            told.append(path.velocity)
        longest = max(map(len, tracks), default=0)
        track = np.full((len(strikes), longest, 3), np.nan)
        for row, found in zip(track, tracks):
            row[: len(found)] = found
        return Recordings(
            strikes=strikes,
            pose=pose,
            track=track,
            t=np.arange(longest) / capture.rate,
            touch=np.array(touches).reshape(-1, 2),
            final_pose=np.array(finals).reshape(-1, 3),
            velocity=np.array(told).reshape(-1, 3) if self.truth else None,
        )

    def simulate(self, pose: Float[np.ndarray, " 3"], strike: Strikes) -> Trajectory:
        """One strike, without a camera; a rod that still pushes after 50 ms is retracted.

        Raises:
            BadInput: the rod misses.
        """
        axis, velocity, normal = rod_at_touch(self.world, np.asarray(pose)[None], strike)
        scene = _Scene(self._bullet, self._client, self.world, self.setting, pose)
        dt = self.setting.strike_timestep
        scene.wait(_SETTLE)
        t, poses, times = 0.0, [scene.pose()], [0.0]
        scene.place_rod(axis[0] + velocity[0] * _GAP / (velocity[0] @ normal[0]), velocity[0])
        scene.set_timestep(dt)
        first = last = -1.0
        while first < 0 or t - first < _LONGEST_TOUCH:
            force = scene.step()
            t += dt
            poses.append(scene.pose())
            times.append(t)
            if force > 0:
                first, last = (t if first < 0 else first), t
            elif first >= 0:
                break
            elif t > 0.1 + 4 * _GAP / float(strike.speed[0]):
                raise BadInput(f"table: the rod missed the object at {pose} (alpha = {strike.alpha[0]:.3f})")
        departure, rod = scene.velocity(), scene.rod_velocity()
        scene.place_rod(np.full(2, _AWAY), np.zeros(2))
        dt = self.setting.slide_timestep
        scene.set_timestep(dt)
        scale, still = np.array([1.0, 1.0, self.world.footprint.gyration]), 0.0
        while still < _STILL and t < _TIMEOUT:
            scene.step()
            t += dt
            still = still + dt if np.linalg.norm(scale * scene.velocity()) < _AT_REST else 0.0
            poses.append(scene.pose())
            times.append(t)
        path = np.array(poses)
        path[:, 2] = np.unwrap(path[:, 2])
        path[:, 2] += 2 * np.pi * np.round((pose[2] - path[0, 2]) / (2 * np.pi))
        return Trajectory(
            velocity=departure, rod_velocity=rod, touch=np.array([first, last]), pose=path, t=np.array(times)
        )


def _one(strikes: Strikes, k: int) -> Strikes:
    return Strikes(alpha=strikes.alpha[[k]], speed=strikes.speed[[k]], beta=strikes.beta[[k]])


def _square(contour: np.ndarray, axis: int) -> float:
    """Mean square of one coordinate over a counter-clockwise polygon [m^2]."""
    a, b = contour, np.roll(contour, -1, axis=0)
    cross = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    p, q = a[:, axis], b[:, axis]
    return float((cross * (p * p + p * q + q * q)).sum() / (6 * cross.sum()))


class _Scene:
    """Table, object at `pose` and rod, in an engine that forgets what was there before."""

    def __init__(self, bullet: Any, client: int, world: PushingConfig, setting: TableSetting, pose: np.ndarray) -> None:
        self._bullet, self._options = bullet, {"physicsClientId": client}
        b, on = bullet, self._options
        half, shape = world.height / 2, world.footprint
        b.resetSimulation(**on)
        b.setGravity(0, 0, -GRAVITY, **on)
        b.setPhysicsEngineParameter(
            numSolverIterations=setting.iterations, numSubSteps=0, solverResidualThreshold=0.0, **on
        )
        self.set_timestep(setting.slide_timestep)

        table = b.createMultiBody(0, b.createCollisionShape(b.GEOM_PLANE, **on), useMaximalCoordinates=1, **on)
        b.changeDynamics(
            table,
            -1,
            lateralFriction=setting.table_friction,
            spinningFriction=setting.spinning_friction,
            rollingFriction=_ROLLING if setting.spinning_friction > 0 else 0.0,
            restitution=0.0,
            **on,
        )
        levels = ((shape.contour, half), (shape.contour, _LIP - half), (shape.supports, -half))
        vertices = np.concatenate([np.insert(outline, 2, z, axis=1) for outline, z in levels])
        hull = b.createCollisionShape(b.GEOM_MESH, vertices=vertices.tolist(), **on)
        turned = b.getQuaternionFromEuler([0.0, 0.0, float(pose[2])])
        self._object = b.createMultiBody(
            world.mass, hull, -1, [pose[0], pose[1], half], turned, useMaximalCoordinates=1, **on
        )
        inertia = [*(world.mass * (_square(shape.contour, k) + world.height**2 / 12) for k in (1, 0)), world.inertia]
        free = {"linearDamping": 0.0, "angularDamping": 0.0, "rollingFriction": 0.0}
        b.changeDynamics(
            self._object,
            -1,
            mass=world.mass,  # without it, Bullet forgets the mass when it is told the inertia
            localInertiaDiagonal=inertia,
            lateralFriction=1.0,  # Bullet multiplies the coefficients of the two bodies
            spinningFriction=0.0,
            restitution=0.0,
            collisionMargin=_MARGIN,
            **free,
            **on,
        )
        ball = b.createCollisionShape(b.GEOM_SPHERE, radius=world.rod_radius, **on)
        origin, upright = [[0.0, 0.0, 0.0]] * 2, [[0.0, 0.0, 0.0, 1.0]] * 2
        self._rod = b.createMultiBody(  # slides along x, then y
            0,
            basePosition=[0.0, 0.0, half],
            linkMasses=[_NO_MASS, world.rod_mass],
            linkCollisionShapeIndices=[-1, ball],
            linkVisualShapeIndices=[-1, -1],
            linkPositions=origin,
            linkOrientations=upright,
            linkInertialFramePositions=origin,
            linkInertialFrameOrientations=upright,
            linkParentIndices=[0, 1],
            linkJointTypes=[b.JOINT_PRISMATIC] * 2,
            linkJointAxis=[[1, 0, 0], [0, 1, 0]],
            **on,
        )
        for joint in (0, 1):
            b.setJointMotorControl2(self._rod, joint, b.VELOCITY_CONTROL, force=0.0, **on)
            b.changeDynamics(
                self._rod,
                joint,
                jointDamping=0.0,
                jointLowerLimit=1.0,  # lower above upper: no limits
                jointUpperLimit=-1.0,
                maxJointVelocity=1e3,
                **free,
                **on,
            )
        b.changeDynamics(
            self._rod,
            1,
            lateralFriction=setting.rod_friction,
            spinningFriction=0.0,
            restitution=0.0,
            contactStiffness=setting.stiffness,
            contactDamping=setting.damping,
            **on,
        )
        self.place_rod(np.full(2, _AWAY), np.zeros(2))

    def set_timestep(self, dt: float) -> None:
        self._dt = dt
        self._bullet.setPhysicsEngineParameter(fixedTimeStep=dt, **self._options)

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / self._dt)):
            self._bullet.stepSimulation(**self._options)

    def place_rod(self, position: np.ndarray, velocity: np.ndarray) -> None:
        for joint in (0, 1):
            self._bullet.resetJointState(
                self._rod, joint, float(position[joint]), float(velocity[joint]), **self._options
            )

    def step(self) -> float:
        """Advance by one time step; the normal force between rod and object [N]."""
        self._bullet.stepSimulation(**self._options)
        contacts = self._bullet.getContactPoints(self._object, self._rod, **self._options)
        return sum(contact[9] for contact in contacts)

    def pose(self) -> np.ndarray:
        position, quaternion = self._bullet.getBasePositionAndOrientation(self._object, **self._options)
        return np.array([*position[:2], self._bullet.getEulerFromQuaternion(quaternion)[2]])

    def velocity(self) -> np.ndarray:
        linear, angular = self._bullet.getBaseVelocity(self._object, **self._options)
        return np.array([*linear[:2], angular[2]])

    def rod_velocity(self) -> np.ndarray:
        return np.array([self._bullet.getJointState(self._rod, joint, **self._options)[1] for joint in (0, 1)])
