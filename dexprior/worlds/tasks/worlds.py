"""n worlds of one task, stepped together on MuJoCo's thread pool, each with parameters of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from dexprior.errors import BadInput, UnknownName
from dexprior.families import Event, ParameterFamily, Phenomena, SensorModels
from dexprior.worlds.controller import CartesianVelocityController
from dexprior.worlds.engine import Engine
from dexprior.worlds.tasks.actions import ActionSpec, ArmAction, RobotCommand
from dexprior.worlds.tasks.base import Scenes, Task, Truth
from dexprior.worlds.tasks.models import ParametersOfWorlds
from dexprior.worlds.tasks.phenomena import PhenomenaOfWorlds, govern
from dexprior.worlds.tasks.robots import RobotsOfWorlds
from dexprior.worlds.tasks.sight import Sight
from dexprior.worlds.tasks.timeline import Timeline
from dexprior.worlds.tasks.transmission import Transmission, set_servos
from dexprior.worlds.tasks.view import RigState, View
from dexprior.worlds.tasks.warp import WarpBatch

if TYPE_CHECKING:
    import mujoco

__all__ = ["Physics", "TaskWorlds"]

Physics = Literal["mujoco", "warp"]
"""MuJoCo on threads, or MuJoCo Warp on a GPU, in single precision."""


class TaskWorlds:
    """n worlds of a task.

    Args:
        task: what is built and measured.
        n: worlds.
        arm_action: what the arm's part of an action means.
        family: which parameters the values given to `reset` stand for; the task's training family by default.
        phenomena: of contact, that the engine leaves out, beside the task's own; none by default.
        sensors: models of its sensors and links; none by default, so that `sensed` is `state`.
        threads: of MuJoCo's pool; 0 takes all cores. Results do not depend on it.
        physics: what steps the worlds; MuJoCo Warp takes rigid tasks only (`Entry.warp`).
        around: what is put around that engine, e.g. learned collisions.

    Raises:
        UnknownName: no such kind of arm action, or no such physics.
        BadInput: no world, or more than memory holds, or a scene that MuJoCo cannot compile, or one that MuJoCo Warp
            cannot step.
        MissingExtra: MuJoCo Warp is asked for and not installed.
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
        physics: Physics = "mujoco",
        around: Callable[[Engine], Engine] | None = None,
    ) -> None:
        import mujoco.batch

        if arm_action not in get_args(ArmAction):
            raise UnknownName("arm action", arm_action, get_args(ArmAction))
        if physics not in get_args(Physics):
            raise UnknownName("physics", physics, get_args(Physics))
        self.task, self.n = task, n
        self.family = task.family if family is None else family
        layout = task.layout()
        self.rigs = layout.rigs
        self.actions = ActionSpec(layout.rigs, arm_action, task.control_dt)
        phenomena = task.phenomena.updated(phenomena)
        governed = govern(layout.spec, phenomena) if phenomena.active else None
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
        engine = task.engine(batch)
        if physics == "warp":
            engine = WarpBatch(engine, task.name)
        self._batch = engine if around is None else around(engine)
        driven = [name for rig in self.rigs for name in (*rig.arm_joints, *rig.end_actuators)]

        def configure(model: mujoco.MjModel, values: Mapping[str, float]) -> None:
            task.configure(model, values)
            set_servos(model, driven, values)

        self._parameters = ParametersOfWorlds(self._batch, self.model, self.family, configure)
        self.view = View(self._batch, self.model, self.rigs)
        self._phenomena: PhenomenaOfWorlds | None = None
        if governed is not None:
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
        self._robots = RobotsOfWorlds(self.view, self.actions)
        self._transmission = Transmission(self.model, driven, self.family, substeps=self._substeps)
        self._timeline = Timeline(self.model, self.family, self._parameters, self.view, control_dt=task.control_dt)
        self.action_size = self.actions.size
        resting = self.actions.commands(np.zeros((n, self.action_size)))
        self._command_shapes = [(command.arm.shape, command.end.shape) for command in resting]
        # binds every output that the task reads: the first reading of one computes it anew, which changes the last bits
        # of what follows, and must not happen within an episode
        task.cloud(self.view, self.truth())
        self.view.memory.clear()
        self._sight = None if sensors is None or sensors.sight is None else Sight(sensors.sight, self.view, task.bodies)
        self.labels = sensors is None or sensors.labels
        """Whether the place of a seen point says which body it lies on."""
        if sensors is not None and set(sensors.active) - {"sight"}:
            self._robots.fit(sensors)

    @property
    def parameter_fields(self) -> tuple[str, ...]:
        """Fields of the model that the family gives each world its own values of."""
        return self._parameters.fields

    @property
    def engine(self) -> Engine:
        """What steps the worlds."""
        return self._batch

    @property
    def controllers(self) -> tuple[CartesianVelocityController, ...]:
        """Controllers of every robot's arm."""
        return self._robots.controllers

    @property
    def target(self) -> Float[np.ndarray, "n joint"]:
        """What the joints of the first robot's arm are told [rad, m]."""
        return self._robots.target

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
        if self._sight is not None:
            self._sight.reset(ids)
        self._robots.reset(ids, ids if seeds is None else seeds)
        self.task.place(self.view, ids, scenes)
        if self._phenomena is not None:
            self._batch.forward(ids)
            self._phenomena.rebase(ids)
            self._phenomena.reset(ids)
        if self.task.settle > 0:
            self._advance(ids, round(self.task.settle / self.model.opt.timestep))
            self.view.time[ids] = 0.0
        self._batch.forward(ids)
        self._robots.tare(ids)
        if self._transmission.active:
            self._transmission.reset(self.view, ids, parameters)
        self._timeline.reset(ids, parameters, events)
        self._robots.begin(ids)

    def put(self, arm: Float[np.ndarray, "n joint"], end: Float[np.ndarray, "n end"]) -> None:
        """Move the first robot of every world to joint positions, at rest; its servos hold it there [rad, m].

        For end effectors whose actuators are position servos of their joints.
        """
        self._robots.put(arm, end)
        self._batch.forward()

    def follow(self, arm: Float[np.ndarray, "n joint"], end: Float[np.ndarray, "n actuator"], *, steps: int) -> None:
        """Let the first robot's servos go to joint positions [rad, m] for some simulation steps.

        Args:
            arm: targets of the arm's joints.
            end: controls of the end effector.
            steps: of the simulator; any number, control periods are not counted here.
        """
        self._robots.follow(arm, end)
        self._advance_watched(steps)

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
        self.drive(self.actions.commands(action))

    def drive(self, commands: Sequence[RobotCommand]) -> None:
        """Advance every world by one control period under commands in SI units, one a robot.

        Raises:
            BadInput: wrong shapes, or a value that is not finite.
        """
        shapes = [(command.arm.shape, command.end.shape) for command in commands]
        if shapes != self._command_shapes:
            raise BadInput(f"commands of shapes {shapes}, expected {self._command_shapes}")
        bad = sum(int((~np.isfinite(part)).sum()) for command in commands for part in (command.arm, command.end))
        if bad:
            raise BadInput(f"commands hold {bad} value(s) that are not finite")
        self._robots.command(commands)
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
        self.view.rigs = self._robots.state()
        return self.view.rigs

    def sensed(self, rigs: tuple[RigState, ...] | None = None) -> tuple[RigState, ...]:
        """Every robot as its sensors have it at this control period; its state without models of them.

        Args:
            rigs: the present state, where it is known already.
        """
        return self._robots.sensed(self.state() if rigs is None else rigs)

    def received(self, streams: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What has arrived by now of observations (n, ...) that leave the robots in this control period."""
        return self._robots.received(streams)

    def seen(
        self,
        cloud: Float[np.ndarray, "n point 3"],
        measured: Float[np.ndarray, "n point 3"],
        chance: Float[np.ndarray, "n point"] | None = None,
    ) -> tuple[Float[np.ndarray, "n point 3"], Int[np.ndarray, "n point"] | None]:
        """What a camera shows of the measured points of objects, given where they are [m]; all without such a model.

        Args:
            chance: without `labels`, independent random numbers that order them; bodies are returned as well then.
        """
        return (measured, None) if self._sight is None else self._sight.show(cloud, measured, chance)

    def truth(self) -> Truth:
        """What the task says is true now."""
        self.state()
        return self.task.measure(self.view)

    def snapshot(self) -> dict[str, np.ndarray]:
        """The full integration state of every world, with what controllers and tares remember."""
        parts = {"mujoco": self._batch.state.copy()} | self._robots.snapshot()
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
        self._robots.restore(snapshot)
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
