"""Two bodies that collide: their shapes, masses, and how each may move.

The object is the body that is learned about; velocities are told in its body frame, whose origin is the centre of
mass. The other body strikes it, or is struck by it. Where a side moves in the plane, that is the world's x-y plane
through the origin; a resting object lies on a table below that plane.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated

import numpy as np
from jaxtyping import Bool, Float

from dexprior.collision.parameters import PARAMETERS
from dexprior.collision.shapes.solids import Solid, read_solid, solid_of_primitive, solid_of_prism
from dexprior.config import Gt, config
from dexprior.data.impacts import ELLIPSE_MASS, ELLIPSE_SEMI_AXES
from dexprior.errors import BadInput, ConfigError, UnknownName
from dexprior.worlds.pushing import GRAVITY, PushingConfig

if TYPE_CHECKING:
    import mujoco

__all__ = ["MOTIONS", "PRESETS", "SHAPES", "Body", "CollisionScene", "Side", "build_spec", "preset", "prism_strike"]

SHAPES = ("sphere", "box", "capsule", "cylinder", "ellipsoid", "plane", "prism", "mesh")
MOTIONS = ("free", "planar", "sliding", "resting", "fixed")
_PARTNERS = {"free": ("free", "fixed"), "planar": ("planar", "sliding", "fixed"), "resting": ("planar", "sliding")}
_SIZES = {"sphere": 1, "box": 3, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "plane": 0, "prism": 1, "mesh": 0}
_SMALLEST = 1e-4  # [m] below it MuJoCo's distances lose their meaning
_CCD_TOLERANCE = 1e-10  # [m] so that a normal read at a gap of a micrometre is good to 1e-4
_FAR = 10.0  # [m] up to which distances are computed

_TABLE_TIME_CONSTANT = PushingConfig().table_time_constant
_TABLE_IMPEDANCE = 0.01  # as in worlds.pushing: a sliding contact carries no extra load
_STICK_DAMPING = 400.0  # [1/s]
_MAX_SUPPORTS = 4  # contacts that MuJoCo makes between a mesh and a plane


@config
class Side:
    """One of the two bodies."""

    shape: str = "sphere"
    """One of sphere, box, capsule, cylinder, ellipsoid, plane, prism, mesh."""
    size: tuple[float, ...] = ()
    """MuJoCo's [m]: radius; half sides; radius and half length; semi-axes. Of a prism: half its height."""
    contour: tuple[tuple[float, float], ...] = ()
    """Contour of a prism: its convex cross-section in x-y [m], counter-clockwise."""
    mesh: str | None = None
    """OBJ or STL file."""
    scale: Annotated[float, Gt(0)] = 1.0
    """Metres in a unit of the mesh's coordinates; 0.001 for a file in millimetres."""
    hull: bool = False
    """Accept a mesh that is not convex; MuJoCo collides its convex hull."""
    mass: Annotated[float, Gt(0)] | None = None
    """[kg]; None takes the density."""
    density: Annotated[float, Gt(0)] = 1000.0
    """[kg/m^3], of an evenly filled body."""
    inertia: tuple[float, float, float] | None = None
    """About the body axes through the centre of mass [kg m^2]; None takes an evenly filled body's."""
    motion: str = "free"
    """One of free, planar, sliding (in the plane, without turning), resting (on a table, with gravity), fixed."""

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise UnknownName("shape", self.shape, SHAPES)
        if self.motion not in MOTIONS:
            raise UnknownName("motion", self.motion, MOTIONS)
        wanted = _SIZES[self.shape]
        if len(self.size) != wanted:
            raise ConfigError(f"{self.shape}.size = {self.size}: needs {wanted} number(s)")
        if not all(np.isfinite(s) and s >= _SMALLEST for s in self.size):
            raise ConfigError(f"{self.shape}.size = {self.size}: degenerate, every size must be at least {_SMALLEST} m")
        if (self.mesh is not None) != (self.shape == "mesh"):
            raise ConfigError(f"{self.shape}.mesh = {self.mesh!r}: a file is for the shape 'mesh', and required there")
        if bool(self.contour) != (self.shape == "prism"):
            raise ConfigError(f"{self.shape}.contour: a contour is for the shape 'prism', and required there")
        if self.shape == "plane" and self.motion != "fixed":
            raise ConfigError(f"plane.motion = {self.motion!r}: a plane is fixed")
        if self.motion == "resting" and self.shape != "prism":
            raise ConfigError(
                f"{self.shape}.motion = 'resting': only a prism stands on the table; take 'free' or 'planar'"
            )
        if self.inertia is not None and (self.mass is None or min(self.inertia) <= 0):
            raise ConfigError(f"{self.shape}.inertia = {self.inertia}: must be positive, and needs a mass")

    @property
    def solid(self) -> Solid | None:
        """Surface and volume about the centre of mass; None for a plane.

        Raises:
            BadInput: a mesh that is missing, open, not convex, or degenerate; a contour that is not convex.
        """
        return _solid(self)


@config
class CollisionScene:
    """An object and what it collides with."""

    object: Side
    """Not a plane, and not fixed."""
    other: Side
    """A free or planar one moves before the impact; a fixed one is struck."""

    def __post_init__(self) -> None:
        choices = _PARTNERS.get(self.object.motion)
        if choices is None:
            raise ConfigError(
                f"scene.object.motion = {self.object.motion!r}: choices: {', '.join(_PARTNERS)}; usually the sides are "
                "to be swapped"
            )
        if self.other.motion not in choices:
            raise ConfigError(
                f"scene.other.motion = {self.other.motion!r}: beside a {self.object.motion} object, choices: "
                f"{', '.join(choices)}"
            )

    @property
    def planar(self) -> bool:
        """Whether the impact happens in the x-y plane."""
        return self.object.motion in ("planar", "resting")

    @property
    def resting(self) -> bool:
        """Whether the object rests on a table."""
        return self.object.motion == "resting"

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the contact parameters that have an effect here."""
        spatial = () if self.planar else ("torsional_friction",)
        ground = ("ground_friction", "ground_damping_ratio", "ground_torsional_friction") if self.resting else ()
        return (*PARAMETERS, *spatial, *ground)


@cache
def _solid(side: Side) -> Solid | None:
    if side.shape == "plane":
        return None
    if side.shape == "prism":
        return solid_of_prism(np.array(side.contour), side.size[0])
    if side.mesh is not None:
        solid = read_solid(side.mesh, scale=side.scale, hull=side.hull)
        if np.ptp(solid.vertices, axis=0).min() < _SMALLEST:
            extent = ", ".join(f"{e:.3g}" for e in np.ptp(solid.vertices, axis=0))
            raise BadInput(f"{side.mesh}: degenerate, its extent is ({extent}) m; is `scale` right?")
        return solid
    return solid_of_primitive(side.shape, side.size)


# --- presets ------------------------------------------------------------------------------------------------


def prism_strike(
    contour: Float[np.ndarray, "vertex 2"], *, resting: bool = True, like: PushingConfig
) -> CollisionScene:
    """A prism struck by the rod of the striking world: the rod's round end, at the height of the centre of mass.

    Args:
        contour: convex cross-section, counter-clockwise [m].
        resting: on the table; False leaves table and gravity out.
        like: height and mass of the prism, radius and mass of the rod.
    """
    return CollisionScene(
        object=Side(
            shape="prism",
            size=(like.height / 2,),
            contour=tuple((float(x), float(y)) for x, y in contour),
            mass=like.mass,
            motion="resting" if resting else "planar",
        ),
        other=Side(shape="sphere", size=(like.rod_radius,), mass=like.rod_mass, motion="sliding"),
    )


def _striker(shape: str) -> CollisionScene:
    world = PushingConfig(shape=shape)  # type: ignore[arg-type]
    return prism_strike(world.footprint.contour, like=world)


def _ellipse_plane() -> CollisionScene:
    a, b = ELLIPSE_SEMI_AXES
    ellipse = Side(shape="ellipsoid", size=(a, b, b), mass=ELLIPSE_MASS, motion="planar")
    return CollisionScene(object=ellipse, other=Side(shape="plane", motion="fixed"))


def _cube_plane() -> CollisionScene:
    cube = Side(shape="box", size=(0.0524,) * 3, mass=0.37, inertia=(0.00081,) * 3)  # of the measured tosses
    return CollisionScene(object=cube, other=Side(shape="plane", motion="fixed"))


PRESETS = {
    "striker_semi_cylinder": lambda: _striker("semi_cylinder"),
    "striker_square": lambda: _striker("square"),
    "striker_triangle": lambda: _striker("triangle"),
    "ellipse_plane": _ellipse_plane,
    "cube_plane": _cube_plane,
}
"""Scenes by name; the last two are those of the measured impacts."""


def preset(name: str) -> CollisionScene:
    """A scene by its name.

    Raises:
        UnknownName: not in `PRESETS`.
    """
    if name not in PRESETS:
        raise UnknownName("collision scene", name, PRESETS)
    return PRESETS[name]()


# --- MuJoCo -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Body:
    """Where one side is found in the compiled model, and its inertia."""

    motion: str
    qpos: slice
    qvel: slice
    inverse_inertia: Float[np.ndarray, "6 6"]
    """Inverse inertia for [v omega] at the centre of mass, body axes; zero for what cannot move. A resting object moves
    in the plane."""
    radius: float
    """Radius of a sphere about the centre of mass that holds the body [m]; zero for a plane."""

    @property
    def moves(self) -> Bool[np.ndarray, " 6"]:
        """Components of [v omega] that an impact can change."""
        return self.inverse_inertia.diagonal() > 0


def build_spec(scene: CollisionScene, *, distance: bool) -> mujoco.MjSpec:
    """The scene in MuJoCo: bodies and geoms `object` and `other`, and a contact pair of the same geoms.

    Args:
        scene: the two bodies.
        distance: sensors of distance, normal and nearest points, and no contact; else a sensor that counts contacts.
    """
    import mujoco

    spec = mujoco.MjSpec()
    option = spec.option
    option.cone, option.integrator = mujoco.mjtCone.mjCONE_ELLIPTIC, mujoco.mjtIntegrator.mjINT_EULER
    option.gravity = [0.0, 0.0, -GRAVITY if scene.resting else 0.0]
    option.ccd_tolerance, option.ccd_iterations = _CCD_TOLERANCE, 200
    option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    for name, side in (("object", scene.object), ("other", scene.other)):
        _add_side(spec, name, side, planar=scene.planar)
    pair = ("object", "other")
    if distance:
        kinds = mujoco.mjtSensor
        for name, kind in (
            ("distance", kinds.mjSENS_GEOMDIST),
            ("normal", kinds.mjSENS_GEOMNORMAL),
            ("nearest", kinds.mjSENS_GEOMFROMTO),
        ):
            spec.add_sensor(
                name=name,
                type=kind,
                objtype=mujoco.mjtObj.mjOBJ_GEOM,
                objname=pair[0],
                reftype=mujoco.mjtObj.mjOBJ_GEOM,
                refname=pair[1],
                cutoff=_FAR,
            )
        return spec
    spec.add_pair(name="contact", geomname1=pair[0], geomname2=pair[1], condim=3 if scene.planar else 4)
    spec.add_sensor(
        name="touch",
        type=mujoco.mjtSensor.mjSENS_CONTACT,
        objtype=mujoco.mjtObj.mjOBJ_GEOM,
        objname=pair[0],
        reftype=mujoco.mjtObj.mjOBJ_GEOM,
        refname=pair[1],
        intprm=[1, 0, 1],
    )
    if scene.resting:
        _add_table(spec, scene.object)
    return spec


def bodies(scene: CollisionScene, model: mujoco.MjModel) -> tuple[Body, Body]:
    """The object and the other side in a compiled model."""
    found = []
    for name, side in (("object", scene.object), ("other", scene.other)):
        body = model.body(name)
        first = model.jnt_qposadr[body.jntadr[0]] if body.jntnum[0] else 0
        start = int(body.dofadr[0]) if body.jntnum[0] else 0
        wide = {"free": (7, 6), "resting": (7, 6), "planar": (3, 3), "sliding": (2, 2), "fixed": (0, 0)}[side.motion]
        inverse: np.ndarray = np.zeros((6, 6))
        if side.motion != "fixed":
            turn = np.empty(9)
            _quat_to_matrix(turn, model.body_iquat[body.id])
            axes = turn.reshape(3, 3)
            inertia = axes @ np.diag(model.body_inertia[body.id]) @ axes.T
            inverse[[0, 1, 2], [0, 1, 2]] = 1.0 / model.body_mass[body.id]
            if side.motion == "free":
                inverse[3:, 3:] = np.linalg.inv(inertia)
            else:
                inverse[2, 2], inverse[5, 5] = 0.0, 1.0 / inertia[2, 2] if side.motion != "sliding" else 0.0
        solid = side.solid
        found.append(
            Body(
                motion=side.motion,
                qpos=slice(int(first), int(first) + wide[0]),
                qvel=slice(start, start + wide[1]),
                inverse_inertia=inverse,
                radius=0.0 if solid is None else float(np.linalg.norm(solid.vertices, axis=1).max()),
            )
        )
    return found[0], found[1]


def table_sink(scene: CollisionScene, damping_ratio: Float[np.ndarray, " world"]) -> Float[np.ndarray, " world"]:
    """How far a resting object sinks into the table [m]."""
    supports = min(len(scene.object.contour), _MAX_SUPPORTS)
    return GRAVITY * (_TABLE_TIME_CONSTANT * damping_ratio) ** 2 / supports


def table_solref(damping_ratio: Float[np.ndarray, " world"]) -> Float[np.ndarray, "world 2"]:
    """MuJoCo's `solref` of the table."""
    return np.stack([np.full_like(damping_ratio, _TABLE_TIME_CONSTANT), damping_ratio], axis=1)


def _quat_to_matrix(out: np.ndarray, quat: np.ndarray) -> None:
    import mujoco

    mujoco.mju_quat2Mat(out, quat)


def _add_side(spec: mujoco.MjSpec, name: str, side: Side, *, planar: bool) -> None:
    import mujoco

    body = spec.worldbody.add_body(name=name)
    if side.motion in ("free", "resting"):
        body.add_freejoint(name=name)
    elif side.motion in ("planar", "sliding"):
        for k, axis in enumerate(([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])):
            body.add_joint(name=f"{name}_{'xy'[k]}", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=axis)
        if side.motion == "planar":
            body.add_joint(name=f"{name}_yaw", type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0.0, 0.0, 1.0])
    geom = body.add_geom(name=name, contype=0, conaffinity=0)
    solid = side.solid
    if side.shape == "plane":
        geom.type, geom.size = mujoco.mjtGeom.mjGEOM_PLANE, [1.0, 1.0, 0.1]
        if planar:
            geom.quat = [np.sqrt(0.5), -np.sqrt(0.5), 0.0, 0.0]  # its normal is +y
    elif side.shape in ("prism", "mesh"):
        assert solid is not None
        mesh = spec.add_mesh(name=name, uservert=solid.vertices.ravel(), userface=solid.faces.ravel())
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_EXACT
        geom.type, geom.meshname = mujoco.mjtGeom.mjGEOM_MESH, name
    else:
        geom.type = getattr(mujoco.mjtGeom, f"mjGEOM_{side.shape.upper()}")
        geom.size = [*side.size, 0.0, 0.0][:3]
    if side.inertia is not None:
        geom.mass = 0.0
        body.explicitinertial, body.mass, body.inertia = True, side.mass, list(side.inertia)
    elif side.mass is not None:
        geom.mass = side.mass
    else:
        geom.density = side.density


def _add_table(spec: mujoco.MjSpec, side: Side) -> None:
    import mujoco

    half = side.size[0]
    corners = np.array(side.contour) - solid_of_prism(np.array(side.contour), half).centre[:2]
    supports = corners[_spread(corners, _MAX_SUPPORTS)]
    vertices = np.concatenate([np.insert(supports, 2, z, axis=1) for z in (-half, half)])
    spec.add_mesh(name="base", uservert=vertices.ravel())
    spec.body("object").add_geom(
        name="base", type=mujoco.mjtGeom.mjGEOM_MESH, meshname="base", mass=0.0, contype=0, conaffinity=0
    )
    spec.worldbody.add_geom(
        name="table",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[2.0, 2.0, 0.1],
        pos=[0.0, 0.0, -half],
        contype=0,
        conaffinity=0,
    )
    spec.add_pair(
        name="table",
        geomname1="table",
        geomname2="base",
        condim=4,
        solreffriction=[-1e-9, -_STICK_DAMPING * _TABLE_IMPEDANCE],
        solimp=[_TABLE_IMPEDANCE, _TABLE_IMPEDANCE, 0.001, 0.5, 2.0],
    )


def _spread(points: Float[np.ndarray, "vertex 2"], count: int) -> list[int]:
    """Indices of far-apart points: the farthest from the middle, then each time the farthest from those chosen."""
    if len(points) <= count:
        return list(range(len(points)))
    chosen = [int((points**2).sum(axis=1).argmax())]
    while len(chosen) < count:
        away = np.linalg.norm(points[:, None] - points[chosen][None], axis=2).min(axis=1)
        chosen.append(int(away.argmax()))
    return sorted(chosen)
