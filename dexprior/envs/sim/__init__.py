"""The insertion task in MuJoCo: a batched backend, and Gymnasium environments for one world and for many."""

from dexprior.envs.sim.backend import SimBackend
from dexprior.envs.sim.gym import InsertionEnv, InsertionVectorEnv

__all__ = ["InsertionEnv", "InsertionVectorEnv", "SimBackend"]
