"""The published reference on strikes (CLASH, arXiv 2602.18707): its network at the impact, the planar slide after it.

Four contact parameters are identified through the frozen network: friction and damping ratio between object and rod and
between object and table. The network answers in the object's body frame and knows neither a normal nor a Delassus
operator, so that one is trained per shape.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dexprior.collision.clash import ClashConfig, ClashModel, StateFeatures, train_clash
from dexprior.collision.planar.rollout import SlidingStriker
from dexprior.collision.planar.strikes import StrikeImpacts
from dexprior.collision.shapes.strikes import STRIKE_PARAMETERS, StrikeSampling, strike_features, strike_state
from dexprior.worlds.pushing import PushingConfig, Strikes

__all__ = ["ReferenceStriker", "fit_reference", "train_reference"]


@dataclass(frozen=True, kw_only=True)
class ReferenceStriker(SlidingStriker):
    """The reference's network answers the impact; the friction below is that of the slide, the network has its own."""

    model: ClashModel
    """Network of this shape, with its identified parameters."""

    def velocity_after(self, pose: Float[np.ndarray, "strike 3"], strikes: Strikes) -> Float[np.ndarray, "strike 3"]:
        """Object's [vx vy omega] right after it left the rod."""
        along, across, spin = self.model.predict(strike_state(strikes)).T
        c, s = np.cos(pose[:, 2]), np.sin(pose[:, 2])
        return np.column_stack([c * along - s * across, s * along + c * across, spin / self.config.footprint.gyration])


def train_reference(
    config: ClashConfig, sampling: StrikeSampling, world: PushingConfig, simulated: StateFeatures, *, seed: int
) -> ClashModel:
    """Pre-train the network of one shape on what `simulate_strike_pairs` made with the same `sampling` and `world`."""
    bounds = {name: (float(low), float(high)) for name, (low, high) in zip(STRIKE_PARAMETERS, sampling.bounds(world))}
    return train_clash(config, simulated, seed=seed, bounds=bounds)


def fit_reference(pretrained: ClashModel, impacts: StrikeImpacts) -> ClashModel:
    """The pre-trained network with its four parameters identified and its weights fine-tuned on measured strikes."""
    measured = strike_features(impacts.config, impacts.strikes, impacts)
    model = pretrained.clone()
    model.identify(measured)
    model.finetune(measured)
    return model
