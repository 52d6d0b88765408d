"""The mini-lab as a whole: train, find the gap, update, and look whether the gap closed.

first = first_round(LabConfig(), seed=0)
after = next_round(first, by="family")
after.comparison        # success in the other world, after against before, on the same instances
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import RunFolder, write_json
from dexprior.envs.panel import Panel
from dexprior.errors import UnknownName
from dexprior.stats import Comparison, compare_pairs
from dexprior.studies.mini_lab.gait import GAIT
from dexprior.studies.mini_lab.page import draw_success, success_over_friction
from dexprior.studies.mini_lab.recovering import learn_recovery
from dexprior.studies.mini_lab.rounds import LabRound, lab_task, play_round, read_lab_round, save_round
from dexprior.studies.mini_lab.settings import LabConfig
from dexprior.studies.mini_lab.trials import episodes, gait_policy, train_gait
from dexprior.studies.mini_lab.worlds import assumed_family, levels
from dexprior.transfer.page import Page, ledger_section
from dexprior.transfer.summaries import observations_of, predict
from dexprior.transfer.updating import blamed_parameters, update_family
from dexprior.worlds.tasks import Player, TaskWorlds

__all__ = ["By", "Updated", "first_round", "next_round", "run_lab", "untrained", "update_folder"]

By = Literal["family", "recovery"]
"""How a round is answered: fit the family and train again, or back off and let a second gait retry."""


@dataclass(frozen=True, kw_only=True)
class Updated:
    """A round's answer, played."""

    round: LabRound
    policy: Player
    """What acted in it."""
    comparison: Comparison
    """Success in the other world, after against before, on the same instances."""
    found: dict[str, Any]
    """What the update rests on: the fit, or monitor and second gait."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"held_out": self.comparison.as_dict(), "found": self.found, "actions": self.round.ledger["actions"]}


def untrained(config: LabConfig) -> Float[np.ndarray, " 7"]:
    """The gait from which training starts."""
    return np.full(len(GAIT), config.training.start)


def first_round(config: LabConfig, *, seed: int) -> LabRound:
    """Train at the simulator's frictions and look what the held-out one does.

    Args:
        config: sizes.
        seed: of everything.
    """
    task = lab_task()
    family = assumed_family(task, config)
    shares, _ = train_gait(
        task, family, levels(family, config.frictions), start=untrained(config), settings=config.training,
        seconds=config.seconds, seed=seed,
    )  # fmt: skip
    policy = gait_policy(shares, task.control_dt)
    return play_round(1, policy, shares, family, config, frictions=config.frictions, seed=seed)


def next_round(before: LabRound, *, by: By = "family") -> Updated:
    """Answer a round and play the next one, on the same panel.

    Args:
        before: the round.
        by: how it is answered.

    Raises:
        UnknownName: no such answer.
    """
    if by not in get_args(By):
        raise UnknownName("answer to a round", by, get_args(By))
    after, policy, found = (_by_family if by == "family" else _by_recovery)(before)
    comparison = compare_pairs(
        after.success["real"], before.success["real"], names=(f"round {after.number}", f"round {before.number}"),
        panel=after.ledger["panel"],
    )  # fmt: skip
    return Updated(round=after, policy=policy, comparison=comparison, found=found)


def update_folder(folder: str | Path, out: str | Path, *, by: By = "family") -> Updated:
    """`next_round` of a round on disk; writes the next one's folder, with `update.json` beside its ledger.

    Args:
        folder: of a round.
        out: of the next one.
        by: how it is answered.

    Raises:
        ArtifactError: no round of the mini-lab.
        UnknownName: no such answer.
    """
    updated = next_round(read_lab_round(folder), by=by)
    save_round(updated.round, out)
    write_json(Path(out) / "update.json", updated.as_dict())
    return updated


def run_lab(config: LabConfig, out: str | Path, *, seed: int) -> dict[str, Any]:
    """Both rounds, with each answer, written to `round-1`, `round-2-family` and `round-2-recovery`; what came of it.

    Raises:
        ArtifactError: `out` holds a lab of another configuration or seed.
    """
    record = RunFolder(Path(out), stage="lab", config=config, seed=seed).open()
    if record.result is not None:
        return record.result
    out = record.path
    first = first_round(config, seed=seed)
    save_round(first, out / "round-1")
    answers = {by: update_folder(out / "round-1", out / f"round-2-{by}", by=by) for by in get_args(By)}
    result = {
        "seed": seed,
        "untrained": float(untrained_success(config, seed=seed).mean()),
        "round 1": {name: float(x.mean()) for name, x in first.success.items()},
        "success_gap": first.ledger["success_gap"]["value"],
        "diagnosis": first.ledger["diagnosis"],
        "earliest": first.ledger["earliest"]["first"],
    } | {
        f"round 2 by {by}": {name: float(x.mean()) for name, x in a.round.success.items()} | a.as_dict()
        for by, a in answers.items()
    }  # fmt: skip
    write_json(out / "lab.json", result)
    dt = lab_task().control_dt
    gaits = {"untrained": untrained(config), "round 1": first.shares}
    policies = {name: gait_policy(shares, dt) for name, shares in gaits.items()}
    policies |= {f"round 2 by {by}": answer.policy for by, answer in answers.items()}
    page = Page("Mini-lab", "A gap on a held-out friction, before and after the simulator follows the traces")
    page.section("Success over the friction of the fingertips")
    rates = success_over_friction(lab_task(), config, policies, seed=seed)
    page.figure(draw_success(rates, config), "16 instances at each friction, the same for all four")
    for played in (first, *(a.round for a in answers.values())):
        ledger_section(page, played.ledger)
    page.write(out / "lab.html")
    return record.finish(result)


def untrained_success(config: LabConfig, *, seed: int) -> np.ndarray:
    """Success of the gait that training starts from, on the panel at the simulator's frictions."""
    task = lab_task()
    family = assumed_family(task, config)
    panel = Panel.sample("lab", task, config.panel, seed=seed, family=family)
    values = np.resize(levels(family, config.frictions), (config.panel, len(family.names)))
    worlds = TaskWorlds(task, config.panel, family=family, threads=1)
    return episodes(
        worlds, gait_policy(untrained(config), task.control_dt), panel.scenes, values, config.seconds
    ).success  # fmt: skip


def _by_family(before: LabRound) -> tuple[LabRound, Player, dict[str, Any]]:
    """Fit what the diagnosis blames to the real replays, train again over the new family from the old gait."""
    config, task = before.config, before.probe.task
    update = update_family(
        before.family, observations_of(before.real, config.window),
        simulate=partial(predict, before.probe, before.family, window=config.window),
        blamed=blamed_parameters(before.family, before.causes, config.update), settings=config.update, seed=before.seed,
    )  # fmt: skip
    number = before.number + 1
    shares, cost = train_gait(
        task, update.family, levels(update.family, None), start=before.shares, settings=config.training,
        seconds=config.seconds, seed=before.seed + 1000 * number,
    )  # fmt: skip
    policy = gait_policy(shares, task.control_dt)
    after = play_round(
        number, policy, shares, update.family, config, frictions=None,
        actions=(*update.actions, f"trained the gait again over {update.family.name}, from the last round's"),
        seed=before.seed,
    )  # fmt: skip
    return after, policy, update.as_dict() | {"training_cost": cost}


def _by_recovery(before: LabRound) -> tuple[LabRound, Player, dict[str, Any]]:
    """The same gait, a retreat where less of the way is done than ever in the simulator, then a second gait."""
    found = learn_recovery(before)
    policy = found.policy(before)
    after = play_round(
        before.number + 1, policy, before.shares, before.family, before.config,
        frictions=before.config.frictions if before.number == 1 else None, seed=before.seed, actions=found.actions,
    )  # fmt: skip
    sim, real = policy.batches[:2]
    return after, policy, found.as_dict() | {"retreats": {"sim": sim, "real": real}}
