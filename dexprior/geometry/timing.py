"""Signals over time: resampling, and contact intervals with hysteresis."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput

__all__ = ["contact_intervals", "hysteresis", "minimum_jerk", "resample"]

Array = np.ndarray


def minimum_jerk(u: Float[Array, " n"]) -> Float[Array, " n"]:
    """Smooth step from 0 to 1 with zero velocity and acceleration at both ends (Flash and Hogan 1985)."""
    u = np.clip(u, 0.0, 1.0)
    return u**3 * (10.0 + u * (-15.0 + 6.0 * u))


def resample(t: Float[Array, " n"], t_known: Float[Array, " m"], value: Float[Array, m * d]) -> Float[Array, n * d]:
    """Linear interpolation along the first axis; constant beyond both ends."""
    value = np.asarray(value, dtype=np.float64)
    flat = value.reshape(len(value), -1)
    columns = [np.interp(t, t_known, flat[:, k]) for k in range(flat.shape[1])]
    return np.stack(columns, axis=-1).reshape(len(t), *value.shape[1:])


def hysteresis(signal: Float[Array, time * d], on: float, off: float) -> Bool[Array, time * d]:
    """Whether each signal is on: it turns on above `on` and off below `off`.

    Raises:
        BadInput: `off` is not below `on`.
    """
    if not off < on:
        raise BadInput(f"hysteresis needs off < on, got off = {off:g}, on = {on:g}")
    signal = np.asarray(signal)
    state = np.zeros(signal.shape, dtype=bool)
    current = np.zeros(signal.shape[1:], dtype=bool)
    for k in range(len(signal)):
        current = np.where(signal[k] >= on, True, np.where(signal[k] < off, False, current))
        state[k] = current
    return state


def contact_intervals(touching: Bool[Array, " time"]) -> list[tuple[int, int]]:
    """Half-open index ranges [start, stop) in which a signal is on."""
    padded = np.concatenate([[False], np.asarray(touching, dtype=bool), [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2])]
