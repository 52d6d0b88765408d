"""The two searches: bounds, wrapping, determinism, and that they find a minimum."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.policy.planning import CemSearch, CmaSearch, Search


def make(kind: str, wraps=(True, False, False), seed: int = 0) -> Search:
    rng = np.random.default_rng(seed)
    if kind == "cma":
        return CmaSearch(3, population=20, std=0.3, wraps=wraps, rng=rng)
    return CemSearch(3, population=20, elite=5, wraps=wraps, rng=rng)


def minimise(search: Search, goal: np.ndarray, wraps, generations: int = 25) -> tuple[float, np.ndarray]:
    seen = []
    best = np.inf
    for _ in range(generations):
        x = search.ask()
        off = x - goal
        off = np.where(wraps, (off + 1.0) % 2.0 - 1.0, off)
        cost = np.linalg.norm(off, axis=1)
        search.tell(x, cost)
        best = min(best, float(cost.min()))
        seen.append(x)
    return best, np.array(seen)


@pytest.mark.parametrize("kind", ["cma", "cem"])
@pytest.mark.parametrize("goal", [(0.97, 0.2, -0.3), (-0.5, 1.0, 0.1)])
def test_finds_the_minimum_inside_the_cube(kind, goal):
    wraps = (True, False, False)
    best, seen = minimise(make(kind), np.array(goal), wraps)
    assert best < 0.03
    assert (np.abs(seen) <= 1.0).all()


@pytest.mark.parametrize("kind", ["cma", "cem"])
def test_a_function_of_its_generator_alone(kind):
    np.random.seed(1)  # noqa: NPY002  # the `cma` package draws from the global generator by default
    _, first = minimise(make(kind), np.zeros(3), (False,) * 3, generations=6)
    np.random.seed(2)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    _, second = minimise(make(kind), np.zeros(3), (False,) * 3, generations=6)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    _, other = minimise(make(kind, seed=1), np.zeros(3), (False,) * 3, generations=6)
    assert not np.array_equal(first, other)
