"""What a word of the command line means: texts and names are taken as they stand, whatever is in them."""

from __future__ import annotations

import dataclasses
import re
import typing
from pathlib import Path
from types import UnionType
from typing import Any, Literal

from dexprior.errors import ConfigError

__all__ = ["is_setting", "quoting", "text_settings", "text_value"]

_KEY = re.compile(r"[+~]{0,2}[A-Za-z_][A-Za-z_0-9.-]*=.*", re.DOTALL)
_QUOTED = re.compile(r"""(['"])((?:\\.|(?!\1).)*)\1""", re.DOTALL)
_ENTRY = re.compile(r"""\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^,]*?)\s*(?:,|$)""", re.DOTALL)


def is_setting(word: str) -> bool:
    """Whether a word is key=value; `./NAME` is a name whatever it holds."""
    return _KEY.fullmatch(word) is not None


def text_settings(cls: Any, prefix: str = "") -> dict[str, tuple[bool, bool, bool]]:
    """The settings of a configuration class that are texts, by path: whether each may be one text, several, or none."""
    found: dict[str, tuple[bool, bool, bool]] = {}
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        options = _options(hints[field.name])
        nested = next((kind for kind in options if dataclasses.is_dataclass(kind)), None)
        if nested is not None:
            found |= text_settings(nested, f"{prefix}{field.name}.")
            continue
        one, several = str in options, tuple[str, ...] in options
        if (one or several) and not options - {str, tuple[str, ...], type(None)}:
            found[f"{prefix}{field.name}"] = one, several, type(None) in options
    return found


def _options(kind: Any) -> set[Any]:
    """The kinds of a union; texts of which only some are known count as texts."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        return set().union(*map(_options, arguments))
    if origin is typing.Annotated:
        return _options(arguments[0])
    if origin is Literal and all(isinstance(name, str) for name in arguments):
        return {str}
    if origin is tuple and len(arguments) == 2 and arguments[1] is ... and _options(arguments[0]) == {str}:
        return {tuple[str, ...]}
    return {kind}


def text_value(where: str, said: str, *, one: bool, several: bool, none: bool) -> str | list[str] | None:
    """The value of a setting that is a text, or several of them.

    Texts stand as they are, or in quotes: within a row `[a,b]` or `a,b`, those that hold a comma or a bracket must.
    `null` is no value where there may be none, but for a file or folder of that name; `~/` is the home folder.

    Args:
        where: the setting, in messages.
        said: what stands behind its `=`.
        one, several, none: what it may be.

    Raises:
        ConfigError: a row that does not end.
    """
    quoted = _QUOTED.fullmatch(said)
    if none and said == "null" and not _is_there(said):
        return None
    if not several:
        return _plain(said)
    if said.startswith("[") and said.endswith("]"):
        return _row(where, said[1:-1])
    if one and (quoted or "," not in said or _is_there(said)):
        return _plain(said)
    return _row(where, said)


def _plain(said: str) -> str:
    quoted = _QUOTED.fullmatch(said)
    if quoted:
        return re.sub(r"""\\([\\'"])""", r"\1", quoted[2])
    return str(Path(said).expanduser()) if said == "~" or said.startswith("~/") else said


def _is_there(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # longer than a name may be, or with a NUL
        return False


def _row(where: str, said: str) -> list[str]:
    entries, at = [], 0
    while at < len(said):
        found = _ENTRY.match(said, at)
        if found is None or found.end() == at or not found[1]:
            raise ConfigError(f"{where}=[{said}]: no row of texts as [a,b]; {quoting(where, '[' + said + ']')}")
        entries.append(_plain(found[1]))
        at = found.end()
    return entries


def quoting(key: str, value: str) -> str:
    """How to write a text that holds what the command line gives a meaning of its own."""
    inside = value.strip("[]").replace("\\", "\\\\").replace('"', '\\"')
    return f"""a text with special characters goes into two pairs of quotes: '{key}="{inside}"'"""
