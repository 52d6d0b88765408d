"""A world in a process of its own, behind a socket: `python -m dexprior.envs.reality.server --port 0`.

Prints {"host": ..., "port": ...} as one line on stdout and serves one client after the other. Its contact
parameters are its own: a client places the objects and moves the robot, and can learn the rest only by
touching it.
"""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np

from dexprior.config import to_plain
from dexprior.envs import wire
from dexprior.envs.base import Backend
from dexprior.envs.reality import messages
from dexprior.envs.sim import SimBackend
from dexprior.envs.sim.serving import add_world_arguments, chosen_world
from dexprior.errors import BadInput, ConnectionLost, DexpriorError
from dexprior.worlds.stepping import CONTROL_DT

__all__ = ["Served", "ServedWorld", "main", "serve"]

_FRAME_TIMEOUT = 10.0  # [s]


class Served(Protocol):
    """What `serve` puts behind a socket."""

    started: bool
    """Set to False for each new client."""

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one request; raises BadInput for one that cannot be carried out."""
        ...


@dataclass
class ServedWorld:
    """One world, of any engine that implements `Backend`, and what its server knows about it."""

    backend: Backend
    """With n = 1."""
    parameters: Mapping[str, float]
    """Values that each instance gets, whatever the client's instance says."""
    engine: str
    """What simulates it, with its version."""
    tracker: bool = True
    """Whether the truth about the nut is told."""
    started: bool = False
    """Whether `reset` was called; a step is refused before that."""

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one request.

        Raises:
            BadInput: an unknown request, or one whose fields do not fit.
        """
        kind = message["type"]
        if kind == "describe":
            return {
                "type": "description",
                "world": to_plain(self.backend.world),
                "engine": self.engine,
                "period": CONTROL_DT,
                "tracker": self.tracker,
            }
        if kind == "reset":
            reading = self.backend.reset([messages.instance_from_plain(message, self.parameters)])
            self.started = True
        elif kind == "step":
            if not self.started:
                raise BadInput("step before reset: the world has no state yet")
            reading = self.backend.step(*messages.require_step(message))
        else:
            raise BadInput(f"unknown request {kind!r}. Known: describe, reset, step, close")
        return {"type": "reading"} | messages.reading_to_plain(reading, tracker=self.tracker)


def serve(world: Served, listener: socket.socket, *, idle: float = 600.0) -> None:
    """Serve clients one after the other, for ever.

    Args:
        world: what is served.
        listener: from `wire.listen`.
        idle: seconds after which a silent client is dropped, so that the next one gets its turn.
    """
    while True:
        sock, (host, port, *_) = listener.accept()
        connection = wire.Connection(sock, timeout=_FRAME_TIMEOUT, peer=f"client {host}:{port}")
        world.started = False
        try:
            wire.welcome(connection, messages.PROTOCOL, messages.VERSION)
            _converse(world, connection, idle)
        except (BadInput, ConnectionLost) as error:
            print(f"reality server: {error}", file=sys.stderr)
        finally:
            connection.close()


def _converse(world: Served, connection: wire.Connection, idle: float) -> None:
    while True:
        message = connection.receive(wait=idle)
        if message["type"] == "close":
            connection.send({"type": "closed"})
            return
        try:
            connection.send(world.answer(message))
        except ConnectionLost:
            raise
        except DexpriorError as error:  # a refused request, or a reading that is not finite: nothing was sent yet
            connection.send(wire.error_message(error))


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the world that the command line describes, and serve it."""
    parser = argparse.ArgumentParser(prog="python -m dexprior.envs.reality.server", description=__doc__)
    parser.add_argument("--host", default=wire.LOCALHOST, help="address to bind; there is no authentication")
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose")
    add_world_arguments(parser)
    chosen = parser.parse_args(arguments)
    if chosen.with_parent:
        wire.exit_with_parent()
    try:
        family, world = chosen_world(chosen)
        listener = wire.listen(chosen.host, chosen.port)
    except DexpriorError as error:
        parser.exit(2, f"reality server: {error}\n")
    served = ServedWorld(
        backend=SimBackend(1, family=family, world=world, cone=chosen.cone, threads=1),
        parameters=family.as_dict(family.sample(np.random.default_rng(chosen.seed), 1)[0]),
        engine=f"mujoco {version('mujoco')}",
        tracker=not chosen.no_tracker,
    )
    wire.announce(listener)
    serve(served, listener)


if __name__ == "__main__":
    main()
