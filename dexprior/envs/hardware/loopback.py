"""A driver whose robot is another process on this machine: the hardware path without hardware."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from dexprior.config import to_plain
from dexprior.envs import wire
from dexprior.envs.base import Reading
from dexprior.envs.hardware.driver import RobotState
from dexprior.envs.hardware.profile import RobotProfile
from dexprior.envs.messages import instance_to_plain, task_to_plain, truth_from_plain, truth_to_plain
from dexprior.envs.panel import Panel
from dexprior.envs.processes import ServerProcess
from dexprior.errors import ConnectionLost
from dexprior.families import ParameterFamily, SensorModels
from dexprior.types import Command
from dexprior.worlds.tasks import Task

__all__ = ["PROTOCOL", "VERSION", "LoopbackDriver", "plain_of_state", "state_from_plain", "state_to_plain"]

PROTOCOL, VERSION = "dexprior.robot", 2

_ROBOT = "dexprior.envs.hardware.robot"
_FIELDS: dict[str, tuple[int | str, ...]] = {
    "q": ("joint",), "qd": ("joint",), "tcp": (7,), "opening": (), "wrench": (6,), "peak_force": (),
    "touch": ("finger",), "cloud": ("point", 3),
}  # fmt: skip
_LARGEST = 1e6  # of any number in a state, in SI units; a sensor that says more is broken


class LoopbackDriver:
    """Drives a simulated robot that lives in a process of its own, with its own clock, watchdog and stop.

    See `dexprior.envs.hardware.driver.Driver` for the methods, and `robot.py` for how the robot behaves. The
    process starts on `connect`, and ends on `close` and when this process dies.

    Args:
        task: what its world is made for; by default the insertion in its other world.
        family: of the robot's world; the task's `reality` by default. One set of values is drawn, once.
        seed: draws that set of values.
        sensors: models of the robot's sensors and links; none by default.
        cells: instead of that, it stands in another cell for each instance of this panel; see `start_gate`.
        real_time: whether the robot's clock runs with the wall's. If not, time passes on the robot only while
            it carries out a command, or in `idle`: as fast as asked, and the same in every run.
        profile: how the robot slows down, and how soon it misses a command.
        tracker: whether its states hold the truth about the nut.
        timeout: seconds within which the robot must answer.
        port: of a robot that runs already on this machine; its world and its profile are its own.
    """

    def __init__(
        self,
        *,
        task: Task | None = None,
        family: ParameterFamily | None = None,
        seed: int = 0,
        sensors: SensorModels | None = None,
        cells: Panel | None = None,
        real_time: bool = False,
        profile: RobotProfile | None = None,
        tracker: bool = True,
        timeout: float = 5.0,
        port: int | None = None,
    ) -> None:
        self._files = {
            "family": None if family is None else family.to_json(),
            "task": None if task is None else task_to_plain(task),
            "profile": None if profile is None else to_plain(profile),
            "sensors": None if sensors is None else to_plain(sensors),
            "cells": None if cells is None else cells.to_json(),
        }
        self._arguments = ["--with-parent", "--seed", str(seed)]
        self._arguments += ["--real-time"] * real_time + ["--no-tracker"] * (not tracker)
        self.real_time = real_time
        self._timeout, self._port = timeout, port
        self._robot: ServerProcess | None = None
        self._connection: wire.Connection | None = None
        self._stopping: wire.Connection | None = None  # for `stop`, which must not wait for a `read` in another thread
        self._sent = -1

    @property
    def period(self) -> float:
        """Seconds that one command is carried out for."""
        return Task.control_dt

    @property
    def process(self) -> ServerProcess:
        """The robot's process."""
        if self._robot is None:
            raise ConnectionLost("loopback robot: not connected; call connect() first")
        return self._robot

    def connect(self) -> None:
        """Start the robot and greet it; does nothing when that was done."""
        if self._connection is not None:
            return
        if self._port is None:
            self._robot = ServerProcess(_ROBOT, self._arguments, files=self._files)
        self._connection, self._stopping = self._reach(), self._reach()

    def prepare(self, instance: Panel) -> RobotState:
        """Put the arm home and the objects in place; the instance's parameters are not sent."""
        return self._state({"type": "prepare"} | instance_to_plain(instance))

    def read(self) -> RobotState:
        """The state at the end of the last accepted command's period."""
        return self._state({"type": "read", "after": self._sent})

    def send(self, command: Command) -> None:
        """Hand over one command; numbers that are not finite travel, and the robot refuses them."""
        self._request({"type": "command", "command": wire.command_to_plain(command)})
        self._sent = command.seq

    def stop(self) -> None:
        """Slow down at once and stay so until `recover`."""
        if self._stopping is None:
            self._request({"type": "stop"})
        else:
            self._stopping.request({"type": "stop"})

    def recover(self) -> None:
        """End a stop."""
        self._request({"type": "recover"})

    def idle(self, seconds: float) -> RobotState:
        """Let time pass on the robot's clock without a command, where that clock does not run by itself."""
        return self._state({"type": "idle", "seconds": seconds})

    def close(self) -> None:
        """Say goodbye and end the robot's process; again does nothing."""
        for connection in (self._connection, self._stopping):
            if connection is not None:
                with contextlib.suppress(ConnectionLost):  # gone already: then there is nobody to say goodbye to
                    connection.request({"type": "close"})
                connection.close()
        if self._robot is not None:
            self._robot.close()

    def _reach(self) -> wire.Connection:
        address = (wire.LOCALHOST, self._port) if self._port is not None else self.process.address
        connection = wire.connect(address, timeout=self._timeout, peer="loopback robot")
        wire.greet(connection, PROTOCOL, VERSION)
        return connection

    def _state(self, message: Mapping[str, Any]) -> RobotState:
        return state_from_plain(self._request(message), t_host=time.monotonic())

    def _request(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if self._connection is None:
            raise ConnectionLost("loopback robot: not connected; call connect() first")
        return self._connection.request(message)


def plain_of_state(state: RobotState) -> dict[str, Any]:
    """A state as it is handed on, without the host's time of arrival."""
    plain: dict[str, Any] = {name: getattr(state, name) for name in (*_FIELDS, "t", "seq", "status")}
    return plain | {"truth": truth_to_plain(state.truth)}


def state_to_plain(
    reading: Reading, *, t: float, seq: int, status: str, peak_force: float, tracker: bool
) -> dict[str, Any]:
    """What the robot says about itself, from the reading of its one world."""
    robot = reading.robots[0]
    plain: dict[str, Any] = {name: getattr(robot, name)[0] for name in ("q", "qd", "tcp", "wrench", "touch")}
    plain |= {"opening": robot.end[0].sum(), "cloud": reading.cloud[0]}
    plain |= {"t": t, "seq": seq, "status": status, "peak_force": peak_force}
    return plain | {"truth": truth_to_plain(reading.truth) if tracker else None}


def state_from_plain(data: Mapping[str, Any], *, t_host: float) -> RobotState:
    """Inverse of `state_to_plain`, at the host's time of arrival.

    Raises:
        BadInput: a field is missing, not finite, or has another shape.
    """
    found = {name: wire.array_from(data, name, *shape, limit=_LARGEST) for name, shape in _FIELDS.items()}
    fields = {name: value if value.ndim else float(value) for name, value in found.items()}
    return RobotState(
        t=float(wire.array_from(data, "t", limit=1e12)),  # [s] a device may count from 1970
        t_host=t_host,
        seq=wire.whole_from(data, "seq", -1, 2**62),
        status=data.get("status"),  # type: ignore[arg-type]  # checked by the state itself
        truth=truth_from_plain(data.get("truth")),
        **fields,  # type: ignore[arg-type]
    )
