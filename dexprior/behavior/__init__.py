"""The behavioral prior: a distribution over robot actions that policies are regularized to (not the video prior)."""

from dexprior.behavior.bank import BehaviorConfig, BehaviorPrior
from dexprior.behavior.recordings import MANIFEST, Recordings, read_recordings

__all__ = ["MANIFEST", "BehaviorConfig", "BehaviorPrior", "Recordings", "read_recordings"]
