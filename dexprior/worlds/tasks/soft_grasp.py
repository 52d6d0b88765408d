"""Soft fruit in a tendon-driven hand: lifted, held under a shake, and not bruised.

The fruit is a trilinear flex: 24 degrees of freedom that stretch and shear a filled ellipsoid. Bruising is measured at
the fingertips by Hertz's contact of two spheres (Johnson, Contact Mechanics 1985, eq. 4.24): the peak pressure under a
force F is p = (6 F E*^2 / (pi^3 R^2))^(1/3). Above the fruit's yield pressure its flesh is taken to flow, and the
excess is kept: `bruise` is the largest p / yield - 1 so far. The simulated shape itself stays elastic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, Le, config
from dexprior.families import Parameter, ParameterFamily, Phenomena, ToeStiffness, fixed_outside
from dexprior.geometry.rotations import matrix_from_quat, quat_from_matrix
from dexprior.robots.rigs import add_rig, posture
from dexprior.robots.sensors import add_soft_wrench
from dexprior.worlds.measures import TOUCH_ON, tolerance
from dexprior.worlds.tasks.base import Layout, Scenes, Task, Truth
from dexprior.worlds.tasks.families import pads, sensors
from dexprior.worlds.tasks.parts import Part, ellipsoid_surface
from dexprior.worlds.tasks.scene import stage
from dexprior.worlds.tasks.view import View

if TYPE_CHECKING:
    import mujoco

__all__ = ["FRUITS", "Fruit", "SoftGrasp", "SoftGraspConfig"]

FruitName = Literal["strawberry", "grape", "peach"]
_FINGER_RADIUS = 0.008  # [m]
_FORCE, _NET = 1 << 1, 3  # what a contact sensor tells, and how: the sum of the contacts' forces, in the world's axes
_SHAKE = (2.8, 3.8)  # [s] when the whole world shakes
_SHAKE_ACCELERATION, _SHAKE_RATE = 4.0, 4.0  # [m/s2], [1/s]
_TOE_LOAD = 1e-5  # [N] from which covers stiffen; three decades are over at .09 N, under what holds the lightest fruit


@dataclass(frozen=True, kw_only=True)
class Fruit:
    """What one kind of fruit is like; orders of magnitude from the literature on fruit texture."""

    size: tuple[float, float, float]
    """Diameters [m]."""
    mass: float
    """[kg]"""
    young: float
    """Modulus of the flesh at small strain [Pa]."""
    yield_pressure: float
    """Contact pressure above which it bruises [Pa]."""
    rgba: tuple[float, float, float, float]


FRUITS: dict[str, Fruit] = {
    "strawberry": Fruit(
        size=(0.036, 0.036, 0.032), mass=0.018, young=1.5e5, yield_pressure=9.0e4, rgba=(0.85, 0.15, 0.2, 1)
    ),
    "grape": Fruit(size=(0.024, 0.024, 0.022), mass=0.007, young=2.5e5, yield_pressure=1.6e5, rgba=(0.45, 0.2, 0.5, 1)),
    "peach": Fruit(
        size=(0.051, 0.051, 0.050), mass=0.070, young=6.0e5, yield_pressure=3.0e5, rgba=(0.95, 0.65, 0.4, 1)
    ),
}
"""Fruits by name; the peach is a small one, that a hand of this size can hold."""


@config
class SoftGraspConfig:
    """Which fruit, which hand, and limits."""

    arm: str = "gantry"
    """Name of the arm."""
    hand: str = "three_finger"
    """Name of the end effector: `three_finger` or `tendon_hand`."""
    fruit: FruitName = "strawberry"
    """One of strawberry, grape, peach."""
    lift: Annotated[float, Gt(0)] = 0.08
    """Height that counts as lifted [m]."""
    spread: Annotated[float, Gt(0)] = 0.04
    """Largest distance of the fruit from under the hand at the start, on each axis [m]."""
    timestep: Annotated[float, Gt(0), Le(0.01)] = 0.002
    """Simulation step [s]."""
    toe: Annotated[float, Ge(1)] = 1.0
    """Stiffness of the fingertips' covers under load over that at first touch, in this world; 1 where they do not
    stiffen."""
    other_toe: Annotated[float, Ge(1)] = 1.0
    """The same in the other world."""


_TRAINING = ParameterFamily(
    "soft_grasp-training",
    (
        Parameter(
            name="stiffness", unit="1", low=0.5, high=2.0, distribution="log_uniform", target="world/-/stiffness"
        ),
        Parameter(name="ripeness", unit="1", low=0.8, high=1.2, target="world/-/ripeness"),
        *pads(friction=(0.6, 1.1), timeconst=(0.005, 0.010)),
        *sensors(wrench=0.2),
    ),
)


@dataclass(frozen=True)
class SoftGrasp(Task):
    """See the module."""

    config: SoftGraspConfig = field(default_factory=SoftGraspConfig)

    name: ClassVar[str] = "soft_grasp"
    horizon: ClassVar[float] = 4.0
    family: ClassVar[ParameterFamily] = _TRAINING
    reality: ClassVar[ParameterFamily] = fixed_outside(
        "soft_grasp-reality",
        _TRAINING,
        {
            "stiffness": 0.35,
            "ripeness": 0.7,
            "pad_friction": 0.45,
            "pad_timeconst": 0.015,
            "wrench_noise": 0.4,
            "cloud_noise": 0.003,
        },
    )
    weights: ClassVar[dict[str, float]] = {"reach": 0.15, "grasp": 0.15, "lift": 0.4, "gentle": 0.2, "still": 0.1}

    def other(self) -> SoftGrasp:
        """The same with the other world's covers."""
        return replace(self, config=replace(self.config, toe=self.config.other_toe))

    @property
    def phenomena(self) -> Phenomena:
        """Covers that stiffen under load, where they do."""
        toe = self.config.toe
        return Phenomena(toe_stiffness=ToeStiffness(ratio=toe, load=_TOE_LOAD)) if toe > 1.0 else Phenomena()

    @property
    def fruit(self) -> Fruit:
        """The one that is grasped."""
        return FRUITS[self.config.fruit]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The fruit."""
        surface = partial(ellipsoid_surface, *(side / 2 for side in self.fruit.size))
        return (Part(name="fruit", body="fruit", moves=True, surface=surface, soft=True),)

    def layout(self) -> Layout:
        """A fruit on the table, and the robot above it."""
        import mujoco

        c, fruit = self.config, self.fruit
        spec = stage(self.name, timestep=c.timestep)
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_DISCRETE  # flex elasticity needs it
        spec.option.impratio = 5.0
        rig = add_rig(spec, c.arm, c.hand, home=posture(c.arm, c.hand, (*_OVER, 0.16)))
        radius, count = 0.0015, (6, 6, 5)
        spacing = [(size - 2 * radius) / (number - 1) for size, number in zip(fruit.size, count)]
        body = spec.worldbody.add_body(name="fruit", pos=[*_OVER, self._rest_height])
        flex = body.make_flex(
            "fruit", type="ellipsoid", dim=3, dof="trilinear", count=list(count), spacing=spacing, radius=radius,
            mass=fruit.mass,
        )  # fmt: skip
        flex.young, flex.poisson, flex.damping, flex.selfcollide = fruit.young, 0.45, 0.02, 0
        flex.contype, flex.conaffinity, flex.condim = 1, 3, 4
        flex.friction, flex.solref, flex.rgba = [0.6, 0.005, 0.0001], [0.006, 1.0], fruit.rgba
        for k, touch in enumerate(rig.touch):
            site = spec.site(spec.sensor(touch).objname)
            spec.add_sensor(
                name=f"on_table{k}", type=mujoco.mjtSensor.mjSENS_CONTACT, objtype=mujoco.mjtObj.mjOBJ_BODY,
                objname=site.parent.name, reftype=mujoco.mjtObj.mjOBJ_GEOM, refname="table", intprm=[_FORCE, _NET, 1],
            )  # fmt: skip
        add_soft_wrench(spec, rig, "fruit")
        return Layout(spec=spec, rigs=(rig,))

    @property
    def _rest_height(self) -> float:
        """Height of the fruit's centre on the table [m]."""
        return self.fruit.size[2] / 2

    def configure(self, model: mujoco.MjModel, values: Mapping[str, float]) -> None:
        """The fruit's stiffness, as a factor."""
        model.flex_stiffness[:] *= values.get("stiffness", 1.0)

    def sample(self, rng: np.random.Generator, n: int) -> Scenes:
        """`fruit` position on the table (n, 2) [m] and `yaw` (n,) [rad]."""
        spread = self.config.spread
        place = np.asarray(_OVER) + rng.uniform(-spread, spread, (n, 2))
        return {"fruit": place, "yaw": rng.uniform(-np.pi, np.pi, n)}

    def place(self, view: View, ids: np.ndarray, scenes: Scenes) -> None:
        """Move the fruit's eight nodes to where they are in its turned rest shape."""
        rest, columns = self._nodes(view)
        c, s = np.cos(scenes["yaw"]), np.sin(scenes["yaw"])
        x, y = rest[:, 0] - _OVER[0], rest[:, 1] - _OVER[1]
        turned = np.stack(
            [
                c[:, None] * x - s[:, None] * y + scenes["fruit"][:, :1],
                s[:, None] * x + c[:, None] * y + scenes["fruit"][:, 1:],
                np.broadcast_to(rest[:, 2], (len(ids), len(rest))),
            ],
            axis=-1,
        )
        view.qpos[np.ix_(ids, columns)] = (turned - rest).reshape(len(ids), -1)
        self._bruise(view)[ids] = 0.0

    def act(self, view: View) -> None:
        """The shake: gravity swings sideways, as in a base that is accelerated."""
        gravity = view.model_field("opt.gravity")
        t = view.time
        shaking = (t >= _SHAKE[0]) & (t < _SHAKE[1])
        gravity[:, 0] = np.where(shaking, _SHAKE_ACCELERATION * np.sin(2 * np.pi * _SHAKE_RATE * t + 0.4), 0.0)

    def measure(self, view: View) -> Truth:
        """Also `force` of each fingertip on the fruit, without what the table bears (n, fingertip) [N], the largest
        `pressure` [Pa], its `load` on the flesh (1 yields), `bruise`, `squash`: the largest compression of the shape
        [1], `width`: the fruit's diameter [m], its `weight` [N], `tool` (n, 3) and `time` (n,) [s]."""
        rig, fruit = view.rigs[0], self.fruit
        velocity = view.qvel[:, self._node_dofs(view)].reshape(view.n, -1, 3).mean(axis=1)
        centre, gradient = self._deformation(view)
        u, stretch, vt = np.linalg.svd(gradient)
        flip = np.sign(np.linalg.det(u @ vt))
        u[:, :, 2] *= flip[:, None]
        pose = np.concatenate([centre, quat_from_matrix(u @ vt)], axis=1)
        stiffness, ripeness = view.parameter("stiffness", 1.0), view.parameter("ripeness", 1.0)
        radius = 1.0 / (1.0 / _FINGER_RADIUS + 2.0 / fruit.size[0])
        modulus = fruit.young * stiffness / (1.0 - 0.45**2)
        table = np.stack([np.abs(view.sensor(f"on_table{k}")[:, 2]) for k in range(rig.touch.shape[1])], axis=1)
        force = np.maximum(rig.touch - table, 0.0)
        pressure = np.cbrt(6.0 * force.max(axis=1) * modulus**2 / (np.pi**3 * radius**2))
        load = pressure / (fruit.yield_pressure * ripeness)
        bruise = self._bruise(view)
        np.maximum(bruise, load - 1.0, out=bruise)
        return {
            "object": pose, **rig.grasp(centre, velocity, touch_on=TOUCH_ON / 3), "force": force,
            "pressure": pressure, "load": load, "bruise": bruise.copy(), "squash": 1.0 - stretch.min(axis=1),
            "width": np.full(view.n, fruit.size[0]), "weight": np.full(view.n, 9.81 * fruit.mass),
            "tool": rig.tcp[:, :3], "time": np.array(view.time),
        }  # fmt: skip

    def cloud(self, view: View, truth: Truth) -> Float[np.ndarray, "n point 3"]:
        """Points on the fruit's surface, which follow its affine deformation."""
        shell = _ellipsoid(self.points) * (np.asarray(self.fruit.size) / 2)
        centre, gradient = self._deformation(view)
        return shell @ gradient.transpose(0, 2, 1) + centre[:, None]

    def terms(self, truth: Truth) -> dict[str, Float[np.ndarray, " n"]]:
        """Reach, grasp, lift, gentle, hold still."""
        held = truth["held"].astype(np.float64)
        height = truth["object"][:, 2] - self._rest_height
        return {
            "reach": tolerance(
                np.linalg.norm(truth["tool"] - truth["object"][:, :3], axis=1), bounds=(0.0, 0.012), margin=0.12
            ),
            "grasp": held,
            "lift": tolerance(height, bounds=(self.config.lift, 1.0), margin=self.config.lift) * held,
            "gentle": tolerance(truth["bruise"], bounds=(-1.0, 0.0), margin=0.3),
            "still": tolerance(truth["slip"], bounds=(0.0, 0.003), margin=0.03) * held,
        }

    def success(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """Held high after the shake, and not bruised."""
        high = truth["object"][:, 2] - self._rest_height >= self.config.lift
        return (truth["time"] > _SHAKE[1]) & truth["held"] & high & (truth["bruise"] <= 0.0)

    def failure(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """Crushed: the pressure went half again over the yield."""
        return truth["bruise"] > 0.5

    def _deformation(self, view: View) -> tuple[Float[np.ndarray, "n 3"], Float[np.ndarray, "n 3 3"]]:
        """Centre of the nodes [m], and the affine part F of how they moved: nodes - centre = F rest."""
        rest, _ = self._nodes(view)
        nodes = view.field("xpos")[:, self._node_bodies(view)]
        centre = nodes.mean(axis=1)
        return centre, (nodes - centre[:, None]).transpose(0, 2, 1) @ np.linalg.pinv(rest - rest.mean(axis=0)).T

    def _bruise(self, view: View) -> Float[np.ndarray, " n"]:
        return view.remember("bruise", np.zeros(view.n))

    def _node_bodies(self, view: View) -> np.ndarray:
        return view.model.flex_nodebodyid

    def _node_dofs(self, view: View) -> np.ndarray:
        first = view.model.body_dofadr[self._node_bodies(view)]
        return (first[:, None] + np.arange(3)).ravel()

    def _nodes(self, view: View) -> tuple[Float[np.ndarray, "node 3"], np.ndarray]:
        """Rest positions of the nodes in the world, and the columns of `qpos` that move them."""
        m = view.model
        bodies = self._node_bodies(view)
        first = m.jnt_qposadr[m.body_jntadr[bodies]]
        parent = m.body_parentid[bodies]
        rotation = matrix_from_quat(m.body_quat[parent])
        rest = m.body_pos[parent] + (rotation @ m.body_pos[bodies][..., None])[..., 0]
        return rest, (first[:, None] + np.arange(3)).ravel()


_OVER = (0.45, 0.0)  # [m]


def _ellipsoid(n: int) -> Float[np.ndarray, "n 3"]:
    """Even points on the unit sphere: a Fibonacci spiral."""
    k = np.arange(n) + 0.5
    z, angle = 1.0 - 2.0 * k / n, np.pi * (1.0 + 5.0**0.5) * k
    r = np.sqrt(1.0 - z**2)
    return np.column_stack([r * np.cos(angle), r * np.sin(angle), z])
