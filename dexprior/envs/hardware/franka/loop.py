"""The process that answers a Franka every millisecond: `python -m dexprior.envs.hardware.franka.loop`.

It carries out the last twist that was asked for while that holds, shaped so that the robot bears it; it slows down
when nothing is asked for, when it is told to stop, when what it watches is beyond a limit, and when the process that
started it is gone, however that went. Nothing but a person's `recover` ends a stop. It says on stdout, as one line of
JSON, that it is ready or why it is not.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dexprior import extras
from dexprior.config import validate
from dexprior.envs.hardware.franka.limits import LOST_CYCLES
from dexprior.envs.hardware.franka.link import ASKED, KINDS, STATUS, Link, LoopConfig
from dexprior.envs.hardware.franka.shaping import CYCLE, Shaper
from dexprior.errors import ConnectionLost, DexpriorError, MissingExtra
from dexprior.reading import read_json_object

__all__ = ["Loop", "main"]

_READY, _MOVING, _HOLDING, _STOPPED = range(len(STATUS))
_HOME_SPEED, _HOME_ACCELERATION, _HOME_JERK = 0.4, 1.0, 20.0  # of each joint on the way home [rad/s, rad/s2, rad/s3]
_IDLE = 1000  # cycles at rest after which a motion is ended
_STALE = 0.5  # [s] after which a request is too old to be begun
_NORMAL = "Idle"


class Loop:
    """The cycle, for a robot that is connected.

    Args:
        robot: `pylibfranka.Robot`.
        franka: the module `pylibfranka`, for its commands and errors.
        link: to the driver.
        config: limits.
        alive: whether the process that started this one still is there.
    """

    def __init__(self, robot: Any, franka: Any, link: Link, config: LoopConfig, alive: Callable[[], bool]) -> None:
        self._robot, self._franka, self._link, self._config, self._alive = robot, franka, link, config, alive
        self._shaper = Shaper(config.shaped)
        self._home = _Way()
        self._active: Any = None  # the motion that runs; None while the robot only tells its state
        self._going_home = False
        self._heard = 0  # requests that were looked at
        self._request: _Request | None = None
        self._done, self._rest = -1, 0
        self._stopped = self._ended = False
        self._tare = [0.0] * 6
        state = robot.read_once()
        flange, tool = (np.array(columns).reshape(4, 4).T for columns in (state.F_T_EE, config.tool))
        self._columns = (np.linalg.inv(flange) @ tool).T  # of the tool's pose in the end effector's frame, a row each
        self._see(state)

    def run(self) -> None:
        """Go on until the driver ends it or is gone, and the robot stands."""
        while not (self._ended and self._active is None):
            try:
                self._cycle()
            except (self._franka.ControlException, self._franka.CommandException) as error:
                self._failed(error)

    def _cycle(self) -> None:
        cycles = 1
        if self._active is None:
            state = self._robot.read_once()
        else:
            state, passed = self._active.readOnce()
            cycles = min(max(round(passed.to_sec() / CYCLE), 1), LOST_CYCLES)
        began, now = time.thread_time(), time.monotonic()
        self._see(state)
        if not self._alive():
            self._stop("the gate's process is gone")
            self._ended = True
        self._hear(now)
        self._watch()
        asked, sent = self._asked(), [0.0] * 6
        if self._active is None:
            self._begin(state, asked)
        elif self._going_home:
            self._step_home(state, cycles)
        else:
            sent = self._step(asked, cycles)
        self._tell(state, now, asked, sent, cycles, began)

    def _hear(self, now: float) -> None:
        """Look at what was asked for since the last cycle, all of it: a stop is never overtaken."""
        if self._heard == self._link.asked.count:
            return
        for row in self._link.asked.since(self._heard):
            self._heard += 1
            request = ASKED.read(row)
            kind = KINDS[int(request["kind"])]
            if not np.isfinite(row).all():
                self._stop("a request holds numbers that are not finite")
            elif kind == "stop":
                self._stop(self._link.error or "the gate stopped the robot")
            elif kind == "end":
                self._request, self._ended = None, True
            elif kind == "recover":
                self._recover()
            elif kind in ("twist", "home") and not self._stopped and now - request["made"] < _STALE:
                self._request = _Request(
                    kind, int(request["number"]), self._t + float(request["period"]), self._t + float(request["holds"]),
                    request["values"].tolist(),
                )  # fmt: skip

    def _recover(self) -> None:
        """End a stop: the robot's own, too."""
        if self._active is None:
            self._robot.automatic_error_recovery()
            self._stopped, self._link.error = False, ""
        self._request = None

    def _asked(self) -> list[float]:
        """The twist that holds now; rest where none does."""
        request = self._request
        if request is None or request.kind != "twist":
            return [0.0] * 6
        if self._t >= request.over:
            self._done = request.number
        return [0.0] * 6 if self._t >= request.until else request.values[:6]

    def _begin(self, state: Any, asked: list[float]) -> None:
        """Start a motion where one is asked for."""
        if self._stopped or self._request is None:
            return
        mode = self._franka.ControllerMode.JointImpedance
        if self._request.kind == "home":
            self._home.restart(state.q_d, self._request.values)
            self._going_home = True
            self._active = self._robot.start_joint_position_control(mode)
        elif any(asked):
            self._shaper.restart()
            self._rest = 0
            self._active = self._robot.start_cartesian_velocity_control(mode)

    def _step(self, asked: list[float], cycles: int) -> list[float]:
        """One cycle of following twists: the robot takes that of its end effector's origin."""
        wanted = [0.0] * 6
        if not (self._stopped or self._ended):
            turn, arm = asked[3:], [self._origin[k] - self._pose[12 + k] for k in range(3)]
            wanted = [v + w for v, w in zip(asked[:3], _cross(turn, arm))] + turn
        sent = self._shaper.step(wanted, cycles)
        self._rest = self._rest + 1 if not any(wanted) and self._shaper.still else 0
        command = self._franka.CartesianVelocities(sent)
        homing = self._request is not None and self._request.kind == "home"
        over = self._rest > 0 and (self._stopped or self._ended or homing or self._rest > _IDLE)
        command.motion_finished = over
        self._active.writeOnce(command)
        if over:
            self._active = None
        return sent

    def _step_home(self, state: Any, cycles: int) -> None:
        """One cycle on the way home."""
        if self._stopped or self._ended:
            self._home.brake()
        q, over = self._home.step(cycles)
        command = self._franka.JointPositions(q)
        command.motion_finished = over
        self._active.writeOnce(command)
        if over:
            if not self._stopped and self._request is not None:
                self._done = self._request.number
                self._tare = list(state.K_F_ext_hat_K)
            self._active, self._going_home, self._request = None, False, None

    def _watch(self) -> None:
        """Stop where something is beyond a limit."""
        c = self._config
        force = math.hypot(*self._wrench[:3])
        if force > c.max_force:
            self._stop(f"a force of {force:.1f} N, more than max_force = {c.max_force:g} N")
        for k, (q, (low, high)) in enumerate(zip(self._q, c.joints)):
            if not low <= q <= high:
                self._stop(f"joint {k + 1} at {q:.3f} rad, beyond {low:g} to {high:g} rad")
        if self._active is not None and not self._going_home:
            for k in range(3):
                x, low, high = self._pose[12 + k], c.low[k], c.high[k]
                if not low <= x <= high:
                    self._stop(f"the tool at {'xyz'[k]} = {x:.3f} m, outside of {low:g} to {high:g} m")

    def _stop(self, why: str) -> None:
        """Latch: from now on it slows down, and stays."""
        if not self._stopped:
            self._stopped, self._request = True, None
            self._link.error = why

    def _failed(self, error: Exception) -> None:
        """The robot ended the motion, or refused one. A client that only raises leaves it in motion: it is told."""
        self._active, self._going_home = None, False
        self._stop(" ".join(str(error).split()))
        self._shaper.restart()
        self._robot.stop()

    def _see(self, state: Any) -> None:
        """Take what is needed of a state, as plain numbers: most arrays cost more than what is done with them."""
        self._t, self._q = state.time.to_sec(), list(state.q)
        end = state.O_T_EE
        self._origin = end[12:15]
        self._pose = (self._columns @ np.array(end).reshape(4, 4)).ravel().tolist()
        told = [x - tare for x, tare in zip(state.K_F_ext_hat_K, self._tare)]
        moment = _cross(self._columns[3, :3].tolist(), told[:3])
        both = np.array([told[:3], [told[3 + k] - moment[k] for k in range(3)]])
        self._wrench = (both @ self._columns[:3, :3].T).ravel().tolist()

    def _tell(self, state: Any, now: float, asked: list[float], sent: list[float], cycles: int, began: float) -> None:
        if self._stopped:
            status = _STOPPED if self._active is None else _MOVING
        elif self._active is None:
            status = _READY
        else:
            status = _MOVING if self._going_home or any(asked) or any(sent) else _HOLDING
        self._link.state.add(
            [
                self._t, now, status, self._done, *self._q, *state.dq, *self._pose, *self._wrench, *asked, *sent,
                cycles, state.control_command_success_rate, time.thread_time() - began,
            ]
        )  # fmt: skip


@dataclass(frozen=True)
class _Request:
    """What was asked for last, on the robot's clock."""

    kind: str
    number: int
    over: float
    """When it was carried out for its period [s]."""
    until: float
    """When it no longer holds [s]."""
    values: list[float]


class _Way:
    """Joints on their way home, and to rest on it where that is asked for."""

    def __init__(self) -> None:
        ruckig = self._ruckig = extras.require("ruckig")
        self._profile = ruckig.Ruckig(7, CYCLE)

    def restart(self, q: Sequence[float], home: Sequence[float]) -> None:
        """Begin at rest at q."""
        self._input, self._output = self._ruckig.InputParameter(7), self._ruckig.OutputParameter(7)
        self._input.current_position, self._input.target_position = list(q), list(home)
        self._input.current_velocity = self._input.current_acceleration = self._input.target_velocity = [0.0] * 7
        self._input.max_velocity = [_HOME_SPEED] * 7
        self._input.max_acceleration, self._input.max_jerk = [_HOME_ACCELERATION] * 7, [_HOME_JERK] * 7

    def brake(self) -> None:
        """Come to rest wherever that is."""
        self._input.control_interface = self._ruckig.ControlInterface.Velocity
        self._input.target_velocity = [0.0] * 7

    def step(self, cycles: int) -> tuple[list[float], bool]:
        """Joints of the next cycle, and whether they rest."""
        for _ in range(cycles):
            result = self._profile.update(self._input, self._output)
            self._output.pass_to_input(self._input)
        return list(self._output.new_position), result == self._ruckig.Result.Finished


def _cross(a: Sequence[float], b: Sequence[float]) -> list[float]:
    (x, y, z), (u, v, w) = a, b
    return [y * w - z * v, z * u - x * w, x * v - y * u]


def _connected(franka: Any, config: LoopConfig) -> Any:
    """The robot, ready to move, with its own reflexes set."""
    level = franka.RealtimeConfig.kEnforce if config.realtime else franka.RealtimeConfig.kIgnore
    robot = franka.Robot(config.address, level)
    mode = robot.read_once().robot_mode.name
    if mode != _NORMAL:
        raise ConnectionLost(
            f"it is in the mode {mode}: nothing may move. Unlock its joints and switch to execution (white or blue to "
            "green light); after a reflex, recover it there"
        )
    force, torque = [config.reflex * config.max_force] * 6, [87.0] * 4 + [12.0] * 3
    robot.set_collision_behavior(torque, torque, force, force)
    return robot


def main(arguments: Sequence[str] | None = None) -> None:
    """Reach the robot that the settings name, and answer it."""
    parser = argparse.ArgumentParser(prog="python -m dexprior.envs.hardware.franka.loop", description=__doc__)
    parser.add_argument("--settings", type=Path, required=True, help="JSON file of LoopConfig")
    parser.add_argument("--link", type=Path, required=True, help="file through which the driver talks")
    chosen = parser.parse_args(arguments)
    parent = os.getppid()
    try:
        config = validate(LoopConfig, read_json_object(chosen.settings), where=str(chosen.settings))
        link = Link(chosen.link)
        franka = extras.require("pylibfranka")
    except DexpriorError as error:
        _say(error=str(error), missing=isinstance(error, MissingExtra))
        sys.exit(2)
    try:
        robot = _connected(franka, config)
    except (ConnectionLost, RuntimeError) as error:  # the base of what libfranka raises, which says what it met
        _say(error=" ".join(str(error).split()))
        sys.exit(2)
    _say(ready=True)
    try:
        Loop(robot, franka, link, config, lambda: os.getppid() == parent).run()
    except franka.NetworkException as error:
        link.error = f"the robot is gone: {' '.join(str(error).split())}"
        sys.exit(1)


def _say(**words: object) -> None:
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main()
