"""Human demonstrations of the task suite; `dexprior.data.demonstrations` is the older way for one insertion task.

generate_demonstrations("pick_place", TaskDemonstrationConfig(n=1000), "runs/pick_place", seed=0)
"""

from __future__ import annotations

from dexprior.data.demonstrating.generate import (
    OBJECT_VARIANTS,
    TaskDemonstrationConfig,
    demonstration_tasks,
    generate_demonstrations,
)

__all__ = ["OBJECT_VARIANTS", "TaskDemonstrationConfig", "demonstration_tasks", "generate_demonstrations"]
