"""One pushing world behind Gymnasium's interface."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium
import numpy as np

from dexprior.envs.copies import NotCopied
from dexprior.envs.pushing.task import PushingTask
from dexprior.envs.pushing.worlds import PushingWorlds, Striker
from dexprior.worlds.pushing import PushingConfig

__all__ = ["ACTION_SPACE", "OBSERVATION_SPACE", "PushingEnv", "Striker"]

OBSERVATION_SPACE = gymnasium.spaces.Box(-np.inf, np.inf, (6,), np.float32)
"""See `observe`."""
ACTION_SPACE = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
"""Impact point, speed and direction of the rod, over their ranges."""


class PushingEnv(NotCopied, gymnasium.Env):
    """Push one object along one segment; `striker` may be a simulator or a real table.

    `info` says whether the sub-goal was reached, the deviation from its orientation [rad], and the strikes used.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  # Gymnasium's own declaration
    observation_space, action_space = OBSERVATION_SPACE, ACTION_SPACE

    def __init__(self, striker: Striker, *, world: PushingConfig | None = None, task: PushingTask | None = None):
        self.worlds = PushingWorlds(world or PushingConfig(), task or PushingTask(), striker, 1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self.worlds.seed(self.np_random)
        return self.worlds.reset()[0], {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]:
        """Strike once."""
        out = self.worlds.step(np.asarray(action)[None])
        info = {
            "reached": bool(out.reached[0]),
            "deviation": float(out.deviation[0]),
            "strikes": int(self.worlds.used[0]),
        }
        return out.observation[0], float(out.reward[0]), bool(out.terminated[0]), bool(out.truncated[0]), info
