"""One world behind Gymnasium's standard interface, over a vector environment of one."""

from __future__ import annotations

from typing import Any, Generic, SupportsFloat, TypeVar

import gymnasium
import numpy as np

from dexprior.envs.copies import NotCopied

__all__ = ["SingleEnv"]


V = TypeVar("V", bound=gymnasium.vector.VectorEnv)


class SingleEnv(NotCopied, gymnasium.Env[Any, Any], Generic[V]):
    """The first world of a vector environment that resets only when it is told to.

    Args:
        vector: of one world; its observations, rewards and info lose their leading axis.
    """

    def __init__(self, vector: V) -> None:
        self.vector = vector
        self.observation_space, self.action_space = vector.single_observation_space, vector.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start an episode; `options["instance"]` picks one of the panel."""
        super().reset(seed=seed)
        chosen = None if options is None or "instance" not in options else {"instances": [options["instance"]]}
        observation, info = self.vector.reset(seed=seed, options=chosen)
        return _first(observation), _first(info)

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], SupportsFloat, bool, bool, dict[str, Any]]:
        """Send one action."""
        observation, reward, end, cut, info = self.vector.step(np.asarray(action)[None])
        return _first(observation), float(reward[0]), bool(end[0]), bool(cut[0]), _first(info)

    def close(self) -> None:
        """Close the vector environment."""
        self.vector.close()


def _first(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _first(value) for name, value in tree.items()}
    return tree[0] if isinstance(tree, np.ndarray) else tree
