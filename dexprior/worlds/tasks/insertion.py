"""A ring-shaped nut on the table, put over an upright bolt: coarse beside `nut_bolt`, as there are no threads.

World frame = robot base, z up, table surface at z = 0. The nut's frame is at its centre with its axis along z. The bolt
is a capsule: its round tip gives the nut a lead-in of about one bolt radius.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Gt, Le, config
from dexprior.errors import BadInput
from dexprior.families import Parameter, ParameterFamily, fixed_outside
from dexprior.geometry.rotations import matrix_from_quat, quat_rotate, rot6d_from_matrix
from dexprior.geometry.sampling import farthest_points
from dexprior.robots.rigs import add_rig
from dexprior.worlds.measures import tolerance
from dexprior.worlds.studio import Cone
from dexprior.worlds.tasks.base import Layout, Scenes, Task, Truth
from dexprior.worlds.tasks.parts import Part, turned_surface
from dexprior.worlds.tasks.scene import place_points, stage, upright
from dexprior.worlds.tasks.view import View

if TYPE_CHECKING:
    import mujoco

__all__ = ["Insertion", "InsertionConfig", "engaged_depth"]

_SIDES = 8  # boxes in the ring
_NUT, _BOLT = 40, 24  # points of the cloud


@config
class InsertionConfig:
    """Sizes of the nut and the bolt [m, kg], and who acts on them where it is a robot."""

    arm: str = "arm7"
    """Name of the arm."""
    end_effector: str = "parallel"
    """Name of the gripper."""
    cone: Cone = "pyramidal"
    """Friction cone of the solver in a robot's world; the training world and the other one differ in it."""
    outer_radius: Annotated[float, Gt(0)] = 0.018
    """Distance from the nut's axis to its outer flats."""
    hole_radius: Annotated[float, Gt(0)] = 0.010
    """Distance from the nut's axis to its inner flats."""
    height: Annotated[float, Gt(0)] = 0.024
    """Height of the nut."""
    mass: Annotated[float, Gt(0)] = 0.05
    """Mass of the nut."""
    bolt_radius: Annotated[float, Gt(0)] = 0.0075
    """Radius of the bolt; the radial clearance is hole_radius - bolt_radius."""
    bolt_height: Annotated[float, Gt(0)] = 0.05
    """Height of the bolt's tip above the table."""
    success_depth: Annotated[float, Gt(0)] = 0.02
    """How far the nut's lower face must lie below the bolt's tip."""
    timestep: Annotated[float, Gt(0), Le(0.01)] = 0.004
    """Simulation step [s]."""

    def __post_init__(self) -> None:
        if not self.bolt_radius < self.hole_radius < self.outer_radius:
            raise BadInput(
                f"insertion: bolt_radius {self.bolt_radius} < hole_radius {self.hole_radius} < outer_radius "
                f"{self.outer_radius} must hold"
            )


_TRAINING = ParameterFamily(
    "insertion-training",
    (
        Parameter(name="bolt_friction", unit="1", low=0.1, high=0.5, target="geom/bolt/friction/0"),
        Parameter(name="pad_friction", unit="1", low=0.7, high=1.2, target="geom/*pad_*/friction/0"),
        Parameter(name="bolt_timeconst", unit="s", low=0.01, high=0.03, target="geom/bolt/solref/0"),
        Parameter(name="pad_timeconst", unit="s", low=0.01, high=0.03, target="geom/*pad_*/solref/0"),
        Parameter(
            name="nut_mass", unit="1", low=0.8, high=1.25, target="body/nut/mass",
            operation="scale", distribution="log_uniform",
        ),
        Parameter(name="wrench_noise", unit="N", low=0.0, high=0.3, target="world/-/wrench_noise"),
        Parameter(name="cloud_noise", unit="m", low=0.0005, high=0.002, target="world/-/cloud_noise"),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Insertion(Task):
    """See the module."""

    config: InsertionConfig = field(default_factory=InsertionConfig)

    name: ClassVar[str] = "insertion"
    horizon: ClassVar[float] = 3.0
    family: ClassVar[ParameterFamily] = _TRAINING
    reality: ClassVar[ParameterFamily] = fixed_outside(
        "insertion-other",
        _TRAINING,
        {
            "bolt_friction": 0.8,
            "pad_friction": 0.45,
            "bolt_timeconst": 0.008,
            "pad_timeconst": 0.008,
            "nut_mass": 1.3,
            "wrench_noise": 0.5,
            "cloud_noise": 0.003,
        },
        Parameter(name="impratio", unit="1", low=5.0, high=5.0, target="option/-/impratio"),
    )
    weights: ClassVar[dict[str, float]] = {
        "reach": 0.1, "grasp": 0.1, "carry": 0.2, "still": 0.05, "over": 0.05, "engage": 0.5,
    }  # fmt: skip
    struck: ClassVar[tuple[tuple[str, str], ...]] = (("nut", "table"), ("nut", "bolt"))
    points: ClassVar[int] = _NUT + _BOLT

    @property
    def parts(self) -> tuple[Part, ...]:
        """The nut, and the bolt as a cylinder."""
        c, half = self.config, self.config.height / 2
        ring = ((c.hole_radius, c.outer_radius), (-half, half))
        pin = ((0.0, c.bolt_radius), (0.0, c.bolt_height))
        return (
            Part(name="nut", body="nut", moves=True, surface=functools.partial(turned_surface, ring)),
            Part(name="bolt", body="bolt", moves=False, surface=functools.partial(turned_surface, pin)),
        )

    @property
    def bodies(self) -> tuple[int, ...]:
        """The nut's points, then the bolt's."""
        return _NUT, _BOLT

    def other(self) -> Insertion:
        """The same with an elliptic friction cone."""
        return replace(self, config=replace(self.config, cone="elliptic"))

    def layout(self) -> Layout:
        """A nut, a bolt, and the robot."""
        c = self.config
        spec = stage(self.name, timestep=c.timestep, cone=c.cone)
        spec.option.impratio = 1.0  # soft friction, in which a loosely held nut creeps, is part of this task
        _add_nut_and_bolt(spec, c)
        return Layout(spec=spec, rigs=(add_rig(spec, c.arm, c.end_effector),))

    def sample(self, rng: np.random.Generator, n: int) -> Scenes:
        """`nut` and `bolt` positions on the table (n, 3) [m], `yaw` of the nut (n,) [rad]."""
        nut = np.stack([rng.uniform(0.40, 0.48, n), rng.uniform(-0.14, -0.04, n), np.zeros(n)], axis=1)
        bolt = np.stack([rng.uniform(0.42, 0.50, n), rng.uniform(0.06, 0.12, n), np.zeros(n)], axis=1)
        return {"nut": nut, "bolt": bolt, "yaw": rng.uniform(-np.pi, np.pi, (n, 1))[:, 0]}

    def place(self, view: View, ids: np.ndarray, scenes: Scenes) -> None:
        """The nut on the table, and the bolt."""
        rest = scenes["nut"] * [1.0, 1.0, 0.0] + [0.0, 0.0, self.config.height / 2]
        view.pose("nut")[ids] = upright(rest, scenes["yaw"])
        view.place_mocap(ids, "bolt", upright(scenes["bolt"], np.zeros(len(ids))))

    def measure(self, view: View) -> Truth:
        """Also the `bolt`'s foot (n, 3), the `goal` (n, 3) where the nut's lower face is at the bolt's tip, the `depth`
        of that face below it [m], and `tool` (n, 3)."""
        c, rig = self.config, view.rigs[0]
        pose, bolt = view.pose("nut").copy(), view.mocap_pose("bolt")[:, :3]
        return {
            "object": pose, **rig.grasp(pose[:, :3], view.velocity("nut")[:, :3]), "bolt": bolt,
            "goal": bolt + np.array([0.0, 0.0, c.bolt_height + c.height / 2]), "depth": engaged_depth(c, pose, bolt),
            "tool": rig.tcp[:, :3],
        }  # fmt: skip

    def cloud(self, view: View, truth: Truth) -> Float[np.ndarray, "n point 3"]:
        """Points on the nut, then on the bolt."""
        nut, bolt = _points(self.config)
        return np.concatenate([place_points(nut, truth["object"]), truth["bolt"][:, None] + bolt], axis=1)

    def terms(self, truth: Truth) -> dict[str, Float[np.ndarray, " n"]]:
        """Reach, grasp, carry over the bolt, hold still, at its height, engage."""
        nut, held = truth["object"], truth["held"].astype(np.float64)
        lateral = np.linalg.norm(nut[:, :2] - truth["bolt"][:, :2], axis=1)
        lifted = tolerance(nut[:, 2], bounds=(0.03, 1.0), margin=0.03)
        engaged = np.clip(truth["depth"] / self.config.success_depth, 0.0, 1.0)
        carried = tolerance(lateral, bounds=(0.0, 0.003), margin=0.12) * np.maximum(lifted, np.minimum(engaged * 4, 1))
        high = tolerance(np.abs(nut[:, 2] - truth["goal"][:, 2]), bounds=(0.0, 0.01), margin=0.1)
        away = np.linalg.norm(truth["tool"] - nut[:, :3], axis=1)
        return {
            "reach": tolerance(away, bounds=(0.0, 0.008), margin=0.15),
            "grasp": held,
            "carry": carried,
            "still": tolerance(truth["slip"], bounds=(0.0, 0.002), margin=0.02) * held,
            "over": high * carried,
            "engage": engaged,
        }

    def success(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """The nut sits on the bolt, held or not."""
        depth = engaged_depth(self.config, truth["object"], truth["bolt"])
        return depth >= self.config.success_depth

    def privileged(self, truth: Truth) -> Float[np.ndarray, "n 13"]:
        """The nut from the tool, the bolt from the nut [m], two rows of the nut's rotation, whether it is held."""
        nut = truth["object"]
        rotation = rot6d_from_matrix(matrix_from_quat(nut[:, 3:]))
        held = truth["held"][:, None].astype(np.float64)
        return np.concatenate([nut[:, :3] - truth["tool"], truth["bolt"] - nut[:, :3], rotation, held], axis=1)


def engaged_depth(
    config: InsertionConfig, nut_pose: Float[np.ndarray, "*batch 7"], bolt: Float[np.ndarray, "*batch 3"]
) -> Float[np.ndarray, " *batch"]:
    """How far the nut's lower face lies below the bolt's tip while the bolt is inside the hole [m]; 0 otherwise.

    Args:
        nut_pose: nut in the base frame.
        bolt: foot of the bolt in the base frame.
    """
    nut_pose, bolt = np.asarray(nut_pose), np.asarray(bolt)
    axis = quat_rotate(nut_pose[..., 3:], np.broadcast_to([0.0, 0.0, 1.0], (*nut_pose.shape[:-1], 3)))
    offset = nut_pose[..., :3] - bolt
    lateral = np.linalg.norm(offset[..., :2], axis=-1)
    below_tip = config.bolt_height - (offset[..., 2] - config.height / 2)
    inside = (lateral < config.hole_radius) & (np.abs(axis[..., 2]) > 0.9)
    return np.where(inside, np.clip(below_tip, 0.0, config.bolt_height), 0.0)


def _add_nut_and_bolt(spec: mujoco.MjSpec, config: InsertionConfig) -> None:
    """Add the bolt, which is moved from outside, and the nut, which is free."""
    import mujoco

    bolt = spec.worldbody.add_body(name="bolt", mocap=True, pos=[0.5, 0.1, 0])
    bolt.add_geom(
        name="bolt", type=mujoco.mjtGeom.mjGEOM_CAPSULE, size=[config.bolt_radius, 0, 0],
        fromto=[0, 0, -0.02, 0, 0, config.bolt_height - config.bolt_radius],
        contype=1, conaffinity=3, friction=[0.3, 0.005, 0.0001], rgba=[0.35, 0.4, 0.5, 1], condim=4,
        priority=1,  # the bolt's friction and stiffness count, not the larger of bolt and nut
    )  # fmt: skip
    nut = spec.worldbody.add_body(name="nut", pos=[0.45, -0.1, config.height / 2])
    nut.add_freejoint(name="nut")
    thickness = config.outer_radius - config.hole_radius
    middle = config.hole_radius + thickness / 2
    half_width = config.outer_radius * np.tan(np.pi / _SIDES)
    for k in range(_SIDES):
        angle = 2 * np.pi * k / _SIDES
        nut.add_geom(
            name=f"nut{k}", type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[thickness / 2, half_width, config.height / 2],
            pos=[middle * np.cos(angle), middle * np.sin(angle), 0],
            quat=[np.cos(angle / 2), 0, 0, np.sin(angle / 2)],
            mass=config.mass / _SIDES, contype=1, conaffinity=3, condim=4,
            friction=[0.6, 0.01, 0.0001], solref=[0.02, 1.0],
            rgba=[0.85, 0.45, 0.15, 1] if k % 2 else [0.95, 0.6, 0.2, 1],
        )  # fmt: skip
    spec.add_exclude(bodyname1="bolt", bodyname2="world")


@functools.cache
def _points(config: InsertionConfig) -> tuple[Float[np.ndarray, "nut 3"], Float[np.ndarray, "bolt 3"]]:
    """Points of the surfaces of nut (nut frame) and bolt (bolt frame), evenly spread; always the same."""
    rng = np.random.default_rng(0)
    m = 40 * max(_NUT, _BOLT)
    angle = rng.uniform(0, 2 * np.pi, m)
    radial = np.stack([np.cos(angle), np.sin(angle), np.zeros(m)], axis=1)
    up = np.array([0.0, 0.0, 1.0])
    z = rng.uniform(-0.5, 0.5, m)[:, None] * config.height * up
    radius = np.sqrt(rng.uniform(config.hole_radius**2, config.outer_radius**2, m))[:, None]
    third = m // 3
    outer = (radial * config.outer_radius + z)[:third]
    inner = (radial * config.hole_radius + z)[third : 2 * third]
    top = (radial * radius + up * config.height / 2)[2 * third :]
    height = rng.uniform(0, config.bolt_height - config.bolt_radius, m)[:, None]
    side = radial * config.bolt_radius + height * up
    nut = np.concatenate([outer, inner, top])
    return nut[farthest_points(nut, _NUT)], side[farthest_points(side, _BOLT)]
