"""When a divergence began, which is before it is seen.

Before the alarm the deviation d of a group's mean is that of the family; from the onset tau on something is added, of
which little is known. It is described by four shapes g (t - tau)^p, p = 0, 1/2, 1, 2, with a size g for every
component, fitted by generalised least squares under the family's own covariance over the window (leading factors and a
diagonal), for every tau of a grid (a change point by profile likelihood; Hinkley 1970). The interval holds every tau
whose fit is not worse than the best by more than the family's own variation makes it: the fitted change is added to
deviations of the family, drawn again, and the loss of likelihood at the true onset is read off (bootstrap of the
likelihood ratio).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dexprior.transfer.divergence.settings import DivergenceConfig

__all__ = ["Onset", "find_onset"]

_POWERS = (0.0, 0.5, 1.0, 2.0)
_FACTORS = 8
_SAMPLES = 160  # at most in a window: longer ones are thinned
_FIRST = 5  # samples before the earliest onset that is tried


@dataclass(frozen=True)
class Onset:
    """A moment with its interval [s]."""

    t: float
    low: float
    high: float


def find_onset(
    t: Float[np.ndarray, " time"],
    deviation: Float[np.ndarray, "time n"],
    family: Float[np.ndarray, "group time n"],
    noise: Float[np.ndarray, " n"],
    stop: int,
    alarm: int,
    config: DivergenceConfig,
    rng: np.random.Generator,
) -> Onset:
    """Onset of what raised an alarm.

    Args:
        t: even times [s].
        deviation: of the compared group's mean from the family's centre.
        family: the same of groups of the family.
        noise: variance of a group's mean by noise alone.
        stop: index of the last sample that is used.
        alarm: index of the alarm, before which it began.
        config: window, level and draws.
        rng: of the bootstrap.
    """
    dt = float(t[1] - t[0])
    first = max(stop - round(config.onset_window / dt), 0)
    stride = max((stop + 1 - first) // _SAMPLES, 1)
    window = np.arange(stop, first - 1, -stride)[::-1]
    if len(window) < 2 * _FIRST:  # an alarm right at the start
        return Onset(float(t[0]), float(t[0]), float(t[alarm]))
    clock, step = t[window], dt * stride
    null = family[:, window]
    usable = null.std(axis=(0, 1)) > 0  # a component that the family never moves has no covariance
    if not usable.any():
        return Onset(float(t[alarm]), float(t[max(alarm - 1, 0)]), float(t[alarm]))
    null = null[..., usable]
    whiten = _whiteners(null, np.maximum(noise[usable], 1e-6 * null.var(axis=(0, 1))))
    onsets = clock[_FIRST:]
    shapes = np.stack([_shape(clock, tau, p) for p in _POWERS for tau in onsets])
    white_shapes = np.einsum("nij,mj->nmi", whiten, shapes)
    power = (white_shapes**2).sum(axis=2)

    def gains(d: Float[np.ndarray, "group time n"]) -> tuple[np.ndarray, np.ndarray]:
        """Likelihood gained by each shape and onset, and the sizes fitted."""
        white = np.einsum("nij,gjn->ngi", whiten, d)
        size = (white @ white_shapes.transpose(0, 2, 1)) / np.maximum(power, 1e-300)[:, None]
        return np.einsum("ngm,nm->gm", size**2, power), size

    gain, size = gains(deviation[None, window][..., usable])
    best = int(gain[0].argmax())
    added = shapes[best][:, None] * size[:, 0, best]
    drawn, _ = gains(null[rng.integers(len(null), size=config.draws)] + added)
    by_onset = drawn.reshape(len(drawn), len(_POWERS), -1).max(axis=1)
    loss = by_onset.max(axis=1) - by_onset[:, best % len(onsets)]
    limit = float(np.quantile(loss, config.onset_level))
    profile = gain[0].reshape(len(_POWERS), -1).max(axis=0)
    kept = onsets[profile >= profile.max() - limit]
    # between two samples nothing is known
    high = min(float(kept.max()) + step, float(t[alarm]))
    return Onset(float(onsets[best % len(onsets)]), float(kept.min()) - step, high)


def _shape(clock: Float[np.ndarray, " time"], tau: float, power: float) -> Float[np.ndarray, " time"]:
    since = np.maximum(clock - tau, 0.0) / (clock[-1] - clock[0])
    return (clock >= tau).astype(np.float64) if power == 0 else since**power


def _whiteners(
    null: Float[np.ndarray, "group time n"], noise: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "n time time"]:
    """Inverse Cholesky factor of each component's covariance over time: leading factors and a diagonal."""
    found = []
    for k, variance in enumerate(noise):
        covariance = null[:, :, k].T @ null[:, :, k] / len(null)
        value, vector = np.linalg.eigh(covariance)
        factors = min(_FACTORS, len(null) // 4, len(value) - 1)
        low = vector[:, len(value) - factors :] * np.sqrt(np.maximum(value[len(value) - factors :] - variance, 0.0))
        rest = np.maximum(np.diag(covariance) - (low**2).sum(axis=1), 0.5 * variance)
        found.append(np.linalg.inv(np.linalg.cholesky(low @ low.T + np.diag(rest))))
    return np.stack(found)
