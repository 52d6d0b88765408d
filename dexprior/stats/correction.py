"""p values of a family of tests, corrected so that the family keeps its error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput

__all__ = ["benjamini_hochberg", "holm", "holm_columns"]


def holm(p_values: Sequence[float] | Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    """Adjusted p values: rejecting those <= alpha makes one or more false rejections with probability <= alpha.

    Holm 1979, for any dependence between the tests; never larger than Bonferroni's.

    Raises:
        BadInput: a p value outside [0, 1].
    """
    return holm_columns(_checked(p_values)[:, None])[:, 0]


def holm_columns(p: Float[np.ndarray, "test family"]) -> Float[np.ndarray, "test family"]:
    """`holm` of many families at once, a column each; p values within 0..1 are taken for granted."""
    order = np.argsort(p, axis=0, kind="stable")
    steps = np.take_along_axis(p, order, axis=0) * np.arange(len(p), 0, -1)[:, None]
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(np.maximum.accumulate(steps, axis=0), 1.0), axis=0)
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
