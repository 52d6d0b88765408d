"""Each rule of the gate fires when it should and not otherwise; a stop lasts; evidence stays."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from dexprior.artifacts import load
from dexprior.config import validate
from dexprior.envs.hardware import Evidence, GateConfig, RobotState, SafetyGate, load_evidence
from dexprior.errors import BadInput, ConfigError, ConnectionLost, SafetyStop
from dexprior.types import Command, Trace
from dexprior.worlds.arm import JOINT_LIMITS


@dataclass
class Recorder:
    """A robot that notes what it is told, and says what it is told to say."""

    state: RobotState
    period: float = 0.04
    sent: list[Command] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    failure: Exception | None = None

    def read(self) -> RobotState:
        if self.failure is not None:
            raise self.failure
        return self.state

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


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 10.0

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def robot(state) -> Recorder:
    return Recorder(state)


def _gate(clock: Clock, robot: Recorder, **limits) -> SafetyGate:
    gate = SafetyGate(GateConfig(**limits), clock=clock)
    gate.read(robot)
    return gate


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
    decision = gate.send(command, robot)
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
    decision = gate.send(_command(clock, **REFUSED[name]), robot)
    assert (decision.verdict, decision.rule) == ("refuse", name.split()[0])
    assert not robot.sent[0].value.any()
    assert robot.sent[0].gripper is None
    assert gate.latched is None
    assert gate.send(_command(clock, seq=1), robot).verdict == "pass"


@pytest.mark.parametrize("twist", [(0.9, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 3.5), (0.5, 0.5, 0.5, 2, 2, 2)])
def test_a_command_at_the_limit_passes(clock, robot, twist):
    assert _gate(clock, robot).send(_command(clock, twist=twist), robot).verdict == "pass"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["value", "gripper", "t"])
def test_a_number_that_is_not_finite_stops_the_robot(clock, robot, value, where):
    gate = _gate(clock, robot)
    bad = np.array([0.0, value, 0, 0, 0, 0]) if where == "value" else value
    with pytest.raises(SafetyStop, match="finite"):
        gate.send(_command(clock, **{where: bad}), robot)
    assert robot.calls == ["stop"]
    assert robot.sent == []


def test_a_stop_lasts_until_somebody_resets_it(clock, robot):
    gate = _gate(clock, robot)
    with pytest.raises(SafetyStop):
        gate.send(_command(clock, twist=[math.nan] * 6), robot)
    for _ in range(3):
        with pytest.raises(SafetyStop, match=r"was stopped \(finite"):
            gate.send(_command(clock, seq=1), robot)
        with pytest.raises(SafetyStop):
            gate.read(robot)
    assert robot.sent == []
    with pytest.raises(BadInput, match="who looked"):
        gate.reset(robot, by=" ")
    gate.reset(robot, by="Ada")
    assert robot.calls == ["stop", "recover"]
    gate.read(robot)
    assert gate.send(_command(clock, seq=40), robot).verdict == "pass"  # the count starts again
    assert "Ada" in next(e.message for e in gate.evidence if e.rule == "reset")


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
    assert gate.send(_command(clock), robot).verdict == "pass"
    clock.now += 0.2
    assert gate.send(_command(clock, seq=1), robot).rule == "state_age"


def test_without_any_state_nothing_passes(clock, robot):
    assert SafetyGate(clock=clock).send(_command(clock), robot).rule == "state_age"


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
    assert [gate.send(_command(clock, seq=k), robot).rule for k in seqs] == rules
    assert [command.seq for command in robot.sent] == [0, 1, 2]  # what the robot gets has no gap


def test_a_gap_may_be_allowed(clock, robot):
    gate = _gate(clock, robot, max_sequence_gap=1)
    assert [gate.send(_command(clock, seq=k), robot).rule for k in (0, 2, 5)] == ["all", "all", "sequence"]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("side", ["low", "high"])
def test_the_workspace_box(clock, robot, state, axis, side):
    config = GateConfig()
    edge = (config.workspace_low if side == "low" else config.workspace_high)[axis]
    outward = -1.0 if side == "low" else 1.0
    position = state.tcp[:3].copy()
    position[axis] = edge - outward * 0.01  # a centimetre inside
    robot.state = _at(state, position=position)
    gate = _gate(clock, robot)

    def moving(speed: float) -> np.ndarray:
        twist = np.zeros(6)
        twist[axis] = outward * speed
        return twist

    decision = gate.send(_command(clock, 0, moving(0.3)), robot)  # 12 mm in one period
    assert (decision.verdict, decision.rule, decision.limit) == ("refuse", "workspace", edge)
    assert gate.send(_command(clock, 1, moving(0.2)), robot).verdict == "pass"  # 8 mm


def test_a_tool_outside_may_come_back(clock, robot, state):
    robot.state = _at(state, position=[0.5, 0.0, -0.02])
    gate = _gate(clock, robot)
    assert gate.send(_command(clock, 0, [0, 0, 0.1, 0, 0, 0]), robot).verdict == "pass"
    assert gate.send(_command(clock, 1, [0, 0, -0.1, 0, 0, 0]), robot).rule == "workspace"


def test_joint_limits(clock, robot, state):
    """Rotating the hand about the axis of joint 6 turns that joint; one way leads into its limit."""
    outcomes = {}
    for margin in (0.06, 0.5):
        robot.state = replace(state, q=_near_limit(margin), t_host=clock.now)
        gate = _gate(clock, robot, joint_margin=0.05)
        for seq, sign in enumerate((1.0, -1.0)):
            outcomes[margin, sign] = gate.send(_command(clock, seq, [0, 0, 0, 0, sign * 2.0, 0]), robot).rule
    assert sorted([outcomes[0.06, 1.0], outcomes[0.06, -1.0]]) == ["all", "joint_limits"]
    assert outcomes[0.5, 1.0] == outcomes[0.5, -1.0] == "all"


def test_an_arm_at_its_limit_may_come_back(clock, robot, state):
    robot.state = replace(state, q=_near_limit(0.01))
    gate = _gate(clock, robot)
    rules = {gate.send(_command(clock, k, [0, 0, 0, 0, w, 0]), robot).rule for k, w in enumerate((1.0, -1.0))}
    assert rules == {"all", "joint_limits"}


@pytest.mark.parametrize(("force", "stops"), [(59.0, False), (61.0, True)])
def test_force(clock, robot, state, force, stops):
    robot.state = replace(state, wrench=np.array([0, force * 0.6, force * 0.8, 0, 0, 0]))
    gate = SafetyGate(clock=clock)
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
        SafetyGate(clock=clock).read(robot)


def test_too_many_refusals_in_a_row_stop(clock, robot):
    gate = _gate(clock, robot, max_consecutive_refusals=2)
    fast = [2.0, 0, 0, 0, 0, 0]
    for seq, twist in enumerate([fast, fast, [0] * 6, fast, fast]):  # never three in a row
        gate.send(_command(clock, seq, twist), robot)
    with pytest.raises(SafetyStop, match=r"3 commands refused in a row; the last one: 2\.000 m/s"):
        gate.send(_command(clock, 5, fast), robot)
    assert robot.calls == ["stop"]


def test_emergency_stop(clock, robot):
    gate = _gate(clock, robot)
    gate.emergency_stop(robot, "a hand in the cell")
    assert robot.calls == ["stop"]
    with pytest.raises(SafetyStop, match="a hand in the cell"):
        gate.send(_command(clock), robot)


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
    ("failure", "expected", "calls"),
    [
        (ConnectionLost("gone"), ConnectionLost, []),
        (SafetyStop("stopped"), SafetyStop, []),
        (BadInput("not a state"), SafetyStop, ["stop"]),
    ],
)
def test_whatever_fails_on_the_robot_latches(clock, robot, call, failure, expected, calls):
    gate = _gate(clock, robot)
    robot.failure = failure
    with pytest.raises(expected):
        gate.read(robot) if call == "read" else gate.send(_command(clock), robot)
    assert gate.latched is not None
    assert robot.calls == calls


def test_an_unreachable_robot_is_said_to_be_one(clock, robot):
    gate = _gate(clock, robot)
    robot.failure = ConnectionLost("gone")
    with pytest.raises(SafetyStop, match="cannot be reached to stop it: gone"):
        gate.send(_command(clock, twist=[math.nan] * 6), robot)
    assert gate.latched is not None


def test_evidence_survives_the_disk(clock, robot, tmp_path):
    gate = _gate(clock, robot)
    gate.send(_command(clock, 0), robot)
    gate.send(_command(clock, 1, [5.0, 0, 0, 0, 0, 0]), robot)
    gate.send(_command(clock, 2, mode="tendon", value=np.zeros(3)), robot)
    with pytest.raises(SafetyStop):
        gate.send(_command(clock, 3, [0, 0, math.inf, 0, 0, 0]), robot)
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
        gate.send(_command(clock, twist=[math.nan, 0.25, 0, 0, 0, 0]), robot)
    (entry,) = load_evidence(gate.save(tmp_path))
    assert entry.command is not None
    assert math.isnan(entry.command[0])
    assert entry.command[1] == 0.25


def test_evidence_is_a_ring(clock, robot):
    gate = _gate(clock, robot, evidence=3)
    for seq in range(5):
        gate.send(_command(clock, seq), robot)
    assert [e.seq for e in gate.evidence] == [2, 3, 4]
    assert all(isinstance(e, Evidence) for e in gate.evidence)


def test_foreign_evidence_is_refused(tmp_path):
    with pytest.raises(BadInput, match="cannot read"):
        load_evidence(tmp_path)
    (tmp_path / "evidence.json").write_text('{"schema": "other"}')
    with pytest.raises(BadInput, match="'other'"):
        load_evidence(tmp_path)


def test_limits_are_checked():
    with pytest.raises(ConfigError, match="max_force"):
        validate(GateConfig, {"max_force": -1.0})
    with pytest.raises(BadInput, match="is empty"):
        GateConfig(workspace_low=(0.8, 0.0, 0.0))
    with pytest.raises(BadInput, match="cartesian_velocity"):
        GateConfig(modes=("tendon",))
