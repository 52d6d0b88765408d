"""The safety gate: between whoever decides and the robot, and the only thing that may send.

    policy -> Command    -> SafetyGate.send -> Driver.send    passed, or refused, or it stops the robot
    policy <- RobotState <- SafetyGate.read <- Driver.read    looked at, too

Refused means: a hold (zero twist) is sent in the command's place. A command is never scaled down to fit: a
shortened command is a motion that nobody decided on, and it would hide a policy that asks for too much.
Stopped means: the robot is told to stop and the gate is latched, so that everything raises `SafetyStop` until
a person calls `reset`.

Every decision is kept as `Evidence`, in a ring buffer that can be saved and read back. A state that is in
order adds no entry of its own: the next command's entry shows it.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, get_args

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import save, write_json
from dexprior.config import Ge, Gt, config
from dexprior.envs.hardware.driver import Driver, RobotState
from dexprior.errors import BadInput, ConnectionLost, SafetyStop
from dexprior.types import Channel, ChannelKind, Command, CommandMode, Trace
from dexprior.worlds.arm import JOINT_LIMITS, MAX_OPENING, ArmKinematics

__all__ = ["Evidence", "GateConfig", "Rule", "SafetyGate", "Verdict", "load_evidence"]

Verdict = Literal["pass", "refuse", "stop"]
Rule = Literal[
    "all", "finite", "mode", "sequence", "age", "state_age", "linear_speed", "angular_speed", "opening",
    "workspace", "joint_limits", "refusals", "force", "state", "robot", "connection", "emergency_stop",
    "reset",
]  # fmt: skip

_EVIDENCE_SCHEMA = "dexprior.gate_evidence/1"
_DAMPING = 0.02  # of the inverse kinematics that predicts the joints, as in the arm's controller [m, rad]
_TOLERANCE = 1e-9  # relative: a command exactly at a limit passes


@config
class GateConfig:
    """What the gate lets through. The defaults are for the built-in arm and the insertion task."""

    workspace_low: tuple[float, float, float] = (0.20, -0.40, 0.0)
    """Corner of the box in which the tool centre point must stay, base frame [m]."""
    workspace_high: tuple[float, float, float] = (0.75, 0.40, 0.60)
    """Its opposite corner [m]."""
    max_linear_speed: Annotated[float, Gt(0)] = 0.9
    """Norm of the commanded linear velocity [m/s]; three axes at the action's limit of 0.5 m/s need 0.87."""
    max_angular_speed: Annotated[float, Gt(0)] = 3.5
    """Norm of the commanded angular velocity [rad/s]; three axes at the action's limit need 3.46."""
    max_force: Annotated[float, Gt(0)] = 60.0
    """Norm of the measured force, between two states too, at which the robot is stopped [N]."""
    max_command_age: Annotated[float, Gt(0)] = 0.2
    """Between deciding on a command and sending it, either way [s]: one from the future has a bad clock."""
    max_state_age: Annotated[float, Gt(0)] = 0.5
    """Of the state that a command is judged by [s]: beyond this the robot would be driven blind."""
    max_consecutive_refusals: Annotated[int, Ge(0)] = 5
    """One more refusal in a row stops the robot."""
    max_sequence_gap: Annotated[int, Ge(0)] = 0
    """Commands that may be missing between two."""
    joint_margin: Annotated[float, Ge(0)] = 0.05
    """Distance to keep from the joint limits [rad]."""
    modes: tuple[CommandMode, ...] = ("cartesian_velocity",)
    """Command modes that this robot understands; the gate can judge Cartesian velocities only."""
    evidence: Annotated[int, Ge(1)] = 5000
    """Decisions kept."""

    def __post_init__(self) -> None:
        if not all(low < high for low, high in zip(self.workspace_low, self.workspace_high)):
            raise BadInput(f"gate: the workspace {self.workspace_low} to {self.workspace_high} is empty")
        if set(self.modes) - {"cartesian_velocity"}:
            raise BadInput(f"gate: modes {self.modes}; only cartesian_velocity can be judged")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One decision: what was judged, by which rule, with which value against which limit."""

    t: float
    """Monotonic seconds of the host."""
    t_device: float | None
    """On the device's clock, of the state that was known; None before the first."""
    verdict: Verdict
    rule: Rule
    """The rule that decided; `all` where every rule was kept."""
    value: float | None
    """What was measured or asked for; None where the rule has no number."""
    limit: float | None
    unit: str
    message: str
    seq: int | None = None
    """Of the command, as its sender counts; None for a decision about a state."""
    command: tuple[float, ...] | None = None
    """The command's numbers as asked for, not finite ones included."""
    gripper: float | None = None
    tcp: tuple[float, ...] | None = None
    """Tool position in the state that was known [m]."""
    wrench: tuple[float, ...] | None = None
    """[N, N m]"""


@dataclass(frozen=True)
class _Finding:
    """What a rule objects to."""

    rule: Rule
    value: float | None
    limit: float | None
    unit: str
    message: str
    stop: bool = False


class SafetyGate:
    """Judges commands and states, one after the other; `emergency_stop` may come from any thread.

    Args:
        config: the limits.
        clock: monotonic seconds, as commands and states are stamped.
    """

    def __init__(self, config: GateConfig | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config or GateConfig()
        self._clock = clock
        self._kinematics = ArmKinematics()
        self._evidence: deque[Evidence] = deque(maxlen=self.config.evidence)
        self._latched: Evidence | None = None
        self._state: RobotState | None = None
        self._last_seq: int | None = None
        self._sent = -1  # the gate numbers what it sends itself: holds take the place of refused commands
        self._refusals = 0

    @property
    def latched(self) -> Evidence | None:
        """Why the robot was stopped; None while it may move."""
        return self._latched

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The decisions kept, oldest first."""
        return tuple(self._evidence)

    def require_unlatched(self) -> None:
        """Do nothing while the robot may move.

        Raises:
            SafetyStop: it was stopped; the message says by which rule.
        """
        if self._latched is not None:
            rule, message = self._latched.rule, self._latched.message
            raise SafetyStop(f"the robot was stopped ({rule}: {message}); look at it, then reset the gate")

    def send(self, command: Command, driver: Driver) -> Evidence:
        """Judge a command and pass it to the robot, or a hold in its place.

        Raises:
            SafetyStop: the robot was stopped, now or before.
            ConnectionLost: the robot is gone; the gate is latched.
        """
        self.require_unlatched()
        finding = self._judge(command, driver.period)
        # a late duplicate does not turn the count back
        self._last_seq = command.seq if self._last_seq is None else max(self._last_seq, command.seq)
        if finding is not None and finding.stop:
            self._stop(finding, driver, command)
        self._refusals = 0 if finding is None else self._refusals + 1
        if finding is not None and self._refusals > self.config.max_consecutive_refusals:
            reason = f"{self._refusals} commands refused in a row; the last one: {finding.message}"
            limit = float(self.config.max_consecutive_refusals)
            self._stop(_Finding("refusals", float(self._refusals), limit, "1", reason), driver, command)
        decision = self._record("pass" if finding is None else "refuse", finding, command)
        self._sent += 1
        outgoing = replace(command, seq=self._sent)
        if finding is not None:
            outgoing = replace(outgoing, mode="cartesian_velocity", value=np.zeros(6), gripper=None)
        try:
            driver.send(outgoing)
        except (BadInput, ConnectionLost, SafetyStop) as error:
            self._driver_failed(error, driver, command)
        return decision

    def read(self, driver: Driver) -> RobotState:
        """The robot's state, looked at.

        Raises:
            SafetyStop: the force is too high, the state makes no sense, or the robot has stopped itself.
            ConnectionLost: the robot is gone; the gate is latched.
        """
        self.require_unlatched()
        try:
            state = driver.read()
        except (BadInput, ConnectionLost, SafetyStop) as error:
            self._driver_failed(error, driver, None)
        return self.look(state, driver)

    def look(self, state: RobotState, driver: Driver) -> RobotState:
        """Judge a state that came otherwise than by `read`; errors as there."""
        before, self._state = self._state, state
        finding = self._judge_state(state, before)
        if finding is not None:
            self._stop(finding, driver, None)
        return state

    def emergency_stop(self, driver: Driver, reason: str) -> None:
        """Latch and stop the robot, whatever it is doing.

        A `read` that waits in another thread may delay the stop by up to a period.

        Raises:
            ConnectionLost: the robot cannot be reached; the gate is latched all the same.
        """
        self._latch(_Finding("emergency_stop", None, None, "1", reason), None)
        driver.stop()

    def reset(self, driver: Driver, *, by: str) -> None:
        """End a stop, on the robot too. For a person who has looked at it, never for a program's retry loop.

        Args:
            driver: the robot.
            by: who answers for it; kept as evidence.

        Raises:
            BadInput: nobody is named.
        """
        if not by.strip():
            raise BadInput("gate reset: say who looked at the robot")
        driver.recover()
        self._latched, self._refusals, self._last_seq, self._state = None, 0, None, None
        self._record("pass", _Finding("reset", None, None, "1", f"reset by {by}"), None)

    def trace(self, panel_hash: str = "") -> Trace:
        """The evidence as signals: finite commands, tool positions, wrenches, verdicts.

        A verdict is 0 for pass, 1 for refuse and 2 for stop.

        Raises:
            BadInput: nothing was decided yet.
        """
        verdicts = {name: float(k) for k, name in enumerate(get_args(Verdict))}
        rows = list(self._evidence)
        channels = {
            "verdict": _channel([(e.t, e.t, (verdicts[e.verdict],)) for e in rows], "1", "-", "commanded"),
            "twist": _channel([(e.t, e.t, e.command) for e in rows], "m/s, rad/s", "base", "commanded"),
            "tcp": _channel([(e.t_device, e.t, e.tcp) for e in rows], "m", "base", "measured"),
            "wrench": _channel([(e.t_device, e.t, e.wrench) for e in rows], "N, N m", "sensor", "measured"),
        }
        found = {name: channel for name, channel in channels.items() if channel is not None}
        return Trace(channels=found, panel_hash=panel_hash, info={"source": "safety gate"})

    def save(self, folder: str | Path, panel_hash: str = "") -> Path:
        """Write `evidence.json` (every decision) and `evidence.safetensors` (the `Trace`) into a folder."""
        folder = Path(folder)
        write_json(folder / "evidence.json", {
            "schema": _EVIDENCE_SCHEMA,
            "config": self.config,
            "latched": None if self._latched is None else _plain(self._latched),
            "evidence": [_plain(e) for e in self._evidence],
        })  # fmt: skip
        if self._evidence:
            save(
                self.trace(panel_hash),
                folder / "evidence.safetensors",
                producer="safety gate",
                config=self.config,
            )
        return folder

    # --- judging --------------------------------------------------------------------------------------------

    def _judge(self, command: Command, period: float) -> _Finding | None:
        """The first rule that a command breaks: those that others rely on come first."""
        c, state, now = self.config, self._state, self._clock()
        if not command.finite or not math.isfinite(command.t):
            bad = float((~np.isfinite(command.value)).sum()) or 1.0
            return _Finding("finite", bad, 0.0, "1", f"{bad:g} number(s) are not finite", stop=True)
        if command.mode not in c.modes or command.value.shape != (6,):
            known = ", ".join(c.modes)
            return _Finding(
                "mode", float(command.value.size), 6.0, "1",
                f"mode {command.mode!r} with {command.value.size} numbers; known here: {known} with 6",
            )  # fmt: skip
        missing = 0 if self._last_seq is None else command.seq - self._last_seq - 1
        if not 0 <= missing <= c.max_sequence_gap:
            what = f"{missing} command(s) are missing before it" if missing > 0 else "it was sent before or is late"
            return _Finding("sequence", float(missing), float(c.max_sequence_gap), "1", what)
        age = now - command.t
        if abs(age) > c.max_command_age:
            what = "old" if age > 0 else "in the future: the sender's clock is not the gate's"
            return _Finding("age", age, c.max_command_age, "s", f"decided {abs(age):.3f} s {what}")
        if state is None or now - state.t_host > c.max_state_age:
            state_age = None if state is None else now - state.t_host
            return _Finding("state_age", state_age, c.max_state_age, "s", "no recent state to judge it by")
        return self._judge_speed(command) or self._judge_place(command, state, period)

    def _judge_speed(self, command: Command) -> _Finding | None:
        c = self.config
        for rule, part, limit, unit in (
            ("linear_speed", command.value[:3], c.max_linear_speed, "m/s"),
            ("angular_speed", command.value[3:], c.max_angular_speed, "rad/s"),
        ):
            speed = float(np.linalg.norm(part))
            if speed > limit * (1 + _TOLERANCE):
                return _Finding(rule, speed, limit, unit, f"{speed:.3f} {unit} asked for")  # type: ignore[arg-type]
        opening = command.gripper
        if opening is not None and not -_TOLERANCE <= opening <= MAX_OPENING + _TOLERANCE:
            return _Finding("opening", opening, MAX_OPENING, "m", f"opening of {opening:.4f} m asked for")
        return None

    def _judge_place(self, command: Command, state: RobotState, period: float) -> _Finding | None:
        """Tool position and joints one period ahead; what is outside already may come back."""
        c = self.config
        low, high = np.array(c.workspace_low), np.array(c.workspace_high)
        now, ahead = state.tcp[:3], state.tcp[:3] + period * command.value[:3]
        outside_now, outside = (np.maximum(np.maximum(low - p, p - high), 0.0) for p in (now, ahead))
        axis = int((outside - outside_now).argmax())
        if outside[axis] > outside_now[axis] + _TOLERANCE:
            limit = float(low[axis] if ahead[axis] < low[axis] else high[axis])
            what = f"tool would be at {'xyz'[axis]} = {ahead[axis]:.4f} m, outside the workspace"
            return _Finding("workspace", float(ahead[axis]), limit, "m", what)
        _, _, J = self._kinematics.forward(state.q[None])
        speed = J[0].T @ np.linalg.solve(J[0] @ J[0].T + _DAMPING**2 * np.eye(6), command.value)
        margin_now, margin = _joint_margin(state.q), _joint_margin(state.q + period * speed)
        worse = np.where((margin < c.joint_margin) & (margin < margin_now - _TOLERANCE), margin, np.inf)
        joint = int(worse.argmin())
        if np.isfinite(worse[joint]):
            what = f"joint{joint + 1} would come within {margin[joint]:.3f} rad of its limit"
            return _Finding("joint_limits", float(margin[joint]), c.joint_margin, "rad", what)
        return None

    def _judge_state(self, state: RobotState, before: RobotState | None) -> _Finding | None:
        force = max(state.peak_force, float(np.linalg.norm(state.wrench[:3])))
        if force > self.config.max_force:
            return _Finding("force", force, self.config.max_force, "N", f"{force:.1f} N on the tool")
        if state.status == "stopped":
            return _Finding("robot", None, None, "1", "the robot has stopped itself")
        if before is not None and state.t < before.t:
            step = state.t - before.t
            return _Finding("state", step, 0.0, "s", f"the device's clock went back by {-step:.3f} s: it restarted")
        return None

    # --- acting ---------------------------------------------------------------------------------------------

    def _stop(self, finding: _Finding, driver: Driver, command: Command | None) -> NoReturn:
        """Latch first, so that nothing is sent whatever happens next; then stop the robot."""
        self._latch(finding, command)
        message = f"{finding.rule}: {finding.message}"
        if finding.value is not None and finding.limit is not None:
            message += f" (value {finding.value:.4g} {finding.unit}, limit {finding.limit:.4g})"
        try:
            driver.stop()
        except ConnectionLost as error:
            raise SafetyStop(f"{message}; and the robot cannot be reached to stop it: {error}") from error
        raise SafetyStop(message)

    def _driver_failed(
        self, error: BadInput | ConnectionLost | SafetyStop, driver: Driver, command: Command | None
    ) -> NoReturn:
        rule: Rule = "connection" if isinstance(error, ConnectionLost) else "robot"
        finding = _Finding(rule, None, None, "1", str(error))
        if isinstance(error, BadInput):  # it may be in motion: see Driver.send
            self._stop(finding, driver, command)
        self._latch(finding, command)
        raise error

    def _latch(self, finding: _Finding, command: Command | None) -> None:
        """Keep the first cause: what follows from a stop does not replace it."""
        entry = self._record("stop", finding, command)
        if self._latched is None:
            self._latched = entry

    def _record(self, verdict: Verdict, finding: _Finding | None, command: Command | None) -> Evidence:
        state = self._state
        known = finding or _Finding("all", None, None, "1", "every rule kept")
        entry = Evidence(
            t=self._clock(),
            t_device=None if state is None else state.t,
            verdict=verdict,
            rule=known.rule,
            value=known.value,
            limit=known.limit,
            unit=known.unit,
            message=known.message,
            seq=None if command is None else command.seq,
            command=None if command is None else tuple(map(float, command.value)),
            gripper=None if command is None else command.gripper,
            tcp=None if state is None else tuple(map(float, state.tcp[:3])),
            wrench=None if state is None else tuple(map(float, state.wrench)),
        )
        self._evidence.append(entry)
        return entry


def load_evidence(folder: str | Path) -> tuple[Evidence, ...]:
    """The decisions that `SafetyGate.save` wrote.

    Raises:
        BadInput: no such file, or another kind of file.
    """
    path = Path(folder) / "evidence.json"
    try:
        data = json.loads(path.read_text())
        if data["schema"] != _EVIDENCE_SCHEMA:
            raise BadInput(f"{path} holds {data['schema']!r}, expected {_EVIDENCE_SCHEMA!r}")
        return tuple(_evidence_from(entry) for entry in data["evidence"])
    except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise BadInput(f"cannot read gate evidence from {path}: {error!r}") from None


_NUMBERS = ("t", "t_device", "value", "limit", "gripper")
_ROWS = ("command", "tcp", "wrench")


def _plain(entry: Evidence) -> dict[str, Any]:
    """Strict JSON data: numbers that are not finite become text, as on the wire."""
    plain = asdict(entry)
    for name in _NUMBERS:
        plain[name] = _text(plain[name])
    for name in _ROWS:
        plain[name] = None if plain[name] is None else [_text(v) for v in plain[name]]
    return plain


def _text(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def _evidence_from(plain: dict[str, Any]) -> Evidence:
    numbers = {name: None if plain[name] is None else float(plain[name]) for name in _NUMBERS}
    rows = {name: None if plain[name] is None else tuple(map(float, plain[name])) for name in _ROWS}
    return Evidence(**(plain | numbers | rows))


def _joint_margin(q: Float[np.ndarray, " 7"]) -> Float[np.ndarray, " 7"]:
    """Distance to the nearer joint limit [rad]; negative beyond it."""
    return np.minimum(q - JOINT_LIMITS[:, 0], JOINT_LIMITS[:, 1] - q)


def _channel(
    rows: list[tuple[float | None, float, tuple[float, ...] | None]], unit: str, frame: str, kind: ChannelKind
) -> Channel | None:
    """The rows (t, t_host, value) that a channel can hold: finite, of one width, at increasing times."""
    kept: list[tuple[float, float, tuple[float, ...]]] = []
    for t, t_host, value in rows:
        if t is None or value is None or not np.isfinite(value).all():
            continue
        if not kept or (t > kept[-1][0] and len(value) == len(kept[0][2])):
            kept.append((t, t_host, value))
    if not kept:
        return None
    t_device, t_seen, values = (np.array(column) for column in zip(*kept))
    return Channel(t=t_device, t_host=t_seen, value=values, unit=unit, frame=frame, kind=kind)
