"""Folding: a cloth on a board is pinched at its overhanging hem, and one half is laid over the other.

Two grippers take the ends of the hem (of a shirt: its sleeves), one takes the middle. What holds the fabric is friction
between two pads, so it can slip out. The verdict: the flap covers what it should, lies smoothly, did not slip on the
way, and was let go.

In the flex, board and table touch a sphere in each vertex, and only pads and other layers touch the triangles between:
five times fewer contacts than with triangles on the board, and the same fold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, Le, config
from dexprior.errors import BadInput
from dexprior.families import Parameter, ParameterFamily, fixed_outside
from dexprior.geometry.rotations import matrix_from_quat, quat_from_matrix
from dexprior.robots.rigs import add_rig, posture
from dexprior.worlds.measures import TOUCH_ON, slip_speed, tolerance
from dexprior.worlds.tasks.base import Layout, Scenes, Task, Truth
from dexprior.worlds.tasks.families import sensors
from dexprior.worlds.tasks.folding.cloth import Cloth, Outline, Place, carried, flap_coverage, mirrored, turned, wrinkle
from dexprior.worlds.tasks.parts import Part
from dexprior.worlds.tasks.scene import stage, stiffen
from dexprior.worlds.tasks.view import View

if TYPE_CHECKING:
    import mujoco

__all__ = ["Folding", "FoldingConfig"]

_TABLE = (0.45, 0.0)  # [m] where the middle of the cloth lies, on average
_BOARD_HEIGHT = 0.11  # [m] room for a hand beside it
_OVERHANG = 0.0145  # [m] of the hem beyond the board's edge: room for half a pad; the row behind it lies on the board
_INSET = 0.001  # [m] of the grips from the cloth's edges
_RADIUS = 0.003  # [m] half the cloth's thickness in contact
_POISSON = 0.3
_APART = 0.35  # [m] of each of two bases from the middle
_REST_SPEED = 0.05  # [m/s] a cloth whose vertices are slower on average lies still


@config
class FoldingConfig:
    """Cloth, robots and limits."""

    outline: Outline = "square"
    """One of square, shirt."""
    side: Annotated[float, Ge(0.1), Le(0.3)] = 0.20
    """Length and width of the cloth [m]."""
    resolution: Annotated[int, Ge(5), Le(31)] = 11
    """Vertices along a side."""
    robots: Literal[1, 2] = 2
    """One pinches the hem's middle, two its ends."""
    arm: str = "gantry"
    """Name of the arms."""
    end_effector: str = "parallel"
    """Name of the gripper that each carries, or of a hand."""
    engine: Literal["flex", "particles"] = "flex"
    """MuJoCo's flex, or the particle cloth, which is faster and needs the extra `compiled`."""
    density: Annotated[float, Gt(0)] = 0.4
    """Mass per area, that of a towel [kg/m2]."""
    young: Annotated[float, Gt(0)] = 1.4e5
    """Modulus of the fabric [Pa]."""
    thickness: Annotated[float, Gt(0)] = 1.5e-3
    """Thickness of the fabric where its stiffness is concerned [m]; in contact it is 6 mm thick."""
    grain: Annotated[float, Gt(0)] = 1.0
    """Bending stiffness along the fabric's grain over that across it; their geometric mean is that of `young`."""
    grain_angle: float = 0.0
    """Angle of the grain from the cloth's own x axis, across the fold's line [rad]."""
    damping: Annotated[float, Ge(0)] = 0.02
    """Damping of deformations, as the time by which force leads strain [s]."""
    overlap: Annotated[float, Gt(0), Le(1)] = 0.8
    """Coverage from which the cloth counts as folded."""
    wrinkle: Annotated[float, Gt(0), Le(1)] = 0.15
    """Largest share of the area that slopes may hide."""
    slip: Annotated[float, Gt(0)] = 0.02
    """How far the hem may slip between the pads [m]."""
    timestep: Annotated[float, Gt(0), Le(0.01)] = 0.008
    """Simulation step [s]."""

    def __post_init__(self) -> None:
        if self.end_effector == "parallel":
            return
        if self.engine == "particles" or self.robots != 1:
            raise BadInput(
                f"FoldingConfig: {self.end_effector!r} folds with robots=1 and engine='flex'; two robots and the "
                "particle cloth are made for the parallel gripper"
            )


_TRAINING = ParameterFamily(
    "folding-training",
    (
        Parameter(name="cloth_friction", unit="1", low=0.5, high=0.9, target="world/-/cloth_friction"),
        Parameter(
            name="stiffness", unit="1", low=0.8, high=1.25, distribution="log_uniform", target="world/-/stiffness"
        ),
        Parameter(name="damping", unit="1", low=0.5, high=2.0, distribution="log_uniform", target="world/-/damping"),
        Parameter(name="density", unit="1", low=0.85, high=1.2, distribution="log_uniform", target="world/-/density"),
        Parameter(name="pad_friction", unit="1", low=0.6, high=1.2, target="geom/*pad_*/friction/0"),
        *sensors(wrench=0.1),
    ),
)


@dataclass(frozen=True)
class Folding(Task):
    """See the module."""

    config: FoldingConfig = field(default_factory=FoldingConfig)

    name: ClassVar[str] = "folding"
    horizon: ClassVar[float] = 6.0
    settle: ClassVar[float] = 0.4
    family: ClassVar[ParameterFamily] = _TRAINING
    reality: ClassVar[ParameterFamily] = fixed_outside(
        "folding-reality",
        _TRAINING,
        {
            "cloth_friction": 0.4,
            "stiffness": 0.7,
            "damping": 0.4,
            "density": 1.3,
            "pad_friction": 0.5,
            "wrench_noise": 0.2,
            "cloud_noise": 0.003,
        },
    )
    weights: ClassVar[dict[str, float]] = {"reach": 0.1, "grasp": 0.15, "cover": 0.5, "smooth": 0.15, "firm": 0.1}

    @cached_property
    def cloth(self) -> Cloth:
        """Its geometry."""
        c = self.config
        return Cloth(outline=c.outline, side=c.side, resolution=c.resolution)

    @property
    def _prefixes(self) -> tuple[str, ...]:
        return ("robot/",) if self.config.robots == 1 else ("left/", "right/")

    @property
    def parts(self) -> tuple[Part, ...]:
        """The cloth."""
        return (Part(name="cloth", body=None, moves=True, surface=None, soft=True),)

    def layout(self) -> Layout:
        """A cloth on a board, and one robot or two beside each other."""
        import mujoco

        c = self.config
        spec = stage(self.name, timestep=c.timestep)
        spec.geom("table").friction = _SMOOTH
        spec.geom("table").contype, spec.geom("table").conaffinity = 0, 2 | _ON_SUPPORT
        edge, half = _TABLE[0] + c.side / 2 - _OVERHANG, 0.65 * c.side
        spec.worldbody.add_geom(
            name="board", type=mujoco.mjtGeom.mjGEOM_BOX, size=[half, 0.7 * c.side, _BOARD_HEIGHT / 2],
            pos=[edge - half, _TABLE[1], _BOARD_HEIGHT / 2], friction=_SMOOTH, rgba=[0.55, 0.42, 0.3, 1],
            contype=0, conaffinity=2 | _ON_SUPPORT,
        )  # fmt: skip
        self._add_cloth(spec)
        apart = {1: (0.0,), 2: (_APART, -_APART)}[c.robots]
        rigs = []
        for prefix, base, grip in zip(self._prefixes, apart, self.cloth.grips(c.robots, _INSET)):
            over = (_TABLE[0] + c.side / 2 + 0.06, _TABLE[1] + float(grip[1]) - base, _BOARD_HEIGHT + 0.12)
            home = posture(c.arm, c.end_effector, over, np.pi / 2) if c.end_effector == "parallel" else None
            rigs.append(add_rig(spec, c.arm, c.end_effector, prefix=prefix, position=(0.0, base, 0.0), home=home))
        if c.engine == "particles":  # no fabric keeps the pads apart in MuJoCo
            for joint in (spec.joint(f"{prefix}pad_{side}") for prefix in self._prefixes for side in ("left", "right")):
                joint.range = [_RADIUS, joint.range[1]]
        stiffen(spec, "*pad_*", timeconst=2 * c.timestep, impedance=0.999)  # softer pads close through light fabric
        return Layout(spec=spec, rigs=tuple(rigs))

    def _add_cloth(self, spec: mujoco.MjSpec) -> None:
        """Bodies of the vertices, with slides or moved from outside, and the flex that joins them."""
        import mujoco

        c, cloth, particles = self.config, self.cloth, self.config.engine == "particles"
        mass = c.density * cloth.vertex_areas
        for k, (x, y) in enumerate(cloth.vertices):
            place = [_TABLE[0] + x, _TABLE[1] + y, _BOARD_HEIGHT + _RADIUS]
            body = spec.worldbody.add_body(name=f"cloth_{k}", pos=place, mocap=particles)
            body.explicitinertial, body.mass, body.inertia = True, mass[k], [2e-5 * mass[k]] * 3
            if not particles:
                body.add_geom(
                    name=f"cloth_{k}", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[_RADIUS, 0, 0], mass=0.0, condim=3,
                    friction=[0.5, 0.005, 0.0001], solref=[0.02, 1.0], rgba=[0, 0, 0, 0], contype=_ON_SUPPORT,
                    conaffinity=0,
                )  # fmt: skip
                for name, axis in zip("xyz", np.eye(3)):
                    body.add_joint(name=f"cloth_{k}_{name}", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=axis)
        flex = spec.add_flex(name="cloth")
        flex.dim, flex.radius, flex.rgba = 2, _RADIUS, [0.25, 0.5, 0.75, 1]
        flex.vertbody = [f"cloth_{k}" for k in range(len(cloth.vertices))]
        flex.vert, flex.elem = np.zeros(3 * len(cloth.vertices)).tolist(), cloth.triangles.ravel().tolist()
        if particles:
            flex.contype = flex.conaffinity = 0
            flex.edgedamping = 1e-12  # without any passive force MuJoCo warns that a flex hangs loose
            spec.nuserdata = 3 * len(cloth.vertices) + c.robots
            spec.add_numeric(name="cloth", data=[0.5, c.young, c.density, c.damping])  # see SETTINGS of the engine
            return
        option = spec.option
        option.integrator = mujoco.mjtIntegrator.mjINT_DISCRETE  # flex elasticity needs it
        option.solver = mujoco.mjtSolver.mjSOL_CG
        option.iterations = 300  # the elastic solve needs them in a first step; later ones stop early
        option.tolerance = 1e-6  # at 1e-4 folds go astray; 1e-8 takes twice the time
        flex.young, flex.poisson, flex.thickness, flex.damping = c.young, _POISSON, c.thickness, c.damping
        flex.elastic2d = 3  # bending and stretching
        flex.selfcollide = mujoco.mjtFlexSelf.mjFLEXSELF_AUTO
        flex.contype, flex.conaffinity, flex.condim = 1, 2, 3
        flex.friction, flex.solref = [0.5, 0.005, 0.0001], [0.02, 1.0]

    def configure(self, model: mujoco.MjModel, values: Mapping[str, float]) -> None:
        """The cloth's friction, and factors of its stiffness, density and damping."""
        import mujoco

        friction = values.get("cloth_friction", 0.5)
        stiffness, density, damping = (values.get(name, 1.0) for name in ("stiffness", "density", "damping"))
        if self.config.engine == "particles":
            model.numeric_data[:4] = np.array([1.0, self.config.young, self.config.density, self.config.damping]) * [
                friction, stiffness, density, damping
            ]  # fmt: skip
            return
        model.flex_friction[:, 0] = friction
        model.geom_friction[np.isin(model.geom_bodyid, model.flex_vertbodyid), 0] = friction
        model.flex_stiffness[:] *= stiffness
        grain = self.cloth.grained(model.flex_edge, self.config.grain, self.config.grain_angle)
        model.flex_bending[:] *= np.repeat(stiffness * grain, len(model.flex_bending) // len(grain))
        model.flex_damping[:] *= damping
        bodies = model.flex_vertbodyid
        model.body_mass[bodies] *= density
        model.body_inertia[bodies] *= density
        mujoco.mj_setConst(model, mujoco.MjData(model))

    def engine(self, batch: mujoco.batch.Batch) -> Any:
        """MuJoCo's batch, or what steps the particle cloth around it.

        Raises:
            MissingExtra: particles without numba.
        """
        c = self.config
        if c.engine == "flex":
            return batch
        from dexprior.worlds.tasks.folding.engine import ParticleBatch

        return ParticleBatch(
            batch, self.cloth, self._prefixes, thickness=c.thickness, poisson=_POISSON, radius=_RADIUS, board="board",
            grain=self.cloth.grained(self.cloth.hinges[:, :2], c.grain, c.grain_angle),
        )  # fmt: skip

    def sample(self, rng: np.random.Generator, n: int) -> Scenes:
        """`cloth`: where its middle lies on the table (n, 2) [m]; its `yaw` (n,) [rad]; the fold `line` (n,) [m]."""
        # a mesh creases along its rows of vertices
        rows = np.unique(np.round(self.cloth.vertices[:, 0], 9))
        lines = rows[(rows >= 0.0) & (rows <= 0.1 * self.config.side + 1e-9)]
        shift = rng.uniform(-1.0, 1.0, (n, 2)) * [0.0015, 0.012]
        return {
            "cloth": np.asarray(_TABLE) + shift,
            "yaw": rng.uniform(-0.02, 0.02, n),
            "line": rng.choice(lines, n),
        }

    def place(self, view: View, ids: np.ndarray, scenes: Scenes) -> None:
        """Lay the cloth flat."""
        flat = turned(np.broadcast_to(self.cloth.vertices, (len(ids), *self.cloth.vertices.shape)), scenes["yaw"])
        flat = flat + scenes["cloth"][:, None]
        where = np.concatenate([flat, np.full((*flat.shape[:2], 1), _BOARD_HEIGHT + _RADIUS)], axis=-1)
        if self.config.engine == "particles":
            view.field("mocap_pos")[ids] = where
        else:
            rest, columns = self._rest(view)
            view.qpos[np.ix_(ids, columns)] = (where - rest).reshape(len(ids), -1)
        self._line(view)[ids] = scenes["line"]
        self._start(view)[ids] = np.column_stack([scenes["cloth"], scenes["yaw"]])
        self._pinch(view)[ids] = 0.0

    def fold(self, scenes: Scenes) -> tuple[Float[np.ndarray, "n robot 3"], ...]:
        """The fold of the cloth as it lies at the start: where each robot should pinch, the point on the fold line
        beside that, and where the fold takes the pinched point [m]."""
        grips = np.broadcast_to(self._grips, (len(scenes["yaw"]), *self._grips.shape))
        across = mirrored(grips, scenes["line"][:, None])
        height = np.full((*grips.shape[:2], 1), _BOARD_HEIGHT + _RADIUS)
        ground = (turned(p, scenes["yaw"]) + scenes["cloth"][:, None] for p in (grips, (across + grips) / 2, across))
        return tuple(np.concatenate([points, height], axis=-1) for points in ground)

    def measure(self, view: View) -> Truth:
        """Also, of the cloth: `coverage` and `wrinkle` (n,), see `flap_coverage` and `wrinkle`; `slipped` (n,) [m], the
        farthest that fabric moved between the pads since they pinched it; `speed` (n,), of its vertices [m/s]; its
        `yaw` at the start (n,) [rad]. Of the robots: `pinched` (n, robot); `tool` (n, robot, 3); where each should
        pinch, `grip`; and, of the cloth as it lay at the start, the point `hinge` on the fold line beside the grip and
        `goal`, where the fold takes it (n, robot, 3) [m].
        """
        cloth, line = self.cloth, self._line(view)
        x, v = self._positions(view), self._velocities(view)
        origin, yaw = np.split(self._start(view), [2], axis=1)
        _, hinge, goal = self.fold({"cloth": origin, "yaw": yaw[:, 0], "line": line})
        pinched, slip, slipped = self._pinches(view, x, v)
        return {
            "object": self._flap_pose(x, line), "held": pinched.any(axis=1), "slip": slip,
            "coverage": flap_coverage(cloth, x[..., :2], line), "wrinkle": wrinkle(cloth, x, line),
            "slipped": slipped, "speed": np.linalg.norm(v, axis=2).mean(axis=1), "yaw": yaw[:, 0].copy(),
            "pinched": pinched,
            "tool": np.stack([rig.tcp[:, :3] for rig in view.rigs], axis=1),
            "grip": carried(self._grip_place, x), "hinge": hinge, "goal": goal,
        }  # fmt: skip

    def cloud(self, view: View, truth: Truth) -> Float[np.ndarray, "n point 3"]:
        """Points of the fabric, evenly over it."""
        return carried(self._cloud_place, self._positions(view))

    def terms(self, truth: Truth) -> dict[str, Float[np.ndarray, " n"]]:
        """Reach the hem, pinch it, cover what the flap should, lie smoothly, do not slip."""
        away = np.linalg.norm(truth["tool"] - truth["grip"], axis=2).mean(axis=1)
        cover = tolerance(truth["coverage"], bounds=(self.config.overlap, 1.0), margin=self.config.overlap)
        folded = truth["coverage"] >= self.config.overlap
        return {
            "reach": np.maximum(tolerance(away, bounds=(0.0, 0.008), margin=0.1), folded),
            "grasp": np.maximum(truth["pinched"].mean(axis=1), folded),
            "cover": cover,
            "smooth": tolerance(truth["wrinkle"], bounds=(0.0, self.config.wrinkle), margin=0.3) * cover,
            "firm": tolerance(truth["slipped"], bounds=(0.0, self.config.slip / 2), margin=self.config.slip),
        }

    def success(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """Covered, smooth, not slipped, let go and at rest."""
        c = self.config
        good = (truth["coverage"] >= c.overlap) & (truth["wrinkle"] <= c.wrinkle) & (truth["slipped"] <= c.slip)
        return good & ~truth["held"] & (truth["speed"] < _REST_SPEED)

    def privileged(self, truth: Truth) -> Float[np.ndarray, "n size"]:
        """The flap's pose, coverage, wrinkle and slip, and where the fold should go."""
        goal = truth["goal"].reshape(len(truth["held"]), -1)
        scalars = np.column_stack([truth["coverage"], truth["wrinkle"], truth["slipped"]])
        return np.concatenate([truth["object"], scalars, goal], axis=1)

    # --- of the fabric ------------------------------------------------------------------------------------

    @cached_property
    def _grips(self) -> Float[np.ndarray, "robot 2"]:
        return self.cloth.grips(self.config.robots, _INSET)

    @cached_property
    def _grip_place(self) -> Place:
        return self.cloth.locate(self._grips)

    @cached_property
    def _cloud_place(self) -> Place:
        # the golden ratio's multiples cover any outline evenly
        order = np.argsort((np.arange(len(self.cloth.samples)) * 0.6180339887498949) % 1.0, kind="stable")
        return self.cloth.locate(self.cloth.samples[np.sort(order[: self.points])])

    def _positions(self, view: View) -> Float[np.ndarray, "n vertex 3"]:
        if self.config.engine == "particles":
            return view.field("mocap_pos").copy()
        rest, columns = self._rest(view)
        return rest + view.qpos[:, columns].reshape(view.n, -1, 3)

    def _velocities(self, view: View) -> Float[np.ndarray, "n vertex 3"]:
        if self.config.engine == "particles":
            count = 3 * len(self.cloth.vertices)
            return view.field("userdata")[:, :count].reshape(view.n, -1, 3).copy()
        first = view.model.body_dofadr[view.model.flex_vertbodyid]
        # in rows of their own, as the order in which a mean adds up depends on the layout
        columns = (first[:, None] + np.arange(3)).ravel()
        return np.ascontiguousarray(view.qvel[:, columns]).reshape(view.n, -1, 3)

    def _rest(self, view: View) -> tuple[Float[np.ndarray, "vertex 3"], np.ndarray]:
        """Where vertices are at zero positions, and the columns of `qpos` that move them."""
        m, bodies = view.model, view.model.flex_vertbodyid
        return m.body_pos[bodies], (m.jnt_qposadr[m.body_jntadr[bodies]][:, None] + np.arange(3)).ravel()

    def _line(self, view: View) -> Float[np.ndarray, " n"]:
        return view.remember("line", np.zeros(view.n))

    def _start(self, view: View) -> Float[np.ndarray, "n 3"]:
        """Where the cloth lay: its middle [m] and its turn [rad]."""
        return view.remember("start", np.zeros((view.n, 3)))

    def _pinch(self, view: View) -> Float[np.ndarray, "n robot 6"]:
        """The pinch: whether; of which vertex; where that was in the tool's frame [m]; the farthest slip so far [m]."""
        return view.remember("pinch", np.zeros((view.n, self.config.robots, 6)))

    def _pinches(
        self, view: View, x: np.ndarray, v: np.ndarray
    ) -> tuple[Bool[np.ndarray, "n robot"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Whether each robot pinches fabric, the fastest slip [m/s], and the farthest so far [m]."""
        memory, rows = self._pinch(view), np.arange(view.n)
        pinched, slip = np.zeros((view.n, len(view.rigs)), dtype=bool), np.zeros(view.n)
        for k, rig in enumerate(view.rigs):
            tool = self._between_fingers(view, k)
            nearest = np.linalg.norm(x - tool[:, None], axis=2).argmin(axis=1)
            before = memory[:, k, 0] > 0
            vertex = np.where(before, memory[:, k, 1].astype(int), nearest)
            near = np.linalg.norm(x[rows, vertex] - tool, axis=1) < 1.2 * self.cloth.spacing
            now = _opposed(rig.touch > TOUCH_ON) & near
            # across the pads there is one place only: what counts is the way along them
            apart = (x[rows, vertex] - tool)[..., None]
            local = [1.0, 0.0, 1.0] * (matrix_from_quat(rig.tcp[:, 3:]) * apart).sum(axis=1)
            start = np.where(before[:, None], memory[:, k, 2:5], local)
            moved = np.where(now, np.linalg.norm(local - start, axis=1), 0.0)
            memory[:, k, 0], memory[:, k, 1], memory[:, k, 2:5] = now, vertex, start
            memory[:, k, 5] = np.maximum(memory[:, k, 5], moved)
            speed = slip_speed(point=x[rows, vertex], velocity=v[rows, vertex], tool=tool, twist=rig.twist, held=now)
            pinched[:, k], slip = now, np.maximum(slip, speed)
        return pinched, slip, memory[:, :, 5].max(axis=1)

    def _between_fingers(self, view: View, robot: int) -> Float[np.ndarray, "n 3"]:
        """Where fabric is pinched: the gripper's tool centre point, or halfway from a hand's thumb to its index [m]."""
        if self.config.end_effector == "parallel":
            return view.rigs[robot].tcp[:, :3]
        sites = [view.model.site(self._prefixes[robot] + name).id for name in ("touch_thumb", "touch_index")]
        return view.field("site_xpos")[:, sites].mean(axis=1)

    def _flap_pose(self, x: np.ndarray, line: np.ndarray) -> Float[np.ndarray, "n 7"]:
        """Centre of the flap's vertices and the rotation nearest to how they lie (Kabsch)."""
        flap = self.cloth.vertices[:, 0] > line[:, None]
        weight = (flap / flap.sum(axis=1, keepdims=True))[..., None]
        centre = (weight * x).sum(axis=1)
        flat = self.cloth.vertices - (weight * self.cloth.vertices).sum(axis=1)[:, None]
        apart = x - centre[:, None]
        moment = np.stack([(weight * apart * flat[..., k, None]).sum(axis=1) for k in range(2)], axis=-1)
        u, _, vt = np.linalg.svd(moment, full_matrices=False)
        first = u @ vt  # (n, 3, 2): the images of the two material axes
        R = np.concatenate([first, np.cross(first[:, :, 0], first[:, :, 1])[:, :, None]], axis=2)
        return np.concatenate([centre, quat_from_matrix(R)], axis=1)


def _opposed(touching: Bool[np.ndarray, "n fingertip"]) -> Bool[np.ndarray, " n"]:
    """Whether the first fingertip, a hand's thumb or one of two pads, and another one touch."""
    return touching[:, 0] & touching[:, 1:].any(axis=1)


_SMOOTH = [0.05, 0.005, 0.0001]  # of two frictions MuJoCo takes the larger: the cloth's own
_ON_SUPPORT = 4  # contact bit of the vertices' spheres; pads have 2, the flex 1
