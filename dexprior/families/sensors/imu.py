"""An inertial sensor: turn-on bias, white noise, bias instability, rate random walk, range and step.

    y_k = quantise(clip(x_k + turn_on + white_k + flicker_k + walk_k, range))

White noise N gives a reading N / sqrt(dt); rate random walk K grows as K sqrt(t); both as IEEE 952-2020 defines them.

Bias instability B has the one-sided spectrum B^2 / (pi f), and an Allan deviation of sqrt(2 ln 2 / pi) B whatever the
averaging time. No finite filter has it. Here it is the sum of first-order Gauss-Markov processes whose correlation
times lie a factor of 4 apart, from dt to `longest` or above, each of variance B^2 ln(4) / pi: summed over the logarithm
of the correlation time, their spectra 4 s^2 T / (1 + (2 pi f T)^2) give 1/f (van der Ziel 1950, "On the noise spectra
of semi-conductor noise and of flicker effect"). The Allan deviation stays within 5 % of the flat line from dt to
`longest`, measured over 120 channels of 1000 s; further out it falls.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from jaxtyping import Float

from dexprior.config import Ge, Gt, config
from dexprior.families.sensors.sampler import Draws, Rows, Sampler, decaying, quantised

__all__ = ["Imu", "ImuConfig", "InertialConfig", "correlation_times"]

_RATIO = 4.0  # of neighbouring correlation times; at 4 the ripple of the spectrum is below 2 %


@config
class InertialConfig:
    """Three like axes, of a gyroscope [rad/s] or an accelerometer [m/s^2]; `u` stands for that unit."""

    white: Annotated[float, Ge(0)] = 0.0
    """N: angle or velocity random walk [u/sqrt(Hz)]."""
    instability: Annotated[float, Ge(0)] = 0.0
    """B: bias instability [u]; the flat of the Allan deviation is 0.664 of it."""
    walk: Annotated[float, Ge(0)] = 0.0
    """K: rate random walk [u/sqrt(s)]."""
    turn_on: Annotated[float, Ge(0)] = 0.0
    """Standard deviation of the bias that is drawn when it is switched on [u]."""
    longest: Annotated[float, Gt(0)] = 1000.0
    """Longest correlation time of the bias instability [s]."""
    limit: Annotated[float, Gt(0)] = 1e9
    """Range, to both sides [u]."""
    step: Annotated[float, Ge(0)] = 0.0
    """Smallest change that is read [u]; 0 for none."""


@config
class ImuConfig:
    """Six axes; defaults are of the order that sheets of consumer MEMS sensors give, and assumed."""

    gyroscope: InertialConfig = InertialConfig(
        white=9e-5, instability=2e-5, walk=1e-6, turn_on=0.01, limit=34.9, step=1.07e-3
    )
    """Angular velocities."""
    accelerometer: InertialConfig = InertialConfig(
        white=1.2e-3, instability=2e-4, walk=1e-5, turn_on=0.2, limit=156.9, step=4.79e-3
    )
    """Specific forces."""


class Imu(Sampler):
    """Channels gx gy gz ax ay az [rad/s, m/s^2] in n worlds.

    Args:
        config: of the sensor.
        n: worlds.
        dt: time between two readings [s].
        seeds: of each world.
    """

    def __init__(self, config: ImuConfig, n: int, dt: float, seeds: np.ndarray | None = None) -> None:
        self.config = config
        super().__init__(n, 6, dt, seeds)

    def _memory(self) -> dict[str, np.ndarray]:
        config = self.config
        self._times = tuple(correlation_times(c.longest, self.dt) for c in (config.gyroscope, config.accelerometer))
        most = max(len(times) for times in self._times)
        return {
            "turn_on": np.zeros((self.n, 6)), "walk": np.zeros((self.n, 6)), "flicker": np.zeros((self.n, most, 6)),
        }  # fmt: skip

    def _begin(self, rows: Rows, draws: Draws) -> None:
        rows["turn_on"] = self._each("turn_on") * draws.normal("imu/turn_on", 6)[:, 0]
        for j in range(rows["flicker"].shape[1]):
            rows["flicker"][:, j] = self._spread() * draws.normal(f"imu/flicker{j}", 6)[:, 0]

    def _read(
        self, values: Float[np.ndarray, "m time channel"], rows: Rows, draws: Draws
    ) -> Float[np.ndarray, "m time channel"]:
        read = values + rows["turn_on"][:, None]
        read = read + self._each("white") / np.sqrt(self.dt) * draws.normal("imu/white", 6)
        steps = self._each("walk") * np.sqrt(self.dt) * draws.normal("imu/walk", 6)
        walk, rows["walk"] = decaying(steps, 1.0, rows["walk"])
        read = read + walk
        flicker = rows["flicker"].copy()
        for half, times in enumerate(self._times):
            axes = slice(3 * half, 3 * half + 3)
            if not self._spread()[axes].any():
                continue
            for j, time in enumerate(times):
                keep = float(np.exp(-self.dt / time))
                drawn = draws.normal(f"imu/flicker{j}", 6)[..., axes]
                wander, flicker[:, j, axes] = decaying(
                    self._spread()[axes] * np.sqrt(1.0 - keep**2) * drawn, keep, flicker[:, j, axes]
                )
                read[..., axes] += wander
        rows["flicker"] = flicker
        limit = self._each("limit")
        return quantised(np.clip(read, -limit, limit), self._each("step"))

    def _each(self, name: str) -> Float[np.ndarray, " channel"]:
        return np.repeat([getattr(self.config.gyroscope, name), getattr(self.config.accelerometer, name)], 3)

    def _spread(self) -> Float[np.ndarray, " channel"]:
        """Standard deviation of each Gauss-Markov process."""
        return self._each("instability") * np.sqrt(np.log(_RATIO) / np.pi)


def correlation_times(longest: float, dt: float) -> Float[np.ndarray, " process"]:
    """Correlation times of the processes that make up 1/f noise [s]: `dt`, 4 `dt`, ... to `longest` or above."""
    count = max(int(np.ceil(np.log(longest / dt) / np.log(_RATIO))) + 1, 1) if longest > dt else 1
    return dt * _RATIO ** np.arange(count)
