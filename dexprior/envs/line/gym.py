"""Gymnasium environments over any backend: `InsertionEnv` for one world, `InsertionVectorEnv` for many."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np

from dexprior.envs.line.base import (
    ACTION_SIZE,
    HORIZON,
    OBSERVATION_SIZES,
    Backend,
    command_from_action,
    observe,
    privileged,
    score,
)
from dexprior.envs.line.panel import Panel
from dexprior.envs.single import SingleEnv

__all__ = ["InsertionEnv", "InsertionVectorEnv"]

_OBSERVATION = gymnasium.spaces.Dict(
    {name: gymnasium.spaces.Box(-np.inf, np.inf, shape, np.float32) for name, shape in OBSERVATION_SIZES.items()}
)
_ACTION = gymnasium.spaces.Box(-1.0, 1.0, (ACTION_SIZE,), np.float32)

Reward = Literal["dense", "sparse"]


class InsertionVectorEnv(gymnasium.vector.VectorEnv):
    """Many worlds in step: each episode lasts `HORIZON` commands in all of them.

    `info` holds the reward terms, and `privileged` for a critic where the backend tracks the nut.
    """

    def __init__(self, backend: Backend, panel: Panel, *, reward: Reward = "dense") -> None:
        self.backend, self.panel, self.reward = backend, panel, reward
        self.num_envs = backend.n
        self.single_observation_space, self.single_action_space = _OBSERVATION, _ACTION
        self.observation_space = gymnasium.vector.utils.batch_space(_OBSERVATION, self.num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(_ACTION, self.num_envs)
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED}
        self._step = 0

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start an episode in every world.

        Args:
            seed: picks the instances at random from the panel.
            options: `instances`, indices into the panel; by default the first ones, in order.
        """
        super().reset(seed=seed if isinstance(seed, int) else None)
        ids = (options or {}).get("instances")
        if ids is None:
            ids = np.arange(self.num_envs) % len(self.panel)
            if isinstance(seed, list):
                ids = np.array([np.random.default_rng(s).integers(len(self.panel)) for s in seed])
            elif seed is not None:
                ids = self.np_random.integers(len(self.panel), size=self.num_envs)
        reading = self.backend.reset([self.panel.instances[int(i)] for i in ids])
        self._step = 0
        return observe(reading), self._info(reading)

    def step(
        self, actions: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Send one action to each world."""
        reading = self.backend.step(*command_from_action(actions))
        self._step += 1
        info = self._info(reading)
        reward = (
            info["terms"]["total" if self.reward == "dense" else "sparse"]
            if "terms" in info
            else np.zeros(self.num_envs)
        )
        done = np.full(self.num_envs, self._step >= HORIZON)
        return observe(reading), reward, np.zeros(self.num_envs, dtype=bool), done, info

    def close_extras(self, **kwargs: Any) -> None:
        """Close the backend."""
        self.backend.close()

    def _info(self, reading: Any) -> dict[str, Any]:
        info: dict[str, Any] = {"reading": reading}
        if reading.truth is not None:
            info |= {"terms": score(reading, self.backend.world), "privileged": privileged(reading)}
        return info


class InsertionEnv(SingleEnv[InsertionVectorEnv]):
    """One world behind the standard interface; `backend` may be a simulator, a server or a robot."""

    metadata = {"render_modes": []}  # noqa: RUF012  # Gymnasium's own declaration

    def __init__(self, backend: Backend, panel: Panel, *, reward: Reward = "dense") -> None:
        super().__init__(InsertionVectorEnv(backend, panel, reward=reward))
