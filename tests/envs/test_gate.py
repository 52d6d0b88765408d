"""Each rule of the gate fires when it should and not otherwise; a stop lasts; evidence stays."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from gate_reference import CELL, EPISODE, changed, fuzz

from dexprior.artifacts import load
from dexprior.config import to_plain, validate
from dexprior.envs import wire
from dexprior.envs.hardware import Box, Evidence, GateConfig, RobotState, SafetyGate, load_evidence
from dexprior.errors import BadInput, ConfigError, ConnectionLost, SafetyStop
from dexprior.robots.arm7 import JOINT_LIMITS
from dexprior.robots.rigs import rig_chain
from dexprior.types import Command, Trace


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 10.0

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now


@dataclass
class Recorder:
    """A robot that notes what it is told, and says what it is told to say."""

    state: RobotState
    period: float = 0.04
    real_time: bool = False
    sent: list[Command] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    failure: Exception | None = None

    def read(self) -> RobotState:
        if self.failure is not None:
            raise self.failure
        return self.state

    def lives(self, clock: Clock) -> None:
        """A period passes: its clock and its joints move on."""
        self.state = replace(self.state, t=self.state.t + 0.04, t_host=clock.now, q=self.state.q + 1e-6)

    def send(self, command: Command) -> None:
        if self.failure is not None:
            raise self.failure
        self.sent.append(command)

    def stop(self) -> None:
        self.calls.append("stop")
        if isinstance(self.failure, ConnectionLost):
            raise self.failure

    def recover(self) -> None:
        self.calls.append("recover")

    def connect(self) -> None:
        pass

    def prepare(self, instance) -> RobotState:
        return self.state

    def close(self) -> None:
        pass


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def robot(state) -> Recorder:
    return Recorder(state)


def _gate(clock: Clock, robot: Recorder, **limits) -> SafetyGate:
    gate = SafetyGate(changed(**limits), episode=EPISODE, clock=clock)
    gate.read(robot)
    return gate


def _send(gate: SafetyGate, command: Command, robot: Recorder, clock: Clock) -> Evidence:
    """Send, and read the state after the command's period."""
    decision = gate.send(command, robot)
    robot.lives(clock)
    gate.read(robot)
    return decision


def _command(clock: Clock, seq: int = 0, twist=(0.1, 0, 0, 0, 0, 0), **change) -> Command:
    values = {
        "seq": seq,
        "t": clock.now,
        "mode": "cartesian_velocity",
        "value": np.array(twist),
        "gripper": 0.05,
    }
    return Command(**(values | change))


def _at(state: RobotState, **change) -> RobotState:
    if "position" in change:
        change["tcp"] = np.array([*change.pop("position"), *state.tcp[3:]])
    return replace(state, **change)


def _near_limit(margin: float) -> np.ndarray:
    """A posture with joint 6 at a distance from its upper limit."""
    q = np.array([0.0, 0.1, 0.0, -2.2, 0.0, 2.3, math.pi / 4])
    q[5] = JOINT_LIMITS[5, 1] - margin
    return q


def test_a_good_command_passes_unchanged(clock, robot):
    gate = _gate(clock, robot)
    command = _command(clock, seq=7)
    decision = _send(gate, command, robot, clock)
    assert (decision.verdict, decision.rule) == ("pass", "all")
    np.testing.assert_array_equal(robot.sent[0].value, command.value)
    assert robot.sent[0].gripper == command.gripper
    assert robot.calls == []


REFUSED = {
    "mode": {"mode": "joint_position"},
    "mode of another size": {"value": np.zeros(5)},
    "linear_speed": {"value": np.array([0.6, 0.6, 0.6, 0, 0, 0])},
    "angular_speed": {"value": np.array([0, 0, 0, 3.0, 3.0, 0])},
    "opening": {"gripper": 0.081},
    "opening below": {"gripper": -0.001},
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_command_becomes_a_hold(clock, robot, name):
    gate = _gate(clock, robot)
    decision = _send(gate, _command(clock, **REFUSED[name]), robot, clock)
    assert (decision.verdict, decision.rule) == ("refuse", name.split()[0])
    assert not robot.sent[0].value.any()
    assert robot.sent[0].gripper is None
    assert gate.latched is None
    assert _send(gate, _command(clock, seq=1), robot, clock).verdict == "pass"


@pytest.mark.parametrize("twist", [(0.9, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 3.5), (0.5, 0.5, 0.5, 2, 2, 2)])
def test_a_command_at_the_limit_passes(clock, robot, twist):
    assert _gate(clock, robot).send(_command(clock, twist=twist), robot).verdict == "pass"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["value", "gripper", "t"])
def test_a_number_that_is_not_finite_stops_the_robot(clock, robot, value, where):
    gate = _gate(clock, robot)
    bad = np.array([0.0, value, 0, 0, 0, 0]) if where == "value" else value
    with pytest.raises(SafetyStop, match="finite"):
        _send(gate, _command(clock, **{where: bad}), robot, clock)
    assert robot.calls == ["stop"]
    assert robot.sent == []


def test_a_stop_lasts_until_somebody_resets_it(clock, robot):
    gate = _gate(clock, robot)
    with pytest.raises(SafetyStop):
        _send(gate, _command(clock, twist=[math.nan] * 6), robot, clock)
    for _ in range(3):
        with pytest.raises(SafetyStop, match=r"was stopped \(finite"):
            _send(gate, _command(clock, seq=1), robot, clock)
        with pytest.raises(SafetyStop):
            gate.read(robot)
    assert robot.sent == []
    with pytest.raises(BadInput, match="who looked"):
        gate.reset(robot, by=" ")
    gate.reset(robot, by="Ada")
    assert robot.calls == ["stop", "recover"]
    gate.read(robot)
    assert _send(gate, _command(clock, seq=40), robot, clock).verdict == "pass"  # the count starts again
    assert "Ada" in next(e.message for e in gate.evidence if e.rule == "reset")


def test_too_many_clipped_numbers_in_one_episode_stop_the_robot(clock, robot, instance):
    """A share of all the arm's numbers in an episode: 6 in each of 75 commands, of which 22 are not yet 5 %."""
    gate = _gate(clock, robot)
    for seq in range(11):
        assert _send(gate, _command(clock, seq, saturated=2), robot, clock).verdict == "pass"
    assert _send(gate, _command(clock, 11), robot, clock).verdict == "pass"
    with pytest.raises(SafetyStop, match="saturated: 23 of the arm's numbers in this episode were beyond"):
        gate.send(_command(clock, 12, saturated=1), robot)
    assert robot.calls == ["stop"]
    gate.reset(robot, by="Ada")
    gate.prepare(instance, robot)
    assert _send(gate, _command(clock, 0, saturated=6), robot, clock).verdict == "pass"  # counted anew


def test_each_episode_counts_its_own_clipped_numbers(clock, robot, instance):
    gate = _gate(clock, robot)
    for seq in range(20):
        gate.prepare(instance, robot)
        assert _send(gate, _command(clock, seq, saturated=6), robot, clock).verdict == "pass"


def test_a_command_that_was_no_action_is_judged_as_sent(clock, robot):
    gate = _gate(clock, robot)
    assert _send(gate, _command(clock, 0, [1.5, 0, 0, 0, 0, 0]), robot, clock).rule == "linear_speed"
    assert not robot.sent[0].value.any()


@pytest.mark.parametrize(
    ("age", "verdict"), [(0.0, "pass"), (0.15, "pass"), (0.25, "refuse"), (-0.15, "pass"), (-0.25, "refuse")]
)
def test_a_command_must_be_fresh(clock, robot, age, verdict):
    decision = _gate(clock, robot).send(_command(clock, t=clock.now - age), robot)
    assert decision.verdict == verdict
    assert decision.rule == ("age" if verdict == "refuse" else "all")


def test_a_command_is_not_judged_by_an_old_state(clock, robot):
    gate = _gate(clock, robot)
    clock.now += 0.4
    assert _send(gate, _command(clock), robot, clock).verdict == "pass"
    clock.now += 0.6
    assert gate.send(_command(clock, seq=1), robot).rule == "state_age"


def test_in_lockstep_a_state_does_not_age(clock, robot):
    gate = SafetyGate(CELL, clock=clock, lockstep=True)
    gate.read(robot)
    clock.now += 100.0
    assert gate.send(_command(clock, twist=[0.9, 0, 0, 0, 0, 0]), robot).verdict == "pass"


def test_in_lockstep_a_command_does_not_age(clock, robot):
    """A busy machine changes no result: nothing moves while it is late."""
    gate = SafetyGate(CELL, clock=clock, lockstep=True)
    gate.read(robot)
    assert gate.send(_command(clock, t=clock.now - 5.0), robot).verdict == "pass"


def test_without_any_state_nothing_passes(clock, robot):
    assert SafetyGate(CELL, clock=clock).send(_command(clock), robot).rule == "state_age"


@pytest.mark.parametrize(
    ("seqs", "rules"),
    [
        ([3, 4, 5], ["all", "all", "all"]),
        ([0, 2, 3], ["all", "sequence", "all"]),
        ([5, 5, 6], ["all", "sequence", "all"]),
        ([5, 4, 6], ["all", "sequence", "all"]),
    ],
)
def test_lost_and_repeated_commands(clock, robot, seqs, rules):
    gate = _gate(clock, robot)
    assert [_send(gate, _command(clock, seq=k), robot, clock).rule for k in seqs] == rules
    assert [command.seq for command in robot.sent] == [0, 1, 2]  # what the robot gets has no gap


def test_a_gap_may_be_allowed(clock, robot):
    gate = _gate(clock, robot, max_sequence_gap=1)
    assert [_send(gate, _command(clock, seq=k), robot, clock).rule for k in (0, 2, 5)] == ["all", "all", "sequence"]


OPEN = changed(workspace_low=(0.2, -0.4, 0.0), contact_zones=())
"""A workspace without a zone."""


@pytest.mark.parametrize("age", [0.0, 0.15])
@pytest.mark.parametrize("speed", [0.3, 0.9])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("side", ["low", "high"])
def test_the_tool_can_stop_before_the_workspace_ends(clock, robot, state, axis, side, speed, age):
    """Speed times (age, period, watchdog and lag), and then the way of slowing down."""
    edge = (OPEN.workspace_low if side == "low" else OPEN.workspace_high)[axis]
    outward = -1.0 if side == "low" else 1.0
    robot_of = OPEN.robot
    reach = speed * (age + 0.04 + robot_of.watchdog + robot_of.lag) + speed**2 / (2 * robot_of.deceleration)
    twist = np.zeros(6)
    twist[axis] = outward * speed
    verdicts = {}
    for spare in (-0.002, 0.002):
        position = np.array([0.45, 0.0, 0.3])
        position[axis] = edge - outward * (reach + spare)
        robot.state = _at(state, position=position, t_host=clock.now)
        gate = SafetyGate(OPEN, clock=clock)
        gate.read(robot)
        clock.now += age
        decision = gate.send(_command(clock, 0, twist), robot)
        verdicts[spare] = (decision.verdict, decision.rule, decision.limit)
    assert verdicts == {-0.002: ("refuse", "workspace", edge), 0.002: ("pass", "all", None)}


def test_the_way_along_a_border_is_free(clock, robot, state):
    robot.state = _at(state, position=[0.45, 0.0, 0.001])
    gate = SafetyGate(OPEN, clock=clock)
    gate.read(robot)
    assert gate.send(_command(clock, 0, [0, 0.9, 0, 0, 0, 0]), robot).verdict == "pass"


ZONE = Box(low=(0.4, -0.1, -0.01), high=(0.5, 0.1, 0.05))


@pytest.mark.parametrize(
    ("position", "velocity", "rule"),
    [
        ((0.45, 0.0, 0.04), (0, 0, -0.03), "all"),  # in the zone, as slowly as one must
        ((0.45, 0.0, 0.04), (0, 0, -0.04), "contact_speed"),
        ((0.45, 0.0, 0.04), (0.04, 0, 0), "contact_speed"),  # whatever the direction
        ((0.45, 0.0, 0.04), (0, 0, 0.04), "contact_speed"),
        ((0.45, 0.0, 0.25), (0, 0, -0.9), "all"),  # far enough above it
        ((0.45, 0.0, 0.15), (0, 0, -0.9), "contact_speed"),
        ((0.45, 0.0, 0.06), (0, 0.9, 0), "all"),  # over it
        ((0.35, 0.0, 0.06), (0.3, 0, -0.01), "all"),  # past its edge
        ((0.35, 0.0, 0.04), (0.9, 0, 0), "contact_speed"),  # into its side
        ((0.45, 0.0, 0.052), (0, 0, -0.03), "all"),  # slowly into it, and below the workspace's floor
        ((0.45, 0.0, 0.022), (0, 0, -0.03), "all"),
        ((0.55, 0.0, 0.022), (0, 0, -0.03), "workspace"),  # where there is no zone, there is a floor
    ],
)
def test_contact_zones(clock, robot, state, position, velocity, rule):
    robot.state = _at(state, position=list(position))
    gate = _gate(clock, robot, workspace_low=(0.2, -0.4, 0.02), contact_zones=(ZONE,))
    assert gate.send(_command(clock, 0, [*velocity, 0, 0, 0]), robot).rule == rule


def test_no_limit_of_a_contact_zone_is_above_five_centimetres_a_second():
    with pytest.raises(ConfigError, match="contact_speed"):
        validate(GateConfig, to_plain(CELL) | {"contact_speed": 0.051})


def test_a_tool_outside_may_come_back(clock, robot, state):
    robot.state = _at(state, position=[0.25, 0.3, -0.02])
    gate = _gate(clock, robot)
    assert _send(gate, _command(clock, 0, [0, 0, 0.1, 0, 0, 0]), robot, clock).verdict == "pass"
    assert _send(gate, _command(clock, 1, [0, 0, -0.1, 0, 0, 0]), robot, clock).rule == "workspace"


def test_joint_limits(clock, robot, state):
    """Rotating the hand about the axis of joint 6 turns that joint; one way leads into its limit."""
    outcomes = {}
    for margin in (0.06, 0.5):
        robot.state = replace(state, q=_near_limit(margin), t_host=clock.now)
        gate = _gate(clock, robot, joint_margin=0.05)
        for seq, sign in enumerate((1.0, -1.0)):
            outcomes[margin, sign] = _send(gate, _command(clock, seq, [0, 0, 0, 0, sign * 2.0, 0]), robot, clock).rule
    assert sorted([outcomes[0.06, 1.0], outcomes[0.06, -1.0]]) == ["all", "joint_limits"]
    assert outcomes[0.5, 1.0] == outcomes[0.5, -1.0] == "all"


def test_an_arm_at_its_limit_may_come_back(clock, robot, state):
    robot.state = replace(state, q=_near_limit(0.01))
    gate = _gate(clock, robot)
    rules = {_send(gate, _command(clock, k, [0, 0, 0, 0, w, 0]), robot, clock).rule for k, w in enumerate((1.0, -1.0))}
    assert rules == {"all", "joint_limits"}


@pytest.mark.parametrize(("force", "stops"), [(59.0, False), (61.0, True)])
def test_force(clock, robot, state, force, stops):
    robot.state = replace(state, wrench=np.array([0, force * 0.6, force * 0.8, 0, 0, 0]))
    gate = SafetyGate(CELL, clock=clock)
    if not stops:
        assert gate.read(robot) is robot.state
        return
    with pytest.raises(SafetyStop, match=r"force: 61\.0 N.*limit 60"):
        gate.read(robot)
    assert robot.calls == ["stop"]
    assert gate.latched is not None
    assert (gate.latched.rule, gate.latched.value, gate.latched.limit) == ("force", pytest.approx(61.0), 60.0)


def test_a_force_between_two_states_counts_too(clock, robot, state):
    robot.state = replace(state, peak_force=61.0)
    with pytest.raises(SafetyStop, match="force"):
        SafetyGate(CELL, clock=clock).read(robot)


def test_too_many_refusals_in_a_row_stop(clock, robot):
    gate = _gate(clock, robot, max_consecutive_refusals=2)
    fast = [2.0, 0, 0, 0, 0, 0]
    for seq, twist in enumerate([fast, fast, [0] * 6, fast, fast]):  # never three in a row
        _send(gate, _command(clock, seq, twist), robot, clock)
    with pytest.raises(SafetyStop, match=r"3 commands refused in a row; the last one: 2\.000 m/s"):
        _send(gate, _command(clock, 5, fast), robot, clock)
    assert robot.calls == ["stop"]


def test_emergency_stop(clock, robot):
    gate = _gate(clock, robot)
    gate.emergency_stop(robot, "a hand in the cell")
    assert robot.calls == ["stop"]
    with pytest.raises(SafetyStop, match="a hand in the cell"):
        _send(gate, _command(clock), robot, clock)


def test_the_first_cause_of_a_stop_is_kept(clock, robot):
    gate = _gate(clock, robot)
    gate.emergency_stop(robot, "first")
    gate.emergency_stop(robot, "second")
    assert gate.latched is not None
    assert gate.latched.message == "first"
    assert [e.message for e in gate.evidence] == ["first", "second"]


def test_a_robot_that_stopped_itself_stays_stopped(clock, robot, state):
    gate = _gate(clock, robot)
    robot.state = replace(state, status="stopped")
    with pytest.raises(SafetyStop, match="stopped itself"):
        gate.read(robot)
    assert gate.latched is not None


def test_a_device_that_restarted_is_not_trusted(clock, robot, state):
    gate = _gate(clock, robot)
    robot.state = replace(state, t=3.0)
    with pytest.raises(SafetyStop, match="clock went back"):
        gate.read(robot)


@pytest.mark.parametrize("call", ["read", "send"])
@pytest.mark.parametrize(
    ("failure", "expected", "rule"),
    [
        (ConnectionLost("gone"), ConnectionLost, "connection"),
        (TimeoutError("slow"), ConnectionLost, "connection"),
        (OSError("unplugged"), ConnectionLost, "connection"),
        (BadInput("not a state"), SafetyStop, "robot"),
        (RuntimeError("reflex"), SafetyStop, "robot"),
        (ZeroDivisionError("a driver's own fault"), SafetyStop, "robot"),
    ],
)
def test_whatever_the_driver_raises_latches_and_stops(clock, robot, call, failure, expected, rule):
    gate = _gate(clock, robot)
    robot.failure = failure
    with pytest.raises(expected):
        gate.read(robot) if call == "read" else gate.send(_command(clock), robot)
    assert robot.calls == ["stop"]
    robot.failure = None
    assert gate.latched is not None
    assert gate.latched.rule == rule
    with pytest.raises(SafetyStop, match="was stopped"):
        gate.send(_command(clock, seq=1), robot)


def test_a_robot_that_stopped_itself_need_not_be_told(clock, robot):
    gate = _gate(clock, robot)
    robot.failure = SafetyStop("stopped")
    with pytest.raises(SafetyStop):
        gate.read(robot)
    assert gate.latched is not None
    assert robot.calls == []


@pytest.mark.parametrize(
    "command",
    [
        None,
        "forward",
        {"seq": 0},
        Command(seq="0", t=10.0, mode="cartesian_velocity", value=np.zeros(6)),  # type: ignore[arg-type]
        Command(seq=True, t=10.0, mode="cartesian_velocity", value=np.zeros(6)),
        Command(seq=0.5, t=10.0, mode="cartesian_velocity", value=np.zeros(6)),  # type: ignore[arg-type]
        Command(seq=0, t=None, mode="cartesian_velocity", value=np.zeros(6)),  # type: ignore[arg-type]
        Command(seq=0, t="now", mode="cartesian_velocity", value=np.zeros(6)),  # type: ignore[arg-type]
        Command(seq=0, t=10.0, mode="cartesian_velocity", value=np.zeros(6), gripper="wide"),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_what_is_no_command_latches_and_stops(clock, robot, command):
    gate = _gate(clock, robot)
    with pytest.raises(SafetyStop, match="type"):
        gate.send(command, robot)
    assert robot.calls == ["stop"]
    assert robot.sent == []
    assert gate.latched.rule == "type"


def test_a_message_that_holds_no_command_latches_and_stops(clock, robot):
    gate = _gate(clock, robot)
    with pytest.raises(SafetyStop, match="not a command"):
        gate.understand(lambda: wire.command_from_plain({"seq": 0, "mode": "dance"}), robot)
    assert robot.calls == ["stop"]


def test_commands_on_one_state_are_refused(clock, robot):
    gate = _gate(clock, robot)
    assert gate.send(_command(clock, 0), robot).rule == "all"
    assert gate.send(_command(clock, 1), robot).rule == "unread"
    robot.lives(clock)
    gate.read(robot)
    assert gate.send(_command(clock, 2), robot).rule == "all"


def _drive(gate, robot, clock, live, count: int = 10) -> int:
    """Send and read; how many commands passed until it was stopped."""
    for k in range(count):
        try:
            gate.send(_command(clock, k), robot)
            live()
            gate.read(robot)
        except SafetyStop:
            return k
    return count


@pytest.mark.parametrize("frozen", ["t", "q"])
def test_a_device_whose_clock_or_joints_stand_while_it_should_move_is_stopped(clock, robot, frozen):
    gate = _gate(clock, robot, max_frozen=3)
    still = getattr(robot.state, frozen)

    def live() -> None:
        robot.lives(clock)
        robot.state = replace(robot.state, **{frozen: still})

    assert _drive(gate, robot, clock, live) == 3
    assert gate.latched.rule == "frozen"
    assert robot.calls == ["stop"]


def test_joints_may_stand_while_nothing_moves_them(clock, robot):
    gate = _gate(clock, robot)
    still = robot.state.q
    for k in range(10):
        gate.send(_command(clock, k, [0.0] * 6), robot)
        robot.lives(clock)
        robot.state = replace(robot.state, q=still)
        gate.read(robot)
    assert gate.latched is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"t_host": 11.0}, "in the future"),
        ({"seq": 7}, "carried out command 7; 0 was the last"),
        ({"t": 1002.0}, "ahead of this host's"),
        ({"q": np.zeros(6), "qd": np.zeros(6)}, "reports 6 joints; 'arm7' has 7"),
    ],
)
def test_a_state_that_cannot_be_is_stopped(clock, robot, change, message):
    gate = _gate(clock, robot)
    gate.send(_command(clock), robot)
    robot.lives(clock)
    robot.state = replace(robot.state, **change)
    with pytest.raises(SafetyStop, match=message):
        gate.read(robot)
    assert gate.latched.rule == "state"


def test_no_state_is_a_stop_too(clock, robot):
    gate = _gate(clock, robot)
    robot.state = None
    with pytest.raises(SafetyStop, match="NoneType for a state"):
        gate.read(robot)


def test_tasks_that_fail_in_a_row_stop(clock, robot):
    gate = _gate(clock, robot, max_consecutive_failures=2)
    for outcome in (False, False, True, False, None, False):
        gate.episode(outcome, robot)
    with pytest.raises(SafetyStop, match="3 tasks failed in a row"):
        gate.episode(False, robot)
    assert (gate.latched.rule, robot.calls) == ("failures", ["stop"])


@pytest.mark.parametrize("limit", [{"session_seconds": 5.0}, {"session_commands": 4}])
def test_a_session_ends(clock, robot, limit):
    gate = _gate(clock, robot, **limit)

    def live() -> None:
        clock.now += 1.3
        robot.state = replace(robot.state, t_host=clock.now)
        robot.lives(clock)

    assert _drive(gate, robot, clock, live) == len(robot.sent) == 4
    assert gate.latched.rule == "session"
    assert robot.calls == ["stop"]
    gate.reset(robot, by="Ada")
    robot.lives(clock)
    gate.read(robot)
    assert gate.send(_command(clock, 0), robot).verdict == "pass"


def test_silence_becomes_a_hold_and_is_no_stop(clock, robot):
    gate = _gate(clock, robot)
    _send(gate, _command(clock, 0), robot, clock)
    gate.silence(0.2, robot)
    assert not robot.sent[-1].value.any()
    assert gate.evidence[-1].rule == "watchdog"
    assert gate.latched is None
    assert _send(gate, _command(clock, 1), robot, clock).verdict == "pass"


def test_a_goodbye_leaves_a_robot_that_stands_and_a_gate_for_the_next(clock, robot):
    gate = _gate(clock, robot)
    _send(gate, _command(clock, 9), robot, clock)
    gate.release(robot)
    assert not robot.sent[-1].value.any()
    assert _send(gate, _command(clock, 0), robot, clock).verdict == "pass"


def test_the_number_of_joints_is_the_rigs(clock, state):
    """A gantry of three slides and three hinges, which has six joints and other limits."""
    gantry = rig_chain("gantry", "parallel")[0].home
    robot = Recorder(replace(state, q=gantry, qd=np.zeros(6), tcp=np.array([0.45, 0.0, 0.3, 0, 1, 0, 0])))
    gate = SafetyGate(changed(robot=replace(CELL.robot, arm="gantry"), contact_zones=()), clock=clock)
    outcomes = []
    for slide, seq in ((0.45, 0), (0.949, 2)):  # the slide ends at 1 m, of which 5 cm are kept
        robot.state = replace(robot.state, q=np.array([slide, *gantry[1:]]))
        gate.read(robot)
        outcomes += [
            _send(gate, _command(clock, seq + k, [v, 0, 0, 0, 0, 0]), robot, clock).rule
            for k, v in ((0, 0.1), (1, -0.1))
        ]
    assert outcomes == ["all", "all", "joint_limits", "all"]


def test_an_unreachable_robot_is_said_to_be_one(clock, robot):
    gate = _gate(clock, robot)
    robot.failure = ConnectionLost("gone")
    with pytest.raises(SafetyStop, match="cannot be reached to stop it: gone"):
        _send(gate, _command(clock, twist=[math.nan] * 6), robot, clock)
    assert gate.latched is not None


def test_evidence_survives_the_disk(clock, robot, tmp_path):
    gate = _gate(clock, robot)
    _send(gate, _command(clock, 0), robot, clock)
    _send(gate, _command(clock, 1, [5.0, 0, 0, 0, 0, 0]), robot, clock)
    _send(gate, _command(clock, 2, mode="tendon", value=np.zeros(3)), robot, clock)
    with pytest.raises(SafetyStop):
        _send(gate, _command(clock, 3, [0, 0, math.inf, 0, 0, 0]), robot, clock)
    gate.save(tmp_path, panel_hash="abc")
    assert load_evidence(tmp_path) == gate.evidence
    assert [e.verdict for e in gate.evidence] == ["pass", "refuse", "refuse", "stop"]
    raw = json.loads((tmp_path / "evidence.json").read_text(), parse_constant=pytest.fail)
    assert raw["latched"]["rule"] == "finite"
    assert validate(GateConfig, raw["config"]) == gate.config
    trace = load(tmp_path / "evidence.safetensors", Trace)
    assert trace.panel_hash == "abc"
    np.testing.assert_array_equal(trace["verdict"].value[:, 0], [0, 1, 1, 2])
    np.testing.assert_array_equal(trace["twist"].value[:, 0], [0.1, 5.0])  # what no channel can hold is in the JSON
    np.testing.assert_allclose(trace["tcp"].value[0], robot.state.tcp[:3])


def test_nan_is_kept_as_it_was_asked_for(clock, robot, tmp_path):
    gate = _gate(clock, robot)
    with pytest.raises(SafetyStop):
        _send(gate, _command(clock, twist=[math.nan, 0.25, 0, 0, 0, 0]), robot, clock)
    (entry,) = load_evidence(gate.save(tmp_path))
    assert entry.command is not None
    assert math.isnan(entry.command[0])
    assert entry.command[1] == 0.25


def test_evidence_is_a_ring(clock, robot):
    gate = _gate(clock, robot, evidence=3)
    for seq in range(5):
        _send(gate, _command(clock, seq), robot, clock)
    assert [e.seq for e in gate.evidence] == [2, 3, 4]
    assert all(isinstance(e, Evidence) for e in gate.evidence)


def test_foreign_evidence_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        load_evidence(tmp_path)
    (tmp_path / "evidence.json").write_text('{"schema": "other"}')
    with pytest.raises(BadInput, match="'other'"):
        load_evidence(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"t": None},
        {"t": True},
        {"unit": 3},
        {"message": ["text"]},
        {"seq": "x"},
        {"seq": 1.0},
        {"command": "12"},
        {"command": {"inf": 1}},
        {"tcp": [None]},
        {"gripper": "wide"},
        {"value": "1e3"},
        {"verdict": "fine"},
        {"rule": 1},
        {"colour": "red"},
    ],
    ids=str,
)
def test_an_entry_whose_field_is_of_another_kind_is_refused(clock, robot, tmp_path, change):
    gate = _gate(clock, robot)
    _send(gate, _command(clock, 0), robot, clock)
    gate.save(tmp_path)
    raw = json.loads((tmp_path / "evidence.json").read_text())
    raw["evidence"][-1] |= change
    (tmp_path / "evidence.json").write_text(json.dumps(raw))
    with pytest.raises(BadInput, match="an entry"):
        load_evidence(tmp_path)


def test_limits_are_checked():
    with pytest.raises(ConfigError, match="max_force"):
        validate(GateConfig, to_plain(CELL) | {"max_force": -1.0})
    with pytest.raises(BadInput, match="is empty"):
        changed(workspace_low=(0.8, 0.0, 0.0))
    with pytest.raises(BadInput, match="cartesian_velocity"):
        changed(modes=("tendon",))


def test_the_gate_judges_as_an_independent_reference_does():
    """Streams that are in order apart from now and then, so that every rule has its turn."""
    found = fuzz(20_000, seed=5)
    assert found["different"] == 0, found["first"]
    rules = {name.split()[1] for name in found["outcomes"]}
    assert rules >= {
        "all", "session", "finite", "saturated", "mode", "sequence", "age", "state_age", "unread", "linear_speed",
        "angular_speed", "opening", "contact_speed", "workspace", "joint_limits", "refusals", "force", "state",
        "frozen", "robot",
    }  # fmt: skip
