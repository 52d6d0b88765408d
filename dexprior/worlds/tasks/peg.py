"""A square peg with a chamfer and a square hole, with clearances from 0.5 to 0.05 mm.

The peg starts in the gripper, off the hole's axis and tilted, or stands beside it. Peg and hole are boxes, whose
contacts are exact: what limits small clearances is the solver's softness, so that both are stiff (see
`PegConfig.stiffness`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, Le, Lt, config
from dexprior.errors import BadInput
from dexprior.families import Parameter, ParameterFamily, fixed_outside
from dexprior.geometry.rotations import quat_from_axis_angle, quat_multiply, quat_rotate
from dexprior.robots.rigs import add_rig, posture
from dexprior.worlds.measures import tolerance
from dexprior.worlds.tasks.base import Layout, Scenes, Task, Truth
from dexprior.worlds.tasks.families import mass_of, pads, sensors
from dexprior.worlds.tasks.parts import Part, Surface, box_surface
from dexprior.worlds.tasks.scene import SURFACE, box_points, place_points, stage, stiffen, upright
from dexprior.worlds.tasks.view import View

__all__ = ["WALL", "Peg", "PegConfig"]


@config
class PegConfig:
    """Sizes and limits [m, kg]."""

    arm: str = "arm7"
    """Name of the arm."""
    end_effector: str = "parallel"
    """Name of the gripper or hand."""
    start: Literal["held", "standing"] = "held"
    """Where the peg is: between the pads of the parallel gripper, or on the table beside the hole."""
    clearance: Annotated[float, Ge(5e-5), Le(1e-3)] = 2.5e-4
    """Gap between peg and hole on each side, when centred."""
    half_width: Annotated[float, Ge(0.003), Le(0.03)] = 0.010
    """Half an edge of the peg."""
    half_length: Annotated[float, Ge(0.015), Le(0.1)] = 0.030
    """Half its length."""
    chamfer: Annotated[float, Ge(0)] = 0.002
    """Chamfer of the hole's rim, at 45 degrees."""
    hole_depth: Annotated[float, Gt(0)] = 0.025
    """Depth of the block that holds the hole."""
    mass: Annotated[float, Gt(0)] = 0.06
    """Mass of the peg."""
    offset: Annotated[float, Ge(0)] = 0.006
    """Largest sideways error at the start."""
    tilt: Annotated[float, Ge(0)] = 0.08
    """Standard deviation of the peg's tilt at the start [rad]."""
    success_depth: Annotated[float, Gt(0)] = 0.020
    """How far the peg's end must lie below the rim."""
    stiffness: Annotated[float, Gt(0), Lt(1)] = 0.995
    """Impedance of the peg's contacts (`solimp`): at .995 a push of 5 N sinks in by under 0.02 mm."""
    seconds: Annotated[float, Gt(0)] | None = None
    """Length of an episode; None gives 3 s to a peg that is held, and 5 s to one that has to be taken first."""
    timestep: Annotated[float, Gt(0), Le(0.01)] = 0.002
    """Simulation step [s]."""

    def __post_init__(self) -> None:
        if self.start == "held" and self.end_effector != "parallel":
            raise BadInput(
                f"PegConfig: the peg starts in the parallel gripper, not in {self.end_effector!r}; use start='standing'"
            )


_TRAINING = ParameterFamily(
    "peg-training",
    (
        Parameter(name="hole_friction", unit="1", low=0.1, high=0.4, target="geom/hole*/friction/0"),
        Parameter(name="hole_timeconst", unit="s", low=0.004, high=0.008, target="geom/hole*/solref/0"),
        *pads(friction=(0.7, 1.2), timeconst=(0.005, 0.01)),
        mass_of("peg", 0.8, 1.25),
        *sensors(wrench=0.3),
    ),
)

_OVER = (0.50, 0.0)  # [m] where the peg starts
WALL = 0.014
"""Thickness of the block around the hole [m]."""
_ABOVE = 0.012  # [m] by which its end is above the rim


@dataclass(frozen=True)
class Peg(Task):
    """See the module."""

    config: PegConfig = field(default_factory=PegConfig)

    name: ClassVar[str] = "peg"
    settle: ClassVar[float] = 0.1
    family: ClassVar[ParameterFamily] = _TRAINING
    reality: ClassVar[ParameterFamily] = fixed_outside(
        "peg-reality",
        _TRAINING,
        {
            "hole_friction": 0.6,
            "hole_timeconst": 0.012,
            "pad_friction": 0.5,
            "pad_timeconst": 0.02,
            "peg_mass": 1.3,
            "wrench_noise": 0.5,
            "cloud_noise": 0.003,
        },
    )
    weights: ClassVar[dict[str, float]] = {"hold": 0.1, "align": 0.2, "level": 0.1, "insert": 0.5, "still": 0.1}

    @property
    def horizon(self) -> float:  # type: ignore[override]  # a constant in other tasks
        """Seconds in an episode; see `PegConfig.seconds`."""
        return self.config.seconds or (3.0 if self.config.start == "held" else 5.0)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The peg, and the block with the hole."""
        c = self.config
        surface = partial(box_surface, c.half_width, c.half_width, c.half_length)
        return (
            Part(name="peg", body="peg", moves=True, surface=surface),
            Part(name="hole", body="hole", moves=False, surface=self._block),
        )

    def _block(self) -> Surface:
        """What is seen of the block: its top around the hole, the chamfer, the walls of the hole, its outside."""
        c = self.config
        square = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
        inner = c.half_width + c.clearance
        rings = [(inner, 0.0), (inner, c.hole_depth - c.chamfer), (inner + c.chamfer, c.hole_depth)]
        rings += [(inner + WALL, c.hole_depth), (inner + WALL, 0.0)]
        vertices = np.concatenate([np.column_stack([r * square, np.full(4, z)]) for r, z in rings])
        faces = []
        for low in range(0, 4 * (len(rings) - 1), 4):
            for k in range(4):
                a, b = low + k, low + (k + 1) % 4
                faces += [[a, a + 4, b], [b, a + 4, b + 4]]
        return vertices, np.array(faces)

    def layout(self) -> Layout:
        """A block with a chamfered hole, a peg, and the robot over it."""
        import mujoco

        c = self.config
        spec = stage(self.name, timestep=c.timestep)
        stiff: dict[str, Any] = {
            "solref": [0.006, 1.0], "solimp": [c.stiffness, 0.9995, 0.001, 0.5, 2.0], "priority": 1, "condim": 4,
        }  # fmt: skip
        hole = spec.worldbody.add_body(name="hole", mocap=True, pos=[*_OVER, 0.0])
        inner, wall = c.half_width + c.clearance, WALL
        upper = c.hole_depth - c.chamfer
        for k in range(4):
            angle = k * np.pi / 2
            out = np.array([np.cos(angle), np.sin(angle)])
            turn = np.array([np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2)])
            hole.add_geom(
                name=f"hole_wall{k}", type=mujoco.mjtGeom.mjGEOM_BOX, size=[wall / 2, inner + wall, upper / 2],
                pos=[*(out * (inner + wall / 2)), upper / 2], quat=turn, rgba=[0.45, 0.5, 0.58, 1],
                friction=[0.25, 0.005, 0.0001], **SURFACE, **stiff,
            )  # fmt: skip
            if c.chamfer > 0:
                slope = quat_multiply(turn, quat_from_axis_angle(np.array([0.0, np.pi / 4, 0.0])))
                half = c.chamfer / np.sqrt(2)
                # a slab whose upper face is the chamfer
                face = np.array([inner + c.chamfer / 2, 0.0, upper + c.chamfer / 2])
                normal = np.array([-1.0, 0.0, 1.0]) / np.sqrt(2)
                centre = face - normal * half / 2
                hole.add_geom(
                    name=f"hole_rim{k}", type=mujoco.mjtGeom.mjGEOM_BOX, size=[half / 2, inner + c.chamfer, half],
                    pos=[*(out * centre[0]), centre[2]], quat=quat_multiply(slope, _QUARTER),
                    rgba=[0.55, 0.6, 0.68, 1], friction=[0.25, 0.005, 0.0001], **SURFACE, **stiff,
                )  # fmt: skip
        peg = spec.worldbody.add_body(name="peg", pos=[*_OVER, 0.1])
        peg.add_freejoint(name="peg")
        peg.add_geom(
            name="peg", type=mujoco.mjtGeom.mjGEOM_BOX, size=[c.half_width, c.half_width, c.half_length], mass=c.mass,
            condim=4, friction=[0.25, 0.005, 0.0001], rgba=[0.9, 0.55, 0.2, 1], **SURFACE,
        )  # fmt: skip
        held = c.start == "held"
        home = posture(c.arm, c.end_effector, (*_OVER, self._start_height + self._grip)) if held else None
        rig = add_rig(spec, c.arm, c.end_effector, home=home)
        stiffen(spec, "*pad_*", timeconst=0.006, impedance=0.97)
        return Layout(spec=spec, rigs=(rig,))

    @property
    def _start_height(self) -> float:
        """Height of the peg's centre [m]."""
        return self.config.hole_depth + self.config.half_length + _ABOVE

    @property
    def _grip(self) -> float:
        """Height of the pads above the peg's centre [m]."""
        return self.config.half_length - 0.012

    def sample(self, rng: np.random.Generator, n: int) -> Scenes:
        """`hole` (n, 3) [m], its `yaw` (n,) [rad], and `tilt` (n,) of the peg [rad].

        For a standing peg also `peg` (n, 2) on the table [m] and `peg_yaw` (n,) [rad]; its tilt is not used.
        """
        c = self.config
        radius, angle = c.offset * np.sqrt(rng.random(n)), rng.uniform(-np.pi, np.pi, n)
        hole = np.column_stack([_OVER[0] + radius * np.cos(angle), _OVER[1] + radius * np.sin(angle), np.zeros(n)])
        scenes = {"hole": hole, "yaw": rng.uniform(-0.1, 0.1, n), "tilt": rng.normal(0.0, c.tilt, n)}
        if c.start == "standing":
            scenes["peg"] = np.column_stack([rng.uniform(0.38, 0.48, n), rng.uniform(-0.15, -0.08, n)])
            scenes["peg_yaw"] = rng.uniform(-np.pi / 4, np.pi / 4, n)
        return scenes

    def place(self, view: View, ids: np.ndarray, scenes: Scenes) -> None:
        """The hole, and the peg between closed pads or on the table."""
        c, n = self.config, len(ids)
        view.place_mocap(ids, "hole", upright(scenes["hole"], scenes["yaw"]))
        if c.start == "standing":
            rest = np.column_stack([scenes["peg"], np.full(n, c.half_length)])
            view.pose("peg")[ids] = upright(rest, scenes["peg_yaw"])
            return
        lean = quat_from_axis_angle(scenes["tilt"][:, None] * np.array([0.0, 1.0, 0.0]))  # about the pads' axis
        pivot = np.array([0.0, 0.0, self._grip])
        centre = np.array([*_OVER, self._start_height]) + pivot - quat_rotate(lean, np.broadcast_to(pivot, (n, 3)))
        view.pose("peg")[ids] = np.column_stack([centre, lean])
        view.close_on(ids, c.half_width)

    def measure(self, view: View) -> Truth:
        """Also `hole` (n, 7), its `rim`'s height (n,), `end` of the peg (n, 3), its `offset` from the axis and `depth`
        below the rim [m], `tilt` of the peg [rad] (until it enters: the approach angle), `jammed` and `wrench` (n, 6).
        """
        c, rig = self.config, view.rigs[0]
        pose, velocity = view.pose("peg").copy(), view.velocity("peg")
        hole = view.mocap_pose("hole")
        axis = quat_rotate(pose[:, 3:], np.broadcast_to([0.0, 0.0, 1.0], (len(pose), 3)))
        end = pose[:, :3] - c.half_length * axis
        offset = np.linalg.norm(end[:, :2] - hole[:, :2], axis=1)
        depth = c.hole_depth - (end[:, 2] - hole[:, 2])
        inside = (depth > 0) & (offset < c.half_width)
        tilt = np.arccos(np.clip(np.abs(axis[:, 2]), 0.0, 1.0))
        push = np.linalg.norm(rig.wrench[:, :3], axis=1)
        partly = inside & (depth > c.chamfer) & (depth < c.success_depth)
        return {
            "object": pose, **rig.grasp(pose[:, :3], velocity[:, :3]), "hole": hole, "offset": offset, "tilt": tilt,
            "depth": np.where(inside, depth, 0.0),
            "jammed": partly & (push > 15.0) & (np.abs(velocity[:, 2]) < 0.002), "wrench": rig.wrench,
            "tool": rig.tcp[:, :3], "end": end, "rim": hole[:, 2] + c.hole_depth,
        }  # fmt: skip

    @property
    def bodies(self) -> tuple[int, ...]:
        """Points on the peg, then on the rim of the hole."""
        return (self.points // 2, self.points - self.points // 2)

    def cloud(self, view: View, truth: Truth) -> Float[np.ndarray, "n point 3"]:
        """Points on the peg, then on the rim of the hole."""
        c, (few, rest) = self.config, self.bodies
        peg = box_points(np.array([c.half_width, c.half_width, c.half_length]), few)
        angle = np.arange(rest) / rest * 2 * np.pi
        square = 1.0 / np.maximum(np.abs(np.cos(angle)), np.abs(np.sin(angle)))
        inner = c.half_width + c.clearance + c.chamfer
        rim = np.column_stack(
            [inner * square * np.cos(angle), inner * square * np.sin(angle), np.full_like(angle, c.hole_depth)]
        )
        return np.concatenate([place_points(peg, truth["object"]), place_points(rim, truth["hole"])], axis=1)

    def terms(self, truth: Truth) -> dict[str, Float[np.ndarray, " n"]]:
        """Hold, align over the hole, keep level, insert, hold still."""
        held = truth["held"].astype(np.float64)
        return {
            "hold": held,
            "align": tolerance(truth["offset"], bounds=(0.0, 0.0005), margin=0.008),
            "level": tolerance(truth["tilt"], bounds=(0.0, 0.01), margin=0.2),
            "insert": np.clip(truth["depth"] / self.config.success_depth, 0.0, 1.0),
            "still": tolerance(truth["slip"], bounds=(0.0, 0.002), margin=0.02) * held,
        }

    def success(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """Deep enough."""
        return truth["depth"] >= self.config.success_depth

    def failure(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """The peg lies on the table."""
        return truth["tilt"] > 1.0


_QUARTER = np.array([np.cos(np.pi / 4), 0.0, np.sin(np.pi / 4), 0.0])
