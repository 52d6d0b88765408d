"""A threaded nut on a bolt: aligned over it, brought into contact, and turned until the threads hold.

The threads are helical meshes that collide by their signed distance (MuJoCo's octree), so that turning and advance are
contact, not a screw joint. The nut starts in the gripper, off the bolt's axis and tilted; or, for hands, on the bolt
with its thread just caught.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, Le, config
from dexprior.errors import BadInput
from dexprior.families import Parameter, ParameterFamily, fixed_outside
from dexprior.geometry.rotations import quat_from_axis_angle, quat_from_yaw, quat_multiply, quat_rotate
from dexprior.robots.rigs import add_rig, posture
from dexprior.worlds.measures import tolerance
from dexprior.worlds.tasks.base import Layout, Scenes, Task, Truth
from dexprior.worlds.tasks.families import mass_of, pads, sensors
from dexprior.worlds.tasks.parts import Part
from dexprior.worlds.tasks.scene import place_points, stage, stiffen, upright
from dexprior.worlds.tasks.view import View
from dexprior.worlds.threads import ThreadConfig, bolt_mesh, lead, nut_mesh

__all__ = ["NutBolt", "NutBoltConfig"]

_OVER = (0.50, 0.0)  # [m] where the nut starts
_FLATS = np.array([np.cos(np.pi / 4), 0.0, 0.0, np.sin(np.pi / 4)])  # turns a flat of the hexagon to the pads
_THREAD_BIT = 4  # threads collide with threads only; fingers and table see the nut's hexagon


@config
class NutBoltConfig:
    """Sizes and limits."""

    arm: str = "arm7"
    """Name of the arm."""
    end_effector: str = "parallel"
    """Name of the gripper or hand."""
    start: Literal["held", "started"] = "held"
    """Where the nut is: between the pads of the parallel gripper, or on the bolt with its thread just caught."""
    thread: ThreadConfig = ThreadConfig()
    """Thread of nut and bolt."""
    mass: Annotated[float, Gt(0)] = 0.05
    """Mass of the nut [kg]."""
    turns: Annotated[float, Gt(0)] = 0.25
    """Turns that must be engaged."""
    offset: Annotated[float, Ge(0)] = 0.006
    """Largest sideways error at the start [m]."""
    tilt: Annotated[float, Ge(0)] = 0.10
    """Standard deviation of the nut's tilt at the start [rad]."""
    turned_back: float = 3.3
    """How far the gripper is turned back at the start, so that the last joint has most of a turn ahead [rad]."""
    octree_depth: Annotated[int, Ge(4), Le(10)] = 6
    """Depth of the signed distance fields' octrees; each level costs four times the compile time."""
    caught: Annotated[float, Ge(0)] = 0.1
    """Most turns that a started nut is engaged by."""
    timestep: Annotated[float, Gt(0), Le(0.002)] = 0.001
    """Simulation step [s]; threads need one this short."""

    def __post_init__(self) -> None:
        if self.start == "held" and self.end_effector != "parallel":
            raise BadInput(
                f"NutBoltConfig: the nut starts in the parallel gripper, not in {self.end_effector!r}; use "
                "start='started'"
            )
        most = (self.thread.bolt_length - lead(self.thread)) / self.thread.pitch
        if self.turns > most:
            raise BadInput(f"NutBoltConfig: turns = {self.turns}, but the bolt has room for {max(most, 0.0):.1f}")
        if self.start == "started" and self.caught >= self.turns:
            raise BadInput(
                f"NutBoltConfig: a nut caught by up to {self.caught} turns may be there already; success takes "
                f"{self.turns}"
            )


_TRAINING = ParameterFamily(
    "nut_bolt-training",
    (
        Parameter(name="thread_friction", unit="1", low=0.05, high=0.2, target="geom/*_thread/friction/0"),
        Parameter(name="thread_timeconst", unit="s", low=0.004, high=0.01, target="geom/*_thread/solref/0"),
        *pads(friction=(0.7, 1.2), timeconst=(0.003, 0.008)),
        mass_of("nut", 0.8, 1.25),
        *sensors(wrench=0.3),
    ),
)


@dataclass(frozen=True)
class NutBolt(Task):
    """See the module."""

    config: NutBoltConfig = field(default_factory=NutBoltConfig)

    name: ClassVar[str] = "nut_bolt"
    settle: ClassVar[float] = 0.1
    family: ClassVar[ParameterFamily] = _TRAINING
    reality: ClassVar[ParameterFamily] = fixed_outside(
        "nut_bolt-reality",
        _TRAINING,
        {
            "thread_friction": 0.3,
            "thread_timeconst": 0.003,
            "pad_friction": 0.5,
            "pad_timeconst": 0.015,
            "nut_mass": 1.3,
            "wrench_noise": 0.5,
            "cloud_noise": 0.003,
        },
    )
    weights: ClassVar[dict[str, float]] = {"hold": 0.1, "align": 0.2, "level": 0.1, "engage": 0.5, "still": 0.1}

    @property
    def horizon(self) -> float:
        """A nut that starts in the gripper has to be brought to the bolt, and may have to be taken anew."""
        return 16.0 if self.config.start == "held" else 6.0

    @property
    def parts(self) -> tuple[Part, ...]:
        """The nut, and the bolt."""
        thread = self.config.thread
        return (
            Part(name="nut", body="nut", moves=True, surface=partial(nut_mesh, thread)),
            Part(name="bolt", body="bolt", moves=False, surface=partial(bolt_mesh, thread)),
        )

    def layout(self) -> Layout:
        """Bolt, nut, and the robot with its last joint turned back, so that it has most of a turn ahead."""
        import mujoco

        c, t = self.config, self.config.thread
        spec = stage(self.name, timestep=c.timestep)
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.sdf_iterations, spec.option.sdf_initpoints = 8, 24
        for name, (vertices, faces) in (("bolt", bolt_mesh(t)), ("nut", nut_mesh(t))):
            mesh = spec.add_mesh(name=name, uservert=vertices.ravel(), userface=faces.ravel())
            mesh.needsdf, mesh.octree_maxdepth = True, c.octree_depth
            mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_EXACT
        thread: dict[str, Any] = {
            "type": mujoco.mjtGeom.mjGEOM_SDF, "condim": 3, "friction": [0.1, 0.005, 0.0001],
            "solref": [0.003, 1.0], "solimp": [0.98, 0.998, 0.0005, 0.5, 2.0],
        }  # fmt: skip
        bolt = spec.worldbody.add_body(name="bolt", mocap=True, pos=[0.5, 0.05, 0.0])
        bolt.add_geom(
            name="bolt_thread", meshname="bolt", contype=_THREAD_BIT | 1, conaffinity=_THREAD_BIT,
            rgba=[0.45, 0.5, 0.58, 1], **thread,
        )  # fmt: skip
        nut = spec.worldbody.add_body(name="nut", pos=[0.5, 0.05, 0.1])
        nut.add_freejoint(name="nut")
        nut.add_geom(
            name="nut_thread", meshname="nut", contype=_THREAD_BIT, conaffinity=_THREAD_BIT, mass=c.mass,
            rgba=[0.9, 0.55, 0.2, 1], **thread,
        )  # fmt: skip
        half = t.across_flats / 2
        for k in range(3):  # three boxes make a hexagon
            angle = k * np.pi / 3
            nut.add_geom(
                name=f"nut_flat{k}", type=mujoco.mjtGeom.mjGEOM_BOX, size=[half, half / np.sqrt(3), t.nut_height / 2],
                quat=[np.cos(angle / 2), 0, 0, np.sin(angle / 2)], mass=0.0, condim=4, friction=[0.6, 0.01, 0.0001],
                rgba=[0, 0, 0, 0], contype=1, conaffinity=2,  # fingers and table, not the bolt
            )  # fmt: skip
        held = c.start == "held"
        home = posture(c.arm, c.end_effector, (*_OVER, self._start_height), c.turned_back) if held else None
        rig = add_rig(spec, c.arm, c.end_effector, home=home)
        stiffen(spec, "*pad_*", timeconst=0.004, impedance=0.97)
        return Layout(spec=spec, rigs=(rig,))

    @property
    def _start_height(self) -> float:
        """Height of the nut's centre: its lower face 12 mm above the bolt's tip [m]."""
        return self.config.thread.bolt_length + self.config.thread.nut_height / 2 + 0.012

    def sample(self, rng: np.random.Generator, n: int) -> Scenes:
        """`bolt` (n, 3) [m], `phase` (n,) by which it is turned [rad], `tilt` (n, 3) of the nut [rad].

        For a started nut also the turns by which it is `caught` (n,); its tilt is not used.
        """
        c = self.config
        radius, angle = c.offset * np.sqrt(rng.random(n)), rng.uniform(-np.pi, np.pi, n)
        bolt = np.column_stack([_OVER[0] + radius * np.cos(angle), _OVER[1] + radius * np.sin(angle), np.zeros(n)])
        tilt = np.column_stack([rng.normal(0.0, c.tilt, n), np.zeros(n), np.zeros(n)])  # about the pads' axis
        scenes = {"bolt": bolt, "phase": rng.uniform(-np.pi, np.pi, n), "tilt": tilt}
        if c.start == "started":
            scenes["caught"] = rng.uniform(0.0, c.caught, n)
        return scenes

    def caught(self, scenes: Scenes) -> tuple[Float[np.ndarray, "n 3"], Float[np.ndarray, " n"]]:
        """Centre [m] and yaw [rad] of a started nut, whose thread lies in the bolt's: one turn is one pitch."""
        t = self.config.thread
        depth = lead(t) + scenes["caught"] * t.pitch
        high = t.bolt_length + t.nut_height / 2 - depth
        return scenes["bolt"] + np.array([0.0, 0.0, 1.0]) * high[:, None], scenes["phase"] + 2 * np.pi * high / t.pitch

    def place(self, view: View, ids: np.ndarray, scenes: Scenes) -> None:
        """The bolt, and the nut between closed pads or on it."""
        view.place_mocap(ids, "bolt", upright(scenes["bolt"], scenes["phase"]))
        if self.config.start == "started":
            view.pose("nut")[ids] = upright(*self.caught(scenes))
            return
        aligned = quat_from_yaw(self.config.turned_back)  # the pads close on two flats
        # the pads close along the tool's y axis; the nut may lean about it
        about = quat_rotate(aligned, np.array([0.0, 1.0, 0.0]))
        lean = quat_from_axis_angle(scenes["tilt"][:, :1] * about)
        quat = quat_multiply(quat_multiply(lean, np.broadcast_to(aligned, (len(ids), 4))), _FLATS)
        centre = np.array([*_OVER, self._start_height])
        view.pose("nut")[ids] = np.column_stack([np.broadcast_to(centre, (len(ids), 3)), quat])
        view.close_on(ids, self.config.thread.across_flats / 2)

    def measure(self, view: View) -> Truth:
        """Also `bolt` (n, 7), `offset` from its axis [m], `tilt` [rad], `depth` of the nut's lower face below the
        bolt's tip [m], `turns` engaged, `crossed` (engaged askew) and `wrench` (n, 6)."""
        t, rig = self.config.thread, view.rigs[0]
        pose, velocity = view.pose("nut").copy(), view.velocity("nut")
        bolt = view.mocap_pose("bolt")
        axis = quat_rotate(pose[:, 3:], np.broadcast_to([0.0, 0.0, 1.0], (len(pose), 3)))
        offset = np.linalg.norm(pose[:, :2] - bolt[:, :2], axis=1)
        tilt = np.arccos(np.clip(axis[:, 2], -1.0, 1.0))
        depth = bolt[:, 2] + t.bolt_length - (pose[:, 2] - t.nut_height / 2)
        inside = (offset < t.clearance + t.depth) & (depth > 0.0)
        turns = np.where(inside & (tilt < 0.08), np.maximum(depth - lead(t), 0.0) / t.pitch, 0.0)
        return {
            "object": pose, **rig.grasp(pose[:, :3], velocity[:, :3]), "bolt": bolt, "offset": offset, "tilt": tilt,
            "depth": depth,
            "turns": turns, "crossed": inside & (depth > lead(t)) & (tilt > 0.08), "wrench": rig.wrench,
            "tool": rig.tcp[:, :3],
        }  # fmt: skip

    def cloud(self, view: View, truth: Truth) -> Float[np.ndarray, "n point 3"]:
        """Vertices of the nut, then of the bolt, evenly picked."""
        nut, bolt = (mesh(self.config.thread)[0] for mesh in (nut_mesh, bolt_mesh))
        few = self.points // 2
        parts = ((nut, truth["object"]), (bolt, truth["bolt"]))
        picked = [place_points(v[np.linspace(0, len(v) - 1, few).astype(int)], pose) for v, pose in parts]
        return np.concatenate(picked, axis=1)

    def terms(self, truth: Truth) -> dict[str, Float[np.ndarray, " n"]]:
        """Hold, align over the bolt, keep level, engage, hold still."""
        held = truth["held"].astype(np.float64)
        engaged = np.clip(truth["turns"] / self.config.turns, 0.0, 1.0)
        return {
            "hold": held,
            "align": tolerance(truth["offset"], bounds=(0.0, 0.0005), margin=0.008),
            "level": tolerance(truth["tilt"], bounds=(0.0, 0.02), margin=0.2),
            "engage": engaged,
            "still": tolerance(truth["slip"], bounds=(0.0, 0.002), margin=0.02) * held,
        }

    def success(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """Enough turns are engaged."""
        return truth["turns"] >= self.config.turns

    def failure(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """The nut lies on the table."""
        return truth["object"][:, 2] < self.config.thread.nut_height
