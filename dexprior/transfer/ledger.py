"""One transfer round: assumptions, success and slip in both worlds on one panel, gaps, first divergence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior.artifacts import make_header, read_object, write_json
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.stats import Rate, bootstrap_mean, compare_pairs, compare_rates
from dexprior.transfer.assumptions import Assumptions
from dexprior.transfer.divergence import Divergence

__all__ = ["Ledger", "WorldResult", "read_ledger"]

SCHEMA = "dexprior.ledger/3"


@dataclass(frozen=True)
class WorldResult:
    """What happened in one world."""

    name: str
    success: Bool[np.ndarray, " n"]
    slip_rate: Float[np.ndarray, " n"]
    """Share of the held steps in which the nut slips; meaningless where it was never held."""
    held: Bool[np.ndarray, " n"]
    """Whether the nut was held at any time."""
    panel_hash: str

    def __post_init__(self) -> None:
        sizes = (len(self.success), len(self.slip_rate), len(self.held))
        if len(set(sizes)) != 1:
            raise BadInput(f"world {self.name!r}: {sizes} outcomes, slip rates and holds; they must be as many")


@dataclass(frozen=True)
class Ledger:
    """A round, ready to be written.

    Gaps keep the signs of the field: success_gap = sim - real, slip_gap = real - sim; positive is worse than promised.
    The slip gap is taken over the instances in which both worlds held the nut: a nut never held does not slip.
    """

    round: str
    policy: str
    assumed: ParameterFamily
    sim: WorldResult
    real: WorldResult
    divergences: tuple[tuple[Divergence, ...], ...]
    """Divergences of each compared instance, channels in the order in which they part."""
    notes: tuple[str, ...] = ()
    paired: bool = True
    """Whether instance i is the same in both worlds."""
    timing_gap: Float[np.ndarray, " n"] | None = None
    """Seconds by which the real world was later, where both succeeded; None where it was not measured."""
    distance: Mapping[str, float] | None = None
    """d(tau_real, tau_sim) by channel: root mean square over time, in the simulator's own standard deviations."""
    signatures: tuple[str, ...] = ()
    """What the failures have in common."""
    actions: tuple[str, ...] = ()
    """What was done since the last round."""
    diagnosis: Mapping[str, float] | None = None
    """Probability of each gap and of `unknown`."""
    assumptions: Assumptions | None = None
    """What a person states of the simulator; None where its family says it all, as between two simulated worlds."""
    cases: tuple[str, ...] = ()
    """Instances to replay: those that the simulator solves and the real world does not."""

    def __post_init__(self) -> None:
        if self.sim.name == self.real.name:
            raise BadInput(f"both worlds are called {self.sim.name!r}: their entries would overwrite each other")
        if self.sim.panel_hash != self.real.panel_hash:
            raise BadInput(
                f"the two worlds show different panels ({self.sim.panel_hash} and {self.real.panel_hash}): their "
                "success cannot be compared"
            )

    def to_json(self) -> dict[str, Any]:
        """Plain data: everything with its counts and intervals."""
        names = (self.sim.name, self.real.name)
        rates = {w.name: Rate(int(w.success.sum()), len(w.success)) for w in (self.sim, self.real)}
        if self.paired:
            success = compare_pairs(self.sim.success, self.real.success, names=names, panel=self.sim.panel_hash)
            both = self.sim.held & self.real.held
            slip_gap = _mean((self.real.slip_rate - self.sim.slip_rate)[both])
        else:
            success = compare_rates(*rates.values(), names=names, panel=self.sim.panel_hash)
            slip_gap = _difference(self.real.slip_rate[self.real.held], self.sim.slip_rate[self.sim.held])
        return {
            "header": asdict(make_header(SCHEMA, producer="transfer")),
            "round": self.round,
            "policy": self.policy,
            "panel": self.sim.panel_hash,
            "assumed": self.assumed.to_json(),
            "assumptions": None if self.assumptions is None else self.assumptions.to_json(),
            "success": {name: rate.as_dict() for name, rate in rates.items()},
            "outcomes": {w.name: w.success.astype(int).tolist() for w in (self.sim, self.real)},
            "paired": self.paired,
            "held": {w.name: Rate(int(w.held.sum()), len(w.held)).as_dict() for w in (self.sim, self.real)},
            "slip_rate": {w.name: _mean(w.slip_rate[w.held]) for w in (self.sim, self.real)},
            "success_gap": {"value": success.difference} | success.as_dict(),
            "slip_gap": slip_gap,
            "timing_gap": _mean(np.zeros(0) if self.timing_gap is None else self.timing_gap),
            "distance": None if self.distance is None else dict(self.distance),
            "first_divergence": [[asdict(d) for d in row] for row in self.divergences],
            "earliest": _earliest(self.divergences),
            "diagnosis": None if self.diagnosis is None else dict(self.diagnosis),
            "signatures": list(self.signatures),
            "actions": list(self.actions),
            "cases": list(self.cases),
            "notes": list(self.notes),
        }

    def save(self, path: str | Path) -> Path:
        """Write as JSON."""
        return write_json(path, self.to_json())


def read_ledger(path: str | Path) -> dict[str, Any]:
    """Read a ledger.

    Raises:
        ArtifactError: missing, damaged, or of another schema.
    """
    return read_object(
        path, "a ledger", schema=SCHEMA, absent=f"`dexprior ledger add {Path(path).parent}` writes a ledger."
    )


def _mean(values: Float[np.ndarray, " n"]) -> dict[str, Any]:
    """Mean with its interval and count; None where nothing was measured."""
    if not len(values):
        return {"value": None, "interval": None, "n": 0}
    mean, low, high = bootstrap_mean(values)
    return {"value": mean, "interval": [low, high], "n": len(values)}


def _difference(first: Float[np.ndarray, " n"], second: Float[np.ndarray, " m"]) -> dict[str, Any]:
    """Difference of two means of unpaired values, with Welch's interval."""
    if min(len(first), len(second)) < 2:
        return {"value": None, "interval": None, "n": 0}
    from scipy.stats import ttest_ind

    low, high = ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    return {"value": float(first.mean() - second.mean()), "interval": [float(low), float(high)],
            "n": min(len(first), len(second))}  # fmt: skip


def _earliest(rows: Sequence[Sequence[Divergence]]) -> dict[str, Any]:
    """How often each channel parted first, and the median time for each."""
    first = [row[0].channel for row in rows if row and row[0].t is not None]
    times: dict[str, list[float]] = {}
    for row in rows:
        for d in row:
            if d.t is not None:
                times.setdefault(d.channel, []).append(d.t)
    return {
        "first": {name: first.count(name) for name in sorted(set(first))},
        "median_t": {name: float(np.median(t)) for name, t in sorted(times.items())},
        "seen": {name: len(t) for name, t in sorted(times.items())},
        "compared": len(rows),
    }
