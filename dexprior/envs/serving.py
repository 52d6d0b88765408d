"""The server's end of the socket: many clients at once, none of which can stop or starve another.

    while True:   wait for bytes, or for the next deadline
                  take at most one message of each client        -> Service.answer
                  let the service do what is due                 -> Service.tick
                  drop whoever broke the protocol or a deadline  -> Service.left

Nothing here waits for one client: a frame is gathered as it comes, an answer is sent as it is taken. A client has
deadlines for its hello, for a frame that it has begun, and for taking its answers; after `idle` seconds of silence it
is dropped.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dexprior.envs import wire
from dexprior.errors import BadInput, DexpriorError

__all__ = ["Service", "ServingLimits", "serve"]

_HEAD = 4  # [bytes] of a frame's length
_CHUNK = 1 << 16  # [bytes] read from one client at a time


class Service(ABC):
    """What `serve` puts behind a socket. Clients are numbered as they come."""

    protocol: str
    version: int
    name: str
    """What messages on stderr call it."""

    @abstractmethod
    def answer(self, client: int, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer to one request; None where it must wait, and is asked for again after every `tick`.

        Raises:
            DexpriorError: the request cannot be carried out; the client is told.
        """

    def left(self, client: int, *, goodbye: bool) -> None:  # noqa: B027  # most services remember no clients
        """A client is gone; with a goodbye, or without one."""

    def failed(self, error: Exception) -> None:  # noqa: B027
        """A request ended in an error that nobody foresaw; its client is told and dropped afterwards."""

    def due(self) -> float | None:
        """When `tick` is wanted [monotonic s]; None while nothing is."""
        return None

    def tick(self) -> None:  # noqa: B027
        """Do what is due."""


@dataclass(frozen=True, kw_only=True)
class ServingLimits:
    """What a client may take."""

    frame: float = 1.0
    """Within which a hello, a frame that was begun and the taking of an answer must be complete [s]."""
    idle: float = 600.0
    """After which a silent client is dropped [s]."""
    clients: int = 16
    """Clients at a time; one more is sent away."""


@dataclass
class _Client:
    """One connection: what has come, what is still to be sent, and until when."""

    number: int
    sock: socket.socket
    peer: str
    heard: float
    """When a message of it ended [monotonic s]."""
    greeted: bool = False
    inbox: bytearray = field(default_factory=bytearray)
    begun: float | None = None
    """When the first byte of a frame came that is not complete."""
    outbox: bytearray = field(default_factory=bytearray)
    since: float | None = None
    """When it last took something of the outbox that is not empty."""
    waiting: Mapping[str, Any] | None = None
    """A request that was not answered yet."""
    ending: bool = False
    """Said goodbye, or was refused: dropped once the outbox is empty."""
    goodbye: bool = False

    def message(self) -> dict[str, Any] | None:
        """The next message that is complete.

        Raises:
            BadInput: what came is no message.
        """
        if len(self.inbox) < _HEAD:
            return None
        end = _HEAD + wire.length_of(bytes(self.inbox[:_HEAD]), self.peer)
        if len(self.inbox) < end:
            return None
        body = bytes(self.inbox[_HEAD:end])
        del self.inbox[:end]
        return wire.decode(body)

    @property
    def listening(self) -> bool:
        """Whether its next message may be taken: it has the answer to the one before."""
        return self.waiting is None and not self.ending and not self.outbox

    @property
    def ready(self) -> bool:
        """Whether the inbox holds something to be looked at, and nothing is in its way."""
        if not self.listening or len(self.inbox) < _HEAD:
            return False
        length = int.from_bytes(self.inbox[:_HEAD], "little")
        return len(self.inbox) >= _HEAD + length or not 0 < length <= wire.MAX_BYTES

    def deadline(self, limits: ServingLimits) -> float:
        """When it is dropped if nothing changes [monotonic s]."""
        times = [self.heard + (limits.idle if self.greeted else limits.frame)]
        times += [t + limits.frame for t in (self.begun, self.since) if t is not None]
        return min(times)


def serve(
    service: Service,
    listener: socket.socket,
    limits: ServingLimits | None = None,
    *,
    parent: int | None = None,
) -> None:
    """Serve clients for ever, or until the parent is gone or the listener closed.

    Args:
        service: what is served.
        listener: from `wire.listen`.
        limits: what a client may take.
        parent: a file that the parent holds open; its end ends the serving.
    """
    limits = limits or ServingLimits()
    listener.setblocking(False)
    clients: dict[int, _Client] = {}
    count = 0
    while listener.fileno() >= 0:
        due = service.due()
        # one that waits for its answer is heard, too: its end must be noticed
        readers = [listener, *(c.sock for c in clients.values() if c.listening or c.waiting is not None)]
        writers = [c.sock for c in clients.values() if c.outbox]
        times = [c.deadline(limits) for c in clients.values() if c.waiting is None] + ([] if due is None else [due])
        left = max(min(times) - time.monotonic(), 0.0) if times else None
        if any(c.ready for c in clients.values()):
            left = 0.0
        files: list[socket.socket | int] = [*readers] if parent is None else [*readers, parent]
        ready, _, _ = select.select(files, writers, [], left)
        now = time.monotonic()  # what the service takes from here on is no delay of a client's
        if parent in ready and parent is not None and not os.read(parent, 4096):
            for client in list(clients.values()):
                _drop(service, clients, client, "")
            return
        if listener in ready:
            count += _admit(service, listener, clients, count, limits)
        by_socket = {c.sock: c for c in clients.values()}
        for sock in ready:
            if sock in by_socket:
                _hear(service, clients, by_socket[sock])
        for client in list(clients.values()):
            if client.ready:
                _take(service, clients, client)
        if due is not None and time.monotonic() >= due:
            service.tick()
        for client in list(clients.values()):
            if client.waiting is not None:
                _answer(service, client, client.waiting)
        for client in list(clients.values()):
            if client.outbox:
                _flush(service, clients, client)
        for client in list(clients.values()):
            if client.ending and not client.outbox:
                _drop(service, clients, client, "")
            elif client.waiting is None and not client.ready and now >= client.deadline(limits):
                _drop(service, clients, client, "kept a frame, its answers or its silence beyond the time for them")


def _admit(
    service: Service, listener: socket.socket, clients: dict[int, _Client], number: int, limits: ServingLimits
) -> int:
    """Take one connection in; 1 if that was done."""
    try:
        sock, (host, port, *_) = listener.accept()
    except OSError:  # it was gone before it was taken
        return 0
    if len(clients) >= limits.clients:
        sock.close()
        return 0
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    clients[number] = _Client(number, sock, f"client {host}:{port}", time.monotonic())
    return 1


def _hear(service: Service, clients: dict[int, _Client], client: _Client) -> None:
    """Take bytes, or the end, of one client."""
    try:
        part = client.sock.recv(_CHUNK)
    except BlockingIOError:
        return
    except OSError as error:
        _drop(service, clients, client, f"is gone ({error})")
        return
    if not part:
        _drop(service, clients, client, "closed the connection")
        return
    client.inbox += part
    if client.begun is None:
        client.begun = time.monotonic()
    if len(client.inbox) > 2 * wire.MAX_BYTES:
        _drop(service, clients, client, "sends faster than it takes answers")


def _take(service: Service, clients: dict[int, _Client], client: _Client) -> None:
    """Take one message of a client and answer it."""
    try:
        message = client.message()
        if message is None:
            return
        if not client.greeted:
            wire.require_hello(message, service.protocol, service.version, client.peer)
    except BadInput as error:
        # the stream has lost its place, or speaks another protocol: say so, and end it
        print(f"{service.name}: {error}", file=sys.stderr)
        _say(client, wire.error_message(error))
        client.ending = True
        return
    client.heard = time.monotonic()
    client.begun = client.heard if client.inbox else None
    if not client.greeted:
        client.greeted = True
        _say(client, wire.hello(service.protocol, service.version))
    elif message["type"] == "close":
        client.ending = client.goodbye = True
        _say(client, {"type": "closed"})
    else:
        _answer(service, client, message)


def _answer(service: Service, client: _Client, message: Mapping[str, Any]) -> None:
    try:
        answer = service.answer(client.number, message)
        client.waiting = message if answer is None else None
        if answer is not None:
            _say(client, answer)
            client.heard = time.monotonic()
    except DexpriorError as error:  # a refused request, or a reading that is not finite: nothing was sent yet
        client.waiting = None
        _say(client, wire.error_message(error))
    except Exception as error:  # noqa: BLE001  # the outermost edge: one client's request must not end the others'
        client.waiting = None
        service.failed(error)
        print(f"{service.name}: {client.peer}: {error!r:.300}", file=sys.stderr)
        _say(client, wire.error_message(BadInput(f"this request failed: {error!r:.200}")))
        client.ending = True


def _say(client: _Client, message: Mapping[str, Any]) -> None:
    client.outbox += wire.encode(message)
    if client.since is None:
        client.since = time.monotonic()


def _flush(service: Service, clients: dict[int, _Client], client: _Client) -> None:
    """Send what the client takes."""
    try:
        sent = client.sock.send(client.outbox)
    except BlockingIOError:
        return
    except OSError as error:
        _drop(service, clients, client, f"could not be sent an answer ({error})")
        return
    del client.outbox[:sent]
    client.since = time.monotonic() if client.outbox else None


def _drop(service: Service, clients: dict[int, _Client], client: _Client, why: str) -> None:
    if clients.pop(client.number, None) is None:
        return
    client.sock.close()
    if why:
        print(f"{service.name}: {client.peer} {why}", file=sys.stderr)
    service.left(client.number, goodbye=client.goodbye)
