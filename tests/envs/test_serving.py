"""No client stops or starves another, whatever it sends, leaves out or does not take."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from dexprior.envs import wire
from dexprior.envs.serving import Service, ServingLimits, serve
from dexprior.errors import BadInput, ConnectionLost

LIMITS = ServingLimits(frame=0.8, idle=4.0, clients=6)
_AT_ONCE = 0.6  # [s] less than a server that waits for one client's frame keeps another one waiting


class Echo(Service):
    """Answers what it is sent; on request with an error, a surprise, later, or at length."""

    protocol, version, name = "echo", 1, "echo server"

    def __init__(self) -> None:
        self.gone: list[bool] = []
        self.failures: list[Exception] = []
        self.ticks = 0

    def answer(self, client: int, message: Mapping[str, Any]) -> dict[str, Any] | None:
        kind = message["type"]
        if kind == "refuse":
            raise BadInput("no")
        if kind == "surprise":
            raise ZeroDivisionError("nobody thought of this")
        if kind == "later":
            return None if self.ticks < 3 else {"type": "at last"}
        return {"type": "echo", "text": "x" * message.get("size", 1)}

    def left(self, client: int, *, goodbye: bool) -> None:
        self.gone.append(goodbye)

    def failed(self, error: Exception) -> None:
        self.failures.append(error)

    def due(self) -> float:
        return time.monotonic() + 0.05

    def tick(self) -> None:
        self.ticks += 1


@pytest.fixture
def service():
    made = Echo()
    made.listener = wire.listen()
    threading.Thread(target=serve, args=(made, made.listener, LIMITS), daemon=True).start()
    return made


def _client(service: Echo) -> wire.Connection:
    connection = wire.connect(service.listener.getsockname(), timeout=10.0, peer="echo")
    wire.greet(connection, "echo", 1)
    return connection


def _bare(service: Echo, greeted: bool = True) -> socket.socket:
    sock = socket.create_connection(service.listener.getsockname())
    if greeted:
        sock.sendall(_frame(json.dumps(wire.hello("echo", 1)).encode()))
    return sock


def _frame(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


def _served(connection: wire.Connection, seconds: float) -> None:
    """A well-behaved client has each of its answers at once, for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        assert connection.request({"type": "a"})["type"] == "echo"
        assert time.monotonic() - start < _AT_ONCE
        time.sleep(0.01)


def _ended(sock: socket.socket) -> bool:
    """Whether the server has closed it."""
    sock.settimeout(10.0)
    try:
        while sock.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


BAD = {
    "no hello": (b"", False),
    "half a length": (b"\x10\x00", True),
    "half a message": (struct.pack("<I", 100) + b"{", True),
    "another protocol": (b"GET / HTTP/1.1\r\n\r\n", False),
    "no JSON": (_frame(b"{"), True),
    "no text": (_frame(b"\xff\xfe"), True),
    "no type": (_frame(b"{}"), True),
    "NaN": (_frame(b'{"type": "a", "v": NaN}'), True),
    "an integer of 310 digits": (_frame(b'{"type": "a", "v": 1' + b"0" * 309 + b"}"), True),
    "a key twice": (_frame(b'{"type": "a", "type": "b"}'), True),
    "too deep": (_frame(b'{"type": "a", "v": ' + b"[" * 99 + b"]" * 99 + b"}"), True),
    "surprise": (_frame(b'{"type": "surprise"}'), True),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_client_is_dropped_and_nobody_else_notices(service, name):
    data, greeted = BAD[name]
    good, bad = _client(service), _bare(service, greeted)
    bad.sendall(data)
    _served(good, 1.2)
    assert _ended(bad)
    good.close()


def test_a_client_that_does_not_take_its_answers_is_dropped(service):
    good, bad = _client(service), _bare(service)
    bad.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    for _ in range(20):
        bad.sendall(_frame(b'{"type": "a", "size": 900000}'))
    _served(good, 1.2)
    deadline = time.monotonic() + 20.0
    while not service.gone and time.monotonic() < deadline:
        _served(good, 0.05)
    assert service.gone == [False]
    good.close()


def test_a_flood_does_not_starve_another_client(service):
    good, bad = _client(service), _bare(service)
    stop = threading.Event()

    def flood() -> None:
        try:
            while not stop.is_set():
                bad.sendall(_frame(b'{"type": "a"}') * 50)
        except OSError:
            return

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        _served(good, 1.2)
    finally:
        stop.set()
        bad.close()
        thread.join()
        good.close()


def test_a_waiting_client_gets_its_answer_later_and_the_others_at_once(service):
    good, patient = _client(service), _client(service)
    patient.send({"type": "later"})
    _served(good, 0.1)
    assert patient.receive()["type"] == "at last"
    good.close()
    patient.close()


def test_a_refused_request_leaves_the_connection(service):
    client = _client(service)
    with pytest.raises(BadInput, match="no"):
        client.request({"type": "refuse"})
    assert client.request({"type": "a"})["type"] == "echo"
    client.close()


def test_a_surprise_is_told_and_handed_to_the_service(service):
    client = _client(service)
    with pytest.raises(BadInput, match="this request failed: ZeroDivisionError"):
        client.request({"type": "surprise"})
    assert [type(e) for e in service.failures] == [ZeroDivisionError]


def test_a_goodbye_is_told_from_an_end(service):
    polite, rude = _client(service), _client(service)
    assert polite.request({"type": "close"})["type"] == "closed"
    rude.close()
    deadline = time.monotonic() + 20.0
    while len(service.gone) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sorted(service.gone) == [False, True]


def test_a_silent_client_is_dropped_after_a_while(service):
    silent = _client(service)
    time.sleep(LIMITS.idle + 0.3)
    with pytest.raises(ConnectionLost):
        silent.request({"type": "a"})


def test_there_is_room_for_so_many_clients(service):
    clients = [_client(service) for _ in range(LIMITS.clients)]
    with pytest.raises(ConnectionLost):
        _client(service)
    clients[0].close()
    time.sleep(0.1)
    _client(service).close()


@pytest.mark.parametrize(("protocol", "version"), [("echo", 2), ("other", 1)])
def test_another_protocol_is_told_to_the_client(service, protocol, version):
    connection = wire.connect(service.listener.getsockname(), timeout=10.0, peer="echo")
    with pytest.raises(BadInput, match=f"said {protocol} version {version}; expected a hello of echo version 1"):
        wire.greet(connection, protocol, version)
