"""One round of the mini-lab: both worlds on one panel, where their traces part, what explains it; and its folder."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import read_object, read_tensors, write_json, write_tensors
from dexprior.config import to_plain, validate
from dexprior.envs.panel import Panel
from dexprior.errors import ArtifactError
from dexprior.families import ParameterFamily
from dexprior.reading import as_described
from dexprior.studies.mini_lab.settings import LabConfig
from dexprior.studies.mini_lab.trials import Outcomes, episodes
from dexprior.studies.mini_lab.worlds import FRICTION, other_family, probe_of
from dexprior.transfer.diagnosis import CAUSES, Diagnosis, SignatureBank, Trial, diagnose
from dexprior.transfer.divergence import DivergenceDetector, Signals, distance
from dexprior.transfer.ledger import Ledger, WorldResult
from dexprior.transfer.page import Page, ledger_section
from dexprior.transfer.replay import CHANNELS, Probe, replay
from dexprior.worlds.tasks import Player, Task, TaskWorlds, make_task

__all__ = ["LabRound", "lab_task", "play_round", "read_lab_round", "save_round"]

SCHEMA = "dexprior.lab-round/2"
_WIDE_TURN = np.pi / 2  # [rad] that separates small turns from large ones in the failures' signatures
_TALK_OF = 0.5  # mean slip rate above which failures are said to slip


@dataclass(frozen=True, kw_only=True)
class LabRound:
    """A round with everything that the next one rests on."""

    number: int
    config: LabConfig
    seed: int
    shares: Float[np.ndarray, " 7"]
    """The gait."""
    family: ParameterFamily
    """What the simulator assumed."""
    success: dict[str, np.ndarray]
    """Success of each instance, by world: `sim`, `real`."""
    causes: dict[str, float]
    probe: Probe
    real: Signals
    """Replays of the probe in the other world."""
    ledger: dict[str, Any]


def lab_task() -> Task:
    """The cube, as it ships."""
    return make_task("cube_in_hand")


def play_round(
    number: int,
    policy: Player,
    shares: Float[np.ndarray, " 7"],
    family: ParameterFamily,
    config: LabConfig,
    *,
    frictions: tuple[float, ...] | None,
    actions: tuple[str, ...] = (),
    seed: int,
) -> LabRound:
    """Compare the worlds.

    Args:
        number: of the round.
        policy: what acts.
        shares: of the gait in it.
        family: what the simulator assumes.
        config: sizes.
        frictions: that the simulator's instances take in turn; None leaves what the family draws.
        actions: what was done since the last round.
        seed: of panel, replays and bank; the panel is the same in every round.
    """
    task = lab_task()
    other = other_family(task, config)
    panels = {
        "sim": Panel.sample("lab", task, config.panel, seed=seed, family=family),
        "real": Panel.sample("lab", task, config.panel, seed=seed, family=other),
    }
    values = {name: panel.parameters.copy() for name, panel in panels.items()}
    if frictions is not None:
        values["sim"][:, family.names.index(FRICTION)] = np.resize(frictions, config.panel)
    done = {
        name: episodes(
            TaskWorlds(task, config.panel, family=panel.family, threads=1), policy, panel.scenes, values[name],
            config.seconds,
        )
        for name, panel in panels.items()
    }  # fmt: skip
    cases = np.flatnonzero(done["sim"].success & ~done["real"].success)
    shown = int(cases[0]) if len(cases) else 0
    scene = panels["sim"].take([shown]).scenes
    probe = probe_of(task, policy, family, scene, config.seconds)
    rng = np.random.default_rng([seed, number, 10])
    reference = replay(probe, family, family.sample(rng, config.groups), repeats=config.repeats, seed=seed, threads=1)
    real = replay(probe, other, other.medians()[None], repeats=config.repeats, seed=seed + 1, threads=1)
    detector = DivergenceDetector.fit(reference, config.divergence)
    divergences = tuple(tuple(row) for row in detector.compare(real, seed=seed))
    found = _diagnose(probe, real, done["real"], config, seed)
    both = done["sim"].success & done["real"].success
    late = done["real"].seconds[both] - done["sim"].seconds[both]
    ledger = Ledger(
        round=str(number), policy="gait" if number == 1 else "gait, updated", assumed=family,
        sim=_result("simulator", done["sim"], panels["sim"].hash),
        real=_result("other friction", done["real"], panels["real"].hash), divergences=divergences, timing_gap=late,
        distance=distance(real, reference), diagnosis=found.gaps, actions=actions,
        signatures=_signatures(done["real"], np.asarray(panels["real"].scenes["turn"])),
        cases=tuple(str(k) for k in cases),
        notes=(
            f"The other world is simulated too; its fingertips have a friction of {config.held_out:g}. No hardware "
            "was used.",
            f"Traces are of instance {shown}: the commands of the policy in the middle of the family, replayed. Slip "
            "is that of a tracker.",
        ),
    )  # fmt: skip
    return LabRound(
        number=number, config=config, seed=seed, shares=shares, family=family,
        success={name: o.success for name, o in done.items()}, causes=found.causes, probe=probe, real=real,
        ledger=ledger.to_json(),
    )  # fmt: skip


def save_round(played: LabRound, folder: str | Path) -> Path:
    """Write `ledger.json`, `ledger.html`, and what `read_lab_round` reads: `lab.json` and `lab.safetensors`."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "ledger.json", played.ledger)
    tensors = {f"real/{name}": x for name, x in played.real.values.items()}
    tensors |= {f"scene/{name}": np.asarray(x) for name, x in played.probe.scene.items()}
    tensors |= {f"success/{name}": x for name, x in played.success.items()}
    tensors |= {"t": played.real.t, "shares": played.shares, "actions": played.probe.actions}
    write_tensors(folder / "lab.safetensors", tensors, {"schema": SCHEMA})
    plain = {
        "schema": SCHEMA, "number": played.number, "seed": played.seed, "config": to_plain(played.config),
        "family": played.family.to_json(), "causes": played.causes, "every": played.probe.every,
        "scene": list(played.probe.scene),
    }  # fmt: skip
    write_json(folder / "lab.json", plain)
    page = Page("Mini-lab", "What the simulator promised of a learned gait, and what another friction gave")
    ledger_section(page, played.ledger)
    page.write(folder / "ledger.html")
    return folder


def read_lab_round(folder: str | Path) -> LabRound:
    """Inverse of `save_round`.

    Raises:
        ArtifactError: a file is missing, damaged, or of another schema.
    """
    folder = Path(folder)
    path = folder / "lab.json"
    if not path.is_file():
        raise ArtifactError(
            f"{folder} holds no round of the mini-lab: {path} does not exist; `dexprior ledger lab` writes one"
        )
    plain, ledger = read_object(path, "a round of the mini-lab", schema=SCHEMA), read_object(folder / "ledger.json")
    tensors, _ = read_tensors(folder / "lab.safetensors")
    with as_described("a round of the mini-lab", path, ArtifactError):
        return _round_of(path, plain, ledger, tensors)


def _round_of(path: Path, plain: dict[str, Any], ledger: dict[str, Any], tensors: dict[str, np.ndarray]) -> LabRound:

    def under(prefix: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}

    placed, logged = under("scene/"), under("real/")  # files keep no order, which the probe's hash and a fit rest on
    scene = {name: placed[name] for name in plain["scene"]}
    probe = Probe(task=lab_task(), scene=scene, actions=tensors["actions"], every=plain["every"])
    values, t = {name: logged[name] for name in CHANNELS if name in logged}, tensors["t"]
    shape = next(iter(values.values())).shape[:2]
    real = Signals(
        t=t, values=values, units={name: CHANNELS[name] for name in values}, panel_hash=probe.panel_hash,
        shifts=np.zeros(shape), until=np.full(shape[0], t[-1]),
    )  # fmt: skip
    return LabRound(
        number=plain["number"], config=validate(LabConfig, plain["config"], where=str(path)), seed=plain["seed"],
        shares=tensors["shares"], family=ParameterFamily.from_json(plain["family"]),
        success={name: x.astype(bool) for name, x in under("success/").items()}, causes=plain["causes"], probe=probe,
        real=real, ledger=ledger,
    )  # fmt: skip


def _result(name: str, done: Outcomes, panel_hash: str) -> WorldResult:
    return WorldResult(name, done.success, done.slip_rate, np.asarray(done.held.any(axis=0)), panel_hash)


def _diagnose(probe: Probe, real: Signals, done: Outcomes, config: LabConfig, seed: int) -> Diagnosis:
    bank = SignatureBank.make(
        probe, CAUSES, repeats=config.repeats, null=config.null, each=config.signatures, seed=seed
    )  # fmt: skip
    held = np.asarray(done.held.any(axis=0))
    trials = [
        Trial(success=bool(ok), phase=None if ok else "hold" if h else "contact") for ok, h in zip(done.success, held)
    ]
    return diagnose(bank, real, trials=trials)[0]


def _signatures(done: Outcomes, turn: Float[np.ndarray, " n"]) -> tuple[str, ...]:
    """What the other world's failures have in common, with counts."""
    failed = ~done.success
    if not failed.any():
        return ()
    kinds = np.select(
        [done.lost, ~done.held.any(axis=0), done.slip_rate > _TALK_OF], ["dropped", "never held", "slips while held"],
        "turned too slowly",
    )  # fmt: skip
    counts = Counter(kinds[failed].tolist())
    found = [f"{kind}: {k} of {failed.sum()} failures" for kind, k in counts.most_common()]
    wide = np.abs(turn) > _WIDE_TURN
    for name, rows in (("turns beyond 90 degrees", wide), ("turns up to 90 degrees", ~wide)):
        if rows.any():
            found.append(f"{name}: {int((failed & rows).sum())} of {int(rows.sum())} trials failed")
    return tuple(found)
