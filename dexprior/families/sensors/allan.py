"""The overlapping Allan deviation of a rate signal, and the terms that it is read as.

    sigma^2(tau) = sum_k (x_(k+2m) - 2 x_(k+m) + x_k)^2 / (2 tau^2 (N - 2m))       x: integral of the signal, tau = m dt
    sigma^2(tau) = 3 Q^2/tau^2 + N^2/tau + (2 ln 2/pi) B^2 + K^2 tau/3             (IEEE 952-2020, annex C)

quantisation Q, white noise N (angle or velocity random walk), bias instability B, rate random walk K.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from dexprior.errors import BadInput

__all__ = ["allan_terms", "allan_variance", "averaging"]


def averaging(samples: int, *, points: int = 6, longest: float = 0.2) -> Int[np.ndarray, " tau"]:
    """Averaging lengths m, evenly spread over their logarithm.

    Args:
        samples: of the signal.
        points: in a decade.
        longest: the largest of them, as a share of the signal.

    Raises:
        BadInput: fewer than 20 samples.
    """
    if samples < 20:
        raise BadInput(f"{samples} samples: an Allan deviation needs at least 20")
    last = max(int(samples * longest), 2)
    return np.unique(np.rint(np.logspace(0, np.log10(last), max(round(points * np.log10(last)), 2))).astype(np.int64))


def allan_variance(
    rate: Float[np.ndarray, "*channel time"], dt: float, lengths: Int[np.ndarray, " tau"]
) -> Float[np.ndarray, "*channel tau"]:
    """Overlapping Allan variance at averaging times `lengths * dt`, in the signal's unit squared.

    Args:
        rate: what is read, e.g. [rad/s], [m/s^2] or [N], evenly in time along the last axis.
        dt: time between two samples [s].
        lengths: averaging lengths in samples.

    Raises:
        BadInput: a value that is not finite, or a length that two averages of do not fit in.
    """
    rate = np.asarray(rate, dtype=np.float64)
    if not np.isfinite(rate).all():
        raise BadInput(f"Allan variance: {int((~np.isfinite(rate)).sum())} value(s) are not finite")
    if len(lengths) == 0 or lengths.min() < 1 or 2 * lengths.max() > rate.shape[-1]:
        raise BadInput(
            f"Allan variance: averaging lengths {lengths} of {rate.shape[-1]} samples; 1 to half of them fit"
        )
    centred = rate - rate.mean(axis=-1, keepdims=True)
    x = np.concatenate([np.zeros((*rate.shape[:-1], 1)), np.cumsum(centred, axis=-1)], axis=-1) * dt
    found = [
        np.mean((x[..., 2 * m :] - 2 * x[..., m:-m] + x[..., : -2 * m]) ** 2, axis=-1) / (2 * (m * dt) ** 2)
        for m in lengths.tolist()
    ]
    return np.stack(found, axis=-1)


def allan_terms(tau: Float[np.ndarray, " tau"]) -> Float[np.ndarray, "tau 4"]:
    """Allan variance of each term for a coefficient of 1: columns Q, N, B, K."""
    return np.stack([3.0 / tau**2, 1.0 / tau, np.full_like(tau, 2.0 * np.log(2.0) / np.pi), tau / 3.0], axis=1)
