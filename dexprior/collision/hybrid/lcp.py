"""Small linear complementarity problems: which contacts push, and which let go."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

__all__ = ["solve_lcp"]

_ROUNDING = 1e-10  # relative size of what counts as zero
_ITERATIONS = 200
_PATIENCE = 5  # block pivots without progress before the pivots become single, which ends for P-matrices


def solve_lcp(
    matrix: Float[np.ndarray, "contact contact"], offset: Float[np.ndarray, " contact"], *, ridge: float = 0.0
) -> Float[np.ndarray, " contact"] | None:
    """z with z >= 0, w = A z + q >= 0 and z.w = 0, by block principal pivoting.

    Júdice and Pires 1994, "A block principal pivoting algorithm for large-scale strictly monotone linear
    complementarity problems": all violated rows change sides at once; when that does not help, the last one alone.

    Args:
        matrix: A; for a P-matrix there is exactly one solution.
        offset: q.
        ridge: added to the diagonal, relative to its largest entry: redundant rows (the four corners of a box on a
            plane) then share their load instead of leaving it undetermined.

    Returns:
        z, or None where no solution was found (A is not a P-matrix).
    """
    size = len(offset)
    z = np.zeros(size)
    if size == 0 or (offset >= 0).all():
        return z
    diagonal = np.abs(np.diag(matrix)).max()
    if diagonal <= 0:
        return None
    a = matrix + ridge * diagonal * np.eye(size)
    w_zero = _ROUNDING * np.abs(offset).max()
    z_zero = w_zero / diagonal
    basic = np.zeros(size, dtype=bool)
    w = offset.copy()
    fewest, patience = size + 1, _PATIENCE
    for _ in range(_ITERATIONS):
        wrong = np.where(basic, z < -z_zero, w < -w_zero)
        count = int(wrong.sum())
        if count == 0:
            return np.maximum(z, 0.0)
        if count < fewest:
            fewest, patience = count, _PATIENCE
        elif patience > 0:
            patience -= 1
        else:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        basic ^= wrong
        z = np.zeros(size)
        try:
            z[basic] = np.linalg.solve(a[np.ix_(basic, basic)], -offset[basic])
        except np.linalg.LinAlgError:
            return None
        w = a @ z + offset
    return None
