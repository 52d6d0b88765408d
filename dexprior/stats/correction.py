"""p values of a family of tests, corrected so that the family keeps its error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput

__all__ = ["benjamini_hochberg", "holm"]


def holm(p_values: Sequence[float] | Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    """Adjusted p values: rejecting those <= alpha makes one or more false rejections with probability <= alpha.

    Holm 1979, for any dependence between the tests; never larger than Bonferroni's.

    Raises:
        BadInput: a p value outside [0, 1].
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def benjamini_hochberg(p_values: Sequence[float] | Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    """Adjusted p values: of those <= q, an expected share of at most q is false (Benjamini and Hochberg 1995).

    For independent or positively dependent tests. SciPy's `false_discovery_control`; a family may be empty.

    Raises:
        BadInput: a p value outside [0, 1].
    """
    from scipy.stats import false_discovery_control

    p = _checked(p_values)
    return np.asarray(false_discovery_control(p)) if len(p) else p


def _checked(p_values: Sequence[float] | Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0.0) & (p <= 1.0)).all():
        raise BadInput(f"p values {p.tolist()}: a row of numbers within 0..1 is needed")
    return p
