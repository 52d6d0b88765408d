"""Scripted ways in which a human hand does each task, refined by sampling: where demonstrations come from.

rollout, unit, first = demonstrate(worlds, STRATEGIES["pick_place"][0], scenes, parameters, rng=rng, settings=...)
"""

from __future__ import annotations

from dexprior.worlds.tasks.strategies.plan import HandPlan, Knob, Strategy
from dexprior.worlds.tasks.strategies.rollout import RefineConfig, Rollout, demonstrate, roll_out
from dexprior.worlds.tasks.strategies.table import STRATEGIES, strategies_of, strategy_of

__all__ = [
    "STRATEGIES",
    "HandPlan",
    "Knob",
    "RefineConfig",
    "Rollout",
    "Strategy",
    "demonstrate",
    "roll_out",
    "strategies_of",
    "strategy_of",
]
