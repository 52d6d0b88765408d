"""Weights of networks, and training states from which a resumed run equals the uninterrupted one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dexprior.artifacts.files import read_tensors, write_tensors
from dexprior.artifacts.header import checked_header, make_header
from dexprior.config import config_hash, difference, to_plain, validate
from dexprior.errors import ArtifactError
from dexprior.reading import as_described, mapping

if TYPE_CHECKING:
    import torch

__all__ = ["load_module", "load_network", "load_training_state", "save_module", "save_training_state", "whole"]

C = TypeVar("C")
M = TypeVar("M", bound="torch.nn.Module")
_TRAINING = "dexprior.training_state/1"


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that ranks share out, in one piece: of several ranks all call. Others come back as they are."""
    full = getattr(tensor, "full_tensor", None)
    return tensor.detach() if full is None else full().detach()


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


def load_module(
    path: str | Path, *, schema: str, command: str = ""
) -> tuple[dict[str, torch.Tensor], dict[str, Any], dict[str, Any]]:
    """Read a network file: (state dict, plain configuration, extra data); errors as in `load`.

    `command` is the command that makes the file, said where it is of another version.
    """
    import torch

    tensors, meta = read_tensors(path)
    checked_header(path, meta, schema, command=command)
    with as_described("a network", path, ArtifactError):
        plain, extra = mapping(meta["config"], f"{path}: config"), mapping(meta["extra"], f"{path}: extra")
        return {k: torch.from_numpy(v.copy()) for k, v in tensors.items()}, plain, extra


def load_network(path: str | Path, *, schema: str, config: type[C], network: Callable[[C], M], command: str = "") -> M:
    """Read a network that is built from its configuration alone, ready for evaluation; `command` as in `load_module`.

    Raises:
        ArtifactError: missing, damaged, or of another schema.
        ConfigError: its configuration does not suit this version.
    """
    weights, plain, _ = load_module(path, schema=schema, command=command)
    built = network(validate(config, plain, where=str(path)))
    try:
        built.load_state_dict(weights)
    except RuntimeError as error:
        said = " ".join(str(error).split())[:300]
        raise ArtifactError(f"{path}: its weights do not fit its configuration: {said}") from None
    return built.eval()


def save_training_state(
    path: str | Path,
    *,
    modules: Mapping[str, torch.nn.Module],
    optimizers: Mapping[str, torch.optim.Optimizer],
    progress: dict[str, Any],
    config: Any,
    arrays: Mapping[str, np.ndarray] | None = None,
    write: bool = True,
) -> Path:
    """Write all that a resumed run needs to equal the uninterrupted one.

    Random numbers are not stored: training loops draw them from generators seeded by (seed, step).

    Args:
        modules: networks by name.
        optimizers: optimizers by name.
        progress: plain data (step, history).
        config: the stage's configuration; a resume under another one is refused.
        arrays: further arrays, e.g. simulator states.
        write: whether this process writes: of ranks that share out the weights all call, and one writes.
    """
    tensors: dict[str, np.ndarray] = {f"arrays/{k}": v for k, v in (arrays or {}).items()}
    plain: dict[str, Any] = {}
    for name, module in modules.items():
        tensors |= {f"module/{name}/{k}": whole(v).cpu().numpy() for k, v in module.state_dict().items()}
    for name, optimizer in optimizers.items():
        state = optimizer.state_dict()
        plain[name] = {"param_groups": state["param_groups"], "scalars": {}}
        for index, entries in state["state"].items():
            for key, value in entries.items():
                if hasattr(value, "detach"):
                    tensors[f"optimizer/{name}/{index}/{key}"] = whole(value).cpu().numpy()
                else:
                    plain[name]["scalars"][f"{index}/{key}"] = value
    if not write:
        return Path(path)
    header = make_header(_TRAINING, producer="training", config=config)
    meta = {
        "header": dataclasses.asdict(header), "config": to_plain(config), "optimizers": plain, "progress": progress
    }  # fmt: skip
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
    header = checked_header(path, meta, _TRAINING)
    if header.config_hash != config_hash(config):
        name, there, here = (difference(meta["config"], config) if "config" in meta else None) or (
            "configuration", str(header.config_hash), config_hash(config)
        )  # fmt: skip
        raise ArtifactError(
            f"{path} belongs to another run: {name} is {there} there, {here} here; go on with the same settings, or "
            "start afresh in another folder"
        )

    def under(prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
        for key, value in tensors.items():
            if key.startswith(prefix):
                yield key[len(prefix) :], torch.from_numpy(value.copy())

    with as_described("a training state", path, ArtifactError):
        for name, module in modules.items():
            try:
                module.load_state_dict(dict(under(f"module/{name}/")))
            except RuntimeError as error:
                said = " ".join(str(error).split())[:300]
                raise ArtifactError(f"{path}: its weights do not fit the network {name!r}: {said}") from None
        for name, optimizer in optimizers.items():
            state: dict[int, dict[str, Any]] = {}
            for key, tensor in under(f"optimizer/{name}/"):
                index, _, entry = key.partition("/")
                state.setdefault(int(index), {})[entry] = tensor
            for key, value in meta["optimizers"][name]["scalars"].items():
                index, _, entry = key.partition("/")
                state.setdefault(int(index), {})[entry] = value
            optimizer.load_state_dict({"state": state, "param_groups": meta["optimizers"][name]["param_groups"]})
        progress = mapping(meta["progress"], f"{path}: progress")
    return progress, {k[len("arrays/") :]: v for k, v in tensors.items() if k.startswith("arrays/")}
