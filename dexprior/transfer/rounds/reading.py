"""What was filled in by hand: `round.yaml` and `trials.csv`, checked line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import yaml

from dexprior.artifacts import write_atomic
from dexprior.config import config, to_plain, validate
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.reading import read_csv, read_yaml, to_number
from dexprior.transfer.assumptions import MEANINGS, Assumptions
from dexprior.transfer.diagnosis import Trial
from dexprior.transfer.diagnosis.evidence import PHASES, Phase
from dexprior.transfer.ledger import Ledger, WorldResult

__all__ = ["COLUMNS", "Round", "RoundConfig", "read_round", "write_template"]

COLUMNS: dict[str, str] = {
    "world": "name of the world, as in round.yaml",
    "instance": "name or number of the task instance; the same in both worlds means the same scene",
    "success": "1 or 0",
    "held": "1 where the object was held at any time, 0 where not; empty: as success",
    "slip_rate": "share of the held time in which it slipped, 0 to 1; empty: not measured",
    "seconds": "until success; empty: not measured",
    "phase": f"in which it failed: {', '.join(PHASES)}; empty: a success, or unknown",
    "object": "which object; empty: one for all",
    "lighting": "which light; empty: one for all",
    "person": "1 where somebody took part; empty: nobody",
    "trace": "MCAP file of the trial, relative to this folder; empty: none",
}
"""Columns of trials.csv, in order."""
_NEEDED = ("world", "instance", "success")


@config
class RoundConfig:
    """What `round.yaml` holds."""

    round: str
    """Name of the round, e.g. 1."""
    policy: str
    """What acted."""
    task: str = ""
    """What it did."""
    panel: str
    """Hash or name of the set of task instances."""
    sim: str = "simulator"
    """Name of the simulated world in trials.csv."""
    real: str = "robot"
    """Name of the real one."""
    family: str | None = None
    """JSON file of the parameter family that the simulator assumed, relative to this folder."""
    assumptions: Assumptions = Assumptions()
    """What the simulator assumed of friction, delay, compliance and tactile noise."""
    reference: str | None = None
    """Folder of simulated traces over the family, one folder an instance; for first divergences."""
    probe: str | None = None
    """JSON of a probe, as `dexprior ledger probe` writes it; for a diagnosis."""
    replays: str | None = None
    """Folder with MCAP traces of the robot that replayed the probe, two or more."""
    actions: tuple[str, ...] = ()
    """What was done since the last round, a sentence each."""
    notes: tuple[str, ...] = ()
    """Anything that a reader must know."""


@dataclass(frozen=True)
class Round:
    """A round as it was read."""

    settings: RoundConfig
    ledger: Ledger
    trials: tuple[Trial, ...]
    """Trials of the real world."""
    traces: Mapping[str, Mapping[str, Path]]
    """Trace files by world and instance."""
    family: ParameterFamily | None
    """What the simulator assumed, where it is stated."""


def write_template(folder: str | Path, given: Mapping[str, Any] | None = None) -> tuple[Path, Path]:
    """Write `round.yaml` and `trials.csv`.

    Args:
        folder: of the round.
        given: settings that are known already.

    Raises:
        BadInput: one of them exists.
    """
    folder = Path(folder)
    paths = folder / "round.yaml", folder / "trials.csv"
    for path in paths:
        if path.exists():
            raise BadInput(
                f"{path} exists; choose another folder, or fill it in and run `dexprior ledger add {folder}`"
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(paths[0], _template(given or {}).encode())
    write_atomic(paths[1], (",".join(COLUMNS) + "\n").encode())
    return paths


def read_round(folder: str | Path) -> Round:
    """Read a folder that was filled in.

    Raises:
        BadInput: a file is missing or malformed, a column, a world or an outcome is; each with its line.
    """
    folder = Path(folder)
    settings = _read_settings(folder / "round.yaml")
    rows = _read_trials(folder / "trials.csv", settings)
    sides = {name: [row for row in rows if row["world"] == name] for name in (settings.sim, settings.real)}
    notes = list(settings.notes)
    names = [[row["instance"] for row in side] for side in sides.values()]
    paired = sorted(names[0]) == sorted(names[1]) and all(len(set(n)) == len(n) for n in names)
    if paired:
        sides = {name: sorted(side, key=lambda row: row["instance"]) for name, side in sides.items()}
    else:
        only = sorted(set(names[0]) ^ set(names[1]))
        notes.append(
            "The two worlds were not tried on the same instances"
            + (f" ({', '.join(only[:5])}{' and others' if len(only) > 5 else ''} in one of them only)" if only else "")
            + ": rates are compared unpaired, which needs more trials for the same certainty."
        )
    worlds = {name: _world(name, side, settings.panel) for name, side in sides.items()}
    trials = tuple(_trial(row) for row in sides[settings.real])
    family = None if settings.family is None else _family(folder / settings.family)
    assumed = family or ParameterFamily("not stated", ())
    traces = {name: {r["instance"]: folder / r["trace"] for r in side if r["trace"]} for name, side in sides.items()}
    for path in (path for side in traces.values() for path in side.values()):
        if not path.is_file():
            raise BadInput(f"{folder / 'trials.csv'} names the trace {path}, which does not exist")
    ledger = Ledger(
        round=settings.round, policy=settings.policy, assumed=assumed, sim=worlds[settings.sim],
        real=worlds[settings.real], divergences=(), notes=tuple(notes), paired=paired, actions=settings.actions,
        signatures=_signatures(trials), timing_gap=_late(sides, settings) if paired else None,
        cases=_cases(sides, settings) if paired else (), assumptions=settings.assumptions,
    )  # fmt: skip
    return Round(settings, ledger, trials, traces, family)


def _template(given: Mapping[str, Any]) -> str:
    lines = ["# A transfer round: what the simulator promised, what the robot did, and what was done about it.", ""]
    example: dict[str, Any] = {"round": "1", "policy": "", "panel": ""} | dict(given)
    for name, field in RoundConfig.__dataclass_fields__.items():
        plain = to_plain(example.get(name, None if name in example else field.default))
        if isinstance(plain, dict):
            lines.append(f"{name + ':':32s}# {_DOCS[name]}")
            lines += [f"{f'  {part}: {_flow(value)}':32s}# {MEANINGS[part]}" for part, value in plain.items()]
        else:
            lines.append(f"{f'{name}: {_flow(plain)}':32s}# {_DOCS[name]}")
    lines += ["", "# trials.csv has one line a trial. Columns:"]
    lines += [f"#   {name:10s} {what}" for name, what in COLUMNS.items()]
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=_LINE).splitlines()[0]


_LINE = 1_000_000  # characters, before YAML breaks a list
_DOCS = {
    "round": "name of the round", "policy": "what acted", "task": "what it did",
    "panel": "hash or name of the set of task instances", "sim": "name of the simulated world in trials.csv",
    "real": "name of the real one", "family": "JSON of the parameter family that the simulator assumed",
    "assumptions": "the simulator's; null is not stated, else {value: 0.8, range: [0.6, 1.0], provenance: measured}, "
    "or fitted, or assumed",
    "reference": "folder of simulated traces over the family, one folder an instance",
    "probe": "probe that the robot replayed, from `dexprior ledger probe`",
    "replays": "folder of MCAP traces of these replays",
    "actions": "what was done since the last round, a sentence each", "notes": "anything that a reader must know",
}  # fmt: skip


def _read_settings(path: Path) -> RoundConfig:
    if not path.is_file():
        raise BadInput(f"{path} does not exist; `dexprior ledger new {path.parent}` writes one to fill in")
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise BadInput(f"{path} holds no settings")
    settings = validate(RoundConfig, data, where=str(path))
    for name in ("round", "policy", "panel"):
        if not getattr(settings, name).strip():
            raise BadInput(f"{path}: {name} is empty")
    if (settings.probe is None) != (settings.replays is None):
        raise BadInput(f"{path}: probe = {settings.probe!r} and replays = {settings.replays!r}; give both, or neither")
    if settings.sim == settings.real:
        raise BadInput(f"{path}: both worlds are called {settings.sim!r}")
    return settings


def _read_trials(path: Path, settings: RoundConfig) -> list[dict[str, Any]]:
    if not path.is_file():
        raise BadInput(f"{path} does not exist; `dexprior ledger new {path.parent}` writes one to fill in")
    table = read_csv(path)
    if not table.rows:
        raise BadInput(f"{path} holds no trial: the success gap is not testable")
    head = table.columns
    if missing := [name for name in _NEEDED if name not in head]:
        raise BadInput(f"{path} has no column {missing[0]!r}; it has {', '.join(str(h) for h in head)}")
    if unknown := [name for name in head if name not in COLUMNS]:
        raise BadInput(f"{path} has an unknown column {unknown[0]!r}; choices: {', '.join(COLUMNS)}")
    rows = []
    for number, line in zip(table.lines, table.records()):
        row: dict[str, Any] = {name: line.get(name, "") for name in COLUMNS}
        where = f"{path}, line {number}"
        if row["world"] not in (settings.sim, settings.real):
            raise BadInput(f"{where}: world {row['world']!r}; choices: {settings.sim}, {settings.real}")
        if row["phase"] and row["phase"] not in PHASES:
            raise BadInput(f"{where}: phase {row['phase']!r}; choices: {', '.join(PHASES)}, or empty")
        row["success"] = _flag(row["success"], where, "success")
        if row["success"] is None:
            raise BadInput(f"{where}: success is empty; every trial has an outcome, or is no trial")
        if row["success"] and row["phase"]:
            raise BadInput(f"{where}: a success that failed in the phase {row['phase']!r}")
        row["held"] = _flag(row["held"], where, "held")
        row["person"] = _flag(row["person"], where, "person")
        row["slip_rate"] = _number(row["slip_rate"], where, "slip_rate", 1.0)
        row["seconds"] = _number(row["seconds"], where, "seconds", np.inf)
        rows.append(row)
    for name in (settings.sim, settings.real):
        if not any(row["world"] == name for row in rows):
            raise BadInput(f"{path} holds no trial of {name!r}: the success gap is not testable")
    return rows


def _flag(text: str, where: str, name: str) -> bool | None:
    if text not in ("", "0", "1"):
        raise BadInput(f"{where}: {name} = {text!r}; choices: 1, 0" + ("" if name == "success" else ", or empty"))
    return None if text == "" else text == "1"


def _number(text: str, where: str, name: str, most: float) -> float:
    if text == "":
        return np.nan
    try:
        value = to_number(text)
    except ValueError:
        raise BadInput(f"{where}: {name} = {text!r} is no number") from None
    if not 0.0 <= value <= most:
        raise BadInput(f"{where}: {name} = {text} lies outside 0..{most:g}")
    return value


def _world(name: str, rows: Sequence[Mapping[str, Any]], panel: str) -> WorldResult:
    success = np.array([row["success"] for row in rows])
    held = np.array([row["success"] if row["held"] is None else row["held"] for row in rows], dtype=bool)
    slip = np.array([row["slip_rate"] for row in rows])
    return WorldResult(name, success, np.nan_to_num(slip), held & np.isfinite(slip), panel)


def _trial(row: Mapping[str, Any]) -> Trial:
    return Trial(
        success=row["success"], phase=cast(Phase | None, row["phase"] or None), object=row["object"] or None,
        lighting=row["lighting"] or None, person=row["person"],
    )  # fmt: skip


def _family(path: Path) -> ParameterFamily:
    if not path.is_file():
        raise BadInput(f"no parameter family at {path}")
    return ParameterFamily.read(path)


def _signatures(trials: Sequence[Trial]) -> tuple[str, ...]:
    """Signatures of the failures: in which phase, with which object, under which light."""
    failed = [t for t in trials if not t.success]
    found = []
    for name in ("phase", "object", "lighting"):
        counts = Counter(getattr(t, name) for t in failed if getattr(t, name) is not None)
        tried = Counter(getattr(t, name) for t in trials if getattr(t, name) is not None)
        for value, k in counts.most_common():
            of = len(failed) if name == "phase" else tried[value]
            found.append(f"{name} {value}: {k} of {of} {'failures' if name == 'phase' else 'trials failed'}")
    return tuple(found)


def _late(sides: Mapping[str, Sequence[Mapping[str, Any]]], settings: RoundConfig) -> np.ndarray:
    """Seconds by which the robot was later, where both succeeded."""
    late = [
        real["seconds"] - sim["seconds"]
        for sim, real in zip(sides[settings.sim], sides[settings.real])
        if sim["success"] and real["success"]
    ]
    return np.array([value for value in late if np.isfinite(value)])


def _cases(sides: Mapping[str, Sequence[Mapping[str, Any]]], settings: RoundConfig) -> tuple[str, ...]:
    """Instances that the simulator solves and the robot does not."""
    return tuple(
        sim["instance"]
        for sim, real in zip(sides[settings.sim], sides[settings.real])
        if sim["success"] and not real["success"]
    )
