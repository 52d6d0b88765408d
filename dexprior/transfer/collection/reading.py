"""A filled trial sheet read back: checked against its plan, then belief, verdict, and a list of what to train on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.artifacts import make_header, read_object, write_json
from dexprior.behavior import MANIFEST
from dexprior.config import validate
from dexprior.errors import ArtifactError, BadInput
from dexprior.reading import as_described, mapping, text
from dexprior.stats import compare_pairs
from dexprior.transfer.collection.belief import Belief, Contribution, PairCounts
from dexprior.transfer.collection.planning import SCHEMA, PlanConfig, best_next, worth_asking
from dexprior.transfer.collection.preregistration import Verdict, judge, preregistration_hash
from dexprior.transfer.collection.protocols import Protocol, Recorded
from dexprior.transfer.collection.sheet import ABORTS, ARMS, COMPARISON, VERIFY, VERIFY_ARMS, read_sheet

__all__ = ["Reading", "read_back", "read_plan", "write_manifest"]

_SHOWN = 5  # of a list in a message


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a filled sheet says."""

    counts: dict[str, PairCounts]
    """Counts by protocol."""
    voided: dict[str, int]
    """Pairs that hardware or an operator ended, by protocol."""
    before: Belief
    after: Belief
    comparisons: dict[str, dict[str, Any]]
    """Comparison with what was collected against it, by protocol: Tango's interval, exact McNemar test."""
    verdict: Verdict | None
    """None: no pair of the verification was run."""
    episodes: tuple[dict[str, str], ...]
    """Successful runs outside the verification: trial, protocol, file."""
    unrun: int
    """Pairs that were not run."""
    promise: dict[str, float]
    """Information about the closable gap that each protocol promises now [nat/h], largest first: run the next pairs of
    the first, as a campaign that follows its outcomes needs fewer than one that follows its plan."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        from dexprior.families import GAPS

        def described(belief: Belief) -> dict[str, Any]:
            return {
                "mean": belief.mean, "interval": list(belief.interval()), "width": belief.width(),
                "contributions": {gap: belief.contribution(gap) for gap in GAPS},
            }  # fmt: skip

        return {
            "header": asdict(make_header("dexprior.collection_result/1", producer="ledger plan")),
            "counts": {name: asdict(c) for name, c in self.counts.items()},
            "voided": self.voided,
            "unrun": self.unrun,
            "information_nat_per_hour": self.promise,
            "closable_gap": {"before": described(self.before), "after": described(self.after)},
            "comparisons": self.comparisons,
            "verdict": None if self.verdict is None else asdict(self.verdict),
        }


def read_plan(path: str | Path, *, registered: str | None = None) -> dict[str, Any]:
    """Read a `plan.json` and check its promise.

    Args:
        path: of the file.
        registered: the hash that was published before the first trial, or its beginning.

    Raises:
        ArtifactError: missing, damaged, of another schema, or with a preregistration that was changed.
    """
    plan = read_object(path, "a collection plan", schema=SCHEMA, absent="Make a plan with `dexprior ledger plan`.")
    with as_described("a collection plan", path, ArtifactError):
        promised, trials = mapping(plan["preregistration"], f"{path}: preregistration"), plan["trials"]
        digest, design = text(plan["preregistration_hash"], f"{path}: preregistration_hash"), promised["design"]
        mapping(plan["inputs"], f"{path}: inputs")
        _belief(plan)
        _protocols(plan)
    if preregistration_hash(promised) != digest:
        raise ArtifactError(f"{path}: its preregistration was edited: it no longer has the hash {digest[:16]}")
    if hashlib.sha256(json.dumps(trials, sort_keys=True).encode()).hexdigest() != design:
        raise ArtifactError(f"{path}: its trials were edited: they are not those that were preregistered")
    if registered is not None and (len(registered) < 8 or not digest.startswith(registered)):
        raise ArtifactError(f"{path} has the preregistration {digest[:16]}, {registered!r} was published")
    return plan


def read_back(plan: Mapping[str, Any], sheet: str | Path, *, partial: bool = False) -> Reading:
    """Check a filled sheet against its plan and evaluate it.

    Args:
        plan: of `read_plan`.
        sheet: the CSV.
        partial: whether pairs of which neither run has a result may remain. In the verification they may in any case
            once the sequential test has decided.

    Raises:
        BadInput: trials that are unknown, missing, twice there or edited; results that are missing or impossible; arms
            of unequal size.
    """
    rows = read_sheet(sheet)
    design = {t["trial"]: t for t in plan["trials"]}
    _check_design(rows, design, sheet)
    results = {row["trial"]: _result(row, sheet) for row in rows}
    pairs: dict[str, list[str]] = {}
    for trial in design.values():
        names = pairs.setdefault(trial["protocol"], [])
        if trial["pair"] not in names:
            names.append(trial["pair"])
    members = {(t["pair"], t["arm"]): t["trial"] for t in design.values()}
    counts, voided, run, blank, comparisons = {}, {}, {}, {}, {}
    for protocol, names in pairs.items():
        arms = [a for a in (*ARMS, COMPARISON, *VERIFY_ARMS) if (names[0], a) in members]
        outcome = [[results[members[n, arm]] for arm in arms] for n in names]
        _check_arms(protocol, names, outcome, arms, sheet)
        blank[protocol] = [n for n, pair in zip(names, outcome) if all(x is None for x in pair)]
        voided[protocol] = sum("void" in pair for pair in outcome)
        valid = [pair for pair in outcome if all(x in (0, 1) for x in pair)]
        run[protocol] = np.array(valid, dtype=bool).reshape(-1, len(arms))
        without, having, *third = run[protocol].T
        if third:
            comparison = compare_pairs(having, third[0], names=("with", COMPARISON))
            comparisons[protocol] = comparison.as_dict()
        counts[protocol] = PairCounts(int((having & ~without).sum()), int((without & ~having).sum()), len(without))
    verdict = None
    if len(run[VERIFY]):
        verdict = judge(plan["preregistration"], *run[VERIFY].T, voided=voided[VERIFY])
    stopped = verdict is not None and verdict.stopped > 0
    missing = [n for protocol, names in blank.items() if not (protocol == VERIFY and stopped) for n in names]
    if missing and not partial:
        raise BadInput(f"{sheet}: no result of {_some(missing)}; partial=true reads a campaign that goes on")
    before = _belief(plan)
    protocols = _protocols(plan)
    measured: dict[str, PairCounts] = {}
    for protocol, c in counts.items():
        if protocol != VERIFY:
            gap = protocols[protocol].gap
            measured[gap] = measured.get(gap, PairCounts(0, 0, 0)) + c
    after = before.updated(measured)
    opened = {name for name, c in counts.items() if c.n}
    informative = worth_asking(plan["inputs"]["probabilities"], protocols)
    rates = best_next(after, informative or protocols, opened, _settings(plan))[1]
    episodes = tuple(
        {"trial": row["trial"], "protocol": row["protocol"], "file": row["episode"]}
        for row in rows
        if row["protocol"] != VERIFY and results[row["trial"]] == 1 and row["episode"]
    )
    return Reading(
        counts=counts, voided=voided, before=before, after=after,
        comparisons=comparisons, verdict=verdict,
        episodes=episodes, unrun=sum(map(len, blank.values())),
        promise=dict(sorted(rates.items(), key=lambda item: -item[1])),
    )  # fmt: skip


def write_manifest(reading: Reading, recordings: str | Path, out: str | Path, *, init: str | None = None) -> Path:
    """Write `train.json`: the folder, and the episodes in it to train on, each with its checksum.

    They are the successful runs of the sheet, and the collections themselves, `recordings/PROTOCOL/*.mcap`.
    Runs of the verification are never among them.

    Args:
        reading: of the sheet.
        recordings: folder that the sheet's paths start from.
        out: the file.
        init: the policy that training starts from.

    Raises:
        ArtifactError: an episode that is not there.
        BadInput: a path that leaves the folder, an episode that two trials name, or one of the verification.
    """
    folder = Path(recordings).resolve()
    if not folder.is_dir():
        raise ArtifactError(f"{recordings}: no such folder of recordings")
    listed = [dict(row) for row in reading.episodes]
    named = [row["file"] for row in listed]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise BadInput(f"episodes that several trials name: {_some(twice)}")
    for protocol in reading.counts:
        if protocol != VERIFY:
            for path in sorted((folder / protocol).glob("*.mcap")):
                name = path.relative_to(folder).as_posix()
                if name not in named:
                    listed.append({"trial": "", "protocol": protocol, "file": name})
    for row in listed:
        path = (folder / row["file"]).resolve()
        if not path.is_relative_to(folder):
            raise BadInput(f"episode {row['file']!r} of {row['trial']} lies outside {folder}")
        if path.relative_to(folder).parts[0] == VERIFY:
            raise BadInput(f"episode {row['file']!r} of {row['trial']} belongs to the verification: not to train on")
        if not path.is_file():
            raise ArtifactError(f"episode {row['file']!r} of {row['trial']}: no such file in {folder}")
        with path.open("rb") as stream:
            row["sha256"] = hashlib.file_digest(stream, "sha256").hexdigest()
    checksum = hashlib.sha256("".join(f"{r['file']}\0{r['sha256']}\n" for r in listed).encode()).hexdigest()
    return write_json(
        out,
        {
            "header": asdict(make_header(MANIFEST, producer="ledger plan")),
            "init": init,
            "folder": str(folder),
            "episodes": listed,
            "checksum": checksum,
        },
    )


def _belief(plan: Mapping[str, Any]) -> Belief:
    given, settings = plan["inputs"], _settings(plan)
    return Belief.from_diagnosis(
        given["probabilities"], {k: Contribution(**c) for k, c in given["contributions"].items()},
        quiet=settings.quiet, trust=settings.trust, measured=settings.measured(),
    )  # fmt: skip


def _protocols(plan: Mapping[str, Any]) -> dict[str, Protocol]:
    return {
        name: Protocol(**p | {"records": tuple(Recorded(**r) for r in p["records"]), "requires": tuple(p["requires"])})
        for name, p in plan["inputs"]["protocols"].items()
    }


def _settings(plan: Mapping[str, Any]) -> PlanConfig:
    return validate(PlanConfig, dict(plan["inputs"]["settings"]), where="plan.inputs.settings")


def _check_design(rows: Sequence[Mapping[str, str]], design: Mapping[str, Any], sheet: str | Path) -> None:
    ids = [row["trial"] for row in rows]
    unknown = [name for name in ids if name not in design]
    if unknown:
        raise BadInput(f"{sheet}: trials that the plan does not have: {_some(unknown)}")
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise BadInput(f"{sheet}: trials that stand there twice: {_some(twice)}")
    lost = [name for name in design if name not in set(ids)]
    if lost:
        raise BadInput(f"{sheet}: trials of the plan that are missing: {_some(lost)}")
    for row in rows:
        planned = design[row["trial"]]
        for column, value in planned.items():
            shown = "; ".join(f"{k}={v}" for k, v in value.items()) if column == "conditions" else str(value)
            if row[column] != shown:
                raise BadInput(f"{sheet}: trial {row['trial']}: {column} is {row[column]!r}, planned was {shown!r}")


def _result(row: Mapping[str, str], sheet: str | Path) -> int | str | None:
    """1, 0, "void", or None where nothing was entered."""
    success, abort = row["success"], row["abort"]
    if abort not in ("", *ABORTS):
        raise BadInput(f"{sheet}: trial {row['trial']}: abort = {abort!r}; choices: {', '.join(ABORTS)}")
    if success not in ("", "0", "1"):
        raise BadInput(f"{sheet}: trial {row['trial']}: success = {success!r}; choices: 0, 1, or empty if voided")
    if abort in ("hardware", "operator"):
        if success:
            raise BadInput(f"{sheet}: trial {row['trial']}: ended by {abort} and success = {success}: leave it empty")
        return "void"
    if abort == "safety" and success != "0":
        raise BadInput(f"{sheet}: trial {row['trial']}: a safety stop is a failure, success = {success!r}: enter 0")
    if not success:
        if abort == "none":
            raise BadInput(f"{sheet}: trial {row['trial']}: abort = 'none' but no success: choices: 0, 1")
        return None
    return int(success)


def _check_arms(
    protocol: str,
    names: Sequence[str],
    outcome: Sequence[Sequence[int | str | None]],
    arms: Sequence[str],
    sheet: str | Path,
) -> None:
    half = [
        f"{name} (no result {', '.join(arm for arm, x in zip(arms, pair) if x is None)})"
        for name, pair in zip(names, outcome)
        if None in pair and any(x is not None for x in pair) and "void" not in pair
    ]
    if half:
        sizes = [f"{sum(pair[i] is not None for pair in outcome)} {arm}" for i, arm in enumerate(arms)]
        raise BadInput(
            f"{sheet}: unequal arms of {protocol}: {', '.join(sizes)}; pairs without a partner: {_some(half)}"
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
