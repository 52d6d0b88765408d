"""The insertion scene: a ring-shaped nut on a table, an upright bolt, and the hand that puts one on the other.

World frame = robot base, z up, table surface at z = 0. The nut's frame is at its centre with its axis along z. The
bolt is a capsule: its round tip gives the nut a lead-in of about one bolt radius.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Gt, Le, config
from dexprior.errors import BadInput
from dexprior.families import Parameter, ParameterFamily, fixed_outside
from dexprior.geometry.rotations import quat_rotate
from dexprior.geometry.sampling import farthest_points
from dexprior.types import Camera
from dexprior.worlds.studio import Cone, add_camera, square_camera, studio

__all__ = [
    "ABOUT_OTHER",
    "BOLT_POINTS",
    "HUMAN_WORLD",
    "NUT_POINTS",
    "OTHER_FAMILY",
    "TRAINING_FAMILY",
    "InsertionConfig",
    "add_nut_and_bolt",
    "build_scene",
    "engaged_depth",
    "sample_scenes",
    "scene_cloud",
    "succeeded",
    "video_camera",
]

_SIDES = 8  # boxes in the ring
_CAMERA = (0.88, -0.16, 0.36), (0.44, -0.045, 0.065), 38.0  # eye and target [m], field of view [degrees]


NUT_POINTS, BOLT_POINTS = 40, 24
"""Points on the nut come first in every scene's cloud, then those on the bolt."""


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


TRAINING_FAMILY = ParameterFamily(
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
"""What the training simulator assumes about contact and sensors; assumed, not identified."""

HUMAN_WORLD = {
    "bolt_friction": 0.8, "pad_friction": 0.45, "bolt_timeconst": 0.008, "pad_timeconst": 0.008, "nut_mass": 1.3,
    "wrench_noise": 0.5, "cloud_noise": 0.003, "impratio": 5.0,
}  # fmt: skip
"""The other world, in which demonstrations are recorded and policies are judged: a sticky bolt, slippery fingers,
stiffer contact, a heavier nut and an elliptic friction cone. Every value lies outside `TRAINING_FAMILY`."""

OTHER_FAMILY = fixed_outside(
    "insertion-other",
    TRAINING_FAMILY,
    {name: value for name, value in HUMAN_WORLD.items() if name != "impratio"},
    Parameter(name="impratio", unit="1", low=5.0, high=5.0, target="option/-/impratio"),
)
"""`HUMAN_WORLD` as a family of fixed values."""

ABOUT_OTHER = (
    "The world with the other contact is simulated in the same engine: one vector of contact parameters outside of the "
    "training family, and an elliptic friction cone; the demonstrations were recorded in it."
)
"""What must stand beside every number of it: it is no other law of contact, and no robot."""


def build_scene(config: InsertionConfig):
    """The scene of the other world with the human hand in it, as an `MjSpec` that is not compiled."""
    from dexprior.worlds.human import add_hand

    spec = studio("insertion-hand", timestep=config.timestep, cone="elliptic")
    add_camera(spec, "video", *_CAMERA)
    add_nut_and_bolt(spec, config)
    add_hand(spec)
    return spec


def add_nut_and_bolt(spec, config: InsertionConfig) -> None:
    """Add the bolt, which is moved from outside, and the nut, which is free, to a scene (`mujoco.MjSpec`)."""
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


def video_camera(size: int) -> Camera:
    """The camera that watches the table from in front of the robot, for square images of `size` pixels."""
    return square_camera(*_CAMERA, size)


def sample_scenes(rng: np.random.Generator, n: int) -> dict[str, Float[np.ndarray, "n 3"]]:
    """Where nut and bolt are: `nut` and `bolt` positions on the table [m], `nut_yaw` [rad] as (n, 1)."""
    nut = np.stack([rng.uniform(0.40, 0.48, n), rng.uniform(-0.14, -0.04, n), np.zeros(n)], axis=1)
    bolt = np.stack([rng.uniform(0.42, 0.50, n), rng.uniform(0.06, 0.12, n), np.zeros(n)], axis=1)
    return {"nut": nut, "bolt": bolt, "nut_yaw": rng.uniform(-np.pi, np.pi, (n, 1))}


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


def succeeded(
    config: InsertionConfig, nut_pose: Float[np.ndarray, "*batch 7"], bolt: Float[np.ndarray, "*batch 3"]
) -> Bool[np.ndarray, " *batch"]:
    """Whether the nut sits on the bolt."""
    return engaged_depth(config, nut_pose, bolt) >= config.success_depth


def scene_cloud(
    config: InsertionConfig, n_nut: int, n_bolt: int, seed: int = 0
) -> tuple[Float[np.ndarray, "n_nut 6"], Float[np.ndarray, "n_bolt 6"]]:
    """Surface points and outward normals of nut (nut frame) and bolt (bolt frame): even, the same for one seed.

    Dense uniform samples of the surfaces, thinned by farthest-point sampling.
    """
    rng = np.random.default_rng(seed)
    m = 40 * max(n_nut, n_bolt)
    angle = rng.uniform(0, 2 * np.pi, m)
    radial = np.stack([np.cos(angle), np.sin(angle), np.zeros(m)], axis=1)
    z = rng.uniform(-0.5, 0.5, m)[:, None] * config.height
    up = np.array([0.0, 0.0, 1.0])
    radius = np.sqrt(rng.uniform(config.hole_radius**2, config.outer_radius**2, m))[:, None]
    third = m // 3
    outer = np.concatenate([radial * config.outer_radius + z * up, radial], axis=1)[:third]
    inner = np.concatenate([radial * config.hole_radius + z * up, -radial], axis=1)[third : 2 * third]
    top = np.concatenate([radial * radius + up * config.height / 2, np.broadcast_to(up, (m, 3))], axis=1)[2 * third :]
    height = rng.uniform(0, config.bolt_height - config.bolt_radius, m)[:, None]
    side = np.concatenate([radial * config.bolt_radius + height * up, radial], axis=1)
    nut = np.concatenate([outer, inner, top])
    return nut[farthest_points(nut[:, :3], n_nut)], side[farthest_points(side[:, :3], n_bolt)]
