"""The exceptions of dexprior: one root, caught only at the edge of a program.

Every message names the thing, the value that was given, and the choices or the usual fix.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ArtifactError",
    "BadInput",
    "ConfigError",
    "ConnectionLost",
    "DexpriorError",
    "Diverged",
    "MissingExtra",
    "NoGraphics",
    "SafetyStop",
    "UnknownName",
]


class DexpriorError(Exception):
    """Root of every error that dexprior raises on purpose."""


class BadInput(DexpriorError, ValueError):
    """A file, array or command that cannot mean what it should."""


class ConfigError(DexpriorError):
    """A configuration value that is unknown, of the wrong type, or out of range."""


class ArtifactError(DexpriorError):
    """A file that dexprior wrote (or should have written) cannot be used."""


class ConnectionLost(DexpriorError, ConnectionError):
    """The process or robot at the other end of a socket is gone, or did not answer in time."""


class Diverged(DexpriorError, RuntimeError):
    """Training gave numbers that are not finite; the message names the last state that was kept."""


class MissingExtra(DexpriorError, ImportError):
    """An optional package is absent; the message names the extra that brings it."""


class NoGraphics(DexpriorError, RuntimeError):
    """Off-screen rendering is not possible on this machine."""


class SafetyStop(DexpriorError, RuntimeError):
    """The safety gate refused a command or latched its emergency stop."""


class UnknownName(DexpriorError, KeyError):
    """A name that is not in a table; the message lists the table."""

    def __init__(self, kind: str, name: object, choices: Iterable[str]) -> None:
        self.kind, self.name, self.choices = kind, name, tuple(choices)
        near = difflib.get_close_matches(str(name), self.choices, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        super().__init__(f"unknown {kind} {name!r}{hint} Known: {', '.join(self.choices) or 'none'}")

    def __str__(self) -> str:  # KeyError would show the repr of its argument
        return str(self.args[0])

    def __reduce__(self) -> tuple[type, tuple[str, object, tuple[str, ...]]]:  # crosses process pools
        return type(self), (self.kind, self.name, self.choices)
