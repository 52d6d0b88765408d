"""MuJoCo stepping with a collision model inside.

`HybridStepper` steps one world, `HybridBatch` many; `HybridStep` is a callable in place of `mj_step`.

    pairs -> contacts + holding -> event (asks the model) -> stepper -> batch
"""

from dexprior.collision.hybrid.batch import HybridBatch
from dexprior.collision.hybrid.contacts import Contact
from dexprior.collision.hybrid.event import Answer, HybridConfig, RangedCollisionModel
from dexprior.collision.hybrid.pairs import Side
from dexprior.collision.hybrid.stepper import HybridStep, HybridStepper, warn_untouched

__all__ = [
    "Answer",
    "Contact",
    "HybridBatch",
    "HybridConfig",
    "HybridStep",
    "HybridStepper",
    "RangedCollisionModel",
    "Side",
    "warn_untouched",
]
