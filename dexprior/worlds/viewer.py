"""MuJoCo's interactive viewer on one world of a batch."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dexprior.errors import NoGraphics

if TYPE_CHECKING:
    import mujoco

__all__ = ["Viewer"]


class Viewer:
    """A window that shows states, not faster than they would pass in reality. Use as a context manager.

    Args:
        model: of the states; the window keeps a copy of its own.

    Raises:
        NoGraphics: there is no display.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        import mujoco

        if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise NoGraphics(
                "MuJoCo's viewer needs a display, and neither DISPLAY nor WAYLAND_DISPLAY is set; "
                'film the worlds instead: render_mode="rgb_array", or `dexprior play` without view=true'
            )
        import mujoco.viewer

        self._data = mujoco.MjData(model)
        self._model = model
        before = set(threading.enumerate())
        self._window: Any = mujoco.viewer.launch_passive(model, self._data, show_left_ui=False, show_right_ui=False)
        self._threads = set(threading.enumerate()) - before
        self._start: tuple[float, float] | None = None

    def __enter__(self) -> Viewer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def open(self) -> bool:
        """Whether nobody has closed the window."""
        return bool(self._window.is_running())

    def show(self, data: mujoco.MjData) -> None:
        """Show a state; waits while the simulation is ahead of the clock."""
        import mujoco

        if self._start is None or data.time < self._data.time:  # the first state, or a new episode
            self._start = (time.perf_counter(), data.time)
        ahead = data.time - self._start[1] - (time.perf_counter() - self._start[0])
        if ahead > 0:
            time.sleep(ahead)
        with self._window.lock():
            mujoco.mj_copyData(self._data, self._model, data)
        self._window.sync()

    def close(self) -> None:
        """Close the window, and wait for the threads that draw it: Python must not end before them."""
        self._window.close()
        for thread in self._threads:
            thread.join(timeout=10.0)
