"""The gate in a process of its own, beside the robot: `python -m dexprior.envs.hardware.server`.

    policy's process  -- dexprior.gate -->  this process  -- dexprior.robot -->  robot

It outlives the policy. When the policy's connection closes without a goodbye it stops the robot and latches; when the
policy falls silent while the robot moves it holds the robot; when its own parent ends, or SIGTERM asks it to end, it
stops the robot, keeps the evidence, waits until the robot stands, and ends. One client drives; others may look at the
evidence, and stop the robot.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.config import to_plain, validate
from dexprior.envs import wire
from dexprior.envs.hardware.driver import Driver, RobotState
from dexprior.envs.hardware.evidence import evidence_to_plain
from dexprior.envs.hardware.gate import GateConfig, SafetyGate
from dexprior.envs.hardware.limits import gate_config
from dexprior.envs.hardware.loopback import LoopbackDriver, plain_of_state
from dexprior.envs.hardware.options import LIMITS, PROTOCOL, VERSION, HardwareOptions
from dexprior.envs.messages import instance_from_plain, task_from_plain, task_to_plain
from dexprior.envs.panel import Panel
from dexprior.envs.processes import announce
from dexprior.envs.serving import Service, serve
from dexprior.errors import BadInput, DexpriorError
from dexprior.families import ParameterFamily
from dexprior.reading import flag, read_json_object, shown, text
from dexprior.worlds.tasks import Task, make_task

__all__ = ["GateService", "main"]

_NOTHING = ParameterFamily("not the gate's to know", ())
_MOST_EVIDENCE = 1000  # decisions in one answer: half of the largest message
_POLL = 1e-3  # [s] between two looks at whether a state has come
_STANDING = 0.02  # [rad/s] of every joint
_PATIENCE = 2.0  # [s] until a robot that was told to stop must stand


class GateService(Service):
    """The gate and its driver behind a socket.

    Args:
        gate: the only way to the robot.
        driver: of the robot, connected.
        task: what is done in the cell; the insertion by default.
        labels: whether the driver's clouds say which body each point lies on.
        keep: folder for the evidence.
    """

    protocol, version, name = PROTOCOL, VERSION, "safety gate"

    def __init__(
        self,
        gate: SafetyGate,
        driver: Driver,
        *,
        task: Task | None = None,
        labels: bool = True,
        keep: Path | None = None,
    ) -> None:
        self.gate, self.driver = gate, driver
        self._task, self._labels, self._keep = task or make_task("insertion"), labels, keep
        self._driving: int | None = None
        self._heard = 0.0
        self._kept: object = None
        # in real time a read waits for its period to end, and going home takes its time; meanwhile clients are heard,
        # and a stop goes through
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="driver")
        self._reading: Future[RobotState] | None = None
        self._homing: Future[RobotState] | None = None

    def answer(self, client: int, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer to one request.

        Raises:
            BadInput: an unknown request, one whose fields do not fit, or another client drives.
            SafetyStop: the gate stopped the robot, now or before.
            ConnectionLost: the robot is gone.
        """
        try:
            return self._answer(client, message)
        finally:
            self._save()

    def left(self, client: int, *, goodbye: bool) -> None:
        """A client is gone: a driver that said goodbye leaves a robot that stands, any other one a stopped one."""
        if client != self._driving:
            return
        self._driving = self._reading = self._homing = None
        try:
            if goodbye:
                self.gate.release(self.driver)
            else:
                self._emergency("whoever drove the robot is gone without a goodbye", "connection")
        except DexpriorError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
        self._save()

    def failed(self, error: Exception) -> None:
        """The gate itself failed: nothing may move any more."""
        self._emergency(f"the gate failed: {error!r:.200}", "emergency_stop")
        self._save()

    def due(self) -> float | None:
        """When the driver is asked for its answer again, or a moving robot misses its next command."""
        if self._asked and self.gate.latched is None:
            return time.monotonic() + _POLL
        if not (self.driver.real_time and self.gate.moving):
            return None
        return self._heard + self.driver.period + self.gate.config.robot.watchdog

    def tick(self) -> None:
        """The next command did not come in time: hold. Who waits for an answer of the driver is not silent."""
        silent = time.monotonic() - self._heard
        if self._asked or not self.gate.moving or silent < self.driver.period + self.gate.config.robot.watchdog:
            return
        try:
            self.gate.silence(silent, self.driver)
        except DexpriorError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
        self._save()

    def end(self) -> None:
        """Stop the robot, keep the evidence, wait until the robot stands, let go of it."""
        try:
            if self.gate.moving or self._homing is not None:
                self._emergency("the gate's process ends", "emergency_stop")
            self._write()
            if self.driver.real_time:
                self._wait()
        finally:
            self.driver.close()

    @property
    def _asked(self) -> bool:
        """Whether the driver owes an answer."""
        return self._reading is not None or self._homing is not None

    def _answer(self, client: int, message: Mapping[str, Any]) -> dict[str, Any] | None:
        kind = message["type"]
        if kind == "describe":
            return {
                "type": "description",
                "task": task_to_plain(self._task),
                "gate": to_plain(self.gate.config),
                "period": self.driver.period,
                "real_time": self.driver.real_time,
                "labels": self._labels,
            }
        if kind == "stop":
            self._emergency(_text(message, "reason"), "emergency_stop")
            return {"type": "done"}
        if kind == "evidence":
            last = wire.whole_from(message, "last", 1, _MOST_EVIDENCE)
            return {"type": "evidence", "evidence": [evidence_to_plain(e) for e in self.gate.evidence[-last:]]}
        if self._driving not in (None, client):
            raise BadInput("another client drives this robot; it must leave first")
        if kind == "command":
            self._driving, self._reading = client, None  # whoever asked for a state before is gone
            command = self.gate.understand(lambda: wire.command_from_plain(message.get("command")), self.driver)
            self._heard = time.monotonic()
            return {"type": "decision", "evidence": evidence_to_plain(self.gate.send(command, self.driver))}
        if kind == "read":
            return self._read()
        if kind == "prepare":
            return self._prepare(client, message)
        if kind == "recover":
            self._reading = self._homing = None
            self.gate.reset(self.driver, by=_text(message, "by"))
            return {"type": "done"}
        known = "describe, prepare, command, read, stop, recover, evidence, close"
        raise BadInput(f"unknown request {kind!r:.80}. Known: {known}")

    def _read(self) -> dict[str, Any] | None:
        """A state, or None while it is waited for."""
        if not self.driver.real_time:
            return _told(self.gate.read(self.driver))
        self.gate.require_unlatched()
        if self._reading is None:
            self._reading = self._reader.submit(self.driver.read)
        if not self._reading.done():
            return None
        found, self._reading = self._reading, None
        # a driver that answers late takes nothing of the time in which the next command must come
        self._heard = max(self._heard, time.monotonic() - self.driver.period)
        return _told(self.gate.read(self.driver, found.result))

    def _prepare(self, client: int, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The state at home, or None while the robot is on its way there."""
        scene, succeeded = instance_from_plain(message, self._task, _NOTHING, np.zeros(0)), message.get("succeeded")
        if self._homing is None:
            if succeeded is not None:
                flag(succeeded, "field 'succeeded'")
            self._driving, self._reading = client, None
            self.gate.episode(succeeded, self.driver)
            if not self.driver.real_time:
                return _told(self.gate.prepare(scene, self.driver))
            self._homing = self._reader.submit(self.driver.prepare, scene)
        self.gate.require_unlatched()
        if not self._homing.done():
            return None
        found, self._homing = self._homing, None
        return _told(self.gate.prepare(scene, self.driver, found.result))

    def _emergency(self, reason: str, rule: Any) -> None:
        try:
            self.gate.emergency_stop(self.driver, reason, rule=rule)
        except Exception as error:  # noqa: BLE001  # the outermost edge of somebody else's driver: it is latched
            print(f"{self.name}: {reason}; and the robot cannot be told to stop: {error}", file=sys.stderr)

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        try:
            while time.monotonic() < deadline and np.abs(self.driver.read().qd).max(initial=0.0) > _STANDING:
                time.sleep(self.driver.period / 4)
        except Exception as error:  # noqa: BLE001  # the outermost edge of somebody else's driver: it must still be closed
            print(f"{self.name}: the robot cannot be seen to stand: {error}", file=sys.stderr)

    def _save(self) -> None:
        """Keep the evidence of a stop on disk, once."""
        if self.gate.latched is not self._kept:
            self._write()

    def _write(self) -> None:
        """Write the evidence; where that fails the gate goes on, says so, and tries again with the next answer."""
        if self._keep is None:
            return
        try:
            self.gate.save(self._keep)
        except (OSError, DexpriorError) as error:
            print(f"{self.name}: the evidence cannot be kept in {self._keep}: {error}", file=sys.stderr)
        else:
            self._kept = self.gate.latched


def _told(state: RobotState) -> dict[str, Any]:
    return {"type": "state", "t_host": state.t_host} | plain_of_state(state)


def _text(message: Mapping[str, Any], name: str) -> str:
    value: str = text(message.get(name), f"field {name!r}")
    if not value.strip() or len(value) > 1000:
        raise BadInput(f"field {name!r} must be a text of 1 to 1000 characters, got {shown(value)}")
    return value


def _driver(
    options: HardwareOptions, task: Task, limits: GateConfig, keep: Path | None, *, family: Path | None,
    cells: Path | None,
) -> Driver:  # fmt: skip
    """The driver that options ask for; not connected."""
    if options.driver == "franka":
        from dexprior.envs.hardware.franka import FrankaDriver

        (rig,) = task.layout().rigs
        assert options.address is not None  # as the options say
        return FrankaDriver(options.address, gate=limits, home=rig.home, realtime=options.realtime_kernel, keep=keep)
    return LoopbackDriver(
        task=task,
        family=task.reality if family is None else ParameterFamily.read(family),
        seed=options.seed,
        real_time=options.real_time,
        sensors=options.sensors,
        cells=None if cells is None else Panel.load(cells),
        profile=limits.robot,
        tracker=options.tracker,
        port=options.port,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Reach the robot that the command line names, and serve its gate."""
    parser = argparse.ArgumentParser(prog="python -m dexprior.envs.hardware.server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose; always on 127.0.0.1")
    parser.add_argument("--options", type=Path, help="JSON file: which robot, and what may be sent to it")
    parser.add_argument("--family", type=Path, help="JSON file of the loopback robot's parameter family")
    parser.add_argument("--task", type=Path, help="JSON file of what is done in the cell: name and settings")
    parser.add_argument("--cells", type=Path, help="JSON file of a panel, each instance of which is a cell of its own")
    parser.add_argument("--with-parent", action="store_true", help="end when stdin closes")
    chosen = parser.parse_args(arguments)
    try:
        plain = {} if chosen.options is None else read_json_object(chosen.options)
        options = validate(HardwareOptions, plain, where=str(chosen.options))
        task = make_task("insertion").other()
        if chosen.task is not None:
            task = task_from_plain(read_json_object(chosen.task), str(chosen.task))
        limits = gate_config(task, options.limits)
        keep = None if options.keep is None else Path(options.keep)
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
        driver = _driver(options, task, limits, keep, family=chosen.family, cells=chosen.cells)
        gate = SafetyGate(limits, episode=task.steps, lockstep=not driver.real_time)
        driver.connect()
        listener = wire.listen(wire.LOCALHOST, chosen.port)
    except (DexpriorError, OSError) as error:
        parser.exit(2, f"safety gate: {error}\n")
    service = GateService(gate, driver, task=task, labels=options.sensors.labels, keep=keep)
    announce(listener)
    try:
        serve(service, listener, LIMITS, parent=0 if chosen.with_parent else None)
    finally:
        service.end()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the robot is stopped and the evidence kept on the way out
    main()
