"""A moving average of the weights that training goes through."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from dexprior.artifacts import whole
from dexprior.errors import ArtifactError
from dexprior.prior.distributed import laid_out

__all__ = ["Average"]


class Average:
    """Exponential moving average of a network's parameters (Polyak and Juditsky 1992, "Acceleration of Stochastic
    Approximation by Averaging").

    The decay after n steps is min(`decay`, (1 + n) / (10 + n)): it forgets what lies more than about a ninth of the
    steps back, until that is longer than 1 / (1 - `decay`) steps. So a short training gains as a long one does. Buffers
    and what is pretrained do not move, and are left out. Weights that ranks share out are averaged where they lie.

    Args:
        model: the network, as its weights are laid out in training.
        decay: the largest one.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights: dict[str, Tensor] = {
            name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad
        }

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Take in the weights after so many steps."""
        decay = min(self.decay, (1 + step) / (10 + step))
        weights = dict(model.named_parameters())
        for name, mean in self.weights.items():
            mean.lerp_(weights[name], 1.0 - decay)

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole average, for a training state; of several ranks all call."""
        return {f"average/{name}": whole(mean).cpu().numpy() for name, mean in self.weights.items()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from `arrays`.

        Raises:
            ArtifactError: they hold no average, or that of another network.
        """
        for name, mean in self.weights.items():
            if arrays.get(f"average/{name}", np.zeros(0)).shape != tuple(mean.shape):
                raise ArtifactError(f"the training state holds no average of this network's {name}: start afresh")
        for name, mean in self.weights.items():
            mean.copy_(laid_out(torch.from_numpy(arrays[f"average/{name}"]), mean))
