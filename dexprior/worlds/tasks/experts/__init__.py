"""Scripted experts: they know the truth, and show that each task can be solved with the actions that policies have."""

from dexprior.worlds.tasks.experts.base import run_expert

__all__ = ["run_expert"]
