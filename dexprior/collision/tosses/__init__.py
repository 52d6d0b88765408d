"""Whole tosses of a cube: first impacts, simulators behind one protocol, published metrics, tuned opponents.

A simulator to compare implements `TossSimulator.rollout`; `whole_toss` and `subtrajectories` score it.
"""

from dexprior.collision.tosses.closed_form import corner_impact, fit_corner_impact
from dexprior.collision.tosses.metrics import (
    SubtrajectoryErrors,
    WholeTossErrors,
    bootstrap,
    coverage,
    face_probability,
    face_up,
    kernel_likelihood,
    paired_ratio,
    point_impulse_bound,
    pose_cost,
    relative_error,
    subtrajectories,
    subtrajectory_errors,
    subtrajectory_starts,
    summarize_whole_toss,
    whole_toss,
    whole_toss_errors,
)
from dexprior.collision.tosses.segmentation import (
    CornerImpacts,
    SegmentationConfig,
    first_impacts,
    fit_flight,
    flight_starts,
)
from dexprior.collision.tosses.simulation import (
    DEFAULT_CONTACT,
    MujocoTosses,
    NoisyStart,
    SimulationConfig,
    TossSimulator,
    ensemble,
    simulate_first_impacts,
    simulate_many,
)
from dexprior.collision.tosses.tuning import (
    CUBE_RANGES,
    CmaConfig,
    Objective,
    TossGridConfig,
    default_contact,
    first_impact_objective,
    subtrajectory_objective,
    tune_cma,
    tune_grid,
    whole_toss_objective,
)

__all__ = [
    # first impacts
    "CornerImpacts",
    "SegmentationConfig",
    "first_impacts",
    "fit_flight",
    "flight_starts",
    "corner_impact",
    "fit_corner_impact",
    # simulators
    "TossSimulator",
    "MujocoTosses",
    "NoisyStart",
    "SimulationConfig",
    "DEFAULT_CONTACT",
    "ensemble",
    "simulate_first_impacts",
    "simulate_many",
    # metrics
    "WholeTossErrors",
    "SubtrajectoryErrors",
    "bootstrap",
    "coverage",
    "face_probability",
    "face_up",
    "kernel_likelihood",
    "paired_ratio",
    "point_impulse_bound",
    "pose_cost",
    "relative_error",
    "subtrajectories",
    "subtrajectory_errors",
    "subtrajectory_starts",
    "summarize_whole_toss",
    "whole_toss",
    "whole_toss_errors",
    # tuned opponents
    "CUBE_RANGES",
    "CmaConfig",
    "Objective",
    "TossGridConfig",
    "default_contact",
    "first_impact_objective",
    "subtrajectory_objective",
    "tune_cma",
    "tune_grid",
    "whole_toss_objective",
]
