"""Which protocol next, and how many pairs: the most information about the closable gap for an hour of the robot.

Several protocols are planned before any of their outcomes is known. Contributions are independent before they are
measured, so that what is expected to be left of the gap's variance after n_k pairs of each is a sum over gaps, and the
plan adds, again and again, the block of pairs with the largest gain an hour of

    log(V_before / V_after) / 2,

the information if everything were normal. Opening a protocol costs its setup and collection; that is why blocks
of several sizes compete. `best_next` is for a campaign that looks at every outcome: there the mutual information itself
decides. Greedy choice is near the best where gains diminish (Nemhauser et al. 1978); between equal gains the first
of the table is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dexprior.artifacts import make_header, write_json
from dexprior.config import Ge, Gt, Le, config, to_plain
from dexprior.errors import BadInput
from dexprior.transfer.collection.belief import Belief, Contribution, Noise
from dexprior.transfer.collection.preregistration import Panel, preregister
from dexprior.transfer.collection.protocols import PROTOCOLS, Protocol
from dexprior.transfer.collection.sheet import Trial, make_trials

__all__ = [
    "SCHEMA",
    "CollectionPlan",
    "PlanConfig",
    "Step",
    "best_next",
    "normal_width",
    "plan_collection",
    "worth_asking",
]

SCHEMA = "dexprior.collection_plan/1"
_BLOCKS = (1, 2, 4, 8)  # sizes that compete, in batches
_AHEAD = (10.0, 30.0, 100.0)  # pairs over which `best_next` spreads what opening a protocol costs


@config
class PlanConfig:
    """How the data that are collected next are chosen."""

    sim: Annotated[float, Ge(0), Le(1)] = 0.9
    """Success rate of the policy in the simulator."""
    real: Annotated[float, Ge(0), Le(1)] = 0.6
    """Success rate of the policy on the robot."""
    instances: Annotated[int, Ge(0)] = 0
    """Instances that both rates were measured on; 0: they are guesses, and do not enter the belief."""
    spread: Annotated[float, Gt(0)] = 0.5
    """Standard deviation of what an active gap costs, over its mean, which is sim - real."""
    quiet: Annotated[float, Ge(0.01), Le(0.2)] = 0.02
    """Standard deviation of what an inactive gap costs."""
    trust: Annotated[float, Ge(0), Le(1)] = 0.7
    """How often the diagnosis is thought to be to the point, and to name all that matters."""
    budget: float = 200.0
    """Hours of the robot in all [h]; a first campaign takes 100 to 500."""
    batch: Annotated[int, Ge(1)] = 10
    """Pairs by which the plan grows."""
    width: Annotated[float, Gt(0)] = 0.2
    """The plan stops where the 95 % interval of the closable gap is expected to be no wider."""
    regulates_force: bool = False
    """Whether the task regulates force: then force must be recorded, whatever else is planned."""
    panel: Panel = Panel()
    """How it is verified that the gap closed."""

    def noise(self, protocol: Protocol) -> Noise:
        """Noise of a pair of a protocol."""
        return Noise(self.real, protocol.pairing)

    def contributions(self) -> dict[str, Contribution]:
        """What each gap costs where it is active: all of sim - real, give or take."""
        from dexprior.families import GAPS
        from dexprior.transfer.collection.belief import UNKNOWN

        gap = self.sim - self.real
        if gap <= 0:
            raise BadInput(f"sim = {self.sim}, real = {self.real}: there is no success gap to close")
        each = Contribution(gap, float(np.clip(self.spread * gap, 0.02, 1.0)))
        return dict.fromkeys((*GAPS, UNKNOWN), each)

    def measured(self) -> tuple[float, float] | None:
        """sim - real with its standard deviation, were the instances independent; one success and failure are added."""
        if not self.instances:
            return None
        n = self.instances
        rates = [(n * p + 1) / (n + 2) for p in (self.sim, self.real)]
        return self.sim - self.real, float(np.sqrt(sum(p * (1 - p) for p in rates) / n))


@dataclass(frozen=True, kw_only=True)
class Step:
    """A block of pairs, in the order in which it should be run."""

    protocol: str
    pairs: int
    hours: float
    """Hours of the step, with opening the protocol where this is its first block [h]."""
    total_hours: float
    """Up to its end [h]."""
    expected_width: float
    """Width of the 95 % interval of the closable gap after it, were it normal."""
    reason: str
    """`required` or `information`."""


@dataclass(frozen=True, kw_only=True)
class CollectionPlan:
    """What to collect, in which order, why, and how it will be judged."""

    seed: int
    settings: PlanConfig
    probabilities: dict[str, float]
    contributions: dict[str, Contribution]
    protocols: dict[str, Protocol]
    steps: tuple[Step, ...]
    table: tuple[dict[str, Any], ...]
    """A row of every protocol: hours to open, information and hours of a first block, their ratio, pairs that are
    planned."""
    trials: tuple[Trial, ...]
    preregistration: dict[str, Any]
    preregistration_hash: str
    width_before: float
    """Width of the 95 % interval of the closable gap."""

    @property
    def pairs(self) -> dict[str, int]:
        """Pairs of each planned protocol, in the order in which they are opened."""
        found: dict[str, int] = {}
        for step in self.steps:
            found[step.protocol] = found.get(step.protocol, 0) + step.pairs
        return found

    @property
    def hours(self) -> float:
        """Hours of the robot, the verification included [h]."""
        return self.settings.panel.hours + (self.steps[-1].total_hours if self.steps else 0.0)

    def belief(self) -> Belief:
        """Before the first trial."""
        s = self.settings
        return Belief.from_diagnosis(
            self.probabilities, self.contributions, quiet=s.quiet, trust=s.trust, measured=s.measured()
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data: inputs, choices, the trials and the preregistration with its hash."""
        belief = self.belief()
        return {
            "header": asdict(make_header(SCHEMA, producer="ledger plan", seed=self.seed, config=self.settings)),
            "seed": self.seed,
            "inputs": {
                "settings": to_plain(self.settings),
                "probabilities": dict(self.probabilities),
                "contributions": {name: asdict(c) for name, c in self.contributions.items()},
                "protocols": {name: to_plain(p) for name, p in self.protocols.items()},
            },
            "closable_gap": {
                "mean": belief.mean, "interval": list(belief.interval()), "width": self.width_before,
            },
            "information": [dict(row) for row in self.table],
            "steps": [asdict(step) for step in self.steps],
            "pairs": self.pairs,
            "hours": self.hours,
            "trials": [trial.to_json() for trial in self.trials],
            "preregistration": self.preregistration,
            "preregistration_hash": self.preregistration_hash,
        }  # fmt: skip

    def save(self, path: str | Path) -> Path:
        """Write `plan.json`."""
        return write_json(path, self.to_json())


def plan_collection(
    probabilities: Mapping[str, float],
    contributions: Mapping[str, Contribution] | None,
    budget: float,
    protocols: Mapping[str, Protocol] | None,
    seed: int,
    settings: PlanConfig | None = None,
) -> CollectionPlan:
    """Plan a collection.

    Args:
        probabilities: of the six gaps and of "unknown", from a diagnosis; a gap that is left out has none.
        contributions: what each gap costs where it is active; None: all of sim - real, give or take.
        budget: hours of the robot [h].
        protocols: None takes the table.
        seed: of the order of trials and of their conditions.
        settings: the rest.

    Raises:
        BadInput: probabilities that do not sum to one, a budget that is negative or below what is required, or a task
            that regulates force without a protocol that records it.
        UnknownName: a gap that there is not.
    """
    if not (np.isfinite(budget) and budget >= 0):
        raise BadInput(f"budget = {budget} h: must be finite and not negative")
    settings = replace(settings or PlanConfig(), budget=float(budget))
    protocols = dict(PROTOCOLS if protocols is None else protocols)
    contributions = dict(settings.contributions() if contributions is None else contributions)
    belief = Belief.from_diagnosis(
        probabilities, contributions, quiet=settings.quiet, trust=settings.trust, measured=settings.measured()
    )
    steps, widths = _allocate(belief, protocols, budget, settings, worth_asking(probabilities, protocols))
    pairs: dict[str, int] = {}
    for step in steps:
        pairs[step.protocol] = pairs.get(step.protocol, 0) + step.pairs
    trials = make_trials([(protocols[name], n) for name, n in pairs.items()], settings.panel.pairs, seed)
    registered, digest = preregister(settings.panel, trials, sim=settings.sim)
    return CollectionPlan(
        seed=seed, settings=settings, probabilities=dict(probabilities), contributions=contributions,
        protocols=protocols, steps=steps, table=_table(belief, protocols, settings, pairs), trials=trials,
        preregistration=registered, preregistration_hash=digest, width_before=widths,
    )  # fmt: skip


def worth_asking(probabilities: Mapping[str, float], protocols: Mapping[str, Protocol]) -> dict[str, Protocol]:
    """Protocols whose gap the diagnosis gives any probability: nothing is spent on what it rules out."""
    return {name: p for name, p in protocols.items() if probabilities.get(p.gap, 0.0) > 0.0}


def best_next(
    belief: Belief, protocols: Mapping[str, Protocol], opened: set[str], settings: PlanConfig
) -> tuple[str, dict[str, float]]:
    """The protocol that promises most information an hour given all outcomes so far, and what each promises [nat/h]."""
    ahead = np.array(_AHEAD)
    rates = {}
    for name, p in protocols.items():
        hours = ahead * p.pair_hours + (0.0 if name in opened else p.opening_hours)
        rates[name] = float(np.max(belief.information(p.gap, settings.noise(p), ahead) / hours))
    return max(rates, key=lambda name: rates[name]), rates


def _allocate(
    belief: Belief,
    protocols: Mapping[str, Protocol],
    budget: float,
    settings: PlanConfig,
    informative: Mapping[str, Protocol],
) -> tuple[tuple[Step, ...], float]:
    """Blocks in order, and the width before them; what is not `informative` is planned only where it is required."""
    required = [name for name, p in protocols.items() if p.required_with_force and settings.regulates_force]
    if settings.regulates_force and not required:
        raise BadInput(
            "the task regulates force, and no protocol is required_with_force: force-torque or tactile demonstrations "
            "may not be left out"
        )
    needed = settings.panel.hours + sum(_hours(protocols[n], 0, protocols[n].minimum_pairs) for n in required)
    if budget < needed:
        raise BadInput(
            f"budget = {budget:g} h: the verification panel ({settings.panel.hours:g} h)"
            + "".join(f" and {n} ({_hours(protocols[n], 0, protocols[n].minimum_pairs):g} h)" for n in required)
            + f" need {needed:g} h"
        )
    left = budget - settings.panel.hours
    most = {n: int((left - p.opening_hours) / p.pair_hours + 1e-9) for n, p in protocols.items()}
    curves = {n: _Curve(belief, p, settings) for n, p in protocols.items()}
    done = dict.fromkeys(protocols, 0)
    others = belief.variance_of_sum() - sum(curve(0) for curve in curves.values())

    def width_of(planned: Mapping[str, int]) -> float:
        return normal_width(belief, settings, others + sum(curve(planned[n]) for n, curve in curves.items()))

    steps: list[Step] = []
    spent = 0.0

    def add(name: str, pairs: int, reason: str) -> None:
        nonlocal spent
        hours = _hours(protocols[name], done[name], pairs)
        spent += hours
        done[name] += pairs
        width = width_of(done)
        steps.append(
            Step(protocol=name, pairs=pairs, hours=hours, total_hours=spent, expected_width=width, reason=reason)
        )

    for name in required:
        add(name, protocols[name].minimum_pairs, "required")
    while width_of(done) > settings.width:
        now, best = width_of(done), (0.0, "", 0)
        for name, p in informative.items():
            for block in _BLOCKS:
                pairs = block * settings.batch
                pairs = max(pairs, p.minimum_pairs) if not done[name] else pairs
                hours = _hours(p, done[name], pairs)
                if done[name] + pairs > most[name] or spent + hours > left + 1e-9:
                    continue
                gain = np.log(now / width_of(done | {name: done[name] + pairs}))
                if gain / hours > best[0] * (1 + 1e-9):
                    best = (float(gain / hours), name, pairs)
        if best[0] < 1e-9:
            break
        add(best[1], best[2], "information")
    return tuple(steps), belief.width()


def normal_width(belief: Belief, settings: PlanConfig, variance: float) -> float:
    """Width of the closable gap's 95 % interval, were everything normal.

    Args:
        belief: whose unknown part stands between the closable and the measured gap.
        settings: which may hold a measured gap.
        variance: of the sum of contributions, the measured gap left out.
    """
    measured = settings.measured()
    precision = 0.0 if measured is None else 1.0 / (measured[1] ** 2 + belief.unknown_variance)
    return 2 * 1.959964 * float(1.0 / (1.0 / max(variance, 1e-12) + precision)) ** 0.5


class _Curve:
    """Variance that is expected to be left of a contribution after n pairs; computed once for each n."""

    def __init__(self, belief: Belief, protocol: Protocol, settings: PlanConfig) -> None:
        self._of = lambda n: float(
            belief.expected_variances(protocol.gap, settings.noise(protocol), np.array([float(n)]))[0]
        )
        self._known: dict[int, float] = {}

    def __call__(self, pairs: int) -> float:
        if pairs not in self._known:
            self._known[pairs] = self._of(pairs)
        return self._known[pairs]


def _hours(protocol: Protocol, done: int, pairs: int) -> float:
    return pairs * protocol.pair_hours + (0.0 if done else protocol.opening_hours)


def _table(
    belief: Belief, protocols: Mapping[str, Protocol], settings: PlanConfig, pairs: Mapping[str, int]
) -> tuple[dict[str, Any], ...]:
    rows: list[dict[str, Any]] = []
    for name, p in protocols.items():
        first = max(p.minimum_pairs, settings.batch)
        ahead = np.array(
            sorted({float(first), *(float(b * settings.batch) for b in _BLOCKS if b * settings.batch > first)})
        )
        gained = belief.information(p.gap, settings.noise(p), ahead)
        hours = p.opening_hours + ahead * p.pair_hours
        best = int(np.argmax(gained / hours))
        rows.append(
            {
                "protocol": name, "gap": p.gap, "opening_hours": p.opening_hours, "pairs": int(ahead[best]),
                "hours": float(hours[best]), "information_nat": float(gained[best]),
                "information_nat_per_hour": float(gained[best] / hours[best]), "planned_pairs": pairs.get(name, 0),
            }
        )  # fmt: skip
    return tuple(sorted(rows, key=lambda row: -row["information_nat_per_hour"]))
