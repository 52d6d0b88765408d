"""Tactile elements that read a normal force: a soft cover's hysteresis, noise, a threshold, contacts that fail.

    h_k = (1 - p) x_k + p F[x]_k                           play operator F of radius r
    y_k = 0 where the element is out, else quantise(clip(h_k + s(h_k) n_k, 0, limit)), 0 below the threshold
    s(h) = sqrt(floor^2 + (share h)^2)                     noise grows with the load
    out: a two-state Markov chain, P(fails) = dt / time_up, P(comes back) = dt / time_out

Play operator: Krasnosel'skii and Pokrovskii 1989. The chain is Gilbert's (1960, "Capacity of a burst-noise channel").
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from jaxtyping import Float

from dexprior.config import Ge, Gt, Lt, config
from dexprior.errors import BadInput
from dexprior.families.sensors.sampler import Draws, Rows, Sampler, playing, quantised

__all__ = ["Tactile", "TactileConfig"]


@config
class TactileConfig:
    """One kind of element; all numbers are assumed, of a resistive or barometric fingertip."""

    floor: Annotated[float, Ge(0)] = 0.01
    """Standard deviation without a load [N]."""
    share: Annotated[float, Ge(0)] = 0.03
    """Standard deviation under a load, as a share of it."""
    hysteresis: Annotated[float, Ge(0), Lt(1)] = 0.2
    """p: share of the load that lags."""
    radius: Annotated[float, Ge(0)] = 0.1
    """r: by how much it lags [N]."""
    threshold: Annotated[float, Ge(0)] = 0.03
    """Below it an element reads 0 [N]."""
    limit: Annotated[float, Gt(0)] = 40.0
    """Largest reading [N]."""
    step: Annotated[float, Ge(0)] = 0.0
    """Smallest change that is read [N]; 0 for none."""
    time_up: Annotated[float, Ge(0)] = 0.0
    """Mean time until an element fails [s]; 0: it never does."""
    time_out: Annotated[float, Gt(0)] = 0.2
    """Mean time until it comes back [s]."""


class Tactile(Sampler):
    """Elements in n worlds; readings are never negative.

    Args:
        config: of each element.
        n: worlds.
        elements: in each world.
        dt: time between two readings [s].
        seeds: of each world.

    Raises:
        BadInput: a mean time that is shorter than `dt`.
    """

    def __init__(
        self, config: TactileConfig, n: int, elements: int, dt: float, seeds: np.ndarray | None = None
    ) -> None:
        if 0 < config.time_up < dt or config.time_out < dt:
            raise BadInput(f"Tactile: time_up {config.time_up} s, time_out {config.time_out} s: not below dt = {dt} s")
        self.config = config
        super().__init__(n, elements, dt, seeds)

    def _memory(self) -> dict[str, np.ndarray]:
        return {"play": np.zeros((self.n, self.channels)), "out": np.zeros((self.n, self.channels), dtype=bool)}

    def _read(
        self, values: Float[np.ndarray, "m time channel"], rows: Rows, draws: Draws
    ) -> Float[np.ndarray, "m time channel"]:
        c = self.config
        played, rows["play"] = playing(values, c.radius, rows["play"])
        felt = (1.0 - c.hysteresis) * values + c.hysteresis * played
        spread = np.sqrt(c.floor**2 + (c.share * felt) ** 2)
        read = np.clip(felt + spread * draws.normal("tactile/noise", self.channels), 0.0, c.limit)
        read = quantised(np.where(read < c.threshold, 0.0, read), c.step)
        if c.time_up > 0:
            u = draws.uniform("tactile/out", self.channels)
            out, fails, returns = rows["out"], self.dt / c.time_up, self.dt / c.time_out
            for k in range(values.shape[1]):
                out = np.where(out, u[:, k] >= returns, u[:, k] < fails)
                read[:, k][out] = 0.0
            rows["out"] = out
        return read
