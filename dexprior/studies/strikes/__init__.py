"""Strikes on an independent engine's table: every simulator fitted to the same few, scored on others, planned with."""

from dexprior.studies.strikes.fitting import (
    FittedStrikers,
    SlidingInMujoco,
    execute_plans,
    fit_strikers,
    recorded_velocity,
    strike_errors,
)
from dexprior.studies.strikes.plans import evaluate_plans
from dexprior.studies.strikes.velocities import StrikeStudyConfig, evaluate_strikes

__all__ = [
    "FittedStrikers",
    "SlidingInMujoco",
    "StrikeStudyConfig",
    "evaluate_plans",
    "evaluate_strikes",
    "execute_plans",
    "fit_strikers",
    "recorded_velocity",
    "strike_errors",
]
