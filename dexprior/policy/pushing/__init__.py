"""Sequential pushing: soft actor-critic on one segment, a planner of sub-goals for routes, and their evaluation."""

from dexprior.policy.pushing.drawing import draw_route, draw_strike
from dexprior.policy.pushing.evaluation import RouteRun, evaluate_routes
from dexprior.policy.pushing.routes import Route, next_segment
from dexprior.policy.pushing.study import RouteStudyConfig, study_routes
from dexprior.policy.pushing.training import (
    PushConfig,
    StrikerConfig,
    load_push_policy,
    make_striker,
    train,
)
from dexprior.policy.pushing.vector import PushingVecEnv

__all__ = [
    # routes
    "Route",
    "next_segment",
    # training
    "PushConfig",
    "PushingVecEnv",
    "StrikerConfig",
    "load_push_policy",
    "make_striker",
    "train",
    # evaluation
    "RouteRun",
    "RouteStudyConfig",
    "evaluate_routes",
    "study_routes",
    "draw_route",
    "draw_strike",
]
