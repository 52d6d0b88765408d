"""What a policy is kept near: the behavioral prior's bank for known scenes, or a density for any."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dexprior.behavior import BehaviorPrior
from dexprior.policy.actor import gaussian_kl
from dexprior.policy.density import ActionDensity

__all__ = ["BankPrior", "DensityPrior", "PolicyPrior"]


class PolicyPrior(Protocol):
    """A distribution over actions, as training asks for it."""

    estimator: str
    """How the KL is estimated: `bound` or `sampled`."""

    def note(
        self, observation: dict[str, Tensor], info: dict[str, Any], scene: Int[np.ndarray, " n"]
    ) -> dict[str, Float[Tensor, "n ..."]]:
        """What is kept of each state, so that later calls need neither worlds nor scenes."""
        ...

    def act(self, noted: dict[str, Tensor], generator: torch.Generator) -> Float[Tensor, "n action"]:
        """An action for each noted state."""
        ...

    def kl(
        self,
        noted: dict[str, Tensor],
        mean: Float[Tensor, "batch action"],
        std: Float[Tensor, " action"],
        generator: torch.Generator,
    ) -> Float[Tensor, " batch"]:
        """KL of a Gaussian policy to the prior in noted states [nats]; differentiable."""
        ...

    def strangeness(self, noted: dict[str, Tensor]) -> Float[Tensor, " batch"]:
        """How far noted states lie from what the prior was made from; 1 is the edge."""
        ...


class BankPrior:
    """Retargeted trajectories of the panel that worlds show.

    The KL is the bound of `gaussian_kl`, which is exact for one trajectory a scene. A state is strange by the distance
    of its tools from the nearest trajectory, over the bank's bandwidth.
    """

    estimator = "bound"

    def __init__(self, bank: BehaviorPrior) -> None:
        self.bank = bank
        self._std = torch.from_numpy(bank.std.astype(np.float32))

    def note(
        self, observation: dict[str, Tensor], info: dict[str, Any], scene: Int[np.ndarray, " n"]
    ) -> dict[str, Float[Tensor, "n ..."]]:
        """See `PolicyPrior`."""
        tools, t, grips = (getattr(info["reading"], name) for name in ("tools", "t", "grips"))
        mean, log_weight = self.bank.components(tools, t, scene, grips)
        apart = self.bank.distances(tools, t, scene).min(axis=1) / self.bank.config.bandwidth
        noted = {"mean": mean, "weight": np.exp(log_weight), "apart": apart}
        return {name: torch.from_numpy(value.astype(np.float32)) for name, value in noted.items()}

    def act(self, noted: dict[str, Tensor], generator: torch.Generator) -> Float[Tensor, "n action"]:
        """See `PolicyPrior`."""
        pick = torch.multinomial(noted["weight"], 1, generator=generator)
        mean = noted["mean"].gather(1, pick[..., None].expand(-1, -1, noted["mean"].shape[2]))[:, 0]
        return mean + self._std * torch.randn(mean.shape, generator=generator)

    def kl(
        self,
        noted: dict[str, Tensor],
        mean: Float[Tensor, "batch action"],
        std: Float[Tensor, " action"],
        generator: torch.Generator,
    ) -> Float[Tensor, " batch"]:
        """See `PolicyPrior`; nothing is drawn."""
        return gaussian_kl(mean, std, noted["mean"], self._std.to(mean), noted["weight"])

    def strangeness(self, noted: dict[str, Tensor]) -> Float[Tensor, " batch"]:
        """See `PolicyPrior`."""
        return noted["apart"]


class DensityPrior:
    """A density that is told nothing but what a policy sees.

    Its KL is the policy's entropy, which is exact, and the density of one reparametrised action a state: an estimate
    without bias, with gradients.
    """

    estimator = "sampled"

    def __init__(self, density: ActionDensity, sentence: str | None = None) -> None:
        self.density = density.eval().requires_grad_(False)
        self._sentence = density.sentence(sentence)

    @torch.no_grad()
    def note(
        self, observation: dict[str, Tensor], info: dict[str, Any], scene: Int[np.ndarray, " n"]
    ) -> dict[str, Float[Tensor, "n ..."]]:
        """See `PolicyPrior`; `scene` does not matter."""
        return {
            "context": self.density.context(observation, self._sentence),
            "strange": self.density.strangeness(observation),
        }

    @torch.no_grad()
    def act(self, noted: dict[str, Tensor], generator: torch.Generator) -> Float[Tensor, "n action"]:
        """See `PolicyPrior`."""
        return self.density.sample(noted["context"], generator)

    def kl(
        self,
        noted: dict[str, Tensor],
        mean: Float[Tensor, "batch action"],
        std: Float[Tensor, " action"],
        generator: torch.Generator,
    ) -> Float[Tensor, " batch"]:
        """See `PolicyPrior`."""
        action = mean + std * torch.randn(mean.shape, generator=generator).to(mean)
        entropy = (std.log() + 0.5 * math.log(2 * math.pi * math.e)).sum()
        return -entropy - self.density.log_prob_at(noted["context"], action)

    def strangeness(self, noted: dict[str, Tensor]) -> Float[Tensor, " batch"]:
        """See `PolicyPrior`."""
        return noted["strange"]

    def log_prob(
        self, observation: Tensor | dict[str, Tensor], action: Float[Tensor, "batch action"]
    ) -> Float[Tensor, " batch"]:
        """Log density of actions, as `dexprior.policy.sac` asks for it."""
        seen = {"state": observation} if isinstance(observation, Tensor) else observation
        return self.density.log_prob_at(self.density.context(seen, self._sentence), action)
