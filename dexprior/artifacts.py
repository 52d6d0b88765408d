"""Everything that is written to disk: typed values, training states and run folders. No pickle anywhere.

A typed value is one safetensors file: its arrays are tensors, and the rest is JSON in the file's metadata beside a
versioned `Header` (schema, producer, package versions, seed, config hash, parents). Writing is atomic: a killed run
leaves the old file or the new one.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import numpy as np

import dexprior.types as types
from dexprior import __version__
from dexprior.config import config_hash, to_plain, validate
from dexprior.errors import ArtifactError, BadInput

if TYPE_CHECKING:
    import torch

__all__ = [
    "Header",
    "RunFolder",
    "file_hash",
    "from_tensors",
    "load",
    "load_all",
    "load_module",
    "load_network",
    "load_training_state",
    "pack_tensors",
    "read_header",
    "read_meta",
    "read_tensors",
    "save",
    "save_module",
    "save_training_state",
    "tensor_header",
    "to_tensors",
    "unpack_tensors",
    "write_atomic",
    "write_json",
    "write_tensors",
]

T = TypeVar("T")
C = TypeVar("C")
M = TypeVar("M", bound="torch.nn.Module")
_META = "dexprior"
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


# --- typed values ---


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
    header = _header_of(path, meta)
    expected = cls.schema  # type: ignore[attr-defined]
    if header.schema != expected:
        raise ArtifactError(_schema_message(path, header.schema, expected))
    return [_unflatten(tree, tensors) for tree in meta["tree"]]


def to_tensors(value: Any) -> tuple[dict[str, np.ndarray], Any]:
    """Split a typed value into its arrays and a JSON tree that refers to them."""
    tensors: dict[str, np.ndarray] = {}
    return tensors, _flatten(value, "0", tensors)


def from_tensors(tree: Any, tensors: dict[str, np.ndarray]) -> Any:
    """Inverse of `to_tensors`."""
    return _unflatten(tree, tensors)


def read_header(path: str | Path) -> Header:
    """Read who wrote a file, without its arrays."""
    return _header_of(path, read_meta(Path(path))[0])


def _schema_message(path: str | Path, found: str, expected: str) -> str:
    if found.rpartition("/")[0] == expected.rpartition("/")[0]:
        return (
            f"{path} was written with schema {found!r}, this version reads {expected!r}: "
            "make the file again with this version of dexprior"
        )
    return f"{path} holds {found!r}, expected {expected!r}: it is another kind of file"


def _header_of(path: str | Path, meta: dict[str, Any]) -> Header:
    try:
        raw = dict(meta["header"])
        raw["parents"] = tuple(raw["parents"])
        return Header(**raw)
    except (KeyError, TypeError) as error:
        raise ArtifactError(f"{path}: no dexprior header ({error}); was it written by another program?") from None


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


# --- tensors on disk ---


def write_atomic(path: str | Path, data: bytes) -> Path:
    """Write bytes so that a reader, or a kill, never sees half a file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(data)
    os.replace(temporary, path)
    return path


def write_json(path: str | Path, value: Any) -> Path:
    """Write plain data or configuration as indented JSON, atomically."""
    return write_atomic(path, (json.dumps(to_plain(value), indent=2) + "\n").encode())


def write_tensors(path: str | Path, tensors: Mapping[str, np.ndarray], meta: dict[str, Any]) -> Path:
    """Write arrays and JSON metadata as one safetensors file, atomically."""
    return write_atomic(path, pack_tensors(tensors, meta))


def pack_tensors(tensors: Mapping[str, np.ndarray], meta: dict[str, Any]) -> bytes:
    """The bytes of that file."""
    from safetensors.numpy import save as dump

    contiguous = {k: np.asarray(v, order="C") for k, v in tensors.items()}  # keeps arrays without axes as they are
    return dump(contiguous, metadata={_META: json.dumps(meta)})


def read_tensors(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `write_tensors` wrote.

    Raises:
        ArtifactError: missing, truncated or foreign file.
    """
    path = Path(path)
    meta, _ = read_meta(path)
    return unpack_tensors(path.read_bytes(), path), meta


def unpack_tensors(data: bytes, where: object) -> dict[str, np.ndarray]:
    """The arrays in a file's bytes.

    Raises:
        ArtifactError: truncated or damaged; `where` names the file.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load as parse

    try:
        return parse(data)
    except (SafetensorError, ValueError) as error:
        raise ArtifactError(f"{where} is truncated or damaged: {error}") from None


def read_meta(
    path: Path, *, offset: int = 0, where: object | None = None
) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Metadata of a file (or of one that begins at `offset` of it), and the shapes of its arrays, without reading them.

    Raises:
        ArtifactError: missing, truncated or foreign file; `where` names it if the path does not.
    """
    where = path if where is None else where
    if not path.is_file():
        raise ArtifactError(f"{where}: no such file")
    with path.open("rb") as stream:
        stream.seek(offset)
        try:
            header, _ = tensor_header(stream)
            meta = json.loads(header.pop("__metadata__")[_META])
            return meta, {name: entry["shape"] for name, entry in header.items()}
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"{where} is not a dexprior file, or it is truncated: {error!r}") from None


def tensor_header(stream: IO[bytes]) -> tuple[dict[str, Any], int]:
    """The JSON header of a safetensors file from the stream's position on, and its length [bytes].

    Raises:
        ValueError: there is none.
    """
    start = stream.read(8)
    if len(start) < 8:
        raise ValueError("no header")
    (length,) = struct.unpack("<Q", start)
    if length > 100_000_000:
        raise ValueError("header too long")
    return json.loads(stream.read(length)), 8 + length


def file_hash(path: str | Path) -> str:
    """Sixteen hex digits of a file's SHA-256.

    Raises:
        ArtifactError: no such file.
    """
    if not Path(path).is_file():
        raise ArtifactError(f"{path}: no such file; an earlier stage makes it, see `dexprior` for their order")
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


# --- networks and training states ---


def save_module(
    module: torch.nn.Module,
    path: str | Path,
    *,
    schema: str,
    producer: str,
    config: Any,
    seed: int | None = None,
    extra: dict[str, Any] | None = None,
    parents: tuple[str, ...] = (),
) -> Path:
    """Write a network's weights with its configuration and plain extra data."""
    tensors = {k: v.detach().cpu().numpy() for k, v in module.state_dict().items()}
    header = make_header(schema, producer=producer, seed=seed, config=config, parents=parents)
    meta = {"header": dataclasses.asdict(header), "config": to_plain(config), "extra": extra or {}}
    return write_tensors(path, tensors, meta)


def load_module(path: str | Path, *, schema: str) -> tuple[dict[str, torch.Tensor], dict[str, Any], dict[str, Any]]:
    """Read a network file: (state dict, plain configuration, extra data); errors as in `load`."""
    import torch

    tensors, meta = read_tensors(path)
    header = _header_of(path, meta)
    if header.schema != schema:
        raise ArtifactError(_schema_message(path, header.schema, schema))
    return {k: torch.from_numpy(v.copy()) for k, v in tensors.items()}, meta["config"], meta["extra"]


def load_network(path: str | Path, *, schema: str, config: type[C], network: Callable[[C], M]) -> M:
    """Read a network that is built from its configuration alone, ready for evaluation.

    Raises:
        ArtifactError: missing, damaged, or of another schema.
        ConfigError: its configuration does not suit this version.
    """
    weights, plain, _ = load_module(path, schema=schema)
    built = network(validate(config, plain, where=str(path)))
    try:
        built.load_state_dict(weights)
    except RuntimeError as error:
        raise ArtifactError(f"{path}: its weights do not fit its configuration: {error}") from None
    return built.eval()


def save_training_state(
    path: str | Path,
    *,
    modules: Mapping[str, torch.nn.Module],
    optimizers: Mapping[str, torch.optim.Optimizer],
    progress: dict[str, Any],
    config: Any,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """Write all that a resumed run needs to equal the uninterrupted one.

    Random numbers are not stored: training loops draw them from generators seeded by (seed, step).

    Args:
        modules: networks by name.
        optimizers: optimizers by name.
        progress: plain data (step, history).
        config: the stage's configuration; a resume under another one is refused.
        arrays: further arrays, e.g. simulator states.
    """
    tensors: dict[str, np.ndarray] = {f"arrays/{k}": v for k, v in (arrays or {}).items()}
    plain: dict[str, Any] = {}
    for name, module in modules.items():
        tensors |= {f"module/{name}/{k}": v.detach().cpu().numpy() for k, v in module.state_dict().items()}
    for name, optimizer in optimizers.items():
        state = optimizer.state_dict()
        plain[name] = {"param_groups": state["param_groups"], "scalars": {}}
        for index, entries in state["state"].items():
            for key, value in entries.items():
                if hasattr(value, "detach"):
                    tensors[f"optimizer/{name}/{index}/{key}"] = value.detach().cpu().numpy()
                else:
                    plain[name]["scalars"][f"{index}/{key}"] = value
    header = make_header("dexprior.training_state/1", producer="training", config=config)
    meta = {"header": dataclasses.asdict(header), "optimizers": plain, "progress": progress}
    return write_tensors(path, tensors, meta)


def load_training_state(
    path: str | Path,
    *,
    modules: Mapping[str, torch.nn.Module],
    optimizers: Mapping[str, torch.optim.Optimizer],
    config: Any,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Restore what `save_training_state` wrote, in place; returns (progress, arrays).

    Raises:
        ArtifactError: another schema, another configuration, or a damaged file.
    """
    import torch

    tensors, meta = read_tensors(path)
    header = _header_of(path, meta)
    if header.schema != "dexprior.training_state/1":
        raise ArtifactError(_schema_message(path, header.schema, "dexprior.training_state/1"))
    if header.config_hash != config_hash(config):
        raise ArtifactError(
            f"{path} was written under configuration {header.config_hash}, this run has {config_hash(config)}: "
            "resume with the same configuration, or start afresh in another folder"
        )

    def under(prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
        for key, value in tensors.items():
            if key.startswith(prefix):
                yield key[len(prefix) :], torch.from_numpy(value.copy())

    for name, module in modules.items():
        module.load_state_dict(dict(under(f"module/{name}/")))
    for name, optimizer in optimizers.items():
        state: dict[int, dict[str, Any]] = {}
        for key, tensor in under(f"optimizer/{name}/"):
            index, _, entry = key.partition("/")
            state.setdefault(int(index), {})[entry] = tensor
        for key, value in meta["optimizers"][name]["scalars"].items():
            index, _, entry = key.partition("/")
            state.setdefault(int(index), {})[entry] = value
        optimizer.load_state_dict({"state": state, "param_groups": meta["optimizers"][name]["param_groups"]})
    return meta["progress"], {k[len("arrays/") :]: v for k, v in tensors.items() if k.startswith("arrays/")}


# --- run folders ---


@dataclass
class RunFolder:
    """A folder that can be read afterwards: composed configuration, versions, seed, commit, parents.

    `done` marks a finished run with the hash of its configuration, so that a rerun skips it, and a changed
    configuration is noticed.
    """

    path: Path
    stage: str
    config: Any
    seed: int
    parents: tuple[str, ...] = ()
    _started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.path = Path(self.path)

    def open(self) -> RunFolder:
        """Create the folder and write its record; refuses one of another configuration, seed or input."""
        self.path.mkdir(parents=True, exist_ok=True)
        record = self.path / "run.json"
        if [path.name for path in self.path.iterdir()] == ["run.json"]:
            record.unlink()  # an earlier try was refused before it made anything
        if record.exists():
            found = _read_json(record)
            mine = {"config_hash": config_hash(self.config), "seed": self.seed, "parents": list(self.parents)}
            shown = {"config_hash": "configuration"}
            for name, value in mine.items():
                if found.get(name) != value:
                    raise ArtifactError(
                        f"{self.path} belongs to a run with {shown.get(name, name)} {found.get(name)}, this one has "
                        f"{value}: "
                        "give another output folder, or delete that one"
                    )
        else:
            write_json(
                record,
                {
                    "stage": self.stage,
                    "config": to_plain(self.config),
                    "config_hash": config_hash(self.config),
                    "seed": self.seed,
                    "versions": package_versions(),
                    "commit": _git_commit(),
                    "parents": list(self.parents),
                    "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                },
            )
        return self

    @property
    def result(self) -> dict[str, Any] | None:
        """What `finish` recorded, or None while the run is not complete."""
        path = self.path / "done.json"
        return _read_json(path)["result"] if path.exists() else None

    def finish(self, result: dict[str, Any]) -> dict[str, Any]:
        """Mark the run complete."""
        seconds = time.monotonic() - self._started
        write_json(self.path / "done.json", {"result": result, "seconds": round(seconds, 3)})
        return result

    def file(self, name: str) -> Path:
        """A file's path inside the folder."""
        return self.path / name


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise BadInput(f"{path} is not valid JSON: {error}") from None


def _git_commit() -> str | None:
    """Commit of the checkout that this package runs from; None for an installed wheel."""
    head = Path(__file__).resolve().parents[1] / ".git" / "HEAD"
    if not head.is_file():
        return None
    text = head.read_text().strip()
    if not text.startswith("ref: "):
        return text
    ref = head.parent / text[5:]
    return ref.read_text().strip() if ref.is_file() else None
