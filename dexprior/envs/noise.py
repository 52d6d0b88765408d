"""Sensor noise that depends on each world's seed and the step alone, whatever else is drawn."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dexprior.families.sensors.streams import fast_normals, lane, normals, uniforms

__all__ = ["fast_normals", "lane", "noisy_touch", "noisy_wrench", "normals", "uniforms"]


_LEVER = np.array([1.0, 1.0, 1.0, 0.05, 0.05, 0.05])  # torque noise is smaller by a lever arm of 5 cm


def noisy_wrench(
    wrench: Float[np.ndarray, "n 6*robots"], strength: Float[np.ndarray, "n 1"], drawn: Float[np.ndarray, "n 6*robots"]
) -> Float[np.ndarray, "n 6*robots"]:
    """Forces with noise of a standard deviation [N], torques with a twentieth of it [N m]."""
    return wrench + strength * np.tile(_LEVER, wrench.shape[1] // 6) * drawn


def noisy_touch(
    touch: Float[np.ndarray, "n fingertip"], strength: Float[np.ndarray, "n 1"], drawn: Float[np.ndarray, "n fingertip"]
) -> Float[np.ndarray, "n fingertip"]:
    """Normal forces with noise of a standard deviation, whether or not something touches; none below twice that [N]."""
    felt = touch + strength * drawn
    return np.where(felt > 2.0 * strength, np.maximum(felt, 0.0), 0.0)
