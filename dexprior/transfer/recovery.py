"""Detect that a task goes on as it never did in the simulator, back off, try again in another way: around any policy.

monitor = ProgressMonitor.learn(remains)                     # from the simulator's own rollouts
recovering = Recovering(policy, monitor, remains_of, retreat, retry=other, dt=dt)  # one batch of worlds at a time
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, Lt, config
from dexprior.errors import BadInput

__all__ = ["ProgressMonitor", "Recovering", "RecoveryConfig"]

Policy = Callable[[Any, Any, float, np.ndarray], Float[np.ndarray, "n action"]]
"""(truth, robots, seconds since reset, memory) -> actions; `memory` (n, 4) starts at zero, as an expert's does."""


@config
class RecoveryConfig:
    """When a policy backs off, and for which worlds its second try is made."""

    alpha: Annotated[float, Gt(0), Lt(1)] = 0.05
    """Probability of backing off at all in an episode of the simulator's family."""
    least: Annotated[float, Gt(0)] = 0.05
    """Share of the way by which rollouts differ at any moment, at least: less is nothing to back off for."""
    pause: Annotated[float, Gt(0)] = 0.2
    """How long the retreat lasts [s]."""
    widenings: Annotated[int, Ge(1)] = 2
    """How often a blamed parameter's support is widened to the side that explains the alarm."""


@dataclass(frozen=True)
class ProgressMonitor:
    """What remains of the way at each moment, against the most that remained in the simulator's own rollouts."""

    middle: Float[np.ndarray, " step"]
    """Median of the share that remains."""
    reach: Float[np.ndarray, " step"]
    """How far above it a half of the rollouts lay at most."""
    threshold: float
    """Times this reach that the other half exceeds as rarely as is promised."""

    @classmethod
    def learn(cls, remains: Float[np.ndarray, "step n"], settings: RecoveryConfig | None = None) -> ProgressMonitor:
        """The threshold that one more rollout exceeds, at any time, with probability `alpha` at most (split conformal).

        The first half of the rollouts gives the envelope, the second half ranks.

        Args:
            remains: distance to the goal in any unit, positive at the first step.
            settings: the defaults if None.

        Raises:
            BadInput: too few rollouts for this alpha, or one that starts at its goal or is not finite.
        """
        settings = settings or RecoveryConfig()
        half = remains.shape[1] // 2
        rank = int(np.ceil((1.0 - settings.alpha) * (remains.shape[1] - half + 1)))
        if rank > remains.shape[1] - half:
            needed = 2 * (int(np.ceil(1.0 / settings.alpha)) - 1)
            raise BadInput(f"{remains.shape[1]} rollouts for alpha = {settings.alpha:g}; at least {needed} are needed")
        if not (np.isfinite(remains).all() and (remains[0] > 0).all()):
            raise BadInput("what remains of a rollout must be finite, and more than nothing at its start")
        share = remains / remains[0]
        middle = np.median(share[:, :half], axis=1)
        reach = np.maximum(share[:, :half].max(axis=1) - middle, settings.least)
        late = ((share[:, half:] - middle[:, None]) / reach[:, None]).max(axis=0)
        return cls(middle, reach, float(np.sort(late)[rank - 1]))

    def alarms(self, step: int, share: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Whether more remains than the simulator's rollouts had left by then; past their last step, than at it."""
        k = min(step, len(self.middle) - 1)
        return (share - self.middle[k]) / self.reach[k] > self.threshold

    def alarmed(self, remains: Float[np.ndarray, "step n"]) -> Bool[np.ndarray, " n"]:
        """Whether there is an alarm at any time of an episode."""
        share = remains / remains[0]
        return np.any([self.alarms(k, row) for k, row in enumerate(share)], axis=0)


@dataclass
class Recovering:
    """A policy that retreats at the monitor's first alarm, after which another one begins afresh.

    The monitor knows rollouts of the first policy alone and is not asked again. Not a value: it remembers the worlds
    that it acts in, one batch of episodes after the other.
    """

    policy: Policy
    monitor: ProgressMonitor
    remains: Callable[[Any], Float[np.ndarray, " n"]]
    """What remains, read off the truth: distance to the goal, as the monitor learned it."""
    retreat: Float[np.ndarray, " action"]
    """Action that lets go."""
    dt: float
    """Control period [s]."""
    retry: Policy | None = None
    """What acts after a retreat; the same policy by default."""
    settings: RecoveryConfig = field(default_factory=RecoveryConfig)
    retreated: Bool[np.ndarray, " n"] = field(init=False, default_factory=lambda: np.zeros(0, dtype=bool))
    """So far, in each world."""
    batches: list[float] = field(init=False, default_factory=list)
    """Share of the worlds that retreated, of every batch but the last."""

    def __call__(self, truth: Any, robots: Any, t: float, memory: np.ndarray) -> Float[np.ndarray, "n action"]:
        """Actions; memory is cleared in a retreat, so that what acts after it begins afresh."""
        now = self.remains(truth)
        if t == 0.0:
            if len(self.retreated):
                self.batches.append(float(self.retreated.mean()))
            self._whole = now
            self._left, self.retreated = np.zeros(len(now), dtype=int), np.zeros(len(now), dtype=bool)
        begin = ~self.retreated & self.monitor.alarms(round(t / self.dt), now / self._whole)
        self.retreated = self.retreated | begin
        self._left[begin] = round(self.settings.pause / self.dt)
        away = self._left > 0
        memory[away] = 0.0
        kept = memory.copy()
        actions = self.policy(truth, robots, t, memory)
        if self.retry is not None and self.retreated.any():
            other = self.retry(truth, robots, t, kept)
            actions = np.where(self.retreated[:, None], other, actions)
            memory[self.retreated] = kept[self.retreated]
        memory[away] = 0.0
        self._left = np.maximum(self._left - 1, 0)
        return np.where(away[:, None], self.retreat, actions)
