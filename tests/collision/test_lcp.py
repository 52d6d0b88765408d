"""The complementarity solver: the law itself, uniqueness, and redundant rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from dexprior.collision.hybrid.lcp import solve_lcp


@pytest.mark.parametrize("size", [1, 2, 5, 12, 40])
@pytest.mark.parametrize("symmetric", [True, False])
def test_the_answer_is_complementary(size, symmetric):
    rng = np.random.default_rng([size, symmetric])
    for _ in range(20):
        root = rng.normal(size=(size, size))
        a = root @ root.T + 0.1 * np.eye(size)
        if not symmetric:  # a skew part and a scaling of the columns keep it a P-matrix
            skew = rng.normal(size=(size, size))
            a = (a + skew - skew.T) * rng.uniform(0.5, 2.0, size)
        q = rng.normal(size=size)
        z = solve_lcp(a, q)
        w = a @ z + q
        assert (z >= 0).all()
        assert w.min() > -1e-8
        assert abs(z @ w) < 1e-8 * (1 + abs(z).max())


def test_redundant_rows_give_the_same_motion_as_least_squares():
    """Twelve contacts on three degrees of freedom: the load is ambiguous, the velocity is not."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows, push = rng.normal(size=(12, 3)), rng.normal(size=3)
        z = solve_lcp(rows @ rows.T, rows @ push, ridge=1e-9)
        # Moreau: the constrained velocity is the projection of the free one onto the cone {rows v >= 0}
        expected, _ = nnls(rows.T, -push, maxiter=1000)
        np.testing.assert_allclose(push + rows.T @ z, push + rows.T @ expected, atol=1e-6)


def test_equal_rows_share_their_load():
    z = solve_lcp(np.ones((2, 2)), np.array([-1.0, -1.0]), ridge=1e-9)
    np.testing.assert_allclose(z, [0.5, 0.5], rtol=1e-6)


def test_nothing_pressed_and_nothing_to_press():
    np.testing.assert_array_equal(solve_lcp(np.eye(3), np.array([0.0, 1.0, 2.0])), np.zeros(3))
    assert len(solve_lcp(np.zeros((0, 0)), np.zeros(0))) == 0
    assert solve_lcp(np.zeros((1, 1)), np.array([-1.0])) is None
