"""Environments with a learned collision model inside: the insertion, and any MuJoCo environment by `hybridize`."""

from dexprior.envs.hybrid.backend import NUT_PAIRS, HybridBackend
from dexprior.envs.hybrid.switch import hybridize

__all__ = ["NUT_PAIRS", "HybridBackend", "hybridize"]
