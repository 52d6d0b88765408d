"""Tasks of the suite simulated here, as a backend."""

from dexprior.envs.sim.backend import SimBackend

__all__ = ["SimBackend"]
