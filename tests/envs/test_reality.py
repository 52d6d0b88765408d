"""A world behind a socket is the same world; its parameters are its own; and it does not outlive anybody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from scripted import told

from dexprior.envs import wire
from dexprior.envs.base import ActionSpec, Reading
from dexprior.envs.panel import Panel
from dexprior.envs.reality import RealityBackend, start_server
from dexprior.envs.reality.messages import PROTOCOL, VERSION, reading_from_plain, reading_to_plain, shapes_of
from dexprior.envs.reality.server import ServedWorld
from dexprior.envs.serving import Service, serve
from dexprior.envs.sim import SimBackend
from dexprior.envs.tasks import TaskEnv
from dexprior.errors import BadInput, ConnectionLost
from dexprior.families import SensorModels, SightConfig
from dexprior.worlds.tasks import Insertion, make_task

STEPS = 12
TASK = make_task("insertion").other()


@pytest.fixture(scope="module")
def server():
    with start_server() as running:
        yield running


@pytest.fixture
def reality(server):
    backend = RealityBackend(server.address)
    yield backend
    backend.close()


def _play(backend, instance) -> list[Reading]:
    rng = np.random.default_rng(0)
    commands = [told(rng.normal(0, 0.2, 6), rng.uniform(0.02, 0.08)) for _ in range(STEPS)]
    return [backend.reset(instance), *(backend.step(command) for command in commands)]


def _assert_equal(a: Reading, b: Reading, tolerance: float) -> None:
    parts = [({"t": r.t, "cloud": r.cloud} | vars(r.robots[0]) | r.truth) for r in (a, b)]
    assert parts[0].keys() == parts[1].keys()
    for name, value in parts[0].items():
        assert value.shape == parts[1][name].shape, name
        assert value.dtype == parts[1][name].dtype, name
        np.testing.assert_allclose(value, parts[1][name], rtol=0, atol=tolerance, err_msg=name)


def test_the_socket_changes_nothing(reality, instance):
    here = SimBackend(TASK, 1, family=TASK.reality, threads=1)
    for far, near in zip(_play(reality, instance), _play(here, instance), strict=True):
        _assert_equal(far, near, 1e-9)


def test_the_clients_parameters_do_not_count(reality, instance):
    lying = replace(instance, parameters=instance.parameters + 10.0)
    for a, b in zip(_play(reality, lying), _play(reality, instance), strict=True):
        _assert_equal(a, b, 0.0)


def test_the_description_hides_the_parameters(server):
    connection = wire.connect(server.address, timeout=5.0, peer="server")
    wire.greet(connection, PROTOCOL, VERSION)
    text = json.dumps(connection.request({"type": "describe"}))
    connection.close()
    assert not [name for name in Insertion.reality.names if name in text]


def test_a_family_gives_a_server_one_world(instance):
    plain = make_task("insertion")
    with start_server(task=plain, family=plain.family, seed=5, tracker=False) as running:
        backend = RealityBackend(running.address)
        readings = _play(backend, instance)
        backend.close()
    assert not backend.tracker
    assert all(reading.truth is None for reading in readings)
    values = plain.family.sample(np.random.default_rng(5), 1)
    near = _play(SimBackend(plain, 1, threads=1), replace(instance, family=plain.family, parameters=values))
    np.testing.assert_allclose(readings[-1].robots[0].wrench, near[-1].robots[0].wrench, atol=1e-9)


def test_a_server_without_labels_says_so_and_shows_what_is_seen_here(reality, instance):
    assert reality.labels
    sensors = SensorModels(sight=SightConfig(labels=False))
    with start_server(sensors=sensors) as running:
        backend = RealityBackend(running.address)
        assert not backend.labels
        far = backend.reset(instance)
        backend.close()
    near = SimBackend(TASK, 1, family=TASK.reality, sensors=sensors, threads=1).reset(instance)
    np.testing.assert_allclose(far.cloud, near.cloud, rtol=0, atol=1e-9)
    assert far.bodies is None


def test_sizes_are_the_servers(instance):
    task = make_task("insertion", bolt_radius=0.006, height=0.03)
    with start_server(task=task) as running:
        backend = RealityBackend(running)
        assert backend.task == task
        backend.close()
        assert not running.running


def test_a_gymnasium_environment_runs_on_it(reality):
    panel = Panel.sample("test", TASK, 2, seed=3, family=TASK.reality)
    env = TaskEnv(TASK, backend=reality, panel=panel)
    observation, _ = env.reset(options={"instance": 1})
    assert env.observation_space.contains(observation)
    _, reward, *_ = env.step(np.zeros(7))
    assert 0.0 <= reward <= 1.0


def test_wrong_requests_are_refused_and_the_world_goes_on(reality, instance):
    with pytest.raises(BadInput, match="step before reset"):
        reality.step(told(np.zeros(6)))
    with pytest.raises(BadInput, match=r"step\.commands\[0\]\.arm\[1\]"):
        reality.step(told([0, np.nan, 0, 0, 0, 0]))
    with pytest.raises(BadInput, match="2 instances"):
        reality.reset(instance.take([0, 0]))
    with pytest.raises(BadInput, match="'seed'"):
        reality.reset(replace(instance, seeds=np.array([-1])))
    with pytest.raises(BadInput, match="unknown request 'dance'"):
        reality._session.request({"type": "dance"})
    assert reality.reset(instance).t[0] == 0.0
    with pytest.raises(BadInput, match=r"'commands' holds 2, expected 1"):
        reality.step((*told(np.zeros(6)), *told(np.zeros(6))))
    assert reality.step(told(np.zeros(6))).t[0] == 0.04


def test_one_client_after_the_other(server, instance):
    for _ in range(2):
        backend = RealityBackend(server.address)
        assert backend.reset(instance).t[0] == 0.0
        backend.close()


def test_a_silent_client_keeps_the_world_from_nobody(server, instance):
    first, second = RealityBackend(server.address), RealityBackend(server.address)
    first.reset(instance)
    start = time.monotonic()
    assert second.reset(instance).t[0] == 0.0
    assert time.monotonic() - start < 4.0
    with pytest.raises(BadInput, match="another client has the world now"):
        first.step(told(np.zeros(6)))
    assert second.step(told(np.zeros(6))).t[0] > 0
    second.close()
    first.close()


def test_a_busy_client_keeps_its_world_and_the_other_is_told_so(server, instance):
    busy, other = RealityBackend(server.address), RealityBackend(server.address)
    busy.reset(instance)
    refusals: list[BadInput] = []

    def ask() -> None:
        try:
            other.reset(instance)
        except BadInput as error:
            refusals.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    steps = 0
    while thread.is_alive():
        busy.step(told(np.zeros(6)))
        steps += 1
    thread.join()
    assert steps > 10
    assert "busy" in str(refusals[0])
    other.close()
    busy.close()


@pytest.mark.parametrize(
    "request_",
    [
        {"type": "reset", "scene": {"nut": [1e300, 0, 0], "bolt": [0.4, 0, 0], "yaw": 0}, "seed": 0},
        {"type": "reset", "scene": {"nut": [0.4, 0, 0], "bolt": [0.4, 0, 0], "yaw": 1e9}, "seed": 0},
        {"type": "reset", "scene": {"nut": [0.4, 0, 0], "bolt": [0.4, 0, 0]}, "seed": 0},
        {"type": "reset", "scene": [1.0], "seed": 0},
        {"type": "reset", "scene": {"nut": [0.4, 0, 0], "bolt": [0.4, 0, 0], "yaw": 0}, "seed": 7e25},
        {"type": "reset", "scene": {"nut": [0.4, 0, 0], "bolt": [0.4, 0, 0], "yaw": 0}, "seed": False},
        {"type": "step", "commands": [{"arm": [1e6, 0, 0, 0, 0, 0], "end": [0.02, 0.02]}]},
        {"type": "step", "commands": [{"arm": [0, 0, 0, 0, 0, 0], "end": "wide"}]},
        {"type": "step", "commands": [{"arm": [0, 0, 0, 0, 0, 0], "end": [0.02]}]},
        {"type": "step", "commands": 3},
    ],
    ids=str,
)
def test_what_is_out_of_range_is_refused(reality, instance, request_):
    reality.reset(instance)
    with pytest.raises(BadInput):
        reality._session.request(request_)
    assert reality.reset(instance).t[0] == 0.0


@pytest.mark.parametrize(
    "description",
    [
        {},
        {"task": 3, "engine": "x", "tracker": True},
        {"task": {}, "engine": None, "tracker": True},
        {"task": {"name": "insertion"}, "engine": "x", "tracker": True},
        {"task": {"name": "insertion"}, "engine": "x", "tracker": True, "arm_action": "cartesian"},
    ],
    ids=str,
)
def test_a_server_that_describes_itself_badly_is_refused(description):
    with wire.listen() as listener:
        threading.Thread(target=serve, args=(_Odd(description), listener), daemon=True).start()
        with pytest.raises(BadInput, match="describes itself without"):
            RealityBackend(listener.getsockname())


class _Odd(Service):
    """A server that says what it likes."""

    protocol, version, name = PROTOCOL, VERSION, "odd server"

    def __init__(self, description: dict) -> None:
        self._description = description

    def answer(self, client, message):
        return {"type": "description"} | self._description


def test_another_protocol_is_told_so(server):
    connection = wire.connect(server.address, timeout=5.0, peer="server")
    with pytest.raises(BadInput, match=r"expected a hello of dexprior\.reality version 3"):
        wire.greet(connection, "dexprior.robot", 1)


def test_killing_the_server_is_an_error_and_not_a_hang(instance):
    with start_server() as running:
        backend = RealityBackend(running.address)
        backend.reset(instance)
        running.kill()
        start = time.monotonic()
        with pytest.raises(ConnectionLost):
            backend.step(told(np.zeros(6)))
        assert time.monotonic() - start < 5.0
        backend.close()  # does not raise


def test_a_server_that_hangs_times_out(instance):
    with start_server() as running:
        backend = RealityBackend(running.address, timeout=0.3)
        os.kill(running.pid, signal.SIGSTOP)
        with pytest.raises(ConnectionLost, match=r"within 0\.3 s"):
            backend.reset(instance)
        os.kill(running.pid, signal.SIGCONT)


@pytest.mark.slow
def test_a_server_ends_with_its_parent_however_that_ends():
    code = (
        "import time; from dexprior.envs.reality import start_server; s = start_server();"
        "print(s.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 5.0
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stream:  # an ended process that nobody waited for still has an id
        return stream.read().rpartition(")")[2].split()[0] != "Z"


class OtherEngine:
    """What another engine must offer; this one answers with what it is given."""

    n, task, labels = 1, TASK, True
    actions = ActionSpec(TASK.layout().rigs, "cartesian", TASK.control_dt)

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def reset(self, panel, ids=None):
        return self.reading

    def step(self, commands):
        robot = replace(self.reading.robots[0], qd=np.full((1, 7), np.nan))
        return replace(self.reading, robots=(robot,))

    def close(self):
        pass


def test_another_engine_is_served_alike_and_its_nan_is_an_error_of_its_own(instance):
    reading = SimBackend(TASK, 1, family=TASK.reality, threads=1).reset(instance)
    served = ServedWorld(
        backend=OtherEngine(reading), family=TASK.reality, values=instance.parameters[0], engine="other 1.0"
    )
    with wire.listen() as listener:
        threading.Thread(target=serve, args=(served, listener), daemon=True).start()
        backend = RealityBackend(listener.getsockname())
        assert backend.engine == "other 1.0"
        _assert_equal(backend.reset(instance), reading, 0.0)
        with pytest.raises(BadInput, match=r"reading\.robots\[0\]\.qd\[0\] = nan"):
            backend.step(told(np.zeros(6)))
        _assert_equal(backend.reset(instance), reading, 0.0)
        backend.close()


def test_readings_survive_the_trip(instance):
    reading = SimBackend(TASK, 1, family=TASK.reality, threads=1).reset(instance)
    plain = wire.decode(wire.encode({"type": "r"} | reading_to_plain(reading, tracker=True))[4:])
    shapes = shapes_of(OtherEngine.actions)
    _assert_equal(reading_from_plain(plain, shapes, TASK.points), reading, 0.0)
    without = {
        "truth": plain["truth"] | {"held": "maybe"},
        "robots": [plain["robots"][0] | {"q": [1.0]}],
        "cloud": [[1.0]],
    }
    for name, value in without.items():
        with pytest.raises(BadInput, match=r"shape|numbers"):
            reading_from_plain(plain | {name: value}, shapes, TASK.points)
    for truth in ({}, [1], {"object": [0.0] * 7, "slip": 0.0}, {f"x{k}": 0.0 for k in range(99)}):
        with pytest.raises(BadInput, match="'truth'"):
            reading_from_plain(plain | {"truth": truth}, shapes, TASK.points)
    with pytest.raises(BadInput, match="a list of 0: expected a list"):
        reading_from_plain(plain | {"robots": []}, shapes, TASK.points)
