"""Small Gymnasium environments that are learned in seconds."""

from __future__ import annotations

import gymnasium
import numpy as np

__all__ = ["GOAL", "Point", "register"]

GOAL = 0.6


class Point(gymnasium.Env):
    """A point in the plane goes to a goal; the action, in [-2, 2], is its velocity."""

    def __init__(self, broken: str = "", named: bool = False) -> None:
        self.action_space = gymnasium.spaces.Box(-2.0, 2.0, (2,), np.float32)
        place = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = gymnasium.spaces.Dict({"a": place, "b": place}) if named else place
        self.broken, self.named, self.count = broken, named, 0

    def _seen(self):
        seen = self.place.astype(np.float32)
        return {"a": seen, "b": seen} if self.named else seen

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.count = self.np_random.uniform(-0.2, 0.2, 2), 0
        return self._seen(), {}

    def step(self, action):
        self.place = np.clip(self.place + 0.1 * np.asarray(action, dtype=np.float64), -1.0, 1.0)
        self.count += 1
        far = float(np.linalg.norm(self.place - GOAL))
        reward = np.nan if self.broken == "reward" and self.count == 3 else 1.0 - far
        info = {} if self.broken == "silent" else {"success": far < 0.2}
        return self._seen(), reward, self.broken == "ends" and self.count == 5, False, info


def register() -> None:
    """Make the environments known to Gymnasium."""
    for name, settings in {
        "Point-v0": {}, "PointNamed-v0": {"named": True}, "PointEnds-v0": {"broken": "ends"},
        "PointSilent-v0": {"broken": "silent"}, "PointNan-v0": {"broken": "reward"},
    }.items():  # fmt: skip
        if name not in gymnasium.registry:
            gymnasium.register(name, Point, max_episode_steps=12, kwargs=settings)
    if "PointForever-v0" not in gymnasium.registry:
        gymnasium.register("PointForever-v0", Point)
