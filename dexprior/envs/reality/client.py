"""The client of a reality server: a backend whose world is elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float

from dexprior.config import to_plain, validate
from dexprior.envs.line.base import Reading
from dexprior.envs.line.panel import Instance
from dexprior.envs.messages import scene_to_plain
from dexprior.envs.processes import ServerProcess
from dexprior.envs.reality import messages
from dexprior.envs.session import Session
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.worlds.insertion import InsertionConfig

__all__ = ["RealityBackend", "start_server"]

_SERVER = "dexprior.envs.reality.server"


def start_server(
    *,
    family: ParameterFamily | None = None,
    world: InsertionConfig | None = None,
    cone: Literal["pyramidal", "elliptic"] = "elliptic",
    seed: int = 0,
    tracker: bool = True,
    start_timeout: float = 60.0,
) -> ServerProcess:
    """Run a reality server on an ephemeral local port; use as a context manager, `address` says where it is.

    The process ends on leaving the context, and when this process dies.

    Args:
        family: of its contact parameters; by default the other world, in which demonstrations are recorded.
        world: sizes of nut and bolt.
        cone: friction cone of its solver.
        seed: draws its one set of values from the family.
        tracker: whether it tells the truth about the nut.
        start_timeout: seconds to wait until it listens.

    Raises:
        ConnectionLost: it did not start.
    """
    arguments = ["--with-parent", "--port", "0", "--cone", cone, "--seed", str(seed)]
    if not tracker:
        arguments.append("--no-tracker")
    files = {
        "family": None if family is None else family.to_json(),
        "world": None if world is None else to_plain(world),
    }
    return ServerProcess(_SERVER, arguments, start_timeout=start_timeout, files=files)


class RealityBackend:
    """One world behind a socket; see `dexprior.envs.line.base.Backend`.

    The parameters of an instance stay here: the world has its own. `Reading.truth` is None where the server
    has no tracker.

    Args:
        address: of a running server; or the server itself, which is then closed with this backend.
        timeout: seconds within which each request must be answered.

    Raises:
        ConnectionLost: nothing listens there.
        BadInput: something else listens there.
    """

    def __init__(self, address: tuple[str, int] | ServerProcess, *, timeout: float = 10.0) -> None:
        self._session = Session(address, (messages.PROTOCOL, messages.VERSION), timeout=timeout, peer="reality server")
        self._world = validate(InsertionConfig, self._session.told("world", dict), where="reality server: world")
        self.engine, self.tracker = self._session.told("engine", str), self._session.told("tracker", bool)

    @property
    def n(self) -> int:
        """Number of worlds."""
        return 1

    @property
    def world(self) -> InsertionConfig:
        """Sizes of nut and bolt."""
        return self._world

    def reset(self, instances: Sequence[Instance]) -> Reading:
        """Place the objects and the robot.

        Raises:
            BadInput: not exactly one instance, or one that the server refuses.
            ConnectionLost: the server is gone or too slow.
        """
        if len(instances) != 1:
            raise BadInput(f"{len(instances)} instances for the one world of a reality server")
        answer = self._session.request({"type": "reset"} | scene_to_plain(instances[0]))
        return messages.reading_from_plain(answer)

    def step(self, twist: Float[np.ndarray, "n 6"], opening: Float[np.ndarray, " n"]) -> Reading:
        """Advance the world by one control period.

        Raises:
            BadInput: a number that is not finite, or the wrong shape; nothing was sent.
            ConnectionLost: the server is gone or too slow.
        """
        twist, opening = np.asarray(twist, dtype=np.float64), np.asarray(opening, dtype=np.float64)
        if twist.shape != (1, 6) or opening.shape != (1,):
            raise BadInput(f"twist {twist.shape} and opening {opening.shape}, expected (1, 6) and (1,)")
        answer = self._session.request({"type": "step", "twist": twist[0], "opening": opening[0]})
        return messages.reading_from_plain(answer)

    def close(self) -> None:
        """Say goodbye, and end a server that was handed over; again does nothing."""
        self._session.close()
