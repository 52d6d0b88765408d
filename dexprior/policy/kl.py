"""How strongly a policy is kept near its prior: the weight of the KL, from iteration to iteration and state to state.

loss = ... + beta(iteration) * mean_i factor(phase_i, strangeness_i) * KL_i
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dexprior.config import Ge, Gt, config

__all__ = ["PHASES", "KlConfig", "KlWeight", "PhaseFactors", "by_phase"]

PHASES = ("free", "touch", "held")
"""Phases of contact: nothing is felt; a fingertip feels something; the object is held."""


@config
class PhaseFactors:
    """Factors of the weight, one for each phase of contact."""

    free: Annotated[float, Ge(0)] = 1.0
    """Factor while no fingertip feels anything."""
    touch: Annotated[float, Ge(0)] = 1.0
    """Factor while a fingertip feels something and nothing is held."""
    held: Annotated[float, Ge(0)] = 1.0
    """Factor while the object is held."""


@config
class KlConfig:
    """Weight of the KL to the prior, after the warm-up."""

    schedule: Literal["annealed", "fixed", "adaptive"] = "annealed"
    """annealed: from `start` to `end`, geometric; fixed: `start`; adaptive: from `start` on, so that the mean KL stays
    near `target`."""
    start: Annotated[float, Ge(0)] = 0.1
    """Weight after the warm-up; 0 leaves the KL out, whatever was imitated before."""
    end: Annotated[float, Gt(0)] = 0.01
    """Weight at the end of an annealed schedule."""
    target: Annotated[float, Gt(0)] = 2.0
    """Mean KL that an adaptive schedule keeps to [nats]."""
    patience: Annotated[int, Ge(0)] = 10
    """Iterations without a rise of the mean reward, at under half of the episodes won, after which the prior counts as
    useless and is let go: the weight halves with each further iteration. 0 never lets it go."""
    phase: PhaseFactors = PhaseFactors()
    """Factors by phase of contact."""
    uncertainty: Annotated[float, Ge(0)] = 0.0
    """How fast the weight falls where the prior does not know its way: it is divided by 1 + `uncertainty` for each
    unit of strangeness beyond 1, the edge of what the prior was made from."""


class KlWeight:
    """The weight of each iteration.

    Args:
        config: the schedule.
        warmup: iterations in which the prior is imitated; the weight does not matter there.
        iterations: of the training.
        state: what earlier iterations left in `state`; None begins.
    """

    def __init__(self, config: KlConfig, *, warmup: int, iterations: int, state: dict[str, Any] | None = None) -> None:
        self._config, self._warmup, self._iterations = config, warmup, iterations
        self.state: dict[str, Any] = dict(state or {"weight": config.start, "best": None, "since": 0, "released": 0})
        """Plain numbers, from which a resumed run goes on."""

    @property
    def let_go(self) -> bool:
        """Whether the prior was found useless."""
        return bool(self.state["released"])

    def at(self, iteration: int) -> float:
        """Weight in an iteration, the next one."""
        c = self._config
        if c.start == 0:
            return 0.0
        weight = c.start
        if c.schedule == "adaptive":
            weight = self.state["weight"]
        elif c.schedule == "annealed" and iteration >= self._warmup:
            u = (iteration - self._warmup) / max(self._iterations - self._warmup - 1, 1)
            weight = c.start * (c.end / c.start) ** u
        return float(weight * 0.5 ** self.state["released"])

    def learn(self, *, kl: float, reward: float, success: float) -> None:
        """Take note of an iteration after the warm-up.

        Args:
            kl: mean KL of its update [nats].
            reward: mean reward of its rollout.
            success: share of episodes that were won; NaN where nobody says.
        """
        c, state = self._config, self.state
        if kl > _BAND * c.target:
            state["weight"] = min(state["weight"] * _STEP, c.start * _RANGE)
        elif kl < c.target / _BAND:
            state["weight"] = max(state["weight"] / _STEP, c.start / _RANGE)
        best = state["best"]
        if best is None or reward > best + _RISE * abs(best):
            state["best"], state["since"] = reward, 0
        else:
            state["since"] += 1
        if c.patience and state["since"] >= c.patience and not success >= 0.5:
            state["released"] += 1

    def factor(self, phase: Int[Tensor, " n"], strangeness: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Factor of the weight in some states.

        Args:
            phase: index into `PHASES`.
            strangeness: of the states to the prior; 1 is the edge of what it knows.
        """
        c = self._config
        factors = torch.tensor([getattr(c.phase, name) for name in PHASES], dtype=strangeness.dtype)
        return factors[phase] / (1.0 + c.uncertainty * (strangeness - 1.0).clamp(min=0.0))


_BAND, _STEP, _RANGE = 1.5, 1.5, 1000.0  # of the adaptive weight: Schulman et al. 2017, section 4, with a smaller step
_RISE = 0.01  # share of the best mean reward by which one must be larger to count as better


def by_phase(kl: Float[Tensor, " n"], phase: Int[Tensor, " n"]) -> dict[str, float]:
    """Mean KL in each phase of contact that occurs [nats]: `kl/PHASE`."""
    return {f"kl/{name}": float(kl[phase == k].mean()) for k, name in enumerate(PHASES) if bool((phase == k).any())}
