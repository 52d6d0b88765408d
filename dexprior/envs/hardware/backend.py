"""A robot as a backend: the client of the process in which its gate lives."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from dexprior.config import to_plain, validate
from dexprior.envs import wire
from dexprior.envs.base import ActionSpec, Reading, RobotCommand, RobotReading
from dexprior.envs.hardware.driver import RobotState
from dexprior.envs.hardware.evidence import Evidence, evidence_from_plain
from dexprior.envs.hardware.gate import GateConfig
from dexprior.envs.hardware.gripper import require_gripper
from dexprior.envs.hardware.joints import JointRoom
from dexprior.envs.hardware.limits import gate_config
from dexprior.envs.hardware.loopback import state_from_plain
from dexprior.envs.hardware.options import PROTOCOL, VERSION, HardwareOptions
from dexprior.envs.messages import instance_to_plain, task_from_plain, task_to_plain
from dexprior.envs.panel import Panel
from dexprior.envs.processes import ServerProcess
from dexprior.envs.session import Session
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.geometry.rotations import quat_rotate
from dexprior.types import Command
from dexprior.worlds.tasks import Task, make_task

__all__ = ["HardwareBackend", "start_gate"]

_SERVER = "dexprior.envs.hardware.server"
_HOMING = 60.0  # [s] that an arm may take to go home
_AWAY = 1e-6  # [rad] by which it stays farther from joint limits than the gate asks for: what is rounded passes
_ON_THE_WAY = 0.01  # [s] by which a state is older when the gate judges the command than when it was limited


def start_gate(
    options: HardwareOptions | None = None,
    *,
    task: Task | None = None,
    family: ParameterFamily | None = None,
    cells: Panel | None = None,
    start_timeout: float = 60.0,
) -> ServerProcess:
    """Run a gate with its robot in processes of their own; use as a context manager, `address` says where the gate is.

    Both end after this process, however it does, and after the robot stands.

    Args:
        options: which robot, and what may be sent to it.
        task: what is done in its cell; by default the insertion in its other world.
        family: of the loopback robot's world; the task's `reality` by default. One set of values is drawn, once.
        cells: instead of that, the loopback robot stands in another cell for each instance of this panel: when one is
            asked for, by its seed, the world takes its parameters.
        start_timeout: seconds to wait until it listens.

    Raises:
        BadInput: a task of other robots than one arm with a parallel gripper, or one for which no limits are known.
        ConfigError: a setting of the gate that is out of range.
        ConnectionLost: it did not start.
    """
    options, task = options or HardwareOptions(), task or make_task("insertion").other()
    gate = gate_config(task, options.limits)
    files = {
        "options": to_plain(replace(options, gate=to_plain(gate))),
        "family": None if family is None else family.to_json(),
        "task": task_to_plain(task),
        "cells": None if cells is None else cells.to_json(),
    }
    return ServerProcess(_SERVER, ["--with-parent", "--port", "0"], start_timeout=start_timeout, files=files)


class HardwareBackend:
    """One robot; see `dexprior.envs.base.Backend`. `Reading.truth` is None where the cell has no tracker.

    A policy's commands are saturated before they are sent, as its actions are: what was an action is no faster than the
    robot; a linear velocity loses what would press harder on what presses back already, and is shortened in its
    direction until it leaves room to stop; what would bring a joint to its limit turns less, or moves less. `slowed`
    counts these commands. The gate judges what is sent and shortens nothing. How many of the arm's numbers in an action
    were clipped travels with its command; too many in an episode stop the robot (`max_saturated`).

    Args:
        address: of a running gate on this machine, or the gate itself, which is then closed with this backend.
        saturate: whether velocities are shortened.
        timeout: seconds within which each request must be answered.
        clock: monotonic seconds, the gate's clock.

    Raises:
        ConnectionLost: nothing listens there.
        BadInput: something else listens there.
    """

    n = 1

    def __init__(
        self,
        address: tuple[str, int] | ServerProcess,
        *,
        saturate: bool = True,
        timeout: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = Session(address, (PROTOCOL, VERSION), timeout=timeout, peer="safety gate")
        self._timeout, self._clock, self._saturate = timeout, clock, saturate
        self.task = task_from_plain(self._session.told("task", dict), "safety gate: task")
        self.actions = ActionSpec(self.task.layout().rigs, "cartesian", self.task.control_dt)
        self._gripper = require_gripper(self.actions)
        self.config = validate(GateConfig, self._session.told("gate", dict), where="safety gate: gate")
        self._ages, self.labels = self._session.told("real_time", bool), self._session.told("labels", bool)
        period = float(wire.array_from(self._session.description, "period", limit=10.0))
        self._envelope, self._period = self.config.envelope(period), period
        self._joints = JointRoom(self.config.robot, self.config.joint_margin + _AWAY)
        self.slowed = 0
        """Commands whose velocity was shortened."""
        self._seq, self._start = -1, 0.0
        self._state: RobotState | None = None
        self._succeeded: bool | None = None

    def reset(self, panel: Panel, ids: np.ndarray | None = None) -> Reading:
        """Prepare the cell for one instance. Does not end a stop: `recover` does.

        Raises:
            BadInput: not exactly one instance, or one of another task.
            SafetyStop: the gate is latched, or too many tasks failed in a row.
            ConnectionLost: the gate or the robot is gone.
        """
        panel.require(self.task, 1)
        request = {"type": "prepare", "succeeded": self._succeeded} | instance_to_plain(panel)
        self._succeeded = None
        state = self._told(request, wait=_HOMING)
        self._start = state.t
        return self._reading(state)

    def step(self, commands: Sequence[RobotCommand]) -> Reading:
        """Offer one command to the gate, and read the state after its period.

        A refused command is a period of standing still; `evidence` says why.

        Raises:
            BadInput: not one twist and the controls of one gripper.
            SafetyStop: the gate stopped the robot.
            ConnectionLost: the gate or the robot is gone.
        """
        shapes = [(command.arm.shape, command.end.shape) for command in commands]
        if shapes != [((1, 6), (1, self._gripper.pads))]:
            raise BadInput(f"commands of shapes {shapes}, expected [((1, 6), (1, {self._gripper.pads}))]")
        twist, opening = commands[0].arm, self._gripper.opening(commands[0].end)
        clipped = commands[0].saturated
        self._seq += 1
        command = Command(
            seq=self._seq,
            t=self._clock(),
            mode="cartesian_velocity",
            value=self._saturated(twist[0], action=clipped is not None) if self._saturate else twist[0],
            gripper=opening,
            saturated=0 if clipped is None else int(clipped[0]),
        )
        self._session.request({"type": "command", "command": wire.command_to_plain(command)})
        reading = self._reading(self._told({"type": "read"}))
        if reading.truth is not None:
            self._succeeded = bool(self._succeeded) or bool(self.task.success(reading.truth)[0])
        return reading

    def evidence(self, last: int = 100) -> tuple[Evidence, ...]:
        """The gate's last decisions, oldest first; at most 1000.

        Raises:
            BadInput: more are asked for.
            ConnectionLost: the gate is gone.
        """
        told = self._session.request({"type": "evidence", "last": last}).get("evidence")
        if not isinstance(told, list):
            raise BadInput(f"safety gate: evidence is {type(told).__name__}, expected a list")
        return tuple(evidence_from_plain(entry) for entry in told)

    def emergency_stop(self, reason: str) -> None:
        """Latch the gate and stop the robot, from any thread: over a connection of its own.

        Raises:
            BadInput: the reason is empty, or longer than 1000 characters; nothing is stopped.
            ConnectionLost: the gate is gone; it stops the robot when this happens.
        """
        session = Session(self._session.address, (PROTOCOL, VERSION), timeout=self._timeout, peer="safety gate")
        try:
            session.request({"type": "stop", "reason": reason})
        finally:
            session.close()

    def recover(self, *, by: str) -> None:
        """End a stop, after somebody has looked; then `reset`.

        Args:
            by: who answers for it; kept as evidence.
        """
        self._session.request({"type": "recover", "by": by})

    def close(self) -> None:
        """Let go of the robot, which then stands still; and end a gate that was handed over."""
        self._session.close()

    def _saturated(self, twist: Float[np.ndarray, " 6"], *, action: bool) -> Float[np.ndarray, " 6"]:
        """The twist that presses no harder than it may, leaves room to stop and to every joint's limit; and that of an
        action no faster than the robot."""
        state = self._state
        if state is None or not np.isfinite(twist).all():
            return twist
        linear, angular = twist[:3], twist[3:]
        if action:
            linear = _shortened(linear, self.config.max_linear_speed)
            angular = _shortened(angular, self.config.max_angular_speed)
        force = quat_rotate(state.tcp[3:], state.wrench[:3])  # of the environment on the tool, base axes
        size = float(np.linalg.norm(force))
        if size > self.config.press_force:
            linear = linear - min(float(linear @ force), 0.0) / size**2 * force
        vx, vy, vz = linear.tolist()
        x, y, z = state.tcp[:3].tolist()
        age = self._clock() - state.t_host + _ON_THE_WAY if self._ages else 0.0
        asked = math.hypot(vx, vy, vz)
        allowed = self._envelope.fastest((x, y, z), (vx, vy, vz), age)
        if allowed < asked:
            linear = linear * (allowed / asked)
        sent = self._joints.kept(state.q.tolist(), np.concatenate([linear, angular]), self._period)
        if np.array_equal(sent, twist):
            return twist
        self.slowed += 1
        return sent

    def _told(self, request: dict[str, object], wait: float | None = None) -> RobotState:
        answer = self._session.request(request, wait=wait)
        self._state = state_from_plain(answer, t_host=float(wire.array_from(answer, "t_host", limit=1e12)))
        return self._state

    def _reading(self, state: RobotState) -> Reading:
        robot = RobotReading(
            q=state.q[None],
            qd=state.qd[None],
            tcp=state.tcp[None],
            end=self._gripper.controls(state.opening),  # each pad's way
            wrench=state.wrench[None],
            touch=state.touch[None],
        )
        return Reading(t=np.array([state.t - self._start]), robots=(robot,), cloud=state.cloud[None], truth=state.truth)


def _shortened(velocity: Float[np.ndarray, " 3"], limit: float) -> Float[np.ndarray, " 3"]:
    """A velocity in its direction, no larger than a limit."""
    size = float(np.linalg.norm(velocity))
    return velocity if size <= limit else velocity * (limit / size)
