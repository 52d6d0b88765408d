"""What a number of trials can show: power of the exact tests, and the least difference that they are likely to find.

Power counts rejections in the right direction only, so it rises with the difference and bisection finds where it passes
the wanted one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from dexprior.errors import BadInput
from dexprior.stats.boschloo import rejected_from

__all__ = ["detectable", "detectable_paired", "power_boschloo", "power_mcnemar"]


def power_boschloo(p1: float, n1: int, p2: float, n2: int, *, alpha: float = 0.05) -> float:
    """Probability that the two-sided Boschloo test at `alpha` rejects and points the way of p1 - p2, by enumeration.

    Raises:
        BadInput: a rate outside [0, 1], an empty sample, or alpha outside (0, 1).
    """
    from scipy.stats import binom

    _check_shares(alpha, p1=p1, p2=p2)
    (low, n_low), (high, n_high) = ((p1, n1), (p2, n2)) if p1 <= p2 else ((p2, n2), (p1, n1))
    rows = rejected_from(n_low, n_high, alpha / 2.0)
    return float(binom.pmf(np.arange(n_low + 1), n_low, low) @ binom.sf(rows - 1, n_high, high))


def power_mcnemar(gain: float, loss: float, n: int, *, alpha: float = 0.05) -> float:
    """Probability that the exact McNemar test of n pairs rejects in favour of the first, by enumeration.

    Args:
        gain: share of pairs that only the first solves.
        loss: share of pairs that only the second solves.
        n: pairs.
        alpha: of the two-sided test.

    Raises:
        BadInput: shares that are no shares or exceed 1 together, no pairs, or alpha outside (0, 1).
    """
    from scipy.stats import binom

    _check_shares(alpha, gain=gain, loss=loss)
    if n < 1:
        raise BadInput(f"n = {n}: at least one pair is needed")
    if gain + loss > 1.0 + 1e-12:
        raise BadInput(f"gain + loss = {gain + loss}: together at most 1")
    share = min(gain + loss, 1.0)
    if share == 0.0:
        return 0.0
    discordant = np.arange(n + 1)
    least = binom.isf(alpha / 2.0, discordant, 0.5).astype(int) + 1  # P(X >= least) <= alpha / 2
    return float(binom.pmf(discordant, n, share) @ binom.sf(least - 1, discordant, gain / share))


def detectable(
    n1: int,
    n2: int,
    baseline: float,
    *,
    direction: Literal["better", "worse"] = "better",
    alpha: float = 0.05,
    power: float = 0.8,
) -> float | None:
    """Least |p1 - p2| that the two-sided Boschloo test finds with this power when p2 is the baseline.

    None: not even a first rate of one (better) or zero (worse) would be found.

    Raises:
        BadInput: as `power_boschloo`; or power outside (0, 1).
    """
    _check_shares(alpha, baseline=baseline)
    sign, room = (1.0, 1.0 - baseline) if direction == "better" else (-1.0, baseline)
    return _least(
        lambda d: power_boschloo(min(max(baseline + sign * d, 0.0), 1.0), n1, baseline, n2, alpha=alpha), room, power
    )


def detectable_paired(n: int, loss: float, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Least p1 - p2 that the exact McNemar test of n pairs finds with this power when `loss` of them go the other way.

    None: not even if all other pairs were gains would it be found.

    Raises:
        BadInput: as `power_mcnemar`; or power outside (0, 1).
    """
    _check_shares(alpha, loss=loss)
    # gain = loss + d may be at most 1 - loss
    return _least(lambda d: power_mcnemar(loss + d, loss, n, alpha=alpha), 1.0 - 2.0 * loss, power)


def _least(power_at: Callable[[float], float], room: float, power: float) -> float | None:
    from scipy.optimize import brentq

    if not 0.0 < power < 1.0:
        raise BadInput(f"power = {power}: must lie between 0 and 1")
    if room <= 0.0 or power_at(room) < power:
        return None
    if power_at(0.0) >= power:
        return 0.0
    return float(brentq(lambda d: power_at(d) - power, 0.0, room, xtol=1e-9))


def _check_shares(alpha: float, **shares: float) -> None:
    if not 0.0 < alpha < 1.0:
        raise BadInput(f"alpha = {alpha}: must lie between 0 and 1")
    for name, share in shares.items():
        if not 0.0 <= share <= 1.0:
            raise BadInput(f"{name} = {share}: must lie within 0..1")
