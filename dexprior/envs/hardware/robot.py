"""The robot behind `LoopbackDriver`: `python -m dexprior.envs.hardware.robot`.

It is simulated, but behaves like a robot. It has a clock of its own; refuses commands that are out of order
or not finite; and latches a stop until `recover`. It slows down by its profile's deceleration, in the direction in
which it moves, when it is stopped, when commands stop coming, and when the connection of whoever drives it closes.
As on a Franka arm, a refused command does *not* stop it: it stays in motion under the command before, until that
one is stale. Stopping it is the gate's business.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.config import validate
from dexprior.envs import wire
from dexprior.envs.base import Reading, RobotCommand
from dexprior.envs.hardware.driver import RobotStatus
from dexprior.envs.hardware.gripper import require_gripper
from dexprior.envs.hardware.loopback import PROTOCOL, VERSION, state_to_plain
from dexprior.envs.hardware.options import LIMITS
from dexprior.envs.hardware.profile import RobotProfile, profile_of
from dexprior.envs.messages import instance_from_plain
from dexprior.envs.panel import Panel
from dexprior.envs.processes import announce, exit_with_parent
from dexprior.envs.serving import Service, serve
from dexprior.envs.sim import SimBackend
from dexprior.envs.sim.serving import add_world_arguments, chosen_world
from dexprior.errors import BadInput, DexpriorError, SafetyStop
from dexprior.families import ParameterFamily, SensorModels
from dexprior.reading import read_json_object
from dexprior.robots.arm7 import MAX_OPENING
from dexprior.types import Command
from dexprior.worlds.tasks import Task

__all__ = ["LoopbackRobot", "RobotService", "main"]

_CLOCK_START = 1000.0  # [s] so that nobody takes the device's clock for another one
_FAST = 10.0  # [m/s, rad/s, m] beyond what any arm does


class LoopbackRobot:
    """One robot cell; time passes on it in `tick` only.

    Args:
        task: what its world is made for: one robot with a parallel gripper.
        family: of its contact and noise parameters.
        seed: draws its one set of values.
        sensors: models of its sensors and links; none by default.
        cells: instead of that, a panel whose instances bring their own: that of the seed which is asked for.
        real_time: whether somebody calls `tick` by the wall's clock; if not, each command does.
        profile: how it slows down, and how soon it misses a command.
        tracker: whether it tells the truth about the nut.
    """

    def __init__(
        self,
        task: Task,
        family: ParameterFamily,
        *,
        seed: int = 0,
        sensors: SensorModels | None = None,
        cells: Panel | None = None,
        real_time: bool = False,
        profile: RobotProfile | None = None,
        tracker: bool = True,
    ) -> None:
        self.real_time, self.tracker, self._cells = real_time, tracker, cells
        family = family if cells is None else cells.family
        self._task, self._family, self._dt = task, family, task.control_dt
        self._backend = SimBackend(task, 1, family=family, sensors=sensors, threads=1)
        self._gripper = require_gripper(self._backend.actions)
        self.profile = profile or profile_of(self._gripper.rig)
        self._backend.worlds.watch(1, self._look)
        self._controller = self._backend.worlds.controllers[0]
        self._tare, self._peak = np.zeros(3), 0.0
        self._peaks: dict[int, float] = {}  # largest force since a client's last state, apart from `_peak`
        self._values = family.sample(np.random.default_rng(seed), 1)[0]
        self._clock = _CLOCK_START
        self._stopped = False
        self._command: Command | None = None
        self._twist = np.zeros(6)  # that it carries out now
        self._driving: int | None = None  # the client whose commands it carries out
        self._accepted = self._done = -1
        first = Panel.sample("first", task, 1, seed=0, family=family)  # where things are before the first `prepare`
        self._reading = self._place(replace(first, parameters=self._values[None]))

    @property
    def period(self) -> float:
        """Seconds that one command is carried out for."""
        return self._dt

    @property
    def status(self) -> RobotStatus:
        """What it is doing."""
        if self._stopped:
            return "stopped"
        if self._command is None:
            return "ready"
        stale = self._clock - self._heard >= self._dt + self.profile.watchdog - 1e-9
        return "holding" if stale else "moving"

    def tick(self) -> None:
        """Carry on for one control period."""
        moving = self._command if self.status == "moving" else None
        mean = self._twist = moving.value if moving is not None else self._twist
        if moving is None and self._twist.any():
            mean, self._twist = _slowed(self._twist, self.profile, self._dt)
            # the targets keep the lead that this speed needs: one that had turned into force on the environment goes
            self._controller.reset(np.array([0]), self._reading.robots[0].q)
            self._controller.step(self._reading.robots[0].q, self._twist[None], self.profile.lag)
        self._reading = self._backend.step((RobotCommand(mean[None], self._gripper.controls(self._opening)),))
        self._clock += self._dt
        if moving is not None:
            self._done = self._accepted

    def answer(self, client: int, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer to a request; None for a `read` that must wait for its command's period to end.

        Any client may read and stop; the first one that prepares or commands drives until it leaves.

        Raises:
            BadInput: an unknown request, or one that cannot be carried out.
            SafetyStop: a command or a preparation while stopped.
        """
        kind = message["type"]
        if kind in ("command", "prepare", "recover", "idle"):
            self._require_driver(client)
        if kind == "command":
            self._accept(wire.command_from_plain(message.get("command")))
        elif kind == "stop":
            self._stopped = True
        elif kind == "recover":
            self._stopped = False
            self._command = None
        elif kind == "prepare":
            self._require_running("prepare")
            asked = instance_from_plain(message, self._task, self._family, self._values)
            self._reading = self._place(replace(asked, parameters=self._values_at(int(asked.seeds[0]))[None]))
            return self._state(client)
        elif kind == "idle":
            self._idle(float(wire.array_from(message, "seconds", limit=60.0)))
            return self._state(client)
        elif kind == "read":
            after = wire.whole_from({"after": -1} | dict(message), "after", -1, 2**62)
            return None if after > self._done and self.status == "moving" else self._state(client)
        else:
            raise BadInput(f"unknown request {kind!r:.80}. Known: prepare, command, read, idle, stop, recover")
        return {"type": "done"}

    def _accept(self, command: Command) -> None:
        self._require_running(f"command {command.seq}")
        if not command.finite:
            raise BadInput(f"command {command.seq} holds numbers that are not finite; the robot stays in motion")
        if command.mode != "cartesian_velocity" or command.value.shape != (6,):
            raise BadInput(f"command {command.seq}: mode {command.mode!r} of {command.value.size} numbers is not known")
        if np.abs(command.value).max() > _FAST or not 0 <= (command.gripper or 0.0) <= _FAST:
            raise BadInput(f"command {command.seq} asks for more than {_FAST:g} m/s or m: no arm does that")
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
        if seconds < 0:
            raise BadInput(f"idle: {seconds} s, allowed are 0 to 60")
        for _ in range(round(seconds / self._dt)):
            self.tick()

    def _place(self, instance: Panel) -> Reading:
        self._command = None
        self._twist = np.zeros(6)
        self._heard = self._clock
        self._opening = MAX_OPENING
        reading = self._backend.reset(instance)
        self._tare, self._peak = self._force.copy(), 0.0
        self._peaks = dict.fromkeys(self._peaks, 0.0)
        return reading

    def _values_at(self, seed: int) -> np.ndarray:
        """Parameters of the world in which an instance is set up."""
        if self._cells is None:
            return self._values
        (found,) = np.nonzero(self._cells.seeds == seed)
        if not len(found):
            raise BadInput(f"prepare: this robot has no cell for the seed {seed}; it has {len(self._cells)} others")
        return self._cells.parameters[found[0]]

    @property
    def _force(self) -> np.ndarray:
        return self._backend.worlds.view.sensor(self._backend.worlds.rigs[0].name("wrench_force"))[0]

    def _look(self) -> None:
        """After every step of the physics: the force between two states."""
        self._peak = max(self._peak, float(np.linalg.norm(self._force - self._tare)))

    def _state(self, client: int) -> dict[str, Any]:
        self._peaks.setdefault(client, 0.0)
        for other in self._peaks:
            self._peaks[other] = max(self._peaks[other], self._peak)
        peak, self._peaks[client], self._peak = self._peaks[client], 0.0, 0.0
        plain = state_to_plain(
            self._reading, t=self._clock, seq=self._done, status=self.status, peak_force=peak, tracker=self.tracker
        )
        return {"type": "state"} | plain

    def left(self, client: int) -> None:
        """A client is gone. If it drove, the robot slows down, as far as time passes by itself, and counts anew."""
        self._peaks.pop(client, None)
        if client == self._driving:
            self._driving = None
            self._heard = -np.inf
            self._accepted = self._done = -1

    def _require_driver(self, client: int) -> None:
        if self._driving not in (None, client):
            raise BadInput("another client drives this robot; it must leave first")
        self._driving = client

    def _require_running(self, what: str) -> None:
        if self._stopped:
            raise SafetyStop(f"{what} refused: the robot is stopped; look, then recover")


def _slowed(twist: np.ndarray, profile: RobotProfile, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the next `dt` seconds, and twist after them, of a tool that slows down in its direction."""
    mean, after = np.zeros(6), np.zeros(6)
    for part, deceleration in ((slice(0, 3), profile.deceleration), (slice(3, 6), profile.angular_deceleration)):
        speed = float(np.linalg.norm(twist[part]))
        if speed > 0:
            end = max(speed - deceleration * dt, 0.0)
            way = (speed * speed - end * end) / (2 * deceleration)
            mean[part], after[part] = twist[part] * (way / (speed * dt)), twist[part] * (end / speed)
    return mean, after


class RobotService(Service):
    """The robot behind a socket; in real time it moves on while nobody talks to it."""

    protocol, version, name = PROTOCOL, VERSION, "loopback robot"

    def __init__(self, robot: LoopbackRobot) -> None:
        self.robot = robot
        self._due = time.monotonic() + robot.period

    def answer(self, client: int, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer to a request; see `LoopbackRobot.answer`."""
        return self.robot.answer(client, message)

    def left(self, client: int, *, goodbye: bool) -> None:
        """A client is gone; see `LoopbackRobot.left`."""
        self.robot.left(client)

    def due(self) -> float | None:
        """The next period's end, where the clock runs by itself."""
        return self._due if self.robot.real_time else None

    def tick(self) -> None:
        """Carry on for one period; an overloaded machine loses time, it never races."""
        self.robot.tick()
        self._due = max(self._due + self.robot.period, time.monotonic())


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the robot that the command line describes, and serve it."""
    parser = argparse.ArgumentParser(prog="python -m dexprior.envs.hardware.robot", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose; always on 127.0.0.1")
    parser.add_argument("--real-time", action="store_true", help="let its clock run with the wall's")
    parser.add_argument("--profile", type=Path, help="JSON file of how it slows down")
    parser.add_argument("--cells", type=Path, help="JSON file of a panel, each instance of which is a cell of its own")
    add_world_arguments(parser)
    chosen = parser.parse_args(arguments)
    if chosen.with_parent:
        exit_with_parent()
    try:
        task, family, sensors = chosen_world(chosen)
        how = None
        if chosen.profile is not None:
            how = validate(RobotProfile, read_json_object(chosen.profile), where=str(chosen.profile))
        cells = None if chosen.cells is None else Panel.load(chosen.cells)
        listener = wire.listen(wire.LOCALHOST, chosen.port)
    except DexpriorError as error:
        parser.exit(2, f"loopback robot: {error}\n")
    robot = LoopbackRobot(
        task,
        family,
        seed=chosen.seed,
        sensors=sensors,
        cells=cells,
        real_time=chosen.real_time,
        profile=how,
        tracker=not chosen.no_tracker,
    )
    announce(listener)
    serve(RobotService(robot), listener, LIMITS)


if __name__ == "__main__":
    main()
