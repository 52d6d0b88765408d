"""Hand-over: a person presents a bar, and the robot takes it from the hand.

The person is the human hand of `dexprior.worlds.human_rig` on a gantry of its own, opposite the robot. Where the wrist
wants to be is a function of the instance and the time alone, by minimum jerk (Flash and Hogan 1985). The fingers hold
the bar by friction; they let go once both pads of the gripper have pressed for a while, as people do who feel that
their partner has it (Chan, Parker, Van der Loos and Croft 2012). Three switches make the person less regular:

    odd_reach    the bar is offered elsewhere, turned and tilted
    hesitation   the reach starts late, stops, and is drawn back on the way
    regrip       the fingers loosen and close again, and the wrist turns meanwhile
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, Le, config
from dexprior.families import Parameter, ParameterFamily, fixed_outside
from dexprior.geometry.rotations import (
    quat_from_axis_angle,
    quat_from_yaw,
    quat_multiply,
    quat_rotate,
)
from dexprior.geometry.timing import minimum_jerk
from dexprior.robots.human_hand import HINGE_NAMES
from dexprior.robots.rigs import add_rig, posture
from dexprior.worlds.human_rig import Contact, HandGrasp, gantry_from_wrist, solve_grasp
from dexprior.worlds.measures import tolerance
from dexprior.worlds.studio import add_camera
from dexprior.worlds.tasks.base import Layout, Scenes, Task, Truth
from dexprior.worlds.tasks.families import mass_of, pads, sensors
from dexprior.worlds.tasks.parts import Part, box_surface
from dexprior.worlds.tasks.scene import SURFACE, box_points, place_points, stage, stiffen
from dexprior.worlds.tasks.view import View

__all__ = ["Handover", "HandoverConfig"]

_PRESENT = np.array([0.46, 0.0, 0.22])  # [m] where the bar's middle is offered
_FROM = np.array([0.22, 0.0, -0.04])  # [m] from there to where the reach starts
_REACH = 1.2  # [s] that a reach takes
_OPEN, _RETREAT, _BACK = 0.25, 0.9, 0.18  # [s, s, m] after letting go
_FELT = 2.0  # [N] on each pad from which the person feels that the robot has the bar...
_PATIENCE = 0.24  # [s] ...for this long
_GONE = 0.6  # [s] after letting go, the robot alone has it


@config
class HandoverConfig:
    """Sizes, and how regular the person is."""

    arm: str = "arm7"
    """Name of the arm."""
    half_length: Annotated[float, Ge(0.03), Le(0.15)] = 0.065
    """Half the bar's length [m]."""
    half_width: Annotated[float, Ge(0.005), Le(0.03)] = 0.013
    """Half its width and height [m]."""
    mass: Annotated[float, Gt(0)] = 0.06
    """Mass of the bar [kg]."""
    odd_reach: Annotated[float, Ge(0), Le(1)] = 0.0
    """How oddly people reach; at 1: up to 6 cm aside, 5 cm up or down, turned by up to 0.5 rad and tilted by up to 0.3
    rad."""
    hesitation: Annotated[float, Ge(0), Le(1)] = 0.0
    """How much people hesitate; at 1: up to 0.6 s late, and drawn back twice, by up to half of the way."""
    regrip: Annotated[float, Ge(0), Le(1)] = 0.0
    """How much people change their grip; at 1: the fingers loosen for half a second while the bar is offered, and the
    wrist turns by up to 0.3 rad."""
    timestep: Annotated[float, Gt(0), Le(0.01)] = 0.004
    """Simulation step [s]."""


_TRAINING = ParameterFamily(
    "handover-training",
    (
        Parameter(name="bar_friction", unit="1", low=0.4, high=0.9, target="geom/bar/friction/0"),
        *pads(friction=(0.8, 1.2), timeconst=(0.008, 0.015)),
        mass_of("bar", 0.7, 1.4),
        *sensors(wrench=0.3),
    ),
)


@dataclass(frozen=True)
class Handover(Task):
    """See the module."""

    config: HandoverConfig = field(default_factory=HandoverConfig)

    name: ClassVar[str] = "handover"
    horizon: ClassVar[float] = 6.0
    settle: ClassVar[float] = 0.3
    family: ClassVar[ParameterFamily] = _TRAINING
    reality: ClassVar[ParameterFamily] = fixed_outside(
        "handover-reality",
        _TRAINING,
        {
            "bar_friction": 0.3,
            "pad_friction": 0.7,
            "pad_timeconst": 0.02,
            "bar_mass": 1.6,
            "wrench_noise": 0.5,
            "cloud_noise": 0.003,
        },
    )
    weights: ClassVar[dict[str, float]] = {"reach": 0.25, "grasp": 0.2, "taken": 0.4, "still": 0.15}

    @property
    def parts(self) -> tuple[Part, ...]:
        """The bar."""
        c = self.config
        surface = partial(box_surface, c.half_length, c.half_width, c.half_width)
        return (Part(name="bar", body="bar", moves=True, surface=surface),)

    def layout(self) -> Layout:
        """The robot, the person opposite, and the bar."""
        import mujoco

        c = self.config
        spec = stage(self.name, timestep=c.timestep)
        add_camera(spec, "meeting", (0.55, -0.95, 0.50), (0.55, 0.0, 0.20), 42.0)
        bar = spec.worldbody.add_body(name="bar", pos=_PRESENT)
        bar.add_freejoint(name="bar")
        bar.add_geom(
            name="bar", type=mujoco.mjtGeom.mjGEOM_BOX, size=[c.half_length, c.half_width, c.half_width], mass=c.mass,
            condim=4, friction=[0.6, 0.01, 0.0001], rgba=[0.85, 0.4, 0.15, 1], **SURFACE,
        )  # fmt: skip
        rig = add_rig(spec, c.arm, "parallel", home=posture(c.arm, "parallel", (0.36, 0.0, 0.34)))
        add_rig(spec, "gantry", "human_hand", prefix="human/")  # moved by the world, not by actions
        stiffen(spec, "*pad_*", timeconst=0.01, impedance=0.97)
        return Layout(spec=spec, rigs=(rig,))

    def sample(self, rng: np.random.Generator, n: int) -> Scenes:
        """What the person does: `offer` (n, 4) place of the bar [m] and its yaw [rad], `tilt` (n,) [rad], `start` (n,)
        [s], `draw_back` (n, 2, 2) times [s] and shares of the way, `regrip` (n, 2) time [s] and turn [rad]."""
        c = self.config
        place = _PRESENT + rng.uniform(-0.02, 0.02, (n, 3))
        yaw = rng.uniform(-0.15, 0.15, n)
        odd = rng.uniform(-1.0, 1.0, (n, 5)) * c.odd_reach
        place = place + odd[:, :3] * [0.03, 0.06, 0.05]
        late, back = rng.random(n) * c.hesitation, rng.random((n, 2)) * c.hesitation
        when = np.column_stack([rng.uniform(0.2, 0.6, n), rng.uniform(0.9, 1.4, n)])
        loosen = np.column_stack([rng.uniform(1.2, 2.2, n), rng.uniform(-0.3, 0.3, n) * c.regrip])
        return {
            "offer": np.column_stack([place, yaw + 0.5 * odd[:, 3]]), "tilt": 0.3 * odd[:, 4],
            "start": 0.1 + rng.random(n) * 0.2 + 0.6 * late,
            "draw_back": np.stack([when, 0.5 * back], axis=2), "regrip": loosen,
        }  # fmt: skip

    def place(self, view: View, ids: np.ndarray, scenes: Scenes) -> None:
        """The hand at the start of its reach, closed on the bar."""
        for name in ("offer", "tilt", "start", "draw_back", "regrip"):
            self._plan(view, name, scenes[name].shape[1:])[ids] = scenes[name]
        view.remember("released", np.zeros(view.n))[ids] = -1.0
        view.remember("felt", np.zeros(view.n))[ids] = 0.0
        zero = np.zeros(len(ids))
        bar = self._bar_target(view, ids, zero)
        view.pose("bar")[ids] = bar
        joints, hinges = self._person(view, ids, zero)
        wrist_columns, finger_columns = self._columns(view)
        view.qpos[np.ix_(ids, wrist_columns)] = joints
        view.qpos[np.ix_(ids, finger_columns)] = self._grasp.touch
        self._command(view, ids, joints, hinges)

    def act(self, view: View) -> None:
        """The person's next command; whether they let go is decided by what the pads press."""
        felt, released = view.remember("felt", np.zeros(view.n)), view.remember("released", np.zeros(view.n))
        pressed = np.minimum(view.sensor("robot/touch_left")[:, 0], view.sensor("robot/touch_right")[:, 0]) > _FELT
        felt[:] = np.where(pressed, felt + self.control_dt, 0.0)
        released[:] = np.where((released < 0) & (felt >= _PATIENCE), view.time, released)
        everyone = np.arange(view.n)
        self._command(view, everyone, *self._person(view, everyone, view.time + self.control_dt))

    def measure(self, view: View) -> Truth:
        """Also `grip` (n, 3): where to take the bar [m]; `tool` (n, 3), `velocity` of the bar (n, 3) [m/s], `released`
        (n,) seconds since the person let go or -1, `hand` (n,) force of the person's fingers [N]."""
        rig = view.rigs[0]
        pose, velocity = view.pose("bar").copy(), view.velocity("bar")[:, :3].copy()
        grip = pose[:, :3] + quat_rotate(pose[:, 3:], np.broadcast_to(self._grip, (view.n, 3)))
        hand = sum(view.sensor(f"human/touch_{finger}")[:, 0] for finger in ("thumb", "index", "middle"))
        released = view.remember("released", np.full(view.n, -1.0))
        return {
            "object": pose, **rig.grasp(pose[:, :3], velocity), "grip": grip, "tool": rig.tcp[:, :3],
            "velocity": velocity, "released": np.where(released >= 0, view.time - released, -1.0),
            "hand": np.asarray(hand),
        }  # fmt: skip

    def cloud(self, view: View, truth: Truth) -> Float[np.ndarray, "n point 3"]:
        """Points on the bar's faces."""
        c = self.config
        return place_points(
            box_points(np.array([c.half_length, c.half_width, c.half_width]), self.points), truth["object"]
        )

    def terms(self, truth: Truth) -> dict[str, Float[np.ndarray, " n"]]:
        """Reach the free end, grasp, have it alone, hold still."""
        held = truth["held"].astype(np.float64)
        away = np.linalg.norm(truth["tool"] - truth["grip"], axis=1)
        return {
            "reach": tolerance(away, bounds=(0.0, 0.012), margin=0.2),
            "grasp": held,
            "taken": held * (truth["released"] >= 0) * (truth["hand"] < 0.05),
            "still": tolerance(truth["slip"], bounds=(0.0, 0.003), margin=0.03) * held,
        }

    def success(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """The robot alone has had it for a while, off the table."""
        alone = (truth["released"] >= _GONE) & (truth["hand"] < 0.05)
        return truth["held"] & alone & (truth["object"][:, 2] > 0.08)

    def failure(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """The bar lies on the table."""
        return truth["object"][:, 2] < 0.05

    # --- the person ---------------------------------------------------------------------------------------------

    @property
    def _grip(self) -> Float[np.ndarray, " 3"]:
        """Where the robot takes the bar, in its frame: near the end that the person does not hold [m]."""
        return np.array([-(self.config.half_length - 0.020), 0.0, 0.0])

    @property
    def _grasp(self) -> HandGrasp:
        """Thumb against index and middle finger, across the end that is nearer to the person."""
        c = self.config
        end, side = c.half_length - 0.022, c.half_width
        contacts = (
            Contact(finger="thumb", point=(end, -side, 0.0), normal=(0.0, -1.0, 0.0)),
            Contact(finger="index", point=(end - 0.010, side, 0.0), normal=(0.0, 1.0, 0.0)),
            Contact(finger="middle", point=(end + 0.010, side, 0.0), normal=(0.0, 1.0, 0.0)),
        )
        return solve_grasp(contacts, fingers=(-0.75, 0.5, -0.45), palm=(-0.5, -0.75, -0.45), depth=0.014, clear=0.020)

    def _bar_target(self, view: View, ids: np.ndarray, time: Float[np.ndarray, " m"]) -> Float[np.ndarray, "m 7"]:
        """Pose of the bar if the hand were where it wants to be and held it rigidly."""
        offer, tilt, start = (self._plan(view, name)[ids] for name in ("offer", "tilt", "start"))
        draw_back, regrip = self._plan(view, "draw_back")[ids], self._plan(view, "regrip")[ids]
        progress = minimum_jerk((time - start) / _REACH)
        for k in range(2):
            progress = progress - draw_back[:, k, 1] * _bump((time - start - draw_back[:, k, 0]) / 0.8)
        yaw = offer[:, 3] + regrip[:, 1] * minimum_jerk((time - regrip[:, 0]) / 0.5)
        pitch = quat_from_axis_angle(tilt[:, None] * np.array([0.0, 1.0, 0.0]))
        place = offer[:, :3] + (1.0 - progress)[:, None] * _FROM
        return np.column_stack([place, quat_multiply(quat_from_yaw(yaw), pitch)])

    def _person(
        self, view: View, ids: np.ndarray, time: Float[np.ndarray, " m"]
    ) -> tuple[Float[np.ndarray, "m 6"], Float[np.ndarray, "m hinge"]]:
        """Commands of the gantry that carries the wrist, and of the fingers."""
        bar, grasp = self._bar_target(view, ids, time), self._grasp
        released = view.remember("released", np.zeros(view.n))[ids]
        gone = np.where(released >= 0, time - released, 0.0)
        relative = np.broadcast_to(grasp.wrist_pose, (len(ids), 7))
        wrist = np.concatenate(
            [bar[:, :3] + quat_rotate(bar[:, 3:], relative[:, :3]), quat_multiply(bar[:, 3:], relative[:, 3:])], axis=1
        )
        back = _BACK * minimum_jerk((gone - _OPEN) / _RETREAT)
        wrist[:, :3] += back[:, None] * quat_rotate(bar[:, 3:], np.broadcast_to([1.0, 0.0, 0.0], (len(ids), 3)))
        opened = minimum_jerk(gone / _OPEN)[:, None]
        loosened = self.config.regrip * _bump((time - self._plan(view, "regrip")[ids, 0]) / 0.5)[:, None]
        held = grasp.squeeze + 0.7 * loosened * (grasp.touch - grasp.squeeze)
        return gantry_from_wrist(wrist), held + opened * (grasp.open - held)

    def _command(self, view: View, ids: np.ndarray, joints: np.ndarray, hinges: np.ndarray) -> None:
        names = [f"human/{name}" for name in (*_GANTRY, *HINGE_NAMES)]
        columns = np.array([view.model.actuator(name).id for name in names])
        view.ctrl[np.ix_(ids, columns)] = np.concatenate([joints, hinges], axis=1)

    def _columns(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        return (
            np.array([view.qpos_address(f"human/{name}") for name in _GANTRY]),
            np.array([view.qpos_address(f"human/{name}") for name in HINGE_NAMES]),
        )

    def _plan(self, view: View, name: str, shape: tuple[int, ...] = ()) -> np.ndarray:
        return view.remember(f"person/{name}", np.zeros((view.n, *shape)))


_GANTRY = ("x", "y", "z", "yaw", "pitch", "roll")


def _bump(u: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """A way from 0 to 1 and back, by minimum jerk."""
    return minimum_jerk(2.0 * u) - minimum_jerk(2.0 * u - 1.0)
