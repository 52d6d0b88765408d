"""What several protocols send: a task, an instance of it to set up, and what a tracker sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dexprior.config import to_plain
from dexprior.envs.base import Truth
from dexprior.envs.panel import Panel
from dexprior.envs.wire import array_from, whole_from
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.reading import mapping, text
from dexprior.worlds.tasks import Task, make_task

__all__ = [
    "instance_from_plain",
    "instance_to_plain",
    "task_from_plain",
    "task_to_plain",
    "truth_from_plain",
    "truth_to_plain",
]

_FAR = 100.0  # [m, rad] beyond which nothing is placed
_LARGEST = 1e6  # of any number that is true, in SI units
_MOST = 64  # things that are true


def task_to_plain(task: Task) -> dict[str, Any]:
    """A task of the suite by its name and settings; injectors do not travel."""
    return {"name": task.name, "settings": to_plain(getattr(task, "config", {}))}


def task_from_plain(data: Any, where: str) -> Task:
    """Inverse of `task_to_plain`.

    Raises:
        BadInput, ConfigError, UnknownName: no task, or not one that is known here.
    """
    plain = mapping(data, where)
    name = text(plain.get("name"), f"{where}: name")
    return make_task(name, **mapping(plain.get("settings", {}), f"{where}: settings"))


def truth_to_plain(truth: Truth | None) -> dict[str, Any] | None:
    """The truth about one world; None where nothing sees it."""
    return None if truth is None else {name: value[0] for name, value in truth.items()}


def truth_from_plain(data: Any) -> Truth | None:
    """Inverse of `truth_to_plain`, with the leading axis of one world. What there is depends on the task.

    Raises:
        BadInput: neither null nor an object, or one whose fields are not finite numbers, or that lacks what every task
            tells.
    """
    if data is None:
        return None
    if not isinstance(data, Mapping) or len(data) > _MOST:
        raise BadInput(f"field 'truth' must be an object or null, got {data!r:.80}")
    truth: Truth = {}
    for name in data:
        value = np.asarray(array_from(data, name, *_axes(data[name]), limit=_LARGEST))
        truth[name] = (value.astype(bool) if _is_flag(data[name]) else value)[None]
    for name, shape in {"object": (1, 7), "held": (1,), "slip": (1,)}.items():
        if name not in truth or truth[name].shape != shape:
            raise BadInput(f"field 'truth' lacks {name!r}, or it is no {shape[1:]}; it has: {', '.join(truth)}")
    return truth


def _axes(value: Any) -> tuple[str, ...]:
    depth = 0
    while isinstance(value, list):
        depth, value = depth + 1, value[0] if value else None
    return ("axis",) * depth


def _is_flag(value: Any) -> bool:
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, bool)


def instance_to_plain(panel: Panel) -> dict[str, Any]:
    """Where things are in a panel of one instance, and the seed of its sensor noise.

    What the world is like is the server's to know.
    """
    return {"scene": {name: value[0] for name, value in panel.scenes.items()}, "seed": int(panel.seeds[0])}


def instance_from_plain(data: Mapping[str, Any], task: Task, family: ParameterFamily, values: np.ndarray) -> Panel:
    """The instance in a request, in a world of a family with these values.

    Raises:
        BadInput: a field is missing, has another shape, or lies out of range.
    """
    asked = mapping(data.get("scene"), "field 'scene'")
    wanted = task.sample(np.random.default_rng(0), 1)
    scenes = {name: array_from(asked, name, *value.shape[1:], limit=_FAR)[None] for name, value in wanted.items()}
    seed = whole_from(data, "seed", 0, 2**63 - 1)
    return Panel("asked for", task.name, family, scenes, np.asarray(values)[None], np.array([seed]))
