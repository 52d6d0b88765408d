"""A world behind a socket is the same world; its parameters are its own; and it does not outlive anybody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import fields, replace

import numpy as np
import pytest

from dexprior.envs import wire
from dexprior.envs.line import InsertionEnv, SimBackend
from dexprior.envs.line.base import Reading
from dexprior.envs.line.panel import Panel
from dexprior.envs.reality import RealityBackend, start_server
from dexprior.envs.reality.messages import PROTOCOL, VERSION, reading_from_plain, reading_to_plain
from dexprior.envs.reality.server import ServedWorld
from dexprior.envs.serving import Service, serve
from dexprior.errors import BadInput, ConnectionLost
from dexprior.worlds.insertion import HUMAN_WORLD, OTHER_FAMILY, TRAINING_FAMILY, InsertionConfig

STEPS = 12


@pytest.fixture(scope="module")
def server():
    with start_server() as running:
        yield running


@pytest.fixture
def reality(server):
    backend = RealityBackend(server.address)
    yield backend
    backend.close()


def _commands() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [(rng.normal(0, 0.2, (1, 6)), rng.uniform(0.02, 0.08, 1)) for _ in range(STEPS)]


def _play(backend, instance) -> list[Reading]:
    return [backend.reset([instance]), *(backend.step(*command) for command in _commands())]


def _assert_equal(a: Reading, b: Reading, tolerance: float) -> None:
    for part_a, part_b in ((a, b), (a.truth, b.truth)):
        for field in fields(part_a):
            if field.name != "truth":
                x, y = getattr(part_a, field.name), getattr(part_b, field.name)
                assert x.shape == y.shape
                assert x.dtype == y.dtype
                np.testing.assert_allclose(x, y, rtol=0, atol=tolerance, err_msg=field.name)


def test_the_socket_changes_nothing(reality, instance):
    here = SimBackend(1, family=OTHER_FAMILY, cone="elliptic", threads=1)
    for far, near in zip(_play(reality, instance), _play(here, instance), strict=True):
        _assert_equal(far, near, 1e-9)


def test_the_clients_parameters_do_not_count(reality, instance):
    lying = replace(instance, parameters={"bolt_friction": 0.01, "nut_mass": 100.0, "cloud_noise": 0.5})
    for a, b in zip(_play(reality, lying), _play(reality, instance), strict=True):
        _assert_equal(a, b, 0.0)


def test_the_description_hides_the_parameters(server):
    connection = wire.connect(server.address, timeout=5.0, peer="server")
    wire.greet(connection, PROTOCOL, VERSION)
    text = json.dumps(connection.request({"type": "describe"}))
    connection.close()
    assert not [name for name in HUMAN_WORLD if name in text]


def test_a_family_gives_a_server_one_world(instance):
    with start_server(family=TRAINING_FAMILY, cone="pyramidal", seed=5, tracker=False) as running:
        backend = RealityBackend(running.address)
        readings = _play(backend, instance)
        backend.close()
    assert not backend.tracker
    assert all(reading.truth is None for reading in readings)
    values = TRAINING_FAMILY.as_dict(TRAINING_FAMILY.sample(np.random.default_rng(5), 1)[0])
    here = SimBackend(1, family=TRAINING_FAMILY, cone="pyramidal", threads=1)
    near = _play(here, replace(instance, parameters=values))
    np.testing.assert_allclose(readings[-1].wrench, near[-1].wrench, atol=1e-9)


def test_sizes_are_the_servers(instance):
    world = InsertionConfig(bolt_radius=0.006, height=0.03)
    with start_server(world=world) as running:
        backend = RealityBackend(running)
        assert backend.world == world
        backend.close()
        assert not running.running


def test_a_gymnasium_environment_runs_on_it(reality):
    panel = Panel.sample("test", OTHER_FAMILY, 2, seed=3)
    env = InsertionEnv(reality, panel)
    observation, _ = env.reset(options={"instance": 1})
    assert env.observation_space.contains(observation)
    _, reward, *_ = env.step(np.zeros(7))
    assert 0.0 <= reward <= 1.0


def test_wrong_requests_are_refused_and_the_world_goes_on(reality, instance):
    with pytest.raises(BadInput, match="step before reset"):
        reality.step(np.zeros((1, 6)), np.zeros(1))
    with pytest.raises(BadInput, match=r"step\.twist\[1\]"):
        reality.step(np.array([[0, np.nan, 0, 0, 0, 0]]), np.zeros(1))
    with pytest.raises(BadInput, match="2 instances"):
        reality.reset([instance, instance])
    with pytest.raises(BadInput, match=r"\(2, 6\)"):
        reality.step(np.zeros((2, 6)), np.zeros(2))
    with pytest.raises(BadInput, match="'seed'"):
        reality.reset([replace(instance, seed=-1)])
    with pytest.raises(BadInput, match="unknown request 'dance'"):
        reality._session.request({"type": "dance"})
    assert reality.reset([instance]).t[0] == 0.0


def test_one_client_after_the_other(server, instance):
    for _ in range(2):
        backend = RealityBackend(server.address)
        assert backend.reset([instance]).t[0] == 0.0
        backend.close()


def test_a_silent_client_keeps_the_world_from_nobody(server, instance):
    first, second = RealityBackend(server.address), RealityBackend(server.address)
    first.reset([instance])
    start = time.monotonic()
    assert second.reset([instance]).t[0] == 0.0
    assert time.monotonic() - start < 4.0
    with pytest.raises(BadInput, match="another client has the world now"):
        first.step(np.zeros((1, 6)), np.zeros(1))
    assert second.step(np.zeros((1, 6)), np.zeros(1)).t[0] > 0
    second.close()
    first.close()


def test_a_busy_client_keeps_its_world_and_the_other_is_told_so(server, instance):
    busy, other = RealityBackend(server.address), RealityBackend(server.address)
    busy.reset([instance])
    told: list[BadInput] = []

    def ask() -> None:
        try:
            other.reset([instance])
        except BadInput as error:
            told.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    steps = 0
    while thread.is_alive():
        busy.step(np.zeros((1, 6)), np.zeros(1))
        steps += 1
    thread.join()
    assert steps > 10
    assert "busy" in str(told[0])
    other.close()
    busy.close()


@pytest.mark.parametrize(
    "request_",
    [
        {"type": "reset", "nut": [1e300, 0, 0], "bolt": [0.4, 0, 0], "nut_yaw": 0, "seed": 0},
        {"type": "reset", "nut": [0.4, 0, 0], "bolt": [0.4, 0, 0], "nut_yaw": 1e9, "seed": 0},
        {"type": "reset", "nut": [0.4, 0, 0], "bolt": [0.4, 0, 0], "nut_yaw": 0, "seed": 7e25},
        {"type": "reset", "nut": [0.4, 0, 0], "bolt": [0.4, 0, 0], "nut_yaw": 0, "seed": False},
        {"type": "step", "twist": [1e6, 0, 0, 0, 0, 0], "opening": 0.05},
        {"type": "step", "twist": [0, 0, 0, 0, 0, 0], "opening": "wide"},
    ],
    ids=str,
)
def test_what_is_out_of_range_is_refused(reality, instance, request_):
    reality.reset([instance])
    with pytest.raises(BadInput):
        reality._session.request(request_)
    assert reality.reset([instance]).t[0] == 0.0


@pytest.mark.parametrize(
    "description",
    [
        {},
        {"world": 3, "engine": "x", "tracker": True},
        {"world": {}, "engine": None, "tracker": True},
        {"world": {}, "engine": "x"},
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
    with pytest.raises(BadInput, match=r"expected a hello of dexprior\.reality version 1"):
        wire.greet(connection, "dexprior.robot", 1)


def test_killing_the_server_is_an_error_and_not_a_hang(instance):
    with start_server() as running:
        backend = RealityBackend(running.address)
        backend.reset([instance])
        running.kill()
        start = time.monotonic()
        with pytest.raises(ConnectionLost):
            backend.step(np.zeros((1, 6)), np.zeros(1))
        assert time.monotonic() - start < 5.0
        backend.close()  # does not raise


def test_a_server_that_hangs_times_out(instance):
    with start_server() as running:
        backend = RealityBackend(running.address, timeout=0.3)
        os.kill(running.pid, signal.SIGSTOP)
        with pytest.raises(ConnectionLost, match=r"within 0\.3 s"):
            backend.reset([instance])
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

    n, world = 1, InsertionConfig()

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def reset(self, instances):
        return self.reading

    def step(self, twist, opening):
        return replace(self.reading, qd=np.full((1, 7), np.nan))

    def close(self):
        pass


def test_another_engine_is_served_alike_and_its_nan_is_an_error_of_its_own(instance):
    reading = SimBackend(1, family=OTHER_FAMILY, threads=1).reset([instance])
    served = ServedWorld(backend=OtherEngine(reading), parameters={}, engine="other 1.0")
    with wire.listen() as listener:
        threading.Thread(target=serve, args=(served, listener), daemon=True).start()
        backend = RealityBackend(listener.getsockname())
        assert backend.engine == "other 1.0"
        _assert_equal(backend.reset([instance]), reading, 0.0)
        with pytest.raises(BadInput, match=r"reading\.qd\[0\] = nan"):
            backend.step(np.zeros((1, 6)), np.zeros(1))
        _assert_equal(backend.reset([instance]), reading, 0.0)
        backend.close()


def test_readings_survive_the_trip(instance):
    reading = SimBackend(1, family=OTHER_FAMILY, threads=1).reset([instance])
    plain = wire.decode(wire.encode({"type": "r"} | reading_to_plain(reading, tracker=True))[4:])
    _assert_equal(reading_from_plain(plain), reading, 0.0)
    del plain["q"]
    with pytest.raises(BadInput, match="'q'"):
        reading_from_plain(plain)
