"""The hardware path with a robot in another process: gate, clocks, watchdog, stop, contact, one insertion."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from dexprior.envs.base import HORIZON, Reading, command_from_action, success
from dexprior.envs.hardware import (
    GateConfig,
    HardwareBackend,
    LoopbackDriver,
    SafetyGate,
    load_evidence,
)
from dexprior.envs.hardware.robot import LoopbackRobot
from dexprior.envs.panel import Instance, Panel
from dexprior.envs.sim import InsertionEnv, SimBackend
from dexprior.envs.wire import command_to_plain
from dexprior.errors import BadInput, ConnectionLost, SafetyStop
from dexprior.types import Command
from dexprior.worlds.insertion import OTHER_FAMILY, InsertionConfig
from dexprior.worlds.stepping import CONTROL_DT

FORWARD = np.array([0.1, 0.0, 0.0, 0.0, 0.0, 0.0])
OPEN = np.array([0.08])


@pytest.fixture
def backend(instance):
    made = HardwareBackend(LoopbackDriver(), SafetyGate())
    made.reset([instance])
    yield made
    made.close()


@pytest.fixture
def robot(instance) -> LoopbackRobot:
    """The robot itself, without a socket."""
    return LoopbackRobot(OTHER_FAMILY)


def _command(seq: int, twist=FORWARD) -> Command:
    return Command(seq=seq, t=0.0, mode="cartesian_velocity", value=np.array(twist))


def _tell(robot: LoopbackRobot, command: Command) -> None:
    robot.answer({"type": "command", "command": command_to_plain(command)})


def _read(robot: LoopbackRobot) -> dict:
    answer = robot.answer({"type": "read", "after": -1})
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
    robot.answer({"type": "idle", "seconds": 0.6})  # stale after 0.2 s, then it comes to rest
    held = _read(robot)
    robot.answer({"type": "idle", "seconds": 1.0})
    later = _read(robot)
    assert held["status"] == later["status"] == "holding"
    assert np.linalg.norm(later["tcp"][:3] - held["tcp"][:3]) < 5e-4
    _tell(robot, _command(10))
    assert robot.status == "moving"


def test_an_arriving_stream_does_not_hold(robot):
    for seq in range(20):
        _tell(robot, _command(seq, np.zeros(6)))
        robot.answer({"type": "idle", "seconds": 2 * CONTROL_DT})
        assert robot.status == "moving"


def test_a_refused_command_leaves_the_robot_in_motion_and_stop_ends_it(robot):
    for seq in range(5):
        _tell(robot, _command(seq))
    with pytest.raises(BadInput, match="stays in motion"):
        _tell(robot, _command(5, [math.nan] * 6))
    assert robot.status == "moving"
    start = _read(robot)["tcp"][0]
    robot.answer({"type": "idle", "seconds": 3 * CONTROL_DT})
    moved = _read(robot)["tcp"][0] - start
    robot.answer({"type": "stop"})
    robot.answer({"type": "idle", "seconds": 0.6})
    start = _read(robot)["tcp"][0]
    robot.answer({"type": "idle", "seconds": 1.0})
    assert moved > 0.008
    assert abs(_read(robot)["tcp"][0] - start) < 5e-4


def test_a_stop_is_latched_on_the_robot_too(robot):
    robot.answer({"type": "stop"})
    with pytest.raises(SafetyStop, match="stopped"):
        _tell(robot, _command(0))
    with pytest.raises(SafetyStop):
        robot.answer({"type": "prepare", "nut": [0.45, 0, 0], "bolt": [0.5, 0.1, 0], "nut_yaw": 0, "seed": 1})
    robot.answer({"type": "recover"})
    _tell(robot, _command(0))


@pytest.mark.parametrize("seq", [3, 2])
def test_the_robot_refuses_old_commands(robot, seq):
    _tell(robot, _command(3))
    with pytest.raises(BadInput, match="after command 3"):
        _tell(robot, _command(seq))


def _lower(backend: HardwareBackend, reading: Reading, *, slowest: float) -> Reading:
    """Lower the closed pads onto the table, and go on pushing at the slowest speed [m/s]."""
    for _ in range(60):
        down = min((0.0105 - reading.tcp[0, 2]) * 5, -slowest)
        reading = backend.step(np.array([[0, 0, max(down, -0.4), 0, 0, 0]]), np.array([0.0]))
    return reading


# --- through the driver and the gate ------------------------------------------------------------------------


def test_the_same_actions_give_the_same_motion_as_in_simulation(backend, instance):
    actions = np.clip(np.random.default_rng(1).normal(0, 0.3, (30, 1, 7)), -1, 1)
    here = SimBackend(1, family=OTHER_FAMILY, cone="elliptic", threads=1)
    near, far = here.reset([instance]), backend.reset([instance])
    for action in actions:
        near, far = here.step(*command_from_action(action)), backend.step(*command_from_action(action))
    np.testing.assert_allclose(far.tcp, near.tcp, atol=1e-9)
    np.testing.assert_allclose(far.t, near.t, atol=1e-9)
    assert {e.verdict for e in backend.gate.evidence} == {"pass"}


def test_the_instances_parameters_are_the_robots_own(backend, instance):
    lying = replace(instance, parameters={"nut_mass": 50.0})
    np.testing.assert_array_equal(backend.reset([lying]).cloud, backend.reset([instance]).cloud)


def test_without_a_tracker_there_is_no_truth(instance):
    backend = HardwareBackend(LoopbackDriver(tracker=False), SafetyGate())
    assert backend.reset([instance]).truth is None
    assert backend.step(np.zeros((1, 6)), OPEN).truth is None
    backend.close()


def test_nan_from_a_policy_stops_the_robot_through_the_environment(backend, instance):
    env = InsertionEnv(backend, Panel("cell", OTHER_FAMILY, (instance,)))
    env.reset()
    with pytest.raises(SafetyStop, match="finite"):
        env.step(np.full(7, math.nan))
    assert backend.driver.read().status == "stopped"


def test_nan_stops_the_robot_for_good(backend, instance):
    for _ in range(5):
        backend.step(FORWARD[None], OPEN)
    with pytest.raises(SafetyStop, match="finite"):
        backend.step(np.full((1, 6), math.nan), OPEN)
    assert backend.driver.read().status == "stopped"
    held = backend.driver.idle(0.6).tcp
    np.testing.assert_allclose(backend.driver.idle(1.0).tcp[:3], held[:3], atol=5e-4)
    for _ in range(2):
        with pytest.raises(SafetyStop):
            backend.step(FORWARD[None], OPEN)
        with pytest.raises(SafetyStop):
            backend.reset([instance])
    backend.recover(by="Ada")
    backend.reset([instance])
    backend.step(FORWARD[None], OPEN)


def test_a_refused_command_is_a_period_of_standing_still(backend):
    before = backend.step(np.zeros((1, 6)), OPEN)
    after = backend.step(np.array([[0, 0, 0, 0, 0, 9.0]]), np.array([0.0]))
    assert backend.gate.evidence[-1].rule == "angular_speed"
    assert after.t[0] - before.t[0] == pytest.approx(CONTROL_DT)
    np.testing.assert_allclose(after.tcp[0, :3], before.tcp[0, :3], atol=5e-4)
    assert after.opening[0] == pytest.approx(before.opening[0], abs=1e-3)


def test_pressing_on_the_table_is_stopped(instance, tmp_path):
    """Real contact, at 5 cm/s. The force passes its limit by what one period adds."""
    limit = 40.0
    gate = SafetyGate(GateConfig(max_force=limit))
    backend = HardwareBackend(LoopbackDriver(), gate, keep=tmp_path)
    reading = backend.reset([replace(instance, nut=(0.42, -0.14, 0.0))])
    with pytest.raises(SafetyStop, match="force"):
        _lower(backend, reading, slowest=0.05)
    assert gate.latched is not None
    assert limit < gate.latched.value < 120.0
    resting = backend.driver.idle(1.0)
    assert resting.status == "stopped"
    assert np.linalg.norm(resting.wrench[:3]) < gate.latched.value
    backend.close()
    saved = load_evidence(tmp_path)
    assert saved[-1] == gate.latched
    assert saved[-1].tcp[2] == pytest.approx(0.01, abs=0.002)  # half a pad above the table


def test_an_impact_between_two_states_is_seen(instance):
    """At 20 cm/s the pads strike the table and are off again when the next state is taken."""
    gate = SafetyGate(GateConfig(max_force=60.0))
    backend = HardwareBackend(LoopbackDriver(), gate)
    reading = backend.reset([replace(instance, nut=(0.42, -0.14, 0.0))])
    with pytest.raises(SafetyStop, match="force"):
        _lower(backend, reading, slowest=0.2)
    assert gate.latched.value > 60.0
    assert np.linalg.norm(gate.latched.wrench[:3]) < 60.0
    backend.close()


def test_touching_the_table_lightly_is_not(instance):
    gate = SafetyGate(GateConfig(max_force=40.0))
    backend = HardwareBackend(LoopbackDriver(), gate)
    reading = backend.reset([replace(instance, nut=(0.42, -0.14, 0.0))])
    reading = _lower(backend, reading, slowest=0.0)
    assert gate.latched is None
    assert reading.tcp[0, 2] < 0.012
    backend.close()


def test_a_killed_robot_is_an_error_and_not_a_hang(backend):
    backend.driver.process.kill()
    start = time.monotonic()
    with pytest.raises(ConnectionLost):
        backend.step(FORWARD[None], OPEN)
    assert time.monotonic() - start < 5.0
    assert backend.gate.latched.rule == "connection"
    with pytest.raises(SafetyStop):
        backend.step(FORWARD[None], OPEN)


def test_a_driver_that_is_not_connected_says_so():
    with pytest.raises(ConnectionLost, match=r"call connect\(\)"):
        LoopbackDriver().read()


# --- in real time -------------------------------------------------------------------------------------------


def test_in_real_time_the_robot_paces_holds_and_can_be_stopped_from_another_thread(instance):
    backend = HardwareBackend(LoopbackDriver(real_time=True), SafetyGate())
    backend.reset([instance])
    start = time.monotonic()
    for _ in range(10):
        reading = backend.step(FORWARD[None], OPEN)
    assert time.monotonic() - start > 9 * CONTROL_DT
    assert reading.t[0] >= 10 * CONTROL_DT - 1e-9

    time.sleep(0.5)  # nobody sends: the robot's watchdog must act by itself
    state = backend.driver.read()
    assert state.status == "holding"

    timer = threading.Timer(0.1, backend.gate.emergency_stop, (backend.driver, "pressed"))
    timer.start()
    with pytest.raises(SafetyStop):
        _go_on(backend)
    timer.join()
    assert (backend.gate.latched.rule, backend.gate.latched.message) == ("emergency_stop", "pressed")
    assert backend.driver.read().status == "stopped"
    backend.close()


def _go_on(backend: HardwareBackend) -> None:
    for _ in range(200):
        backend.step(FORWARD[None], OPEN)


def test_a_client_that_stalls_inside_a_frame_does_not_keep_the_robot_from_holding(instance):
    driver = LoopbackDriver(real_time=True)
    driver.connect()
    driver.prepare(instance)
    driver.send(_command(0))
    driver._connection._open().sendall(b"\x10\x00")  # half a length
    time.sleep(1.5)
    with pytest.raises(ConnectionLost):  # dropped by the robot, which went on
        driver.read()
    assert driver.process.running
    driver.close()


# --- one whole task -----------------------------------------------------------------------------------------


class ScriptedInsertion:
    """Puts the nut on the bolt by looking at the truth: over it, down, grasp, up, across, down."""

    def __init__(self, world: InsertionConfig) -> None:
        self.world, self.phase, self.count = world, 0, 0
        self.nut: np.ndarray | None = None

    def __call__(self, reading: Reading) -> tuple[np.ndarray, np.ndarray]:
        """Twist and opening."""
        assert reading.truth is not None
        nut, bolt, tool = reading.truth.nut[0, :3], reading.truth.bolt[0], reading.tcp[0, :3]
        self.nut = nut.copy() if self.nut is None else self.nut
        up, held = np.array([0.0, 0.0, 1.0]), tool - nut
        grasp = self.nut + 0.004 * up
        over = bolt + (self.world.bolt_height + self.world.height / 2 + 0.015) * up
        goals = (
            (self.nut + 0.08 * up, 0.08),
            (grasp, 0.08),
            (grasp, 0.0),
            (np.array([*tool[:2], over[2] + 0.004]), 0.0),
            (over + held, 0.0),
            (bolt + (self.world.height / 2 + 0.004) * up + held, 0.0),
        )
        goal, opening = goals[self.phase]
        self.count += 1
        arrived = self.count >= 8 if self.phase == 2 else np.linalg.norm(goal - tool) < 0.003
        if arrived and self.phase < len(goals) - 1:
            self.phase, self.count = self.phase + 1, 0
        velocity = np.clip(6.0 * (goal - tool), -0.4, 0.4)
        return np.concatenate([velocity, np.zeros(3)])[None], np.array([opening])


def test_one_insertion_through_the_hardware_path(backend, instance: Instance):
    controller = ScriptedInsertion(backend.world)
    reading = backend.reset([instance])
    for _ in range(HORIZON + 15):
        reading = backend.step(*controller(reading))
        if success(reading, backend.world)[0]:
            break
    assert success(reading, backend.world)[0]
    assert {e.verdict for e in backend.gate.evidence} == {"pass"}
    trace = backend.gate.trace()
    assert np.linalg.norm(trace["wrench"].value[:, :3], axis=1).max() < backend.gate.config.max_force
