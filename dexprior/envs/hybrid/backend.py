"""The simulated world with a learned collision model in place of MuJoCo's answer to the nut's impacts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float

from dexprior.collision import Surrogate
from dexprior.collision.hybrid import HybridConfig, HybridStep, Side
from dexprior.envs.line import SimBackend
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.types import CollisionModel
from dexprior.worlds.insertion import TRAINING_FAMILY, InsertionConfig

__all__ = ["NUT_PAIRS", "HybridBackend"]

NUT_PAIRS: tuple[tuple[Side, Side], ...] = (("nut", "table"), ("nut", "bolt"))
"""The nut with the table and with the bolt, each as one contact patch of all of the nut's geoms."""


class HybridBackend(SimBackend):
    """One simulated world (n = 1) stepped by `HybridStepper`; see `dexprior.envs.line.base.Backend`.

    Args:
        collision_model: answers the impacts; see `HybridBackend.load` for one on disk.
        phi: its parameters: for all pairs, or one row a pair.
        family: of what remains MuJoCo's: pushing, resting, gripping.
        pairs: bodies or geoms whose impacts are the collision model's.
        world: sizes of nut and bolt.
        cone: friction cone of MuJoCo's solver.
        config: when the collision model is asked.
        sample, seed: whether to draw its answers, as for `HybridStepper`.
    """

    def __init__(
        self,
        collision_model: CollisionModel,
        phi: Float[np.ndarray, "*pair parameter"],
        *,
        family: ParameterFamily = TRAINING_FAMILY,
        pairs: Sequence[tuple[Side, Side]] = NUT_PAIRS,
        world: InsertionConfig | None = None,
        cone: Literal["pyramidal", "elliptic"] = "pyramidal",
        config: HybridConfig | None = None,
        sample: bool = False,
        seed: int = 0,
    ) -> None:
        self.hybrid = HybridStep(pairs, collision_model, phi, config, sample=sample, seed=seed)
        super().__init__(1, family=family, world=world, cone=cone, stepper=self.hybrid)
        self.hybrid.bind(self.worlds.model, self.worlds.data)  # so that a wrong pair or phi is found now

    @classmethod
    def load(
        cls,
        checkpoint: str | Path,
        *,
        phi: Float[np.ndarray, "*pair parameter"] | None = None,
        family: ParameterFamily = TRAINING_FAMILY,
        pairs: Sequence[tuple[Side, Side]] = NUT_PAIRS,
        world: InsertionConfig | None = None,
        cone: Literal["pyramidal", "elliptic"] = "pyramidal",
        config: HybridConfig | None = None,
    ) -> HybridBackend:
        """With a collision model from disk (`dexprior.collision/1`).

        Args:
            checkpoint: its file.
            phi: contact parameters; by default those that the file was identified with.
            family, pairs, world, cone, config: as for the class.

        Raises:
            ArtifactError: the file is missing, damaged or of another kind.
            BadInput: neither the file nor the caller gives `phi`.
        """
        surrogate = Surrogate.load(checkpoint)
        chosen = surrogate.phi if phi is None else phi
        if chosen is None:
            names = ", ".join(surrogate.parameters)
            raise BadInput(f"{checkpoint} holds no identified contact parameters: give phi ({names})")
        return cls(surrogate, chosen, family=family, pairs=pairs, world=world, cone=cone, config=config)

    @property
    def counts(self) -> dict[str, int]:
        """What the stepper did since this backend was made; see `HybridStepper.counts`."""
        return self.hybrid.counts
