"""Typed values out of plain data: each function names the place, the value and the choices where it finds another."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dexprior.errors import BadInput, ConfigError, DexpriorError, UnknownName

__all__ = ["as_described", "entries", "flag", "integer", "listed", "mapping", "number", "numbers", "shown", "text"]

_SHOWN = 60
_FEW = 20
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


def shown(value: Any) -> str:
    """A value as a message shows it: one line, its beginning."""
    if isinstance(value, (list, dict)):  # the repr of a large one would be made only to be cut
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    said = repr(value)
    return said if len(said) <= _SHOWN else f"{said[:_SHOWN]}..."


def _names(names: Sequence[Any]) -> str:
    said = ", ".join(str(name)[:_SHOWN] for name in list(names)[:_FEW]) or "nothing"
    return said + (f" and {len(names) - _FEW} more" if len(names) > _FEW else "")


def mapping(value: Any, where: object) -> dict[str, Any]:
    """Named entries.

    Raises:
        BadInput: something else, or a name that is no text.
    """
    if not isinstance(value, dict):
        raise BadInput(f"{where}: expected named entries, found {shown(value)}")
    if other := [name for name in value if not isinstance(name, str)]:
        raise BadInput(f"{where}: the name {shown(other[0])} is no text")
    return value


def entries(value: Any, names: Sequence[str], where: object) -> list[Any]:
    """Values of a mapping by name.

    Raises:
        BadInput: not a mapping, or a name that it lacks (the message lists what it has).
    """
    if not isinstance(value, dict):
        raise BadInput(f"{where}: expected named entries, found {shown(value)}")
    for name in names:
        if name not in value:
            raise BadInput(f"{where} holds no {name!r}; it has: {_names(list(value))}")
    return [value[name] for name in names]


def text(value: Any, where: object, *, choices: Sequence[str] | None = None, optional: bool = False) -> Any:
    """A text, one of `choices` where they are given; None where it may be absent (`optional`).

    Raises:
        BadInput: something else.
    """
    if value is None and optional:
        return None
    if not isinstance(value, str):
        raise BadInput(f"{where} = {shown(value)}: expected a text")
    if choices is not None and value not in choices:
        raise BadInput(f"{where} = {shown(value)}; choices: {', '.join(choices)}")
    return value


def flag(value: Any, where: object) -> bool:
    """True or false.

    Raises:
        BadInput: something else, also 0 and 1.
    """
    if not isinstance(value, bool):
        raise BadInput(f"{where} = {shown(value)}; choices: true, false")
    return value


def number(value: Any, where: object, *, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number in [low, high].

    Raises:
        BadInput: something else, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise BadInput(f"{where} = {shown(value)}: expected a number")
    if not math.isfinite(value):
        raise BadInput(f"{where} = {value}: expected a finite number")
    if not low <= value <= high:
        raise BadInput(f"{where} = {value:g}: expected {low:g} to {high:g}")
    return float(value)


def integer(value: Any, where: object, *, low: int = 0, high: int | None = None) -> int:
    """A whole number.

    Raises:
        BadInput: something else, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise BadInput(f"{where} = {shown(value)}: expected a whole number")
    if value < low or (high is not None and value > high):
        raise BadInput(f"{where} = {shown(value)}: expected {low} to {'any' if high is None else high}")
    return int(value)


def numbers(value: Any, where: object, *shape: int, finite: bool = True, most: float = math.inf) -> np.ndarray:
    """An array of numbers from plain data; text and truth values are none, but for `1e-3`, which YAML takes for text.

    Args:
        value: nested lists, or an array.
        where: names the place in messages.
        shape: expected shape, -1 for any length; any shape when omitted.
        finite: refuse NaN and infinity.
        most: largest size of a number.

    Raises:
        BadInput: not numbers, of another shape, not finite, or too large.
    """
    expected = f" of shape {shape}" if shape else ""
    found: Any = None
    try:
        found = np.array(value)
        if found.dtype.kind == "U":
            found = np.array([_exponent(item) for item in np.array(value, dtype=object).flat]).reshape(found.shape)
        if found.size and found.dtype.kind not in "iuf":
            raise ValueError(f"{found.dtype} is no number")
        if _holds_truth(value):
            raise ValueError("a truth value is no number")
        array = found.astype(np.float64)
        array = array.reshape(shape) if shape else array
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{where}: expected numbers{expected}, found {_wrong(value, found)}") from None
    if finite and not np.isfinite(array).all():
        first = array[~np.isfinite(array)].flat[0]
        raise BadInput(f"{where} holds values that are not finite, the first is {first}")
    with np.errstate(invalid="ignore"):
        beyond = np.abs(array) > most
    if beyond.any():
        raise BadInput(f"{where} holds {array[beyond].flat[0]:g}, at most {most:g} can be: another unit, or damaged")
    return array


def _wrong(value: Any, found: np.ndarray | None) -> str:
    """The first item that is no number; the shape, or the beginning, where each is one."""
    if found is not None and (found.dtype.kind not in "iuf" or _holds_truth(value)):
        for item in np.array(value, dtype=object).flat:
            if isinstance(item, bool) or not isinstance(item, (int, float, np.integer, np.floating)):
                return shown(item)
    return f"the shape {found.shape}" if found is not None else str(value)[:_SHOWN]


def _holds_truth(value: Any) -> bool:
    """Whether truth values stand in nested lists; NumPy makes 1 and 0 of them where numbers stand beside."""
    if not isinstance(value, (list, tuple)):
        return False
    kinds = set(map(type, value))
    return not kinds.isdisjoint((bool, np.bool_)) or (
        not kinds.isdisjoint((list, tuple)) and any(_holds_truth(item) for item in value)
    )


def _exponent(item: Any) -> Any:
    return float(item) if isinstance(item, str) and _EXPONENT.fullmatch(item) else item


def listed(value: Any, where: object, *, choices: Sequence[str] | None = None, empty: bool = False) -> list[Any]:
    """A list that is not empty (unless `empty`), of `choices` where they are given.

    Raises:
        BadInput: something else.
    """
    if not isinstance(value, list) or not (value or empty):
        raise BadInput(f"{where} = {shown(value)}: expected a list")
    for item in value if choices is not None else ():
        if choices is not None and item not in choices:
            raise BadInput(f"{where} holds {shown(item)}; choices: {', '.join(choices)}")
    return value


@contextmanager
def as_described(what: str, where: object, error: type[DexpriorError] = BadInput) -> Iterator[None]:
    """Inside, plain data are made into a value; what does not fit becomes one error that names the source.

    Args:
        what: the value, e.g. `a panel`.
        where: the source.
        error: what is raised for a missing key, another type, or a value that cannot be.

    Raises:
        DexpriorError: `error`, or what was raised inside for another reason, with the source named.
    """
    try:
        yield
    except DexpriorError as problem:
        said = str(problem) if str(where) in str(problem) else f"{where}: {problem}"
        kind = error if isinstance(problem, (BadInput, ConfigError, UnknownName)) else type(problem)
        raise kind(said) from None
    except KeyError as problem:
        raise error(f"{where} is not {what}: it holds no {shown(problem.args[0])}") from None
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as problem:
        said = " ".join(str(problem).split())[:200]
        raise error(f"{where} is not {what}: {said}") from None
