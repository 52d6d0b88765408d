"""The life of a server process: how it says where it listens, and how it ends with whoever started it."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from dexprior.artifacts import write_json
from dexprior.errors import BadInput, ConnectionLost
from dexprior.reading import entries, integer, parse_json, text

__all__ = ["ServerProcess", "announce", "exit_with_parent"]

_ENDING = 10.0  # [s] until a process whose stdin closed is killed; a gate waits 2 s for its robot to stand


def announce(listener: socket.socket) -> None:
    """Print where a server listens, as one line of JSON on stdout."""
    host, port = listener.getsockname()[:2]
    print(json.dumps({"host": host, "port": port}), flush=True)


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
        module: run by `python -m`; it must watch its stdin (`exit_with_parent` does) and call `announce`.
        arguments: its command line.
        start_timeout: seconds until it must have announced itself.
        files: plain data that it reads before it announces itself, each from the JSON file that `--NAME` names; None is
            left out.

    Raises:
        ConnectionLost: it ended or stayed silent; its own words are on stderr.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        start_timeout: float = 60.0,
        files: Mapping[str, Any] | None = None,
    ) -> None:
        with tempfile.TemporaryDirectory(prefix="dexprior-") as folder:
            named = {name: value for name, value in (files or {}).items() if value is not None}
            written = [
                word
                for name, value in named.items()
                for word in (f"--{name}", str(write_json(Path(folder) / f"{name}.json", value)))
            ]
            self._start(module, [*arguments, *written], start_timeout)

    def _start(self, module: str, arguments: Sequence[str], start_timeout: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the client; a server ends after it, in order
        )
        self._finalizer = weakref.finalize(self, _reap, self._process)
        assert self._process.stdout is not None  # a pipe, as asked for
        ready, _, _ = select.select([self._process.stdout], [], [], start_timeout)
        line = self._process.stdout.readline() if ready else b""
        try:
            host, port = entries(parse_json(line, "its announcement"), ("host", "port"), "its announcement")
            self.address: tuple[str, int] = (text(host, "host"), integer(port, "port", low=1, high=65535))
        except BadInput:
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
        process.wait(timeout=_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
