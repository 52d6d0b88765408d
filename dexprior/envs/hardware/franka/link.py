"""What the driver's and the robot's process tell each other: rows of numbers in a file that both have in memory.

Each direction is a ring: the writer fills the next row, then counts it; the reader takes the last row that was counted.
Nobody waits for anybody, and the kernel keeps the file when a process is killed, so that the last seconds can be read
afterwards (`read_trip`). Numbers of eight bytes at addresses that eight divides are written whole on the processors
that robots are driven from (x86-64, arm64).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from dexprior.config import Ge, Gt, config
from dexprior.envs.hardware.franka.limits import SHAPED, MotionLimits
from dexprior.errors import ArtifactError

__all__ = [
    "ASKED",
    "HAND_ASKED",
    "HAND_STATE",
    "KINDS",
    "STATE",
    "STATUS",
    "Columns",
    "Link",
    "LoopConfig",
    "Ring",
    "read_trip",
]


@config
class LoopConfig:
    """What a loop has to know."""

    address: str
    """Name or address of the robot's control unit."""
    realtime: bool
    """Whether a kernel without real-time priorities is refused."""
    tool: tuple[float, ...]
    """Pose of the tool centre point on the flange: 4 x 4 by columns [m]."""
    low: tuple[float, float, float]
    """Corner of the box that the tool centre point must not leave, base frame [m]."""
    high: tuple[float, float, float]
    """Its opposite corner [m]."""
    joints: tuple[tuple[float, float], ...]
    """Range of each joint, at whose ends the robot is stopped [rad]."""
    max_force: Annotated[float, Gt(0)]
    """Force on the tool at which the robot is stopped [N]."""
    reflex: Annotated[float, Ge(1)] = 1.5
    """How many times that force makes the robot's own reflex stop it, should this process miss it."""
    shaped: MotionLimits = SHAPED
    """What commands are shaped to."""


_MAGIC = 20261201.0
_TEXT = 1024  # bytes for the last error


class Columns:
    """Names of the numbers in a row.

    Args:
        sizes: how many numbers each name has.
    """

    def __init__(self, **sizes: int) -> None:
        self.slices: dict[str, slice] = {}
        start = 0
        for name, size in sizes.items():
            self.slices[name] = slice(start, start + size)
            start += size
        self.size = start

    def row(self, **values: ArrayLike) -> Float[np.ndarray, " column"]:
        """A row; names that are left out are zero."""
        made = np.zeros(self.size)
        for name, value in values.items():
            made[self.slices[name]] = value
        return made

    def read(self, rows: Float[np.ndarray, "... column"]) -> dict[str, np.ndarray]:
        """Numbers by name; those that are alone have no axis of their own."""
        found = {name: rows[..., where] for name, where in self.slices.items()}
        return {name: value[..., 0] if value.shape[-1] == 1 else value for name, value in found.items()}


KINDS = ("nothing", "twist", "stop", "home", "recover", "end")
"""What may be asked for."""
STATUS = ("ready", "moving", "holding", "stopped")
"""What the loop says it is doing."""

ASKED = Columns(number=1, kind=1, made=1, period=1, holds=1, values=7)
"""Requests of the driver: number of the request, index into `KINDS`, this host's monotonic clock when it was made [s],
how long it is carried out for and how long it holds, on the robot's clock [s], and a twist of the tool centre point in
the base frame [m/s, rad/s] or the joints of home [rad]."""
STATE = Columns(
    t=1, host=1, status=1, done=1, q=7, qd=7, pose=16, wrench=6, asked=6, sent=6, cycles=1, success=1, cost=1
)  # fmt: skip
"""States of the robot, each millisecond: its clock, this host's monotonic clock [s], index into `STATUS`, last request
that was carried out for its whole period (-1: none), joints [rad] and their speeds, pose of the tool centre point (4 x
4, by columns), wrench of the environment on it in its own axes [N, N m], the twist that was asked for and the one that
was sent, which is that of the end effector's origin [m/s, rad/s], cycles since the last row (1: none was lost), share
of commands that arrived, and the CPU time that shaping and watching took [s]."""
HAND_ASKED = Columns(width=1)
"""Requests to the hand: the opening [m]."""
HAND_STATE = Columns(host=1, width=1, widest=1)
"""States of the hand: monotonic time [s], opening and largest opening [m]."""

_RINGS = {"state": (STATE, 4096), "asked": (ASKED, 64), "hand_asked": (HAND_ASKED, 16), "hand_state": (HAND_STATE, 16)}


class Ring:
    """The last rows that one process told another.

    Args:
        memory: as long as the columns, and a row more for the count.
        columns: of a row.
    """

    def __init__(self, memory: Float[np.ndarray, "row column"], columns: Columns) -> None:
        self._memory, self.columns, self._n = memory, columns, len(memory) - 1

    @property
    def count(self) -> int:
        """How many rows were written."""
        return int(self._memory[0, 0])

    def add(self, row: Float[np.ndarray, " column"] | Sequence[float]) -> None:
        """Write a row."""
        count = self.count
        self._memory[1 + count % self._n] = row
        self._memory[0, 0] = count + 1

    def last(self) -> Float[np.ndarray, " column"] | None:
        """A copy of the last row; None before there is one."""
        count = self.count
        return None if not count else self._memory[1 + (count - 1) % self._n].copy()

    def since(self, count: int) -> Float[np.ndarray, "row column"]:
        """Copies of the rows after the first `count`, oldest first: those that are still there."""
        now = self.count
        first = max(count, now - self._n + 1)  # the oldest one may be written over while it is read
        return self._memory[1 + np.arange(first, now) % self._n].copy()


class Link:
    """The file, as both processes see it.

    Args:
        path: of the file.
        create: make it anew.

    Raises:
        ArtifactError: there is no such file, or it is none of these.
    """

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = Path(path)
        sizes = {name: (rows + 1) * columns.size for name, (columns, rows) in _RINGS.items()}
        total = 8 * (1 + sum(sizes.values())) + _TEXT
        if not create and (not self.path.is_file() or self.path.stat().st_size != total):
            raise ArtifactError(f"{self.path}: no record of a Franka's loop; the gate keeps one (hardware.keep=FOLDER)")
        self._bytes = np.memmap(self.path, dtype=np.uint8, mode="w+" if create else "r+", shape=(total,))
        numbers = self._bytes[: total - _TEXT].view(np.float64)
        if create:
            numbers[0] = _MAGIC
        elif numbers[0] != _MAGIC:
            raise ArtifactError(f"{self.path}: no record of a Franka's loop, or one of another version")
        start, rings = 1, {}
        for name, (columns, rows) in _RINGS.items():
            memory = numbers[start : start + sizes[name]].reshape(rows + 1, columns.size)
            rings[name] = Ring(memory, columns)
            start += sizes[name]
        self.state, self.asked = rings["state"], rings["asked"]
        self.hand_asked, self.hand_state = rings["hand_asked"], rings["hand_state"]

    @property
    def error(self) -> str:
        """What the loop said last of what went wrong."""
        return bytes(self._bytes[-_TEXT:]).rstrip(b"\0").decode(errors="replace")

    @error.setter
    def error(self, message: str) -> None:
        data = message.encode()[:_TEXT]
        self._bytes[-_TEXT:] = np.frombuffer(data.ljust(_TEXT, b"\0"), dtype=np.uint8)


def read_trip(path: str | Path) -> tuple[dict[str, np.ndarray], str]:
    """The last seconds of a robot's loop, one row a millisecond, and what it said of its last stop.

    Args:
        path: of the file that the gate kept (`franka.link`).

    Returns:
        Numbers by the names of `STATE`, in the order of time; and a message, empty where nothing went wrong.

    Raises:
        ArtifactError: no such file, one of another kind, or one without a row.
    """
    link = Link(path)
    if not link.state.count:
        raise ArtifactError(f"{path}: the loop ended before it had a state of its robot")
    return STATE.read(link.state.since(0)), link.error
