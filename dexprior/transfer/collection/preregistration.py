"""What will count as a closed gap, written down and hashed before the first trial.

The panel runs the policy before and after on the same instances. Two looks share the error: a sequential McNemar test
that may stop the panel after any pair (at `early`), and the exact McNemar test of the whole panel (at `alpha` -
`early`); by the union bound a difference that is none is claimed with a probability of at most `alpha`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Bool

from dexprior.config import Ge, Gt, Le, Lt, config, to_plain, validate
from dexprior.errors import BadInput
from dexprior.stats import compare_pairs, confidence_sequence, detectable_paired, pairs_differ
from dexprior.transfer.collection.sheet import VERIFY, Trial

__all__ = ["Panel", "Verdict", "judge", "preregister", "preregistration_hash"]

Outcome = Literal["closed", "narrowed", "widened", "undecided"]


@config
class Panel:
    """The verification."""

    pairs: Annotated[int, Ge(5)] = 80
    """Instances, each run by the policy before and after."""
    pair_hours: Annotated[float, Gt(0)] = 0.1
    """Hours of one of them [h]."""
    alpha: Annotated[float, Gt(0), Lt(1)] = 0.05
    """Probability of claiming a difference that is none."""
    early: Annotated[float, Gt(0), Lt(1)] = 0.01
    """The part of it that stopping early may use."""
    power: Annotated[float, Gt(0), Lt(1)] = 0.8
    """Power with which the detectable difference is stated."""
    loss: Annotated[float, Ge(0), Lt(0.5)] = 0.08
    """Share of pairs that are thought to be solved only before."""
    margin: Annotated[float, Gt(0), Le(1)] = 0.15
    """The gap counts as closed where success after is shown to exceed the simulator's less this."""

    @property
    def hours(self) -> float:
        """Hours of the robot [h]."""
        return self.pairs * self.pair_hours


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the panel showed."""

    outcome: Outcome
    pairs: int
    """That were run and count."""
    stopped: int
    """Pairs after which the sequential test decided; 0: it did not."""
    sequential_p: float
    """Valid whenever one looks."""
    comparison: dict[str, Any]
    """After against before: Tango's interval, exact McNemar test (read only where the panel is complete)."""
    after: tuple[float, float]
    """Confidence sequence of the rate after, at its last look."""
    voided: int
    """Pairs that hardware or an operator ended."""


def preregister(panel: Panel, trials: Sequence[Trial], *, sim: float) -> tuple[dict[str, Any], str]:
    """What is promised, as plain data, and its hash.

    Raises:
        BadInput: an `early` that leaves nothing of `alpha`.
    """
    if panel.early >= panel.alpha:
        raise BadInput(f"panel.early = {panel.early}: must be below panel.alpha = {panel.alpha}")
    promised = {
        "question": "does the policy trained with what was collected succeed more often on the robot than before?",
        "panel": to_plain(panel),
        "sim_success": sim,
        "instances": [[t.trial, t.arm, t.instance] for t in trials if t.protocol == VERIFY],
        "tests": {
            "sequential": f"pairs_differ, any look, stop at p <= {panel.early:g}",
            "final": f"exact McNemar of the complete panel, two-sided, at {panel.alpha - panel.early:g}",
            "interval": f"Tango, level {1 - panel.alpha:g}",
        },
        "minimum_detectable_effect": detectable_paired(
            panel.pairs, panel.loss, alpha=panel.alpha - panel.early, power=panel.power
        ),
        "outcomes": {
            "closed": f"more success after, and its confidence sequence lies above {sim - panel.margin:.3f}",
            "narrowed": "more success after",
            "widened": "less success after",
            "undecided": "no test rejects",
        },
        "aborts": "safety counts as failure; hardware and operator void the pair",
        "design": _digest([t.to_json() for t in trials]),
    }
    return promised, preregistration_hash(promised)


def preregistration_hash(promised: Mapping[str, Any]) -> str:
    """SHA-256 of the promise's JSON with sorted keys, in hex."""
    return _digest(promised)


def judge(
    promised: Mapping[str, Any],
    before: Bool[np.ndarray, " pair"],
    after: Bool[np.ndarray, " pair"],
    *,
    voided: int = 0,
) -> Verdict:
    """Apply what was promised to the pairs that were run, in their order.

    Raises:
        BadInput: no pair, or more than were promised.
    """
    panel: Panel = validate(Panel, dict(promised["panel"]), where="preregistration.panel")
    before, after = np.asarray(before, dtype=bool), np.asarray(after, dtype=bool)
    if not 0 < len(before) <= panel.pairs:
        raise BadInput(f"{len(before)} pairs of the verification: 1 to {panel.pairs} were promised")
    evidence = pairs_differ(after, before)
    stopped = int(evidence.stop(panel.early))
    comparison = compare_pairs(after, before, names=("after", "before"), level=1.0 - panel.alpha)
    complete = len(before) + voided >= panel.pairs
    assert comparison.p_value is not None
    assert comparison.pairs is not None
    shown = stopped > 0 or (complete and comparison.p_value <= panel.alpha - panel.early)
    at = stopped or len(before)
    better = int(after[:at].sum()) > int(before[:at].sum())
    low, high = (float(bound[-1]) for bound in confidence_sequence(after, 1.0 - panel.alpha))
    outcome: Outcome = "undecided"
    if shown:
        closed = better and low > float(promised["sim_success"]) - panel.margin
        outcome = "closed" if closed else "narrowed" if better else "widened"
    return Verdict(
        outcome=outcome, pairs=len(before), stopped=stopped, sequential_p=float(evidence.p_value()[-1]),
        comparison=comparison.as_dict(), after=(low, high), voided=voided,
    )  # fmt: skip


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
