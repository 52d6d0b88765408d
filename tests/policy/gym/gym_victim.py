"""Training in a process that knows the tests' environments."""

from __future__ import annotations

from typing import Any

import point

from dexprior.policy.gym import train_gym

__all__ = ["train"]

point.register()


def train(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """As `train_gym`."""
    return train_gym(*args, **kwargs)
