"""Environments on one interface, `make_backend` switches between them by name.

Simulated (`sim`), with learned collisions (`hybrid`), behind a socket (`reality`), and real (`hardware`).
"""

from dexprior.envs.factory import BackendConfig, make_backend

__all__ = ["BackendConfig", "make_backend"]
