"""Simulation-based calibration: whether posteriors are as sure as they may be (Talts et al. 2018, arXiv 1804.06788).

Draw parameters from the prior, simulate data, draw from the posterior of those data. The rank of the drawn parameter
among the posterior's draws is then uniform. Ranks that gather in the middle are of posteriors that are too wide, at
both ends of ones that are too narrow, at one end of ones that are biased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from dexprior.errors import BadInput
from dexprior.stats.correction import holm

__all__ = ["Calibration", "calibrate", "posterior_ranks"]

_LEAST = 5.0  # expected ranks in a bin of the chi-square test (Cochran 1954)


@dataclass(frozen=True)
class Calibration:
    """Tests that ranks are uniform, a parameter each."""

    names: tuple[str, ...]
    counts: Int[np.ndarray, "parameter bin"]
    """Ranks by bin."""
    p_values: Float[np.ndarray, " parameter"]
    """Pearson's chi-square over bins of one size."""
    kolmogorov: Float[np.ndarray, " parameter"]
    """p values of Kolmogorov and Smirnov's test; sensitive to bias, less so to width."""
    adjusted: Float[np.ndarray, " parameter"]
    """The chi-square's, by Holm's method over the parameters."""

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Plain data by parameter."""
        return {
            name: {
                "p": float(self.p_values[k]), "p_holm": float(self.adjusted[k]), "p_ks": float(self.kolmogorov[k]),
                "counts": self.counts[k].tolist(),
            }
            for k, name in enumerate(self.names)
        }  # fmt: skip


def posterior_ranks(
    truth: Float[np.ndarray, "trial parameter"],
    draws: Float[np.ndarray, "trial draw parameter"],
    *,
    seed: int,
) -> Int[np.ndarray, "trial parameter"]:
    """How many posterior draws are below the truth, 0 to the number of draws; ties are split at random.

    Raises:
        BadInput: shapes that do not fit, or a value that is not finite.
    """
    truth, draws = np.asarray(truth, dtype=np.float64), np.asarray(draws, dtype=np.float64)
    if truth.ndim != 2 or draws.ndim != 3 or draws.shape[::2] != truth.shape or not draws.shape[1]:
        raise BadInput(
            f"ranks of truths of shape {truth.shape} among draws of shape {draws.shape}: expected (trial, parameter) "
            "and (trial, draw, parameter)"
        )
    if not (np.isfinite(truth).all() and np.isfinite(draws).all()):
        raise BadInput("ranks: a truth or a draw is not finite")
    below = (draws < truth[:, None]).sum(axis=1)
    equal = (draws == truth[:, None]).sum(axis=1)
    return below + np.random.default_rng(seed).integers(0, equal + 1)


def calibrate(
    names: Sequence[str],
    ranks: Int[np.ndarray, "trial parameter"],
    *,
    draws: int,
    bins: int = 10,
    seed: int = 0,
) -> Calibration:
    """Test ranks for uniformity.

    Args:
        names: of the parameters.
        ranks: of `posterior_ranks`.
        draws: that they were ranked among.
        bins: of the chi-square test; they must share the ranks 0 .. draws evenly.
        seed: of the jitter that makes ranks continuous for the other test.

    Raises:
        BadInput: ranks outside 0 .. draws, names that do not fit, bins that do not share them evenly, too few trials.
    """
    from scipy.stats import chisquare, kstest

    ranks = np.asarray(ranks)
    if ranks.ndim != 2 or ranks.shape[1] != len(names):
        raise BadInput(f"ranks of shape {ranks.shape} for {len(names)} parameters, expected (trial, parameter)")
    if ranks.size and not (ranks.min() >= 0 and ranks.max() <= draws):
        raise BadInput(f"ranks from {ranks.min()} to {ranks.max()}: among {draws} draws they lie in 0..{draws}")
    if bins < 2 or (draws + 1) % bins:
        raise BadInput(f"{bins} bins do not share the {draws + 1} ranks of {draws} draws evenly")
    if len(ranks) < _LEAST * bins:
        raise BadInput(f"{len(ranks)} trials for {bins} bins: at least {_LEAST:g} a bin are needed")
    counts = np.stack([np.bincount(column * bins // (draws + 1), minlength=bins) for column in ranks.T])
    smooth = (ranks + np.random.default_rng(seed).random(ranks.shape)) / (draws + 1)
    p = np.array([chisquare(row).pvalue for row in counts])
    return Calibration(
        tuple(names), counts, p, np.array([kstest(column, "uniform").pvalue for column in smooth.T]), holm(p)
    )
