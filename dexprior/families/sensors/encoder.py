"""Joint encoders: play between joint and encoder, a zero that is off, noise, and steps.

    y_k = quantise(F[q]_k + bias + noise_k)                F: play operator of width `backlash`

The zero's error acts twice: readings are off by `bias`, and a servo that brings the reading to its command brings the
joint to `commanded(u) = u - bias`. Play operator: Krasnosel'skii and Pokrovskii 1989.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from jaxtyping import Float

from dexprior.config import Ge, config
from dexprior.families.sensors.sampler import Draws, Rows, Sampler, playing, quantised

__all__ = ["Encoder", "EncoderConfig"]


@config
class EncoderConfig:
    """One kind of encoder; defaults of a hobby servo's (4096 steps a turn), bias and noise assumed."""

    step: Annotated[float, Ge(0)] = 2.0 * np.pi / 4096
    """Smallest change of angle that is read [rad]; 0 for none."""
    bias: Annotated[float, Ge(0)] = 0.0
    """Standard deviation of the zero's error, drawn for each joint when it is switched on [rad]."""
    backlash: Annotated[float, Ge(0)] = 0.0
    """Width of the dead band between joint and encoder [rad]."""
    noise: Annotated[float, Ge(0)] = 0.0
    """Standard deviation of a reading before it is rounded [rad]."""


class Encoder(Sampler):
    """Encoders in n worlds.

    Args:
        config: of each encoder.
        n: worlds.
        joints: in each world.
        dt: time between two readings [s].
        seeds: of each world.
    """

    def __init__(self, config: EncoderConfig, n: int, joints: int, dt: float, seeds: np.ndarray | None = None) -> None:
        self.config = config
        super().__init__(n, joints, dt, seeds)

    @property
    def bias(self) -> Float[np.ndarray, "n joint"]:
        """Errors of the zeros [rad]."""
        return self.state["bias"]

    def commanded(
        self, command: Float[np.ndarray, "m joint"], ids: np.ndarray | None = None
    ) -> Float[np.ndarray, "m joint"]:
        """Joint angles that servos bring about which trust these encoders [rad]."""
        return command - (self.bias if ids is None else self.bias[ids])

    def engage(self, ids: np.ndarray, joints: Float[np.ndarray, "m joint"]) -> None:
        """Put the dead bands around joint angles, as after long rest in mid-band [rad]."""
        self.state["play"][ids] = joints

    def _memory(self) -> dict[str, np.ndarray]:
        shape = (self.n, self.channels)
        return {"bias": np.zeros(shape), "play": np.zeros(shape)}

    def _begin(self, rows: Rows, draws: Draws) -> None:
        rows["bias"] = self.config.bias * draws.normal("encoder/bias", self.channels)[:, 0]

    def _read(
        self, values: Float[np.ndarray, "m time channel"], rows: Rows, draws: Draws
    ) -> Float[np.ndarray, "m time channel"]:
        c = self.config
        seen, rows["play"] = playing(values, c.backlash / 2, rows["play"])
        seen = seen + rows["bias"][:, None]
        if c.noise > 0:
            seen = seen + c.noise * draws.normal("encoder/noise", self.channels)
        return quantised(seen, c.step)
