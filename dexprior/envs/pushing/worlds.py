"""Many striking worlds in step, each on a segment of its own; what Gymnasium's and SB3's interfaces are made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from dexprior.envs.pushing.task import PushingTask, judge, observe, strikes_from_action
from dexprior.errors import BadInput
from dexprior.worlds.pushing import PushingConfig, Strikes

__all__ = ["Outcome", "PushingWorlds", "Striker"]

Striker = Callable[[Float[np.ndarray, "strike 3"], Strikes], Float[np.ndarray, "strike 3"]]
"""Where objects at rest come to rest when they are struck: MuJoCo, the planar rollout, or a real table."""


@dataclass(frozen=True)
class Outcome:
    """One strike in every world."""

    observation: Float[np.ndarray, "world 6"]
    """After the strike."""
    reward: Float[np.ndarray, " world"]
    terminated: Bool[np.ndarray, " world"]
    """Sub-goal reached, or safe zone left."""
    truncated: Bool[np.ndarray, " world"]
    """No strike is left."""
    reached: Bool[np.ndarray, " world"]
    deviation: Float[np.ndarray, " world"]
    """Angle to the sub-goal's orientation [rad]."""


class PushingWorlds:
    """Objects on segments, struck all at once.

    Starts are uniform in the disc in which the last sub-goal counted as reached, sub-goals' orientations uniform in
    +-max_turn.

    Args:
        world: what is struck; arc side only for the semi-cylinder, by its `alpha_range`.
        task: segment and rewards.
        striker: answers a strike in every world.
        n: number of worlds.
        seed: of starts and sub-goals.
    """

    def __init__(self, world: PushingConfig, task: PushingTask, striker: Striker, n: int, *, seed: int = 0) -> None:
        self.world, self.task, self.striker, self.n = world, task, striker, n
        self.pose, self.turn, self.used = np.zeros((n, 3)), np.zeros(n), np.zeros(n, dtype=int)
        self.seed(seed)

    def seed(self, seed: int | list[int] | np.random.Generator) -> None:
        """Draw starts and sub-goals from `seed` on."""
        self._rng = np.random.default_rng(seed)

    def reset(self, which: Bool[np.ndarray, " world"] | None = None) -> Float[np.ndarray, "world 6"]:
        """Start episodes in the chosen worlds, by default in all; returns what all of them see."""
        chosen = np.ones(self.n, dtype=bool) if which is None else which
        m, task, rng = int(chosen.sum()), self.task, self._rng
        radius, angle = task.reached * np.sqrt(rng.random(m)), rng.uniform(-np.pi, np.pi, m)
        yaw = rng.uniform(-task.start_yaw, task.start_yaw, m)
        self.pose[chosen] = np.stack([radius * np.cos(angle), radius * np.sin(angle), yaw], axis=1)
        self.turn[chosen] = rng.uniform(-task.max_turn, task.max_turn, m)
        self.used[chosen] = 0
        return observe(task, self.pose, self.turn)

    def step(self, action: Float[np.ndarray, "world 3"]) -> Outcome:
        """Strike in every world; episodes that end are not restarted here.

        Raises:
            BadInput: an action that is not finite, or a striker that answers NaN.
        """
        final = self.striker(self.pose, strikes_from_action(self.task, self.world, action))
        if not np.isfinite(final).all():
            raise BadInput(f"pushing: {type(self.striker).__name__} answered a pose that is not finite")
        self.pose = np.array(final)
        self.used = self.used + 1
        verdict = judge(self.task, self.pose, self.turn, self.used)
        ended = verdict.reached | verdict.left
        return Outcome(
            observation=observe(self.task, self.pose, self.turn),
            reward=verdict.reward,
            terminated=ended,
            truncated=(self.used >= self.task.max_strikes) & ~ended,
            reached=verdict.reached,
            deviation=verdict.deviation,
        )
