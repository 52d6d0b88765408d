"""Statistics of features in LeRobot's form: of one episode, and of many by their counts."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, UInt8

from dexprior.data.lerobot.layout import QUANTILES

__all__ = ["combine", "of_frames", "of_rows"]

Statistics = dict[str, np.ndarray]

_PICTURES, _PIXELS = 32, 128  # pictures of an episode, and rows or columns of each, that statistics look at


def of_rows(rows: Float[np.ndarray, "time n"]) -> Statistics:
    """Minimum, maximum, mean, standard deviation, count and quantiles of each column.

    The quantiles are exact ones of the episode; LeRobot's own writer takes them from histograms.
    """
    rows = np.asarray(rows, dtype=np.float64)
    found = {"min": rows.min(axis=0), "max": rows.max(axis=0), "mean": rows.mean(axis=0), "std": rows.std(axis=0)}
    found |= {name: np.quantile(rows, q, axis=0) for name, q in QUANTILES.items()}
    return {**found, "count": np.array([len(rows)])}


def of_frames(frames: UInt8[np.ndarray, "time height width 3"]) -> Statistics:
    """The same for each colour channel, in [0, 1] and of shape (3, 1, 1), over evenly spaced pictures and pixels."""
    chosen = np.linspace(0, len(frames) - 1, min(len(frames), _PICTURES)).round().astype(int)
    coarse = [slice(None, None, -(-n // _PIXELS)) for n in frames.shape[1:3]]
    pixels = frames[chosen][:, coarse[0], coarse[1]].reshape(-1, 3)
    found = {name: value.reshape(3, 1, 1) / 255.0 for name, value in of_rows(pixels).items() if name != "count"}
    return {**found, "count": np.array([len(chosen)])}


def combine(episodes: list[Statistics]) -> Statistics:
    """Statistics of several episodes together.

    Exact for minimum, maximum, mean and standard deviation (Chan et al. 1979); quantiles are means weighted by the
    counts, which is how LeRobot's `aggregate_feature_stats` does it.
    """
    counts = np.array([float(s["count"][0]) for s in episodes])
    weight = counts / counts.sum()

    def mean(name: str) -> np.ndarray:
        return np.tensordot(weight, np.stack([s[name] for s in episodes]), axes=1)

    centre = mean("mean")
    variance = np.tensordot(weight, np.stack([s["std"] ** 2 + (s["mean"] - centre) ** 2 for s in episodes]), axes=1)
    return {
        "min": np.min(np.stack([s["min"] for s in episodes]), axis=0),
        "max": np.max(np.stack([s["max"] for s in episodes]), axis=0),
        "mean": centre,
        "std": np.sqrt(variance),
        **{name: mean(name) for name in QUANTILES},
        "count": np.array([int(counts.sum())]),
    }
