"""Planning of strikes: CMA-ES and the cross-entropy method over impact point, speed and direction."""

from dexprior.policy.planning.search import CemSearch, CmaSearch, Search
from dexprior.policy.planning.strikes import (
    MujocoStriker,
    PlanConfig,
    Plans,
    StrikeSimulator,
    plan_strikes,
    pose_cost,
    pose_error,
)

__all__ = [
    "CemSearch",
    "CmaSearch",
    "MujocoStriker",
    "PlanConfig",
    "Plans",
    "Search",
    "StrikeSimulator",
    "plan_strikes",
    "pose_cost",
    "pose_error",
]
