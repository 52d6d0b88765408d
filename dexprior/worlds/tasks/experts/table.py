"""Experts by the task's name."""

from __future__ import annotations

from dexprior.errors import BadInput, UnknownName
from dexprior.worlds.tasks.experts.base import Expert
from dexprior.worlds.tasks.experts.cube_in_hand import cube_in_hand
from dexprior.worlds.tasks.experts.folding import folding
from dexprior.worlds.tasks.experts.handover import handover
from dexprior.worlds.tasks.experts.insertion import insertion
from dexprior.worlds.tasks.experts.nut_bolt import nut_bolt
from dexprior.worlds.tasks.experts.peg import peg
from dexprior.worlds.tasks.experts.pick_place import pick_place
from dexprior.worlds.tasks.experts.soft_grasp import soft_grasp
from dexprior.worlds.tasks.experts.wipe import wipe

__all__ = ["EXPERTS", "expert_of", "register_expert"]

EXPERTS: dict[str, Expert] = {
    "cube_in_hand": cube_in_hand,
    "folding": folding,
    "handover": handover,
    "insertion": insertion,
    "nut_bolt": nut_bolt,
    "peg": peg,
    "pick_place": pick_place,
    "soft_grasp": soft_grasp,
    "wipe": wipe,
}
"""By the task's name."""


def register_expert(task: str, expert: Expert) -> None:
    """Add an expert for a task.

    Raises:
        BadInput: the task has another one.
    """
    if EXPERTS.setdefault(task, expert) is not expert:
        raise BadInput(f"task {task!r} has an expert already")


def expert_of(task: str) -> Expert:
    """An expert by the task's name.

    Raises:
        UnknownName: the task has none.
    """
    if task not in EXPERTS:
        raise UnknownName("expert", task, tuple(EXPERTS))
    return EXPERTS[task]
