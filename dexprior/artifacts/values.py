"""Typed values: one safetensors file holds the arrays of a value, and the rest as JSON in its metadata."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import dexprior.types as types
from dexprior.artifacts.files import read_tensors, write_tensors
from dexprior.artifacts.header import checked_header, make_header
from dexprior.errors import ArtifactError
from dexprior.reading import as_described, listed

__all__ = ["from_tensors", "load", "load_all", "save", "to_tensors"]

T = TypeVar("T")


def _registry() -> dict[str, Any]:
    classes: list[Any] = [getattr(types, name) for name in types.__all__]
    return {c.schema: c for c in classes if dataclasses.is_dataclass(c) and hasattr(c, "schema")}


def save(
    value: Any,
    path: str | Path,
    *,
    producer: str,
    seed: int | None = None,
    config: Any = None,
    parents: tuple[str, ...] = (),
) -> Path:
    """Write one value of `dexprior.types`, or a list of values of one type."""
    values = value if isinstance(value, (list, tuple)) else [value]
    if not values:
        raise ArtifactError(f"{path}: nothing to save")
    schema = values[0].schema
    tensors: dict[str, np.ndarray] = {}
    tree = [_flatten(v, f"{i}", tensors) for i, v in enumerate(values)]
    header = make_header(schema, producer=producer, seed=seed, config=config, parents=parents)
    return write_tensors(path, tensors, {"header": dataclasses.asdict(header), "tree": tree})


def load(path: str | Path, cls: type[T]) -> T:
    """Read one value.

    Raises:
        ArtifactError: the file is missing, truncated, of another schema, or holds several values.
        BadInput: its content is not a valid `cls`.
    """
    values = load_all(path, cls)
    if len(values) != 1:
        raise ArtifactError(f"{path} holds {len(values)} values of {cls.__name__}, expected one")
    return values[0]


def load_all(path: str | Path, cls: type[T]) -> list[T]:
    """Read a list of values of one type; errors as in `load`."""
    tensors, meta = read_tensors(path)
    checked_header(path, meta, cls.schema, command=getattr(cls, "command", ""))  # type: ignore[attr-defined]
    with as_described(f"a file of {cls.__name__}", path):
        values = [_unflatten(tree, tensors) for tree in listed(meta["tree"], f"{path}: tree")]
        if other := [type(value).__name__ for value in values if not isinstance(value, cls)]:
            raise ArtifactError(f"{path} holds a {other[0]}, expected {cls.__name__}")
    return values


def to_tensors(value: Any) -> tuple[dict[str, np.ndarray], Any]:
    """Split a typed value into its arrays and a JSON tree that refers to them."""
    tensors: dict[str, np.ndarray] = {}
    return tensors, _flatten(value, "0", tensors)


def from_tensors(tree: Any, tensors: dict[str, np.ndarray]) -> Any:
    """Inverse of `to_tensors`."""
    return _unflatten(tree, tensors)


def _flatten(value: Any, prefix: str, tensors: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        tensors[prefix] = value
        return {"$array": prefix}
    if dataclasses.is_dataclass(value):
        body = {
            f.name: _flatten(getattr(value, f.name), f"{prefix}.{f.name}", tensors) for f in dataclasses.fields(value)
        }
        return {"$type": value.schema, "fields": body}  # type: ignore[union-attr]
    if isinstance(value, Mapping):
        return {str(k): _flatten(v, f"{prefix}.{k}", tensors) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_flatten(v, f"{prefix}.{i}", tensors) for i, v in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    return value


def _unflatten(tree: Any, tensors: dict[str, np.ndarray]) -> Any:
    if isinstance(tree, list):
        return [_unflatten(v, tensors) for v in tree]
    if isinstance(tree, dict):
        if "$array" in tree:
            return tensors[tree["$array"]]
        if "$type" not in tree:
            return {k: _unflatten(v, tensors) for k, v in tree.items()}
        cls = _registry().get(tree["$type"])
        if cls is None:
            raise ArtifactError(f"unknown type {tree['$type']!r} inside the file")
        return cls(**{k: _unflatten(v, tensors) for k, v in tree["fields"].items()})
    return tree
