"""How probable it is that one rate is better than another, given the counts and a Beta or Dirichlet prior."""

from __future__ import annotations

import numpy as np

from dexprior.errors import BadInput

__all__ = ["probability_better", "probability_better_paired"]

_NODES = 400  # of Gauss-Legendre over twelve standard deviations of a smooth integrand: rounding is what remains


def probability_better(k1: int, n1: int, k2: int, n2: int, *, prior: float = 1.0) -> float:
    """P(p1 > p2) for independent rates with Beta(prior, prior) before the trials; 1 is uniform, 1/2 Jeffreys'.

    Integrates f1(p) F2(p) over the angle arcsin(sqrt(p)), in which both ends of the density are smooth. No trials
    (n = 0) leave the prior.

    Raises:
        BadInput: a count that is impossible, or a prior below 1/2.
    """
    from scipy.special import betainc, betaln
    from scipy.stats import beta

    for k, n in ((k1, n1), (k2, n2)):
        if not 0 <= k <= n:
            raise BadInput(f"{k} successes of {n} trials: k must lie within 0..n")
    _check_prior(prior)
    a1, b1, a2, b2 = k1 + prior, n1 - k1 + prior, k2 + prior, n2 - k2 + prior
    low, high = np.arcsin(np.sqrt(beta.ppf([1e-14, 1.0 - 1e-14], a1, b1)))
    x, weight = np.polynomial.legendre.leggauss(_NODES)
    angle = low + 0.5 * (high - low) * (x + 1.0)
    p = np.sin(angle) ** 2
    # dp = 2 sin cos dθ raises both exponents of the density by a half
    log_density = np.log(2.0) + (a1 - 0.5) * np.log(p) + (b1 - 0.5) * np.log1p(-p) - betaln(a1, b1)
    value = 0.5 * (high - low) * np.sum(weight * np.exp(log_density) * betainc(a2, b2, p))
    return float(np.clip(value, 0.0, 1.0))


def probability_better_paired(only_first: int, only_second: int, *, prior: float = 1.0) -> float:
    """P(p1 > p2) for paired rates with a symmetric Dirichlet(prior) over the four kinds of pairs.

    p1 - p2 is the share that only the first solves less the share that only the second solves. Their ratio is
    independent of the concordant pairs: only_first / (only_first + only_second) is a Beta variable, better where it
    exceeds one half.

    Raises:
        BadInput: a negative count, or a prior below 1/2.
    """
    from scipy.special import betainc

    if only_first < 0 or only_second < 0:
        raise BadInput(f"discordant pairs ({only_first}, {only_second}): none may be negative")
    _check_prior(prior)
    return float(betainc(only_second + prior, only_first + prior, 0.5))


def _check_prior(prior: float) -> None:
    if not prior >= 0.5:
        raise BadInput(f"prior = {prior}: at least 1/2 (Jeffreys); 1 is uniform")
