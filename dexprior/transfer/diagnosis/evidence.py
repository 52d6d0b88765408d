"""What is known beside the traces: when and where trials failed, and what interventions changed.

Visual, environmental and human gaps leave no signature in a replayed command. They are told by trials that differ in
one thing (an object, the light, a person) and by panels with an intervention: both as Bayes factors of Beta-binomial
models, closed form with uniform priors (Kass and Raftery 1995).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dexprior.errors import BadInput, UnknownName
from dexprior.families import GAPS
from dexprior.stats.posterior import probability_better

__all__ = ["UNKNOWN", "Intervention", "Trial", "prior_of_failures", "support_of_intervention"]

UNKNOWN = "unknown"
"""What none of the six gaps explains."""
Phase = Literal["approach", "contact", "hold", "handover"]
PHASES: dict[Phase, tuple[str, ...]] = {
    "approach": ("visual", "sensor"),
    "contact": ("contact",),
    "hold": ("contact", "object"),
    "handover": ("human",),
}
"""Gaps in which a failure in a phase is looked for first."""
_STRONGEST = 100.0  # no association counts for more
_UNKNOWN_WEIGHT = 0.5  # before anything is known, over that of each gap


@dataclass(frozen=True, kw_only=True)
class Trial:
    """How one trial of the real robot went."""

    success: bool
    phase: Phase | None = None
    """Phase in which it failed; None for a success, or where nobody knows."""
    object: str | None = None
    lighting: str | None = None
    person: bool | None = None
    """Whether somebody took part."""

    def __post_init__(self) -> None:
        if self.phase is not None and self.phase not in PHASES:
            raise UnknownName("phase of a failure", self.phase, tuple(PHASES))
        if self.success and self.phase is not None:
            raise BadInput(f"a trial that succeeded failed in no phase, got {self.phase!r}")


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """A panel run with and without what would close one gap, e.g. under the light of the training images."""

    gap: str
    without: tuple[int, int]
    """Successes and trials as deployed."""
    with_it: tuple[int, int]
    """The same with the intervention."""

    def __post_init__(self) -> None:
        if self.gap not in GAPS:
            raise UnknownName("gap", self.gap, tuple(GAPS))
        for k, n in (self.without, self.with_it):
            if not 0 <= k <= n or n == 0:
                raise BadInput(f"intervention on the {self.gap} gap: {k} successes of {n} trials")


def prior_of_failures(trials: Sequence[Trial]) -> dict[str, float]:
    """Probabilities of the six gaps and of none of them, from how trials failed.

    Each failure adds a share to the gaps of its phase; the gap of objects, of light (visual and environment alike) and
    of people is multiplied by the Bayes factor of success depending on them.
    """
    weight = dict.fromkeys((*GAPS, UNKNOWN), 1.0)
    weight[UNKNOWN] = _UNKNOWN_WEIGHT
    for trial in trials:
        if trial.phase is not None:
            for gap in PHASES[trial.phase]:
                weight[gap] += 1.0 / len(PHASES[trial.phase])
    weight["object"] *= _depends([(t.object, t.success) for t in trials if t.object is not None])
    light = _depends([(t.lighting, t.success) for t in trials if t.lighting is not None])
    weight["visual"] *= light
    weight["environment"] *= light
    weight["human"] *= _depends([(t.person, t.success) for t in trials if t.person is not None])
    total = sum(weight.values())
    return {gap: value / total for gap, value in weight.items()}


def support_of_intervention(panel: Intervention) -> float:
    """Bayes factor of the intervention having helped, against both rates being equal."""
    (k0, n0), (k1, n1) = panel.without, panel.with_it
    apart = _log_marginal(k0, n0) + _log_marginal(k1, n1) + math.log(2 * probability_better(k1, n1, k0, n0))
    return math.exp(apart - _log_marginal(k0 + k1, n0 + n1))


def _depends(outcomes: Iterable[tuple[object, bool]]) -> float:
    """Bayes factor of success depending on a level against one rate for all, between its inverse bound and bound."""
    counts: dict[object, list[int]] = {}
    for level, success in outcomes:
        row = counts.setdefault(level, [0, 0])
        row[0] += success
        row[1] += 1
    if len(counts) < 2:
        return 1.0
    apart = sum(_log_marginal(k, n) for k, n in counts.values())
    together = _log_marginal(sum(k for k, _ in counts.values()), sum(n for _, n in counts.values()))
    return math.exp(max(min(apart - together, math.log(_STRONGEST)), -math.log(_STRONGEST)))


def _log_marginal(k: int, n: int) -> float:
    """Log probability of one sequence of n outcomes with k successes under a uniform rate."""
    return math.lgamma(k + 1) + math.lgamma(n - k + 1) - math.lgamma(n + 2)
