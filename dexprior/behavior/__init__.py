"""The behavioral prior: a distribution over robot actions that policies are regularized to (not the video prior)."""

from dexprior.behavior.bank import BehaviorConfig, BehaviorPrior

__all__ = ["BehaviorConfig", "BehaviorPrior"]
