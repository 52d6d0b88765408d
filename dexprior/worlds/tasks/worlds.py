"""n worlds of one task, stepped together on MuJoCo's thread pool, each with parameters of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput, UnknownName
from dexprior.families import Event, ParameterFamily, Phenomena, SensorModels
from dexprior.geometry.rotations import quat_from_matrix
from dexprior.worlds.controller import CartesianVelocityController
from dexprior.worlds.kinematics import ChainKinematics
from dexprior.worlds.measures import TOUCH_ON, slip_speed
from dexprior.worlds.rigs import Rig
from dexprior.worlds.tasks.base import Scenes, Task, Truth
from dexprior.worlds.tasks.models import ParametersOfWorlds
from dexprior.worlds.tasks.phenomena import PhenomenaOfWorlds, govern
from dexprior.worlds.tasks.sensing import SensorsOfWorlds
from dexprior.worlds.tasks.timeline import Timeline
from dexprior.worlds.tasks.transmission import Transmission, set_servos, turns

if TYPE_CHECKING:
    import mujoco

__all__ = ["ArmAction", "RigState", "TaskWorlds", "View"]

ArmAction = Literal["cartesian", "joint"]
"""Twists at the tool centre point, or changes of the joint targets."""
MAX_TWIST = np.array([0.5, 0.5, 0.5, 2.0, 2.0, 2.0])
"""What an action of 1 stands for [m/s, rad/s]."""
MAX_JOINT_SPEED = 1.5
"""The same for joints [rad/s, m/s]."""


@dataclass(frozen=True)
class RigState:
    """One robot in every world; sensors are ideal."""

    q: Float[np.ndarray, "n joint"]
    qd: Float[np.ndarray, "n joint"]
    tcp: Float[np.ndarray, "n 7"]
    twist: Float[np.ndarray, "n 6"]
    """Of the tool centre point, [v w] in world axes."""
    end: Float[np.ndarray, "n end"]
    """Joints of the end effector."""
    wrench: Float[np.ndarray, "n 6"]
    """Of the environment on the tool, wrist frame, tared at reset [N, N m]."""
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

    def __init__(self, batch: mujoco.batch.Batch, model: mujoco.MjModel, rigs: Sequence[Rig]) -> None:
        self.model, self.n = model, batch.nsim
        self._batch, self._bound = batch, dict[str, np.ndarray]()
        self.qpos, self.qvel, self.ctrl = batch.bind("qpos"), batch.bind("qvel"), batch.bind("ctrl")
        self.sensordata, self.time = batch.bind("sensordata"), batch.bind("time")
        self.rigs: tuple[RigState, ...] = ()
        """Of the last `TaskWorlds.state`."""
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
        """Of a body with a free joint: linear in world axes [m/s], angular in its own [rad/s]."""
        start = self.dof_address(joint)
        return self.qvel[:, start : start + 6]

    def sensor(self, name: str) -> Float[np.ndarray, "n value"]:
        """Values of a sensor."""
        sensor = self.model.sensor(name)
        return self.sensordata[:, sensor.adr[0] : sensor.adr[0] + sensor.dim[0]]


class TaskWorlds:
    """n worlds of a task.

    Args:
        task: what is built and measured.
        n: worlds.
        arm_action: what the arm's part of an action means.
        family: which parameters the values given to `reset` stand for; the task's training family by default.
        phenomena: of contact, that the engine leaves out; none by default.
        sensors: models of its sensors and links; none by default, so that `sensed` is `state`.
        threads: of MuJoCo's pool; 0 takes all cores. Results do not depend on it.

    Raises:
        UnknownName: no such kind of arm action.
        BadInput: no world, or more than memory holds, or a scene that MuJoCo cannot compile.
    """

    def __init__(
        self,
        task: Task,
        n: int,
        *,
        arm_action: ArmAction = "cartesian",
        family: ParameterFamily | None = None,
        phenomena: Phenomena | None = None,
        sensors: SensorModels | None = None,
        threads: int = 0,
    ) -> None:
        import mujoco.batch

        if arm_action not in get_args(ArmAction):
            raise UnknownName("arm action", arm_action, get_args(ArmAction))
        self.task, self.n, self.arm_action = task, n, arm_action
        self.family = task.family if family is None else family
        layout = task.layout()
        self.rigs = layout.rigs
        governed = None if phenomena is None or not phenomena.active else govern(layout.spec, phenomena)
        try:
            self.model = layout.spec.compile()
        except ValueError as error:  # sizes that the configuration's own bounds let through
            raise BadInput(
                f"task {task.name!r}: MuJoCo cannot build its scene: {' '.join(str(error).split())}"
            ) from None
        if n < 1:
            raise BadInput(f"task {task.name!r}: {n} worlds; at least one is needed")
        try:
            batch = mujoco.batch.Batch(self.model, n, threads)
        except (MemoryError, ValueError) as error:  # MuJoCo reports std::bad_alloc as the latter
            raise BadInput(f"task {task.name!r}: {n} worlds cannot be made ({error}); ask for fewer") from None
        self._batch = task.engine(batch)
        driven = [name for rig in self.rigs for name in (*rig.arm_joints, *rig.end_actuators)]

        def configure(model: mujoco.MjModel, values: Mapping[str, float]) -> None:
            task.configure(model, values)
            set_servos(model, driven, values)

        self._parameters = ParametersOfWorlds(self._batch, self.model, self.family, configure)
        self.view = View(self._batch, self.model, self.rigs)
        self._phenomena: PhenomenaOfWorlds | None = None
        if phenomena is not None and governed is not None:
            self._phenomena = PhenomenaOfWorlds(phenomena, governed, self.view, self._parameters.fields)
        self._substeps = round(task.control_dt / self.model.opt.timestep)
        if not np.isclose(self._substeps * self.model.opt.timestep, task.control_dt):
            raise BadInput(
                f"task {task.name!r}: its control period {task.control_dt} s is no multiple of its timestep "
                f"{self.model.opt.timestep} s"
            )
        self._every, self._unseen = self._substeps, 0
        self._look: Callable[[], None] | None = None
        self.changed = np.zeros(0, dtype=int)
        """Worlds whose parameters an event changed at the last step."""
        self._drives = [_Drive(self.model, rig, n) for rig in self.rigs]
        self._transmission = Transmission(self.model, driven, self.family, substeps=self._substeps)
        self._timeline = Timeline(self.model, self.family, self._parameters, self.view, control_dt=task.control_dt)
        self.action_size = sum(d.arm_size(arm_action) + d.rig.end.action_size for d in self._drives)
        # binds every output that the task reads: the first reading of one computes it anew, which changes the last bits
        # of what follows, and must not happen within an episode
        task.cloud(self.view, self.truth())
        self.view.memory.clear()
        self._sensors = None if sensors is None or not sensors.active else self._fit(sensors)

    @property
    def parameter_fields(self) -> tuple[str, ...]:
        """Fields of the model that the family gives each world its own values of."""
        return self._parameters.fields

    @property
    def target(self) -> Float[np.ndarray, "n joint"]:
        """What the joints of the first robot's arm are told [rad, m]."""
        return self._drives[0].controller.target

    def reset(
        self,
        ids: np.ndarray,
        scenes: Scenes,
        parameters: Sequence[Mapping[str, float]],
        events: Sequence[Sequence[Event]] = (),
        *,
        seeds: Sequence[int] | np.ndarray | None = None,
    ) -> None:
        """Start some worlds afresh.

        Args:
            ids: which worlds.
            scenes: one instance each, as `Task.sample` gives them.
            parameters: one set of the family's values each; `world/-/` values are left to the environment.
            events: what happens in each of them; nothing by default.
            seeds: of each one's sensors; the worlds' numbers by default.
        """
        import mujoco

        ids = np.asarray(ids)
        self._timeline.check(events, len(ids))
        for i, values in zip(ids, parameters):
            self._parameters.write(int(i), values)
            self.view.parameters[int(i)] = values
        self._batch.reset(ids, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        if self._sensors is not None:
            self._sensors.reset(ids, ids if seeds is None else seeds)
        for drive, zero in self._zeros():
            drive.reset(self.view, ids, zero)
        self.task.place(self.view, ids, scenes)
        if self._phenomena is not None:
            self._batch.forward(ids)
            self._phenomena.rebase(ids)
            self._phenomena.reset(ids)
        if self.task.settle > 0:
            self._advance(ids, round(self.task.settle / self.model.opt.timestep))
            self.view.time[ids] = 0.0
        self._batch.forward(ids)
        for drive in self._drives:
            drive.tare(self.view, ids)
        if self._transmission.active:
            self._transmission.reset(self.view, ids, parameters)
        self._timeline.reset(ids, parameters, events)
        if self._sensors is not None:
            self._sensors.begin(ids, self._joints("q")[ids])

    def put(self, arm: Float[np.ndarray, "n joint"], end: Float[np.ndarray, "n end"]) -> None:
        """Move the first robot of every world to joint positions, at rest; its servos hold it there [rad, m].

        For end effectors whose actuators are position servos of their joints.
        """
        drive, zero = self._zeros()[0]
        drive.put(self.view, arm, end, zero)
        self._batch.forward()

    def step(self, action: Float[np.ndarray, "n action"]) -> None:
        """Advance every world by one control period under an action in [-1, 1]; beyond, it is clipped.

        The columns are, robot by robot: the arm's (a twist, or one speed a joint), then the end effector's (-1 closed
        or tight, 1 open or slack).

        Raises:
            BadInput: wrong shape, or a value that is not finite.
        """
        action = np.asarray(action, dtype=np.float64)
        if action.shape != (self.n, self.action_size):
            raise BadInput(f"actions of shape {action.shape}, expected ({self.n}, {self.action_size})")
        if not np.isfinite(action).all():
            raise BadInput(f"actions hold {int((~np.isfinite(action)).sum())} value(s) that are not finite")
        action = np.clip(action, -1.0, 1.0)
        if self._sensors is None:
            self._command(action)
        else:
            action, silent = self._sensors.send(action)
            kept = self.view.ctrl[silent].copy(), [drive.controller.target[silent].copy() for drive in self._drives]
            self._command(action)
            self._sensors.offset_commands()
            self.view.ctrl[silent] = kept[0]
            for drive, target in zip(self._drives, kept[1]):
                drive.controller.target[silent] = target
            self._sensors.advance()
        self._let_happen()
        self.task.act(self.view)
        if not self._transmission.active:
            self._advance_watched(self._substeps)
            return
        for steps, controls in self._transmission.blocks(self.view):
            self.view.ctrl[:] = controls
            self._advance_watched(steps)

    def watch(self, every: int, look: Callable[[], None] | None) -> None:
        """Call `look` after every so many simulation steps of the control periods to come; None ends it.

        Raises:
            BadInput: `every` does not divide a control period.
        """
        if every < 1 or self._substeps % every:
            raise BadInput(
                f"task {self.task.name!r}: a look every {every} simulation steps; choose a divisor of "
                f"{self._substeps}, the steps of a control period"
            )
        self._every, self._look, self._unseen = every, look, 0

    def state(self) -> tuple[RigState, ...]:
        """Every robot now."""
        self.view.rigs = tuple(drive.state(self.view) for drive in self._drives)
        return self.view.rigs

    def sensed(self, rigs: tuple[RigState, ...] | None = None) -> tuple[RigState, ...]:
        """Every robot as its sensors have it at this control period; its state without models of them.

        Args:
            rigs: the present state, where it is known already.
        """
        rigs = self.state() if rigs is None else rigs
        if self._sensors is None:
            return rigs
        q, qd, wrench, touch = self._sensors.read(
            self._joints("q"), self._joints("qd"), np.concatenate([r.wrench for r in rigs], axis=1),
            np.concatenate([r.touch for r in rigs], axis=1),
        )  # fmt: skip
        seen, joint, tip = [], 0, 0
        for k, (drive, rig) in enumerate(zip(self._drives, rigs)):
            middle, last = joint + rig.q.shape[1], joint + rig.q.shape[1] + rig.end.shape[1]
            tcp, twist = drive.tool(q[:, joint:middle], qd[:, joint:middle])
            now = RigState(
                q=q[:, joint:middle], qd=qd[:, joint:middle], tcp=tcp, twist=twist, end=q[:, middle:last],
                wrench=wrench[:, 6 * k : 6 * k + 6], touch=touch[:, tip : tip + rig.touch.shape[1]],
            )  # fmt: skip
            seen.append(now)
            joint, tip = last, tip + rig.touch.shape[1]
        return tuple(seen)

    def received(self, streams: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What has arrived by now of observations (n, ...) that leave the robots in this control period."""
        return dict(streams) if self._sensors is None else self._sensors.receive(streams)

    def truth(self) -> Truth:
        """What the task says is true now."""
        self.state()
        return self.task.measure(self.view)

    def snapshot(self) -> dict[str, np.ndarray]:
        """The full integration state of every world, with what controllers and tares remember."""
        parts = {"mujoco": self._batch.state.copy()}
        for k, drive in enumerate(self._drives):
            parts |= {f"{k}/target": drive.controller.target.copy(), f"{k}/tare": drive.offset.copy()}
        return parts | {f"memory/{name}": value.copy() for name, value in self.view.memory.items()}

    def restore(
        self,
        snapshot: Mapping[str, np.ndarray],
        parameters: Sequence[Mapping[str, float]],
        events: Sequence[Sequence[Event]] = (),
    ) -> None:
        """Inverse of `snapshot`, for worlds that began with these parameters and events; sensors are computed anew."""
        self._timeline.check(events, self.n)
        self._timeline.reset(np.arange(self.n), parameters, events)
        for i, values in enumerate(parameters):
            self._parameters.write(i, values)
            self.view.parameters[i] = values
        self._batch.state[:] = snapshot["mujoco"]
        for k, drive in enumerate(self._drives):
            drive.controller.target[:] = snapshot[f"{k}/target"]
            drive.offset[:] = snapshot[f"{k}/tare"]
        for key, value in snapshot.items():
            if key.startswith("memory/"):
                self.view.remember(key.removeprefix("memory/"), value)[:] = value
        if self._phenomena is not None:
            self._phenomena.rebase(np.arange(self.n))
        self._let_happen()
        self._batch.forward()

    def _advance_watched(self, steps: int) -> None:
        """Simulation steps of every world, interrupted where somebody looks."""
        everywhere = np.arange(self.n)
        if self._look is None:
            self._advance(everywhere, steps)
            return
        while steps:
            few = min(steps, self._every - self._unseen)
            self._advance(everywhere, few)
            steps, self._unseen = steps - few, (self._unseen + few) % self._every
            if not self._unseen:
                self._look()

    def _fit(self, models: SensorModels) -> SensorsOfWorlds:
        """Sensors on every robot."""
        import mujoco

        joints = [name for rig in self.rigs for name in (*rig.arm_joints, *rig.end_joints)]
        servoed = np.full(len(joints), -1)
        for column in (self.model.actuator(n).id for r in self.rigs for n in (*r.arm_joints, *r.end_actuators)):
            driven = self.model.joint(self.model.actuator_trnid[column, 0]).name if turns(self.model, column) else ""
            if driven in joints:
                servoed[joints.index(driven)] = column
        hinge = mujoco.mjtJoint.mjJNT_HINGE
        return SensorsOfWorlds(
            models, self.view, hinges=np.array([self.model.joint(name).type[0] == hinge for name in joints]),
            servoed=servoed, robots=len(self.rigs), elements=sum(len(rig.touch) for rig in self.rigs),
            control_dt=self.task.control_dt,
        )  # fmt: skip

    def _joints(self, kind: Literal["q", "qd"]) -> Float[np.ndarray, "n joint"]:
        """Positions or velocities of all robots' joints: arm, then end effector."""
        return np.concatenate([drive.joints(self.view, kind) for drive in self._drives], axis=1)

    def _zeros(self) -> list[tuple[_Drive, Float[np.ndarray, "n joint"] | None]]:
        """Every drive with the errors of its arm's zeros."""
        found, first = [], 0
        for drive, rig in zip(self._drives, self.rigs):
            arm = len(rig.arm_joints)
            found.append((drive, None if self._sensors is None else self._sensors.zeros(first, arm)))
            first += arm + len(rig.end_joints)
        return found

    def _command(self, action: Float[np.ndarray, "n action"]) -> None:
        start = 0
        for drive, zero in self._zeros():
            middle = start + drive.arm_size(self.arm_action)
            stop = middle + drive.rig.end.action_size
            drive.command(
                self.view, action[:, start:middle], action[:, middle:stop], self.arm_action, self.task.control_dt, zero
            )
            start = stop

    def _advance(self, ids: np.ndarray, steps: int) -> None:
        """Simulation steps of some worlds under the controls that they have."""
        if self._phenomena is None:
            self._batch.step(None if len(ids) == self.n else ids, nstep=steps)
            return
        commanded = self.view.ctrl[ids].copy()
        for few in self._phenomena.blocks(steps):
            self._phenomena.write(ids, commanded, few)
            self._batch.step(ids, nstep=few)
            self._phenomena.read(ids)
        self.view.ctrl[ids] = commanded

    def _let_happen(self) -> None:
        """Events of the control period that begins now."""
        self.changed = self._timeline.apply()
        if len(self.changed) and self._phenomena is not None:
            self._phenomena.rebase(self.changed)
        if len(self.changed) and self._transmission.active:
            self._transmission.set(self.view, self.changed, [self.view.parameters[i] for i in self.changed])

    def stale(self, stream: str) -> Bool[np.ndarray, " n"] | None:
        """Worlds in which a sensor stream has dropped out; None where that never happens."""
        return self._timeline.dropped(stream)

    def data(self, world: int, *, look: int = 0) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """A copy of one world, for rendering or for MuJoCo's own functions; `look` picks one of its looks."""
        import mujoco

        model = self._batch.get_model(world)
        self.task.dress(model, look)
        data = self._batch.get_data(world)
        mujoco.mj_forward(model, data)
        return model, data


class _Drive:
    """Controls and reads one rig in every world."""

    def __init__(self, model: mujoco.MjModel, rig: Rig, n: int) -> None:
        self.rig = rig
        self._arm = np.array([model.joint(name).qposadr[0] for name in rig.arm_joints], dtype=int)
        self._arm_dof = np.array([model.joint(name).dofadr[0] for name in rig.arm_joints], dtype=int)
        self._end = np.array([model.joint(name).qposadr[0] for name in rig.end_joints], dtype=int)
        self._end_dof = np.array([model.joint(name).dofadr[0] for name in rig.end_joints], dtype=int)
        self._arm_ctrl = np.array([model.actuator(name).id for name in rig.arm_joints], dtype=int)
        self._end_ctrl = np.array([model.actuator(name).id for name in rig.end_actuators], dtype=int)
        self._wrench = np.concatenate(
            [model.sensor(rig.name(f"wrench_{kind}")).adr[0] + np.arange(3) for kind in ("force", "torque")]
        )
        self._touch = np.array([model.sensor(name).adr[0] for name in rig.touch], dtype=int)
        chain = ChainKinematics(model, rig.arm_joints, rig.name("tcp"))
        self.controller = CartesianVelocityController(n, chain, home=rig.home, limits=rig.arm.limits)
        self.offset = np.zeros((n, 6))

    def arm_size(self, kind: ArmAction) -> int:
        return 6 if kind == "cartesian" and len(self._arm) else len(self._arm)

    def joints(self, view: View, kind: Literal["q", "qd"]) -> np.ndarray:
        if kind == "q":
            return view.qpos[:, np.concatenate([self._arm, self._end])]
        return view.qvel[:, np.concatenate([self._arm_dof, self._end_dof])]

    def reset(self, view: View, ids: np.ndarray, zero: np.ndarray | None) -> None:
        view.qpos[np.ix_(ids, self._arm)] = self.rig.home
        view.qpos[np.ix_(ids, self._end)] = self.rig.end.rest
        view.ctrl[np.ix_(ids, self._arm_ctrl)] = self.rig.home
        view.ctrl[np.ix_(ids, self._end_ctrl)] = self.rig.end_start
        start = np.tile(self.rig.home, (len(ids), 1))
        self.controller.reset(ids, start if zero is None else start + zero[ids])

    def put(self, view: View, arm: np.ndarray, end: np.ndarray, zero: np.ndarray | None) -> None:
        for columns, controls, at in ((self._arm, self._arm_ctrl, arm), (self._end, self._end_ctrl, end)):
            view.qpos[:, columns] = view.ctrl[:, controls] = at
        self.controller.target[:] = arm if zero is None else arm + zero

    def tare(self, view: View, ids: np.ndarray) -> None:
        self.offset[ids] = view.sensordata[np.ix_(ids, self._wrench)]

    def command(
        self, view: View, arm: np.ndarray, end: np.ndarray, kind: ArmAction, dt: float, zero: np.ndarray | None
    ) -> None:
        q = view.qpos[:, self._arm]
        if zero is not None:
            q = q + zero  # the controller counts as the encoders do
        if kind == "cartesian" and len(self._arm):
            target = self.controller.step(q, arm * MAX_TWIST, dt)
        else:
            target = self.controller.step_joints(q, arm * MAX_JOINT_SPEED, dt)
        view.ctrl[:, self._arm_ctrl] = target
        view.ctrl[:, self._end_ctrl] = self.rig.end_control(end)

    def tool(self, q: np.ndarray, qd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, R, J = self.controller.kinematics.forward(q)
        return np.concatenate([p, quat_from_matrix(R)], axis=1), (J @ qd[..., None])[..., 0]

    def state(self, view: View) -> RigState:
        q, qd = view.qpos[:, self._arm].copy(), view.qvel[:, self._arm_dof].copy()
        tcp, twist = self.tool(q, qd)
        return RigState(
            q=q,
            qd=qd,
            tcp=tcp,
            twist=twist,
            end=view.qpos[:, self._end].copy(),
            wrench=-(view.sensordata[:, self._wrench] - self.offset),  # the sensor reads what holds the tool
            touch=view.sensordata[:, self._touch].copy(),
        )
