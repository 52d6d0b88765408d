"""Scripted experts: they know the truth, and show that each task can be solved with the actions that policies have."""

from dexprior.worlds.tasks.experts.base import Expert, run_expert
from dexprior.worlds.tasks.experts.table import EXPERTS, expert_of, register_expert

__all__ = ["EXPERTS", "Expert", "expert_of", "register_expert", "run_expert"]
