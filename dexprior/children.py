"""Processes beside this one: workers that end with whoever started them, ranks that train together."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import wait

__all__ = ["Interruptions", "end_with_parent", "rank", "ranks", "unheard"]

_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_RANKS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def rank() -> int:
    """Number of this process among those that a launcher (torchrun, accelerate, mpirun) started together."""
    return _number(_RANK, 0)


def ranks() -> int:
    """How many processes a launcher started together; 1 without one."""
    return _number(_RANKS, 1)


def _number(names: tuple[str, ...], without: int) -> int:
    said = next((os.environ[name] for name in names if name in os.environ), "")
    return int(said) if said.isdecimal() else without


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Processes that are started within do not hear Ctrl-C, which reaches all of a terminal, until they ask for it."""
    resource_tracker.ensure_running()  # which, when it is started, lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Interruptions:
    """Ctrl-C in a process that was started `unheard`: within `heard` it is a KeyboardInterrupt, and at the next `heard`
    where it came in between. Its parent tells the user, so that nothing else has to."""

    def __init__(self) -> None:
        self._open = self._came = False
        signal.signal(signal.SIGINT, self._take)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def _take(self, number: int, frame: object) -> None:
        self._came = True
        if self._open:
            self._open = False  # once: what is cleaned up on the way out is not interrupted again
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Where the work may be interrupted.

        Raises:
            KeyboardInterrupt: it was.
        """
        self._open = True
        try:
            if self._came:
                raise KeyboardInterrupt
            yield
        finally:
            self._open = False


def end_with_parent() -> None:
    """End this process when its parent ends, however it does: by itself it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel,), name="end-with-parent", daemon=True).start()


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
