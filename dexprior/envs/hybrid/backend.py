"""Simulated worlds with a learned collision model in place of MuJoCo's answer to the object's impacts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.collision import Surrogate
from dexprior.collision.hybrid import HybridConfig, Side, warn_untouched
from dexprior.envs.hybrid.engine import HybridEngine
from dexprior.envs.sim import SimBackend
from dexprior.errors import BadInput
from dexprior.types import CollisionModel
from dexprior.worlds.engine import Engine
from dexprior.worlds.tasks import Task

__all__ = ["HybridBackend"]


class HybridBackend(SimBackend):
    """n simulated worlds stepped by a `HybridEngine`; see `dexprior.envs.base.Backend`.

    Args:
        task: what is done.
        n: worlds.
        collision_model: answers the impacts; see `HybridBackend.load` for one on disk.
        phi: its parameters: for all pairs, one row a pair, or one row a pair in each world.
        pairs: bodies or geoms whose impacts are the collision model's; the task's `struck` by default.
        config: when the collision model is asked; readings show an impact for one control period unless it says
            otherwise.
        sample, seed: whether to draw its answers, as for `HybridBatch`.
        options: of `SimBackend`.

    Raises:
        BadInput: no pair is named, here or by the task.
    """

    def __init__(
        self,
        task: Task,
        n: int,
        collision_model: CollisionModel,
        phi: Float[np.ndarray, "*world_pair parameter"],
        *,
        pairs: Sequence[tuple[Side, Side]] | None = None,
        config: HybridConfig | None = None,
        sample: bool = False,
        seed: int = 0,
        **options: Any,
    ) -> None:
        watched: Sequence[tuple[Side, Side]] = task.struck if pairs is None else pairs
        if not watched:
            raise BadInput(f"task {task.name!r} names no pair that a collision model may answer: give pairs")

        config = (config or HybridConfig()).read_every(task.control_dt)

        def around(batch: Engine) -> Engine:
            return HybridEngine(batch, watched, collision_model, phi, config, sample=sample, seed=seed)

        super().__init__(task, n, around=around, **options)
        self._asked = tuple(pairs or ())

    def close(self) -> None:
        """Warn of pairs that were asked for and never touched."""
        if any(data.time > 0 for data in self.engine.hybrid.data):
            warn_untouched(self._asked, self.engine.hybrid.touched)
        super().close()

    @classmethod
    def load(
        cls,
        task: Task,
        n: int,
        checkpoint: str | Path,
        *,
        phi: Float[np.ndarray, " parameter"] | None = None,
        **options: Any,
    ) -> HybridBackend:
        """The backend with a collision model from disk (`dexprior.collision/1`).

        Args:
            task, n, options: as for the class.
            checkpoint: its file.
            phi: contact parameters; by default those that the file was identified with.

        Raises:
            ArtifactError: the file is missing, damaged or of another kind.
            BadInput: neither the file nor the caller gives `phi`.
        """
        surrogate = Surrogate.load(checkpoint)
        chosen = surrogate.phi if phi is None else phi
        if chosen is None:
            names = ", ".join(surrogate.parameters)
            raise BadInput(f"{checkpoint} holds no identified contact parameters: give phi ({names})")
        return cls(task, n, surrogate, chosen, **options)

    @property
    def engine(self) -> HybridEngine:
        """What steps the worlds."""
        engine = self.worlds.engine
        assert isinstance(engine, HybridEngine)  # as it was made
        return engine

    @property
    def counts(self) -> dict[str, int]:
        """What the collision model did since this backend was made; see `HybridStepper.counts`."""
        return self.engine.counts
