"""A driver whose robot is another process on this machine: the hardware path without hardware."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from dexprior.artifacts import write_json
from dexprior.config import to_plain
from dexprior.envs import wire
from dexprior.envs.base import OBSERVATION_SIZES, Reading, Truth
from dexprior.envs.hardware.driver import RobotState
from dexprior.envs.panel import Instance
from dexprior.errors import BadInput, ConnectionLost
from dexprior.families import ParameterFamily
from dexprior.types import Command
from dexprior.worlds.insertion import InsertionConfig
from dexprior.worlds.stepping import CONTROL_DT

__all__ = ["PROTOCOL", "VERSION", "LoopbackDriver", "state_from_plain", "state_to_plain"]

PROTOCOL, VERSION = "dexprior.robot", 1

_ROBOT = "dexprior.envs.hardware.robot"
_FIELDS: dict[str, tuple[int, ...]] = {
    "q": (7,), "qd": (7,), "tcp": (7,), "opening": (), "wrench": (6,), "peak_force": (), "touch": (2,),
    "cloud": OBSERVATION_SIZES["cloud"],
}  # fmt: skip
_TRUTH: dict[str, tuple[int, ...]] = {"nut": (7,), "bolt": (3,), "slip": (), "held": ()}


class LoopbackDriver:
    """Drives a simulated robot that lives in a process of its own, with its own clock, watchdog and stop.

    See `dexprior.envs.hardware.driver.Driver` for the methods, and `robot.py` for how the robot behaves. The
    process starts on `connect`, and ends on `close` and when this process dies.

    Args:
        family: of the robot's world; by default the other world. One set of values is drawn, once.
        world: sizes of nut and bolt.
        cone: friction cone of its solver.
        seed: draws that set of values.
        real_time: whether the robot's clock runs with the wall's. If not, time passes on the robot only while
            it carries out a command, or in `idle`: as fast as asked, and the same in every run.
        stale_after: seconds on the robot's clock without a command after which it holds.
        tracker: whether its states hold the truth about the nut.
        timeout: seconds within which the robot must answer.
    """

    def __init__(
        self,
        *,
        family: ParameterFamily | None = None,
        world: InsertionConfig | None = None,
        cone: Literal["pyramidal", "elliptic"] = "elliptic",
        seed: int = 0,
        real_time: bool = False,
        stale_after: float = 0.2,
        tracker: bool = True,
        timeout: float = 5.0,
    ) -> None:
        self._files = {
            "family": None if family is None else family.to_json(),
            "world": None if world is None else to_plain(world),
        }
        self._arguments = [
            "--with-parent",
            "--cone",
            cone,
            "--seed",
            str(seed),
            "--stale-after",
            str(stale_after),
        ]
        self._arguments += ["--real-time"] * real_time + ["--no-tracker"] * (not tracker)
        self._timeout = timeout
        self._robot: wire.ServerProcess | None = None
        self._connection: wire.Connection | None = None
        self._sent = -1

    @property
    def period(self) -> float:
        """Seconds that one command is carried out for."""
        return CONTROL_DT

    @property
    def process(self) -> wire.ServerProcess:
        """The robot's process."""
        if self._robot is None:
            raise ConnectionLost("loopback robot: not connected; call connect() first")
        return self._robot

    def connect(self) -> None:
        """Start the robot and greet it; does nothing when that was done."""
        if self._robot is not None:
            return
        arguments = list(self._arguments)
        with tempfile.TemporaryDirectory(prefix="dexprior-") as folder:  # read before the robot announces itself
            for name, value in self._files.items():
                if value is not None:
                    arguments += [f"--{name}", str(write_json(Path(folder) / f"{name}.json", value))]
            self._robot = wire.ServerProcess(_ROBOT, arguments)
        self._connection = wire.connect(self._robot.address, timeout=self._timeout, peer="loopback robot")
        wire.greet(self._connection, PROTOCOL, VERSION)

    def prepare(self, instance: Instance) -> RobotState:
        """Put the arm home and the objects in place; the instance's parameters are not sent."""
        scene = {
            "nut": instance.nut,
            "bolt": instance.bolt,
            "nut_yaw": instance.nut_yaw,
            "seed": instance.seed,
        }
        return self._state({"type": "prepare"} | scene)

    def read(self) -> RobotState:
        """The state at the end of the last accepted command's period."""
        return self._state({"type": "read", "after": self._sent})

    def send(self, command: Command) -> None:
        """Hand over one command; numbers that are not finite travel, and the robot refuses them."""
        self._request({"type": "command", "command": wire.command_to_plain(command)})
        self._sent = command.seq

    def stop(self) -> None:
        """Stop now and stay so until `recover`."""
        self._request({"type": "stop"})

    def recover(self) -> None:
        """End a stop."""
        self._request({"type": "recover"})

    def idle(self, seconds: float) -> RobotState:
        """Let time pass on the robot's clock without a command, where that clock does not run by itself."""
        return self._state({"type": "idle", "seconds": seconds})

    def close(self) -> None:
        """Say goodbye and end the robot's process; again does nothing."""
        if self._connection is not None:
            with contextlib.suppress(ConnectionLost):  # gone already: then there is nobody to say goodbye to
                self._connection.request({"type": "close"})
            self._connection.close()
        if self._robot is not None:
            self._robot.close()

    def _state(self, message: Mapping[str, Any]) -> RobotState:
        return state_from_plain(self._request(message), t_host=time.monotonic())

    def _request(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if self._connection is None:
            raise ConnectionLost("loopback robot: not connected; call connect() first")
        return self._connection.request(message)


def state_to_plain(
    reading: Reading, *, t: float, seq: int, status: str, peak_force: float, tracker: bool
) -> dict[str, Any]:
    """What the robot says about itself, from the reading of its one world."""
    plain: dict[str, Any] = {name: getattr(reading, name)[0] for name in _FIELDS if name != "peak_force"}
    plain |= {"t": t, "seq": seq, "status": status, "peak_force": peak_force}
    seen = reading.truth if tracker else None
    plain["truth"] = None if seen is None else {name: getattr(seen, name)[0] for name in _TRUTH}
    return plain


def state_from_plain(data: Mapping[str, Any], *, t_host: float) -> RobotState:
    """Inverse of `state_to_plain`, at the host's time of arrival.

    Raises:
        BadInput: a field is missing, not finite, or has another shape.
    """
    found = {name: wire.array_from(data, name, *shape) for name, shape in _FIELDS.items()}
    fields = {name: value if value.ndim else float(value) for name, value in found.items()}
    seq, status, seen = data.get("seq"), data.get("status"), data.get("truth")
    if not isinstance(seq, int):
        raise BadInput(f"field 'seq' must be a whole number, got {seq!r}")
    truth = None
    if seen is not None:
        told = {name: wire.array_from(seen, name, *shape)[None] for name, shape in _TRUTH.items()}
        truth = Truth(**(told | {"held": told["held"].astype(bool)}))
    return RobotState(
        t=float(wire.array_from(data, "t")),
        t_host=t_host,
        seq=seq,
        status=status,  # type: ignore[arg-type]  # checked by the state itself
        truth=truth,
        **fields,  # type: ignore[arg-type]
    )
