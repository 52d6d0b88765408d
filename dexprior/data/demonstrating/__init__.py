"""Human demonstrations of the task suite.

generate_demonstrations("pick_place", TaskDemonstrationConfig(n=1000), "runs/pick_place", seed=0)
"""

from __future__ import annotations

from dexprior.data.demonstrating.conditions import condition_of
from dexprior.data.demonstrating.generate import TaskDemonstrationConfig, generate_demonstrations

__all__ = ["TaskDemonstrationConfig", "condition_of", "generate_demonstrations"]
