"""Strict, typed configuration: plain data in, frozen dataclasses out.

YAML holds values and Python holds logic. A configuration class stands beside the code that it configures:

    @config
    class SamplerConfig:
        steps: Annotated[int, Ge(1)] = 8
        "Denoising steps."

`validate` turns plain containers (from YAML, JSON or Hydra) into such a class, and an unknown key, a wrong type
or a value out of range into one message with the path, the value and the choices.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, dataclass_transform

from annotated_types import Ge, Gt, Le, Lt
from pydantic import ConfigDict, TypeAdapter, ValidationError

from dexprior.errors import ConfigError

__all__ = ["Ge", "Gt", "Le", "Lt", "changed", "config", "config_hash", "difference", "to_plain", "validate"]

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def config(cls: type[T]) -> type[T]:
    """Make a class a frozen, keyword-only dataclass that refuses unknown keys."""
    cls.__pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)  # type: ignore[attr-defined]
    return dataclasses.dataclass(frozen=True, kw_only=True)(cls)


def validate(cls: type[T], data: dict[str, Any], *, where: str = "config") -> T:
    """Build a configuration class from plain containers.

    Args:
        cls: a class made with `config`.
        data: nested dicts, lists and scalars.
        where: what the path in a message starts with, e.g. the verb.

    Raises:
        ConfigError: names every offending path with its value and the choices.
    """
    try:
        text = json.dumps(data)
    except TypeError as error:
        raise ConfigError(f"{where}: not plain data: {error}") from None
    try:
        return TypeAdapter(cls).validate_json(text)
    except ValidationError as error:
        lines = [_explain(cls, problem, where) for problem in error.errors()]
        raise ConfigError("\n".join(dict.fromkeys(lines))) from None


def to_plain(value: Any) -> Any:
    """The plain containers that `validate` turns back into the same configuration."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(v) for v in value]
    return value


def config_hash(value: Any) -> str:
    """Twelve hex digits that identify a configuration's values."""
    text = json.dumps(to_plain(value), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def changed(value: Any) -> list[str]:
    """Settings of a configuration that are not the defaults of its class, as `key=value` words."""
    default = dict(_leaves(to_plain(type(value)())))
    return [
        f"{key}={_word(found)}"
        for key, found in _leaves(to_plain(value))
        if key not in default or default[key] != found
    ]


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _word(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_word, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


ABSENT = "absent"
"""What `difference` says of a side that has no such setting."""


def difference(there: Any, here: Any, path: str = "") -> tuple[str, str, str] | None:
    """The first setting in which two configurations differ: its path, and its value there and here as JSON.

    Settings of one configuration among several in a row go by their own names: which of them it is does not matter to
    whoever has to change it.

    Args:
        there, here: configurations, or their plain forms.
        path: what the path begins with.

    Returns:
        None where both are equal. A setting that one side has not is `absent` there.
    """
    there, here = to_plain(there), to_plain(here)
    if isinstance(there, dict) and isinstance(here, dict):
        for name in dict.fromkeys([*here, *there]):
            inside = f"{path}.{name}" if path else str(name)
            if name not in there or name not in here:
                there_is, here_is = (_said(side[name]) if name in side else ABSENT for side in (there, here))
                return inside, there_is, here_is
            if found := difference(there[name], here[name], inside):
                return found
        return None
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for k, pair in enumerate(zip(there, here)):
            inside = path if all(isinstance(side, dict) for side in pair) else f"{path}[{k}]"
            if any(isinstance(side, (dict, list)) for row in (there, here) for side in row):
                if found := difference(*pair, inside):
                    return found
            elif _said(pair[0]) != _said(pair[1]):
                return path or "configuration", _said(there), _said(here)
        return None
    return None if _said(there) == _said(here) else (path or "configuration", _said(there), _said(here))


def _said(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _explain(cls: type, problem: Any, where: str) -> str:
    parts = [str(p) for p in problem["loc"]]
    path = ".".join([where, *parts])
    kind = problem["type"]
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        fields = _field_names(cls, parts[:-1])
        near = difflib.get_close_matches(parts[-1], fields, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"{path}: unknown key.{hint} Known here: {', '.join(fields)}"
    if kind in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return f"{path}: required but not given"
    return f"{path} = {problem['input']!r}: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _field_names(cls: Any, path: list[str]) -> list[str]:
    import typing

    for part in path:
        if not dataclasses.is_dataclass(cls):
            return []
        hints = typing.get_type_hints(cls)
        cls = hints.get(part)
        if cls is None:
            return []
        for option in typing.get_args(cls):
            if dataclasses.is_dataclass(option):
                cls = option
    return [f.name for f in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
