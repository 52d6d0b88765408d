"""Whole tosses of a cube: first impacts, simulators behind one protocol, published metrics, tuned opponents.

A simulator to compare implements `TossSimulator.rollout`; `whole_toss` and `subtrajectories` score it. Ours is a wider
family of MuJoCo contacts (`family.py`) with few numbers to find (`model.py`); `evaluate_cube` measures all of them.
"""

from dexprior.studies.cubes.closed_form import corner_impact, fit_corner_impact
from dexprior.studies.cubes.evaluation import CubeEvaluationConfig, evaluate_cube
from dexprior.studies.cubes.family import (
    CUBE_FAMILY,
    CUBE_PRIOR,
    family_from_unit,
    family_prior,
    simulate_family,
    simulate_family_impacts,
)
from dexprior.studies.cubes.metrics import (
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
    whole_toss,
    whole_toss_errors,
)
from dexprior.studies.cubes.model import (
    CubeSimulator,
    FamilyConfig,
    FirstImpactModel,
    MeanToss,
    fit_first_impacts,
    fit_whole_tosses,
    mean_states,
    stochastic,
)
from dexprior.studies.cubes.pictures import draw_toss
from dexprior.studies.cubes.segmentation import (
    CornerImpacts,
    SegmentationConfig,
    first_impacts,
    fit_flight,
    flight_starts,
)
from dexprior.studies.cubes.simulation import (
    DEFAULT_CONTACT,
    SOFT_CONTACT,
    MujocoTosses,
    NoisyStart,
    SimulationConfig,
    TossSimulator,
    ensemble,
    simulate_first_impacts,
    simulate_many,
)
from dexprior.studies.cubes.tuning import (
    CUBE_RANGES,
    CmaConfig,
    Objective,
    TossGridConfig,
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
    "SOFT_CONTACT",
    "ensemble",
    "simulate_first_impacts",
    "simulate_many",
    # ours
    "CUBE_FAMILY",
    "CUBE_PRIOR",
    "CubeSimulator",
    "FamilyConfig",
    "FirstImpactModel",
    "MeanToss",
    "family_from_unit",
    "family_prior",
    "fit_first_impacts",
    "fit_whole_tosses",
    "mean_states",
    "simulate_family",
    "simulate_family_impacts",
    "stochastic",
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
    "whole_toss",
    "whole_toss_errors",
    # everything on held-out tosses
    "CubeEvaluationConfig",
    "draw_toss",
    "evaluate_cube",
    # tuned opponents
    "CUBE_RANGES",
    "CmaConfig",
    "Objective",
    "TossGridConfig",
    "first_impact_objective",
    "subtrajectory_objective",
    "tune_cma",
    "tune_grid",
    "whole_toss_objective",
]
