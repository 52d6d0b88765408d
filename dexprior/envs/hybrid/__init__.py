"""The simulated insertion with a learned collision model inside."""

from dexprior.envs.hybrid.backend import HybridBackend, nut_pairs

__all__ = ["HybridBackend", "nut_pairs"]
