"""The robot behind `LoopbackDriver`: `python -m dexprior.envs.hardware.robot`.

It is simulated, but behaves like a robot. It has a clock of its own; refuses commands that are out of order
or not finite; holds when commands stop coming; and latches a stop until `recover`. As on a Franka arm, a
refused command does *not* stop it: it stays in motion under the command before, until that one is stale.
Stopping it is the gate's business.
"""

from __future__ import annotations

import argparse
import select
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import mujoco
import numpy as np

from dexprior.envs import wire
from dexprior.envs.base import Reading
from dexprior.envs.hardware.driver import RobotStatus
from dexprior.envs.hardware.loopback import PROTOCOL, VERSION, state_to_plain
from dexprior.envs.panel import Instance
from dexprior.envs.sim import SimBackend
from dexprior.envs.sim.serving import add_world_arguments, chosen_world
from dexprior.errors import BadInput, ConnectionLost, DexpriorError, SafetyStop
from dexprior.families import ParameterFamily
from dexprior.types import Command
from dexprior.worlds.arm import MAX_OPENING
from dexprior.worlds.insertion import InsertionConfig
from dexprior.worlds.stepping import CONTROL_DT

__all__ = ["LoopbackRobot", "main", "serve"]

_CLOCK_START = 1000.0  # [s] so that nobody takes the device's clock for another one
_FRAME_TIMEOUT = 1.0  # [s] a client that stalls inside a frame must not keep the robot from holding
_NUT, _BOLT = (0.44, -0.1, 0.0), (0.46, 0.1, 0.0)  # [m] where things are before the first `prepare`


class LoopbackRobot:
    """One robot cell; time passes on it in `tick` only.

    Args:
        family: of its contact and noise parameters.
        world: sizes of nut and bolt.
        cone: friction cone of its solver.
        seed: draws its one set of values.
        real_time: whether somebody calls `tick` by the wall's clock; if not, each command does.
        stale_after: seconds without a command after which it holds.
        tracker: whether it tells the truth about the nut.
    """

    def __init__(
        self,
        family: ParameterFamily,
        *,
        world: InsertionConfig | None = None,
        cone: Literal["pyramidal", "elliptic"] = "elliptic",
        seed: int = 0,
        real_time: bool = False,
        stale_after: float = 0.2,
        tracker: bool = True,
    ) -> None:
        self.real_time, self.stale_after, self.tracker = real_time, stale_after, tracker
        self._backend = SimBackend(1, family=family, world=world, cone=cone, stepper=self._substep)
        address = self._backend.worlds.model.sensor("wrench_force").adr[0]
        self._force = slice(address, address + 3)
        self._tare, self._peak = np.zeros(3), 0.0
        self._values = family.as_dict(family.sample(np.random.default_rng(seed), 1)[0])
        self._clock = _CLOCK_START
        self._stopped = False
        self._command: Command | None = None
        self._accepted = self._done = -1
        self._reading = self._place(Instance(_NUT, _BOLT, 0.0, self._values, 0))

    @property
    def status(self) -> RobotStatus:
        """What it is doing."""
        if self._stopped:
            return "stopped"
        if self._command is None:
            return "ready"
        return "holding" if self._clock - self._heard >= self.stale_after - 1e-9 else "moving"

    def tick(self) -> None:
        """Carry on for one control period."""
        moving = self._command if self.status == "moving" else None
        twist = np.zeros((1, 6)) if moving is None else moving.value[None]
        self._reading = self._backend.step(twist, np.array([self._opening]))
        self._clock += CONTROL_DT
        if moving is not None:
            self._done = self._accepted

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer to a request; None for a `read` that must wait for its command's period to end.

        Raises:
            BadInput: an unknown request, or one that cannot be carried out.
            SafetyStop: a command or a preparation while stopped.
        """
        kind = message["type"]
        if kind == "command":
            self._accept(wire.command_from_plain(message.get("command")))
        elif kind == "stop":
            self._stopped = True
        elif kind == "recover":
            self._stopped = False
            self._command = None
        elif kind == "prepare":
            self._require_running("prepare")
            self._reading = self._place(self._instance(message))
            return self._state()
        elif kind == "idle":
            self._idle(float(wire.array_from(message, "seconds")))
            return self._state()
        elif kind == "read":
            after = message.get("after", -1)
            if not isinstance(after, int):
                raise BadInput(f"field 'after' must be a whole number, got {after!r}")
            return None if after > self._done and self.status == "moving" else self._state()
        else:
            raise BadInput(f"unknown request {kind!r}. Known: prepare, command, read, idle, stop, recover")
        return {"type": "done"}

    def _accept(self, command: Command) -> None:
        self._require_running(f"command {command.seq}")
        if not command.finite:
            raise BadInput(f"command {command.seq} holds numbers that are not finite; the robot stays in motion")
        if command.mode != "cartesian_velocity" or command.value.shape != (6,):
            raise BadInput(f"command {command.seq}: mode {command.mode!r} of {command.value.size} numbers is not known")
        if command.seq <= self._accepted:
            raise BadInput(f"command {command.seq} came after command {self._accepted}")
        self._command, self._accepted, self._heard = command, command.seq, self._clock
        if command.gripper is not None:
            self._opening = command.gripper
        if not self.real_time:
            self.tick()

    def _idle(self, seconds: float) -> None:
        if self.real_time:
            raise BadInput("idle: this robot's clock runs by itself; just wait")
        if not 0 <= seconds <= 60:
            raise BadInput(f"idle: {seconds} s, allowed are 0 to 60")
        for _ in range(round(seconds / CONTROL_DT)):
            self.tick()

    def _place(self, instance: Instance) -> Reading:
        self._command = None
        self._heard = self._clock
        self._opening = MAX_OPENING
        reading = self._backend.reset([instance])
        self._tare, self._peak = self._backend.worlds.data.sensordata[self._force].copy(), 0.0
        return reading

    def _substep(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """One step of the physics, with an eye on the force between two states."""
        mujoco.mj_step(model, data)
        self._peak = max(self._peak, float(np.linalg.norm(data.sensordata[self._force] - self._tare)))

    def _instance(self, message: Mapping[str, Any]) -> Instance:
        nut, bolt = (tuple(map(float, wire.array_from(message, name, 3))) for name in ("nut", "bolt"))
        return Instance(
            nut=nut,  # type: ignore[arg-type]  # three, as checked
            bolt=bolt,  # type: ignore[arg-type]
            nut_yaw=float(wire.array_from(message, "nut_yaw")),
            parameters=self._values,
            seed=int(wire.array_from(message, "seed")),
        )

    def _state(self) -> dict[str, Any]:
        plain = state_to_plain(
            self._reading,
            t=self._clock,
            seq=self._done,
            status=self.status,
            peak_force=self._peak,
            tracker=self.tracker,
        )
        self._peak = 0.0
        return {"type": "state"} | plain

    def _require_running(self, what: str) -> None:
        if self._stopped:
            raise SafetyStop(f"{what} refused: the robot is stopped; look, then recover")


def serve(robot: LoopbackRobot, listener: socket.socket) -> None:
    """Serve one client after the other, for ever; a robot in real time moves on while nobody talks to it."""
    session: _Session | None = None
    due = time.monotonic() + CONTROL_DT
    while True:
        left = max(due - time.monotonic(), 0.0) if robot.real_time else None
        ready, _, _ = select.select([listener if session is None else session.connection], [], [], left)
        try:
            if ready:
                session = _admit(robot, listener) if session is None else session.heard()
            if robot.real_time and time.monotonic() >= due:
                robot.tick()
                due = max(due + CONTROL_DT, time.monotonic())  # an overloaded machine loses time, it never races
                if session is not None:
                    session.ticked()
        except (BadInput, ConnectionLost) as error:
            print(f"loopback robot: {error}", file=sys.stderr)
            if session is not None:
                session.connection.close()
            session = None


class _Session:
    """One client: its connection, and perhaps a `read` that waits until its command was carried out."""

    def __init__(self, robot: LoopbackRobot, connection: wire.Connection) -> None:
        self.robot, self.connection = robot, connection
        self._waiting: Mapping[str, Any] | None = None

    def heard(self) -> _Session | None:
        """Take one message; None when it was the goodbye."""
        message = self.connection.receive()
        if message["type"] == "close":
            self.connection.send({"type": "closed"})
            self.connection.close()
            return None
        self._answer(message)
        return self

    def ticked(self) -> None:
        """Time has passed: perhaps the waiting `read` can be answered."""
        if self._waiting is not None:
            self._answer(self._waiting)

    def _answer(self, message: Mapping[str, Any]) -> None:
        try:
            answer = self.robot.answer(message)
        except DexpriorError as error:
            answer = wire.error_message(error)
        self._waiting = message if answer is None else None
        if answer is not None:
            self.connection.send(answer)


def _admit(robot: LoopbackRobot, listener: socket.socket) -> _Session:
    sock, (host, port, *_) = listener.accept()
    connection = wire.Connection(sock, timeout=_FRAME_TIMEOUT, peer=f"client {host}:{port}")
    try:
        wire.welcome(connection, PROTOCOL, VERSION)
    except (BadInput, ConnectionLost):
        connection.close()
        raise
    return _Session(robot, connection)


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the robot that the command line describes, and serve it."""
    parser = argparse.ArgumentParser(prog="python -m dexprior.envs.hardware.robot", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose; always on 127.0.0.1")
    parser.add_argument("--real-time", action="store_true", help="let its clock run with the wall's")
    parser.add_argument("--stale-after", type=float, default=0.2, help="seconds without a command until it holds")
    add_world_arguments(parser)
    chosen = parser.parse_args(arguments)
    if chosen.with_parent:
        wire.exit_with_parent()
    try:
        family, world = chosen_world(chosen)
        listener = wire.listen(wire.LOCALHOST, chosen.port)
    except DexpriorError as error:
        parser.exit(2, f"loopback robot: {error}\n")
    robot = LoopbackRobot(
        family,
        world=world,
        cone=chosen.cone,
        seed=chosen.seed,
        real_time=chosen.real_time,
        stale_after=chosen.stale_after,
        tracker=not chosen.no_tracker,
    )
    wire.announce(listener)
    serve(robot, listener)


if __name__ == "__main__":
    main()
