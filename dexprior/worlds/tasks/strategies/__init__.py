"""Scripted ways in which a human hand does each task, refined by sampling: where demonstrations come from.

rollout, unit, first = demonstrate(worlds, strategies_of("pick_place")[0], scenes, parameters, rng=rng, settings=...)
"""

from __future__ import annotations

from dexprior.worlds.tasks.strategies.plan import HandPlan, Knob, Strategy
from dexprior.worlds.tasks.strategies.rollout import RefineConfig, Rollout, demonstrate, roll_out

__all__ = ["HandPlan", "Knob", "RefineConfig", "Rollout", "Strategy", "demonstrate", "roll_out"]
