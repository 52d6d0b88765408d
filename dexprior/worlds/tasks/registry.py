"""Tasks by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dexprior.config import validate
from dexprior.errors import BadInput, UnknownName
from dexprior.worlds.tasks.base import Task
from dexprior.worlds.tasks.cube_in_hand import CubeInHand, CubeInHandConfig
from dexprior.worlds.tasks.folding import Folding, FoldingConfig
from dexprior.worlds.tasks.handover import Handover, HandoverConfig
from dexprior.worlds.tasks.injected import inject
from dexprior.worlds.tasks.insertion import Insertion, InsertionConfig
from dexprior.worlds.tasks.nut_bolt import NutBolt, NutBoltConfig
from dexprior.worlds.tasks.peg import Peg, PegConfig
from dexprior.worlds.tasks.pick_place import PickPlace, PickPlaceConfig
from dexprior.worlds.tasks.soft_grasp import SoftGrasp, SoftGraspConfig
from dexprior.worlds.tasks.wipe import Wipe, WipeConfig

__all__ = ["TASKS", "make_task", "register_task"]

TASKS: dict[str, tuple[type[Task], type]] = {
    "cube_in_hand": (CubeInHand, CubeInHandConfig),
    "handover": (Handover, HandoverConfig),
    "folding": (Folding, FoldingConfig),
    "insertion": (Insertion, InsertionConfig),
    "nut_bolt": (NutBolt, NutBoltConfig),
    "peg": (Peg, PegConfig),
    "pick_place": (PickPlace, PickPlaceConfig),
    "soft_grasp": (SoftGrasp, SoftGraspConfig),
    "wipe": (Wipe, WipeConfig),
}
"""Name -> the task and its configuration."""


def register_task(kind: type[Task], settings: type) -> None:
    """Add a task to the suite, under its class's `name`.

    Args:
        kind: makes a task from a configuration.
        settings: the configuration's class.

    Raises:
        BadInput: another task has its name.
    """
    if TASKS.setdefault(kind.name, (kind, settings)) != (kind, settings):
        raise BadInput(f"a task {kind.name!r} is registered already; choose another name")


def make_task(
    name: str, /, *, injectors: Mapping[str, float] | None = None, injector_seed: int = 0, **settings: Any
) -> Task:
    """A task by name.

    Args:
        name: one of `TASKS`.
        injectors: strengths in [0, 1] by name; none by default.
        injector_seed: of what they draw.
        settings: fields of its configuration that differ from the defaults.

    Raises:
        UnknownName: no such task or injector.
        ConfigError: an unknown setting, or one of a wrong type or out of range.
        BadInput: a strength out of range, or an injector that the task has no use for.
    """
    if name not in TASKS:
        raise UnknownName("task", name, tuple(TASKS))
    kind, settings_class = TASKS[name]
    task = kind(validate(settings_class, settings, where=f"task {name}"))  # type: ignore[call-arg]
    return inject(task, injectors or {}, injector_seed)
