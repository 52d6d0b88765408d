"""What parameters are fitted to: the first moments of a replay, before contacts part for small reasons too.

seen = observations_of(real, window=0.8)
simulate = partial(predict, probe, family, window=0.8, channels=tuple(real.values))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.transfer.conditioning import Observations
from dexprior.transfer.divergence import Signals
from dexprior.transfer.replay import Probe, replay

__all__ = ["moving", "observations_of", "predict", "summaries", "whitened"]

_STEP = 4  # samples between two summaries


def summaries(signals: Signals, window: float) -> tuple[Float[np.ndarray, "n summary"], tuple[str, ...]]:
    """What parameters are fitted to: channels of the mean repeat until `window` [s], and the column each belongs to."""
    chosen = np.flatnonzero(signals.t <= window)[_STEP - 1 :: _STEP]
    parts, columns = [], []
    for name, x in signals.values.items():
        flat = x[:, :, chosen].reshape(-1, len(chosen), x.shape[-1]).swapaxes(1, 2)
        parts.append(flat.reshape(len(flat), -1))
        columns += [f"{name}[{k}]" for k in range(x.shape[-1]) for _ in chosen]
    return np.concatenate(parts, axis=1), tuple(columns)


def predict(
    probe: Probe,
    family: ParameterFamily,
    values: Float[np.ndarray, "n parameter"],
    *,
    window: float,
    channels: Sequence[str] | None = None,
) -> Float[np.ndarray, "n summary"]:
    """Summaries of worlds with these values, without noise; values beyond the supports are taken as they are.

    Args:
        probe: what is replayed.
        family: whose parameters the values are.
        values: one row a world.
        window: see `summaries`.
        channels: those that the robot logs; all by default.
    """
    steps = round(window / probe.task.control_dt)
    short = replace(probe, actions=probe.actions[:steps], repeatability=0.0)
    reach = tuple(
        replace(p, low=float(min(p.low, column.min())), high=float(max(p.high, column.max())), distribution="uniform",
                mean=None, std=None, transform=None)
        for p, column in zip(family.parameters, values.T)
    )  # fmt: skip
    wide = ParameterFamily(family.name, reach)
    logged = replay(short, wide, values, repeats=1, seed=0, noisy=False, threads=1)
    return summaries(logged if channels is None else logged.only(channels), window)[0]


def moving(
    probe: Probe,
    family: ParameterFamily,
    names: Sequence[str],
    *,
    window: float,
    channels: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Those of the parameters that change a replay at all; no fit to replays can tell the others, e.g. sensors' noise.

    Args:
        probe: what is replayed.
        family: whose parameters they are; each is brought to both of its ends, the others stay in the middle.
        names: of the parameters.
        window: see `summaries`.
        channels: those that the robot logs; all by default.
    """
    rows = np.tile(family.medians(), (2 * len(names), 1))
    for k, name in enumerate(names):
        p = family.parameters[family.names.index(name)]
        rows[2 * k : 2 * k + 2, family.names.index(name)] = p.low, p.high
    seen = predict(probe, family, rows, window=window, channels=channels)
    return tuple(name for k, name in enumerate(names) if not np.array_equal(seen[2 * k], seen[2 * k + 1]))


def observations_of(real: Signals, window: float) -> Observations:
    """Summaries of every repeat of a robot.

    Args:
        real: one group.
        window: see `summaries`.

    Raises:
        BadInput: repeats that end before the window does.
    """
    if real.until[0] < window:
        raise BadInput(f"the shortest replay ends at {real.until[0]:.2f} s, within the {window:g} s that are fitted")
    n = real.repeats
    each = Signals(
        t=real.t, values={name: x[0][:, None] for name, x in real.values.items()}, units=real.units,
        panel_hash=real.panel_hash, shifts=np.zeros((n, 1)), until=np.full(n, real.t[-1]),
    )  # fmt: skip
    seen, columns = summaries(each, window)
    return Observations(values=seen, groups=columns)


def whitened(
    seen: Observations, others: Float[np.ndarray, "draw summary"]
) -> tuple[Observations, Float[np.ndarray, "summary summary"]]:
    """Observations in coordinates in which what is not fitted is white noise, and the matrix W that leads there.

    The mean of R repeats scatters by C = diag(std^2) / R + Cov(others), as what is not fitted is the same in all of
    them. With W = C^(-1/2), fit W s(phi) to what is returned.

    Args:
        seen: with noise that is declared or estimated.
        others: predictions, over draws of the parameters that are not fitted.
    """
    assert seen.std is not None
    covariance = np.diag(seen.std**2 / seen.repeats) + np.cov(others, rowvar=False)
    size, axes = np.linalg.eigh(covariance)
    W = (axes / np.sqrt(size)) @ axes.T
    return Observations(values=seen.values @ W.T, noise=np.full(seen.size, np.sqrt(seen.repeats))), W
