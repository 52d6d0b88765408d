"""One client's talk with a server, from the greeting to the goodbye."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from dexprior.envs import wire
from dexprior.envs.processes import ServerProcess
from dexprior.errors import BadInput, ConnectionLost

__all__ = ["Session"]


class Session:
    """Connected, greeted, and told what is served.

    Args:
        address: of a running server; or the server itself, which is then closed with this session.
        protocol: name and version that both sides must speak.
        timeout: seconds within which each request must be answered.
        peer: what errors call the other side.

    Raises:
        ConnectionLost: nothing listens there.
        BadInput: something else listens there.
    """

    def __init__(
        self, address: tuple[str, int] | ServerProcess, protocol: tuple[str, int], *, timeout: float, peer: str
    ) -> None:
        self._server = address if isinstance(address, ServerProcess) else None
        self.address = address.address if isinstance(address, ServerProcess) else address
        self._connection = wire.connect(self.address, timeout=timeout, peer=peer)
        wire.greet(self._connection, *protocol)
        self.description = self.request({"type": "describe"})

    def told(self, name: str, kind: type) -> Any:
        """A field of the server's description.

        Raises:
            BadInput: the server left it out, or it is of another kind.
        """
        value = self.description.get(name)
        if not isinstance(value, kind):
            raise BadInput(
                f"{self._connection.peer} describes itself without {name!r} as {kind.__name__}: {value!r:.80}; "
                f"it said: {', '.join(self.description)[:200]}"
            )
        return value

    def request(self, message: Mapping[str, Any], *, wait: float | None = None) -> dict[str, Any]:
        """The answer to one request; arguments and errors as `wire.Connection.request`."""
        return self._connection.request(message, wait=wait)

    def close(self) -> None:
        """Say goodbye, and end a server that was handed over; again does nothing."""
        with contextlib.suppress(ConnectionLost):  # gone already: then there is nobody to say goodbye to
            self.request({"type": "close"})
        self._connection.close()
        if self._server is not None:
            self._server.close()
