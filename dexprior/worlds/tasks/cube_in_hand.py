"""A cube is turned in the hand: on an open palm, by the fingers alone. A rigid control with many contacts.

The angle counts against the palm, so that an arm which turns the hand gains nothing.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, Le, config
from dexprior.errors import BadInput
from dexprior.families import Parameter, ParameterFamily, fixed_outside
from dexprior.geometry.rotations import (
    quat_conjugate,
    quat_from_matrix,
    quat_from_yaw,
    quat_multiply,
    quat_rotate,
    wrap_angle,
    yaw_of,
)
from dexprior.robots.kinematics import ChainKinematics
from dexprior.robots.rigs import add_rig
from dexprior.worlds.measures import tolerance
from dexprior.worlds.tasks.base import Layout, Scenes, Task, Truth
from dexprior.worlds.tasks.families import mass_of, pads, sensors
from dexprior.worlds.tasks.parts import Part, box_surface
from dexprior.worlds.tasks.scene import SURFACE, VISUAL, box_points, place_points, stage
from dexprior.worlds.tasks.view import View

__all__ = ["CubeInHand", "CubeInHandConfig"]


@config
class CubeInHandConfig:
    """Sizes and limits."""

    arm: str = "stand"
    """Name of what carries the hand, palm up."""
    hand: str = "claw4"
    """Name of the hand; its site `tcp` lies half an edge of the cube over the palm."""
    half_size: Annotated[float, Ge(0.015), Le(0.03)] = 0.025
    """Half an edge of the cube [m]."""
    mass: Annotated[float, Gt(0)] = 0.06
    """Mass of the cube [kg]."""
    least_turn: Annotated[float, Gt(0)] = 60.0
    """Smallest angle that is asked for, in either direction [degrees]."""
    most_turn: Annotated[float, Gt(0)] = 120.0
    """Largest angle that is asked for [degrees]."""
    reached: Annotated[float, Gt(0)] = 6.0
    """Remaining angle that counts as reached [degrees]."""
    timestep: Annotated[float, Gt(0), Le(0.01)] = 0.004
    """Simulation step [s]."""

    def __post_init__(self) -> None:
        if not self.reached < self.least_turn <= self.most_turn < 180.0:
            raise BadInput(
                f"CubeInHandConfig: needs reached < least_turn <= most_turn < 180 degrees, got {self.reached}, "
                f"{self.least_turn} and {self.most_turn}"
            )


_TRAINING = ParameterFamily(
    "cube_in_hand-training",
    (
        Parameter(name="cube_friction", unit="1", low=0.3, high=0.6, target="geom/cube/friction/0"),
        *pads(friction=(0.7, 1.2), timeconst=(0.008, 0.02)),
        mass_of("cube", 0.7, 1.4),
        *sensors(wrench=0.3),
    ),
)
_CENTRED = 0.015  # [m] how far from the palm's axis a cube may end
_UPRIGHT, _TOPPLED = np.deg2rad(8.0), np.deg2rad(60.0)
_QUIET = 0.5  # [rad/s]
_MARK_POINTS = 16  # of the cloud


@dataclass(frozen=True)
class CubeInHand(Task):
    """See the module."""

    config: CubeInHandConfig = field(default_factory=CubeInHandConfig)

    name: ClassVar[str] = "cube_in_hand"
    horizon: ClassVar[float] = 6.0
    family: ClassVar[ParameterFamily] = _TRAINING
    reality: ClassVar[ParameterFamily] = fixed_outside(
        "cube_in_hand-reality",
        _TRAINING,
        {
            "cube_friction": 0.8,
            "pad_friction": 0.5,
            "pad_timeconst": 0.03,
            "cube_mass": 1.6,
            "wrench_noise": 0.5,
            "cloud_noise": 0.003,
        },
    )
    weights: ClassVar[dict[str, float]] = {"turn": 0.5, "centred": 0.15, "upright": 0.15, "grasp": 0.1, "still": 0.1}

    @property
    def parts(self) -> tuple[Part, ...]:
        """The cube."""
        surface = functools.partial(box_surface, *[self.config.half_size] * 3)
        return (Part(name="cube", body="cube", moves=True, surface=surface),)

    def layout(self) -> Layout:
        """A hand, the cube on it, and the mark on the palm that the cube's green side shall point at."""
        import mujoco

        c = self.config
        spec = stage(self.name, timestep=c.timestep)
        cube = spec.worldbody.add_body(name="cube", pos=self._palm[:3])
        cube.add_freejoint(name="cube")
        cube.add_geom(
            name="cube", type=mujoco.mjtGeom.mjGEOM_BOX, size=[c.half_size] * 3, mass=c.mass, condim=4,
            friction=[0.45, 0.01, 0.0001], rgba=[0.85, 0.4, 0.15, 1], **SURFACE,
        )  # fmt: skip
        cube.add_geom(
            name="side", type=mujoco.mjtGeom.mjGEOM_BOX, size=[c.half_size / 3, c.half_size / 3, 0.0005],
            pos=[c.half_size * 0.6, 0.0, c.half_size], rgba=[0.2, 0.6, 0.3, 1], **VISUAL,
        )  # fmt: skip
        goal = spec.worldbody.add_body(name="goal", mocap=True)
        goal.add_geom(
            name="goal", type=mujoco.mjtGeom.mjGEOM_BOX, size=self._mark_half, pos=self._mark, rgba=[0.2, 0.6, 0.3, 1],
            **VISUAL,
        )  # fmt: skip
        rig = add_rig(spec, c.arm, c.hand)
        return Layout(spec=spec, rigs=(rig,))

    @property
    def _palm(self) -> Float[np.ndarray, " 7"]:
        return _palm_at_home(self.config.arm, self.config.hand)

    @property
    def _mark(self) -> Float[np.ndarray, " 3"]:
        """Middle of the mark, in the frame of `tcp` turned by the target."""
        return np.array([1.7 * self.config.half_size, 0.0, -self.config.half_size])

    @property
    def _mark_half(self) -> Float[np.ndarray, " 3"]:
        return np.array([0.25, 0.25, 0.04]) * self.config.half_size

    def sample(self, rng: np.random.Generator, n: int) -> Scenes:
        """`offset` of the cube from the palm's axis (n, 2) [m], its `yaw` and the `turn` that is asked for [rad]."""
        c = self.config
        size = np.deg2rad(rng.uniform(c.least_turn, c.most_turn, n))
        return {
            "offset": rng.uniform(-0.004, 0.004, (n, 2)),
            "yaw": rng.uniform(-np.pi / 9, np.pi / 9, n),
            "turn": size * rng.choice([-1.0, 1.0], n),
        }

    def place(self, view: View, ids: np.ndarray, scenes: Scenes) -> None:
        """The cube on the palm, and the mark."""
        palm = np.tile(self._palm, (len(ids), 1))
        lift = np.column_stack([scenes["offset"], np.zeros(len(ids))])
        centre = palm[:, :3] + quat_rotate(palm[:, 3:], lift)
        target = scenes["yaw"] + scenes["turn"]
        view.pose("cube")[ids] = np.column_stack([centre, quat_multiply(palm[:, 3:], quat_from_yaw(scenes["yaw"]))])
        view.place_mocap(ids, "goal", np.column_stack([palm[:, :3], quat_multiply(palm[:, 3:], quat_from_yaw(target))]))
        self._target(view)[ids] = target

    def measure(self, view: View) -> Truth:
        """Also, against the palm: `angle` of the cube about the palm's normal and the `error` that remains [rad] (n,),
        `offset` of its centre from `tcp` (n, 3) [m], its `tilt` [rad] and `spin` [rad/s] (n,)."""
        rig = view.rigs[0]
        pose, velocity = view.pose("cube").copy(), view.velocity("cube")
        to_palm = quat_conjugate(rig.tcp[:, 3:])
        turned = quat_multiply(to_palm, pose[:, 3:])
        angle = yaw_of(turned)
        up = quat_rotate(turned, np.broadcast_to([0.0, 0.0, 1.0], (view.n, 3)))
        return {
            "object": pose,
            **rig.grasp(pose[:, :3], velocity[:, :3]),
            "angle": angle,
            "error": wrap_angle(self._target(view) - angle),
            "offset": quat_rotate(to_palm, pose[:, :3] - rig.tcp[:, :3]),
            "tilt": np.arccos(np.clip(up[:, 2], -1.0, 1.0)),
            "spin": np.linalg.norm(quat_rotate(pose[:, 3:], velocity[:, 3:]) - rig.twist[:, 3:], axis=1),
            "tool": rig.tcp[:, :3],
        }

    def cloud(self, view: View, truth: Truth) -> Float[np.ndarray, "n point 3"]:
        """Points on the cube's faces, then on the mark."""
        c = self.config
        cube = place_points(box_points(np.full(3, c.half_size), self.points - _MARK_POINTS), truth["object"])
        mark = self._mark + box_points(self._mark_half, _MARK_POINTS)
        tcp = view.rigs[0].tcp
        aim = np.column_stack([tcp[:, :3], quat_multiply(tcp[:, 3:], quat_from_yaw(self._target(view)))])
        return np.concatenate([cube, place_points(mark, aim)], axis=1)

    def terms(self, truth: Truth) -> dict[str, Float[np.ndarray, " n"]]:
        """Turned, centred on the palm, upright, grasped, held still."""
        c = self.config
        held = truth["held"].astype(np.float64)
        return {
            "turn": tolerance(np.abs(truth["error"]), bounds=(0.0, np.deg2rad(c.reached)), margin=np.deg2rad(90.0)),
            "centred": tolerance(np.linalg.norm(truth["offset"], axis=1), bounds=(0.0, 0.005), margin=0.03),
            "upright": tolerance(truth["tilt"], bounds=(0.0, 0.05), margin=0.5),
            "grasp": held,
            "still": tolerance(truth["slip"], bounds=(0.0, 0.002), margin=0.02) * held,
        }

    def success(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """Turned to the mark, on the palm's middle, upright and at rest against the palm."""
        turned = np.abs(truth["error"]) <= np.deg2rad(self.config.reached)
        centred = np.linalg.norm(truth["offset"], axis=1) <= _CENTRED
        return turned & centred & (truth["tilt"] <= _UPRIGHT) & (truth["spin"] <= _QUIET)

    def failure(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """Dropped: off the palm, or toppled."""
        sideways = np.linalg.norm(truth["offset"][:, :2], axis=1)
        fallen = (sideways > 2.0 * self.config.half_size) | (truth["offset"][:, 2] < -self.config.half_size)
        return fallen | (truth["tilt"] > _TOPPLED)

    def privileged(self, truth: Truth) -> Float[np.ndarray, "n 8"]:
        """The cube's pose and the angle that remains."""
        return np.column_stack([truth["object"], truth["error"]])

    def _target(self, view: View) -> Float[np.ndarray, " n"]:
        """Angle against the palm that is asked for in each world [rad]."""
        return view.remember("target", np.zeros(view.n))


@functools.cache
def _palm_at_home(arm: str, hand: str) -> Float[np.ndarray, " 7"]:
    """Pose of the site `tcp` of a hand on an arm at home.

    Raises:
        BadInput: its palm does not look up.
    """
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    rig = add_rig(spec, arm, hand)
    p, R, _ = ChainKinematics(spec.compile(), rig.arm_joints, rig.name("tcp")).forward(rig.home[None])
    if R[0, 2, 2] < 0.99:
        raise BadInput(f"cube_in_hand: arm {arm!r} at home does not hold {hand!r} palm up; 'stand' does")
    pose = np.concatenate([p[0], quat_from_matrix(R)[0]])
    pose.setflags(write=False)
    return pose
