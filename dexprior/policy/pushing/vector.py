"""Stable-Baselines3's interface to many pushing worlds: one call of the simulator per step for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from dexprior.envs.pushing import ACTION_SPACE, OBSERVATION_SPACE, PushingWorlds

__all__ = ["PushingVecEnv"]


class PushingVecEnv(VecEnv):
    """Restarts each world when its episode ends; `episodes` collects (return, strikes, reached, deviation)."""

    def __init__(self, worlds: PushingWorlds) -> None:
        super().__init__(worlds.n, OBSERVATION_SPACE, ACTION_SPACE)
        self.worlds = worlds
        self.episodes: list[tuple[float, int, bool, float]] = []
        self._return = np.zeros(worlds.n)
        self._action = np.zeros((worlds.n, 3))

    def reset(self) -> np.ndarray:
        """Start an episode in every world."""
        self._return[:] = 0.0
        return self.worlds.reset()

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions for `step_wait`."""
        self._action = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Strike in every world."""
        out = self.worlds.step(self._action)
        self._return += out.reward
        done = out.terminated | out.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for k in np.flatnonzero(done):
            infos[k] = {"terminal_observation": out.observation[k], "TimeLimit.truncated": bool(out.truncated[k])}
            self.episodes.append(
                (float(self._return[k]), int(self.worlds.used[k]), bool(out.reached[k]), float(out.deviation[k]))
            )
        observation = out.observation
        if done.any():
            observation = self.worlds.reset(done)
            self._return[done] = 0.0
        return observation, out.reward.astype(np.float32), done, infos

    def close(self) -> None:
        """Nothing to close: the simulator belongs to whoever made it."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The same attribute for all worlds."""
        return [getattr(self, attr_name, None)] * len(self._indices(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: the worlds share their attributes."""
        raise AttributeError(f"{attr_name} is shared by all worlds; set it on `worlds`")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Refused: there are no single environments behind this one."""
        raise AttributeError(f"there is no environment that could {method_name}: the worlds are one batch")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Never."""
        return [False] * len(self._indices(indices))

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed starts and sub-goals."""
        if seed is not None:
            self.worlds.seed(seed)
        return [seed] * self.num_envs

    def _indices(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))
