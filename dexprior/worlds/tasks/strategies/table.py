"""Strategies by the task's name, and by the sentence that asks for one."""

from __future__ import annotations

from dexprior.errors import UnknownName
from dexprior.worlds.tasks.strategies.folding import FOLDING
from dexprior.worlds.tasks.strategies.nut_bolt import NUT_BOLT
from dexprior.worlds.tasks.strategies.peg import PEG
from dexprior.worlds.tasks.strategies.pick_place import PICK_PLACE
from dexprior.worlds.tasks.strategies.plan import Strategy
from dexprior.worlds.tasks.strategies.soft_grasp import SOFT_GRASP

__all__ = ["STRATEGIES", "strategies_of", "strategy_of"]

STRATEGIES: dict[str, tuple[Strategy, ...]] = {
    "folding": FOLDING,
    "nut_bolt": NUT_BOLT,
    "peg": PEG,
    "pick_place": PICK_PLACE,
    "soft_grasp": SOFT_GRASP,
}
"""By the task's name."""


def strategies_of(task: str) -> tuple[Strategy, ...]:
    """The strategies of a task.

    Raises:
        UnknownName: it has none.
    """
    if task not in STRATEGIES:
        raise UnknownName("task with human demonstrations", task, tuple(STRATEGIES))
    return STRATEGIES[task]


def strategy_of(task: str, sentence: str) -> Strategy:
    """The strategy that a sentence asks for; it alone decides.

    Raises:
        UnknownName: no such task, or a sentence that none of its strategies has.
    """
    for strategy in strategies_of(task):
        if sentence in strategy.sentences:
            return strategy
    raise UnknownName("sentence", sentence, [s for strategy in strategies_of(task) for s in strategy.sentences])
