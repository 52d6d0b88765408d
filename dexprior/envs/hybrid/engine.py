"""Worlds whose impacts a collision model answers, behind the methods of `mujoco.batch.Batch`.

The batch stays as memory: states and each world's own fields of the model lie in its arrays, so that whatever writes to
a `View` writes here too. A call brings them into an `MjData` of each world, steps that by `HybridBatch`, and takes back
the state and those outputs that somebody reads. Which pairs are in an impact at the moment, and what sensors are still
to show of it, is no part of the state: a snapshot that is taken during one goes on with MuJoCo's answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import mujoco
import mujoco.batch
import numpy as np
from jaxtyping import Float

from dexprior.collision.hybrid import HybridBatch, HybridConfig, Side
from dexprior.errors import BadInput
from dexprior.types import CollisionModel
from dexprior.worlds.engine import STATE, Engine

__all__ = ["HybridEngine"]

_WHOLE = mujoco.mjtState.mjSTATE_INTEGRATION.value


class HybridEngine:
    """A batch with a collision model inside; see `dexprior.worlds.engine.Engine`.

    Args:
        batch: of the worlds; what is not defined here is its own.
        pairs, collision_model, phi, config, sample, seed: as for `HybridBatch`.

    Raises:
        BadInput: the worlds are stepped by something else than MuJoCo.
        UnknownName, BadInput: as `HybridStepper`.
    """

    def __init__(
        self,
        batch: Engine,
        pairs: Sequence[tuple[Side, Side]],
        collision_model: CollisionModel,
        phi: Float[np.ndarray, "*world_pair parameter"],
        config: HybridConfig | None = None,
        *,
        sample: bool = False,
        seed: int = 0,
    ) -> None:
        if not isinstance(batch, mujoco.batch.Batch):
            raise BadInput(f"learned collisions need worlds that MuJoCo steps; {type(batch).__name__} steps these")
        n = batch.nsim
        models = [batch.get_model(i) for i in range(n)]
        self._batch = batch
        self.hybrid = HybridBatch(
            models, n, pairs, collision_model, phi, config, threads=batch.nthread, sample=sample, seed=seed
        )
        self._rows: dict[str, np.ndarray] = {}
        self._known: dict[str, np.ndarray] = {}
        self._outputs: dict[str, np.ndarray] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    @property
    def counts(self) -> dict[str, int]:
        """What the collision model did since this engine was made; see `HybridStepper.counts`."""
        return self.hybrid.counts

    def bind(self, name: str) -> np.ndarray:
        """As the batch's."""
        if name in STATE:
            return self._batch.bind(name)
        if name not in self._outputs:
            shape = np.shape(getattr(self.hybrid.data[0], name))
            self._outputs[name] = np.zeros((self._batch.nsim, *shape))
            self._take(range(self._batch.nsim), (name,))
        return self._outputs[name]

    def expand(self, name: str) -> np.ndarray:
        """As the batch's."""
        if name not in self._rows:
            self._rows[name] = self._batch.expand(name)
            self._known[name] = self._rows[name].copy()
        return self._rows[name]

    def reset(self, ids: np.ndarray | None = None, **options: Any) -> None:
        """As the batch's, of the state alone; outputs are those of the next call."""
        self._batch.reset(ids, **options)

    def forward(self, ids: np.ndarray | None = None, **options: Any) -> None:
        """As the batch's; what touches now is no impact yet."""
        chosen = self._chosen(ids)
        self._bring(chosen)
        for i in chosen:
            stepper = self.hybrid.steppers[i]
            mujoco.mj_forward(stepper.model, stepper.data)
        self.hybrid.reset(chosen)
        self._take(chosen, self._outputs)

    def step(self, ids: np.ndarray | None = None, *, nstep: int = 1) -> None:
        """Advance by simulation steps, each impact of the watched pairs answered by the model."""
        chosen = self._chosen(ids)
        self._bring(chosen)
        self.hybrid.step(nstep, chosen)
        for i in chosen:
            stepper = self.hybrid.steppers[i]
            mujoco.mj_getState(stepper.model, stepper.data, self._batch.state[i], _WHOLE)
        self._take(chosen, self._outputs)

    def _chosen(self, ids: np.ndarray | None) -> list[int]:
        return list(range(self._batch.nsim)) if ids is None else [int(i) for i in ids]

    def _bring(self, ids: Iterable[int]) -> None:
        """Models and states into the worlds' own."""
        changed = {
            int(i)
            for name, rows in self._rows.items()
            for i in np.flatnonzero((rows != self._known[name]).reshape(len(rows), -1).any(axis=1))
        }
        for i in changed:
            self.hybrid.replace(i, self._batch.get_model(i))
            for name, rows in self._rows.items():
                self._known[name][i] = rows[i]
        for i in ids:
            stepper = self.hybrid.steppers[i]
            mujoco.mj_setState(stepper.model, stepper.data, self._batch.state[i], _WHOLE)

    def _take(self, ids: Iterable[int], names: Iterable[str]) -> None:
        for name in names:
            for i in ids:
                self._outputs[name][i] = getattr(self.hybrid.steppers[i].data, name)
