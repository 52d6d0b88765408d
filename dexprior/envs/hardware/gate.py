"""The safety gate: between whoever decides and the robot, and the only thing that may send.

    policy -> Command    -> SafetyGate.send -> Driver.send    passed, or refused, or it stops the robot
    policy <- RobotState <- SafetyGate.read <- Driver.read    looked at, too

Refused means: a hold (zero twist) is sent in the command's place. A command is never scaled down to fit: a
shortened command is a motion that nobody decided on, and it would hide a policy that asks for too much.
Stopped means: the robot is told to stop and the gate is latched, so that everything raises `SafetyStop` until
a person calls `reset`. Whatever the driver raises stops the robot, and so does a command that is none.

Every decision is kept as `Evidence`, in a ring buffer that can be saved and read back. A state that is in
order adds no entry of its own: the next command's entry shows it.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, NoReturn, TypeVar

import numpy as np

from dexprior.config import Ge, Gt, Le, config
from dexprior.envs.hardware.driver import Driver, RobotState
from dexprior.envs.hardware.envelope import Box, Envelope, Point
from dexprior.envs.hardware.evidence import Evidence, Rule, Verdict, save_evidence, trace_of
from dexprior.envs.hardware.gripper import gripper_of
from dexprior.envs.hardware.joints import JointRoom
from dexprior.envs.hardware.profile import RobotProfile
from dexprior.envs.panel import Panel
from dexprior.errors import BadInput, ConnectionLost, SafetyStop
from dexprior.robots.rigs import rig_chain
from dexprior.types import Command, CommandMode, Trace

__all__ = ["GateConfig", "SafetyGate"]

T = TypeVar("T")

_TOLERANCE = 1e-9  # relative: a command exactly at a limit passes
_MOVING = 1e-3  # [m/s, rad/s] above which a command must move the robot
_STILL = 1e-10  # [rad, m] an encoder that moves less between two states has not moved
_CLOCKS = 1e-3  # [s] by which a stamp of this host may lie in its future


@config
class GateConfig:
    """What the gate lets through. What depends on the robot and on its cell has no default; see `gate_config`."""

    robot: RobotProfile
    """Which robot, and how it slows down."""
    workspace_low: tuple[float, float, float]
    """Corner of the box in which the tool centre point must stay, base frame [m]."""
    workspace_high: tuple[float, float, float]
    """Its opposite corner [m]."""
    contact_zones: tuple[Box, ...]
    """Where the task means to touch; they may reach beyond the workspace."""
    contact_speed: Annotated[float, Gt(0), Le(0.05)]
    """Largest linear speed in a contact zone, and on the way into one [m/s]."""
    max_linear_speed: Annotated[float, Gt(0)]
    """Norm of the commanded linear velocity [m/s]."""
    max_angular_speed: Annotated[float, Gt(0)]
    """Norm of the commanded angular velocity [rad/s]."""
    max_force: Annotated[float, Gt(0)]
    """Norm of the measured force, between two states too, at which the robot is stopped [N]."""
    press_force: Annotated[float, Gt(0)]
    """Measured force from which a policy's commands are saturated so that they press no harder [N]."""
    max_saturated: Annotated[float, Ge(0), Le(1)] = 0.05
    """Share of the arm's numbers in an episode that may have been clipped to what an action may be; more stops the
    robot: whoever decides asks for motions that it was never given."""
    max_command_age: Annotated[float, Gt(0)] = 0.2
    """Between deciding on a command and sending it, either way [s]: one from the future has a bad clock."""
    max_state_age: Annotated[float, Gt(0)] = 0.5
    """Largest age of the state that a command is judged by, and how far two clocks may run apart between two states
    [s]."""
    max_frozen: Annotated[int, Ge(1)] = 3
    """States in a row in which the device's clock, or the joints of a robot that was told to move, may stand."""
    max_unread: Annotated[int, Ge(1)] = 1
    """Commands that may be sent on one state."""
    max_consecutive_refusals: Annotated[int, Ge(0)] = 5
    """One more refusal in a row stops the robot."""
    max_consecutive_failures: Annotated[int, Ge(0)] = 20
    """One more failed task in a row stops the robot."""
    session_seconds: Annotated[float, Gt(0)] = 3600.0
    """After which somebody must look at the robot and reset the gate [s]."""
    session_commands: Annotated[int, Ge(1)] = 100_000
    """The same in commands: 67 minutes at 25 a second."""
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

    def envelope(self, period: float) -> Envelope:
        """Speeds and places that leave room to stop, for commands of a period [s]."""
        return Envelope(
            Box(low=self.workspace_low, high=self.workspace_high),
            self.contact_zones,
            contact_speed=self.contact_speed,
            deceleration=self.robot.deceleration,
            delay=period + self.robot.watchdog + self.robot.lag,
        )


@dataclass(frozen=True, slots=True)
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
        episode: commands in an episode, of whose numbers `max_saturated` is a share.
        clock: monotonic seconds, as commands and states are stamped.
        lockstep: whether time passes on the robot only while it carries out a command: then neither a command nor a
            state ages, and the device's clock is not compared with this host's.
    """

    def __init__(
        self,
        config: GateConfig,
        *,
        episode: int = 75,
        clock: Callable[[], float] = time.monotonic,
        lockstep: bool = False,
    ) -> None:
        self.config = config
        self._clock, self._lockstep = clock, lockstep
        self._clipped = math.floor(config.max_saturated * 6 * episode * (1 + _TOLERANCE))  # numbers that may be
        self._joints = JointRoom(config.robot, config.joint_margin)
        gripper = gripper_of(rig_chain(config.robot.arm, config.robot.end)[0])
        self._widest = 0.0 if gripper is None else gripper.widest  # [m]
        self._envelope: Envelope | None = None
        self._period = -1.0
        self._evidence: deque[Evidence] = deque(maxlen=self.config.evidence)
        self._latched: Evidence | None = None
        self._sent = -1
        self._restart()

    def _restart(self) -> None:
        """Forget what a session remembers."""
        self._state: RobotState | None = None
        self._place: tuple[Point, tuple[float, ...], list[float]] = ((0.0, 0.0, 0.0), (), [])  # of the state, as floats
        self._last_seq: int | None = None
        self._refusals = self._failures = self._commands = self._unread = self._saturated = 0
        self._clock_stands = self._joints_stand = 0
        self._moving = False  # whether what was sent last must move the robot
        self._known_seq = -1  # largest that a robot may report, apart from what was sent
        self._began: float | None = None

    @property
    def latched(self) -> Evidence | None:
        """Why the robot is stopped; None while it may move."""
        return self._latched

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The decisions kept, oldest first."""
        return tuple(self._evidence)

    @property
    def moving(self) -> bool:
        """Whether what was sent last moves the robot, and nobody has stopped it."""
        return self._moving and self._latched is None

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
        wrong = _wrong_type(command)
        if wrong is not None:
            self._stop(_Finding("type", None, None, "1", wrong), driver, None)
        finding = self._judge(command, self._of_driver(lambda: float(driver.period), driver, command))
        # a late duplicate does not turn the count back
        self._last_seq = command.seq if self._last_seq is None else max(self._last_seq, command.seq)
        self._commands += 1
        self._unread += 1
        self._saturated += command.saturated
        if finding is not None and finding.stop:
            self._stop(finding, driver, command)
        self._refusals = 0 if finding is None else self._refusals + 1
        if finding is not None and self._refusals > self.config.max_consecutive_refusals:
            reason = f"{self._refusals} commands refused in a row; the last one: {finding.message}"
            limit = float(self.config.max_consecutive_refusals)
            self._stop(_Finding("refusals", float(self._refusals), limit, "1", reason), driver, command)
        decision = self._record("pass" if finding is None else "refuse", finding, command)
        self._sent += 1
        if finding is None:
            self._moving = max(map(abs, command.value.tolist())) > _MOVING
            outgoing = replace(command, seq=self._sent)
        else:
            self._moving = False
            outgoing = _hold(self._sent, command.t)
        self._of_driver(lambda: driver.send(outgoing), driver, command)
        return decision

    def read(self, driver: Driver, read: Callable[[], RobotState] | None = None) -> RobotState:
        """The robot's state, looked at.

        Args:
            driver: the robot.
            read: gives what the driver read in another thread.

        Raises:
            SafetyStop: the force is too high, the state makes no sense, or the robot has stopped itself.
            ConnectionLost: the robot is gone; the gate is latched.
        """
        self.require_unlatched()
        return self.look(self._of_driver(read or driver.read, driver, None), driver)

    def prepare(self, instance: Panel, driver: Driver, prepare: Callable[[], RobotState] | None = None) -> RobotState:
        """Let the driver go home with the objects placed; the state afterwards, looked at.

        Args:
            instance: where the objects are; a panel of one.
            driver: the robot.
            prepare: gives the state where the driver went home in another thread.

        Raises:
            SafetyStop, ConnectionLost: as `read`.
        """
        self.require_unlatched()
        self._moving, self._unread, self._saturated = False, 0, 0
        return self.look(self._of_driver(prepare or (lambda: driver.prepare(instance)), driver, None), driver)

    def look(self, state: RobotState, driver: Driver) -> RobotState:
        """Judge a state that came otherwise than by `read`; errors as there."""
        if not isinstance(state, RobotState):
            what = f"the driver gave {type(state).__name__} for a state"
            self._stop(_Finding("state", None, None, "1", what), driver, None)
        before, self._state = self._state, state
        tcp = state.tcp.tolist()
        self._place = (tcp[0], tcp[1], tcp[2]), tuple(state.wrench.tolist()), state.q.tolist()
        now = self._clock()
        self._began = now if self._began is None else self._began
        finding = self._judge_state(state, before, now)
        self._unread = 0
        if finding is not None:
            self._stop(finding, driver, None)
        return state

    def episode(self, succeeded: bool | None, driver: Driver) -> None:
        """Count a task that ended; None where nobody knows how.

        Raises:
            SafetyStop: too many failed in a row.
        """
        self.require_unlatched()
        if succeeded is None:
            return
        self._failures = 0 if succeeded else self._failures + 1
        limit = self.config.max_consecutive_failures
        if self._failures > limit:
            reason = f"{self._failures} tasks failed in a row"
            self._stop(_Finding("failures", float(self._failures), float(limit), "1", reason), driver, None)

    def understand(self, parse: Callable[[], Command], driver: Driver) -> Command:
        """The command in a message; one that cannot be understood stops the robot.

        Raises:
            SafetyStop: it is none, or the robot was stopped before.
        """
        self.require_unlatched()
        try:
            return parse()
        except BadInput as error:
            self._stop(_Finding("type", None, None, "1", str(error)), driver, None)

    def silence(self, seconds: float, driver: Driver) -> None:
        """Hold a robot whose next command did not come in time. It may go on with the next one.

        Raises:
            SafetyStop, ConnectionLost: the robot does not answer; the gate is latched.
        """
        limit = self.config.robot.watchdog
        self._hold(_Finding("watchdog", seconds, limit, "s", f"no command for {seconds:.3f} s"), driver)

    def release(self, driver: Driver) -> None:
        """Leave a robot that stands, for whoever drives next; errors as `silence`."""
        if self.moving:
            self._hold(_Finding("connection", None, None, "1", "whoever drove the robot said goodbye"), driver)
        self._last_seq = None

    def emergency_stop(
        self, driver: Driver, reason: str, *, rule: Literal["emergency_stop", "connection"] = "emergency_stop"
    ) -> None:
        """Latch and stop the robot, whatever it is doing.

        A `read` that waits in another thread may delay the stop by up to a period.

        Args:
            driver: the robot.
            reason: kept as evidence.
            rule: `connection` where whoever decides is gone.

        Raises:
            ConnectionLost: the robot cannot be reached; the gate is latched all the same.
        """
        self._latch(_Finding(rule, None, None, "1", reason), None)
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
        self._latched = None
        self._restart()
        self._record("pass", _Finding("reset", None, None, "1", f"reset by {by}"), None)

    def trace(self, panel_hash: str = "") -> Trace:
        """The evidence as signals; see `trace_of`."""
        return trace_of(self._evidence, panel_hash)

    def save(self, folder: str | Path, panel_hash: str = "") -> Path:
        """Write the evidence into a folder; see `save_evidence`."""
        return save_evidence(folder, self._evidence, config=self.config, latched=self._latched, panel_hash=panel_hash)

    # --- judging --------------------------------------------------------------------------------------------

    def _judge(self, command: Command, period: float) -> _Finding | None:
        """The first rule that a command breaks: those that others rely on come first."""
        c, state, now = self.config, self._state, self._clock()
        value = command.value.tolist()
        spent = 0.0 if self._began is None else now - self._began
        if spent > c.session_seconds or self._commands >= c.session_commands:
            over = (
                ("s", spent, c.session_seconds)
                if spent > c.session_seconds
                else ("1", float(self._commands), float(c.session_commands))
            )
            return _Finding("session", over[1], over[2], over[0], "the session is over: look at the robot", stop=True)
        bad = sum(not math.isfinite(v) for v in (*value, command.t, command.gripper or 0.0))
        if bad:
            return _Finding("finite", float(bad), 0.0, "1", f"{bad} number(s) are not finite", stop=True)
        clipped = self._saturated + command.saturated
        if clipped > self._clipped:
            what = f"{clipped} of the arm's numbers in this episode were beyond what an action may be, and clipped"
            return _Finding("saturated", float(clipped), float(self._clipped), "1", what, stop=True)
        if command.mode not in c.modes or len(value) != 6:
            known = ", ".join(c.modes)
            return _Finding(
                "mode", float(len(value)), 6.0, "1",
                f"mode {command.mode!r} with {len(value)} numbers; known here: {known} with 6",
            )  # fmt: skip
        missing = 0 if self._last_seq is None else command.seq - self._last_seq - 1
        if not 0 <= missing <= c.max_sequence_gap:
            what = f"{missing} command(s) are missing before it" if missing > 0 else "it was sent before or is late"
            return _Finding("sequence", float(missing), float(c.max_sequence_gap), "1", what)
        age = now - command.t
        if not self._lockstep and abs(age) > c.max_command_age:
            what = "old" if age > 0 else "in the future: the sender's clock is not the gate's"
            return _Finding("age", age, c.max_command_age, "s", f"decided {abs(age):.3f} s {what}")
        age = 0.0 if state is None or self._lockstep else now - state.t_host
        if state is None or not age <= c.max_state_age:
            return _Finding(
                "state_age", None if state is None else age, c.max_state_age, "s", "no recent state to judge it by"
            )
        if self._unread >= c.max_unread:
            what = f"{self._unread} command(s) were sent since the last state: read one first"
            return _Finding("unread", float(self._unread), float(c.max_unread), "1", what)
        return self._judge_motion(command, value, period, max(age, 0.0))

    def _judge_motion(self, command: Command, value: list[float], period: float, age: float) -> _Finding | None:
        c = self.config
        speed, turn = math.hypot(*value[:3]), math.hypot(*value[3:])
        if speed > c.max_linear_speed * (1 + _TOLERANCE):
            return _Finding("linear_speed", speed, c.max_linear_speed, "m/s", f"{speed:.3f} m/s asked for")
        if turn > c.max_angular_speed * (1 + _TOLERANCE):
            return _Finding("angular_speed", turn, c.max_angular_speed, "rad/s", f"{turn:.3f} rad/s asked for")
        opening = command.gripper
        if opening is not None and not -_TOLERANCE <= opening <= self._widest + _TOLERANCE:
            return _Finding("opening", opening, self._widest, "m", f"opening of {opening:.4f} m asked for")
        return self._judge_place(value, speed, period, age) or self._judge_joints(value, period)

    def _judge_place(self, value: list[float], speed: float, period: float, age: float) -> _Finding | None:
        """Where the tool would stand if this command were the last; what is outside already may come back."""
        if self._envelope is None or period != self._period:
            self._envelope, self._period = self.config.envelope(period), period
        envelope, (place, _, _) = self._envelope, self._place
        ahead = envelope.ahead(place, (value[0], value[1], value[2]), speed, age)
        limit = envelope.contact_speed
        if speed > limit * (1 + _TOLERANCE) and envelope.touches(place, ahead):
            what = f"{speed:.3f} m/s would reach into a contact zone"
            return _Finding("contact_speed", speed, limit, "m/s", what)
        axis = envelope.leaves(place, ahead)
        if axis is not None:
            box = envelope.workspace
            edge = box.low[axis] if ahead[axis] < box.low[axis] else box.high[axis]
            what = f"the tool could stop no sooner than at {'xyz'[axis]} = {ahead[axis]:.4f} m, outside the workspace"
            return _Finding("workspace", ahead[axis], edge, "m", what)
        return None

    def _judge_joints(self, value: list[float], period: float) -> _Finding | None:
        """Joints one period ahead, as the arm's controller moves them."""
        _, _, q = self._place
        found = self._joints.worst(q, value, period)
        if found is None:
            return None
        joint, worst = found
        what = f"joint {joint + 1} would come within {worst:.3f} of its limit"
        return _Finding("joint_limits", worst, self.config.joint_margin, "rad", what)

    def _judge_state(self, state: RobotState, before: RobotState | None, now: float) -> _Finding | None:
        c, (_, wrench, q) = self.config, self._place
        if len(q) != self._joints.joints:
            what = f"the robot reports {len(q)} joints; {c.robot.arm!r} has {self._joints.joints}"
            return _Finding("state", float(len(q)), float(self._joints.joints), "1", what)
        force = max(state.peak_force, math.hypot(*wrench[:3]))
        if force > c.max_force:
            return _Finding("force", force, c.max_force, "N", f"{force:.1f} N on the tool")
        if state.status == "stopped":
            return _Finding("robot", None, None, "1", "the robot has stopped itself")
        if state.t_host > now + _CLOCKS:
            ahead = state.t_host - now
            return _Finding("state", ahead, _CLOCKS, "s", f"the state arrived {ahead:.3f} s in the future")
        if before is None:
            self._known_seq = state.seq
            return None
        if state.seq > max(self._sent, self._known_seq):
            what = f"the robot says that it carried out command {state.seq}; {self._sent} was the last one sent"
            return _Finding("state", float(state.seq), float(self._sent), "1", what)
        return self._judge_progress(state, before)

    def _judge_progress(self, state: RobotState, before: RobotState) -> _Finding | None:
        """What must have changed since the state before."""
        c, step = self.config, state.t - before.t
        if step < 0:
            return _Finding("state", step, 0.0, "s", f"the device's clock went back by {-step:.3f} s: it restarted")
        apart = 0.0 if self._lockstep else step - (state.t_host - before.t_host)
        if apart > c.max_state_age:
            what = f"the device's clock went {apart:.3f} s ahead of this host's between two states"
            return _Finding("state", apart, c.max_state_age, "s", what)
        if self._unread:
            self._clock_stands = self._clock_stands + 1 if step == 0 else 0
            moved = len(before.q) != len(state.q) or float(np.abs(state.q - before.q).max(initial=0.0)) > _STILL
            self._joints_stand = self._joints_stand + 1 if self._moving and not moved else 0
        frozen = max(self._clock_stands, self._joints_stand)
        if frozen > c.max_frozen:
            what = (
                "device's clock stands"
                if self._clock_stands >= self._joints_stand
                else "joints stand though the robot was told to move"
            )
            return _Finding("frozen", float(frozen), float(c.max_frozen), "1", f"for {frozen} states the {what}")
        return None

    def _hold(self, finding: _Finding, driver: Driver) -> None:
        """Stand still for a reason that is nobody's command."""
        self.require_unlatched()
        self._record("refuse", finding, None)
        self._moving = False
        self._sent += 1
        hold = _hold(self._sent, self._clock())
        self._of_driver(lambda: driver.send(hold), driver, None)

    # --- acting ---------------------------------------------------------------------------------------------

    def _stop(self, finding: _Finding, driver: Driver, command: Command | None) -> NoReturn:
        """Latch first, so that nothing is sent whatever happens next; then stop the robot."""
        self._latch(finding, command)
        message = f"{finding.rule}: {finding.message}"
        if finding.value is not None and finding.limit is not None:
            message += f" (value {finding.value:.4g} {finding.unit}, limit {finding.limit:.4g})"
        try:
            driver.stop()
        except Exception as error:  # the outermost edge of somebody else's driver
            raise SafetyStop(f"{message}; and the robot cannot be reached to stop it: {error}") from error
        raise SafetyStop(message)

    def _of_driver(self, call: Callable[[], T], driver: Driver, command: Command | None) -> T:
        """What the driver answers; whatever it raises stops the robot."""
        try:
            return call()
        except SafetyStop as error:
            self._latch(_Finding("robot", None, None, "1", str(error)), command)
            raise
        except OSError as error:  # ConnectionLost and TimeoutError among them: the robot may still hear a stop
            self._latch(_Finding("connection", None, None, "1", str(error) or repr(error)), command)
            self._try_stop(driver)
            raise error if isinstance(error, ConnectionLost) else ConnectionLost(f"robot: {error!r}") from error
        except Exception as error:  # noqa: BLE001  # the outermost edge of somebody else's driver; it may be in motion
            self._stop(_Finding("robot", None, None, "1", str(error) or repr(error)), driver, command)

    def _try_stop(self, driver: Driver) -> None:
        """Stop a robot that is probably gone; that it is, has been kept already."""
        try:
            driver.stop()
        except Exception as error:  # noqa: BLE001
            self._latch(_Finding("connection", None, None, "1", f"it cannot be told to stop: {error}"), None)

    def _latch(self, finding: _Finding, command: Command | None) -> None:
        """Keep the first cause: what follows from a stop does not replace it."""
        entry = self._record("stop", finding, command)
        if self._latched is None:
            self._latched = entry

    def _record(self, verdict: Verdict, finding: _Finding | None, command: Command | None) -> Evidence:
        state, (place, wrench, _) = self._state, self._place
        known = finding or _EVERY_RULE_KEPT
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
            command=None if command is None else tuple(command.value.tolist()),
            gripper=None if command is None else command.gripper,
            tcp=None if state is None else place,
            wrench=None if state is None else wrench,
        )
        self._evidence.append(entry)
        return entry


_EVERY_RULE_KEPT = _Finding("all", None, None, "1", "every rule kept")


def _hold(seq: int, t: float) -> Command:
    """A period of standing still; the gripper stays as it is."""
    return Command(seq=seq, t=t, mode="cartesian_velocity", value=np.zeros(6), gripper=None)


def _wrong_type(command: object) -> str | None:
    """What makes something no command that can be judged; None if it is one."""
    if not isinstance(command, Command):
        return f"a {type(command).__name__} was sent for a command"
    for name in ("seq", "saturated"):
        value = getattr(command, name)
        if not isinstance(value, int) or isinstance(value, bool):
            return f"{name} is {value!r:.80}, expected a whole number"
    for name in ("t", "gripper"):
        value = getattr(command, name)
        if (value is None and name == "t") or (value is not None and type(value) not in (float, int, np.float64)):
            return f"{name} is {value!r:.80}, expected a number"
    return None
