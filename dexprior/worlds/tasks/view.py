"""The state of many worlds as arrays by MuJoCo's names, and of the robots in them; what tasks and experts read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from dexprior.robots.rigs import Rig
from dexprior.worlds.engine import Engine
from dexprior.worlds.measures import TOUCH_ON, slip_speed

if TYPE_CHECKING:
    import mujoco

__all__ = ["RigState", "View"]


@dataclass(frozen=True)
class RigState:
    """One robot in every world; sensors are ideal."""

    q: Float[np.ndarray, "n joint"]
    qd: Float[np.ndarray, "n joint"]
    tcp: Float[np.ndarray, "n 7"]
    twist: Float[np.ndarray, "n 6"]
    """Twist of the tool centre point, [v w] in world axes."""
    end: Float[np.ndarray, "n end"]
    """Joints of the end effector."""
    wrench: Float[np.ndarray, "n 6"]
    """Wrench of the environment on the tool, wrist frame, tared at reset [N, N m]."""
    touch: Float[np.ndarray, "n fingertip"]
    """Normal force on each fingertip [N]."""

    def grasp(
        self, point: Float[np.ndarray, "n 3"], velocity: Float[np.ndarray, "n 3"], *, touch_on: float = TOUCH_ON
    ) -> dict[str, np.ndarray]:
        """What every task says of its object: `held`, by two fingertips or more, and `slip` against the tool [m/s].

        Args:
            point, velocity: of the object [m, m/s].
            touch_on: force from which a fingertip counts as touching [N].
        """
        held = (self.touch > touch_on).sum(axis=1) >= 2
        slip = slip_speed(point=point, velocity=velocity, tool=self.tcp[:, :3], twist=self.twist, held=held)
        return {"held": held, "slip": slip}


class View:
    """Arrays of every world by MuJoCo's names; writing to those of the state takes effect at the next call.

    `field("flexvert_xpos")` and the like are outputs of the last step or forward, and read-only.
    """

    def __init__(self, batch: Engine, model: mujoco.MjModel, rigs: Sequence[Rig]) -> None:
        self.model, self.n = model, batch.nsim
        self._batch, self._bound = batch, dict[str, np.ndarray]()
        self.qpos, self.qvel, self.ctrl = batch.bind("qpos"), batch.bind("qvel"), batch.bind("ctrl")
        self.sensordata, self.time = batch.bind("sensordata"), batch.bind("time")
        self.rigs: tuple[RigState, ...] = ()
        """States of the robots at the last `TaskWorlds.state`."""
        self.memory: dict[str, np.ndarray] = {}
        """What a task remembers of each world; see `remember`."""
        self.parameters: list[Mapping[str, float]] = [{} for _ in range(self.n)]
        """The family's values in each world."""

    def remember(self, name: str, start: np.ndarray) -> np.ndarray:
        """The task's own array (n, ...) of this name, made from `start` the first time; part of snapshots."""
        return self.memory.setdefault(name, np.array(start))

    def parameter(self, name: str, default: float) -> Float[np.ndarray, " n"]:
        """A value of the family in every world."""
        return np.array([values.get(name, default) for values in self.parameters])

    def model_field(self, name: str) -> np.ndarray:
        """A live array (n, ...) over an MjModel field, of each world; options are named `opt.NAME`."""
        return self._batch.expand(name)

    def field(self, name: str) -> np.ndarray:
        """A live array (n, ...) over an MjData field."""
        if name not in self._bound:
            self._bound[name] = self._batch.bind(name)
            self._batch.forward()  # outputs are filled by the next call
        return self._bound[name]

    def state_field(self, name: str) -> np.ndarray:
        """A live array (n, ...) over a field of the state, e.g. `xfrc_applied`; it can be written to."""
        return self._batch.bind(name)

    def qpos_address(self, joint: str) -> int:
        """First column of a joint in `qpos`."""
        return int(self.model.joint(joint).qposadr[0])

    def dof_address(self, joint: str) -> int:
        """First column of a joint in `qvel`."""
        return int(self.model.joint(joint).dofadr[0])

    def pose(self, joint: str) -> Float[np.ndarray, "n 7"]:
        """Pose of a body with a free joint."""
        start = self.qpos_address(joint)
        return self.qpos[:, start : start + 7]

    def mocap_pose(self, body: str) -> Float[np.ndarray, "n 7"]:
        """Pose of a body that is moved from outside."""
        k = self.model.body(body).mocapid[0]
        return np.concatenate([self.field("mocap_pos")[:, k], self.field("mocap_quat")[:, k]], axis=1)

    def body_pose(self, body: str) -> Float[np.ndarray, "n 7"]:
        """Pose of a body that is fixed in the world, or moved from outside."""
        if self.model.body(body).mocapid[0] >= 0:
            return self.mocap_pose(body)
        fixed = self.model.body(body)
        return np.tile(np.concatenate([fixed.pos, fixed.quat]), (self.n, 1))

    def place_mocap(self, ids: np.ndarray, body: str, pose: Float[np.ndarray, "m 7"]) -> None:
        """Move such a body in some worlds."""
        k = self.model.body(body).mocapid[0]
        self.field("mocap_pos")[ids, k], self.field("mocap_quat")[ids, k] = pose[:, :3], pose[:, 3:]

    def close_on(self, ids: np.ndarray, half_width: float) -> None:
        """Put the pads of the robot's parallel gripper on something as wide as twice this [m], and let them press."""
        for side in ("left", "right"):
            self.qpos[ids, self.qpos_address(f"robot/pad_{side}")] = half_width
            self.ctrl[ids, self.model.actuator(f"robot/pad_{side}").id] = 0.0

    def velocity(self, joint: str) -> Float[np.ndarray, "n 6"]:
        """Velocity of a body with a free joint: linear in world axes [m/s], angular in its own [rad/s]."""
        start = self.dof_address(joint)
        return self.qvel[:, start : start + 6]

    def sensor(self, name: str) -> Float[np.ndarray, "n value"]:
        """Values of a sensor."""
        sensor = self.model.sensor(name)
        return self.sensordata[:, sensor.adr[0] : sensor.adr[0] + sensor.dim[0]]
