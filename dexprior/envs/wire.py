"""The socket between a backend and the process (or robot) that it drives, and the life of that process.

    frame      4 bytes, little-endian: length in bytes | one JSON object in UTF-8, with a key `type`
    hello      first frame of each side: {"type": "hello", "protocol": NAME, "version": N}
    error      an answer that a request was refused: {"type": "error", "kind": NAME, "message": TEXT}

JSON is strict in both directions: NaN and Infinity are neither written nor read, nor numbers that overflow to
infinity. A world that swallows one NaN is lost, and a reading that holds one is a broken sensor.

The one exception is a robot command (`command_to_plain`). A robot must be able to see what was really asked,
refuse it and say so; if NaN could not travel, a broken policy and a broken cable would look the same. There,
and only in its numbers, non-finite values are the strings "nan", "inf" and "-inf": still strict JSON, so that
any client can read it.

There is no authentication: sockets are bound to 127.0.0.1 unless the caller says otherwise.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import numpy as np

from dexprior.errors import BadInput, ConnectionLost, SafetyStop
from dexprior.types import Command

__all__ = [
    "LOCALHOST",
    "MAX_BYTES",
    "Connection",
    "ServerProcess",
    "announce",
    "array_from",
    "command_from_plain",
    "command_to_plain",
    "connect",
    "decode",
    "encode",
    "error_message",
    "exit_with_parent",
    "greet",
    "listen",
    "read_json",
    "welcome",
]

LOCALHOST = "127.0.0.1"
MAX_BYTES = 1 << 20
"""Largest message; a reading takes about 6 kB, so a length beyond this is a foreign peer or a bug."""

_LENGTH = struct.Struct("<I")
_NOT_FINITE = ("nan", "inf", "-inf")
_REMOTE_ERRORS: dict[str, type[Exception]] = {"BadInput": BadInput, "SafetyStop": SafetyStop}


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
        raise BadInput(f"{path}: only finite numbers travel, except in robot commands") from None
    except TypeError as error:
        raise BadInput(f"message {message.get('type')!r} is not plain data: {error}") from None
    if len(body) > MAX_BYTES:
        raise BadInput(f"message {message.get('type')!r} has {len(body)} bytes, at most {MAX_BYTES} are sent")
    return _LENGTH.pack(len(body)) + body


def decode(body: bytes) -> dict[str, Any]:
    """The message of one frame's body.

    Raises:
        BadInput: not UTF-8, not JSON, nested too deeply, a number that is not finite, or no object with a
        `type`.
    """
    try:
        message = json.loads(body.decode(), parse_constant=_refuse_constant, parse_float=_finite_float)
    except (ValueError, RecursionError) as error:  # JSON and Unicode errors are ValueErrors
        raise BadInput(f"a frame of {len(body)} bytes is not a message: {error}") from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise BadInput(f"a message must be a JSON object with a text `type`, got {str(message)[:60]!r}")
    return message


def array_from(message: Mapping[str, Any], name: str, *shape: int) -> np.ndarray:
    """A field of a message as float64 of a given shape.

    Raises:
        BadInput: the field is missing, holds something else than numbers, or has another shape.
    """
    if name not in message:
        raise BadInput(f"message {message.get('type')!r} lacks {name!r}; it has: {', '.join(message)}")
    try:
        array = np.array(message[name], dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"field {name!r} must hold numbers of shape {shape}, got {message[name]!r:.80}") from None
    if array.shape != shape or not np.isfinite(array).all():
        raise BadInput(f"field {name!r} has shape {array.shape}, expected finite numbers of shape {shape}")
    return array


def command_to_plain(command: Command) -> dict[str, Any]:
    """A robot command as strict JSON data; numbers that are not finite become "nan", "inf" or "-inf"."""
    return {
        "seq": command.seq,
        "t": _number(command.t),
        "mode": command.mode,
        "value": [_number(v) for v in command.value],
        "gripper": None if command.gripper is None else _number(command.gripper),
    }


def command_from_plain(data: Any) -> Command:
    """Inverse of `command_to_plain`.

    Raises:
        BadInput: a key is missing or of the wrong kind. Not for a NaN: that is for the receiver to refuse.
    """
    try:
        seq, mode, gripper = data["seq"], data["mode"], data["gripper"]
        if not isinstance(seq, int) or isinstance(seq, bool):
            raise TypeError(f"seq is {seq!r}")
        value = np.array([_float(v) for v in data["value"]])
        return Command(
            seq=seq,
            t=_float(data["t"]),
            mode=mode,
            value=value,
            gripper=None if gripper is None else _float(gripper),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"not a command: {error!r}") from None


def error_message(error: Exception) -> dict[str, Any]:
    """What a server answers to a request that it refuses."""
    kind = next((name for name, cls in _REMOTE_ERRORS.items() if isinstance(error, cls)), "BadInput")
    return {"type": "error", "kind": kind, "message": str(error)}


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot travel")


def _number(value: float) -> float | str:
    value = float(value)
    return value if math.isfinite(value) else str(value)


def _float(value: Any) -> float:
    if isinstance(value, str) and value not in _NOT_FINITE:
        raise ValueError(f"{value!r} is not a number")
    if isinstance(value, bool):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text} is not finite")
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"the number {text} is not finite")


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
        (length,) = _LENGTH.unpack(head)
        if not 0 < length <= MAX_BYTES:
            self.close()
            raise BadInput(
                f"{self.peer} announced a message of {length} bytes, 1 to {MAX_BYTES} are allowed: "
                "it probably speaks another protocol"
            )
        body = self._exactly(sock, length, deadline, self.timeout, "the rest of a message")
        try:
            return decode(body)
        except BadInput:
            self.close()
            raise

    def request(self, message: Mapping[str, Any], *, wait: float | None = None) -> dict[str, Any]:
        """Send a message and return its answer; safe to call from several threads.

        Raises:
            BadInput, SafetyStop: as the peer says in an error message.
            ConnectionLost: as `send` and `receive`.
        """
        with self._lock:
            self.send(message)
            answer = self.receive(wait=wait)
        if answer["type"] == "error":
            raise _REMOTE_ERRORS.get(str(answer.get("kind")), BadInput)(f"{self.peer}: {answer.get('message')}")
        return answer

    def fileno(self) -> int:
        """For `select`."""
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


def greet(connection: Connection, protocol: str, version: int) -> None:
    """The client's side of the hello.

    Raises:
        BadInput: the server speaks another protocol or version.
    """
    answer = connection.request({"type": "hello", "protocol": protocol, "version": version})
    try:
        _require_hello(answer, protocol, version, connection.peer)
    except BadInput:
        connection.close()
        raise


def welcome(connection: Connection, protocol: str, version: int) -> None:
    """The server's side of the hello: answers it, or says why not and raises.

    Raises:
        BadInput: the client speaks another protocol or version.
    """
    try:
        _require_hello(connection.receive(), protocol, version, connection.peer)
    except BadInput as error:
        with contextlib.suppress(ConnectionLost):
            connection.send(error_message(error))
        raise
    connection.send({"type": "hello", "protocol": protocol, "version": version})


def _require_hello(message: Mapping[str, Any], protocol: str, version: int, peer: str) -> None:
    found = (message["type"], message.get("protocol"), message.get("version"))
    if found != ("hello", protocol, version):
        said = f"{found[1]} version {found[2]}" if found[0] == "hello" else f"a message {found[0]!r}"
        raise BadInput(f"{peer} said {said}; expected a hello of {protocol} version {version}")


# --- server processes ---------------------------------------------------------------------------------------


def announce(listener: socket.socket) -> None:
    """Print where a server listens, as one line of JSON on stdout."""
    host, port = listener.getsockname()[:2]
    print(json.dumps({"host": host, "port": port}), flush=True)


def read_json(path: Path) -> dict[str, Any]:
    """An object from a JSON file, for a server's command line.

    Raises:
        BadInput: the file cannot be read, or holds something else.
    """
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {path}: {error}") from None
    if not isinstance(data, dict):
        raise BadInput(f"{path} must hold a JSON object, got {type(data).__name__}")
    return data


def exit_with_parent() -> None:
    """End this process when its stdin closes: when the parent that holds the other end ends, however it does.

    A kernel closes a dead process's pipes, so this works after SIGKILL too. A process that the parent forked
    without exec holds the other end as well, and must end, too.
    """

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=watch, name="exit-with-parent", daemon=True).start()


class ServerProcess:
    """A module run in its own Python process, which announces its address. Use as a context manager.

    It ends on `close`, when this object is collected, and when this process dies.

    Args:
        module: run by `python -m`; it must call `exit_with_parent` and `announce`.
        arguments: its command line.
        start_timeout: seconds until it must have announced itself.

    Raises:
        ConnectionLost: it ended or stayed silent; its own words are on stderr.
    """

    def __init__(self, module: str, arguments: Sequence[str], *, start_timeout: float = 60.0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._finalizer = weakref.finalize(self, _reap, self._process)
        assert self._process.stdout is not None  # a pipe, as asked for
        ready, _, _ = select.select([self._process.stdout], [], [], start_timeout)
        line = self._process.stdout.readline() if ready else b""
        try:
            said = json.loads(line)
            self.address: tuple[str, int] = (said["host"], said["port"])
        except (ValueError, KeyError, TypeError):
            self.close()
            how = "did not announce an address" if ready else f"was silent for {start_timeout:g} s"
            code = self._process.returncode
            raise ConnectionLost(f"{module} {how} (exit status {code}); see its message on stderr") from None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close its stdin, which ends it; kill it if that does not help; wait for it."""
        self._finalizer()

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _reap(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(timeout=2.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
