"""The insertion task in MuJoCo: a batched backend, and Gymnasium environments for one world and for many."""

from dexprior.envs.line.backend import SimBackend
from dexprior.envs.line.gym import InsertionEnv, InsertionVectorEnv

__all__ = ["InsertionEnv", "InsertionVectorEnv", "SimBackend"]
