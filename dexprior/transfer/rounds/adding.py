"""What was filled in becomes a ledger: traces compared, failures explained, a page."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dexprior.artifacts import file_hash, write_json
from dexprior.data.traces import read_trace
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.transfer.diagnosis import (
    CAUSES,
    BankConfig,
    Diagnosis,
    SignatureBank,
    completed,
    diagnose,
    inject_cause,
    prior_of_failures,
)
from dexprior.transfer.divergence import (
    Divergence,
    DivergenceConfig,
    DivergenceDetector,
    Signals,
    distance,
    draw_divergence,
    groups_needed,
    signals_of,
)
from dexprior.transfer.page import Page, ledger_section
from dexprior.transfer.replay import CHANNELS, Probe
from dexprior.transfer.rounds.reading import Round, read_round
from dexprior.types import Channel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPLANATION", "Replays", "add_round", "evidence_hash", "explain_replays", "read_replays"]

EXPLANATION = "explanation.json"
"""File of a round's diagnosis with its causes."""


@dataclass(frozen=True)
class Replays:
    """A probe, replayed."""

    real: Signals
    """One group."""
    simulated: Signals
    """Groups of the family."""


@dataclass(frozen=True)
class _Compared:
    """Real signals against those of the family."""

    what: str
    found: tuple[Divergence, ...]
    distance: dict[str, float]
    figure: Figure

    @classmethod
    def of(cls, what: str, family: Signals, real: Signals, config: DivergenceConfig, seed: int) -> _Compared:
        detector = DivergenceDetector.fit(family, config)
        found = tuple(detector.compare(real, seed=seed)[0])
        return cls(what, found, distance(real, family), draw_divergence(detector, real, found))


def add_round(
    folder: str | Path,
    *,
    divergence: DivergenceConfig | None = None,
    bank: BankConfig | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Read a round, compare its traces, explain its failures; write ledger.json, ledger.html, diagnosis.json beside it,
    and explanation.json where a probe was replayed.

    Traces of an instance are compared where there are enough simulated ones of it; where not, the ledger says so.
    Replays of a probe are compared with replays simulated here over the round's family, and explained. What that family
    does not name is taken as `identified`.

    Raises:
        BadInput: what `read_round` and `first_divergence` refuse.
        ArtifactError: a trace that cannot be read.
    """
    folder = Path(folder)
    found = read_round(folder)
    compared: list[_Compared] = []
    notes = list(found.ledger.notes)
    if found.settings.reference is not None:
        compared, more = _compare_instances(folder / found.settings.reference, found, divergence, seed)
        notes += more
    diagnosis = prior_of_failures(found.trials)
    if found.settings.probe is not None and found.settings.replays is not None:
        looked = divergence or DivergenceConfig()
        logged, explained, said = explain_replays(folder, found, divergence=looked, bank=bank, seed=seed)
        compared.append(_Compared.of("Replays of the probe", logged.simulated, logged.real, looked, seed))
        diagnosis = explained.gaps
        notes.append(said)
    measured_in = sorted({name for c in compared for name in c.distance})
    mean = {name: float(np.mean([c.distance[name] for c in compared if name in c.distance])) for name in measured_in}
    ledger = replace(
        found.ledger, divergences=tuple(c.found for c in compared), distance=mean or None, notes=tuple(notes),
        diagnosis=diagnosis,
    )  # fmt: skip
    ledger.save(folder / "ledger.json")
    write_json(folder / "diagnosis.json", diagnosis)  # what `ledger plan` begins with
    data = ledger.to_json()
    page = Page("Transfer ledger", f"Round {data['round']}: what the simulator promised, and what the robot did")
    ledger_section(page, data)
    for c in compared:
        page.figure(c.figure, f"{c.what}: two standard deviations of the simulated family, and what the robot did")
    page.write(folder / "ledger.html")
    return data


def _compare_instances(
    reference: Path, found: Round, divergence: DivergenceConfig | None, seed: int
) -> tuple[list[_Compared], list[str]]:
    """Real traces against simulated ones of the same instance, and what could not be compared."""
    config = divergence or DivergenceConfig(timing="")  # a policy reacts: its command has no phase to be late in
    compared, notes = [], []
    for instance, path in found.traces[found.settings.real].items():
        simulated = sorted((reference / instance).glob("*.mcap"))
        real = read_trace(path)
        channels = [name for name, c in real.channels.items() if c.kind == "measured"]
        needed = groups_needed(len(channels), config)
        if len(simulated) < needed:
            notes.append(
                f"Instance {instance}: first divergence not testable, {len(simulated)} simulated traces of "
                f"{needed} that {len(channels)} channels need."
            )
            continue
        family = signals_of([[read_trace(p)] for p in simulated], channels)
        measured = signals_of([[real]], channels, like=family)
        compared.append(_Compared.of(f"Instance {instance}", family, measured, config, seed))
        notes += [f"Instance {instance}: {note}." for note in measured.notes]
    return compared, notes


def evidence_hash(folder: Path, found: Round) -> str:
    """Hash of what an explanation rests on: the round's family and probe, and every replay of it."""
    named = [folder / name for name in (found.settings.family, found.settings.probe) if name is not None]
    replays = [] if found.settings.replays is None else sorted((folder / found.settings.replays).glob("*.mcap"))
    return hashlib.sha256("".join(file_hash(path) for path in (*named, *replays)).encode()).hexdigest()[:16]


def read_replays(
    probe: Probe, folder: Path, family: ParameterFamily, *, config: DivergenceConfig | None = None, seed: int
) -> Replays:
    """Read a robot's replays of a probe, and simulate some of the family: by default one, whose clock they are read by.

    Args:
        probe: what was replayed.
        folder: of two or more MCAP traces.
        family: of `completed`.
        config: how a divergence is looked for, with as many groups as it needs.
        seed: of the simulated ones.

    Raises:
        BadInput: fewer than two traces, no channel of a replay in common, and what `signals_of` refuses.
    """
    paths = sorted(folder.glob("*.mcap"))
    if len(paths) < 2:
        raise BadInput(f"{folder} holds {len(paths)} MCAP trace(s); a diagnosis needs two repeats or more")
    traces = [replace(read_trace(path), panel_hash=probe.panel_hash) for path in paths]
    channels = [name for name in CHANNELS if all(name in trace.channels for trace in traces)]
    if not channels:
        raise BadInput(f"{paths[0]} has the channels {', '.join(traces[0].channels)}; a replay: {', '.join(CHANNELS)}")
    groups = 1 if config is None else groups_needed(len(channels) + 1, config)
    values = family.sample(np.random.default_rng(seed), groups)
    simulated = inject_cause(probe, None, values, np.ones(groups), repeats=len(traces), seed=seed).only(channels)
    t, q = probe.commands(family)
    command = Channel(t=t, t_host=t, value=q, unit="rad", frame="-", kind="commanded")
    real = signals_of([traces], channels, like=simulated, reference=command)
    return Replays(real, simulated)


def explain_replays(
    folder: str | Path,
    found: Round,
    *,
    divergence: DivergenceConfig | None = None,
    bank: BankConfig | None = None,
    seed: int,
) -> tuple[Replays, Diagnosis, str]:
    """Explain a robot that replayed a round's probe, against the family that the round assumed; write explanation.json,
    with which `answer_round` begins.

    Args:
        folder: of the round.
        found: the round, with probe and replays.
        divergence: what the simulated replays are to be enough for; by default there is one.
        bank: how much is simulated.
        seed: of all that is.

    Returns:
        The replays, the diagnosis, and a sentence for the ledger's notes.

    Raises:
        BadInput: what `read_replays` refuses.
        ArtifactError: a probe or a trace that cannot be read.
    """
    folder, size = Path(folder), bank or BankConfig()
    assert found.settings.probe is not None
    assert found.settings.replays is not None
    probe = Probe.read(folder / found.settings.probe)
    family = completed(probe.task, found.family)
    logged = read_replays(probe, folder / found.settings.replays, family, config=divergence, seed=seed)
    signatures = SignatureBank.make(
        probe, CAUSES, repeats=logged.real.repeats, null=size.null, each=size.each, channels=tuple(logged.real.values),
        family=family, seed=seed,
    )  # fmt: skip
    diagnosis = diagnose(signatures, logged.real, trials=found.trials)[0]
    write_json(folder / EXPLANATION, diagnosis.to_json() | {"evidence": evidence_hash(folder, found)})
    return logged, diagnosis, f"The probe's replays: {_said(diagnosis)}."


def _said(diagnosis: Diagnosis) -> str:
    if not diagnosis.seen:
        return "nothing that the family does not do"
    ranked = sorted(diagnosis.causes.items(), key=lambda item: -item[1])[:3]
    return "explained by " + ", ".join(f"{name} ({p:.0%})" for name, p in ranked)
