"""The driver of a Franka FR3 with its hand: what the gate calls, at the policy's rate."""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import write_json
from dexprior.config import to_plain
from dexprior.envs.hardware.driver import RobotState
from dexprior.envs.hardware.franka.link import (
    ASKED,
    HAND_ASKED,
    HAND_STATE,
    KINDS,
    STATE,
    STATUS,
    Link,
    LoopConfig,
)
from dexprior.envs.hardware.gate import GateConfig
from dexprior.envs.hardware.profile import RobotProfile
from dexprior.envs.panel import Panel
from dexprior.errors import BadInput, ConnectionLost, MissingExtra, SafetyStop
from dexprior.geometry.rotations import quat_from_matrix, rotation_angle
from dexprior.reading import parse_json_object
from dexprior.robots.rigs import rig_chain, rig_model
from dexprior.types import Command
from dexprior.worlds.tasks import Task

__all__ = ["FrankaDriver"]

_LOOP, _HAND = "dexprior.envs.hardware.franka.loop", "dexprior.envs.hardware.franka.hand"
_SILENT = 0.1  # [s] without a state after which the robot counts as gone
_HAND_SILENT = 3.0  # [s]: it says nothing while it moves
_STARTING, _HOMING, _READING, _ENDING = 20.0, 50.0, 5.0, 5.0  # [s] that each may take
_SAME_PLACE, _SAME_TURN = 0.005, 0.02  # [m], [rad] by which the model's flange may be off the robot's
_BEYOND = 0.01  # [m] beyond the gate's boxes at which the loop stops
_TURN = np.pi / 4  # of the catalog's flange, where the hand is mounted, against libfranka's about its axis [rad]


class FrankaDriver:
    """Drives an FR3; see `dexprior.envs.hardware.driver.Driver` for the methods.

    Two processes are started by `connect`: one answers the robot every millisecond, one moves the hand. Both end, and
    the arm slows down, when this process is gone. The cell has no camera of ours and fingertips without sensors: states
    have an empty cloud and no touch. Objects are placed by people.

    Args:
        address: of the robot's control unit.
        gate: of the gate, whose force, joints and boxes the loop watches, too.
        home: joints that `prepare` goes to [rad].
        realtime: whether a kernel without real-time priorities is refused.
        keep: folder for the record of the last seconds (`franka.link`), which survives; a temporary one by default.
    """

    real_time = True

    def __init__(
        self,
        address: str,
        *,
        gate: GateConfig,
        home: Float[np.ndarray, " joint"],
        realtime: bool = True,
        keep: Path | None = None,
    ) -> None:
        self._address, self._gate, self._home = address, gate, np.asarray(home, dtype=np.float64)
        self._realtime, self._keep = realtime, keep
        self._rig, self._chain = rig_chain(gate.robot.arm, gate.robot.end)
        self._tool = _on_flange(gate.robot, "tcp")
        self._wrist = np.linalg.inv(_on_flange(gate.robot, "wrist")) @ self._tool
        if len(self._rig.arm.joints) != 7 or self._home.shape != (7,):
            raise BadInput(f"a Franka has 7 joints; {gate.robot.arm} has {len(self._rig.arm.joints)}: take arm7 or fr3")
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._link: Link | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        self._number = self._read = 0
        self._sent: tuple[int, int] = (-1, -1)  # number of the request, and seq of the command that it carries
        self._done = -1

    @property
    def period(self) -> float:
        """Seconds that one command is carried out for."""
        return Task.control_dt

    def connect(self) -> None:
        """Reach the robot and its hand; does nothing when that was done.

        Raises:
            ConnectionLost: nothing answers there, in another version of the protocol, or the robot may not move.
            MissingExtra: pylibfranka or ruckig is not installed.
            BadInput: the robot is built in another way than the catalog's arm.
        """
        if self._link is not None:
            return
        self._folder = tempfile.TemporaryDirectory(prefix="dexprior-")
        folder = Path(self._folder.name)
        link = Link((self._keep or folder) / "franka.link", create=True)
        settings = write_json(folder / "loop.json", to_plain(self._settings()))
        arguments = ["--link", str(link.path)]
        self._start(_LOOP, [*arguments, "--settings", str(settings)], told=True)
        self._start(_HAND, [*arguments, "--address", self._address])
        self._link = link
        try:
            self._check(self._state())
        except (BadInput, ConnectionLost):
            self.close()
            raise

    def prepare(self, instance: Panel) -> RobotState:
        """Open the hand, and bring the joints home; the people beside it have placed the objects."""
        self._open(float(self._hand()["widest"]))
        self._wait(self._ask("home", values=self._home), _HOMING)
        self._sent, self._done = (-1, -1), -1
        return self._state()

    def read(self) -> RobotState:
        """The state at the end of the last command's period."""
        number, _ = self._sent
        return self._state() if number < 0 else self._wait(number, _READING)

    def send(self, command: Command) -> None:
        """Hand over one command."""
        if not command.finite:
            raise BadInput(f"command {command.seq} holds numbers that are not finite")
        if STATUS[int(STATE.read(self._last())["status"])] == "stopped":
            raise SafetyStop(f"the Franka is stopped: {self._told.error}; look, then recover")
        if command.gripper is not None:
            self._open(command.gripper)
        self._sent = self._ask("twist", values=np.append(command.value, 0.0)), command.seq

    def stop(self) -> None:
        """Slow down at once and stay so until `recover`."""
        self._ask("stop")

    def recover(self) -> None:
        """End a stop."""
        self._until_no_longer("moving", "is not at rest")
        self._ask("recover")
        self._until_no_longer("stopped", "stays stopped")

    def close(self) -> None:
        """Let go of the robot, which then stands still; again does nothing."""
        if self._link is not None and self._processes[0].poll() is None:
            self._ask("end")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._processes[0].wait(_ENDING)
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes, self._link = [], None
        if self._folder is not None:
            self._folder.cleanup()

    def _settings(self) -> LoopConfig:
        gate = self._gate
        boxes = np.array([[gate.workspace_low, gate.workspace_high], *((z.low, z.high) for z in gate.contact_zones)])
        low, high = boxes[:, 0].min(axis=0) - _BEYOND, boxes[:, 1].max(axis=0) + _BEYOND
        return LoopConfig(
            address=self._address, realtime=self._realtime, tool=tuple(self._tool.T.ravel().tolist()),
            low=tuple(low.tolist()), high=tuple(high.tolist()),
            joints=tuple((float(a), float(b)) for a, b in self._rig.arm.limits), max_force=gate.max_force,
        )  # fmt: skip

    def _at_wrist(self, wrench: Float[np.ndarray, " 6"]) -> Float[np.ndarray, " 6"]:
        """A wrench at the tool centre point and in its axes, at the wrist and in its axes."""
        force = self._wrist[:3, :3] @ wrench[:3]
        torque = self._wrist[:3, :3] @ wrench[3:] + np.cross(self._wrist[:3, 3], force)
        return np.concatenate([force, torque])

    def _check(self, state: RobotState) -> None:
        """Hold what the robot says of its tool against the catalog's model."""
        p, R, _ = (part[0] for part in self._chain.forward(state.q[None]))
        turned = float(rotation_angle(state.tcp[3:], quat_from_matrix(R)))
        apart = float(np.linalg.norm(state.tcp[:3] - p))
        if apart > _SAME_PLACE or turned > _SAME_TURN:
            raise BadInput(
                f"the robot at {self._address} says that its tool is {1e3 * apart:.0f} mm and {turned:.2f} rad from "
                f"where the catalog's {self._gate.robot.arm} with {self._gate.robot.end} has it: another arm, or a "
                "base frame that was moved"
            )

    def _start(self, module: str, arguments: list[str], *, told: bool = False) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if told else None,
            start_new_session=True,  # Ctrl-C is for who decides; the loop ends after it, in order
        )
        self._processes.append(process)
        if not told:
            return
        assert process.stdout is not None  # a pipe, as asked for
        ready, _, _ = select.select([process.stdout], [], [], _STARTING)
        words = parse_json_object(process.stdout.readline() or b"{}", "what its loop said") if ready else {}
        if words.get("ready") is True:
            return
        process.kill()
        process.wait()
        self._processes = []
        why = words.get("error", f"nothing answered within {_STARTING:g} s" if not ready else "its loop ended")
        if words.get("missing"):
            raise MissingExtra(why)
        raise ConnectionLost(f"the Franka at {self._address}: {why}")

    @property
    def _told(self) -> Link:
        if self._link is None:
            raise ConnectionLost(f"the Franka at {self._address}: not connected; call connect() first")
        return self._link

    def _ask(self, kind: str, values: np.ndarray | float = 0.0) -> int:
        """Write a request; its number."""
        self._number += 1
        self._told.asked.add(
            ASKED.row(
                number=self._number, kind=KINDS.index(kind), made=time.monotonic(), period=self.period,
                holds=self.period + self._gate.robot.watchdog, values=values,
            )
        )  # fmt: skip
        return self._number

    def _last(self) -> np.ndarray:
        """The newest row, which is fresh."""
        deadline = time.monotonic() + _STARTING
        while True:
            row = self._told.state.last()
            if row is not None and time.monotonic() - STATE.read(row)["host"] < _SILENT:
                return row
            code = self._processes[0].poll()
            if code is not None or (row is not None and time.monotonic() - STATE.read(row)["host"] > 1.0):
                raise ConnectionLost(f"the Franka at {self._address} is silent: {self._told.error or 'its loop ended'}")
            if time.monotonic() > deadline:
                raise ConnectionLost(f"the Franka at {self._address} gave no state within {_STARTING:g} s")
            time.sleep(1e-3)

    def _wait(self, number: int, longest: float) -> RobotState:
        """The state when a request was carried out, or the robot stopped."""
        deadline = time.monotonic() + longest
        while True:
            told = STATE.read(self._last())
            if STATUS[int(told["status"])] == "stopped":
                return self._state()
            if told["done"] >= number:
                self._done = self._sent[1] if number == self._sent[0] else -1
                return self._state()
            if time.monotonic() > deadline:
                raise ConnectionLost(f"the Franka at {self._address} has not carried out a request in {longest:g} s")
            time.sleep(1e-3)

    def _until_no_longer(self, status: str, how: str) -> None:
        """Wait until it has another status; `how` says what is wrong where it has not."""
        deadline = time.monotonic() + _ENDING
        while STATUS[int(STATE.read(self._last())["status"])] == status:
            if time.monotonic() > deadline:
                raise SafetyStop(f"the Franka {how}: {self._told.error or 'it gives no reason'}")
            time.sleep(self.period / 10)

    def _open(self, width: float) -> None:
        self._told.hand_asked.add(HAND_ASKED.row(width=width))

    def _hand(self) -> dict[str, np.ndarray]:
        deadline = time.monotonic() + _STARTING
        while (row := self._told.hand_state.last()) is None:
            if self._processes[-1].poll() is not None or time.monotonic() > deadline:
                raise ConnectionLost(f"the hand of the Franka at {self._address} does not answer")
            time.sleep(1e-3)
        told = HAND_STATE.read(row)
        if time.monotonic() - told["host"] > _HAND_SILENT:
            raise ConnectionLost(f"the hand of the Franka at {self._address} is silent")
        return told

    def _state(self) -> RobotState:
        row = self._last()
        told, since = STATE.read(row), STATE.read(self._told.state.since(self._read))
        self._read = self._told.state.count
        forces = np.linalg.norm(since["wrench"][:, :3], axis=1) if len(since["wrench"]) else np.zeros(1)
        tool = told["pose"].reshape(4, 4).T
        return RobotState(
            t=float(told["t"]),
            t_host=float(told["host"]),
            seq=self._done,
            status=STATUS[int(told["status"])],  # type: ignore[arg-type]  # one of them
            q=told["q"],
            qd=told["qd"],
            tcp=np.concatenate([tool[:3, 3], quat_from_matrix(tool[:3, :3])]),
            opening=float(self._hand()["width"]),
            wrench=self._at_wrist(told["wrench"]),
            peak_force=float(forces.max()),
            touch=np.zeros(len(self._rig.end.touch)),
            cloud=np.zeros((0, 3)),
        )


def _on_flange(robot: RobotProfile, name: str) -> Float[np.ndarray, "4 4"]:
    """Pose of a site of the catalog's robot on the flange as libfranka has it; the catalog's is turned as the hand."""
    import mujoco

    rig, model = rig_model(robot.arm, robot.end)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    flange, there = np.eye(4), np.eye(4)
    for pose, site in ((flange, "flange"), (there, name)):
        found = data.site(rig.name(site))
        pose[:3, :3], pose[:3, 3] = found.xmat.reshape(3, 3), found.xpos
    c, s = np.cos(_TURN), np.sin(_TURN)
    flange[:3, :3] = flange[:3, :3] @ np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    return np.linalg.inv(flange) @ there
