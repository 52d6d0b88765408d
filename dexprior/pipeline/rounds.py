"""A policy's trials in two simulated worlds as a round's folder: what a person fills in by hand for a robot.

`dexprior ledger plan`, `add` and `update` read it like any other round.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dexprior.artifacts import write_atomic, write_json
from dexprior.data.traces import write_trace
from dexprior.envs.messages import task_to_plain
from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.families import ParameterFamily, actuation, servos
from dexprior.pipeline.stages import trained_sensors
from dexprior.policy.rollout import Episodes, Policy, run_episodes
from dexprior.transfer.diagnosis import BankConfig, Diagnosis
from dexprior.transfer.replay import Probe, replay, until_touched
from dexprior.transfer.rounds import COLUMNS, explain_replays, read_round, write_template
from dexprior.types import Channel, Trace
from dexprior.worlds.tasks import Task

__all__ = ["REAL", "SIM", "Tried", "explain_round", "path_known", "policy_probe", "write_round"]

SIM, REAL = "simulator", "other world"
"""Names of the worlds."""
REPEATS = 3
"""Repeats of the probe in the other world."""
BANK = BankConfig(null=80, each=10)
"""Signatures for a diagnosis within a run: ten CPU-seconds; the defaults of `ledger add` take four times as long."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One policy on one panel in both worlds."""

    task: Task
    policy: Path
    """Its folder."""
    act: Policy
    panel: Panel
    """Panel in the training world."""
    family: ParameterFamily
    """What that world assumes."""
    sim: Episodes
    real: Episodes


def path_known(task: Task, family: ParameterFamily) -> ParameterFamily:
    """A family for two simulated worlds: delay, play and servos, where it does not name them, are the same in both."""
    ideal = (*actuation(delay=(0.0, 0.0), backlash=(0.0, 0.0)), *servos(stiffness=(1.0, 1.0), damping=(1.0, 1.0)))
    return family.extended(*(p for p in ideal if p.name not in family.names), name=family.name)


def policy_probe(tried: Tried) -> Probe:
    """What a policy does in the middle of its family, to be replayed as commands: in the first instance that the
    simulator solves and the other world does not, or else the first that it solves, until after the first touch."""
    lost, won = tried.sim.success & ~tried.real.success, tried.sim.success
    shown = int(np.argmax(lost if lost.any() else won))
    one = tried.panel.take([shown])
    middle = Panel(
        "probe", one.task, tried.family, one.scenes, tried.family.medians()[None], one.seeds
    )  # fmt: skip
    episodes = run_episodes(
        tried.act, SimBackend(tried.task, 1, family=tried.family, sensors=trained_sensors(tried.policy)), middle
    )
    actions = np.clip(episodes.action[:, 0], -1.0, 1.0)
    steps = round(tried.task.control_dt / tried.task.layout().spec.option.timestep)
    probe = Probe(task=tried.task, scene=dict(one.scenes), actions=actions, every=1 if steps % 2 else 2)
    return until_touched(probe, tried.family)


def write_round(tried: Tried, folder: Path, *, seed: int) -> None:
    """Write `round.yaml`, `trials.csv`, `family.json`, `probe.json` and the probe's replays in the other world.

    Args:
        tried: what happened.
        folder: of the round; files of these names are written anew.
        seed: of the replays' noise.
    """
    probe, family = policy_probe(tried), path_known(tried.task, tried.family)
    shutil.rmtree(folder / "replays", ignore_errors=True)
    for name in ("round.yaml", "trials.csv"):
        (folder / name).unlink(missing_ok=True)
    write_template(
        folder,
        {
            "round": "1", "policy": os.path.relpath(tried.policy, folder), "task": tried.task.name,
            "panel": tried.panel.hash, "sim": SIM, "real": REAL, "family": "family.json", "probe": "probe.json",
            "replays": "replays",
        },
    )  # fmt: skip
    write_atomic(folder / "trials.csv", _trials(tried).encode())
    write_json(folder / "family.json", family.to_json())
    probe.save(folder / "probe.json", settings=task_to_plain(tried.task)["settings"])
    there, reality = replace(probe, task=tried.task.other()), tried.task.reality
    logged = replay(there, reality, reality.medians()[None], repeats=REPEATS, seed=seed)
    (folder / "replays").mkdir()
    for k in range(REPEATS):
        channels = {
            name: Channel(
                t=logged.t, t_host=logged.t, value=x[0, k], unit=logged.units[name], frame="-", kind="measured"
            )
            for name, x in logged.values.items()
        }
        write_trace(Trace(channels=channels, panel_hash=probe.panel_hash), folder / "replays" / f"{k}.mcap")


def explain_round(folder: Path, *, seed: int) -> tuple[Diagnosis, str]:
    """Which gap explains a folder of `write_round`; also writes `diagnosis.json` and `explanation.json`."""
    _, diagnosis, said = explain_replays(folder, read_round(folder), bank=BANK, seed=seed)
    write_json(folder / "diagnosis.json", diagnosis.gaps)
    return diagnosis, said


def _trials(tried: Tried) -> str:
    text = io.StringIO()
    sheet = csv.DictWriter(text, list(COLUMNS), lineterminator="\n", restval="")
    sheet.writeheader()
    for world, episodes in ((SIM, tried.sim), (REAL, tried.real)):
        for k, (success, held) in enumerate(zip(episodes.success, episodes.held)):
            row = {"world": world, "instance": k, "success": int(success), "held": int(held)}
            row["phase"] = "" if success else "hold" if held else "contact"
            sheet.writerow(row | {"slip_rate": f"{episodes.slip_rate[k]:.6f}"})
    return text.getvalue()
