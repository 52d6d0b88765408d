"""Many worlds with a collision model inside, stepped together.

`mujoco.batch` steps whole steps only and keeps contacts to itself, so that an impact can neither be put between the two
halves of a step nor be excluded from MuJoCo's constraints. Worlds therefore have an `MjData` each, stepped in halves on
a thread pool (MuJoCo lets go of Python's lock meanwhile), and the impacts of all of them go to the model at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import mujoco
import numpy as np
from jaxtyping import Float

from dexprior.collision.hybrid.event import COUNTS, Event, HybridConfig, settle
from dexprior.collision.hybrid.pairs import Side
from dexprior.collision.hybrid.stepper import HybridStepper, pair_phi
from dexprior.errors import BadInput
from dexprior.types.collision import CollisionModel

__all__ = ["HybridBatch"]

T = TypeVar("T")


class HybridBatch:
    """n worlds; each goes exactly as with a `HybridStepper` of its own, up to the rounding of a batched product.

    Args:
        models: one model for all worlds, or one a world.
        n: how many worlds.
        pairs, collision_model, config, sample: as for `HybridStepper`; pairs are looked up in each model.
        phi: (parameter,), (pair, parameter) or (world, pair, parameter).
        threads: of the pool; 0 takes all cores. Results do not depend on it. More than one pays only where half a step
            takes MuJoCo longer than Python's bookkeeping (some 10 us).
        seed: world i draws with (seed, i).

    Raises:
        UnknownName, BadInput: as `HybridStepper`; or numbers of models and worlds that differ.
    """

    def __init__(
        self,
        models: mujoco.MjModel | Sequence[mujoco.MjModel],
        n: int,
        pairs: Sequence[tuple[Side, Side]],
        collision_model: CollisionModel,
        phi: Float[np.ndarray, "*world_pair parameter"],
        config: HybridConfig | None = None,
        *,
        threads: int = 1,
        sample: bool = False,
        seed: int = 0,
    ) -> None:
        worlds = [models] * n if isinstance(models, mujoco.MjModel) else list(models)
        if n < 1 or len(worlds) != n:
            raise BadInput(f"HybridBatch: {len(worlds)} models for n = {n} worlds")
        phi = np.asarray(phi, dtype=np.float64)
        if phi.ndim == 3 and len(phi) != n:
            raise BadInput(f"HybridBatch: phi has shape {phi.shape}, but there are {n} worlds")
        rows = phi if phi.ndim == 3 else [pair_phi(phi, len(pairs), collision_model)] * n
        self.collision_model = collision_model
        self._made: Callable[[mujoco.MjModel, int], HybridStepper] = lambda model, i: HybridStepper(
            model, mujoco.MjData(model), pairs, collision_model, rows[i], config, sample=sample, seed=[seed, i]
        )
        self.steppers = [self._made(model, i) for i, model in enumerate(worlds)]
        self._threads = min(threads or os.cpu_count() or 1, n)
        self._pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None

    @property
    def data(self) -> tuple[mujoco.MjData, ...]:
        """State of each world; write to it between steps."""
        return tuple(stepper.data for stepper in self.steppers)

    def replace(self, world: int, model: mujoco.MjModel) -> None:
        """Give one world another model of the same scene; its state begins at the model's default, counts go on."""
        counts, touched = self.steppers[world].counts, self.steppers[world].touched
        self.steppers[world] = self._made(model, world)
        self.steppers[world].counts, self.steppers[world].touched = counts, touched

    @property
    def n(self) -> int:
        """Number of worlds."""
        return len(self.steppers)

    @property
    def counts(self) -> dict[str, int]:
        """As `HybridStepper.counts`, over all worlds."""
        return {name: sum(stepper.counts[name] for stepper in self.steppers) for name in COUNTS}

    @property
    def touched(self) -> set[int]:
        """As `HybridStepper.touched`, over all worlds."""
        return set().union(*(stepper.touched for stepper in self.steppers))

    @property
    def qpos(self) -> Float[np.ndarray, "n nq"]:
        """A copy of the positions."""
        return np.stack([data.qpos for data in self.data])

    @property
    def qvel(self) -> Float[np.ndarray, "n nv"]:
        """A copy of the velocities."""
        return np.stack([data.qvel for data in self.data])

    def step(self, nstep: int = 1, worlds: Sequence[int] | np.ndarray | None = None) -> None:
        """Advance some worlds (all by default) by time steps.

        Worlds wait for one another only where the model must answer an impact.
        """
        remaining = np.zeros(self.n, dtype=int)
        remaining[slice(None) if worlds is None else np.asarray(worlds)] = nstep
        while True:
            events = self._each(lambda i: self._run_to_event(i, remaining), np.flatnonzero(remaining).tolist())
            struck = [(i, event) for i, event in events if event is not None]
            if not struck:
                return
            settle([event for _, event in struck], self.collision_model)
            for i, event in struck:
                self.steppers[i].finish(event)
                remaining[i] -= 1

    def reset(self, worlds: Sequence[int] | None = None) -> None:
        """Forget what touches in some worlds (all by default), after their states were set from outside."""
        for i in range(self.n) if worlds is None else worlds:
            self.steppers[i].reset()

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def _run_to_event(self, world: int, remaining: np.ndarray) -> tuple[int, Event | None]:
        stepper = self.steppers[world]
        while remaining[world]:
            if (event := stepper.begin()) is not None:
                return world, event
            stepper.finish(None)
            remaining[world] -= 1
        return world, None

    def _each(self, work: Callable[[int], T], worlds: list[int]) -> list[T]:
        if self._pool is None or len(worlds) < 2 * self._threads:
            return [work(i) for i in worlds]
        parts = np.array_split(worlds, self._threads)
        return [result for part in self._pool.map(lambda part: [work(int(i)) for i in part], parts) for result in part]
