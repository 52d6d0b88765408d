"""Probabilities of the six gaps, by what a cause leaves unexplained, how trials failed and what interventions
changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from dexprior.errors import BadInput
from dexprior.families import GAPS
from dexprior.transfer.diagnosis.causes import CAUSES
from dexprior.transfer.diagnosis.evidence import (
    UNKNOWN,
    Intervention,
    Trial,
    prior_of_failures,
    support_of_intervention,
)
from dexprior.transfer.diagnosis.signatures import SignatureBank
from dexprior.transfer.divergence import Signals

__all__ = ["CALIBRATED", "Calibration", "Diagnosis", "calibrate", "diagnose"]

_SOFT = 0.01  # share of the energy that no model explains anyway
_POWER, _FALSE = 0.95, 0.05  # probability of seeing something in a replay, with a cause in it and without
_TRACELESS = ("visual", "human")
"""Gaps that a replayed command cannot show: nothing looks, and nobody takes part."""


@dataclass(frozen=True)
class Calibration:
    """How residual shares become probabilities: p(cause) ~ prior (share + .01)^-sharpness, unknown as if a cause left
    over `unknown`."""

    sharpness: float
    unknown: float


CALIBRATED = Calibration(sharpness=2.96, unknown=0.122)
"""Fitted on injected causes of the tasks wipe and peg; see docs/measurements/ledger.md."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What explains a difference between simulator and robot."""

    causes: dict[str, float]
    """Probability of each, and of none of them, given the traces alone; empty where they show nothing."""
    gaps: dict[str, float]
    """Probability of each of the six gaps and of `unknown`, given everything."""
    excess: float
    """Energy of the deviation beyond noise and family, in standard deviations."""
    threshold: float
    """What groups of the family reach."""
    unexplained: dict[str, float]
    """Share of that energy which each cause leaves over."""

    @property
    def seen(self) -> bool:
        """Whether the traces show anything."""
        return self.excess > self.threshold

    def ranked(self) -> list[tuple[str, float]]:
        """Gaps, most probable first."""
        return sorted(self.gaps.items(), key=lambda item: -item[1])

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "gaps": self.gaps, "causes": self.causes, "excess": self.excess, "threshold": self.threshold,
            "seen": self.seen,
            "unexplained": self.unexplained,
        }  # fmt: skip


def diagnose(
    bank: SignatureBank,
    real: Signals,
    *,
    trials: Sequence[Trial] = (),
    interventions: Sequence[Intervention] = (),
    calibration: Calibration = CALIBRATED,
) -> list[Diagnosis]:
    """Explain what each group of real repeats did.

    Args:
        bank: signatures of the same probe.
        real: groups of as many repeats.
        trials: of the real robot, beside the replays.
        interventions: panels.
        calibration: of the probabilities.

    Raises:
        BadInput: signals of another probe or with other channels, or another number of repeats.
    """
    if real.panel_hash != bank.probe.panel_hash:
        raise BadInput(f"the traces are of panel {real.panel_hash}, the signatures of {bank.probe.panel_hash}")
    if missing := sorted(set(bank.centre) - set(real.values)):
        raise BadInput(f"the traces lack {', '.join(missing)}, which the signatures have")
    if real.repeats != bank.repeats:
        raise BadInput(f"{real.repeats} repeats are compared with signatures for {bank.repeats}")
    white = bank.whiten(bank.features(real))
    excess, left = bank.excess(white), bank.leftover(white)
    prior = prior_of_failures(trials)
    for panel in interventions:
        prior[panel.gap] *= support_of_intervention(panel)
    found = []
    for g in range(real.groups):
        shares = {name: float(min(left[name][g], 1.0)) for name in left}
        seen = bool(excess[g] > bank.threshold)
        causes = _posterior_of_causes(shares, prior, calibration) if seen else {}
        found.append(
            Diagnosis(
                causes=causes, gaps=_gaps(causes, prior, seen), excess=float(excess[g]), threshold=bank.threshold,
                unexplained=shares,
            )
        )  # fmt: skip
    return found


def calibrate(shares: Float[np.ndarray, "case cause"], truth: Int[np.ndarray, " case"]) -> Calibration:
    """Fit sharpness and threshold by maximum likelihood to cases whose cause is known.

    Every case also counts, a third as much, as one whose cause nobody modelled: its own column is left out.

    Args:
        shares: unexplained by each cause.
        truth: column of the cause.
    """
    from scipy.optimize import minimize

    n = len(truth)
    without = shares.copy()
    without[np.arange(n), truth] = np.inf
    rows = np.concatenate([shares, without])
    answer = np.concatenate([truth, np.full(n, shares.shape[1])])
    weight = np.repeat([1.0, 1.0 / 3.0], n)

    def loss(theta: np.ndarray) -> float:
        sharpness, unknown = np.exp(theta)
        logits = np.concatenate([-np.log(rows + _SOFT), np.full((2 * n, 1), -np.log(unknown + _SOFT))], axis=1)
        logits = sharpness * logits
        logits -= logits.max(axis=1, keepdims=True)
        chosen = logits[np.arange(2 * n), answer] - np.log(np.exp(logits).sum(axis=1))
        return float(-(weight * chosen).sum())

    best = minimize(loss, np.log([3.0, 0.2]), method="Nelder-Mead")
    sharpness, unknown = np.exp(best.x)
    return Calibration(sharpness=float(sharpness), unknown=float(unknown))


def _posterior_of_causes(
    shares: Mapping[str, float], prior: Mapping[str, float], calibration: Calibration
) -> dict[str, float]:
    """A gap's prior is shared evenly among its causes; that of gaps without a signature counts as unknown."""
    count = {gap: sum(CAUSES[name].gap == gap for name in shares) for gap in GAPS}
    weight = {
        name: prior[CAUSES[name].gap] / count[CAUSES[name].gap] * (share + _SOFT) ** -calibration.sharpness
        for name, share in shares.items()
    }
    typical = sum(prior[gap] for gap in GAPS if count[gap]) / max(len(shares), 1)
    weight[UNKNOWN] = prior[UNKNOWN] / _EVEN_UNKNOWN * typical * (calibration.unknown + _SOFT) ** -calibration.sharpness
    total = sum(weight.values())
    return {name: value / total for name, value in weight.items()}


_EVEN_UNKNOWN = prior_of_failures(())[UNKNOWN]


def _gaps(causes: Mapping[str, float], prior: Mapping[str, float], seen: bool) -> dict[str, float]:
    """Gaps that a replay can show share what the causes say; the others count by whether anything was seen."""
    weight = {}
    traced = 1.0 - sum(prior[gap] for gap in _TRACELESS)
    for gap in (*GAPS, UNKNOWN):
        if gap in _TRACELESS:
            weight[gap] = prior[gap] * (_FALSE if seen else 1.0 - _FALSE)
        elif seen:
            named = sum(p for name, p in causes.items() if (UNKNOWN if name == UNKNOWN else CAUSES[name].gap) == gap)
            weight[gap] = traced * _POWER * named
        else:
            weight[gap] = prior[gap] * (1.0 - _POWER)
    total = sum(weight.values())
    return {gap: value / total for gap, value in weight.items()}
