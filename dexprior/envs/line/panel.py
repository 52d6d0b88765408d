"""Panels: fixed lists of task instances, so that two worlds or two policies are compared on the same ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dexprior.artifacts import write_json
from dexprior.errors import BadInput, UnknownName
from dexprior.families import ParameterFamily
from dexprior.reading import as_described, integer, listed, mapping, number, numbers, read_json_object, text
from dexprior.worlds.insertion import sample_scenes

__all__ = ["Instance", "Panel"]


@dataclass(frozen=True)
class Instance:
    """One task instance: where things are, what the world is like, and the seed of its noise."""

    nut: tuple[float, float, float]
    bolt: tuple[float, float, float]
    nut_yaw: float
    parameters: Mapping[str, float]
    seed: int


@dataclass(frozen=True)
class Panel:
    """A list of instances under one family of parameters."""

    name: str
    family: ParameterFamily
    instances: tuple[Instance, ...]

    def __len__(self) -> int:
        return len(self.instances)

    def __iter__(self) -> Iterator[Instance]:
        return iter(self.instances)

    @classmethod
    def sample(
        cls,
        name: str,
        family: ParameterFamily,
        n: int,
        *,
        seed: int,
        purpose: Literal["training", "evaluation"] = "evaluation",
    ) -> Panel:
        """Draw scenes and parameters.

        The scenes depend on seed and purpose only: panels of two families with one seed show the same scenes, and no
        seed makes a training panel equal an evaluation panel.
        """
        if n < 1:
            raise BadInput(f"panel {name!r}: {n} instances; at least one is needed")
        lane = [seed, 1] if purpose == "training" else [seed]
        scenes = sample_scenes(np.random.default_rng([*lane, 0]), n)
        values = family.sample(np.random.default_rng([*lane, 1]), n)
        instances = tuple(
            Instance(
                nut=tuple(map(float, scenes["nut"][i])),  # type: ignore[arg-type]
                bolt=tuple(map(float, scenes["bolt"][i])),  # type: ignore[arg-type]
                nut_yaw=float(scenes["nut_yaw"][i, 0]),
                parameters=family.as_dict(values[i]),
                seed=int(np.random.default_rng([*lane, 2, i]).integers(2**31)),
            )
            for i in range(n)
        )
        return cls(name, family, instances)

    @property
    def hash(self) -> str:
        """Twelve hex digits of the scenes: two worlds' panels with equal hashes pose the same tasks."""
        scenes = [[i.nut, i.bolt, i.nut_yaw, i.seed] for i in self.instances]
        return hashlib.sha256(json.dumps(scenes).encode()).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name,
            "family": self.family.to_json(),
            "instances": [asdict(i) for i in self.instances],
            "hash": self.hash,
        }

    def save(self, path: str | Path) -> Path:
        """Write as JSON."""
        return write_json(path, self.to_json())

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Panel:
        """Inverse of `to_json`.

        Raises:
            BadInput: a key is missing, or the stored hash does not fit the instances.
        """
        with as_described("a panel", "the data"):
            instances = tuple(
                Instance(
                    nut=tuple(numbers(i["nut"], "nut", 3).tolist()),  # type: ignore[arg-type]
                    bolt=tuple(numbers(i["bolt"], "bolt", 3).tolist()),  # type: ignore[arg-type]
                    nut_yaw=number(i["nut_yaw"], "nut_yaw"),
                    parameters={k: number(v, k) for k, v in mapping(i["parameters"], "parameters").items()},
                    seed=integer(i["seed"], "seed"),
                )
                for i in listed(data["instances"], "instances")
            )
            panel = cls(text(data["name"], "name"), ParameterFamily.from_json(data["family"]), instances)
        if data.get("hash", panel.hash) != panel.hash:
            raise BadInput(f"panel {panel.name!r}: stored hash {data['hash']} but its instances hash to {panel.hash}")
        return panel

    @classmethod
    def read(cls, path: str | Path) -> Panel:
        """Read what `save` wrote.

        Raises:
            BadInput: no such file, or no panel.
        """
        with as_described("a panel", path):
            return cls.from_json(read_json_object(path))

    def moved_to(self, name: str, family: ParameterFamily, *, seed: int) -> Panel:
        """The same scenes in worlds of a family: its own, with the parameters as they are, or another's, drawn anew."""
        if family == self.family:
            return Panel(name, family, self.instances)
        values = family.sample(np.random.default_rng([seed, 1]), len(self))
        rows = zip(self.instances, values)
        return Panel(name, family, tuple(replace(i, parameters=family.as_dict(v)) for i, v in rows))

    def subset(self, ids: list[int]) -> Panel:
        """Some of its instances, in the given order."""
        for i in ids:
            if not 0 <= i < len(self):
                raise UnknownName("instance", i, [f"0..{len(self) - 1}"])
        return Panel(self.name, self.family, tuple(self.instances[i] for i in ids))
