"""Processes of `multiprocessing` that end with the one that started them."""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing.connection import wait

__all__ = ["end_with_parent"]


def end_with_parent() -> None:
    """End this process when its parent ends, however it does: by itself it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel,), name="end-with-parent", daemon=True).start()


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
