"""A world in another process behind a socket, with contact parameters that the client cannot see."""

from dexprior.envs.reality.client import RealityBackend, start_server

__all__ = ["RealityBackend", "start_server"]
