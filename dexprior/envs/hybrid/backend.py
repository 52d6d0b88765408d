"""The simulated world with a learned collision model in place of MuJoCo's answer to the nut's impacts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float

from dexprior.collision import HybridConfig, HybridStepper, Surrogate
from dexprior.envs.sim import SimBackend
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.types import CollisionModel
from dexprior.worlds.insertion import TRAINING_FAMILY, InsertionConfig

if TYPE_CHECKING:
    import mujoco

__all__ = ["HybridBackend", "nut_pairs"]


def nut_pairs(model: mujoco.MjModel) -> tuple[tuple[str, str], ...]:
    """Each geom of the nut with the table, and each with the bolt."""
    names = [model.geom(k).name for k in range(model.ngeom)]
    nut = [name for name in names if name.startswith("nut") and name[3:].isdigit()]
    return tuple((name, other) for other in ("table", "bolt") for name in nut)


class HybridBackend(SimBackend):
    """One simulated world (n = 1) stepped by `HybridStepper`; see `dexprior.envs.base.Backend`.

    Args:
        collision_model: answers the impacts; see `HybridBackend.load` for one on disk.
        phi: its parameters: for all pairs, or one row a pair.
        family: of what remains MuJoCo's: pushing, resting, gripping.
        pairs: geoms whose impacts are the collision model's; by default `nut_pairs`.
        world: sizes of nut and bolt.
        cone: friction cone of MuJoCo's solver.
        config: when the collision model is asked.
    """

    def __init__(
        self,
        collision_model: CollisionModel,
        phi: Float[np.ndarray, "*pair parameter"],
        *,
        family: ParameterFamily = TRAINING_FAMILY,
        pairs: Sequence[tuple[str, str]] | None = None,
        world: InsertionConfig | None = None,
        cone: Literal["pyramidal", "elliptic"] = "pyramidal",
        config: HybridConfig | None = None,
    ) -> None:
        self._collision_model, self._phi, self._config = collision_model, phi, config
        self._bound: HybridStepper | None = None
        self._before: Counter[str] = Counter()
        super().__init__(1, family=family, world=world, cone=cone, stepper=self._step_world)
        self.pairs = tuple(nut_pairs(self.worlds.model) if pairs is None else pairs)
        self._bind(self.worlds.model, self.worlds.data)  # so that a wrong pair or phi is found now

    @classmethod
    def load(
        cls,
        checkpoint: str | Path,
        *,
        phi: Float[np.ndarray, "*pair parameter"] | None = None,
        family: ParameterFamily = TRAINING_FAMILY,
        pairs: Sequence[tuple[str, str]] | None = None,
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
        assert self._bound is not None  # bound in __init__
        return {name: self._before[name] + value for name, value in self._bound.counts.items()}

    def _step_world(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Steps the state that it is given: each reset makes a new one, which is then bound to."""
        if self._bound is None or self._bound.data is not data:
            self._bind(model, data)
        assert self._bound is not None
        self._bound.step()

    def _bind(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        if self._bound is not None:
            self._before.update(self._bound.counts)
        self._bound = HybridStepper(model, data, self.pairs, self._collision_model, self._phi, self._config)
