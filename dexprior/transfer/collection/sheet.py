"""The trial sheet: who runs what in which order, with empty columns for what happened.

Combinations of conditions come in rounds: each occurs once before any occurs again. Their order within a round and the
order of the runs within a pair are random. Blocks are days' work of ten pairs. Protocols follow the plan, as a
collection comes before its pairs.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.artifacts import write_atomic
from dexprior.errors import ArtifactError
from dexprior.reading import read_csv
from dexprior.transfer.collection.protocols import Protocol

__all__ = [
    "ABORTS",
    "ARMS",
    "BLOCK",
    "COMPARISON",
    "RESULTS",
    "VERIFY",
    "VERIFY_ARMS",
    "Trial",
    "make_trials",
    "read_sheet",
    "write_sheet",
]

VERIFY = "verify"
"""Name that the verification panel has in the sheet."""
ABORTS = ("none", "safety", "hardware", "operator")
"""Why a run ended early. `safety` is a failure of the policy; `hardware` and `operator` void the pair."""
RESULTS = {
    "success": "0|1, empty if hardware or operator",
    "abort": "|".join(ABORTS),
    "episode": "path of the MCAP file, below the recordings",
    "note": "free text",
}
"""Columns that the team fills in, and what they may hold."""
ARMS, VERIFY_ARMS, COMPARISON = ("without", "with"), ("before", "after"), "comparison"
BLOCK = 10
"""Pairs in a block."""
_DESIGN = ("order", "trial", "block", "protocol", "pair", "arm", "partner", "instance", "conditions")


@dataclass(frozen=True)
class Trial:
    """One run of a robot."""

    order: int
    """Place in the campaign, from 1."""
    trial: str
    block: str
    protocol: str
    pair: str
    arm: str
    """`without` or `with` what the protocol collects, or `comparison`; `before` or `after` in the verification."""
    partner: str
    """The trial of the same pair that it is compared with."""
    instance: int
    """Seed of the task's instance: the same for both runs of a pair."""
    conditions: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {name: getattr(self, name) for name in _DESIGN}

    def row(self) -> list[str]:
        """Cells of the sheet."""
        conditions = "; ".join(f"{k}={v}" for k, v in self.conditions.items())
        return [str(getattr(self, name)) for name in _DESIGN[:-1]] + [conditions]


def make_trials(pairs: Sequence[tuple[Protocol, int]], panel: int, seed: int) -> tuple[Trial, ...]:
    """The design.

    Args:
        pairs: protocols in the order in which they are run, with their pairs.
        panel: pairs of the verification, which comes last.
        seed: of all that is random.
    """
    trials: list[Trial] = []
    plans = [(p.name, p.conditions, n, ARMS + (COMPARISON,) * bool(p.comparison)) for p, n in pairs]
    for place, (name, conditions, n, arms) in enumerate([*plans, (VERIFY, {}, panel, VERIFY_ARMS)]):
        rng = np.random.default_rng([seed, place])
        keys = list(conditions)
        cells = list(itertools.product(*conditions.values()))
        rounds = [rng.permutation(len(cells)) for _ in range(-(-n // len(cells)))]
        which = np.concatenate(rounds)[:n] if n else np.zeros(0, dtype=int)
        instances = rng.choice(2**31, size=n, replace=False)
        for k in range(n):
            pair = f"{name}-{k + 1:03d}"
            ids = {arm: f"{pair}-{'abc'[i]}" for i, arm in enumerate(arms)}
            for i in rng.permutation(len(arms)):
                trials.append(
                    Trial(
                        order=len(trials) + 1, trial=ids[arms[i]], block=f"{name}-block-{k // BLOCK + 1}",
                        protocol=name, pair=pair, arm=arms[i], partner=ids[arms[0 if i == 1 else 1]],
                        instance=int(instances[k]), conditions=dict(zip(keys, cells[which[k]])),
                    )
                )  # fmt: skip
    return tuple(trials)


def write_sheet(trials: Sequence[Trial], path: str | Path) -> Path:
    """Write `trials.csv`."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*_DESIGN, *(f"{name} [{what}]" for name, what in RESULTS.items())])
    writer.writerows([*trial.row(), *("" for _ in RESULTS)] for trial in trials)
    return write_atomic(path, stream.getvalue().encode())


def read_sheet(path: str | Path) -> list[dict[str, str]]:
    """Rows of a sheet by column; what stands in brackets in the header is left out, spaces around cells too.

    Raises:
        ArtifactError: no such file.
        BadInput: a column that is missing, or a row of another length.
    """
    if not Path(path).exists():
        raise ArtifactError(f"{path}: no such trial sheet")
    table = read_csv(path)
    table = replace(table, columns=[name.partition("[")[0].strip() for name in table.columns])
    table.needs((*_DESIGN, *RESULTS))
    return table.records()
