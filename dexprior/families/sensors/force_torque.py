"""A six-axis force-torque sensor: cross-talk, gain, hysteresis, warm-up, drift, noise, its range and its step.

    s_k = gain (C w_k)                                     strain of each axis, C the cross-talk matrix
    h_k = s_k + sum_j p_j (F_j[s]_k - s_k)                 hysteresis: play operators F_j of radius r_j
    o_k = warmup (1 - exp(-t_k / tau))                     heat of the electronics, from the tare on
    y_k = quantise(clip(h_k + o_k + walk_k + white_k, range))

Cross-talk and gain: a linear calibration, as of IEEE 2461 or any maker's sheet. Hysteresis: Prandtl and Ishlinskii's
superposition (Krasnosel'skii and Pokrovskii 1989, "Systems with Hysteresis"): a slow cycle of amplitude A loses
sum_j 4 p_j r_j (A - r_j), whatever its speed. Noise: rate white noise and rate random walk as IEEE 952 defines them.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from jaxtyping import Float

from dexprior.config import Gt, config
from dexprior.errors import BadInput
from dexprior.families.sensors.sampler import Draws, Rows, Sampler, decaying, playing, quantised

__all__ = ["ForceTorque", "ForceTorqueConfig"]

Six = tuple[float, float, float, float, float, float]
_IDENTITY: tuple[Six, ...] = tuple(tuple(float(i == j) for j in range(6)) for i in range(6))  # type: ignore[misc]


@config
class ForceTorqueConfig:
    """One sensor; forces in N and torques in N m, axes x y z. Defaults are assumed, of a small industrial sensor."""

    crosstalk: tuple[Six, ...] = _IDENTITY
    """C: row i says what each true axis adds to axis i [1, m, 1/m]."""
    gain: Six = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    """Factor of each axis."""
    warmup: Six = (0.5, 0.5, 1.0, 0.01, 0.01, 0.01)
    """Offset that the axes approach as the sensor warms up [N, N m]."""
    warmup_time: Annotated[float, Gt(0)] = 600.0
    """tau [s]"""
    white: Six = (0.005, 0.005, 0.005, 2e-4, 2e-4, 2e-4)
    """Density of white noise [N/sqrt(Hz), N m/sqrt(Hz)]: a reading has white / sqrt(dt) of it."""
    walk: Six = (0.002, 0.002, 0.002, 5e-5, 5e-5, 5e-5)
    """Random walk [N/sqrt(s), N m/sqrt(s)]: after a time t it has walk sqrt(t)."""
    hysteresis: tuple[float, ...] = (0.02,)
    """p_j: share of the strain that each play operator carries; together less than 1."""
    radius: tuple[float, ...] = (0.05,)
    """r_j: of each operator, as a share of the range."""
    limit: Six = (200.0, 200.0, 200.0, 10.0, 10.0, 10.0)
    """Range, to both sides [N, N m]."""
    step: Six = (0.02, 0.02, 0.02, 5e-4, 5e-4, 5e-4)
    """Smallest change that is read [N, N m]; 0 for none."""

    def __post_init__(self) -> None:
        if len(self.crosstalk) != 6 or abs(np.linalg.det(np.array(self.crosstalk))) < 1e-12:
            raise BadInput("ForceTorqueConfig: crosstalk must be a 6 x 6 matrix that can be inverted")
        if len(self.hysteresis) != len(self.radius):
            raise BadInput(
                f"ForceTorqueConfig: {len(self.hysteresis)} hysteresis shares and {len(self.radius)} radii; one each"
            )
        if min((0.0, *self.hysteresis, *self.radius)) < 0 or sum(self.hysteresis) >= 1:
            raise BadInput(
                f"ForceTorqueConfig: hysteresis {self.hysteresis}, radius {self.radius}: neither may be negative, and "
                "the shares together must stay below 1"
            )
        if min(*self.white, *self.walk, *self.step) < 0 or min(self.limit) <= 0:
            raise BadInput("ForceTorqueConfig: white, walk and step must be >= 0, limit > 0")


class ForceTorque(Sampler):
    """Six channels a sensor; several sensors of one configuration lie side by side.

    Args:
        config: of each sensor.
        n: worlds.
        dt: time between two readings [s].
        seeds: of each world.
        sensors: in each world.
    """

    def __init__(
        self, config: ForceTorqueConfig, n: int, dt: float, seeds: np.ndarray | None = None, *, sensors: int = 1
    ) -> None:
        self.config, self._sensors = config, sensors
        super().__init__(n, 6 * sensors, dt, seeds)

    def _memory(self) -> dict[str, np.ndarray]:
        return {
            "walk": np.zeros((self.n, self.channels)),
            **{f"play{j}": np.zeros((self.n, self.channels)) for j in range(len(self.config.radius))},
        }

    def _read(
        self, values: Float[np.ndarray, "m time channel"], rows: Rows, draws: Draws
    ) -> Float[np.ndarray, "m time channel"]:
        c = self.config
        strain = self._each(c.gain) * self._crossed(values)
        felt = strain
        for j, (share, radius) in enumerate(zip(c.hysteresis, c.radius)):
            played, rows[f"play{j}"] = playing(strain, radius * self._each(c.limit), rows[f"play{j}"])
            felt = felt + share * (played - strain)
        time = (rows["tick"][:, None] + 1 + np.arange(values.shape[1])) * self.dt
        warm = self._each(c.warmup) * -np.expm1(-time / c.warmup_time)[..., None]
        steps = self._each(c.walk) * np.sqrt(self.dt) * draws.normal("ft/walk", self.channels)
        walk, rows["walk"] = decaying(steps, 1.0, rows["walk"])
        white = self._each(c.white) / np.sqrt(self.dt) * draws.normal("ft/white", self.channels)
        limit = self._each(c.limit)
        return quantised(np.clip(felt + warm + walk + white, -limit, limit), self._each(c.step))

    def _each(self, six: Six) -> Float[np.ndarray, " channel"]:
        return np.tile(np.array(six), self._sensors)

    def _crossed(self, values: Float[np.ndarray, "m time channel"]) -> Float[np.ndarray, "m time channel"]:
        matrix = np.array(self.config.crosstalk)
        by_sensor = values.reshape(*values.shape[:2], self._sensors, 6)
        out = matrix[:, 0] * by_sensor[..., :1]  # summed in one order: a matrix product's depends on how many rows
        for k in range(1, 6):
            out = out + matrix[:, k] * by_sensor[..., k : k + 1]
        return out.reshape(values.shape)
