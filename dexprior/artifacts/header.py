"""The header of every file: schema, producer, package versions, seed, configuration, parents."""

from __future__ import annotations

import functools
import importlib.metadata
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dexprior import __version__
from dexprior.artifacts.files import read_meta
from dexprior.config import config_hash
from dexprior.errors import ArtifactError
from dexprior.reading import text

__all__ = ["Header", "checked_header", "make_header", "package_versions", "read_header"]

_VERSIONED = ("numpy", "torch", "mujoco", "diffusers", "accelerate")


@dataclass(frozen=True, kw_only=True)
class Header:
    """Where a file comes from."""

    schema: str
    producer: str
    """Stage or verb that wrote it."""
    versions: dict[str, str]
    seed: int | None
    config_hash: str | None
    parents: tuple[str, ...]
    """Hashes of the files that it was made from; those of a whole stage stand in its run.json."""
    created: str
    """UTC, ISO 8601."""


@functools.cache
def package_versions() -> dict[str, str]:
    """Versions of dexprior and of the packages that numbers depend on."""
    found = {"dexprior": __version__}
    for name in _VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def make_header(
    schema: str,
    *,
    producer: str,
    seed: int | None = None,
    config: Any = None,
    parents: tuple[str, ...] = (),
) -> Header:
    """A header for a file that is about to be written."""
    return Header(
        schema=schema,
        producer=producer,
        versions=package_versions(),
        seed=seed,
        config_hash=None if config is None else config_hash(config),
        parents=tuple(parents),
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def read_header(path: str | Path) -> Header:
    """Read who wrote a file, without its arrays."""
    return _header_of(path, read_meta(Path(path))[0])


def checked_header(path: str | Path, meta: dict[str, Any], schema: str, *, made_by: str = "") -> Header:
    """The header among a file's metadata.

    Raises:
        ArtifactError: it has none, or is of another schema.
    """
    header = _header_of(path, meta)
    if header.schema == schema:
        return header
    if header.schema.rpartition("/")[0] == schema.rpartition("/")[0]:
        raise ArtifactError(
            f"{path} was written with schema {header.schema!r}, this version reads {schema!r}: "
            f"make the file again with this version of dexprior{made_by and f': {made_by}'}"
        )
    raise ArtifactError(f"{path} holds {header.schema!r}, expected {schema!r}: it is another kind of file")


def _header_of(path: str | Path, meta: dict[str, Any]) -> Header:
    try:
        raw = dict(meta["header"])
        raw["parents"] = tuple(raw["parents"])
        text(raw["schema"], f"{path}: schema")
        return Header(**raw)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{path}: no dexprior header ({error}); was it written by another program?") from None
