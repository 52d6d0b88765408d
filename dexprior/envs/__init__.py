"""Environments on one interface, `make_backend` switches between them by name.

Simulated (`sim`), with learned collisions (`hybrid`), behind a socket (`reality`), and real (`hardware`).
"""

from dexprior.envs.factory import BackendConfig, make_backend
from dexprior.envs.registration import ENVIRONMENTS, register

register()  # Gymnasium 1.4 calls no entry points of plugins any more

__all__ = ["ENVIRONMENTS", "BackendConfig", "make_backend", "register"]
