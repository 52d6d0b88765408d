"""The client of a reality server: a backend whose world is elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from dexprior.config import to_plain
from dexprior.envs.base import ActionSpec, Reading, RobotCommand
from dexprior.envs.messages import instance_to_plain, task_from_plain, task_to_plain
from dexprior.envs.panel import Panel
from dexprior.envs.processes import ServerProcess
from dexprior.envs.reality import messages
from dexprior.envs.session import Session
from dexprior.errors import BadInput, UnknownName
from dexprior.families import ParameterFamily, SensorModels
from dexprior.worlds.tasks import ArmAction, Task

__all__ = ["RealityBackend", "start_server"]

_SERVER = "dexprior.envs.reality.server"


def start_server(
    *,
    task: Task | None = None,
    family: ParameterFamily | None = None,
    sensors: SensorModels | None = None,
    seed: int = 0,
    tracker: bool = True,
    start_timeout: float = 60.0,
) -> ServerProcess:
    """Run a reality server on an ephemeral local port; use as a context manager, `address` says where it is.

    The process ends on leaving the context, and when this process dies.

    Args:
        task: what its world is made for; the insertion in its other world by default.
        family: of its contact parameters; the task's `reality` by default.
        sensors: models of its sensors and links; none by default.
        seed: draws its one set of values from the family.
        tracker: whether it tells the truth about the object.
        start_timeout: seconds to wait until it listens.

    Raises:
        ConnectionLost: it did not start.
    """
    arguments = ["--with-parent", "--port", "0", "--seed", str(seed)]
    if not tracker:
        arguments.append("--no-tracker")
    files = {
        "family": None if family is None else family.to_json(),
        "task": None if task is None else task_to_plain(task),
        "sensors": None if sensors is None else to_plain(sensors),
    }
    return ServerProcess(_SERVER, arguments, start_timeout=start_timeout, files=files)


class RealityBackend:
    """One world behind a socket; see `dexprior.envs.base.Backend`.

    The parameters of an instance stay here: the world has its own. `Reading.truth` is None where the server
    has no tracker.

    Args:
        address: of a running server; or the server itself, which is then closed with this backend.
        timeout: seconds within which each request must be answered.

    Raises:
        ConnectionLost: nothing listens there.
        BadInput: something else listens there, or its robots are not those of the task as it is known here.
    """

    n = 1

    def __init__(self, address: tuple[str, int] | ServerProcess, *, timeout: float = 10.0) -> None:
        self._session = Session(address, (messages.PROTOCOL, messages.VERSION), timeout=timeout, peer="reality server")
        told = self._session.told
        self.engine, self.tracker, self.labels = told("engine", str), told("tracker", bool), told("labels", bool)
        self.task = task_from_plain(told("task", dict), "reality server: task")
        kind = told("arm_action", str)
        if kind not in get_args(ArmAction):
            raise UnknownName("arm action of a reality server", kind, get_args(ArmAction))
        self.actions = ActionSpec(self.task.layout().rigs, kind, self.task.control_dt)
        self._shapes = messages.shapes_of(self.actions)
        declared, known = (
            [{name: list(shape) for name, shape in robot.items()} for robot in robots]
            for robots in (told("robots", list), self._shapes)
        )
        if declared != known or told("points", int) != self.task.points:
            raise BadInput(
                f"reality server: its robots read {declared}, those of {self.task.name!r} here read {known}: it runs "
                "another version of the task"
            )

    def reset(self, panel: Panel, ids: np.ndarray | None = None) -> Reading:
        """Place the objects and the robot.

        Raises:
            BadInput: not exactly one instance, one of another task, or one that the server refuses.
            ConnectionLost: the server is gone or too slow.
        """
        panel.require(self.task, 1)
        return self._reading({"type": "reset"} | instance_to_plain(panel))

    def step(self, commands: Sequence[RobotCommand]) -> Reading:
        """Advance the world by one control period.

        Raises:
            BadInput: a number that is not finite, or the wrong shape; the world is as before.
            ConnectionLost: the server is gone or too slow.
        """
        return self._reading({"type": "step"} | messages.commands_to_plain(commands))

    def close(self) -> None:
        """Say goodbye, and end a server that was handed over; again does nothing."""
        self._session.close()

    def _reading(self, request: dict[str, Any]) -> Reading:
        return messages.reading_from_plain(self._session.request(request), self._shapes, self.task.points)
