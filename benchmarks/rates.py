"""Coverage of every interval, size of every test, error of stopping early, by enumeration; times against SciPy's.

Coverage is taken over a grid of true rates (of both sides where there are two), not over draws: it has no error of its
own. Prints JSON lines; those with a peer are {name, value, unit, peer, peer_value, ratio}.

    python benchmarks/rates.py
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np
from scipy.stats import binom, boschloo_exact

from dexprior.stats import boschloo, clopper_pearson, fisher, newcombe, newcombe_paired, rate_above, tango
from dexprior.stats.boschloo import rejected_from

LEVEL = 0.95
RATES = np.linspace(0.0, 1.0, 41)


def main() -> None:
    """Measure and print."""
    for n in (5, 10, 20, 30, 60):
        _print("Clopper-Pearson", n, *_binomial(n))
    for n1, n2 in ((10, 10), (30, 30), (64, 64), (10, 40)):
        _print("Newcombe, unpaired", f"{n1}+{n2}", *_unpaired(n1, n2))
    for n in (10, 30, 64):
        for name, interval in (("Newcombe, paired", newcombe_paired), ("Tango", tango)):
            _print(name, n, *_paired(n, interval))
    for n in (10, 30, 64):
        rates = np.linspace(0.0, 1.0, 1001)[:, None]
        pmf = binom.pmf(np.arange(n + 1), n, rates)
        rows = rejected_from(n, n, (1.0 - LEVEL) / 2.0)
        less = (pmf * binom.sf(rows - 1, n, rates)).sum(axis=1)
        p = np.array([[fisher(a, n, b, n) for b in range(n + 1)] for a in range(n + 1)])
        print(json.dumps({
            "name": f"largest size at 5 %, {n}+{n}",
            "boschloo": float((less + less[::-1]).max()),  # both tails; the samples are equal, so one mirrors the other
            "fisher": float(np.einsum("ra,ab,rb->r", pmf, p <= 1.0 - LEVEL, pmf).max()),
        }))  # fmt: skip
    for bound, rate in ((0.5, 0.6), (0.5, 0.75), (0.9, 0.97)):
        print(json.dumps({"name": f"sequential: rate above {bound}", "rate": rate} | _sequential(bound, rate)))
    for n in (10, 30, 100, 300):
        table = (int(0.4 * n), n, int(0.55 * n), n)
        ours, theirs = _seconds(lambda t=table: boschloo(*t)), _seconds(lambda t=table: _scipy(*t))
        row = {"name": f"Boschloo, {n}+{n}", "value": ours, "unit": "s", "peer": "scipy", "peer_value": theirs}
        print(json.dumps(row | {"ratio": theirs / ours, "difference": abs(boschloo(*table) - _scipy(*table))}))


def _print(name: str, n: int | str, coverage: np.ndarray, width: float) -> None:
    row = {"name": name, "n": n, "min": float(coverage.min()), "mean": float(coverage.mean())}
    print(json.dumps(row | {"below_nominal": float((coverage < LEVEL - 1e-9).mean()), "mean_width": width}), flush=True)


def _binomial(n: int) -> tuple[np.ndarray, float]:
    """Coverage over true rates, and just beside the interval's ends, where it dips."""
    ends = np.array([clopper_pearson(k, n, LEVEL) for k in range(n + 1)])
    rates = np.concatenate([np.linspace(0, 1, 2001), np.clip(np.ravel(ends[..., None] + [-1e-9, 1e-9]), 0, 1)])
    held = (ends[:, :1] <= rates) & (rates <= ends[:, 1:])
    return (held * binom.pmf(np.arange(n + 1)[:, None], n, rates)).sum(axis=0), float(np.diff(ends, axis=1).mean())


def _unpaired(n1: int, n2: int) -> tuple[np.ndarray, float]:
    ends = np.array([[newcombe(a, n1, b, n2, LEVEL) for b in range(n2 + 1)] for a in range(n1 + 1)])
    first = binom.pmf(np.arange(n1 + 1), n1, RATES[:, None])
    second = binom.pmf(np.arange(n2 + 1), n2, RATES[:, None])
    coverage = []
    for i, j in np.ndindex(len(RATES), len(RATES)):
        difference = RATES[i] - RATES[j]
        held = (ends[..., 0] <= difference + 1e-12) & (difference - 1e-12 <= ends[..., 1])
        coverage.append(first[i] @ held @ second[j])
    return np.array(coverage), float(np.diff(ends, axis=-1).mean())


def _paired(n: int, interval: Callable[..., tuple[float, float]]) -> tuple[np.ndarray, float]:
    """Over marginal rates and correlations that make a table; Tango's needs the discordant cells only."""
    cells = [(a, b, c, n - a - b - c) for b in range(n + 1) for c in range(n + 1 - b) for a in range(n + 1 - b - c)]
    if interval is tango:
        by_pair = {(b, c): tango(0, b, c, n - b - c, LEVEL) for b in range(n + 1) for c in range(n + 1 - b)}
        ends = np.array([by_pair[b, c] for _, b, c, _ in cells])
    else:
        ends = np.array([interval(*cell, LEVEL) for cell in cells])
    table = np.array(cells)
    from scipy.special import gammaln, xlogy

    log_ways = gammaln(n + 1) - gammaln(table + 1).sum(axis=1)
    coverage = []
    for p1 in np.linspace(0.05, 0.95, 10):
        for p2 in np.linspace(0.05, 0.95, 10):
            for phi in (-0.3, 0.0, 0.3, 0.6, 0.9):
                both = p1 * p2 + phi * np.sqrt(p1 * (1 - p1) * p2 * (1 - p2))
                shares = np.array([both, p1 - both, p2 - both, 1 - p1 - p2 + both])
                if shares.min() < 0:
                    continue
                probability = np.exp(log_ways + xlogy(table, shares).sum(axis=1))
                held = (ends[:, 0] <= p1 - p2 + 1e-12) & (p1 - p2 - 1e-12 <= ends[:, 1])
                coverage.append(probability[held].sum())
    return np.array(coverage), float(np.diff(ends, axis=1).mean())


def _sequential(bound: float, rate: float, looks: int = 1000) -> dict[str, float]:
    """Over at most `looks` looks: error at the bound, power and mean looks at the rate; trials of one binomial test.

    The evidence is a function of the counts, so paths that have not stopped are counted by dynamic programming.
    """
    n = np.arange(1, looks + 1)
    reached = rate_above(n <= np.arange(looks + 1)[:, None], bound).log_e >= -np.log(0.05)  # k successes, then failures
    least = np.where(reached.any(axis=0), reached.argmax(axis=0), n + 1)  # row k > n is n successes: beyond what lives
    result = {}
    for name, p in (("error", bound), ("power", rate)):
        alive, stopped, used = np.array([1.0]), 0.0, 0.0
        for m in n:
            used += alive.sum()
            alive = np.append(alive * (1 - p), 0.0) + np.append(0.0, alive * p)
            stopped += alive[least[m - 1] :].sum()
            alive[least[m - 1] :] = 0.0
        result[name] = float(stopped)
    fixed = next(m for m in n if binom.sf(binom.isf(0.05, m, bound), m, rate) >= 0.8)
    return result | {"mean_looks": float(used), "fixed_n_for_80": int(fixed)}


def _scipy(k1: int, n1: int, k2: int, n2: int) -> float:
    return float(boschloo_exact([[k1, k2], [n1 - k1, n2 - k2]]).pvalue)


def _seconds(call: Callable[[], object], rounds: int = 5) -> float:
    times = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return float(np.median(times))


if __name__ == "__main__":
    main()
