"""Panels: fixed lists of task instances, so that two worlds or two policies are compared on the same ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from dexprior.artifacts import read_object, write_json
from dexprior.config import to_plain, validate
from dexprior.errors import ArtifactError, BadInput
from dexprior.families import Event, EventFamily, Events, ParameterFamily
from dexprior.reading import as_described, integer, listed, mapping, numbers, text
from dexprior.worlds.tasks import Task

__all__ = ["Panel"]

SCHEMA = "dexprior.panel/2"
_MADE_BY = "Make it again: `dexprior build-behavior` writes panel.json, `dexprior demo` the cases.json of its ledger"
Purpose = Literal["training", "evaluation"]


@dataclass(frozen=True, eq=False)
class Panel:
    """Instances of one task under one family of parameters."""

    name: str
    task: str
    family: ParameterFamily
    scenes: Mapping[str, Float[np.ndarray, "instance ..."]]
    """Where things are, as `Task.sample` gives it."""
    parameters: Float[np.ndarray, "instance parameter"]
    """Values of the family, in the order of its names."""
    seeds: Int[np.ndarray, " instance"]
    """Seeds of each instance's sensor noise."""
    events: Events = ()
    """What happens in each instance while it runs; nothing by default."""

    def __post_init__(self) -> None:
        sizes = {name: len(value) for name, value in self.scenes.items()} | {"parameters": len(self.parameters)}
        for name, size in sizes.items():
            if size != len(self.seeds):
                raise BadInput(f"panel {self.name!r}: {len(self.seeds)} seeds but {size} rows of {name!r}")
        if len(self.events) not in (0, len(self.seeds)):
            raise BadInput(f"panel {self.name!r}: {len(self.seeds)} seeds but events of {len(self.events)} instances")
        if not len(self.seeds):
            raise BadInput(f"panel {self.name!r} holds no instance")

    def __len__(self) -> int:
        return len(self.seeds)

    @classmethod
    def sample(
        cls,
        name: str,
        task: Task,
        n: int,
        *,
        seed: int,
        family: ParameterFamily | None = None,
        events: EventFamily | None = None,
        purpose: Purpose = "evaluation",
    ) -> Panel:
        """Draw scenes and parameters.

        Scenes depend on seed and purpose only: panels of two families with one seed show the same scenes, and no seed
        makes a training panel equal an evaluation panel.

        Args:
            name: of the panel.
            task: whose instances are drawn.
            n: how many; at least one.
            seed: of everything.
            family: of the parameters; the task's training family by default.
            events: of what may happen while an instance runs; nothing by default.
            purpose: which of two streams of random numbers.

        Raises:
            BadInput: no instance.
        """
        if n < 1:
            raise BadInput(f"panel {name!r}: {n} instances; at least one is needed")
        family = task.family if family is None else family
        lane = [seed, 1] if purpose == "training" else [seed]
        return cls(
            name,
            task.name,
            family,
            task.sample(np.random.default_rng([*lane, 0]), n),
            family.sample(np.random.default_rng([*lane, 1]), n),
            np.random.default_rng([*lane, 2]).integers(2**31, size=n),
            () if events is None else events.sample(np.random.default_rng([*lane, 3]), n),
        )

    @classmethod
    def joined(cls, panels: Sequence[Panel]) -> Panel:
        """The instances of several panels of one task and family, one after the other, by the first one's name."""
        first = panels[0]
        scenes = {name: np.concatenate([panel.scenes[name] for panel in panels]) for name in first.scenes}
        parameters = np.concatenate([panel.parameters for panel in panels])
        seeds = np.concatenate([panel.seeds for panel in panels])
        events = tuple(event for panel in panels for event in panel.events)
        return replace(first, scenes=scenes, parameters=parameters, seeds=seeds, events=events)

    @property
    def hash(self) -> str:
        """Twelve hex digits of the scenes, seeds and events: panels with equal hashes pose the same tasks."""
        digest = hashlib.sha256(self.task.encode())
        for name in sorted(self.scenes):
            digest.update(name.encode() + np.ascontiguousarray(self.scenes[name], dtype=np.float64).tobytes())
        digest.update(np.ascontiguousarray(self.seeds, dtype=np.int64).tobytes())
        if self.events:
            digest.update(json.dumps(to_plain(self.events), sort_keys=True).encode())
        return digest.hexdigest()[:12]

    def take(self, ids: Any) -> Panel:
        """Some of its instances, in the given order.

        Raises:
            BadInput: an index outside the panel.
        """
        ids = np.atleast_1d(np.asarray(ids, dtype=int))
        if len(ids) and not (ids.min() >= 0 and ids.max() < len(self)):
            raise BadInput(f"panel {self.name!r}: instances {ids.min()}..{ids.max()} of 0..{len(self) - 1}")
        scenes = {name: value[ids] for name, value in self.scenes.items()}
        events = tuple(self.events[i] for i in ids) if self.events else ()
        return Panel(self.name, self.task, self.family, scenes, self.parameters[ids], self.seeds[ids], events)

    def moved_to(self, name: str, family: ParameterFamily, *, seed: int) -> Panel:
        """The same scenes in worlds of a family: its own, with the parameters as they are, or another's, drawn anew."""
        if family == self.family:
            return replace(self, name=name)
        values = family.sample(np.random.default_rng([seed, 1]), len(self))
        return replace(self, name=name, family=family, parameters=values)

    def require(self, task: Task, worlds: int) -> None:
        """Whether it gives each of some worlds of a task an instance.

        Raises:
            BadInput: it is of another task, or holds more or fewer.
        """
        if self.task != task.name:
            raise BadInput(f"panel {self.name!r} is of task {self.task!r}, not {task.name!r}")
        if len(self) != worlds:
            raise BadInput(f"panel {self.name!r}: {len(self)} instances for {worlds} worlds")

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        scenes = {name: np.asarray(value).tolist() for name, value in self.scenes.items()}
        return {
            "schema": SCHEMA, "name": self.name, "task": self.task, "family": self.family.to_json(), "scenes": scenes,
            "parameters": self.parameters.tolist(), "seeds": self.seeds.tolist(), "hash": self.hash,
            **({"events": to_plain(self.events)} if self.events else {}),
        }  # fmt: skip

    def save(self, path: str | Path) -> Path:
        """Write as JSON."""
        return write_json(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Panel:
        """Inverse of `save`.

        Raises:
            ArtifactError: missing, damaged, or of another version.
            BadInput: a stored hash that does not fit the instances.
        """
        plain = read_object(path, "a panel", schema=SCHEMA, absent=_MADE_BY)
        with as_described("a panel", path, ArtifactError):
            family = ParameterFamily.from_json(plain["family"])
            seeds = listed(plain["seeds"], f"{path}: seeds")
            panel = cls(
                text(plain["name"], f"{path}: name"),
                text(plain["task"], f"{path}: task"),
                family,
                {
                    name: numbers(value, f"{path}: scenes: {name}")
                    for name, value in mapping(plain["scenes"], f"{path}: scenes").items()
                },
                numbers(plain["parameters"], f"{path}: parameters", len(seeds), len(family.names)),
                np.array([integer(seed, f"{path}: seeds") for seed in seeds], dtype=np.int64),
                tuple(tuple(validate(Event, e, where="event") for e in row) for row in plain.get("events", [])),
            )
            if wrong := [name for name, value in panel.scenes.items() if len(value) != len(seeds)]:
                raise BadInput(f"{path}: {len(panel.scenes[wrong[0]])} scenes {wrong[0]!r} for {len(seeds)} seeds")
        if plain.get("hash", panel.hash) != panel.hash:
            raise BadInput(f"{path}: stored hash {plain['hash']} but its instances hash to {panel.hash}")
        return panel
