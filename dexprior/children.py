"""Processes beside this one: workers that end with whoever started them, ranks that train together."""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing.connection import wait

__all__ = ["end_with_parent", "rank", "ranks"]

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


def end_with_parent() -> None:
    """End this process when its parent ends, however it does: by itself it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel,), name="end-with-parent", daemon=True).start()


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
