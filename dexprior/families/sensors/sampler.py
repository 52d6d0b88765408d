"""What every sensor model shares: a state for each of n worlds, and readings one at a time or a whole sequence at once.

    true values (n, time, channel) -> run -> readings (n, time, channel)
    true values (n, channel)       -> step -> readings (n, channel)

`run` is `step` repeated, to the bit: recursions go sample by sample in the same order, and random numbers depend on a
world's seed and its tick alone. A world's readings therefore do not depend on how many worlds there are either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from dexprior.errors import BadInput
from dexprior.families.sensors.streams import lane, normals, uniforms

__all__ = ["Draws", "Rows", "Sampler", "decaying", "playing", "quantised"]

Rows = dict[str, np.ndarray]
"""The state of some worlds by name, each (worlds, ...); models write to it."""


class Draws:
    """Random numbers of some worlds for a stretch of ticks."""

    def __init__(self, seeds: np.ndarray, ticks: Int[np.ndarray, " n"], time: int) -> None:
        self._seeds, self._shape = seeds, (len(seeds), time)
        self._ticks = (ticks[:, None] + np.arange(time)).ravel()

    def normal(self, name: str, size: int) -> Float[np.ndarray, "n time size"]:
        """Standard normal numbers of a lane."""
        n, time = self._shape
        return normals(np.repeat(lane(self._seeds, name), time), self._ticks, size).reshape(n, time, size)

    def uniform(self, name: str, size: int) -> Float[np.ndarray, "n time size"]:
        """Numbers between 0 and 1 of a lane."""
        n, time = self._shape
        return uniforms(np.repeat(lane(self._seeds, name), time), self._ticks, size).reshape(n, time, size)


class Sampler(ABC):
    """A sensor in n worlds.

    Args:
        n: worlds.
        channels: numbers in a reading.
        dt: time between two readings [s].
        seeds: of each world; 0, 1, ... by default.

    Raises:
        BadInput: no world or channel, a time step that is not positive, or seeds of another number.
    """

    def __init__(self, n: int, channels: int, dt: float, seeds: np.ndarray | None = None) -> None:
        if n < 1 or channels < 1:
            raise BadInput(f"{type(self).__name__}: {n} worlds of {channels} channels; at least one of each is needed")
        if not (np.isfinite(dt) and dt > 0):
            raise BadInput(f"{type(self).__name__}: dt = {dt} s must be positive")
        self.n, self.channels, self.dt = n, channels, float(dt)
        self.state: dict[str, np.ndarray] = {
            "seed": np.zeros(n, dtype=np.uint64), "tick": np.zeros(n, dtype=np.int64), **self._memory(),
        }  # fmt: skip
        """All that a world's next reading depends on; the arrays stay the same objects."""
        self.reset(np.arange(n), np.arange(n) if seeds is None else seeds)

    def reset(self, ids: np.ndarray, seeds: np.ndarray) -> None:
        """Switch the sensors of some worlds on: whatever drifts starts anew, what differs by unit is drawn.

        Raises:
            BadInput: not one seed, an integer >= 0, a world.
        """
        ids, seeds = np.asarray(ids), np.asarray(seeds)
        if seeds.shape != ids.shape or seeds.dtype.kind not in "iu" or (seeds.dtype.kind == "i" and (seeds < 0).any()):
            raise BadInput(
                f"{type(self).__name__}: seeds {seeds!r} for {len(ids)} worlds; one integer from 0 on each is needed"
            )
        rows: Rows = {name: np.zeros_like(value[ids]) for name, value in self.state.items()}
        rows["seed"][:] = seeds.astype(np.uint64)
        self._begin(rows, Draws(rows["seed"], np.zeros(len(ids), dtype=np.int64), 1))
        self._write(ids, rows)

    def run(
        self, values: Float[np.ndarray, "m time channel"], ids: np.ndarray | None = None
    ) -> Float[np.ndarray, "m time channel"]:
        """Readings of a sequence, in all worlds or in some.

        Raises:
            BadInput: another shape, or a value that is not finite.
        """
        ids = np.arange(self.n) if ids is None else np.asarray(ids)
        values = np.asarray(values, dtype=np.float64)
        if values.ndim != 3 or values.shape[0] != len(ids) or values.shape[2] != self.channels:
            raise BadInput(
                f"{type(self).__name__}: values of shape {values.shape}, expected ({len(ids)}, time, {self.channels})"
            )
        if not np.isfinite(values).all():
            raise BadInput(f"{type(self).__name__}: {int((~np.isfinite(values)).sum())} true value(s) are not finite")
        if values.shape[1] == 0 or len(ids) == 0:
            return values.copy()
        rows: Rows = {name: value[ids] for name, value in self.state.items()}
        readings = self._read(values, rows, Draws(rows["seed"], rows["tick"] + 1, values.shape[1]))
        rows["tick"] = rows["tick"] + values.shape[1]
        self._write(ids, rows)
        return readings

    def step(
        self, values: Float[np.ndarray, "m channel"], ids: np.ndarray | None = None
    ) -> Float[np.ndarray, "m channel"]:
        """One reading of every world, or of some."""
        return self.run(np.asarray(values, dtype=np.float64)[:, None], ids)[:, 0]

    def snapshot(self) -> dict[str, np.ndarray]:
        """A copy of the state."""
        return {name: value.copy() for name, value in self.state.items()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Inverse of `snapshot`."""
        for name, value in self.state.items():
            value[:] = snapshot[name]

    def _memory(self) -> dict[str, np.ndarray]:
        """Zeros (n, ...) for what the model remembers."""
        return {}

    def _begin(self, rows: Rows, draws: Draws) -> None:  # noqa: B027  # most models start at zero
        """Fill in what a unit starts with."""

    @abstractmethod
    def _read(
        self, values: Float[np.ndarray, "m time channel"], rows: Rows, draws: Draws
    ) -> Float[np.ndarray, "m time channel"]:
        """Readings, and the state after them."""

    def _write(self, ids: np.ndarray, rows: Rows) -> None:
        for name, value in self.state.items():
            value[ids] = rows[name]


def decaying(
    innovations: Float[np.ndarray, "m time channel"], keep: float, last: Float[np.ndarray, "m channel"]
) -> tuple[Float[np.ndarray, "m time channel"], Float[np.ndarray, "m channel"]]:
    """y_k = keep y_(k-1) + w_k, from `last` on, and its end: a random walk for `keep` = 1."""
    from scipy.signal import lfilter

    out, _ = lfilter([1.0], [1.0, -keep], innovations, axis=1, zi=keep * last[:, None])
    return out, out[:, -1].copy()


def playing(
    values: Float[np.ndarray, "m time channel"],
    radius: float | Float[np.ndarray, " channel"],
    last: Float[np.ndarray, "m channel"],
) -> tuple[Float[np.ndarray, "m time channel"], Float[np.ndarray, "m channel"]]:
    """The play operator y_k = clip(y_(k-1), x_k - r, x_k + r) and its end (Krasnosel'skii and Pokrovskii 1989)."""
    out = np.empty_like(values)
    lower, upper = values - radius, values + radius
    for k in range(values.shape[1]):
        last = np.minimum(np.maximum(last, lower[:, k]), upper[:, k])
        out[:, k] = last
    return out, last


def quantised(values: np.ndarray, step: float | np.ndarray) -> np.ndarray:
    """Rounded to multiples of a step; as they are where the step is 0."""
    step = np.broadcast_to(np.asarray(step, dtype=np.float64), values.shape[-1:])
    safe = np.where(step > 0, step, 1.0)
    return np.where(step > 0, np.round(values / safe) * safe, values)
