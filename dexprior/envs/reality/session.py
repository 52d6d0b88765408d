"""One client's talk with a server of the reality protocol, from the greeting to the goodbye."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from dexprior.envs import wire
from dexprior.envs.reality.messages import PROTOCOL, VERSION
from dexprior.errors import ConnectionLost

__all__ = ["Session"]


class Session:
    """Connected, greeted, and told what is served.

    Args:
        address: of a running server; or the server itself, which is then closed with this session.
        timeout: seconds within which each request must be answered.
        peer: what errors call the other side.

    Raises:
        ConnectionLost: nothing listens there.
        BadInput: something else listens there.
    """

    def __init__(self, address: tuple[str, int] | wire.ServerProcess, *, timeout: float, peer: str) -> None:
        self._server = address if isinstance(address, wire.ServerProcess) else None
        self.address = address.address if isinstance(address, wire.ServerProcess) else address
        self._connection = wire.connect(self.address, timeout=timeout, peer=peer)
        wire.greet(self._connection, PROTOCOL, VERSION)
        self.description = self.request({"type": "describe"})

    def request(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one request; errors as `wire.Connection.request`."""
        return self._connection.request(message)

    def close(self) -> None:
        """Say goodbye, and end a server that was handed over; again does nothing."""
        with contextlib.suppress(ConnectionLost):  # gone already: then there is nobody to say goodbye to
            self.request({"type": "close"})
        self._connection.close()
        if self._server is not None:
            self._server.close()
