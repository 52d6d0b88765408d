"""The gate's process around its gate: what it waits for, whom it hears meanwhile, and what it keeps whatever fails."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest
from gate_reference import CELL
from scripted import told

from dexprior.artifacts import write_json
from dexprior.envs import serving, wire
from dexprior.envs.hardware import HardwareBackend, LoopbackDriver, RobotState, SafetyGate, load_evidence, start_gate
from dexprior.envs.hardware import robot as robot_process
from dexprior.envs.hardware import server as gate_process
from dexprior.envs.hardware.options import HardwareOptions
from dexprior.envs.hardware.server import GateService
from dexprior.envs.messages import instance_to_plain
from dexprior.errors import BadInput, SafetyStop
from dexprior.types import Command


@dataclass
class Slow:
    """A robot in real time whose answers come when they are let go, and fail where they are told to."""

    state: RobotState
    failure: Exception | None = None
    real_time: bool = True
    period: float = 0.04
    free: threading.Event = field(default_factory=threading.Event)
    calls: list[str] = field(default_factory=list)

    def _answer(self, call: str) -> RobotState:
        self.calls.append(call)
        self.free.wait(10.0)
        if self.failure is not None:
            raise self.failure
        self.state = replace(self.state, t=self.state.t + 0.04, t_host=time.monotonic())
        return self.state

    def connect(self) -> None:
        pass

    def prepare(self, instance) -> RobotState:
        return self._answer("prepare")

    def read(self) -> RobotState:
        return self._answer("read")

    def send(self, command: Command) -> None:
        self.calls.append("hold" if not command.value.any() else "send")

    def stop(self) -> None:
        self.calls.append("stop")

    def recover(self) -> None:
        self.calls.append("recover")

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def driver(state):
    made = Slow(state)
    yield made
    made.free.set()


def _awaited(service: GateService, message) -> dict:
    """The answer to a request, asked for until it comes."""
    end = time.monotonic() + 5.0
    while (answer := service.answer(0, message)) is None:
        assert time.monotonic() < end
        time.sleep(1e-3)
    return answer


def _moving(driver: Slow, instance, keep=None) -> GateService:
    """A service whose robot was told to move a moment ago, and whose driver answers no more."""
    service = GateService(SafetyGate(CELL), driver, keep=keep)
    driver.free.set()
    _awaited(service, {"type": "prepare", "succeeded": None} | instance_to_plain(instance))
    _command(service, 0)
    driver.free.clear()
    return service


def _command(service: GateService, client: int) -> None:
    command = Command(
        seq=0, t=time.monotonic(), mode="cartesian_velocity", value=np.array([0, 0, 0.1, 0, 0, 0]), gripper=0.08
    )
    told = service.answer(client, {"type": "command", "command": wire.command_to_plain(command)})
    assert told["evidence"]["verdict"] == "pass"


def test_a_policy_that_waits_for_the_drivers_answer_is_not_silent(driver, instance):
    service = _moving(driver, instance)
    assert service.answer(0, {"type": "read"}) is None
    time.sleep(0.3)
    service.tick()
    driver.free.set()
    assert _awaited(service, {"type": "read"})["type"] == "state"
    service.tick()  # the late answer took nothing of the policy's own time
    assert "hold" not in driver.calls
    time.sleep(0.3)
    service.tick()
    assert driver.calls[-1] == "hold"


def test_a_state_that_nobody_waits_for_any_more_hides_no_silence(driver, instance):
    service = _moving(driver, instance)
    driver.free.set()
    _awaited(service, {"type": "read"})
    driver.free.clear()
    service.left(0, goodbye=True)
    assert service.answer(1, {"type": "read"}) is None
    service.left(1, goodbye=False)
    _command(service, 2)
    time.sleep(0.3)
    service.tick()
    assert driver.calls[-1] == "hold"


@pytest.mark.parametrize("waits_for", ["read", "prepare"])
def test_others_stop_the_robot_while_the_driver_owes_an_answer(driver, instance, waits_for):
    service = _moving(driver, instance)
    message = {"read": {"type": "read"}, "prepare": {"type": "prepare"} | instance_to_plain(instance)}[waits_for]
    assert service.answer(0, message) is None
    assert service.due() is not None
    service.answer(1, {"type": "stop", "reason": "pressed"})
    assert driver.calls[-1] == "stop"
    assert service.due() is None  # nothing is worth asking for any more
    with pytest.raises(SafetyStop, match="pressed"):
        service.answer(0, message)


def test_a_robot_on_its_way_home_is_stopped_when_the_process_ends(driver, instance):
    service = GateService(SafetyGate(CELL), driver)
    assert service.answer(0, {"type": "prepare"} | instance_to_plain(instance)) is None
    driver.failure = RuntimeError("unplugged")
    driver.free.set()
    service.end()
    assert "stop" in driver.calls


def test_a_task_is_counted_once_however_long_the_way_home_is(driver, instance):
    service = _moving(driver, instance)
    driver.free.clear()
    message = {"type": "prepare", "succeeded": False} | instance_to_plain(instance)
    for _ in range(20):
        assert service.answer(0, message) is None
    driver.free.set()
    assert _awaited(service, message)["type"] == "state"
    assert service.gate.latched is None


@pytest.mark.parametrize("failure", [RuntimeError("unplugged"), ValueError("torn"), OSError("gone")])
def test_whatever_the_driver_raises_at_the_end_the_evidence_is_kept_and_it_is_closed(
    driver, instance, tmp_path, failure
):
    service = _moving(driver, instance, keep=tmp_path)
    driver.failure = failure
    driver.free.set()
    service.end()
    assert load_evidence(tmp_path)[-1].verdict == "stop"
    assert driver.calls[-1] == "close"


def test_evidence_is_on_disk_before_the_robot_is_waited_for(driver, instance, tmp_path):
    service = _moving(driver, instance, keep=tmp_path)
    ending = threading.Thread(target=service.end)
    ending.start()
    try:
        end = time.monotonic() + 5.0
        while driver.calls[-1] != "read":
            assert time.monotonic() < end
            time.sleep(1e-3)
        assert load_evidence(tmp_path)[-1].verdict == "stop"
    finally:
        driver.free.set()
        ending.join()


def test_a_folder_that_takes_nothing_neither_ends_the_gate_nor_loses_the_evidence(driver, instance, tmp_path, capfd):
    keep = tmp_path / "kept"
    keep.write_text("a file stands where the folder should be")
    service = _moving(driver, instance, keep=keep)
    assert service.answer(1, {"type": "stop", "reason": "pressed"}) == {"type": "done"}
    assert f"cannot be kept in {keep}" in capfd.readouterr().err
    keep.unlink()
    service.answer(1, {"type": "evidence", "last": 1})
    assert load_evidence(keep)[-1].message == "pressed"


def test_a_folder_that_takes_nothing_at_the_end_leaves_a_robot_that_is_let_go(driver, instance, tmp_path, capfd):
    (tmp_path / "taken").write_text("")
    service = _moving(driver, instance, keep=tmp_path / "taken")
    driver.free.set()
    service.end()
    assert driver.calls[-1] == "close"
    assert "cannot be kept" in capfd.readouterr().err


def test_a_folder_that_cannot_be_is_refused_before_anything_starts(tmp_path, capfd):
    (tmp_path / "taken").write_text("")
    options = write_json(tmp_path / "options.json", {"keep": str(tmp_path / "taken" / "below")})
    with pytest.raises(SystemExit) as ended:
        gate_process.main(["--options", str(options)])
    said = capfd.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert "taken" in said.err


@pytest.mark.parametrize(("field", "value"), [("by", 3), ("by", "x" * 1001), ("succeeded", 1), ("succeeded", "yes")])
def test_a_field_of_another_kind_is_named(driver, instance, field, value):
    message = {"by": {"type": "recover"}, "succeeded": {"type": "prepare"} | instance_to_plain(instance)}[field]
    with pytest.raises(BadInput, match=f"'{field}'"):
        GateService(SafetyGate(CELL), driver).answer(0, message | {field: value})


# --- with processes -------------------------------------------------------------------------------------------


@pytest.fixture
def served(monkeypatch):
    """Starts the serving of a process's `main` in a thread; the server's clock may be put forward."""
    listeners, ahead = [], [0.0]
    monkeypatch.setattr(serving, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + ahead[0]))

    def start(module, arguments):
        announced = threading.Event()

        def announce(listener):
            listeners.append(listener)
            announced.set()

        monkeypatch.setattr(module, "announce", announce)
        threading.Thread(target=module.main, args=(arguments,), daemon=True).start()
        assert announced.wait(60.0)
        return listeners[-1].getsockname()[:2]

    start.ahead = ahead
    yield start
    for listener in listeners:
        listener.close()


def test_a_stop_connection_may_be_silent_for_hours(served, instance):
    _, port = served(robot_process, [])
    driver = LoopbackDriver(port=port)
    driver.connect()
    for _ in range(20):
        served.ahead[0] += 600.0
        driver.read()
    driver.stop()
    assert driver.read().status == "stopped"
    driver.close()


def test_a_policy_may_pause_for_hours(served, instance, tmp_path):
    backend = HardwareBackend(served(gate_process, []))
    backend.reset(instance)
    served.ahead[0] += 20_000.0
    other = HardwareBackend(backend._session.address)
    backend.step(told(np.zeros(6)))
    assert other.evidence(1)[0].verdict == "pass"
    other.close()
    backend.close()


def test_a_gate_that_is_asked_to_end_keeps_its_evidence(instance, tmp_path):
    with start_gate(HardwareOptions(real_time=True, keep=str(tmp_path))) as gate:
        backend = HardwareBackend(gate.address)
        backend.reset(instance)
        backend.step(told([0, 0, 0.1, 0, 0, 0]))
        os.kill(gate.pid, signal.SIGTERM)
        end = time.monotonic() + 10.0
        while gate.running and time.monotonic() < end:
            time.sleep(0.01)
        assert not gate.running
        backend.close()
    assert load_evidence(tmp_path)[-1].verdict in ("stop", "refuse")


def test_stops_that_are_refused_leave_no_connection_behind(instance):
    backend = HardwareBackend(start_gate())
    backend.reset(instance)
    kept = []
    for _ in range(20):  # more than there may be clients; what was raised holds on to whatever it passed
        with pytest.raises(BadInput, match="'reason'") as caught:
            backend.emergency_stop(" ")
        kept.append(caught)
    backend.close()
