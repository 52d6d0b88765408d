"""Environments with a learned collision model inside: tasks of the suite, and any MuJoCo environment by `hybridize`."""

from dexprior.envs.hybrid.backend import HybridBackend
from dexprior.envs.hybrid.engine import HybridEngine
from dexprior.envs.hybrid.switch import hybridize

__all__ = ["HybridBackend", "HybridEngine", "hybridize"]
