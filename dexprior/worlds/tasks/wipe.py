"""Wiping: a held block with a sprung round tip is pressed on a plate and moved to and fro along a stroke.

A flat sole would stick and release about its edges. Nothing else in the suite slides
for seconds under load: friction, slip in the grasp and the timing of the arm all show in what the wrist feels. It is
the motion with which two worlds are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, Le, config
from dexprior.errors import BadInput
from dexprior.families import Parameter, ParameterFamily, fixed_outside
from dexprior.geometry.rotations import quat_rotate
from dexprior.robots.rigs import add_rig, posture
from dexprior.worlds.measures import tolerance
from dexprior.worlds.tasks.base import Layout, Scenes, Task, Truth
from dexprior.worlds.tasks.families import mass_of, pads, sensors
from dexprior.worlds.tasks.parts import Part, box_surface
from dexprior.worlds.tasks.scene import SURFACE, VISUAL, box_points, place_points, stage, stiffen, upright
from dexprior.worlds.tasks.view import View

__all__ = ["Wipe", "WipeConfig"]


@config
class WipeConfig:
    """Sizes and limits [m, kg, N]."""

    arm: str = "arm7"
    """Name of the arm."""
    half_width: Annotated[float, Ge(0.005), Le(0.03)] = 0.015
    """Half an edge of the block's base."""
    half_height: Annotated[float, Ge(0.015), Le(0.06)] = 0.02
    """Half its height, without the tip."""
    mass: Annotated[float, Gt(0)] = 0.06
    """Mass of the block."""
    stroke: Annotated[float, Gt(0.02), Le(0.12)] = 0.08
    """Length of what is wiped."""
    width: Annotated[float, Gt(0)] = 0.010
    """Sideways error up to which it counts."""
    press: tuple[float, float] = (2.0, 15.0)
    """Normal force with which it counts."""
    share: Annotated[float, Gt(0), Le(1)] = 0.9
    """Share of the stroke that must have been wiped."""
    spring: Annotated[float, Gt(0)] = 1500.0
    """Stiffness of the tip [N/m]: an arm that errs by a millimetre cannot hold a force on a hard one."""
    timestep: Annotated[float, Gt(0), Le(0.01)] = 0.002
    """Simulation step [s]."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.press[0] < self.press[1]:
            raise BadInput(f"WipeConfig: press from {self.press[0]} to {self.press[1]} N")


_TRAINING = ParameterFamily(
    "wipe-training",
    (
        Parameter(name="plate_friction", unit="1", low=0.2, high=0.5, target="geom/plate/friction/0"),
        Parameter(name="plate_timeconst", unit="s", low=0.006, high=0.012, target="geom/plate/solref/0"),
        *pads(friction=(0.7, 1.2), timeconst=(0.005, 0.01)),
        mass_of("block", 0.8, 1.25),
        *sensors(wrench=0.3),
    ),
)

_OVER = (0.48, 0.0)  # [m] where the block starts
_TOP = 0.02  # [m] of the plate
_ABOVE = 0.010  # [m] by which the block starts above it
_TIP = 0.008  # [m] its radius
_GIVE = 0.006  # [m] by which it gives
_CELLS = 32  # pieces of the stroke that are ticked off


@dataclass(frozen=True)
class Wipe(Task):
    """See the module."""

    config: WipeConfig = field(default_factory=WipeConfig)

    name: ClassVar[str] = "wipe"
    horizon: ClassVar[float] = 4.0
    settle: ClassVar[float] = 0.1
    family: ClassVar[ParameterFamily] = _TRAINING
    reality: ClassVar[ParameterFamily] = fixed_outside(
        "wipe-reality",
        _TRAINING,
        {
            "plate_friction": 0.65,
            "plate_timeconst": 0.02,
            "pad_friction": 0.6,
            "pad_timeconst": 0.015,
            "block_mass": 1.4,
            "wrench_noise": 0.5,
            "cloud_noise": 0.003,
        },
    )
    weights: ClassVar[dict[str, float]] = {"hold": 0.1, "press": 0.2, "follow": 0.2, "cover": 0.4, "still": 0.1}

    @property
    def parts(self) -> tuple[Part, ...]:
        """The block."""
        c = self.config
        surface = partial(box_surface, c.half_width, c.half_width, c.half_height)
        return (Part(name="block", body="block", moves=True, surface=surface),)

    def layout(self) -> Layout:
        """A plate, the marked stroke, a block, and the robot over it."""
        import mujoco

        c = self.config
        spec = stage(self.name, timestep=c.timestep)
        half = c.stroke / 2 + 0.05
        spec.worldbody.add_geom(
            name="plate", type=mujoco.mjtGeom.mjGEOM_BOX, size=[half, half, _TOP / 2], pos=[*_OVER, _TOP / 2],
            rgba=[0.5, 0.55, 0.62, 1], friction=[0.35, 0.005, 0.0001], solref=[0.008, 1.0],
            solimp=[0.98, 0.999, 0.001, 0.5, 2.0], priority=1, condim=4, **SURFACE,
        )  # fmt: skip
        mark = spec.worldbody.add_body(name="mark", mocap=True)
        mark.add_geom(
            name="mark", type=mujoco.mjtGeom.mjGEOM_BOX, size=[c.stroke / 2, c.width, 0.0003],
            rgba=[0.2, 0.6, 0.3, 1], **VISUAL,
        )  # fmt: skip
        block = spec.worldbody.add_body(name="block", pos=[*_OVER, 0.1])
        block.add_freejoint(name="block")
        block.add_geom(
            name="block", type=mujoco.mjtGeom.mjGEOM_BOX, size=[c.half_width, c.half_width, c.half_height],
            mass=c.mass, condim=4, friction=[0.3, 0.005, 0.0001], rgba=[0.9, 0.55, 0.2, 1], **SURFACE,
        )  # fmt: skip
        tip = block.add_body(name="tip", pos=[0.0, 0.0, -c.half_height - _GIVE - _TIP])
        tip.add_joint(
            name="tip", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, 0, 1], range=[0.0, _GIVE], limited=True,
            stiffness=[c.spring, 0.0, 0.0], damping=[5.0, 0.0, 0.0],
        )  # fmt: skip
        tip.add_geom(
            name="tip", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[_TIP, 0.0, 0.0], mass=0.01,
            condim=4, friction=[0.3, 0.005, 0.0001], rgba=[0.85, 0.85, 0.8, 1], **SURFACE,
        )  # fmt: skip
        grip = self._start_height + c.half_height - 0.012
        rig = add_rig(spec, c.arm, "parallel", home=posture(c.arm, "parallel", (*_OVER, grip)))
        stiffen(spec, "*pad_*", timeconst=0.006, impedance=0.97)
        return Layout(spec=spec, rigs=(rig,))

    @property
    def _start_height(self) -> float:
        """Height of the block's centre [m]."""
        return _TOP + _ABOVE + 2 * _TIP + _GIVE + self.config.half_height

    def sample(self, rng: np.random.Generator, n: int) -> Scenes:
        """`middle` (n, 2) of the stroke on the plate [m] and its `yaw` (n,) [rad]."""
        middle = np.array(_OVER) + rng.uniform(-0.012, 0.012, (n, 2))
        return {"middle": middle, "yaw": rng.uniform(-np.pi / 2, np.pi / 2, n)}

    def place(self, view: View, ids: np.ndarray, scenes: Scenes) -> None:
        """The mark, and the block between closed pads, above the plate's middle."""
        c, n = self.config, len(ids)
        view.place_mocap(
            ids, "mark", upright(np.column_stack([scenes["middle"], np.full(n, _TOP + 0.0005)]), scenes["yaw"])
        )
        centre = np.tile([*_OVER, self._start_height], (n, 1))
        view.pose("block")[ids] = upright(centre, np.zeros(n))
        view.close_on(ids, c.half_width)
        view.remember("wiped", np.zeros((view.n, _CELLS)))[ids] = 0.0

    def measure(self, view: View) -> Truth:
        """Also `mark` (n, 7), the block's base `along` and `aside` of the stroke's middle [m], the `force` on the plate
        [N], the share of the stroke that is `covered`, `tool` (n, 3) and `wrench` (n, 6)."""
        c, rig = self.config, view.rigs[0]
        pose, velocity = view.pose("block").copy(), view.velocity("block")
        mark = view.mocap_pose("mark")
        axis = quat_rotate(pose[:, 3:], np.broadcast_to([0.0, 0.0, 1.0], (len(pose), 3)))
        base = pose[:, :3] - (c.half_height + _GIVE) * axis
        inverse = mark[:, 3:] * np.array([1.0, -1.0, -1.0, -1.0])
        local = quat_rotate(inverse, base - mark[:, :3])
        force = np.abs(rig.wrench[:, 2])
        wiped = view.remember("wiped", np.zeros((view.n, _CELLS)))
        pressed = (force >= c.press[0]) & (force <= c.press[1]) & (np.abs(local[:, 1]) <= c.width)
        centres = (np.arange(_CELLS) + 0.5) / _CELLS * c.stroke - c.stroke / 2
        near = np.abs(local[:, :1] - centres) <= c.stroke / _CELLS
        wiped[:] = np.maximum(wiped, near & pressed[:, None])
        return {
            "object": pose, **rig.grasp(pose[:, :3], velocity[:, :3]), "mark": mark, "along": local[:, 0],
            "aside": local[:, 1], "force": force, "covered": wiped.mean(axis=1), "tilt": np.arccos(
                np.clip(axis[:, 2], -1.0, 1.0)), "tool": rig.tcp[:, :3], "wrench": rig.wrench,
        }  # fmt: skip

    def cloud(self, view: View, truth: Truth) -> Float[np.ndarray, "n point 3"]:
        """Points on the block, then along the stroke."""
        c, few = self.config, self.points // 2
        block = box_points(np.array([c.half_width, c.half_width, c.half_height]), few)
        line = np.zeros((self.points - few, 3))
        line[:, 0] = np.linspace(-c.stroke / 2, c.stroke / 2, self.points - few)
        return np.concatenate([place_points(block, truth["object"]), place_points(line, truth["mark"])], axis=1)

    def terms(self, truth: Truth) -> dict[str, Float[np.ndarray, " n"]]:
        """Hold, press as hard as counts, stay on the stroke, cover it, do not slip."""
        held = truth["held"].astype(np.float64)
        return {
            "hold": held,
            "press": tolerance(truth["force"], bounds=self.config.press, margin=10.0),
            "follow": tolerance(truth["aside"], bounds=(-0.002, 0.002), margin=0.02),
            "cover": truth["covered"],
            "still": tolerance(truth["slip"], bounds=(0.0, 0.002), margin=0.02) * held,
        }

    def success(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """Enough of the stroke was wiped, and the block is still held."""
        return (truth["covered"] >= self.config.share) & truth["held"]

    def failure(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """The block fell over."""
        return truth["tilt"] > 1.0
