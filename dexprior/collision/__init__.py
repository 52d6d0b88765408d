"""A hybrid collision model: distilled from MuJoCo, adapted to a few real impacts, stepped inside MuJoCo.

    generator  impacts in MuJoCo, over a family of contacts        (shapes/: any pair of geometries)
    distill    -> surrogate: a network from approach to contact impulse
    calibration -> its contact parameters and what it misses, from about ten measured impacts
    hybrid/    MuJoCo's stepping with the model inside             (planar/: thousands of sliding objects at once)
    stage      all of it, and every opponent on the same impacts   (clash, baselines)

After CLASH, arXiv 2602.18707, in the contact frame instead of for one pair of shapes.
"""

from dexprior.collision.baselines import CmaConfig, GridConfig, fit_closed_form, tune_mujoco_cma, tune_mujoco_grid
from dexprior.collision.calibration import Identified, IdentifyConfig, finetune, identify
from dexprior.collision.clash import ClashConfig, ClashModel
from dexprior.collision.closed_form import RestitutionFriction
from dexprior.collision.distill import DistillConfig, distill
from dexprior.collision.evaluation import (
    accuracy_curve,
    figures,
    point_impulse_bound,
    predict_impacts,
    relative_error,
    score_distribution,
)
from dexprior.collision.generator import CollisionPairs, GeneratorConfig, best_impulse, generate_pairs
from dexprior.collision.hybrid import (
    Answer,
    Contact,
    HybridBatch,
    HybridConfig,
    HybridStep,
    HybridStepper,
    RangedCollisionModel,
)
from dexprior.collision.parameters import PARAMETERS, ContactRanges
from dexprior.collision.report import plot_accuracy
from dexprior.collision.residual import ImpulseResidual, ResidualConfig
from dexprior.collision.stage import CollisionConfig, compare, run
from dexprior.collision.surrogate import (
    ImpulseNetwork,
    Surrogate,
    SurrogateConfig,
    apply_impulse,
    contact_velocity,
    seen_range,
)

__all__ = [
    # the stage
    "CollisionConfig",
    "run",
    "compare",
    "plot_accuracy",
    # models
    "Surrogate",
    "SurrogateConfig",
    "ImpulseNetwork",
    "ImpulseResidual",
    "RestitutionFriction",
    "apply_impulse",
    "contact_velocity",
    "seen_range",
    # stepping
    "HybridStepper",
    "HybridStep",
    "HybridBatch",
    "HybridConfig",
    "Answer",
    "Contact",
    "RangedCollisionModel",
    # simulated impacts
    "PARAMETERS",
    "CollisionPairs",
    "ContactRanges",
    "GeneratorConfig",
    "best_impulse",
    "generate_pairs",
    # training and calibration
    "DistillConfig",
    "distill",
    "IdentifyConfig",
    "Identified",
    "identify",
    "ResidualConfig",
    "finetune",
    # opponents
    "ClashConfig",
    "ClashModel",
    "CmaConfig",
    "GridConfig",
    "fit_closed_form",
    "tune_mujoco_cma",
    "tune_mujoco_grid",
    # evaluation
    "accuracy_curve",
    "figures",
    "point_impulse_bound",
    "predict_impacts",
    "relative_error",
    "score_distribution",
]
