"""The hardware path with a robot in another process: gate, clocks, watchdog, stop, contact, one insertion."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from gate_reference import CELL, changed
from scripted import ScriptedInsertion, moved, told

from dexprior.envs import wire
from dexprior.envs.hardware import (
    HardwareBackend,
    HardwareOptions,
    LoopbackDriver,
    SafetyGate,
    load_evidence,
    start_gate,
)
from dexprior.envs.hardware.loopback import PROTOCOL, VERSION
from dexprior.envs.hardware.options import PROTOCOL as GATE
from dexprior.envs.hardware.options import VERSION as GATE_VERSION
from dexprior.envs.hardware.robot import LoopbackRobot
from dexprior.envs.messages import instance_to_plain
from dexprior.envs.processes import ServerProcess
from dexprior.envs.session import Session
from dexprior.envs.sim import SimBackend
from dexprior.envs.tasks import TaskEnv
from dexprior.envs.wire import command_to_plain
from dexprior.errors import BadInput, ConnectionLost, SafetyStop
from dexprior.families import SensorModels, SightConfig
from dexprior.types import Command
from dexprior.worlds.tasks import make_task

FORWARD = np.array([0.1, 0.0, 0.0, 0.0, 0.0, 0.0])
TASK = make_task("insertion").other()
CONTROL_DT = TASK.control_dt
PLACES = {"nut": (0.42, -0.14, 0.0), "bolt": (0.46, 0.1, 0.0), "yaw": 0.0}


@pytest.fixture
def backend(instance):
    made = HardwareBackend(start_gate())
    made.reset(instance)
    yield made
    made.close()


@pytest.fixture
def cell(instance):
    """Gate and driver in this process, the robot in its own; time passes there with each command."""
    driver = LoopbackDriver()
    driver.connect()
    made = Cell(SafetyGate(CELL, lockstep=True), driver)
    made.gate.prepare(instance, driver)
    yield made
    driver.close()


@dataclass
class Cell:
    """A gate and the driver behind it."""

    gate: SafetyGate
    driver: LoopbackDriver
    seq: int = -1

    def step(self, twist, opening: float = 0.08):
        """Offer one command; the state afterwards."""
        self.seq += 1
        command = Command(
            seq=self.seq, t=time.monotonic(), mode="cartesian_velocity", value=np.array(twist), gripper=opening
        )
        self.gate.send(command, self.driver)
        return self.gate.read(self.driver)


@pytest.fixture
def robot(instance) -> LoopbackRobot:
    """The robot itself, without a socket."""
    return LoopbackRobot(TASK, TASK.reality)


def _command(seq: int, twist=FORWARD) -> Command:
    return Command(seq=seq, t=0.0, mode="cartesian_velocity", value=np.array(twist))


def _command_of(twist) -> Command:
    return Command(seq=0, t=0.0, mode="cartesian_velocity", value=np.array(twist))


def _tell(robot: LoopbackRobot, command: Command) -> None:
    robot.answer(0, {"type": "command", "command": command_to_plain(command)})


def _read(robot: LoopbackRobot) -> dict:
    answer = robot.answer(0, {"type": "read", "after": -1})
    assert answer is not None
    return answer


# --- the robot's own protections ----------------------------------------------------------------------------


def test_the_robot_moves_on_command_and_its_clock_is_its_own(robot):
    before = _read(robot)
    for seq in range(10):
        _tell(robot, _command(seq))
    after = _read(robot)
    assert after["t"] - before["t"] == pytest.approx(10 * CONTROL_DT)
    assert before["t"] == 1000.0
    assert after["tcp"][0] - before["tcp"][0] == pytest.approx(0.1 * 10 * CONTROL_DT, rel=0.2)
    assert (after["seq"], after["status"]) == (9, "moving")


def test_a_stalled_sender_makes_the_robot_hold_and_the_next_command_moves_it(robot):
    for seq in range(10):
        _tell(robot, _command(seq))
    robot.answer(0, {"type": "idle", "seconds": 0.6})  # soon stale, then it comes to rest
    held = _read(robot)
    robot.answer(0, {"type": "idle", "seconds": 1.0})
    later = _read(robot)
    assert held["status"] == later["status"] == "holding"
    assert np.linalg.norm(later["tcp"][:3] - held["tcp"][:3]) < 5e-4
    _tell(robot, _command(10))
    assert robot.status == "moving"


def test_a_stream_whose_commands_are_late_by_less_than_the_watchdog_does_not_hold():
    robot = LoopbackRobot(TASK, TASK.reality, profile=replace(CELL.robot, watchdog=2.5 * CONTROL_DT))
    for seq in range(20):
        _tell(robot, _command(seq, np.zeros(6)))
        robot.answer(0, {"type": "idle", "seconds": 2 * CONTROL_DT})
        assert robot.status == "moving"
    robot.answer(0, {"type": "idle", "seconds": CONTROL_DT})
    assert robot.status == "holding"


def _speeds(robot: LoopbackRobot, periods: int) -> list[float]:
    """Mean speed of the tool in each of the next periods [m/s]."""
    places = [_read(robot)["tcp"][:3]]
    for _ in range(periods):
        robot.answer(0, {"type": "idle", "seconds": CONTROL_DT})
        places.append(_read(robot)["tcp"][:3])
    return [float(v) for v in np.linalg.norm(np.diff(places, axis=0), axis=1) / CONTROL_DT]


@pytest.mark.parametrize("end", ["stop", "closed", "silent"])
def test_a_robot_slows_down_by_its_profile_at_once_in_its_direction(end):
    """From 0.5 m/s at 2 m/s^2: a quarter of a second, on a straight line, however its commands end."""
    profile = replace(CELL.robot, deceleration=2.0, watchdog=1e-3)
    robot = LoopbackRobot(TASK, TASK.reality, profile=profile)
    for seq in range(4):
        _tell(robot, _command(seq, [0, 0.5, 0, 0, 0, 0]))
    start = np.array(_read(robot)["tcp"][:3])
    if end == "stop":
        robot.answer(1, {"type": "stop"})
    elif end == "closed":
        robot.left(0)
    speeds = _speeds(robot, 12)
    moved = np.array(_read(robot)["tcp"][:3]) - start
    assert speeds[0] > 0.3  # not thrown to a halt
    assert speeds[2] > 0.1
    assert max(speeds[9:]) < 0.03
    late = CONTROL_DT if end == "silent" else 0.0  # nobody knows before the next command is due
    assert moved[1] == pytest.approx(0.5 * (late + 0.035) + 0.5**2 / (2 * 2.0), rel=0.25)  # servos lag by 35 ms
    assert abs(moved[0]) + abs(moved[2]) < 0.15 * moved[1]


def test_a_slowing_robot_lets_go_of_what_it_presses_on(robot):
    """The lead of the targets that had turned into force is given up."""
    seq = 0
    while _read(robot)["tcp"][2] > 0.0102:
        fast = min(0.3, 5 * (_read(robot)["tcp"][2] - 0.02) + 0.03) if _read(robot)["tcp"][2] > 0.02 else 0.03
        _tell(robot, _command(seq, [0, 0, -fast, 0, 0, 0]))
        seq += 1
    for _ in range(3):
        _tell(robot, _command(seq, [0, 0, -0.03, 0, 0, 0]))
        seq += 1
    pressed = np.linalg.norm(_read(robot)["wrench"][:3])
    robot.answer(0, {"type": "stop"})
    robot.answer(0, {"type": "idle", "seconds": 1.0})
    assert pressed > 15.0
    assert np.linalg.norm(_read(robot)["wrench"][:3]) < 0.5 * pressed


def test_one_client_drives_and_any_client_reads_and_stops(robot):
    _tell(robot, _command(0))
    assert robot.answer(1, {"type": "read"})["seq"] == 0
    for request in ({"type": "command", "command": command_to_plain(_command(1))}, {"type": "recover"}):
        with pytest.raises(BadInput, match="another client drives"):
            robot.answer(1, request)
    robot.answer(1, {"type": "stop"})
    assert robot.status == "stopped"
    robot.left(0)
    robot.answer(1, {"type": "recover"})
    robot.answer(1, {"type": "command", "command": command_to_plain(_command(0))})  # its count starts anew


@pytest.mark.parametrize(
    "request_",
    [
        {"type": "prepare", "nut": [0.4, 0, 0], "bolt": [0.5, 0.1, 0], "nut_yaw": 0.0, "seed": 3e40},
        {"type": "prepare", "nut": [0.4, 0, 0], "bolt": [0.5, 0.1, 0], "nut_yaw": 0.0, "seed": -1},
        {"type": "prepare", "nut": [0.4, 0, 0], "bolt": [0.5, 0.1, 0], "nut_yaw": 0.0, "seed": True},
        {"type": "prepare", "nut": [4e200, 0, 0], "bolt": [0.5, 0.1, 0], "nut_yaw": 0.0, "seed": 1},
        {"type": "prepare", "nut": ["0.4", 0, 0], "bolt": [0.5, 0.1, 0], "nut_yaw": 0.0, "seed": 1},
        {"type": "command", "command": None},
        {"type": "command", "command": {"seq": 2**63, "t": 0, "mode": "cartesian_velocity", "value": [0] * 6}},
        {"type": "command", "command": command_to_plain(_command_of([0, 1e12, 0, 0, 0, 0]))},
        {"type": "read", "after": "soon"},
        {"type": "read", "after": 2**70},
        {"type": "idle", "seconds": 1e9},
        {"type": "x" * 100_000},
    ],
    ids=lambda r: str(r)[:60],
)
def test_a_request_out_of_range_is_one_short_error(robot, request_):
    with pytest.raises(BadInput) as caught:
        robot.answer(0, request_)
    assert len(str(caught.value)) < 300
    _tell(robot, _command(0))


def test_a_refused_command_leaves_the_robot_in_motion_and_stop_ends_it(robot):
    for seq in range(5):
        _tell(robot, _command(seq))
    with pytest.raises(BadInput, match="stays in motion"):
        _tell(robot, _command(5, [math.nan] * 6))
    assert robot.status == "moving"
    start = _read(robot)["tcp"][0]
    robot.answer(0, {"type": "idle", "seconds": CONTROL_DT})
    moved = _read(robot)["tcp"][0] - start
    robot.answer(0, {"type": "stop"})
    robot.answer(0, {"type": "idle", "seconds": 0.6})
    start = _read(robot)["tcp"][0]
    robot.answer(0, {"type": "idle", "seconds": 1.0})
    assert moved > 0.003
    assert abs(_read(robot)["tcp"][0] - start) < 5e-4


def test_a_stop_is_latched_on_the_robot_too(robot):
    robot.answer(0, {"type": "stop"})
    with pytest.raises(SafetyStop, match="stopped"):
        _tell(robot, _command(0))
    with pytest.raises(SafetyStop):
        robot.answer(0, {"type": "prepare", "nut": [0.45, 0, 0], "bolt": [0.5, 0.1, 0], "nut_yaw": 0, "seed": 1})
    robot.answer(0, {"type": "recover"})
    _tell(robot, _command(0))


@pytest.mark.parametrize("seq", [3, 2])
def test_the_robot_refuses_old_commands(robot, seq):
    _tell(robot, _command(3))
    with pytest.raises(BadInput, match="after command 3"):
        _tell(robot, _command(seq))


# --- gate and driver, in one process --------------------------------------------------------------------------


def _lower(cell: Cell, state, *, slowest: float):
    """Lower the closed pads onto the table, and go on pushing at the slowest speed [m/s]."""
    for _ in range(90):
        height = state.tcp[2]
        down = min(0.4, 2.5 * (height - 0.022)) if height > 0.03 else 0.0
        state = cell.step([0, 0, -max(down, slowest if height > 0.0105 else min(slowest, 0.03)), 0, 0, 0], 0.0)
    return state


def _gated(instance, **limits):
    driver = LoopbackDriver()
    driver.connect()
    cell = Cell(SafetyGate(changed(**limits), lockstep=True), driver)
    return cell, cell.gate.prepare(moved(instance, nut=(0.42, -0.14, 0.0)), driver)


def test_pressing_on_the_table_is_stopped(instance, tmp_path):
    """Real contact, at 3 cm/s. The force passes its limit by what one period adds."""
    cell, state = _gated(instance, max_force=25.0)
    with pytest.raises(SafetyStop, match="force"):
        _lower(cell, state, slowest=0.03)
    latched = cell.gate.latched
    assert latched is not None
    assert 25.0 < latched.value < 80.0
    resting = cell.driver.idle(1.0)
    assert resting.status == "stopped"
    assert np.linalg.norm(resting.wrench[:3]) < latched.value
    cell.driver.close()
    cell.gate.save(tmp_path)
    assert load_evidence(tmp_path)[-1] == latched
    assert latched.tcp[2] == pytest.approx(0.01, abs=0.002)  # half a pad above the table


def test_an_impact_between_two_states_is_seen(instance):
    """The pads strike the table and are off again when the next state is taken."""
    cell, state = _gated(instance, max_force=30.0)
    with pytest.raises(SafetyStop, match="force"):
        _lower(cell, state, slowest=0.03)
    assert cell.gate.latched.value > 30.0
    assert np.linalg.norm(cell.gate.latched.wrench[:3]) < 30.0
    cell.driver.close()


def test_touching_the_table_lightly_is_not_stopped(instance):
    cell, state = _gated(instance, max_force=40.0)
    state = _lower(cell, state, slowest=0.01)
    assert cell.gate.latched is None
    assert state.tcp[2] < 0.012
    cell.driver.close()


@pytest.mark.parametrize("twist", [(0, 0, -0.7), (0, 0, -0.35), (0.8, 0, 0), (0.5, 0, -0.6), (0, 0.85, -0.2)])
def test_no_stream_that_is_held_at_the_end_touches_the_table(instance, twist):
    """Whatever is asked for inside the speed limits: the tool stands before anything is there to touch."""
    cell, _ = _gated(instance, max_consecutive_refusals=30)
    forces, heights, rules = [], [], []
    for _ in range(25):
        state = cell.step([*twist, 0, 0, 0])
        forces.append(state.peak_force)
        heights.append(state.tcp[2])
        rules.append(cell.gate.evidence[-1].rule)
    assert max(forces) < 30.0
    assert min(heights) > 0.0115
    assert rules[0] == "all"
    assert rules[-1] in ("workspace", "contact_speed", "joint_limits")
    cell.driver.close()


def test_forward_at_full_speed_is_forward(instance):
    """Joints that could not follow alone are slowed down together: the tool does not dive."""
    cell, state = _gated(instance, max_consecutive_refusals=30)
    start = state.tcp[2]
    for _ in range(15):
        state = cell.step([0.88, 0, 0, 0, 0, 0])
        assert abs(state.tcp[2] - start) < 0.02
    cell.driver.close()


def test_a_driver_that_is_not_connected_says_so():
    with pytest.raises(ConnectionLost, match=r"call connect\(\)"):
        LoopbackDriver().read()


# --- through the gate's process -------------------------------------------------------------------------------


def test_the_same_actions_give_the_same_motion_as_in_simulation(backend, instance):
    actions = np.clip(np.random.default_rng(1).normal(0, 0.3, (30, 1, 7)), -1, 1)
    here = SimBackend(TASK, 1, family=TASK.reality, threads=1)
    near, far = here.reset(instance), backend.reset(instance)
    for action in actions:
        near, far = here.step(here.actions.commands(action)), backend.step(backend.actions.commands(action))
    np.testing.assert_allclose(far.tools, near.tools, atol=1e-9)
    np.testing.assert_allclose(far.t, near.t, atol=1e-9)
    assert {e.verdict for e in backend.evidence()} == {"pass"}
    assert backend.slowed == 0


def test_the_instances_parameters_are_the_robots_own(backend, instance):
    lying = replace(instance, parameters=instance.parameters + 50.0)
    np.testing.assert_array_equal(backend.reset(lying).cloud, backend.reset(instance).cloud)


def test_without_a_tracker_there_is_no_truth_and_without_labels_it_is_said(instance):
    sensors = SensorModels(sight=SightConfig(labels=False))
    backend = HardwareBackend(start_gate(HardwareOptions(tracker=False, sensors=sensors)))
    assert not backend.labels
    assert backend.reset(instance).truth is None
    assert backend.step(told(np.zeros(6))).truth is None
    backend.close()


def test_nan_from_a_policy_stops_the_robot_through_the_environment(backend, instance):
    env = TaskEnv(TASK, backend=backend, panel=instance)
    env.reset()
    with pytest.raises(SafetyStop, match="finite"):
        env.step(np.full(7, math.nan))
    assert backend.evidence(1)[0].rule == "finite"


def test_nan_stops_the_robot_for_good(backend, instance):
    for _ in range(5):
        backend.step(told(FORWARD))
    with pytest.raises(SafetyStop, match="finite"):
        backend.step(told(np.full(6, math.nan)))
    for _ in range(2):
        with pytest.raises(SafetyStop):
            backend.step(told(FORWARD))
        with pytest.raises(SafetyStop):
            backend.reset(instance)
    with pytest.raises(BadInput, match="'by'"):
        backend.recover(by=" ")
    backend.recover(by="Ada")
    assert "Ada" in backend.evidence(1)[0].message
    backend.reset(instance)
    backend.step(told(FORWARD))


def test_a_refused_command_is_a_period_of_standing_still(backend):
    before = backend.step(told(np.zeros(6)))
    after = backend.step(told([0, 0, 0, 0, 0, 9.0], 0.0))
    assert backend.evidence(1)[0].rule == "angular_speed"
    assert after.t[0] - before.t[0] == pytest.approx(CONTROL_DT)
    np.testing.assert_allclose(after.tools[0, 0, :3], before.tools[0, 0, :3], atol=5e-4)
    assert after.robots[0].end[0] == pytest.approx(before.robots[0].end[0], abs=1e-3)


def test_a_policy_that_dives_is_slowed_down_and_never_refused(backend, instance):
    reading = backend.reset(moved(instance, nut=(0.42, -0.14, 0.0)))
    for _ in range(60):
        reading = backend.step(told([0, 0, -0.5, 0, 0, 0], 0.0))
        assert np.linalg.norm(reading.robots[0].wrench[0, :3]) < 60.0
    assert {e.verdict for e in backend.evidence()} == {"pass"}
    assert backend.slowed > 20
    assert reading.tools[0, 0, 2] < 0.0115  # on the table


@pytest.mark.parametrize("column", [0, 5])
def test_an_action_beyond_its_box_is_sent_as_its_end_and_counted(backend, column):
    """3.0 is 1.0 on the wire, however far it jumps; what an action is worth is clipped as in training."""
    for k, number in enumerate((-3.0, 3.0, -3.0, 3.0)):
        action = np.zeros((1, 7))
        action[0, column] = number
        sent = backend.actions.commands(action)
        np.testing.assert_array_equal(sent[0].saturated, [1])
        backend.step(sent)
        entry = backend.evidence(1)[0]
        assert (entry.verdict, entry.seq) == ("pass", k)
        np.testing.assert_allclose(entry.command[column], np.sign(number) * (0.5 if column < 3 else 2.0))


def test_a_policy_that_asks_for_too_much_is_stopped_with_the_reason(backend):
    """22 of 450 numbers of an insertion's 75 commands are 5 %."""
    action = np.zeros((1, 7))
    action[0, 3] = action[0, 4] = 1.5
    action *= [[0, 0, 0, 1, -1, 0, 0]]
    for k in range(11):
        backend.step(backend.actions.commands(action * (-1) ** k))
    with pytest.raises(SafetyStop, match="saturated: 24 of the arm's numbers"):
        backend.step(backend.actions.commands(action))
    assert backend.evidence(1)[0].rule == "saturated"


def test_beyond_a_grippers_ends_there_is_nothing_to_ask_for(backend):
    action = np.array([[0, 0, 0, 0, 0, 0, 1.2]])
    for _ in range(30):
        backend.step(backend.actions.commands(action))
    assert {e.verdict for e in backend.evidence()} == {"pass"}


def test_what_is_not_saturated_is_refused(backend, instance):
    blunt = HardwareBackend(backend._session.address, saturate=False)
    with pytest.raises(BadInput, match="another client drives"):
        blunt.reset(moved(instance, **PLACES))
    backend._session.request({"type": "close"})
    blunt.reset(moved(instance, **PLACES))
    with pytest.raises(SafetyStop, match="6 commands refused in a row"):
        _go_on(blunt, [0, 0, -0.5, 0, 0, 0])
    blunt.close()


def test_failed_tasks_are_counted_from_reset_to_reset(instance):
    options = HardwareOptions(gate={"max_consecutive_failures": 1})
    backend = HardwareBackend(start_gate(options))
    for _ in range(2):
        backend.reset(instance)
        backend.step(told(FORWARD))
    with pytest.raises(SafetyStop, match="2 tasks failed in a row"):
        backend.reset(instance)
    backend.close()


def test_a_killed_robot_is_an_error_and_not_a_hang(instance):
    with ServerProcess("dexprior.envs.hardware.robot", ["--with-parent"]) as robot:
        backend = HardwareBackend(start_gate(HardwareOptions(port=robot.address[1])))
        backend.reset(instance)
        robot.kill()
        start = time.monotonic()
        with pytest.raises(ConnectionLost, match="robot"):
            backend.step(told(FORWARD))
        assert time.monotonic() - start < 5.0
        assert [e.rule for e in backend.evidence(3)][1] == "connection"
        with pytest.raises(SafetyStop):
            backend.step(told(FORWARD))
        backend.close()


# --- a policy that ends ---------------------------------------------------------------------------------------


class Watched:
    """A robot in real time with an observer of its own, its gate, and a policy's bare connection to that."""

    def __init__(self, instance, keep=None) -> None:
        self.robot = ServerProcess("dexprior.envs.hardware.robot", ["--with-parent", "--real-time"])
        options = HardwareOptions(real_time=True, port=self.robot.address[1], keep=keep)
        self.gate = start_gate(options)
        self.policy = Session(self.gate.address, (GATE, GATE_VERSION), timeout=5.0, peer="gate")
        self.policy.request({"type": "prepare", "succeeded": None} | instance_to_plain(instance))
        self._eye = wire.connect(self.robot.address, timeout=5.0, peer="robot")
        wire.greet(self._eye, PROTOCOL, VERSION)
        self._seq = -1

    def look(self) -> dict:
        """What the robot says."""
        return self._eye.request({"type": "read"})

    def command(self, twist) -> str:
        """One command of the policy's; the verdict."""
        self._seq += 1
        command = Command(seq=self._seq, t=time.monotonic(), mode="cartesian_velocity", value=np.array(twist))
        answer = self.policy.request({"type": "command", "command": command_to_plain(command)})
        return answer["evidence"]["verdict"]

    def read(self) -> None:
        """The policy reads the state after its command."""
        self.policy.request({"type": "read"})

    def evidence(self) -> list[dict]:
        """The gate's decisions, as another client sees them."""
        session = Session(self.gate.address, (GATE, GATE_VERSION), timeout=5.0, peer="gate")
        found = session.request({"type": "evidence", "last": 50})["evidence"]
        session.close()
        return found

    def close(self) -> None:
        """End it all."""
        self._eye.close()
        self.gate.close()
        self.robot.close()


@pytest.fixture
def watched(instance, tmp_path):
    made = Watched(moved(instance, nut=(0.42, -0.14, 0.0)), keep=str(tmp_path))
    yield made
    made.close()


def _largest(watched: Watched, seconds: float = 0.8) -> tuple[float, dict]:
    """Largest force in the next seconds, and the last state."""
    end, force, state = time.monotonic() + seconds, 0.0, watched.look()
    while time.monotonic() < end:
        state = watched.look()
        force = max(force, state["peak_force"])
        time.sleep(0.005)
    return force, state


def test_a_policy_whose_connection_closes_leaves_a_robot_that_stands(watched, instance, tmp_path):
    while watched.command([0, 0, -0.6, 0, 0, 0]) == "pass" and watched._seq < 1:
        watched.read()
    watched.policy._connection._open().close()  # as the kernel does for a process that is gone
    force, state = _largest(watched)
    assert force < 60.0
    assert np.abs(state["qd"]).max() < 0.01
    assert state["status"] == "stopped"
    assert state["tcp"][2] > 0.02
    assert watched.evidence()[-1]["rule"] == "connection"
    assert load_evidence(tmp_path)[-1].rule == "connection"
    backend = HardwareBackend(watched.gate.address)
    with pytest.raises(SafetyStop, match="without a goodbye"):
        backend.reset(moved(instance, **PLACES))
    backend.recover(by="Ada")
    backend.reset(moved(instance, **PLACES))
    backend.close()


def test_a_policy_that_falls_silent_is_held_and_may_go_on(watched):
    watched.command([0, 0, -0.6, 0, 0, 0])
    force, state = _largest(watched)
    assert force < 60.0
    assert np.abs(state["qd"]).max() < 0.01
    assert state["tcp"][2] > 0.02
    rules = [e["rule"] for e in watched.evidence()]
    assert rules[-1] == "watchdog"
    assert "connection" not in rules
    watched.read()
    assert watched.command([0, 0, 0.05, 0, 0, 0]) == "pass"


def test_a_gate_that_is_killed_leaves_a_robot_that_stands(watched):
    watched.command([0, 0, -0.6, 0, 0, 0])
    watched.gate.kill()
    force, state = _largest(watched)
    assert force < 60.0
    assert np.abs(state["qd"]).max() < 0.01
    assert (state["status"], state["tcp"][2] > 0.02) == ("holding", True)


def test_a_gate_ends_after_its_parent_with_the_robot_at_rest(watched, tmp_path):
    watched.command([0, 0, -0.6, 0, 0, 0])
    watched.gate.close()  # its stdin closes, as when its parent dies
    state = watched.look()
    assert state["status"] == "stopped"
    assert np.abs(state["qd"]).max() < 0.03
    assert load_evidence(tmp_path)[-1].verdict == "stop"


# --- in real time ---------------------------------------------------------------------------------------------


def test_in_real_time_the_robot_paces_and_can_be_stopped_from_another_thread(instance):
    backend = HardwareBackend(start_gate(HardwareOptions(real_time=True)))
    backend.reset(instance)
    start = time.monotonic()
    for _ in range(10):
        reading = backend.step(told(FORWARD))
    assert time.monotonic() - start > 9 * CONTROL_DT
    assert reading.t[0] >= 10 * CONTROL_DT - 1e-9

    timer = threading.Timer(0.1, backend.emergency_stop, ("pressed",))
    timer.start()
    with pytest.raises(SafetyStop):
        _go_on(backend, 0.3 * FORWARD)
    timer.join()
    stop = next(e for e in backend.evidence() if e.verdict == "stop")
    assert (stop.rule, stop.message) == ("emergency_stop", "pressed")
    backend.close()


def _go_on(backend: HardwareBackend, twist) -> None:
    for _ in range(200):
        backend.step(told(twist))


def test_a_client_that_stalls_inside_a_frame_neither_keeps_the_robot_nor_another_client(instance):
    driver = LoopbackDriver(real_time=True)
    driver.connect()
    other = wire.connect(driver.process.address, timeout=5.0, peer="robot")
    wire.greet(other, PROTOCOL, VERSION)
    driver.prepare(instance)
    driver.send(_command(0))
    driver._connection._open().sendall(b"\x10\x00")  # half a length
    for _ in range(5):
        start = time.monotonic()
        other.request({"type": "read"})
        assert time.monotonic() - start < 0.3
        time.sleep(0.3)
    with pytest.raises(ConnectionLost):  # dropped by the robot, which went on
        driver.read()
    assert driver.process.running
    other.close()
    driver.close()


# --- one whole task -------------------------------------------------------------------------------------------


def test_one_insertion_through_the_hardware_path(backend, instance):
    controller = ScriptedInsertion(backend.actions)
    reading, forces = backend.reset(instance), []
    for _ in range(2 * TASK.steps):
        reading = backend.step(controller(reading))
        forces.append(np.linalg.norm(reading.robots[0].wrench[0, :3]))
        if TASK.success(reading.truth)[0]:
            break
    assert TASK.success(reading.truth)[0]
    assert {e.verdict for e in backend.evidence(1000)} == {"pass"}
    assert max(forces) < backend.config.max_force
