"""The answer to a round of a task of the suite: its family fitted to the replays, and the next round's folder.

answer = answer_round("runs/round-1", "runs/round-2", seed=0)
answer["success"]      # of the task's expert on one panel, over the family before and after
"""

from __future__ import annotations

import fnmatch
import shutil
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Bool, Float
from tqdm import tqdm

from dexprior.artifacts import make_header, read_object, write_json
from dexprior.config import Ge, Gt, config
from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.envs.tasks import play, player_of
from dexprior.errors import ArtifactError, BadInput
from dexprior.families import ParameterFamily
from dexprior.reading import as_described, flag, mapping, number
from dexprior.stats import Rate, compare_pairs
from dexprior.transfer.conditioning import ConditioningConfig, SamplerConfig
from dexprior.transfer.diagnosis import UNKNOWN, cause_of, completed
from dexprior.transfer.replay import Probe, until_touched
from dexprior.transfer.rounds.adding import EXPLANATION, evidence_hash, read_replays
from dexprior.transfer.rounds.reading import Round, read_round, write_template
from dexprior.transfer.summaries import moving, observations_of, predict, whitened
from dexprior.transfer.updating import UpdateConfig, blamed_parameters, update_family
from dexprior.worlds.tasks import SUITE, Task, expert_of

__all__ = ["AnswerConfig", "answer_round"]

_SCHEMA = "dexprior.round-update/1"
_FAMILY, _PROBE = "family.json", "probe.json"
_NEXT = 1e-6  # [s] by which the last sample may come early
Retrain = Callable[[Path], dict[str, Any]]
"""File of a family -> entries of `update.json`: `policy`, which acts in the next round, `player`, `success`,
`comparison` and `left_to_do`."""


@config
class AnswerConfig:
    """How a round is answered."""

    window: Annotated[float, Gt(0.1)] | None = None
    """Length of the replays to which parameters are fitted [s]; by default until 0.8 s after the first touch: later,
    contacts have diverged."""
    others: Annotated[int, Ge(8)] = 48
    """Draws of the parameters that are not blamed: what they do counts as noise."""
    panel: Annotated[int, Ge(2)] = 32
    """Instances on which the family before and after are compared."""
    player: Literal["expert", "random", "still"] = "expert"
    """Who is let act on them where no policy is trained again: the task's `expert`, `random` or `still`."""
    update: UpdateConfig = UpdateConfig(
        conditioning=ConditioningConfig(sampler=SamplerConfig(particles=32, moves=8), population=8, evaluations=48)
    )
    """How the family follows the traces."""


def answer_round(
    folder: str | Path,
    out: str | Path,
    settings: AnswerConfig | None = None,
    *,
    retrain: Retrain | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Fit what a round's diagnosis blames, and write the next round's folder.

    `out` then holds `family.json`, the probe, `round.yaml` with what was done, an empty `trials.csv` and `update.json`:
    the fit, success of who acts before and after, and what is left to do.

    Args:
        folder: of a round that `add_round` has read.
        out: of the next one; new.
        settings: the defaults if None.
        retrain: given the file of the new family, trains who acts again; without it a player plays over both families.
        seed: of fit and panel.

    Raises:
        BadInput: `out` holds a round; a round without family, probe or replays, or of another task; replays that show
            nothing, or what no parameter stands for.
        UnknownName: a parameter that the task does not have.
        ArtifactError: a round without an explanation, or a damaged one.
    """
    settings = settings or AnswerConfig()
    folder, out = Path(folder), Path(out)
    if (out / "round.yaml").exists() or (out.exists() and not out.is_dir()):  # before minutes are spent on a fit
        raise BadInput(f"out={out} exists{' and holds a round' if out.is_dir() else ''}; choose another folder")
    found = read_round(folder)
    given = found.settings
    for name in ("family", "probe", "replays"):
        if getattr(given, name) is None:
            raise BadInput(f"{folder / 'round.yaml'}: {name} is not given; the family is fitted to replays of a probe")
    probe = Probe.read(folder / str(given.probe))
    if given.task in SUITE and given.task != probe.task.name:
        raise BadInput(f"{folder / 'round.yaml'}: task is {given.task!r}, its probe is of {probe.task.name!r}")
    if retrain is None and settings.player == "expert":
        expert_of(probe.task.name)  # a task without one is named before the fit
    assert found.family is not None
    whole = completed(probe.task, found.family)
    causes = _causes(folder, found, whole, settings.update)
    real = read_replays(probe, folder / str(given.replays), whole, seed=seed).real
    channels = tuple(real.values)
    window = settings.window or len(until_touched(probe, whole).actions) * probe.task.control_dt - _NEXT
    blamed = moving(probe, whole, blamed_parameters(whole, causes, settings.update), window=window, channels=channels)
    if not blamed:
        raise BadInput(f"{folder}: none of what the diagnosis blames moves anything in {', '.join(channels)}")
    simulate = partial(predict, probe, whole, window=window, channels=channels)
    others = whole.sample(np.random.default_rng([seed, 1]), settings.others)
    for name in blamed:
        others[:, whole.names.index(name)] = whole.medians()[whole.names.index(name)]
    seen, W = whitened(observations_of(real, window), simulate(others))
    out.mkdir(parents=True, exist_ok=True)
    with tqdm(desc="fit", unit="replay") as bar:  # how many it takes is not known before

        def whitened_replays(values: Float[np.ndarray, "n parameter"]) -> Float[np.ndarray, "n number"]:
            found = simulate(values) @ W.T
            bar.update(len(values))
            return found

        update = update_family(
            whole, seen, simulate=whitened_replays, blamed=blamed, settings=settings.update, seed=seed
        )
    named = {*found.family.names, *blamed}
    family = ParameterFamily(
        update.family.name, tuple(p for p in update.family.parameters if p.name in named), update.family.density
    )
    write_json(out / _FAMILY, family.to_json())
    shutil.copyfile(folder / str(given.probe), out / _PROBE)
    if retrain is not None:
        answer = retrain(out / _FAMILY)
    else:
        answer = _played(probe.task, whole, family, settings, seed)
        answer |= {"policy": given.policy, "left_to_do": _left(given.policy, probe.task, out)}
    result = {
        "header": asdict(make_header(_SCHEMA, producer="ledger update")),
        "round": given.round, "task": probe.task.name, "blamed": list(blamed), "actions": list(update.actions),
        "found": update.as_dict(), **answer,
        "trials": {name: world["k"] / world["n"] for name, world in found.ledger.to_json()["success"].items()},
    }  # fmt: skip
    write_json(out / "update.json", result)
    write_template(  # last: a folder with a round.yaml has all that it names
        out,
        {
            "round": _next(given.round), "policy": answer["policy"], "task": given.task, "panel": given.panel,
            "sim": given.sim, "real": given.real, "family": _FAMILY, "probe": _PROBE, "replays": "replays",
            "actions": update.actions, "assumptions": given.assumptions,
        },
    )  # fmt: skip
    return result


def _causes(folder: Path, found: Round, family: ParameterFamily, settings: UpdateConfig) -> dict[str, float]:
    """Probabilities of the causes, where they show something that a free parameter stands for."""
    path = folder / EXPLANATION
    if not path.is_file():
        raise ArtifactError(
            f"{path} does not exist; `dexprior ledger add {folder}` writes it where a probe was replayed"
        )
    data = read_object(path, "an explanation of `dexprior ledger add`")
    with as_described("an explanation of `dexprior ledger add`", path, ArtifactError):
        causes = {
            name: number(p, f"{path}: {name}", low=0.0, high=1.0)
            for name, p in mapping(data["causes"], f"{path}: causes").items()
        }
        seen, evidence = flag(data["seen"], f"{path}: seen"), data["evidence"]
    if evidence != evidence_hash(folder, found):
        raise BadInput(
            f"{path} explains other replays, or another probe or family, than lie beside it; `dexprior ledger add "
            f"{folder}` writes it anew"
        )
    if not seen:
        raise BadInput(f"{folder}: its replays show nothing that the family does not do; there is nothing to fit")
    name = max((c for c in causes if c != UNKNOWN), key=lambda c: causes[c], default=UNKNOWN)
    if name == UNKNOWN or causes[name] < settings.blame:
        return causes
    cause = cause_of(name)
    moved = [p for p in family.parameters if fnmatch.fnmatchcase(p.target, cause.target)]
    if all(p.fixed for p in moved):
        fixed = f"{', '.join(p.name for p in moved)} is fixed in its family: give it a support, or " if moved else ""
        raise BadInput(
            f"{folder}: the diagnosis blames {name!r} ({causes[name]:.0%}), which no free parameter stands for; {fixed}"
            "correct it on the robot (sensors: `dexprior ledger fit-noise`)"
        )
    return causes


def _played(
    task: Task, before: ParameterFamily, after: ParameterFamily, settings: AnswerConfig, seed: int
) -> dict[str, Any]:
    """Success of a player over both families."""
    solved = [_solved(task, family, settings, seed) for family in (before, completed(task, after))]
    comparison = compare_pairs(solved[1], solved[0], names=("after", "before"))
    success = {"before": _rate(solved[0]), "after": _rate(solved[1])}
    return {"player": settings.player, "success": success, "comparison": comparison.as_dict()}


def _left(policy: str, task: Task, out: Path) -> str:
    if policy == "expert":
        return f"the expert is scripted and needs no training; try it on the robot and fill in {out}"
    return (
        f"{policy!r} is no folder of a policy: train it again over {out / _FAMILY} yourself (`dexprior train-policy "
        f"task={task.name} family={out / _FAMILY}`), then fill in {out}"
    )


def _solved(task: Task, family: ParameterFamily, settings: AnswerConfig, seed: int) -> Bool[np.ndarray, " n"]:
    """Whether the player solves each instance of one panel, whatever the family."""
    panel = Panel.sample("update", task, settings.panel, seed=seed, family=family)
    backend = SimBackend(task, settings.panel, family=family)
    backend.reset(panel)
    return play(backend.worlds, player_of(settings.player, backend.worlds, seed=seed)).solved


def _rate(solved: Bool[np.ndarray, " n"]) -> dict[str, Any]:
    return Rate(int(solved.sum()), len(solved)).as_dict()


def _next(name: str) -> str:
    return str(int(name) + 1) if name.isdigit() else f"{name}, updated"
