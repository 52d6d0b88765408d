"""Many insertion worlds with the arm, stepped together: by `mujoco.batch`, or one by a stepper of the caller's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Bool, Float

from dexprior.families import ParameterFamily
from dexprior.geometry.rotations import quat_from_matrix
from dexprior.worlds.arm import ARM_JOINTS, GRIPPER_JOINTS, HOME, MAX_OPENING
from dexprior.worlds.controller import CartesianVelocityController
from dexprior.worlds.insertion import InsertionConfig, build_scene
from dexprior.worlds.measures import TOUCH_ON, slip_speed

if TYPE_CHECKING:
    import mujoco

__all__ = ["CONTROL_DT", "InsertionWorlds", "Stepper", "WorldState"]

CONTROL_DT = 0.04
"""Seconds between commands."""

Stepper = Callable[["mujoco.MjModel", "mujoco.MjData"], None]


@dataclass(frozen=True)
class WorldState:
    """What is true in each world after a step; sensors are ideal, noise is added by the environment."""

    t: Float[np.ndarray, " n"]
    q: Float[np.ndarray, "n 7"]
    qd: Float[np.ndarray, "n 7"]
    tcp: Float[np.ndarray, "n 7"]
    opening: Float[np.ndarray, " n"]
    wrench: Float[np.ndarray, "n 6"]
    """Of the environment on the tool, wrist frame, tared at reset [N, N m]."""
    touch: Float[np.ndarray, "n 2"]
    """Normal force on each pad [N]."""
    nut: Float[np.ndarray, "n 7"]
    nut_velocity: Float[np.ndarray, "n 3"]
    bolt: Float[np.ndarray, "n 3"]
    slip: Float[np.ndarray, " n"]
    """Speed of the nut relative to the tool while both pads press on it, else 0 [m/s]."""
    held: Bool[np.ndarray, " n"]
    """Whether both pads press on the nut."""


class InsertionWorlds:
    """n worlds with the built-in arm.

    Args:
        config: sizes of nut and bolt.
        n: worlds.
        family: which parameters the values given to `reset` stand for.
        cone: friction cone of the solver.
        threads: of the thread pool; 0 takes all cores. Results do not depend on it.
        stepper: replaces `mujoco.mj_step`; one world only.
    """

    def __init__(
        self,
        config: InsertionConfig,
        n: int,
        *,
        family: ParameterFamily,
        cone: Literal["pyramidal", "elliptic"] = "pyramidal",
        threads: int = 0,
        stepper: Stepper | None = None,
    ) -> None:
        import mujoco
        import mujoco.batch

        self.config, self.n, self.family = config, n, family
        self.model = build_scene(config, actor="arm", cone=cone).compile()
        self._stepper = stepper
        self._models = [self.model] * n
        self._batch: mujoco.batch.Batch | None = None
        if stepper is None:
            self._batch = mujoco.batch.Batch(self.model, n, threads)
            view = self._batch.bind
            self._qpos, self._qvel, self._ctrl = view("qpos"), view("qvel"), view("ctrl")
            self._sensors, self._mocap, self._time = view("sensordata"), view("mocap_pos"), view("time")
        else:
            if n != 1:
                raise ValueError("a stepper of the caller's drives one world")
            self.data = mujoco.MjData(self.model)
            self._bind_data()
        m = self.model
        self._arm = np.array([m.joint(name).qposadr[0] for name in ARM_JOINTS])
        self._arm_dof = np.array([m.joint(name).dofadr[0] for name in ARM_JOINTS])
        self._pads = np.array([m.joint(name).qposadr[0] for name in GRIPPER_JOINTS])
        self._nut, self._nut_dof = m.joint("nut").qposadr[0], m.joint("nut").dofadr[0]
        self._force, self._torque = m.sensor("wrench_force").adr[0], m.sensor("wrench_torque").adr[0]
        self._touch = np.array([m.sensor(f"touch_{side}").adr[0] for side in ("left", "right")])
        self._bolt = m.body("bolt").mocapid[0]
        self._substeps = round(CONTROL_DT / config.timestep)
        self._restored_sensors: np.ndarray | None = None
        self._tare = np.zeros((n, 6))
        self.controller = CartesianVelocityController(n)

    def reset(
        self,
        ids: np.ndarray,
        *,
        nut: Float[np.ndarray, "m 3"],
        nut_yaw: Float[np.ndarray, "m 1"],
        bolt: Float[np.ndarray, "m 3"],
        parameters: list[Mapping[str, float]],
    ) -> None:
        """Start some worlds afresh: gripper open at HOME, nut on the table.

        Args:
            ids: which worlds.
            nut, bolt: positions on the table [m].
            nut_yaw: [rad].
            parameters: one set of the family's values a world; `world/-/` values are left to the caller.
        """
        import mujoco

        ids = np.asarray(ids)
        self._models = list(self._models)
        for i, values in zip(ids, parameters):
            model = copy.copy(self.model)
            self.family.apply(model, values)
            self._models[i] = model
        if self._batch is not None:
            self._batch.set_models(self._models)
            self._batch.reset(ids, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        else:
            self.model_of_world = self._models[0]
            self.data = mujoco.MjData(self.model_of_world)
            self._bind_data()
        yaw = nut_yaw[:, 0]
        zero = np.zeros_like(yaw)
        self._qpos[np.ix_(ids, self._arm)] = HOME
        self._qpos[np.ix_(ids, self._pads)] = MAX_OPENING / 2
        height = np.full_like(yaw, self.config.height / 2)
        pose = np.stack([nut[:, 0], nut[:, 1], height, np.cos(yaw / 2), zero, zero, np.sin(yaw / 2)], axis=1)
        self._qpos[ids, self._nut : self._nut + 7] = pose
        self._mocap[ids, self._bolt] = bolt
        self.controller.reset(ids, np.tile(HOME, (len(ids), 1)))
        self._ctrl[ids, :7] = HOME
        self._ctrl[ids, 7:] = MAX_OPENING / 2
        if self._batch is not None:
            self._batch.forward(ids)
        else:
            mujoco.mj_forward(self.model_of_world, self.data)
        if self._restored_sensors is not None:
            self._restored_sensors[ids] = self._sensors[ids]
        self._tare[ids] = self._raw_wrench()[ids]

    def step(self, twist: Float[np.ndarray, "n 6"], opening: Float[np.ndarray, " n"]) -> None:
        """Advance every world by one control period.

        Args:
            twist: at the tool centre point, base axes [m/s, rad/s].
            opening: wanted distance between the pads [m].
        """
        self.drive(self.controller.step(self._qpos[:, self._arm], twist, CONTROL_DT), opening)
        self.advance(self._substeps)

    def drive(self, q: Float[np.ndarray, "n 7"], opening: Float[np.ndarray, " n"]) -> None:
        """Set joint position targets [rad] and openings [m] directly; `advance` then moves time."""
        self._ctrl[:, :7] = q
        self._ctrl[:, 7:] = (np.clip(opening, 0.0, MAX_OPENING) / 2)[:, None]

    def advance(self, substeps: int) -> None:
        """Advance every world under its present controls."""
        self._restored_sensors = None
        if self._batch is not None:
            self._batch.step(nstep=substeps)
            return
        assert self._stepper is not None  # one or the other, by construction
        for _ in range(substeps):
            self._stepper(self.model_of_world, self.data)

    def state(self) -> WorldState:
        """What is true now."""
        q = self._qpos[:, self._arm].copy()
        qd = self._qvel[:, self._arm_dof].copy()
        p, R, J = self.controller.kinematics.forward(q)
        twist = (J @ qd[..., None])[..., 0]
        nut = self._qpos[:, self._nut : self._nut + 7].copy()
        nut_velocity = self._qvel[:, self._nut_dof : self._nut_dof + 3].copy()
        touch = self._sensed()[:, self._touch].copy()
        held = np.all(touch > TOUCH_ON, axis=1)
        slip = slip_speed(point=nut[:, :3], velocity=nut_velocity, tool=p, twist=twist, held=held)
        return WorldState(
            t=self._clock,
            q=q,
            qd=qd,
            tcp=np.concatenate([p, quat_from_matrix(R)], axis=1),
            opening=self._qpos[:, self._pads].sum(axis=1),
            wrench=-(self._raw_wrench() - self._tare),
            touch=touch,
            nut=nut,
            nut_velocity=nut_velocity,
            bolt=self._mocap[:, self._bolt].copy(),
            slip=slip,
            held=held,
        )

    def snapshot(self) -> dict[str, np.ndarray]:
        """The full integration state of every world, with what the controller and the tare remember."""
        if self._batch is None:
            raise ValueError("only batched worlds are checkpointed")
        return {
            "mujoco": self._batch.state.copy(),
            "sensors": self._sensed().copy(),  # of the last step: they are outputs, not part of MuJoCo's state
            "target": self.controller.target.copy(),
            "tare": self._tare.copy(),
        }

    def restore(self, snapshot: Mapping[str, np.ndarray], parameters: list[Mapping[str, float]]) -> None:
        """Inverse of `snapshot`, for worlds of the same parameters."""
        assert self._batch is not None
        self._models = []
        for values in parameters:
            model = copy.copy(self.model)
            self.family.apply(model, values)
            self._models.append(model)
        self._batch.set_models(self._models)
        self._batch.state[:] = snapshot["mujoco"]
        self._restored_sensors = snapshot["sensors"].copy()
        self.controller.target = snapshot["target"].copy()
        self._tare = snapshot["tare"].copy()

    @property
    def qpos(self) -> Float[np.ndarray, "n nq"]:
        """Positions, for rendering."""
        return self._qpos

    def _raw_wrench(self) -> Float[np.ndarray, "n 6"]:
        """What the wrist sensor reads: the force that holds the tool, so minus what acts on it [N, N m]."""
        s = self._sensed()
        return np.concatenate([s[:, self._force : self._force + 3], s[:, self._torque : self._torque + 3]], axis=1)

    def _sensed(self) -> Float[np.ndarray, "n sensor"]:
        """Sensors of the last step; right after `restore`, those of the snapshot."""
        return self._sensors if self._restored_sensors is None else self._restored_sensors

    def _bind_data(self) -> None:
        d = self.data
        self._qpos, self._qvel, self._ctrl = d.qpos[None], d.qvel[None], d.ctrl[None]
        self._sensors, self._mocap = d.sensordata[None], d.mocap_pos[None]

    @property
    def _clock(self) -> Float[np.ndarray, " n"]:
        return np.array([self.data.time]) if self._batch is None else np.array(self._time)
