"""Detect that something goes as it never did in the simulator, back off, try again: around any policy of a task.

monitor = SlipMonitor.learn(slip, held, dt)                  # from the simulator's own rollouts
recovering = Recovering(policy, monitor, retreat, dt=dt)     # one for each batch of worlds
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from dexprior.config import Ge, Gt, Lt, config
from dexprior.errors import BadInput
from dexprior.worlds.measures import SLIP_SPEED

__all__ = ["Recovering", "RecoveryConfig", "SlipMonitor"]

Policy = Callable[[Any, Any, float, np.ndarray], Float[np.ndarray, "n action"]]
"""(truth, robots, seconds since reset, memory) -> actions; `memory` (n, 4) starts at zero, as an expert's does."""


@config
class RecoveryConfig:
    """When a policy backs off."""

    alpha: Annotated[float, Gt(0), Lt(1)] = 0.05
    """Probability of backing off at all in an episode of the simulator's family."""
    window: Annotated[float, Gt(0)] = 0.8
    """Of which the share is taken in which what is held slips [s]."""
    pause: Annotated[float, Gt(0)] = 0.2
    """How long the retreat lasts [s]."""
    tries: Annotated[int, Ge(1)] = 3
    """Retreats in an episode at most."""


@dataclass(frozen=True)
class SlipMonitor:
    """Share of the last moments in which what is held slips, against the most of the simulator's own rollouts."""

    threshold: float
    """Share from which on it is more than theirs."""
    length: int
    """Control periods that it is taken of."""

    @classmethod
    def learn(
        cls,
        slip: Float[np.ndarray, "step n"],
        held: Bool[np.ndarray, "step n"],
        dt: float,
        settings: RecoveryConfig | None = None,
    ) -> SlipMonitor:
        """The threshold that one more rollout exceeds with probability `alpha` at most (split conformal).

        Args:
            slip: of what is held [m/s].
            held: whether it is.
            dt: control period [s].
            settings: the defaults if None.

        Raises:
            BadInput: too few rollouts for this alpha.
        """
        settings = settings or RecoveryConfig()
        length = max(round(settings.window / dt), 1)
        rank = int(np.ceil((1.0 - settings.alpha) * (slip.shape[1] + 1)))
        if rank > slip.shape[1]:
            needed = int(np.ceil(1.0 / settings.alpha)) - 1
            raise BadInput(f"{slip.shape[1]} rollouts for alpha = {settings.alpha:g}; at least {needed} are needed")
        total = np.cumsum(held & (slip > SLIP_SPEED), axis=0).astype(np.float64)
        mean = total.copy()
        mean[length:] -= total[:-length]
        return cls(float(np.sort(mean.max(axis=0) / length)[rank - 1]), length)


@dataclass
class Recovering:
    """A policy that retreats when the monitor's statistic exceeds its threshold, and then begins afresh.

    Not a value: it remembers the worlds that it acts in. Make one for each batch of episodes.
    """

    policy: Policy
    monitor: SlipMonitor
    retreat: Float[np.ndarray, " action"]
    """Action that lets go."""
    dt: float
    """Control period [s]."""
    settings: RecoveryConfig = field(default_factory=RecoveryConfig)
    retry: Policy | None = None
    """What acts after a retreat; the same policy by default."""
    retreats: Int[np.ndarray, " n"] = field(init=False, default_factory=lambda: np.zeros(0, dtype=int))
    """So far, in each world."""

    def __call__(self, truth: Any, robots: Any, t: float, memory: np.ndarray) -> Float[np.ndarray, "n action"]:
        """Actions; the policy's memory is cleared where a retreat begins."""
        n = len(truth["slip"])
        if t == 0.0:
            self._recent = np.zeros((self.monitor.length, n))
            self._left, self.retreats = np.zeros(n, dtype=int), np.zeros(n, dtype=int)
        self._recent = np.roll(self._recent, 1, axis=0)
        self._recent[0] = truth["held"] & (truth["slip"] > SLIP_SPEED)
        over = self._recent.mean(axis=0) > self.monitor.threshold
        begin = over & (self._left == 0) & (self.retreats < self.settings.tries)
        self.retreats = self.retreats + begin
        self._left[begin] = round(self.settings.pause / self.dt)
        away = self._left > 0
        self._recent[:, away] = 0.0
        memory[away] = 0.0
        kept = memory.copy()
        actions = self.policy(truth, robots, t, memory)
        if self.retry is not None and (later := self.retreats > 0).any():
            other = kept.copy()
            again = self.retry(truth, robots, t, other)
            actions = np.where(later[:, None], again, actions)
            memory[later] = other[later]
        memory[away] = 0.0
        self._left = np.maximum(self._left - 1, 0)
        return np.where(away[:, None], self.retreat, actions)
