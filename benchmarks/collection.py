"""Simulated campaigns with a hidden truth: pairs and hours until the closable gap is known, planned against uniform.

    python benchmarks/collection.py [CAMPAIGNS] [CASE]

Truth, not the planner's prior: a diagnosis from Dirichlet(0.6 for each gap, 0.3 for "unknown"); a main cause drawn from
it, with probability 0.3 a second one, any; each costs 0.1 + 0.5 Beta(2, 2), every other gap Laplace(0.015); success is
0.9 in the simulator and within 0.1..0.88 on the robot. Outcomes of a pair are Bernoulli, correlated by a Gaussian
copula with a correlation from U(0.1, 0.6). The planner is told the diagnosis and a real rate from 64 runs, which enters
its belief unless a case says that the gap is not measured. Every way of
allocating sees the same outcomes: the n-th pair of a protocol is the same pair. JSON lines.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from dexprior.families import GAPS
from dexprior.stats import Rate
from dexprior.transfer.collection import PROTOCOLS, UNKNOWN, Belief, PairCounts, PlanConfig, best_next, plan_collection

_GAPS = tuple(GAPS)
_OF = {p.gap: name for name, p in PROTOCOLS.items()}
_MOST = 200  # batches in a campaign
_BATCH = 10
_WIDTHS = (0.3, 0.2)


@dataclass(frozen=True)
class World:
    """A hidden truth and the outcomes that it holds ready."""

    probabilities: dict[str, float]
    cost: np.ndarray
    """Of every gap, in the order of GAPS."""
    settings: PlanConfig
    difference: np.ndarray
    """Of each pair, by gap: (6, pairs) in -1, 0, 1."""

    @property
    def closable(self) -> float:
        """What is to be known."""
        return float(self.cost.sum())

    def counts(self, gap: str, first: int, last: int) -> PairCounts:
        """Of pairs first..last."""
        d = self.difference[_GAPS.index(gap), first:last]
        return PairCounts(int((d > 0).sum()), int((d < 0).sum()), len(d))


def draw(seed: int, diagnosis: str, instances: int) -> World:
    """A campaign's truth. `diagnosis`: right (the cause is drawn from it), blind (any cause), worst (its last one)."""
    rng = np.random.default_rng([seed, 1])
    p = rng.dirichlet([0.6] * 6 + [0.3])
    while True:
        main = {"right": rng.choice(7, p=p), "blind": rng.integers(6), "worst": int(np.argmin(p[:6]))}[diagnosis]
        active = {int(main)} | ({int(rng.integers(6))} if rng.random() < 0.3 else set())
        cost = np.array([0.1 + 0.5 * rng.beta(2, 2) if k in active else rng.laplace(0, 0.015) for k in range(7)])
        real = 0.9 - cost.sum()
        if 0.1 <= real <= 0.88:
            break
    pairing = rng.uniform(0.1, 0.6)
    z = rng.standard_normal((2, 6, _MOST * _BATCH))
    z[1] = pairing * z[0] + np.sqrt(1 - pairing**2) * z[1]
    without, having = ndtr(z[0]) < real, ndtr(z[1]) < np.clip(real + cost[:6], 0, 1)[:, None]
    seen = min(rng.binomial(64, real) / 64, 0.88)
    return World(
        dict(zip((*_GAPS, UNKNOWN), p / p.sum())), cost[:6],
        PlanConfig(sim=0.9, real=seen, instances=instances), having.astype(int) - without.astype(int),
    )  # fmt: skip


Choose = Callable[[World, Belief, dict[str, int]], str]


def uniform(world: World, belief: Belief, done: dict[str, int]) -> str:
    """All gaps in turn."""
    return min(_GAPS, key=lambda gap: done[gap])


def planner(world: World, belief: Belief, done: dict[str, int]) -> str:
    """Most information an hour, given all outcomes."""
    opened = {_OF[gap] for gap, n in done.items() if n}
    return PROTOCOLS[best_next(belief, PROTOCOLS, opened, world.settings)[0]].gap


def fixed(world: World) -> Choose:
    """The blocks of a plan that was made once, then uniform."""
    settings = replace(world.settings, width=0.1)
    plan = plan_collection(world.probabilities, None, 1000.0, None, 0, settings)
    order = [PROTOCOLS[s.protocol].gap for s in plan.steps for _ in range(max(s.pairs // _BATCH, 1))]

    def choose(world: World, belief: Belief, done: dict[str, int]) -> str:
        at = sum(done.values()) // _BATCH
        return order[at] if at < len(order) else uniform(world, belief, done)

    return choose


def campaign(world: World, choose: Choose) -> dict[float, tuple[int, float, bool, bool]]:
    """When each width is reached first: pairs, hours, whether the interval holds the truth, whether the gap that is
    thought to cost most does."""
    belief = prior(world)
    done, hours = dict.fromkeys(_GAPS, 0), 0.0
    found: dict[float, tuple[int, float, bool, bool]] = {}
    for _ in range(_MOST):
        gap = choose(world, belief, done)
        p = PROTOCOLS[_OF[gap]]
        hours += _BATCH * p.pair_hours + (0.0 if done[gap] else p.opening_hours)
        belief = belief.updated({gap: world.counts(gap, done[gap], done[gap] + _BATCH)})
        done[gap] += _BATCH
        low, high = belief.interval()
        for width in _WIDTHS:
            if width not in found and high - low <= width:
                named = max(_GAPS, key=lambda gap: belief.contribution(gap)["mean"]) == _GAPS[world.cost.argmax()]
                found[width] = (sum(done.values()), hours, low <= world.closable <= high, named)
        if _WIDTHS[-1] in found:
            break
    return found


def prior(world: World) -> Belief:
    """What the planner believes before the first pair."""
    s = world.settings
    return Belief.from_diagnosis(
        world.probabilities, s.contributions(), quiet=s.quiet, trust=s.trust, measured=s.measured()
    )


def line(name: str, value: float, unit: str, peer: str, peer_value: float, **more: object) -> None:
    """One JSON line."""
    ratio = value / peer_value if peer_value else None
    row = {"name": name, "value": value, "unit": unit, "peer": peer, "peer_value": peer_value, "ratio": ratio}
    print(json.dumps(row | more), flush=True)


def compare(case: str, worlds: list[World], ours: str, chosen: list[Choose]) -> None:
    """Lines of one case: ours against uniform allocation, paired."""
    began = time.process_time()
    runs = [(campaign(w, c), campaign(w, uniform)) for w, c in zip(worlds, chosen)]
    for width in _WIDTHS:
        both = [(a[width], b[width]) for a, b in runs if width in a and width in b]
        rng = np.random.default_rng(0)
        draws = rng.integers(len(both), size=(4000, len(both)))
        for k, unit in ((0, "pairs"), (1, "h")):
            a, b = np.array([(x[k], y[k]) for x, y in both], dtype=float).T
            means = a[draws].mean(axis=1) / b[draws].mean(axis=1)
            saved = 1 - a / b
            line(
                f"{case}: {unit} to a width of {width:g}, mean", float(a.mean()), unit, "uniform", float(b.mean()),
                method=ours, campaigns=len(both), left_out=len(runs) - len(both),
                ratio_interval=[round(float(q), 3) for q in np.quantile(means, [0.025, 0.975])],
                median=[float(np.median(a)), float(np.median(b))],
                saved_quantiles_10_50_90=[round(float(q), 3) for q in np.quantile(saved, [0.1, 0.5, 0.9])],
                worse_than_uniform=int((a > b).sum()),
            )  # fmt: skip
        held = [Rate(sum(pair[i][2] for pair in both), len(both)) for i in (0, 1)]
        line(
            f"{case}: coverage of the 95 % interval at a width of {width:g}", held[0].k / held[0].n, "1", "uniform",
            held[1].k / held[1].n, method=ours, interval=held[0].as_dict()["interval"],
            peer_interval=held[1].as_dict()["interval"],
        )  # fmt: skip
        named = [sum(pair[i][3] for pair in both) / len(both) for i in (0, 1)]
        line(f"{case}: largest cost named at a width of {width:g}", named[0], "1", "uniform", named[1], method=ours)
    line(f"{case}: processor time a campaign", (time.process_time() - began) / len(runs), "s", "", 0.0, method=ours)


def main() -> None:
    campaigns = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    for case, diagnosis, instances in (
        ("right diagnosis", "right", 64),
        ("blind diagnosis", "blind", 64),
        ("worst diagnosis", "worst", 64),
        ("right diagnosis, gap not measured", "right", 0),
    ):
        if only not in case:
            continue
        worlds = [draw(seed, diagnosis, instances) for seed in range(campaigns)]
        held = [(low <= w.closable <= high, high - low) for w in worlds for low, high in [prior(w).interval()]]
        rate = Rate(sum(h for h, _ in held), len(held))
        line(f"{case}: coverage before the first pair", rate.k / rate.n, "1", "nominal", 0.95,
             interval=rate.as_dict()["interval"], median_width=float(np.median([w for _, w in held])))  # fmt: skip
        compare(case, worlds, "planner", [planner] * len(worlds))
        if case == "right diagnosis":
            compare(case, worlds, "fixed plan", [fixed(w) for w in worlds])


if __name__ == "__main__":
    main()
