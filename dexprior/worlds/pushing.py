"""The striking world: a rod hits a prism that rests on a table; the prism slides, turns and stops.

World frame: z up, table surface at z = 0. A planar pose is [x y yaw] of the object's body frame, whose origin is the
centre of mass. Velocities are [vx vy omega] in the world frame. The body's +x axis is the direction into which a
central strike (alpha = beta = 0) drives it: the semi-cylinder's arc faces -x, its flat side +x.

    alpha   angle of the impact point about the centre, counter-clockwise from the body's -x axis
    beta    deflection of the rod's velocity, counter-clockwise from the direction impact point -> centre

After CLASH (arXiv 2602.18707).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, Le, Lt, config
from dexprior.errors import BadInput, ConfigError, UnknownName
from dexprior.geometry.rotations import wrap_angle
from dexprior.types.check import Checker

if TYPE_CHECKING:
    import mujoco

__all__ = [
    "GRAVITY",
    "PUSHING_PARAMETERS",
    "Footprint",
    "PushingConfig",
    "StrikeResult",
    "Strikes",
    "impact_points",
    "pushing_spec",
    "rod_at_touch",
    "simulate_sliding",
    "simulate_strikes",
    "sliding_tails",
]

GRAVITY = 9.81  # [m/s^2]

PUSHING_PARAMETERS = (
    "rod_friction",
    "rod_damping_ratio",
    "time_constant",
    "table_friction",
    "table_damping_ratio",
    "torsional_friction",
    "impratio",
    "rod_impedance",
    "rod_grip",
)
"""Fields of `PushingConfig` that may differ from world to world."""

_TABLE_IMPEDANCE = 0.01
"""Constant `solimp` of the table. MuJoCo's cone couples load to slip: a contact that slides at u carries an extra
load of about impedance * mass * damping * friction * u. Near 1, a body that slides at 1 m/s is lifted off and chatters;
at 0.01 the extra load vanishes and the loads are those of statics."""
_STICK_DAMPING = 400.0  # [1/s] of `solreffriction`: Coulomb friction above about friction * g / 400 = 7 mm/s
_GAP = 1e-4  # [m] the rod starts that far from the object
_SLOWEST = 0.01  # [m/s] of a rod that strikes
_AT_REST = 1e-3  # [m/s] of a point at the radius of gyration
_LOOK = 20  # steps of sliding between two looks at the velocity
_LONGEST_CONTACT = 0.05  # [s] after which a strike counts as a push and the rod is retracted
_AWAY = 50.0  # [m] where the rod is put when it is retracted


@config
class PushingConfig:
    """Shape, contact and rod of one striking world."""

    shape: Literal["semi_cylinder", "square", "triangle"] = "semi_cylinder"
    """Cross-section of the prism; the triangle is equilateral."""
    size: Annotated[float, Gt(0)] = 0.1
    """Diameter of the semi-cylinder, side of the square and the triangle [m]."""
    facets: Annotated[int, Ge(3)] = 36
    """Flat faces that stand for the semi-cylinder's arc; a multiple of 3, as two of its vertices carry load."""
    height: Annotated[float, Gt(0)] = 0.05
    """Height of the prism [m]; the rod's round end strikes at half of it, level with the centre of mass."""
    mass: Annotated[float, Gt(0)] = 0.5
    """Mass of the prism [kg], evenly filled."""
    support_share: Annotated[float, Gt(0), Le(1.5)] = 1.0
    """How far from the centre of mass the object stands, as a share of its corners' distance: what gives friction its
    lever against spin. A real body rests on areas, which are not known from its outline."""
    rod_radius: Annotated[float, Gt(0)] = 0.01
    """[m]"""
    rod_mass: Annotated[float, Gt(0)] = 1.5
    """Effective mass of the rod and what holds it [kg]; it slides freely in the plane."""
    rod_friction: Annotated[float, Ge(0)] = 0.2
    """Coulomb coefficient between object and rod."""
    rod_damping_ratio: Annotated[float, Gt(0)] = 0.3
    """Damping ratio of the contact's spring and damper, object and rod; 1 does not bounce."""
    time_constant: Annotated[float, Gt(0)] = 0.004
    """Time constant of the same spring and damper [s]."""
    rod_impedance: Annotated[float, Gt(0), Lt(1)] | None = None
    """`solimp` of the same contact, constant in depth: low values make it an explicit spring and damper. None is
    MuJoCo's default, which knows no `rod_grip`."""
    rod_grip: Annotated[float, Gt(0)] = 1.0
    """Tangential over normal damping of that contact at such an impedance: low values let it creep."""
    table_friction: Annotated[float, Gt(0)] = 0.3
    """Coulomb coefficient between object and table."""
    table_damping_ratio: Annotated[float, Gt(0)] = 1.0
    """Damping ratio of the table's spring and damper."""
    table_time_constant: Annotated[float, Gt(0)] = 0.01
    """Time constant of the table's spring and damper [s]; the object sinks in by about g * (this)^2 / supports."""
    torsional_friction: Annotated[float, Ge(0)] = 0.002
    """Coefficient of each support's own resistance to spin [m]: roughly its radius times its friction."""
    impratio: Annotated[float, Gt(0)] = 1000.0
    """Frictional over normal impedance, of both contacts; from 10 on it does not show in where the object stops."""
    timestep: Annotated[float, Gt(0)] = 0.0005
    """Time step of the slide [s]; half of it times the speed is the error of the stopping place."""
    resolution: Annotated[int, Ge(4)] = 24
    """Time steps of the strike per rod_damping_ratio * time_constant; 24 is within 0.5 % of 96 (95 of 100)."""
    max_alpha: Annotated[float, Gt(0), Le(np.pi)] = 1.4
    """Largest |alpha| on the semi-cylinder [rad], at most pi / 2: arc side only. The prisms are struck on all faces."""
    max_beta: Annotated[float, Ge(0), Le(0.52)] = 0.5
    """Largest |beta| [rad]; below 30 degrees, every strike on every face closes in on it."""

    def __post_init__(self) -> None:
        if self.shape == "semi_cylinder" and self.facets % 3:
            raise ConfigError(f"pushing.facets = {self.facets}: must be a multiple of 3")
        if self.shape == "semi_cylinder" and self.max_alpha >= np.pi / 2:
            raise ConfigError(f"pushing.max_alpha = {self.max_alpha}: the semi-cylinder's arc ends at pi / 2")
        if self.table_friction > self.tipping_friction:
            raise ConfigError(
                f"pushing.table_friction = {self.table_friction}: above {self.tipping_friction:.3f} this object tips "
                "over instead of sliding. Lower the friction or the height."
            )
        if self.timestep > self.table_time_constant / 2:
            raise ConfigError(
                f"pushing.timestep = {self.timestep}: MuJoCo needs at least two steps in table_time_constant = "
                f"{self.table_time_constant}"
            )

    @cached_property
    def footprint(self) -> Footprint:
        """The cross-section about the centre of mass."""
        return _footprint(self.shape, self.size, self.facets, self.support_share)

    @property
    def inertia(self) -> float:
        """About the vertical through the centre of mass [kg m^2]."""
        return self.mass * self.footprint.gyration**2

    @property
    def tipping_friction(self) -> float:
        """Table friction at which a support can lift off: the supports' inner radius over the centre's height."""
        return self.footprint.inner_radius / (self.height / 2)

    @property
    def alpha_range(self) -> tuple[float, float]:
        """Where the object may be struck [rad]."""
        limit = self.max_alpha if self.shape == "semi_cylinder" else np.pi
        return (-limit, limit)


@dataclass(frozen=True)
class Footprint:
    """A convex cross-section in the body frame, whose origin is the centre of mass [m]."""

    contour: Float[np.ndarray, "vertex 2"]
    """Vertices, counter-clockwise."""
    centre: Float[np.ndarray, " 2"]
    """What `alpha` counts about: the semicircle's centre, or the centroid."""
    supports: Float[np.ndarray, "support 2"]
    """Where the object stands on the table: the corners, or the ends of the flat side and two points of the arc; nearer
    to the centre of mass where `support_share` is below 1."""
    gyration: float
    """Radius of gyration about the vertical [m]."""

    @property
    def inner_radius(self) -> float:
        """Distance from the centre of mass to the nearest edge of the support polygon [m]."""
        a, b = self.supports, np.roll(self.supports, -1, axis=0)
        edge = b - a
        return float(((a[:, 0] * edge[:, 1] - a[:, 1] * edge[:, 0]) / np.linalg.norm(edge, axis=1)).min())


@dataclass(frozen=True, kw_only=True)
class Strikes:
    """One strike per object."""

    schema: ClassVar[str] = "dexprior.strikes/1"

    alpha: Float[np.ndarray, " strike"]
    """Impact point [rad]; see the module."""
    speed: Float[np.ndarray, " strike"]
    """Speed of the rod [m/s], at least 0.01."""
    beta: Float[np.ndarray, " strike"]
    """Deflection of the rod's velocity [rad]."""

    def __post_init__(self) -> None:
        check = Checker(self)
        for name in ("alpha", "speed", "beta"):
            check.array(name, "strike", low=_SLOWEST if name == "speed" else None)

    def __len__(self) -> int:
        return len(self.alpha)


@dataclass(frozen=True, kw_only=True)
class StrikeResult:
    """What strikes did to objects that were at rest."""

    pose: Float[np.ndarray, "strike 3"]
    """Object just before contact; its velocity is zero."""
    rod_before: Float[np.ndarray, "strike 2"]
    """Rod's velocity just before contact [m/s]."""
    velocity: Float[np.ndarray, "strike 3"]
    """Object's [vx vy omega] right after it left the rod."""
    rod_after: Float[np.ndarray, "strike 2"]
    """Rod's velocity at that moment [m/s]; then it is retracted."""
    pose_after: Float[np.ndarray, "strike 3"]
    """Object's pose at that moment."""
    contact_time: Float[np.ndarray, " strike"]
    """How long the rod touched [s]."""
    final_pose: Float[np.ndarray, "strike 3"]
    """Where the object stopped."""
    slide_time: Float[np.ndarray, " strike"]
    """Time from separation to rest [s], in units of the looks at it."""
    separated: Bool[np.ndarray, " strike"]
    """False where the rod never touched, or still pushed at the time-out."""
    rested: Bool[np.ndarray, " strike"]
    """False where the object still moved at the time-out."""


# --- geometry -----------------------------------------------------------------------------------------------


def impact_points(
    config: PushingConfig, alpha: Float[np.ndarray, " strike"]
) -> tuple[Float[np.ndarray, "strike 2"], Float[np.ndarray, "strike 2"]]:
    """Point on the contour at `alpha`, and the outward normal of the face that it lies on; body frame.

    Raises:
        BadInput: an angle outside `config.alpha_range`.
    """
    alpha = np.asarray(alpha, dtype=np.float64)
    low, high = config.alpha_range
    outside = ~((alpha >= low - 1e-12) & (alpha <= high + 1e-12))
    if outside.any():
        k = int(outside.argmax())
        raise BadInput(f"strike {k}: alpha = {alpha[k]:.4f}, but a {config.shape} is struck in [{low:.4f}, {high:.4f}]")
    shape = config.footprint
    ray = -np.stack([np.cos(alpha), np.sin(alpha)], axis=1)
    edge = np.roll(shape.contour, -1, axis=0) - shape.contour
    normals = np.stack([edge[:, 1], -edge[:, 0]], axis=1) / np.linalg.norm(edge, axis=1, keepdims=True)
    reach = ((shape.contour - shape.centre) * normals).sum(axis=1)  # distance of each face from the centre
    closing = ray @ normals.T
    along = np.where(closing > 1e-9, reach / np.where(closing > 1e-9, closing, 1.0), np.inf)
    face = along.argmin(axis=1)
    distance = np.take_along_axis(along, face[:, None], axis=1)
    return shape.centre + distance * ray, normals[face]


def rod_at_touch(
    config: PushingConfig, pose: Float[np.ndarray, "strike 3"], strikes: Strikes
) -> tuple[Float[np.ndarray, "strike 2"], Float[np.ndarray, "strike 2"], Float[np.ndarray, "strike 2"]]:
    """Rod's axis at the first touch, its velocity, and the outward normal of the struck face; world frame.

    The point that is hit lies at axis - rod_radius * normal.

    Raises:
        BadInput: poses and strikes of different number, an angle out of range, a rod that moves away from the face.
    """
    pose = np.asarray(pose, dtype=np.float64)
    if pose.shape != (len(strikes), 3):
        raise BadInput(f"object poses have shape {pose.shape}, expected ({len(strikes)}, 3): x, y, yaw of each strike")
    if not np.isfinite(pose).all():
        raise BadInput(f"object pose {int((~np.isfinite(pose)).any(axis=1).argmax())} is not finite")
    point, normal = impact_points(config, strikes.alpha)
    inward = config.footprint.centre - point
    inward = _turned(inward / np.linalg.norm(inward, axis=1, keepdims=True), strikes.beta)
    away = (inward * normal).sum(axis=1) > -1e-3
    if away.any():
        k = int(away.argmax())
        raise BadInput(
            f"strike {k}: with alpha = {strikes.alpha[k]:.3f} and beta = {strikes.beta[k]:.3f} the rod moves along or "
            f"away from the face; |beta| <= max_beta = {config.max_beta} never does"
        )
    axis = pose[:, :2] + _turned(point + config.rod_radius * normal, pose[:, 2])
    return axis, strikes.speed[:, None] * _turned(inward, pose[:, 2]), _turned(normal, pose[:, 2])


def _turned(vector: np.ndarray, angle: np.ndarray) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([c * vector[:, 0] - s * vector[:, 1], s * vector[:, 0] + c * vector[:, 1]], axis=1)


def _footprint(shape: str, size: float, facets: int, support_share: float) -> Footprint:
    contour: np.ndarray
    if shape == "semi_cylinder":
        angle: np.ndarray = np.linspace(np.pi / 2, 3 * np.pi / 2, facets + 1)
        contour = size / 2 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        chosen = np.array([0, facets // 3, 2 * facets // 3, facets])
    else:
        corners = 4 if shape == "square" else 3  # a face looks to -x
        angle = np.pi + np.pi / corners * (1 + 2 * np.arange(corners))
        radius = size / (2 * np.sin(np.pi / corners))
        contour = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        chosen = np.arange(corners)
    area, centroid, second_moment = _moments(contour)
    contour -= centroid
    gyration = np.sqrt(second_moment / area - centroid @ centroid)
    supports = support_share * contour[chosen]
    return Footprint(contour=contour, centre=-centroid, supports=supports, gyration=float(gyration))


def _moments(contour: np.ndarray) -> tuple[float, np.ndarray, float]:
    """Area, centroid, and polar second moment about the origin, of a counter-clockwise polygon."""
    a, b = contour, np.roll(contour, -1, axis=0)
    cross = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    area = cross.sum() / 2
    centroid = ((a + b) * cross[:, None]).sum(axis=0) / (6 * area)
    polar = (cross * (a * a + a * b + b * b).sum(axis=1)).sum() / 12
    return float(area), centroid, float(polar)


# --- MuJoCo -------------------------------------------------------------------------------------------------


def pushing_spec(config: PushingConfig) -> mujoco.MjSpec:
    """The scene: geoms `table`, `object` (met by the rod), `base` (met by the table), `rod`, `shaft` (touches nothing).

    `base` is the prism over the supports, so that the same points carry the object at any tilt; the rod ends in a
    ball, since a cylinder along a face touches it now at the top, now at the bottom.
    """
    import mujoco

    spec = mujoco.MjSpec()
    spec.modelname = f"pushing-{config.shape}"
    spec.compiler.degree = False
    spec.visual.headlight.specular = [0.0, 0.0, 0.0]
    option = spec.option
    option.gravity, option.timestep, option.impratio = [0.0, 0.0, -GRAVITY], config.timestep, config.impratio
    option.cone, option.integrator = mujoco.mjtCone.mjCONE_ELLIPTIC, mujoco.mjtIntegrator.mjINT_EULER
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1280, 960
    no_filter = {"contype": 0, "conaffinity": 0}  # the two pairs below are all that touches
    half = config.height / 2
    world = spec.worldbody
    world.add_light(pos=[0.3, -0.5, 1.5], dir=[-0.2, 0.3, -1.0], diffuse=[0.4, 0.4, 0.4], specular=[0.0, 0.0, 0.0])
    world.add_camera(name="above", pos=[0.0, 0.0, 0.9], quat=[1.0, 0.0, 0.0, 0.0], fovy=30.0)
    world.add_geom(
        name="table", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[2.0, 2.0, 0.1], rgba=[0.7, 0.68, 0.65, 1.0], **no_filter
    )
    body = world.add_body(name="object", pos=[0.0, 0.0, half])
    body.add_freejoint(name="object")
    for name, corners in (("object", config.footprint.contour), ("base", config.footprint.supports)):
        vertices = np.concatenate([np.insert(corners, 2, z, axis=1) for z in (-half, half)])
        spec.add_mesh(name=name, uservert=vertices.ravel())
        visible = name == "object"
        body.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_MESH,
            meshname=name,
            mass=config.mass if visible else 0.0,
            rgba=[0.25, 0.45, 0.75, 1.0 if visible else 0.0],
            group=0 if visible else 3,
            **no_filter,
        )
    rod = world.add_body(name="rod", pos=[0.0, 0.0, half])
    rod.explicitinertial, rod.mass, rod.inertia = True, config.rod_mass, [1e-3, 1e-3, 1e-3]
    for name, axis in (("rod_x", [1.0, 0.0, 0.0]), ("rod_y", [0.0, 1.0, 0.0])):
        rod.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=axis)
    paint = [0.8, 0.3, 0.2, 1.0]
    rod.add_geom(
        name="rod", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[config.rod_radius, 0.0, 0.0], rgba=paint, **no_filter
    )
    rod.add_geom(
        name="shaft",
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        size=[config.rod_radius, 1.5 * config.height, 0.0],
        pos=[0.0, 0.0, 1.5 * config.height],
        rgba=paint,
        **no_filter,
    )
    spec.add_pair(
        name="rod",
        geomname1="rod",
        geomname2="object",
        condim=3,
        friction=[config.rod_friction, config.rod_friction, 0.0, 0.0, 0.0],
        solref=[config.time_constant, config.rod_damping_ratio],
    )
    spec.add_pair(
        name="table",
        geomname1="table",
        geomname2="base",
        condim=4,
        friction=[config.table_friction, config.table_friction, config.torsional_friction, 0.0, 0.0],
        solref=[config.table_time_constant, config.table_damping_ratio],
        solreffriction=[-1e-9, -_STICK_DAMPING * _TABLE_IMPEDANCE],
        solimp=[_TABLE_IMPEDANCE, _TABLE_IMPEDANCE, 0.001, 0.5, 2.0],
    )
    spec.add_sensor(
        name="touch",
        type=mujoco.mjtSensor.mjSENS_CONTACT,
        objtype=mujoco.mjtObj.mjOBJ_GEOM,
        objname="rod",
        reftype=mujoco.mjtObj.mjOBJ_GEOM,
        refname="object",
        intprm=[1, 0, 1],
    )
    return spec


def simulate_strikes(
    config: PushingConfig,
    pose: Float[np.ndarray, "strike 3"],
    strikes: Strikes,
    *,
    parameters: Mapping[str, Float[np.ndarray, " strike"]] | None = None,
    slide: bool = True,
    timeout: float = 3.0,
    threads: int = 1,
) -> StrikeResult:
    """Strike objects at rest in MuJoCo, one world per strike; the rod is retracted once it has left.

    Args:
        config: the world.
        pose: [x y yaw] of each object.
        strikes: one per object.
        parameters: values that differ from world to world, by names of `PUSHING_PARAMETERS`.
        slide: False stops at separation; `final_pose` is the pose there.
        timeout: of the slide [s].
        threads: of MuJoCo's pool; the result does not depend on it.

    Raises:
        BadInput: see `rod_at_touch`; parameters of the wrong length.
        UnknownName: a parameter that may not differ between worlds.
    """
    n = len(strikes)
    axis, rod_before, normal = rod_at_touch(config, pose, strikes)
    pose = np.array(pose, dtype=np.float64)
    worlds = _Worlds(config, n, parameters or {}, threads)
    batch = worlds.batch
    worlds.place(pose, np.zeros((n, 3)))
    approach = _GAP / -(rod_before * normal).sum(axis=1)  # [s] until the touch
    batch.qpos[:, 7:] = axis - rod_before * approach[:, None]
    batch.qvel[:, 6:] = rod_before
    worlds.timestep[:] = worlds.strike_timestep

    velocity, rod_after, pose_after = np.zeros((n, 3)), np.zeros((n, 2)), np.zeros((n, 3))
    touched, separated = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    waited, contact_time = np.zeros(n), np.zeros(n)
    active = np.arange(n)
    while len(active):
        before, placed = batch.qvel[active].copy(), worlds.pose(active)
        batch.step(ids=active)
        touching = worlds.touching(active)  # at the start of the step, to which `before` belongs
        elapsed = worlds.timestep[active]
        contact_time[active] += touching * elapsed
        waited[active] += ~touching * elapsed
        leaves = touched[active] & ~touching
        ends = leaves | (contact_time[active] > _LONGEST_CONTACT) | (waited[active] > 4 * approach[active])
        touched[active] |= touching
        done = active[ends]
        velocity[done], rod_after[done] = before[ends][:, [0, 1, 5]], before[ends][:, 6:]
        pose_after[done], separated[done] = placed[ends], leaves[ends]
        active = active[~ends]
    if slide:
        worlds.retract_rod()
        final_pose, slide_time, rested = worlds.slide(pose_after[:, 2], timeout)
    else:
        final_pose, slide_time, rested = pose_after.copy(), np.zeros(n), np.zeros(n, dtype=bool)
    return StrikeResult(
        pose=pose,
        rod_before=rod_before,
        velocity=velocity,
        rod_after=rod_after,
        pose_after=pose_after,
        contact_time=contact_time,
        final_pose=final_pose,
        slide_time=slide_time,
        separated=separated,
        rested=rested,
    )


def simulate_sliding(
    config: PushingConfig,
    pose: Float[np.ndarray, "slide 3"],
    velocity: Float[np.ndarray, "slide 3"],
    *,
    parameters: Mapping[str, Float[np.ndarray, " slide"]] | None = None,
    timeout: float = 3.0,
    threads: int = 1,
) -> tuple[Float[np.ndarray, "slide 3"], Float[np.ndarray, " slide"], Bool[np.ndarray, " slide"]]:
    """Let objects slide to rest in MuJoCo, without a rod.

    Returns:
        final_pose: [x y yaw], yaw counted on through full turns.
        slide_time: [s], in units of the looks at the velocity.
        rested: False where the object still moved at the time-out.
    """
    pose, velocity = np.asarray(pose, dtype=np.float64), np.asarray(velocity, dtype=np.float64)
    worlds = _Worlds(config, len(pose), parameters or {}, threads)
    worlds.place(pose, velocity)
    worlds.retract_rod()
    return worlds.slide(pose[:, 2], timeout)


def sliding_tails(
    config: PushingConfig,
    velocity: Float[np.ndarray, "slide 3"],
    *,
    rate: float = 200.0,
    duration: float = 0.1,
    parameters: Mapping[str, Float[np.ndarray, " slide"]] | None = None,
    threads: int = 1,
) -> tuple[Float[np.ndarray, "slide frame 3"], Float[np.ndarray, " frame"]]:
    """Record objects that slide, as a camera would.

    Args:
        config: the world.
        velocity: at the first frame; every object starts at the origin.
        rate: frames per second; rounded to whole time steps.
        duration: [s]
        parameters: values that differ from world to world.
        threads: of MuJoCo's pool.

    Returns:
        pose: [x y yaw] at every frame.
        t: [s]
    """
    velocity = np.asarray(velocity, dtype=np.float64)
    n = len(velocity)
    worlds = _Worlds(config, n, parameters or {}, threads)
    worlds.place(np.zeros((n, 3)), velocity)
    worlds.retract_rod()
    stride = max(1, round(1.0 / (rate * config.timestep)))
    frames = 1 + int(duration / (stride * config.timestep) + 1e-9)
    everyone = np.arange(n)
    pose = np.zeros((n, frames, 3))
    for k in range(1, frames):
        worlds.batch.step(nstep=stride)
        pose[:, k] = worlds.pose(everyone)
    pose[..., 2] = np.unwrap(pose[..., 2], axis=1)
    return pose, np.arange(frames) * stride * config.timestep


class _Worlds:
    """A batch of striking worlds with their own contact parameters."""

    def __init__(self, config: PushingConfig, n: int, parameters: Mapping[str, np.ndarray], threads: int) -> None:
        from mujoco.batch import Batch

        self.config = config
        self.batch = Batch(pushing_spec(config).compile(), nsim=n, nthread=threads)
        value = _columns(config, n, parameters)
        self.timestep = self.batch.expand("opt.timestep")
        self.batch.expand("opt.impratio")[:] = value["impratio"]
        friction, solref = self.batch.expand("pair_friction"), self.batch.expand("pair_solref")
        rod, table = (self.batch.model.pair(name).id for name in ("rod", "table"))
        friction[:, rod, :2] = value["rod_friction"][:, None]
        friction[:, table, :2] = value["table_friction"][:, None]
        friction[:, table, 2] = value["torsional_friction"]
        solref[:, rod, 0], solref[:, rod, 1] = value["time_constant"], value["rod_damping_ratio"]
        if "rod_impedance" in value:
            d = value["rod_impedance"]
            solimp = self.batch.expand("pair_solimp")
            solimp[:, rod] = [0.0, 0.0, 1e-5, 0.5, 2.0]
            solimp[:, rod, :2] = d[:, None]
            # a direct damping is divided by d, and friction is regularized by 1 / impratio of what the normal row is
            share = value["impratio"] / (d * value["impratio"] + 1.0 - d)
            along = self.batch.expand("pair_solreffriction")
            along[:, rod, 0], along[:, rod, 1] = -1e-9, -2.0 * value["rod_grip"] / value["time_constant"] / share
        solref[:, table, 1] = value["table_damping_ratio"]
        oscillation = value["time_constant"] * value["rod_damping_ratio"]
        self.strike_timestep = np.minimum.reduce(
            [oscillation / config.resolution, value["time_constant"] / 2, np.full(n, config.timestep)]
        )
        # a support of stiffness mass / (time constant * damping ratio)^2 carries its share of the weight
        sink = GRAVITY * (config.table_time_constant * value["table_damping_ratio"]) ** 2
        self._z = config.height / 2 - sink / len(config.footprint.supports)
        self._touch = self.batch.bind("sensordata")

    def place(self, pose: np.ndarray, velocity: np.ndarray) -> None:
        """Put the objects on the table."""
        qpos = self.batch.qpos
        qpos[:, :2], qpos[:, 2] = pose[:, :2], self._z
        qpos[:, 3:7] = 0.0
        qpos[:, 3], qpos[:, 6] = np.cos(pose[:, 2] / 2), np.sin(pose[:, 2] / 2)
        self.batch.qvel[:] = 0.0
        self.batch.qvel[:, [0, 1, 5]] = velocity

    def pose(self, ids: np.ndarray) -> np.ndarray:
        """[x y yaw] of the objects, yaw in [-pi, pi]."""
        qpos = self.batch.qpos[ids]
        w, x, y, z = qpos[:, 3:7].T
        yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
        return np.stack([qpos[:, 0], qpos[:, 1], yaw], axis=1)

    def touching(self, ids: np.ndarray) -> np.ndarray:
        """Whether rod and object touched at the start of the last step."""
        return self._touch[ids, 0] > 0

    def retract_rod(self) -> None:
        """Take the rods away and go on at the time step of the slide."""
        self.batch.qpos[:, 7:], self.batch.qvel[:, 6:] = _AWAY, 0.0
        self.timestep[:] = self.config.timestep

    def slide(self, yaw: np.ndarray, timeout: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Step until rest; `yaw` is continued through full turns."""
        n = len(yaw)
        yaw, elapsed, rested = np.array(yaw), np.zeros(n), np.zeros(n, dtype=bool)
        scale = np.array([1.0, 1.0, self.config.footprint.gyration])
        active = np.arange(n)
        for _ in range(int(np.ceil(timeout / (_LOOK * self.config.timestep)))):
            self.batch.step(ids=active, nstep=_LOOK)
            elapsed[active] += _LOOK * self.config.timestep
            turned = self.pose(active)[:, 2] - yaw[active]
            yaw[active] += wrap_angle(turned)
            speed = np.linalg.norm(self.batch.qvel[active][:, [0, 1, 5]] * scale, axis=1)
            rested[active] = speed < _AT_REST
            active = active[speed >= _AT_REST]
            if not len(active):
                break
        return np.column_stack([self.batch.qpos[:, :2], yaw]), elapsed, rested


def _columns(config: PushingConfig, n: int, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every parameter as one value per world; one that is None everywhere is left out."""
    for name in parameters:
        if name not in PUSHING_PARAMETERS:
            raise UnknownName("pushing parameter", name, PUSHING_PARAMETERS)
    columns = {}
    for name in PUSHING_PARAMETERS:
        given = parameters.get(name, getattr(config, name))
        if given is None:
            continue
        value = np.asarray(given, dtype=np.float64)
        if value.shape not in ((), (n,)):
            raise BadInput(f"pushing parameter {name} has shape {value.shape}, expected ({n},): one per world")
        smallest = value.min() if value.size else np.inf
        positive = name not in ("rod_friction", "torsional_friction")
        if not np.isfinite(value).all() or smallest < 0 or (positive and smallest == 0):
            raise BadInput(f"pushing parameter {name}: {smallest} is not a {'positive' if positive else 'valid'} value")
        columns[name] = np.broadcast_to(value, (n,))
    steepest = columns["table_friction"].max(initial=0.0)
    if steepest > config.tipping_friction:
        raise BadInput(
            f"pushing parameter table_friction: {steepest:g} is above {config.tipping_friction:.3f}, where this object "
            "tips over instead of sliding"
        )
    return columns
