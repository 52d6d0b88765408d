"""Rigid pick-and-place: a cube is lifted and set down on a mark. A control: nothing in it hangs on fine contact."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, Le, config
from dexprior.families import Parameter, ParameterFamily, fixed_outside
from dexprior.robots.rigs import add_rig
from dexprior.worlds.measures import tolerance
from dexprior.worlds.tasks.base import Layout, Scenes, Task, Truth
from dexprior.worlds.tasks.families import mass_of, pads, sensors
from dexprior.worlds.tasks.parts import Part, box_surface, turned_surface
from dexprior.worlds.tasks.scene import SURFACE, VISUAL, box_points, place_points, stage, stiffen, upright
from dexprior.worlds.tasks.view import View

__all__ = ["PickPlace", "PickPlaceConfig"]


@config
class PickPlaceConfig:
    """Sizes and limits."""

    arm: str = "arm7"
    """Name of the arm."""
    end_effector: str = "parallel"
    """Name of the gripper."""
    half_size: Annotated[float, Ge(0.005), Le(0.035)] = 0.02
    """Half an edge of the cube [m]."""
    mass: Annotated[float, Gt(0)] = 0.08
    """Mass of the cube [kg]."""
    reached: Annotated[float, Gt(0)] = 0.015
    """Distance to the mark that counts as reached [m]."""
    timestep: Annotated[float, Gt(0), Le(0.01)] = 0.004
    """Simulation step [s]."""


_TRAINING = ParameterFamily(
    "pick_place-training",
    (
        Parameter(name="cube_friction", unit="1", low=0.4, high=0.9, target="geom/cube/friction/0"),
        *pads(friction=(0.7, 1.2), timeconst=(0.008, 0.02)),
        mass_of("cube", 0.7, 1.4),
        *sensors(wrench=0.3),
    ),
)

_THIN = 0.0005  # [m] half the thickness of the mark


@dataclass(frozen=True)
class PickPlace(Task):
    """See the module."""

    config: PickPlaceConfig = field(default_factory=PickPlaceConfig)

    name: ClassVar[str] = "pick_place"
    horizon: ClassVar[float] = 5.0
    family: ClassVar[ParameterFamily] = _TRAINING
    reality: ClassVar[ParameterFamily] = fixed_outside(
        "pick_place-reality",
        _TRAINING,
        {
            "cube_friction": 0.3,
            "pad_friction": 0.5,
            "pad_timeconst": 0.03,
            "cube_mass": 1.6,
            "wrench_noise": 0.5,
            "cloud_noise": 0.003,
        },
    )
    weights: ClassVar[dict[str, float]] = {"reach": 0.15, "grasp": 0.15, "lift": 0.2, "carry": 0.4, "still": 0.1}
    struck: ClassVar[tuple[tuple[str, str], ...]] = (("cube", "table"),)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The block, and the mark on the table."""
        block = partial(box_surface, *[self.config.half_size] * 3)
        disc = partial(turned_surface, ((0.0, self.config.reached), (-_THIN, _THIN)))
        return (
            Part(name="block", body="cube", moves=True, surface=block),
            Part(name="mark", body="goal", moves=False, surface=disc),
        )

    def layout(self) -> Layout:
        """A cube, a mark, and the robot."""
        import mujoco

        c = self.config
        spec = stage(self.name, timestep=c.timestep)
        cube = spec.worldbody.add_body(name="cube", pos=[0.45, 0.0, c.half_size])
        cube.add_freejoint(name="cube")
        cube.add_geom(
            name="cube", type=mujoco.mjtGeom.mjGEOM_BOX, size=[c.half_size] * 3, mass=c.mass, condim=4,
            friction=[0.6, 0.01, 0.0001], rgba=[0.85, 0.4, 0.15, 1], **SURFACE,
        )  # fmt: skip
        goal = spec.worldbody.add_body(name="goal", mocap=True)
        goal.add_geom(
            name="goal", type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[c.reached, _THIN, 0], rgba=[0.2, 0.6, 0.3, 1],
            **VISUAL,
        )  # fmt: skip
        rig = add_rig(spec, c.arm, c.end_effector)
        stiffen(spec, "*pad_*", timeconst=0.01, impedance=0.97)
        return Layout(spec=spec, rigs=(rig,))

    def sample(self, rng: np.random.Generator, n: int) -> Scenes:
        """`cube` and `goal` positions on the table [m], `yaw` of the cube [rad]."""
        cube = np.column_stack([rng.uniform(0.38, 0.50, n), rng.uniform(-0.15, -0.03, n), np.zeros(n)])
        goal = np.column_stack([rng.uniform(0.38, 0.50, n), rng.uniform(0.05, 0.15, n), np.zeros(n)])
        return {"cube": cube, "goal": goal, "yaw": rng.uniform(-np.pi / 4, np.pi / 4, n)}

    def place(self, view: View, ids: np.ndarray, scenes: Scenes) -> None:
        """Cube and mark."""
        rest = scenes["cube"] + np.array([0.0, 0.0, self.config.half_size])
        view.pose("cube")[ids] = upright(rest, scenes["yaw"])
        view.place_mocap(ids, "goal", upright(scenes["goal"], np.zeros(len(ids))))

    def measure(self, view: View) -> Truth:
        """Also `goal` (n, 3) and `tool` (n, 3)."""
        rig = view.rigs[0]
        pose = view.pose("cube").copy()
        grasp = rig.grasp(pose[:, :3], view.velocity("cube")[:, :3])
        return {"object": pose, **grasp, "goal": view.mocap_pose("goal")[:, :3], "tool": rig.tcp[:, :3]}

    @property
    def bodies(self) -> tuple[int, ...]:
        """Points on the cube, then on the mark's rim."""
        return (self.points - self.points // 4, self.points // 4)

    def cloud(self, view: View, truth: Truth) -> Float[np.ndarray, "n point 3"]:
        """Points on the cube's faces, then on the mark's rim: where it is to go can be seen."""
        cube, rim = self.bodies
        angle = np.arange(rim) / rim * 2 * np.pi
        ring = self.config.reached * np.column_stack([np.cos(angle), np.sin(angle), np.zeros(rim)])
        faces = place_points(box_points(np.full(3, self.config.half_size), cube), truth["object"])
        return np.concatenate([faces, truth["goal"][:, None] + ring], axis=1)

    def terms(self, truth: Truth) -> dict[str, Float[np.ndarray, " n"]]:
        """Reach, grasp, lift, carry to the mark, hold still."""
        held = truth["held"].astype(np.float64)
        height = truth["object"][:, 2] - self.config.half_size
        away = np.linalg.norm(truth["object"][:, :2] - truth["goal"][:, :2], axis=1)
        there = tolerance(away, bounds=(0.0, self.config.reached), margin=0.2)
        off_table = tolerance(height, bounds=(0.04, 1.0), margin=0.04)
        return {
            "reach": tolerance(
                np.linalg.norm(truth["tool"] - truth["object"][:, :3], axis=1), bounds=(0.0, 0.01), margin=0.15
            ),
            "grasp": held,
            "lift": np.maximum(off_table * held, there >= 1.0),
            "carry": there,
            "still": tolerance(truth["slip"], bounds=(0.0, 0.002), margin=0.02) * held,
        }

    def success(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """Whether the cube stands on the mark and on the table."""
        away = np.linalg.norm(truth["object"][:, :2] - truth["goal"][:, :2], axis=1)
        return (away <= self.config.reached) & (truth["object"][:, 2] < self.config.half_size + 0.005)
