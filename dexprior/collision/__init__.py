"""A hybrid collision model: distilled from MuJoCo, adapted to a few real impacts, stepped inside MuJoCo.

`run` makes and measures one (`stage.py`); `Surrogate` predicts; `HybridStepper` replaces `mj_step`. After
CLASH ("Collision Learning via Augmented Sim-to-real Hybridization"), in the contact frame instead of for one
pair of shapes.
"""

from dexprior.collision.closed_form import RestitutionFriction
from dexprior.collision.evaluation import (
    GridConfig,
    accuracy_curve,
    fit_closed_form,
    point_impulse_bound,
    predict_impacts,
    relative_error,
    simulate_with,
    summarize,
    tune_mujoco,
)
from dexprior.collision.generator import CollisionPairs, GeneratorConfig, best_impulse, generate_pairs
from dexprior.collision.hybrid import Contact, HybridConfig, HybridStepper, RangedCollisionModel
from dexprior.collision.parameters import ContactRanges
from dexprior.collision.report import plot_accuracy
from dexprior.collision.stage import CollisionConfig, run
from dexprior.collision.surrogate import (
    ImpulseNetwork,
    Surrogate,
    SurrogateConfig,
    apply_impulse,
    contact_velocity,
    seen_range,
)
from dexprior.collision.training import (
    DistillConfig,
    FinetuneConfig,
    Finetuned,
    IdentifyConfig,
    distill,
    finetune,
    identify,
)

__all__ = [
    # the stage
    "CollisionConfig",
    "run",
    "plot_accuracy",
    # models
    "Surrogate",
    "SurrogateConfig",
    "ImpulseNetwork",
    "RestitutionFriction",
    "apply_impulse",
    "contact_velocity",
    "seen_range",
    # stepping
    "HybridStepper",
    "HybridConfig",
    "Contact",
    "RangedCollisionModel",
    # simulated impacts
    "CollisionPairs",
    "ContactRanges",
    "GeneratorConfig",
    "best_impulse",
    "generate_pairs",
    # training
    "DistillConfig",
    "FinetuneConfig",
    "Finetuned",
    "IdentifyConfig",
    "distill",
    "finetune",
    "identify",
    # evaluation
    "GridConfig",
    "accuracy_curve",
    "fit_closed_form",
    "point_impulse_bound",
    "predict_impacts",
    "relative_error",
    "simulate_with",
    "summarize",
    "tune_mujoco",
]
