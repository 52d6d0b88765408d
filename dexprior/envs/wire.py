"""The socket between a backend and the process (or robot) that it drives: messages, and the client's end of it.

    frame      4 bytes, little-endian: length in bytes | one JSON object in UTF-8, with a key `type`
    hello      first frame of each side: {"type": "hello", "protocol": NAME, "version": N}
    error      an answer that a request was refused: {"type": "error", "kind": NAME, "message": TEXT}

JSON is strict in both directions: NaN and Infinity are neither written nor read, nor numbers that overflow to
infinity, integers beyond 64 bits, keys that stand twice, or data nested deeper than `MAX_DEPTH`. A world that
swallows one NaN is lost, and a reading that holds one is a broken sensor. What a number may be, the one who takes it
out of a message says (`array_from`, `whole_from`): neither side trusts the other.

The exceptions are robot commands (`command_to_plain`) and the evidence about them. A robot must be able to see what
was really asked, refuse it and say so; if NaN could not travel, a broken policy and a broken cable would look the
same. There, and only in their numbers, non-finite values are the strings "nan", "inf" and "-inf": still strict JSON,
so that any client can read it.

There is no authentication: sockets are bound to 127.0.0.1 unless the caller says otherwise.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from dexprior.errors import BadInput, ConnectionLost, SafetyStop
from dexprior.reading import as_described, listed, parse_json_object, shown
from dexprior.types import Command

__all__ = [
    "LOCALHOST",
    "MAX_BYTES",
    "MAX_DEPTH",
    "Connection",
    "array_from",
    "command_from_plain",
    "command_to_plain",
    "connect",
    "decode",
    "encode",
    "error_message",
    "greet",
    "hello",
    "length_of",
    "listen",
    "number_from_plain",
    "number_to_plain",
    "require_hello",
    "whole_from",
]

LOCALHOST = "127.0.0.1"
MAX_BYTES = 1 << 20
"""Largest message; a reading takes about 6 kB, so a length beyond this is a foreign peer or a bug."""
MAX_DEPTH = 16
"""Lists and objects within each other; the deepest message, gate evidence, has six."""

_MAX_AXIS = 4096  # numbers along an axis whose length the message declares
_SHOWN = 300  # characters of a peer's error message that are passed on
_LENGTH = struct.Struct("<I")
_NOT_FINITE = ("nan", "inf", "-inf")
_REMOTE_ERRORS: dict[str, type[Exception]] = {
    "BadInput": BadInput,
    "SafetyStop": SafetyStop,
    "ConnectionLost": ConnectionLost,  # of what stands behind the peer
}


# --- messages -----------------------------------------------------------------------------------------------


def encode(message: Mapping[str, Any]) -> bytes:
    """One frame; arrays become nested lists, and float64 survives exactly.

    Raises:
        BadInput: a number that is not finite, something that JSON cannot say, or more than `MAX_BYTES`.
    """
    try:
        body = json.dumps(message, default=_plain, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        path = _first_not_finite(message, str(message.get("type", "message")))
        raise BadInput(f"{path}: only finite numbers travel, except in robot commands and evidence") from None
    except TypeError as error:
        raise BadInput(f"message {message.get('type')!r} is not plain data: {error}") from None
    if len(body) > MAX_BYTES:
        raise BadInput(f"message {message.get('type')!r} has {len(body)} bytes, at most {MAX_BYTES} are sent")
    return _LENGTH.pack(len(body)) + body


def decode(body: bytes) -> dict[str, Any]:
    """The message of one frame's body.

    Raises:
        BadInput: not UTF-8, not JSON, nested too deeply, a key twice, a number that is not finite or an integer beyond
            64 bits, or no object with a `type`.
    """
    message = parse_json_object(body, f"a frame of {len(body)} bytes", max_bytes=MAX_BYTES, max_depth=MAX_DEPTH)
    if not isinstance(message.get("type"), str):
        raise BadInput(f"a message must be a JSON object with a text `type`, got {str(message)[:60]!r}")
    return message


def length_of(head: bytes, peer: str) -> int:
    """Bytes of a frame's body, from the four before it.

    Raises:
        BadInput: a length that no message has.
    """
    (length,) = _LENGTH.unpack(head)
    if not 0 < length <= MAX_BYTES:
        raise BadInput(
            f"{peer} announced a message of {length} bytes, 1 to {MAX_BYTES} are allowed: "
            "it probably speaks another protocol"
        )
    return int(length)


def array_from(message: Mapping[str, Any], name: str, *shape: int | str, limit: float = math.inf) -> np.ndarray:
    """A field of a message as float64 of a given shape.

    Args:
        message: where it stands.
        name: of the field.
        shape: length of each axis; a name where the message itself declares it.
        limit: largest absolute value.

    Raises:
        BadInput: the field is missing, holds something else than numbers, has another shape, or a number beyond the
            limit.
    """
    if name not in message:
        raise BadInput(f"message {message.get('type')!r} lacks {name!r}; it has: {', '.join(message)}")
    shown = f"({', '.join(map(str, shape))})"
    try:
        array = np.array(message[name])
    except (TypeError, ValueError):
        raise BadInput(f"field {name!r} must hold numbers of shape {shown}, got {message[name]!r:.80}") from None
    if array.dtype.kind not in "iufb" and array.size:
        raise BadInput(f"field {name!r} must hold numbers of shape {shown}, got {message[name]!r:.80}")
    array = array.astype(np.float64)
    if array.shape == (0,) and shape[1:] and isinstance(shape[0], str) and all(isinstance(n, int) for n in shape[1:]):
        array = array.reshape(0, *map(int, shape[1:]))  # a list of nothing does not say how wide it is
    fits = array.ndim == len(shape) and all(
        n <= _MAX_AXIS if isinstance(axis, str) else n == axis for n, axis in zip(array.shape, shape)
    )
    if not fits or not np.isfinite(array).all():
        raise BadInput(f"field {name!r} has shape {array.shape}, expected finite numbers of shape {shown}")
    if array.size and np.abs(array).max() > limit:
        raise BadInput(
            f"field {name!r} holds {array.flat[np.abs(array).argmax()]:g}, allowed are -{limit:g} to {limit:g}"
        )
    return array


def whole_from(message: Mapping[str, Any], name: str, low: int, high: int) -> int:
    """A field of a message that is a whole number in [low, high].

    Raises:
        BadInput: it is missing, not whole, or out of range.
    """
    value = message.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise BadInput(f"field {name!r} must be a whole number from {low} to {high}, got {value!r:.80}")
    return value


def command_to_plain(command: Command) -> dict[str, Any]:
    """A robot command as strict JSON data; numbers that are not finite become "nan", "inf" or "-inf"."""
    return {
        "seq": command.seq,
        "t": number_to_plain(command.t),
        "mode": command.mode,
        "value": [number_to_plain(v) for v in command.value],
        "gripper": None if command.gripper is None else number_to_plain(command.gripper),
        "saturated": command.saturated,
    }


def command_from_plain(data: Any) -> Command:
    """Inverse of `command_to_plain`.

    Raises:
        BadInput: a key is missing or of the wrong kind. Not for a NaN: that is for the receiver to refuse.
    """
    with as_described("a command", "the message"):
        seq, mode, gripper = whole_from(data, "seq", 0, 2**62), data["mode"], data["gripper"]
        value = np.array([number_from_plain(v) for v in listed(data["value"], "value", empty=True)])
        return Command(
            seq=seq,
            t=number_from_plain(data["t"]),
            mode=mode,
            value=value,
            gripper=None if gripper is None else number_from_plain(gripper),
            saturated=whole_from({"saturated": 0} | dict(data), "saturated", 0, _MAX_AXIS),
        )


def number_to_plain(value: float) -> float | str:
    """A number as strict JSON data; one that is not finite becomes "nan", "inf" or "-inf"."""
    value = float(value)
    return value if math.isfinite(value) else str(value)


def number_from_plain(value: Any) -> float:
    """Inverse of `number_to_plain`.

    Raises:
        BadInput: something else, or an integer beyond the range of a float.
    """
    if isinstance(value, bool) or not (isinstance(value, (int, float)) or value in _NOT_FINITE):
        raise BadInput(f"{shown(value)} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise BadInput(f"{shown(value)} is beyond the range of a float") from None


def error_message(error: Exception) -> dict[str, Any]:
    """What a server answers to a request that it refuses."""
    kind = next((name for name, cls in _REMOTE_ERRORS.items() if isinstance(error, cls)), "BadInput")
    return {"type": "error", "kind": kind, "message": str(error)}


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot travel")


def _first_not_finite(value: Any, path: str) -> str:
    if isinstance(value, Mapping):
        children = ((f"{path}.{k}", v) for k, v in value.items())
    elif isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value) > 0:
        children = ((f"{path}[{k}]", v) for k, v in enumerate(value))
    else:
        return f"{path} = {value}" if isinstance(value, (float, np.floating)) and not math.isfinite(value) else ""
    return next((found for p, v in children if (found := _first_not_finite(v, p))), "")


# --- connections --------------------------------------------------------------------------------------------


class Connection:
    """Messages over one socket. A broken frame or a time-out closes it: the stream has lost its place.

    Args:
        sock: connected.
        timeout: seconds within which a started frame must be complete, and a request answered.
        peer: what error messages call the other end.
    """

    def __init__(self, sock: socket.socket, *, timeout: float, peer: str) -> None:
        self.timeout, self.peer = timeout, peer
        self._sock: socket.socket | None = sock
        self._lock = threading.Lock()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message.

        Raises:
            BadInput: the message cannot be encoded; nothing was sent.
            ConnectionLost: the peer is gone, or does not read.
        """
        frame = encode(message)
        sock = self._open()
        try:
            sock.settimeout(self.timeout)
            sock.sendall(frame)
        except OSError as error:
            self._lost(f"could not be sent {message.get('type')!r} ({error})", error)

    def receive(self, *, wait: float | None = None) -> dict[str, Any]:
        """The next message.

        Args:
            wait: seconds until its first byte must come; by default `timeout`.

        Raises:
            ConnectionLost: the peer closed the connection, between frames or inside one, or time is up.
            BadInput: a frame that is too long or holds no message.
        """
        sock = self._open()
        first = self.timeout if wait is None else wait
        head = self._exactly(sock, 1, time.monotonic() + first, first, "an answer")
        deadline = time.monotonic() + self.timeout
        head += self._exactly(sock, 3, deadline, self.timeout, "the rest of a length")
        try:
            length = length_of(head, self.peer)
        except BadInput:
            self.close()
            raise
        body = self._exactly(sock, length, deadline, self.timeout, "the rest of a message")
        try:
            return decode(body)
        except BadInput:
            self.close()
            raise

    def request(self, message: Mapping[str, Any], *, wait: float | None = None) -> dict[str, Any]:
        """Send a message and return its answer; safe to call from several threads.

        Raises:
            BadInput, SafetyStop, ConnectionLost: as the peer says in an error message.
            ConnectionLost: as `send` and `receive`, too.
        """
        with self._lock:
            self.send(message)
            answer = self.receive(wait=wait)
        if answer["type"] == "error":
            said = f"{self.peer}: {answer.get('message')}"[:_SHOWN]
            raise _REMOTE_ERRORS.get(str(answer.get("kind")), BadInput)(said)
        return answer

    def fileno(self) -> int:
        """Descriptor for `select`."""
        return self._open().fileno()

    def close(self) -> None:
        """Close the socket; again does nothing."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _open(self) -> socket.socket:
        if self._sock is None:
            raise ConnectionLost(f"the connection to {self.peer} is closed; make a new one")
        return self._sock

    def _exactly(self, sock: socket.socket, size: int, deadline: float, seconds: float, what: str) -> bytes:
        data = bytearray()
        while len(data) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                self._lost(f"did not send {what} within {seconds:g} s")
            try:
                sock.settimeout(left)
                part = sock.recv(size - len(data))
            except TimeoutError:
                continue
            except OSError as error:
                self._lost(f"is gone ({error})", error)
            if not part:
                self._lost(f"closed the connection while {what} was awaited ({len(data)} of {size} bytes came)")
            data += part
        return bytes(data)

    def _lost(self, what: str, cause: BaseException | None = None) -> NoReturn:
        self.close()
        raise ConnectionLost(f"{self.peer} {what}") from cause


def listen(host: str = LOCALHOST, port: int = 0) -> socket.socket:
    """A listening socket; port 0 lets the system choose.

    Raises:
        BadInput: the address cannot be bound.
    """
    try:
        return socket.create_server((host, port), backlog=4)
    except OSError as error:
        raise BadInput(f"cannot listen on {host}:{port}: {error}") from None


def connect(address: tuple[str, int], *, timeout: float, peer: str) -> Connection:
    """Connect to a server.

    Raises:
        ConnectionLost: nothing listens there.
    """
    host, port = address
    try:
        sock = socket.create_connection((host, port), timeout=timeout)
    except OSError as error:
        raise ConnectionLost(f"no {peer} at {host}:{port}: {error}") from None
    return Connection(sock, timeout=timeout, peer=f"{peer} at {host}:{port}")


def hello(protocol: str, version: int) -> dict[str, Any]:
    """The first message of each side."""
    return {"type": "hello", "protocol": protocol, "version": version}


def greet(connection: Connection, protocol: str, version: int) -> None:
    """The client's side of the hello.

    Raises:
        BadInput: the server speaks another protocol or version.
    """
    answer = connection.request(hello(protocol, version))
    try:
        require_hello(answer, protocol, version, connection.peer)
    except BadInput:
        connection.close()
        raise


def require_hello(message: Mapping[str, Any], protocol: str, version: int, peer: str) -> None:
    """Do nothing if a message is the hello of a protocol.

    Raises:
        BadInput: it is another one, or none; the message says what was expected.
    """
    found = (message["type"], message.get("protocol"), message.get("version"))
    if found != ("hello", protocol, version):
        said = f"{found[1]} version {found[2]}" if found[0] == "hello" else f"a message {found[0]!r}"
        raise BadInput(f"{peer} said {said[:_SHOWN]}; expected a hello of {protocol} version {version}")
