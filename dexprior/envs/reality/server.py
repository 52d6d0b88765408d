"""A world in a process of its own, behind a socket: `python -m dexprior.envs.reality.server --port 0`.

Prints {"host": ..., "port": ...} as one line on stdout. Its contact parameters are its own: a client places the
objects and moves the robot, and can learn the rest only by touching it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np

from dexprior.envs import wire
from dexprior.envs.base import Backend
from dexprior.envs.messages import instance_from_plain, task_to_plain
from dexprior.envs.processes import announce, exit_with_parent
from dexprior.envs.reality import messages
from dexprior.envs.serving import Service, serve
from dexprior.envs.sim import SimBackend
from dexprior.envs.sim.serving import add_world_arguments, chosen_world
from dexprior.errors import BadInput, DexpriorError
from dexprior.families import ParameterFamily

__all__ = ["ServedWorld", "main"]


@dataclass
class ServedWorld(Service):
    """One world, of any engine that implements `Backend`, and what its server knows about it.

    It belongs to the client that reset it last, until that one leaves. A reset by another waits while the owner is
    busy; an owner that was silent for `patience` seconds loses the world to it.
    """

    protocol, version, name = messages.PROTOCOL, messages.VERSION, "reality server"

    backend: Backend
    """Backend with n = 1."""
    family: ParameterFamily
    """Family of the values that each instance gets, whatever the client's instance says."""
    values: np.ndarray
    """These values, in the order of the family's names."""
    engine: str
    """What simulates it, with its version."""
    tracker: bool = True
    """Whether the truth about the object is told."""
    patience: float = 2.0
    """Silence after which a waiting client gets the world, and twice that until it is told to try later [s]."""
    _owner: int | None = field(default=None, init=False)
    _heard: float = field(default=0.0, init=False)
    _waiting: dict[int, float] = field(default_factory=dict, init=False)
    """Since when clients wait for the world [monotonic s]."""

    def answer(self, client: int, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer to one request; None for a reset that waits for its turn.

        Raises:
            BadInput: an unknown request, one whose fields do not fit, or a step in a world that is another's.
        """
        kind = message["type"]
        if kind == "describe":
            task, actions = self.backend.task, self.backend.actions
            return {
                "type": "description", "task": task_to_plain(task), "arm_action": actions.arm_action,
                "robots": messages.shapes_of(actions), "points": task.points, "engine": self.engine,
                "period": task.control_dt, "tracker": self.tracker, "labels": self.backend.labels,
            }  # fmt: skip
        if kind == "reset":
            instance = instance_from_plain(message, self.backend.task, self.family, self.values)
            if not self._turn(client):
                return None
            reading = self.backend.reset(instance)
            self._owner = client
        elif kind == "step":
            if self._owner != client:
                whose = "the world has no state yet" if self._owner is None else "another client has the world now"
                raise BadInput(f"step before reset: {whose}")
            reading = self.backend.step(messages.commands_from_plain(message, self.backend.actions))
        else:
            raise BadInput(f"unknown request {kind!r:.80}. Known: describe, reset, step, close")
        self._heard = time.monotonic()
        return {"type": "reading"} | messages.reading_to_plain(reading, tracker=self.tracker)

    def left(self, client: int, *, goodbye: bool) -> None:
        """Free the world, if it was this client's."""
        self._waiting.pop(client, None)
        if self._owner == client:
            self._owner = None

    def due(self) -> float | None:
        """When a client that waits has waited long enough."""
        turns = [
            min(max(self._heard, since) + self.patience, since + 2 * self.patience) for since in self._waiting.values()
        ]
        return min(turns, default=None)

    def _turn(self, client: int) -> bool:
        """Whether a client may have the world now.

        Raises:
            BadInput: it has waited long enough for one that stays busy.
        """
        now = time.monotonic()
        since = self._waiting.setdefault(client, now)
        if self._owner in (None, client) or now - self._heard >= self.patience:
            del self._waiting[client]
            return True
        if now - since >= 2 * self.patience:
            del self._waiting[client]
            raise BadInput("another client is busy in this world; try again later, or start a server of your own")
        return False


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the world that the command line describes, and serve it."""
    parser = argparse.ArgumentParser(prog="python -m dexprior.envs.reality.server", description=__doc__)
    parser.add_argument("--host", default=wire.LOCALHOST, help="address to bind; there is no authentication")
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose")
    add_world_arguments(parser)
    chosen = parser.parse_args(arguments)
    if chosen.with_parent:
        exit_with_parent()
    try:
        task, family, sensors = chosen_world(chosen)
        listener = wire.listen(chosen.host, chosen.port)
    except DexpriorError as error:
        parser.exit(2, f"reality server: {error}\n")
    served = ServedWorld(
        backend=SimBackend(task, 1, family=family, sensors=sensors, threads=1),
        family=family,
        values=family.sample(np.random.default_rng(chosen.seed), 1)[0],
        engine=f"mujoco {version('mujoco')}",
        tracker=not chosen.no_tracker,
    )
    announce(listener)
    serve(served, listener)


if __name__ == "__main__":
    main()
