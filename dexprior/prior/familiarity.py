"""Whether a cloud is like those that a prior was trained on.

The distance is Mahalanobis' among the condition encoder's cloud tokens (Lee et al. 2018, "A Simple Unified Framework
for Detecting Out-of-Distribution Samples"), with a floor under the variances; a training cloud's own is measured with
that cloud left out. The prior's limit is the 99th percentile of those.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dexprior.artifacts import read_tensors, write_tensors
from dexprior.errors import ArtifactError
from dexprior.prior.conditioning import ConditionEncoder

__all__ = ["Familiarity"]

_FILE = "familiarity.safetensors"
_FLOOR = 1e-5  # of the largest variance: below it a direction tells rounding and sampling of points, not objects
_ALIKE = 1e-4  # of the mean's square, that the largest variance counts as at least: clouds may all be one
_SHARE = 0.99  # of the training clouds that count as familiar


@dataclass(frozen=True)
class Familiarity:
    """What a prior remembers of its training clouds."""

    mean: Float[np.ndarray, " width"]
    """Mean of their tokens."""
    whitening: Float[np.ndarray, "width k"]
    """Turns a difference of tokens into one of unit variances."""
    limit: float
    """The 99th percentile of their distances, at least one."""

    @classmethod
    def fit(cls, encoder: ConditionEncoder, condition: dict[str, Tensor]) -> Familiarity:
        """Remember the clouds of stacked conditions; draws no random numbers."""
        tokens = _tokens(encoder, condition)
        n, mean = len(tokens), tokens.mean(axis=0)
        _, singular, axes = np.linalg.svd(tokens - mean, full_matrices=False)
        variance = singular**2 / n
        largest = max(float(variance.max()), _ALIKE * float(mean @ mean), np.finfo(float).tiny)
        whitening = axes.T / np.sqrt(variance + _FLOOR * largest)
        squared = np.square((tokens - mean) @ whitening).sum(axis=1)
        # leaving one of n out moves the mean away from it and takes its share out of the variance
        left_out = np.sqrt(squared / np.maximum(1.0 - squared / max(n - 1, 1), 1e-3)) * n / max(n - 1, 1)
        return cls(mean, whitening, max(float(np.quantile(left_out, _SHARE)), 1.0))

    def distance(self, encoder: ConditionEncoder, condition: dict[str, Tensor]) -> Float[np.ndarray, " n"]:
        """Distance of each cloud, in units of the limit: above one it is less familiar than 99 of 100 training
        clouds."""
        apart = np.linalg.norm((_tokens(encoder, condition) - self.mean) @ self.whitening, axis=1)
        return apart / self.limit

    def save(self, folder: Path) -> Path:
        """Write it into a checkpoint's folder."""
        return write_tensors(
            folder / _FILE, {"mean": self.mean, "whitening": self.whitening}, {"limit": self.limit, "share": _SHARE}
        )

    @classmethod
    def load(cls, folder: Path) -> Familiarity | None:
        """What `save` wrote; None in checkpoints that are older than it.

        Raises:
            ArtifactError: the file is damaged.
        """
        if not (folder / _FILE).is_file():
            return None
        tensors, meta = read_tensors(folder / _FILE)
        try:
            return cls(tensors["mean"], tensors["whitening"], float(meta["limit"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"{folder / _FILE} is damaged: {' '.join(str(error).split())}") from None


@torch.no_grad()
def _tokens(encoder: ConditionEncoder, condition: dict[str, Tensor]) -> Float[np.ndarray, "n width"]:
    device = encoder.cloud.weight.device
    clouds = {name: condition[name].to(device) for name in ("cloud", "moves")}
    return encoder.cloud_token(clouds).double().cpu().numpy()
