"""Paths that foreign metadata name: they stay inside the data set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from dexprior.errors import BadInput
from dexprior.reading.fields import shown

__all__ = ["filled", "inside"]

_LONGEST = 1024
_FIELD = re.compile(r"\{([^{}]*)\}")
_PLAIN = re.compile(r"(\w+)(?::0?(\d)d)?")


def inside(root: str | Path, name: Any, where: object) -> Path:
    """The path of what a data set calls `name`, relative to its root.

    Args:
        root: folder of the data set.
        name: as its metadata has it, with `/` between folders.
        where: names the metadata in messages.

    Raises:
        BadInput: no text, empty, absolute, with `..`, a backslash or a NUL, or a link that leads out of the data set.
    """
    if not isinstance(name, str):
        raise BadInput(f"{where}: {shown(name)} is no path, expected a text")
    pure = PurePosixPath(name)
    if (
        not 0 < len(name.strip()) <= _LONGEST
        or "\0" in name
        or "\\" in name
        or pure.is_absolute()
        or ".." in pure.parts
    ):
        raise BadInput(f"{where} names the path {shown(name)}: expected one inside {root}, relative to it")
    path = Path(root) / pure
    try:
        leaves = not path.resolve().is_relative_to(Path(root).resolve())
    except (OSError, RuntimeError) as error:  # links in a circle, a name too long
        raise BadInput(f"{where} names the path {shown(name)}: {error}") from None
    if leaves:
        raise BadInput(f"{where} names the path {shown(name)}, which leads out of {root}")
    return path


def filled(template: Any, values: Mapping[str, Any], where: object) -> str:
    """A path template with its fields replaced: `{name}`, or `{name:03d}` for whole numbers, and nothing else.

    `str.format` would look up attributes and items, and pad to any width.

    Raises:
        BadInput: no text, another form of field, a field that there is not, or a value of another kind.
    """
    if not isinstance(template, str):
        raise BadInput(f"{where}: {shown(template)} is no path template, expected a text")

    def fill(match: re.Match[str]) -> str:
        field = _PLAIN.fullmatch(match[1])
        if field is None or field[1] not in values:
            raise BadInput(
                f"{where} has the field {match[0][:60]!r}; choices: {', '.join(values)}, with or without :03d"
            )
        value = values[field[1]]
        if field[2] is None:
            return str(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadInput(f"{where}: {field[1]} = {shown(value)}: expected a whole number")
        return f"{value:0{field[2]}d}"

    rest = _FIELD.sub("", template)
    if "{" in rest or "}" in rest:
        raise BadInput(f"{where} = {shown(template)}: a brace without its partner")
    return _FIELD.sub(fill, template)
